//! `--gpu-idle`: worker processes that end while there is no work, and start again.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use super::service::{Service, children, drop_in, expected, picture, wait_for};
use crate::harness::{Place, wait};

/// The number of times that these words are in the log.
fn said(service: &Service, words: &str) -> usize {
    service.log().matches(words).count()
}

/// The number of workers of a service.
fn workers(service: &Service) -> usize {
    children(service.pid()).0.len()
}

const GIVEN_BACK: &str = "no work for 1s: GPUs are released until there is some";

#[test]
fn workers_without_work_end_once_and_start_again_with_the_next_picture() {
    let place = Place::new();
    let inputs: BTreeMap<_, _> =
        (0..3).map(|number| (format!("{number}.pgm"), picture(number, 50))).collect();
    let expected = expected(&inputs);
    let service = Service::begin_on(&place, "cpu-workers:2", None, "--gpu-idle 1s --listen 127.0.0.1:0");
    let status = |words: &str| place.run("status out").stdout().contains(words);
    for (number, (name, content)) in inputs.iter().enumerate() {
        wait("the workers to end", || said(&service, GIVEN_BACK) == number + 1 && workers(&service) == 0);
        wait("the status to say so", || {
            status("cpu-worker0: idle\n") && status("cpu-worker1: idle\n") && status("cpu: works\n")
        });
        drop_in(&place, name, content);
        wait_for(&place, &[(name.clone(), expected[name].clone())].into());
        wait("both workers", || said(&service, " ready after ") == 2 * (number + 2));
    }
    wait("the workers to end", || workers(&service) == 0);
    thread::sleep(Duration::from_secs(2));
    assert_eq!(said(&service, GIVEN_BACK), 4, "{}", service.log());
    assert!(!service.log().contains("WARN"), "{}", service.log());
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn workers_are_kept_by_default() {
    let place = Place::new();
    let service = Service::begin_on(&place, "cpu-workers:1", None, "");
    wait("the worker", || said(&service, " ready after ") == 1);
    thread::sleep(Duration::from_secs(2));
    assert_eq!((workers(&service), said(&service, "given back")), (1, 0));
    place.run("in --out out2 --gpu-idle 1s").exits(2).says("--gpu-idle has no effect without --watch");
    assert_eq!(service.stop(), Some(0));
}

#[cfg(feature = "queue")]
#[test]
fn a_worker_of_a_queue_gives_gpus_back_between_messages() {
    use crate::harness::BRIGHT;
    use crate::queue::server::Server;

    let place = Place::with(&["in/a.pgm", "in/b.pgm"]);
    let Some(server) = Server::start(&place, &[]) else { return };
    let (queue, root) = (server.queue("scans"), place.path(""));
    let line =
        format!("work --queue {queue} --root {} --devices cpu-workers:1 --gpu-idle 1s -v", root.display());
    let service = Service::spawn(&place, &mut place.histeqd(&line));
    for (number, name) in ["a.pgm", "b.pgm"].into_iter().enumerate() {
        wait("the worker to end", || said(&service, GIVEN_BACK) == number + 1 && workers(&service) == 0);
        place.run(&format!("submit in --include {name} --out out --queue {queue}")).exits(0);
        wait("the output", || place.tree("out").contains(&name.to_owned()));
        assert_eq!(place.read(format!("out/{name}")), BRIGHT);
    }
    assert_eq!(service.stop(), Some(0));
}
