//! `histeqd bench` without a GPU: `CUDA_VISIBLE_DEVICES` hides any that there are.

use crate::harness::Place;

#[test]
fn without_a_gpu_the_ladder_says_so_and_measures_the_cpu() {
    let place = Place::new();
    let ran = place.run("bench --size 256x128");
    ran.exits(0)
        .is_silent()
        .prints("A picture of 256 x 128 pixels")
        .prints("\nNo GPU, so its rungs are left out: ");
    let rows = ran.stdout();
    let rows: Vec<_> = rows.lines().filter(|line| line.starts_with("  ")).collect();
    assert_eq!(rows.len(), 7, "{ran}");
    assert!(rows.iter().all(|row| row.contains("CPU") && row.ends_with("  same")), "{ran}");
}

#[test]
fn the_ladder_as_json_tells_of_every_rung() {
    let json = Place::new().run("bench --size 256x128 --json").exits(0).json();
    assert!(json["gpu"].is_null());
    let reason = json["no_gpu"].as_str().unwrap();
    let sections = json["sections"].as_array().unwrap();
    let rungs: Vec<_> = sections.iter().flat_map(|section| section["rungs"].as_array().unwrap()).collect();
    let having = |outcome| rungs.iter().filter(|rung| rung["outcome"] == outcome).count();
    assert_eq!((having("measured"), having("failed")), (7, 0), "{json:#}");
    let absent: Vec<_> = rungs.iter().filter(|rung| rung["outcome"] == "skipped").collect();
    assert_eq!(absent.len(), rungs.len() - 7);
    assert!(absent.iter().all(|rung| rung["reason"] == reason), "{json:#}");
}

#[test]
fn the_ladder_can_be_drawn() {
    let place = Place::new();
    place.run("bench --size 256x128 --plot bars.svg --only clahe").exits(0).prints("CLAHE");
    let svg = String::from_utf8(place.read("bars.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("histeqd, one CPU thread"), "{svg}");
    place.run("bench --size 16x16 --plot no/folder/bars.svg").exits(3).says("no/folder/bars.svg");
}

#[test]
fn what_cannot_be_measured_is_a_usage_error() {
    let place = Place::new();
    place.run("bench --size 250x128").exits(2).says("multiples of 16");
    place.run("bench --size 131072x131072").exits(2).says("too large");
    place.run("bench --size big").exits(2).says("WIDTHxHEIGHT");
    place.run("bench --size 16x16 --only stairs").exits(2).says("--only stairs");
    place.run("bench --plot bars.jpg").exits(2).says(".png or .svg");
    place.run("bench --json lanes").exits(2);
    place.run("bench lanes --cpu-workers 0").exits(2).says("0 is not in 1..");
    place.run("bench lanes --seconds 0").exits(2).says("must be longer than 0 seconds");
}

#[test]
fn lanes_are_measured_by_their_own_command() {
    let flags = "--cpu-workers 1 --lanes 1 --slots 2 --size 64x48 --seconds 0.1";
    let json = Place::new().run(&format!("bench lanes {flags} --rgb")).exits(0).json();
    let (pictures, bytes) = (json["pictures"].as_f64().unwrap(), json["bytes"].as_f64().unwrap());
    assert!(pictures > 0.0 && (bytes / pictures / (64.0 * 48.0 * 3.0) - 1.0).abs() < 1e-9, "{json}");
}
