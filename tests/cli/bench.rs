//! `histeqd bench` without a GPU.

use crate::harness::Place;

#[test]
fn what_cannot_be_measured_is_a_usage_error() {
    let place = Place::new();
    place.run("bench --size big").exits(2).says("WIDTHxHEIGHT");
    place.run("bench --size 131072x131072").exits(2).says("too large");
    place.run("bench --cpu-workers 0").exits(2).says("0 is not in 1..");
    place.run("bench --seconds 0").exits(2).says("must be longer than 0 seconds");
}

#[test]
fn the_lanes_of_workers_are_measured() {
    let flags = "--cpu-workers 1 --lanes 1 --slots 2 --size 64x48 --seconds 0.1";
    let json = Place::new().run(&format!("bench {flags} --rgb")).exits(0).json();
    let (pictures, bytes) = (json["pictures"].as_f64().unwrap(), json["bytes"].as_f64().unwrap());
    assert!(pictures > 0.0 && (bytes / pictures / (64.0 * 48.0 * 3.0) - 1.0).abs() < 1e-9, "{json}");
}
