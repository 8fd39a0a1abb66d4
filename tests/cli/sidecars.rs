//! Files beside pictures: overviews and masks are no pictures, and others that are not copied are
//! named.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

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

/// Metadata of GDAL that are all of the old pixels.
const STATISTICS: &str =
    "<PAMDataset><PAMRasterBand band=\"1\"><Histograms><HistItem/></Histograms></PAMRasterBand></PAMDataset>";

#[test]
fn copies_of_sidecars_lie_beside_outputs_under_their_names() {
    let place = Place::with(&["in/a.pgm", "in/sub/b.pgm", "in/sub/b.pgm.msk", "in/sub/b.pgm.ovr"]);
    for name in ["a.pgw", "a.pgm.xmp", "a.prj", "sub/b.xmp", "sub/b_RPC.TXT", "c.prj", "notes.xml"] {
        place.file(format!("in/{name}"), name);
    }
    place.file("in/a.pgm.aux.xml", PAM);
    place.file("in/sub/b.pgm.aux.xml", STATISTICS);
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
    ran.exits(1)
        .says("Skipped: 1 already done")
        .says("in/a.prj: it is not copied: out/a.prj is another file of that name")
        .says("Failed: 1, 1 of them a sidecar file that was not copied");
    assert_eq!(place.read("out/a.prj"), b"another's");
    assert_eq!(place.tree("out"), ["a.pgm", "a.prj", "a.xmp"]);
    if rustix::fs::lgetxattr(place.path("out/a.pgm"), "user.histeqd", &mut [0; 64][..]).is_ok() {
        assert_eq!(place.read("out/a.xmp"), b"second");
        fs::remove_file(place.path("out/a.prj")).unwrap();
        place.file("out/a.xmp", "edited");
        place.run("in --out out --sidecars copy").exits(0);
        place.file("in/a.xmp", "third");
        place.run("in --out out --sidecars copy").exits(1).says("in/a.xmp: it is not copied");
        assert_eq!(place.read("out/a.xmp"), b"edited");
        place.file("in/a.pgm.aux.xml", PAM);
        place.run("in --out out --sidecars copy").exits(1);
        place.file("in/a.pgm.aux.xml", STATISTICS);
        let ran = place.run("in --out out --sidecars copy");
        ran.exits(1).says(
            "in/a.pgm.aux.xml: it is not copied: nothing is left of it to copy; \
             remove out/a.pgm.aux.xml, its old copy",
        );
        fs::remove_file(place.path("out/a.pgm.aux.xml")).unwrap();
        let ran = place.run("in --out out --sidecars copy");
        assert!(!ran.exits(1).stderr().contains("aux.xml"), "{ran}");
    }
    place.file("in/broken.pgm", DULL);
    place.file("in/broken.pgm.aux.xml", "<PAMDataset>");
    place.run("in --out out --sidecars copy").exits(1).says("in/broken.pgm.aux.xml: it is not copied");
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
    ran.exits(1)
        .says("a.prj: it is not copied: out/a.prj is another file of that name")
        .says("and 262144 is the limit");
    // That of the other one is kept as it is.
    let first = place.read("out/a.prj");
    place.run("x y --out out --sidecars copy").exits(1).says("a.prj is another file");
    assert_eq!(place.read("out/a.prj"), first);
}

#[test]
fn sidecars_have_their_names_in_any_case_and_every_world_file_has_a_copy() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm"]);
    for name in ["a.Prj", "a.Xmp", "b.PGM.xmp", "b.pgm.Xmp", "b_rpc.TXT", "B.xmp"] {
        place.file(format!("in/{name}"), name);
    }
    place.file("in/a.pgm.Aux.xml", PAM);
    place.run("in --out out --sidecars copy").exits(0);
    let copied = ["a.Prj", "a.Xmp", "a.pgm", "a.pgm.Aux.xml", "b.pgm", "b.pgm.Xmp", "b_rpc.TXT"];
    assert_eq!(place.tree("out"), copied);

    for name in ["c.Tfw", "c.tifw", "c.wld", "c.TFWX"] {
        place.file(format!("tiff/{name}"), name);
    }
    place.file("tiff/c.tif", plain(&[Page::new(0, 9, 9)], Storage::Stored));
    place.run("tiff --out png --format png --sidecars copy").exits(0);
    assert_eq!(place.tree("png"), ["c.pgw", "c.png", "c.pngw", "c.wld"]);
    assert_eq!(place.read("png/c.pngw"), b"c.tifw");
    // Copies of one name are of the first.
    place.file("tiff/c.tfw", "lower case");
    let ran = place.run("tiff --out both --format png --sidecars copy");
    ran.exits(1).says("both/c.pgw is another file of that name");
    assert_eq!(place.tree("both"), ["c.pgw", "c.png", "c.pngw", "c.wld"]);
}

#[test]
fn a_link_without_a_target_is_named_with_it() {
    let place = Place::with(&["in/a.pgm", "else/a.xmp"]);
    place.link("../gone.prj", "in/a.prj");
    place.link("../else/a.xmp", "in/a.xmp");
    for inputs in ["in", "in/a.pgm"] {
        let ran = place.run(&format!("{inputs} --out out --overwrite --sidecars copy"));
        ran.exits(1)
            .says("in/a.prj: it is not copied: it is a link to ../gone.prj: its target is missing")
            .says("Failed: 1, 1 of them a sidecar file that was not copied (see above)");
        assert_eq!(place.tree("out"), ["a.pgm", "a.xmp"]);
    }
    // Where no links are followed, they are as good as absent.
    place.run("in --out others --links never --sidecars copy").exits(0);
    assert_eq!(place.tree("others"), ["a.pgm"]);
}

#[test]
fn a_sidecar_that_is_no_regular_file_is_named() {
    let place = Place::with(&["in/a.pgm", "in/a.prj/inside"]);
    rustix::fs::mkfifoat(rustix::fs::CWD, place.path("in/a.xmp"), rustix::fs::Mode::RWXU).unwrap();
    let ran = place.run("in --out out --sidecars copy");
    ran.exits(1)
        .says("in/a.xmp: it is not copied: it is not a regular file")
        .says("Failed: 1, 1 of them a sidecar file that was not copied");
    assert!(!ran.stderr().contains("Skipped"), "{ran}");
}

#[test]
fn a_sidecar_that_does_not_fit_fails_and_its_picture_is_done() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm"]);
    place.file("in/a.xmp", vec![b' '; 2 << 20]);
    place.file("in/b.xmp", vec![b' '; 2 << 20]);
    let arguments = "in --out out --sidecars copy --devices cpu --json";
    let Some(ran) = place.run_with_mount("size=1m", arguments) else { return };
    let json = ran.exits(1).json();
    assert_eq!((&json["done"], &json["left"]), (&2.into(), &0.into()), "{json}");
    let failed = json["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 2, "{json}");
    assert!(failed.iter().all(|one| one["error"].as_str().unwrap().contains("free some space")), "{json}");
}

#[test]
fn where_only_copies_are_missing_a_folder_that_may_not_be_written_fails_them() {
    let place = Place::with(&["in/a.pgm"]);
    place.run("in --out out").exits(0);
    place.file("in/a.xmp", "metadata");
    place.file("in/notes", "of no picture");
    fs::set_permissions(place.path("out"), fs::Permissions::from_mode(0o555)).unwrap();
    let Some(ran) = place.run_without_privileges("in --out out --sidecars copy") else { return };
    ran.exits(1)
        .says("in/a.xmp: it is not copied: cannot write out: Permission denied")
        .says("Skipped: 1 already done")
        .says("Failed: 1, 1 of them a sidecar file that was not copied");
}

#[test]
fn the_sidecars_of_a_picture_without_an_extension_are_no_outputs_to_make_again() {
    let place = Place::with(&["in/a", "in/1.2.3"]);
    for name in ["a.xmp", "a.aux.xml", "1.2.prj", "1.2.3.xmp"] {
        place.file(format!("in/{name}"), PAM);
    }
    for _ in 0..2 {
        let ran = place.run("in --out out --sidecars copy");
        assert!(!ran.exits(0).stderr().contains("made again"), "{ran}");
        assert_eq!(place.tree("out"), ["1.2.3", "1.2.3.xmp", "1.2.prj", "a", "a.aux.xml", "a.xmp"]);
    }
    let ran = place.run("in --out out --sidecars copy --strength 0.5");
    ran.exits(0).says("2 outputs with other settings were made again");
}

#[test]
fn a_run_that_goes_on_copies_sidecars_that_are_missing_and_another_makes_no_copy_again() {
    let place = Place::with(&["in/a.pgm"]);
    place.run("in --out out --sidecars copy --resume").exits(0);
    place.file("in/a.prj", "projection");
    place.run("in --out out --sidecars copy --resume").exits(0).says("1 already done");
    assert_eq!(place.read("out/a.prj"), b"projection");
    let ran = place.run("in --out out");
    assert!(!ran.exits(0).stderr().contains("made again"), "{ran}");
}

#[test]
fn copies_keep_times_and_permissions_where_outputs_do() {
    let place = Place::with(&["in/a.pgm"]);
    place.file("in/a.xmp", "private");
    fs::set_permissions(place.path("in/a.xmp"), fs::Permissions::from_mode(0o600)).unwrap();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30);
    fs::File::open(place.path("in/a.xmp")).unwrap().set_modified(long_ago).unwrap();
    place.run("in --out out --sidecars copy --permissions keep --times keep").exits(0);
    let copy = fs::metadata(place.path("out/a.xmp")).unwrap();
    assert_eq!(copy.permissions().mode() & 0o777, 0o600);
    assert_eq!(copy.modified().unwrap(), long_ago);
}
