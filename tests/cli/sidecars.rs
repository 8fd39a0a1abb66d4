//! Files beside pictures: overviews and masks are no pictures, and others that are not copied are
//! named.

use crate::harness::{DULL, Place, skipped};
use crate::stacks::{Page, Storage, plain};

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

const PAM: &str = "<PAMDataset>\n  <GeoTransform>5, 1, 0, 9, 0, -1</GeoTransform>\n  <PAMRasterBand band=\"1\">\n    \
    <NoDataValue>0</NoDataValue>\n    <Metadata>\n      <MDI key=\"STATISTICS_MAXIMUM\">40</MDI>\n    </Metadata>\n  \
    </PAMRasterBand>\n</PAMDataset>\n";

#[test]
fn copies_of_sidecars_lie_beside_outputs_under_their_names() {
    let place = Place::with(&["in/a.pgm", "in/sub/b.pgm", "in/sub/b.pgm.msk", "in/sub/b.pgm.ovr"]);
    for name in ["a.pgw", "a.pgm.xmp", "a.prj", "sub/b.xmp", "sub/b_RPC.TXT", "c.prj", "notes.xml"] {
        place.file(format!("in/{name}"), name);
    }
    place.file("in/a.pgm.aux.xml", PAM);
    let only = "<PAMDataset><PAMRasterBand band=\"1\"><Histograms><HistItem/></Histograms></PAMRasterBand></PAMDataset>";
    place.file("in/sub/b.pgm.aux.xml", only);
    let ran = place.run("in --out out --sidecars copy");
    assert!(!ran.exits(0).stdout().contains("not copied"), "{}", ran.stdout());
    let copied = ["a.pgm", "a.pgm.aux.xml", "a.pgm.xmp", "a.pgw", "a.prj"];
    let below = ["sub/b.pgm", "sub/b.pgm.msk", "sub/b.xmp", "sub/b_RPC.TXT"];
    assert_eq!(place.tree("out"), [&copied[..], &below].concat());
    assert_eq!(place.read("out/sub/b.xmp"), b"sub/b.xmp");
    assert_eq!(place.read("out/sub/b.pgm.msk"), DULL, "masks have no contrast");
    let pam = String::from_utf8(place.read("out/a.pgm.aux.xml")).unwrap();
    assert!(pam.contains("<GeoTransform>5") && pam.contains("<NoDataValue>"), "{pam}");
    assert!(!pam.contains("STATISTICS"), "{pam}");

    place.run("in/a.pgm --out named/x.png --sidecars copy").exits(0);
    assert_eq!(place.tree("named"), ["x.pgw", "x.png", "x.png.aux.xml", "x.png.xmp", "x.prj"]);
    place.file("pages/p.tif", plain(&[Page::new(0, 9, 9), Page::new(1, 9, 9)], Storage::Stored));
    place.file("pages/p.tfw", "world");
    let split = "pages --out split --frames split --sidecars copy";
    place.run(split).exits(0).says("not copied: pages/p.tfw;");
    // The pages are done now.
    place.run(split).exits(0);
    assert_eq!(place.tree("split"), ["p/p-00001.tif", "p/p-00002.tif"]);
    place.run("in --out s3://bucket/out --sidecars copy").exits(2).says("--sidecars copy");
    place.run("in/a.pgm --out - --sidecars copy").exits(2).says("--sidecars copy");
    place.run("--watch in --out watched --sidecars copy").exits(2).says("is for runs that end");
}

#[test]
fn a_changed_sidecar_is_copied_again_and_files_of_others_stay() {
    let place = Place::with(&["in/a.pgm"]);
    place.file("in/a.xmp", "first");
    place.run("in --out out --sidecars copy").exits(0);
    assert_eq!(place.read("out/a.xmp"), b"first");
    place.file("in/a.xmp", "second");
    place.file("in/a.prj", "projection");
    place.file("out/a.prj", "another's");
    let ran = place.run("in --out out --sidecars copy");
    ran.exits(0)
        .says("Skipped: 1 already done")
        .says("in/a.prj is not copied")
        .says("another file of that name");
    assert_eq!(place.read("out/a.prj"), b"another's");
    assert_eq!(place.tree("out"), ["a.pgm", "a.prj", "a.xmp"]);
    if rustix::fs::lgetxattr(place.path("out/a.pgm"), "user.histeqd", &mut [0; 64][..]).is_ok() {
        assert_eq!(place.read("out/a.xmp"), b"second");
        place.file("out/a.xmp", "edited");
        place.file("in/a.xmp", "third");
        place.run("in --out out --sidecars copy").exits(0).says("in/a.xmp is not copied");
        assert_eq!(place.read("out/a.xmp"), b"edited");
    }
    place.file("in/broken.pgm", DULL);
    place.file("in/broken.pgm.aux.xml", "<PAMDataset>");
    place.run("in --out out --sidecars copy").exits(0).says("in/broken.pgm.aux.xml is not copied");
}

#[test]
fn gdal_reads_the_georeference_beside_an_output_as_beside_the_input() {
    if !std::process::Command::new("gdalinfo").arg("--version").output().is_ok_and(|ran| ran.status.success())
    {
        return skipped("no gdalinfo");
    }
    let place = Place::with(&["in/a.pgm"]);
    place.run("in --out in2 --format png").exits(0);
    place.file("in2/a.pgw", "10\n0\n0\n-10\n500000\n4000000\n");
    place.run("in2 --out out --sidecars copy --format tiff").exits(0);
    let told = place.command("gdalinfo", ["out/a.tif"]).output().unwrap();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("Origin = (499995.0") && told.contains("Pixel Size = (10.0"), "{told}");
}

#[test]
fn a_copy_is_of_one_sidecar_and_metadata_to_parse_are_short() {
    let place = Place::with(&["x/a.pgm", "y/a.png"]);
    place.file("x/a.prj", "X");
    place.file("y/a.prj", "Y");
    place.file("x/a.pgm.aux.xml", format!("<P {}/>", "a=\"\" ".repeat(1 << 20)));
    let ran = place.run("x y --out out --sidecars copy");
    ran.exits(0)
        .says("a.prj is not copied: out/a.prj is another file of that name")
        .says("and 262144 is the limit");
    // That of the other one is kept as it is.
    let first = place.read("out/a.prj");
    place.run("x y --out out --sidecars copy").exits(0).says("a.prj is another file");
    assert_eq!(place.read("out/a.prj"), first);
}
