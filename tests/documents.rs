//! The documentation for programs that read the JSON output: it must name everything that is
//! printed.

use histeqd::source::Skip;

use crate::harness::Place;

#[test]
fn every_key_of_json_is_documented() {
    let documented = include_str!("../docs/json.md");
    let place = Place::with(&["in/a.pgm"]);
    for arguments in [
        "in --out out --json --quiet --dry-run",
        "in --out out --json --resume --timings",
        "status out --json",
    ] {
        let printed: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&place.run(arguments).exits(0).stdout()).unwrap();
        assert!(printed.len() > 10, "{arguments}: {printed:?}");
        let inner = ["stages", "load"].map(|key| printed.get("timings").and_then(|timings| timings.get(key)));
        let inner =
            inner.into_iter().flatten().filter_map(|value| value.as_object()).flat_map(|map| map.keys());
        for key in printed.keys().chain(inner) {
            assert!(documented.contains(&format!("`{key}`")), "{key} of `histeqd {arguments}`");
        }
    }
    let explained = place.run("explain out/a.pgm --json").exits(0).json();
    for key in explained.as_object().unwrap().keys() {
        assert!(documented.contains(&format!("`{key}`")), "{key} of `histeqd explain`");
    }
    let table = place.run("histogram in --format json --bins 1").exits(0).json();
    for key in table[0].as_object().unwrap().keys() {
        assert!(documented.contains(&format!("`{key}`")), "{key} of `histeqd histogram`");
    }
}

#[test]
fn every_reason_to_pass_a_file_over_is_documented() {
    let documented = include_str!("../docs/json.md");
    let all = [
        Skip::AlreadyDone,
        Skip::NotAPicture,
        Skip::NotAFile,
        Skip::Link,
        Skip::LinkLoop,
        Skip::ListedFolder,
        Skip::Object(codec::Object::Dose),
        Skip::Object(codec::Object::ParametricMap),
    ];
    for why in all {
        let reason = serde_json::to_value(why).unwrap();
        assert!(documented.contains(&format!("`{}`", reason.as_str().unwrap())), "{reason}");
    }
}
