//! Workers in network namespaces, as hosts of their own.

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::server::Server;
use super::{SLOW, expect_as_local, outputs};
use crate::harness::{LONG, Place, Ran, binary, server_or_skip, skipped, wait};
use crate::watch::service::{Service, picture};

const SERVER: &str = "10.9.0.1";
/// The number of pictures submitted at a time.
const PORTION: u64 = 100;
/// The number of portions after which an idle host has failed.
const PORTIONS: u64 = 100;

/// A network namespace, kept by a process that sleeps in it.
struct Host(Child);

impl Host {
    fn new() -> Self {
        let sleeping = Command::new("unshare").args(["--net", "sleep", "infinity"]).spawn().unwrap();
        let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).unwrap();
        let host = Self(sleeping);
        wait("the namespace", || network(&host.0.id().to_string()) != network("self"));
        host.ip("link set lo up");
        host
    }

    /// The words before a command that run it there.
    fn enter(&self) -> Vec<String> {
        ["nsenter", "--net", "--target", &self.0.id().to_string(), "--"].map(str::to_owned).to_vec()
    }

    fn ip(&self, arguments: &str) {
        let [program, enter @ ..] = &self.enter()[..] else { unreachable!() };
        let output = Command::new(program).args(enter).arg("ip").args(arguments.split(' ')).output().unwrap();
        assert!(output.status.success(), "ip {arguments}: {output:?}");
    }

    /// Returns a command for the binary there.
    fn histeqd(&self, place: &Place, arguments: &str) -> Command {
        let [program, enter @ ..] = &self.enter()[..] else { unreachable!() };
        let words = enter.iter().cloned().chain([binary()]).chain(arguments.split(' ').map(str::to_owned));
        place.command(program, words)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns whether namespaces can be made, and reports a skip if not, as the machine and its user
/// have to allow them. `HISTEQD_REQUIRE_SERVERS=1` requires only the program that makes links,
/// `ip`.
fn can_make_hosts() -> bool {
    let probe = |words: &[&str]| -> Option<Output> {
        Command::new("unshare").arg("--net").args(words).stdin(Stdio::null()).output().ok()
    };
    let succeeds = |words: &[&str]| probe(words).is_some_and(|output| output.status.success());
    if !succeeds(&["true"]) {
        skipped("no network namespaces of our own here; they take root");
        return false;
    }
    if !server_or_skip(succeeds(&["ip", "-V"]), "ip (apt-get install iproute2)") {
        return false;
    }
    let has_bridges = succeeds(&["ip", "link", "add", "name", "probe", "type", "bridge"]);
    if !has_bridges {
        skipped("no bridges between network namespaces here");
    }
    has_bridges
}

/// Returns the number of pictures that each worker did.
fn done_by_each(hub: &Host, place: &Place, queue: &str) -> Vec<u64> {
    let workers = status(hub, place, queue)["workers"].clone();
    workers.as_array().unwrap().iter().map(|worker| worker["done"].as_u64().unwrap()).collect()
}

fn status(hub: &Host, place: &Place, queue: &str) -> Value {
    Ran::from(hub.histeqd(place, &format!("status --queue {queue} --json"))).exits(0).json()
}

#[test]
fn a_host_that_is_cut_off_past_its_lease_and_rejoins_does_no_harm() {
    if !can_make_hosts() {
        return;
    }
    let place = Place::new();
    let hub = Host::new();
    hub.ip("link add name bridge type bridge");
    hub.ip(&format!("address add {SERVER}/24 dev bridge"));
    hub.ip("link set bridge up");
    let Some(server) = Server::start_at(&place, hub.enter(), SERVER, &[]) else { return };
    let queue = server.queue("hosts");
    let mut submitted = 0;
    let mut submit = || {
        for number in submitted..submitted + PORTION {
            place.file(format!("in/{}/{number}.pgm", number % 7), picture(number, 64));
        }
        submitted += PORTION;
        let submit = hub.histeqd(&place, &format!("submit in --out out --queue {queue} {SLOW} --lease 2s"));
        Ran::from(submit).exits(0);
        submitted
    };
    submit();
    let root = place.path("").display().to_string();
    let begin = |number: u32| {
        let host = Host::new();
        hub.ip(&format!("link add name host{number} type veth peer name wire netns {}", host.0.id()));
        hub.ip(&format!("link set host{number} master bridge up"));
        host.ip(&format!("address add 10.9.0.{}/24 dev wire", number + 10));
        host.ip("link set wire up");
        let line = format!("work --queue {queue} --root {root} --devices cpu -j 1 -v --durability fast");
        let worker = Service::spawn(&place, &mut host.histeqd(&place, &line));
        (host, worker)
    };
    let hosts: Vec<_> = (0..3).map(begin).collect();
    // The third host gets work however fast the first two are.
    let do_all_work = || {
        let done = done_by_each(&hub, &place, &queue);
        done.len() == 3 && done.iter().all(|done| *done > 0)
    };
    while !do_all_work() {
        assert!(submit() < PORTIONS * PORTION, "{:#}", status(&hub, &place, &queue));
    }
    hub.ip("link set host1 down");
    thread::sleep(Duration::from_secs(5));
    // Past its lease, others have its pictures.
    wait("the others to answer alone", || done_by_each(&hub, &place, &queue).len() == 2);
    hub.ip("link set host1 up");
    let pictures = submit();
    let start = std::time::Instant::now();
    let is_over = || {
        let status = status(&hub, &place, &queue);
        status["waiting"] == 0 && status["in_progress"] == 0
    };
    while !is_over() {
        assert!(start.elapsed() < 2 * LONG, "{}", status(&hub, &place, &queue));
    }
    wait("the host to be back", || done_by_each(&hub, &place, &queue).len() == 3);
    let told = status(&hub, &place, &queue);
    assert!(told["dead"].as_array().unwrap().is_empty(), "{told:#}");
    assert_eq!(outputs(&place, "out").len() as u64, pictures);
    for (_host, worker) in hosts {
        assert_eq!(worker.stop(), Some(0));
    }
    expect_as_local(&place, "out", SLOW);
}
