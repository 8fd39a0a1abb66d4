//! Files beside pictures: overviews and masks are no pictures, and others that are not copied are
//! named.

use crate::harness::Place;

#[test]
fn overviews_and_masks_beside_a_picture_are_left_out_with_a_remedy() {
    let place = Place::with(&["in/a.pgm", "in/a.pgm.ovr", "in/a.pgm.msk", "in/b.ovr"]);
    let ran = place.run("in --out out");
    ran.exits(0)
        .says("2 files of overviews or masks beside pictures")
        .says("1 *.msk, 1 *.ovr")
        .says("gdaladdo -ro");
    assert_eq!(place.tree("out"), ["a.pgm", "b.ovr"]);
    let json = place.run("in --out again --json").exits(0).json();
    assert_eq!(json["skipped"]["sidecar"], 2, "{json}");
    place.run("in --out asked --include * --include *.ovr").exits(0);
    assert_eq!(place.tree("asked"), ["a.pgm", "a.pgm.ovr", "b.ovr"]);
    place.run("in/a.pgm.msk --out named").exits(0);
    assert_eq!(place.tree("named"), ["a.pgm.msk"]);
}

#[test]
fn files_of_the_georeference_beside_a_picture_are_named_as_long_as_it_is_made() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm"]);
    for name in ["a.pgw", "a.pgm.aux.xml", "c.pgw", "c.prj", "notes.xml"] {
        place.file(format!("in/{name}"), "10\n0\n0\n-10\n500000\n4000000\n");
    }
    let ran = place.run("in --out out");
    ran.exits(0).says("2 files beside pictures").says("not copied: in/a.pgm.aux.xml, in/a.pgw;");
    let again = place.run("in --out out").exits(0).stdout();
    assert!(!again.contains("not copied"), "{again}");
    let alone = place.run("in/b.pgm --out out --overwrite").exits(0).stdout();
    assert!(!alone.contains("not copied"), "{alone}");
}
