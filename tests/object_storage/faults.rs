//! Runs through a proxy that makes requests fail or come late, or loses their answers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::batch::picture;
use super::proxy::{Fault, Seen, start};
use super::server::{Bucket, bucket};
use crate::harness::Place;

/// Puts pictures into the bucket and a folder here, and makes the outputs of the local ones.
fn prepared(bucket: &Bucket, pictures: usize, side: usize) -> Place {
    let place = Place::new();
    let all = (0..pictures).map(|seed| (format!("in/{seed}.pgm"), picture(side, side, seed)));
    bucket.put_all(all.clone());
    all.for_each(|(name, content)| place.file(name, content));
    place.run("in --out reference").exits(0);
    place
}

fn assert_done(bucket: &Bucket, place: &Place, pictures: usize) {
    assert_eq!(bucket.list("out").len(), pictures);
    for key in bucket.list("out") {
        assert_eq!(bucket.get(&key), place.read(key.replacen("out", "reference", 1)), "{key}");
    }
}

fn run_through(
    bucket: &mut Bucket,
    place: &Place,
    more: &[&str],
    fault: impl Fn(&str, usize) -> Fault + Send + Sync + 'static,
) -> (crate::harness::Ran, std::sync::Arc<Seen>) {
    let (url, seen) = start(bucket.endpoint(), fault);
    bucket.through(url);
    let (input, out) = (bucket.url("in"), bucket.url("out"));
    let arguments = [&*input, "--out", &out].into_iter().chain(more.iter().copied());
    (bucket.run(place, arguments), seen)
}

#[test]
fn resets_errors_and_halved_answers_are_got_over() {
    let Some(mut bucket) = bucket() else { return };
    let place = prepared(&bucket, 40, 100);
    let fault = |_: &str, number| match number % 7 {
        1 => Fault::Reset,
        3 => Fault::Status500,
        5 => Fault::HalfAnswer,
        _ => Fault::None,
    };
    let (ran, seen) = run_through(&mut bucket, &place, &[], fault);
    ran.exits(0).says("Done: 40 pictures");
    assert!(seen.count("GET ") > 40);
    assert_done(&bucket, &place, 40);
}

#[test]
fn a_lost_answer_to_a_write_is_no_second_output_and_no_failure() {
    let Some(mut bucket) = bucket() else { return };
    let place = prepared(&bucket, 10, 40);
    let seen = std::sync::Mutex::new(std::collections::HashSet::new());
    // Every first write is done, and its answer is lost.
    let fault = move |line: &str, _| {
        let is_first = line.starts_with("PUT ") && seen.lock().unwrap().insert(line.to_owned());
        if is_first { Fault::AnswerLost } else { Fault::None }
    };
    let (ran, seen) = run_through(&mut bucket, &place, &[], fault);
    ran.exits(0).says("Done: 10 pictures");
    assert!(seen.count("HEAD ") >= 10, "what is there decides");
    assert_done(&bucket, &place, 10);
}

#[test]
fn fetches_and_writes_wait_beside_each_other() {
    let Some(mut bucket) = bucket() else { return };
    let place = prepared(&bucket, 40, 40);
    let late = |line: &str, _| match line.contains('?') || line.starts_with("HEAD ") {
        false => Fault::Late(Duration::from_millis(250)),
        true => Fault::None,
    };
    let begun = Instant::now();
    let (ran, seen) = run_through(&mut bucket, &place, &["--threads", "1"], late);
    ran.exits(0);
    // One after the other would take 20 s.
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert!(seen.most_fetches.load(Ordering::SeqCst) > 8);
    assert_done(&bucket, &place, 40);
}

#[test]
fn no_more_is_fetched_ahead_than_there_is_memory_for() {
    let Some(mut bucket) = bucket() else { return };
    let place = prepared(&bucket, 24, 1000);
    let late = |line: &str, _| match line.starts_with("GET ") && !line.contains('?') {
        true => Fault::Late(Duration::from_millis(150)),
        false => Fault::None,
    };
    // An eighth of the memory is for fetched pictures: four of 1 MB. A decoder may wait for one
    // more.
    let (ran, seen) = run_through(&mut bucket, &place, &["--threads", "1", "--memory", "32MiB"], late);
    ran.exits(0);
    assert!(seen.most_fetches.load(Ordering::SeqCst) <= 5, "{:?}", seen.most_fetches);
    assert_done(&bucket, &place, 24);
}

#[test]
fn a_server_that_goes_away_ends_the_run_with_its_reason_and_the_next_run_does_the_rest() {
    let Some(mut bucket) = bucket() else { return };
    let place = prepared(&bucket, 100, 40);
    let server = bucket.endpoint().to_owned();
    let writes = AtomicUsize::new(0);
    let gone = move |line: &str, _| match line.starts_with("PUT ") {
        true if writes.fetch_add(1, Ordering::SeqCst) >= 30 => Fault::Reset,
        _ if writes.load(Ordering::SeqCst) >= 30 => Fault::Reset,
        _ => Fault::None,
    };
    let (ran, _) = run_through(&mut bucket, &place, &[], gone);
    ran.exits(1).says("the server cannot be reached").says("run the same command again");
    bucket.through(server);
    let done = bucket.list("out").len();
    assert!((1..100).contains(&done), "{done}");
    bucket
        .run(&place, [&*bucket.url("in"), "--out", &bucket.url("out")])
        .exits(0)
        .says(&format!("{done} already done"));
    assert_done(&bucket, &place, 100);
}
