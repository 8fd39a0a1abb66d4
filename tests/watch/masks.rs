//! Masks of pictures in a service.

use std::fs;

use super::service::{Service, times_done};
use crate::harness::{DULL, Place, wait};

/// The picture of [`DULL`] with other samples.
fn dull(samples: [u8; 4]) -> Vec<u8> {
    [&DULL[..DULL.len() - 4], &samples].concat()
}

#[test]
fn a_mask_that_changes_has_its_picture_done_again_when_files_are_listed() {
    let place = Place::with(&["in/a.pgm", "in/b.pgm"]);
    let mask = |name: &str, samples| place.file(format!("masks/{name}"), dull(samples));
    let wait_for = |name: &str, samples| {
        let wanted = dull(samples);
        wait(name, || fs::read(place.path("out").join(name)).is_ok_and(|output| output == wanted));
    };
    mask("a.pgm", [9, 1, 255, 0]);
    mask("b.pgm", [9, 1, 255, 0]);
    let service = Service::start(&place, "--mask masks --rescan 1s");
    wait_for("a.pgm", [0, 128, 255, 255]);
    wait_for("b.pgm", [0, 128, 255, 255]);
    mask("b.pgm", [9, 0, 255, 100]);
    wait_for("b.pgm", [0, 0, 128, 255]);
    assert_eq!(service.stop(), Some(0));
    // A change while the service does not run.
    mask("b.pgm", [9, 1, 255, 0]);
    let service = Service::start(&place, "--mask masks");
    wait_for("b.pgm", [0, 128, 255, 255]);
    assert_eq!(times_done(&service.log(), "a.pgm"), 1, "{}", service.log());
    // A run with the same ledger agrees.
    assert_eq!(service.stop(), Some(0));
    let json = place.run("in --out out --mask masks --resume --json").exits(0).json();
    assert_eq!((&json["done"], &json["skipped"]["already-done"]), (&0.into(), &2.into()), "{json}");
}
