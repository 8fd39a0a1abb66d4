//! The page of a run, `--report`.

use std::fs;

use crate::browser::{HOME, Page};
use crate::harness::{Place, other_readers_agree, project};

#[test]
fn a_page_shows_what_a_run_did_and_needs_nothing_else() {
    let place = Place::with(&["in/<img src=x onerror='broken()'>&\u{202e}.png", "in/a.png"]);
    place.file(
        "in/b/moves.png",
        fs::read(project().join("tests/data/animations/dispose-region.png")).unwrap(),
    );
    place.file("in/broken <b>.png", b"\x89PNG\r\n\x1a\n and no more");
    place.run("in --out out --strength 0.5 --report out/report.html").exits(1);
    let html = String::from_utf8(place.read("out/report.html")).unwrap();
    for wanted in [
        "3 pictures",
        "strength 0.5",
        "Failed: 1",
        "; frame 1 of ",
        "Failed</h2>",
        "Histogram before, from dark to light",
    ] {
        assert!(html.contains(wanted), "{wanted}\n{html}");
    }
    assert_eq!(html.matches("src=\"data:image/jpeg;base64,").count(), 6);
    assert!(!html.contains("<img src=x") && !html.contains("<b>.png") && !html.contains('\u{202e}'));
    let Some(page) = Page::open(&format!("file://{}", place.path("out/report.html").display())) else {
        return;
    };
    page.wait("[...document.images].length === 6");
    page.wait("[...document.images].every(image => { image.loading = 'eager'; return image.complete && image.naturalWidth > 0; })");
    let clip = "getComputedStyle(document.querySelector('img.after')).clipPath";
    let halves = page.evaluate(clip);
    page.type_into("input", HOME);
    page.wait(&format!("{clip} !== {halves}"));
    assert!(page.text("body").contains("broken"), "{}", page.text("body"));
    page.resize(340, 700);
    page.wait("document.documentElement.scrollWidth <= window.innerWidth");
}

#[test]
fn a_page_is_of_one_run_that_ends_and_writes() {
    let place = Place::with(&["in/a.png"]);
    for flags in ["--watch", "--dry-run"] {
        place.run(&format!("in --out out --report page.html {flags}")).exits(2).says("cannot be used with");
    }
    place.run("in --out out --report s3://b/page.html").exits(2).says("is a URL");
    place
        .run("in --out out --report in/a.png")
        .exits(2)
        .says("in/a.png: the name of the page must end in .html");
    assert_eq!(place.tree("out"), [""; 0]);
    place.run("in --out out --report none/page.html").exits(0);
    assert!(place.tree("none") == ["page.html"], "its folder is made, and nothing else is left");
    place.file("file", "");
    place.run("in --out other --report file/page.html").exits(3).says("file");
    assert!(place.tree("other").is_empty(), "that is found out before anything is done");
}

#[test]
fn previews_have_the_colours_of_the_files_in_every_format_and_are_upright() {
    other_readers_agree("previews");
}

#[test]
fn a_page_of_a_run_that_finds_all_done_shows_what_is_there_and_others_name_it() {
    let place = Place::with(&["in/a.png", "in/b/c.png"]);
    place.run("in --out out --report first.html").exits(0);
    place.run("in --out out --report again.html").exits(0).says("Skipped: 2 already done");
    let page = |name: &str| String::from_utf8(place.read(name)).unwrap();
    let (first, again) = (page("first.html"), page("again.html"));
    for page in [&first, &again] {
        assert_eq!(page.matches("src=\"data:image/jpeg;base64,").count(), 4, "{page}");
        assert!(page.contains("c.png</b> <span class=\"folder\">in/b/</span>"), "{page}");
    }
    assert_eq!(again.matches("done by an earlier run").count(), 2);
    place.file("in/new.png", place.read("in/a.png"));
    place.run("in --out out --report third.html").exits(0);
    let third = page("third.html");
    assert_eq!(third.matches("src=\"data:image/jpeg;base64,").count(), 2, "{third}");
    assert!(third.contains("<h2>Done before</h2>") && third.contains("<th>in/b/c.png</th>"), "{third}");
    place.run("in --out out --resume --quiet").exits(0);
    place.run("in --out out --resume --report resumed.html").exits(0);
    assert_eq!(page("resumed.html").matches("src=\"data:image/jpeg;base64,").count(), 6);
}
