//! Completions and manual pages.

use crate::harness::Place;

#[test]
fn shells_complete_what_there_is_and_nothing_hidden() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.run(&format!("completions {shell}"));
        script
            .exits(0)
            .is_silent()
            .prints("clip-limit")
            .prints("per-channel")
            .prints("histogram")
            .prints("microscopy");
        assert!(!script.stdout().contains("histeqd process"), "{shell} shows the workers");
        assert!(!script.stdout().contains("subcmd__worker"), "{shell} shows the workers");
    }
    place.run("completions tcl").exits(2).says("invalid value 'tcl'");
}

#[test]
fn every_command_has_a_manual_page() {
    let place = Place::new();
    place.run("man share/man1").exits(0).is_silent();
    let pages = place.tree("share/man1");
    for command in ["", "-bench", "-devices", "-histogram", "-presets", "-retry", "-status"] {
        assert!(pages.contains(&format!("histeqd{command}.1")), "{command}: {pages:?}");
    }
    assert!(!pages.iter().any(|page| page.contains("worker")), "{pages:?}");
    let page = String::from_utf8(place.read("share/man1/histeqd.1")).unwrap();
    for words in [".TH histeqd 1", "clip\\-limit", "histeqd\\-status(1)", ".SH NOTES\n.nf\n", "Exit codes:"] {
        assert!(page.contains(words), "{words} is not in {page}");
    }
    place.file("taken", "");
    place.run("man taken").exits(3).says("error: the manual in taken cannot be written: ");
}
