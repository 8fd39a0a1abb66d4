//! Simultaneous runs of different settings into one folder: each output is whole and of one of the
//! settings, and its record names the right ones.

use std::collections::BTreeMap;
use std::process::Stdio;

use super::batch::picture;
use super::server::{Bucket, bucket};
use crate::harness::{Place, Ran};

const SETTINGS: [[&str; 2]; 2] = [["--strength", "1"], ["--strength", "0.5"]];
const SMALL: usize = 60;

/// Fills the bucket's folder `in`, and returns the outputs of each of the settings. One output is
/// uploaded in parts.
fn prepared(bucket: &Bucket, place: &Place) -> [BTreeMap<String, Vec<u8>>; 2] {
    let mut pictures: Vec<_> =
        (0..SMALL).map(|seed| (format!("{seed}.pgm"), picture(300, 200, seed))).collect();
    pictures.push(("large.pgm".to_owned(), picture(6000, 3000, 1)));
    for (name, content) in pictures {
        place.file(format!("in/{name}"), &content);
        bucket.put(&format!("in/{name}"), content);
    }
    let expected = SETTINGS.map(|settings| {
        let out = format!("local{}", settings[1]);
        place.run(&format!("in --out {out}/ {}", settings.join(" "))).exits(0);
        let names = place.tree(&out);
        names.into_iter().map(|name| (name.clone(), place.read(format!("{out}/{name}")))).collect()
    });
    let [one, other]: &[BTreeMap<_, _>; 2] = &expected;
    assert!(one.iter().all(|(name, content)| other[name] != *content), "the settings can be told apart");
    expected
}

/// Returns the number of outputs in a folder by settings; panics if one is missing or has other
/// settings.
fn of_each(bucket: &Bucket, out: &str, expected: &[BTreeMap<String, Vec<u8>>; 2]) -> [usize; 2] {
    let mut counts = [0; 2];
    for name in expected[0].keys() {
        let found = bucket.get(&format!("{out}/{name}"));
        let which = expected.iter().position(|outputs| outputs[name] == found);
        counts[which.unwrap_or_else(|| panic!("{name} is of neither settings"))] += 1;
    }
    counts
}

#[test]
fn runs_at_once_leave_outputs_of_one_or_the_other_with_true_records_and_say_what_they_replaced() {
    let Some(bucket) = bucket() else { return };
    let place = Place::new();
    let expected = prepared(&bucket, &place);
    for round in ["first", "second"] {
        let (input, out) = (bucket.url("in"), bucket.url(round));
        let arguments = |settings: [&'static str; 2]| {
            [&*input, "--out", &out, "-j", "1", "--json"].into_iter().chain(settings)
        };
        let runs = SETTINGS.map(|settings| {
            let mut command = bucket.command(&place, arguments(settings));
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        });
        let told = runs.map(|run| Ran::from(run.wait_with_output().unwrap()).exits(0).json());
        let remade: u64 = told.iter().map(|told| told["remade"].as_u64().unwrap()).sum();
        // The output in parts is not counted: its condition is in another request.
        assert!(remade >= SMALL as u64, "each was there already when the second run came to it: {told:?}");

        // The records are true: the outputs of the other settings, and no more, would be and are
        // made again.
        let [_, others] = of_each(&bucket, round, &expected);
        let would = bucket.run(&place, arguments(SETTINGS[0]).chain(["--dry-run"]));
        assert_eq!(would.exits(0).json()["remade"], others);
        assert_eq!(of_each(&bucket, round, &expected)[1], others, "a dry run writes nothing");
        assert_eq!(bucket.run(&place, arguments(SETTINGS[0])).exits(0).json()["remade"], others);
        assert_eq!(of_each(&bucket, round, &expected), [SMALL + 1, 0]);
    }
}
