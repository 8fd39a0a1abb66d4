//! What the documents promise to programs.

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
        for key in printed.keys() {
            assert!(documented.contains(&format!("`{key}`")), "{key} of `histeqd {arguments}`");
        }
    }
}
