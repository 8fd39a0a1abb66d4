//! Messages of a running service to the service manager, and its answers to clients over HTTP.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::service::{Service, drop_in, outputs};
use crate::harness::{DULL, LONG, Place, binary, project, wait};

/// Returns the next message to the service manager that contains `what`.
fn told(socket: &UnixDatagram, what: &str) -> String {
    let mut heard = String::new();
    let mut message = [0; 4096];
    while !heard.contains(what) {
        let length = socket.recv(&mut message).unwrap_or_else(|error| panic!("no {what}: {error}; {heard}"));
        heard = String::from_utf8(message[..length].to_vec()).unwrap();
    }
    heard
}

#[test]
fn the_service_manager_hears_of_readiness_life_and_the_end() {
    let place = Place::with(&["in/a.pgm"]);
    let socket = UnixDatagram::bind(place.path("notify")).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let mut command = place.histeqd("--watch in --out out --verbose");
    command.env("NOTIFY_SOCKET", place.path("notify")).env("WATCHDOG_USEC", "60000000");
    let service = Service::spawn(&place, &mut command);
    told(&socket, "READY=1");
    told(&socket, "WATCHDOG=1");
    wait("the output", || outputs(&place).iter().any(|name| name == "a.pgm"));
    told(&socket, "STATUS=0 in progress, 0 waiting");
    let stopped = std::thread::spawn(move || service.stop());
    told(&socket, "STOPPING=1");
    assert_eq!(stopped.join().unwrap(), Some(0));
}

#[test]
fn the_watchdog_hears_nothing_of_a_process_that_hangs() {
    let place = Place::with(&[]);
    let socket = UnixDatagram::bind(place.path("notify")).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    std::fs::create_dir(place.path("in")).unwrap();
    let mut command = place.histeqd("--watch in --out out");
    command.env("NOTIFY_SOCKET", place.path("notify")).env("WATCHDOG_USEC", "60000000");
    let service = Service::spawn(&place, &mut command);
    told(&socket, "WATCHDOG=1");
    service.signal(rustix::process::Signal::STOP);
    socket.set_nonblocking(true).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    while socket.recv(&mut [0; 4096]).is_ok() {}
    std::thread::sleep(Duration::from_millis(600));
    assert!(socket.recv(&mut [0; 4096]).is_err());
}

fn listens_at(service: &Service) -> SocketAddr {
    service.log().split_once("/status at http://").unwrap().1.lines().next().unwrap().parse().unwrap()
}

/// Returns the whole response to an HTTP GET request.
fn get(service: &Service, path: &str) -> String {
    try_get(service, path).unwrap()
}

fn try_get(service: &Service, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(listens_at(service))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn health_state_and_metrics_are_served_while_pictures_are_done() {
    let place = Place::with(&["in/a.pgm"]);
    let service = Service::start(&place, "--listen 127.0.0.1:0");
    wait("the picture to be counted", || {
        get(&service, "/metrics").contains("histeqd_pictures_total{result=\"done\",device=\"cpu\"} 1\n")
    });
    assert!(get(&service, "/healthz").starts_with("HTTP/1.1 200"));
    wait("it to be able to work", || get(&service, "/readyz").starts_with("HTTP/1.1 200"));
    let metrics = get(&service, "/metrics");
    for stage in ["decode", "slot-wait", "device", "thread-wait", "encode", "publish"] {
        let counted = format!("histeqd_stage_seconds_count{{stage=\"{stage}\"}} 1\n");
        assert!(metrics.contains(&counted), "{counted}{metrics}");
    }
    assert!(metrics.contains("histeqd_device_up{device=\"cpu\"} 1\n"), "{metrics}");
    assert!(metrics.contains("histeqd_slots_in_use{device=\"cpu\"} 0\n"), "{metrics}");
    wait("the state", || get(&service, "/status").contains("\"name\":\"cpu\",\"up\":true"));
    std::fs::rename(place.path("in"), place.path("away")).unwrap();
    wait("the loss to be told", || get(&service, "/readyz").contains("missing: "));
    assert!(get(&service, "/healthz").starts_with("HTTP/1.1 200"), "a lost inbox is nobody's death");
    std::fs::rename(place.path("away"), place.path("in")).unwrap();
    wait("the return to be told", || get(&service, "/readyz").starts_with("HTTP/1.1 200"));
    drop_in(&place, "b.pgm", DULL);
    wait("the next picture", || outputs(&place).iter().any(|name| name == "b.pgm"));
}

#[test]
fn slow_http_clients_do_not_block_others() {
    let place = Place::with(&["in/a.pgm"]);
    let service = Service::start(&place, "--listen 127.0.0.1:0");
    let mut greedy = TcpStream::connect(listens_at(&service)).unwrap();
    greedy.write_all(&b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2000)).unwrap();
    let _silent = [(); 20].map(|()| TcpStream::connect(listens_at(&service)).unwrap());
    assert!(get(&service, "/healthz").starts_with("HTTP/1.1 200"));
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn an_unwritable_log_does_not_stop_the_service() {
    let place = Place::with(&["in/a.pgm", "in/b.png"]);
    let watch = format!("exec '{}' --watch in --out out --verbose 2>/dev/full", binary());
    let service = Service::spawn(&place, &mut place.command("sh", ["-c", &watch]));
    wait("the output", || outputs(&place).iter().any(|name| name == "a.pgm"));
    assert_eq!(service.stop(), Some(0));
}

/// A picture that needs more memory than there is fails alone.
#[test]
fn a_limit_on_address_space_does_not_end_the_service() {
    let place = Place::with(&["in/a.pgm"]);
    let kept = project().join("fuzz/kept");
    for name in ["jp2/block-a-sample.j2k", "jp2/orders.j2k", "jp2/tiles-of-steps.j2k", "jxl/long-profile.jxl"]
    {
        place.file(Path::new("in").join(name), fs::read(kept.join(name)).unwrap());
    }
    place.file("in/huge.pgm", "P5 20000 20000 255\n");
    File::options().append(true).open(place.path("in/huge.pgm")).unwrap().set_len(400_000_019).unwrap();
    let watch =
        format!("ulimit -v 800000; exec '{}' --watch in --out out --devices cpu --threads 2", binary());
    let service = Service::spawn(&place, &mut place.command("sh", ["-c", &watch]));
    wait("a picture of ordinary size", || outputs(&place).iter().any(|name| name == "a.pgm"));
    place.file("in/b.pgm", place.read("in/a.pgm"));
    wait("another one", || outputs(&place).iter().any(|name| name == "b.pgm"));
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn health_is_served_again_after_the_files_ran_out() {
    let place = Place::with(&["in/a.pgm"]);
    let service = Service::start(&place, "--listen 127.0.0.1:0");
    wait("the first answer", || get(&service, "/readyz").starts_with("HTTP/1.1 200"));
    let pid = Pid::from_raw(service.pid().try_into().unwrap());
    let before = getrlimit(Resource::Nofile);
    prlimit(pid, Resource::Nofile, Rlimit { current: Some(1), ..before }).unwrap();
    let is_answered = || {
        let mut stream = TcpStream::connect(listens_at(&service)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
        stream.read(&mut [0; 100]).is_ok_and(|count| count > 0)
    };
    wait("the loss", || !is_answered());
    prlimit(pid, Resource::Nofile, before).unwrap();
    wait("an answer", || {
        try_get(&service, "/healthz").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
    });
}
