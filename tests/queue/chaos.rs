//! Workers and a server that are killed and cut off at random.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::server::Server;
use super::{SLOW, dead, expect_as_local, outputs, status, submit, worker};
use crate::harness::{LONG, Place};
use crate::samples::Random;
use crate::watch::service::{Service, picture};

const PICTURES: u64 = 2000;
/// The number of portions of the pictures, each with one failure.
const PORTIONS: u64 = 20;
const BROKEN: [&str; 3] = ["broken-1.pgm", "broken-2.pgm", "broken-3.pgm"];

#[test]
fn every_picture_has_one_whole_output_whatever_happens() {
    let place = Place::new();
    for (number, name) in BROKEN.iter().enumerate() {
        let whole = picture(number as u64, 64);
        place.file(format!("in/{number}/{name}"), &whole[..whole.len() - 7]);
    }
    let Some(mut server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("chaos");
    let side = if cfg!(debug_assertions) { 64 } else { 256 };
    let begin = || worker(&place, &queue, "--attempts 20 --durability fast");
    let mut workers: Vec<Service> = (0..3).map(|_| begin()).collect();
    let mut random = Random(7);
    for portion in 0..PORTIONS {
        for number in portion * PICTURES / PORTIONS..(portion + 1) * PICTURES / PORTIONS {
            place.file(format!("in/{}/{number}.pgm", number % 9), picture(number, side));
        }
        submit(&place, &queue, &format!("in --out out {SLOW} --lease 2s --max-messages 1000")).exits(0);
        thread::sleep(Duration::from_millis(random.below(200)));
        let victim = random.below(3) as usize;
        match portion % 5 {
            0 => std::mem::replace(&mut workers[victim], begin()).kill(),
            1 => {
                // The pause outlasts its lease.
                workers[victim].signal(Signal::STOP);
                thread::sleep(Duration::from_millis(2500));
                workers[victim].signal(Signal::CONT);
            }
            2 => {
                server.kill();
                thread::sleep(Duration::from_millis(random.below(1500)));
                server.restart();
            }
            // A second submit.
            3 => drop(submit(&place, &queue, &format!("in --out out {SLOW}")).exits(0)),
            _ => assert_eq!(std::mem::replace(&mut workers[victim], begin()).stop(), Some(0)),
        }
    }
    // A killed server may forget a message; the outputs show the remaining work.
    submit(&place, &queue, &format!("in --out out {SLOW}")).exits(0);
    let start = Instant::now();
    while outputs(&place, "out").len() < PICTURES as usize {
        assert!(start.elapsed() < 3 * LONG, "{}", status(&place, &queue));
        thread::sleep(Duration::from_millis(100));
    }
    // The last messages end, too.
    let is_over = || {
        let status = status(&place, &queue);
        status["waiting"] == 0 && status["in_progress"] == 0
    };
    crate::harness::wait("the queue to be empty", is_over);
    for worker in workers {
        assert_eq!(worker.stop(), Some(0));
    }
    expect_as_local(&place, "out", SLOW);
    let names: Vec<_> = dead(&place, &queue).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, BROKEN, "{}", status(&place, &queue));
}
