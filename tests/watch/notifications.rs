//! Notifications of the beginning and end of failures.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;

use serde_json::Value;

use super::service::{Service, make_old};
use crate::harness::{LONG, Place, wait};

fn fail_one(place: &Place, name: &str) {
    place.file(format!("in/{name}"), [&b"\x89PNG\r\n\x1a\n"[..], &[0; 40]].concat());
    make_old(&place.path("in").join(name));
}

/// Starts a server that takes JSON objects by POST, and refuses the first request. Returns its
/// address and the received objects.
fn hook() -> (String, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (to, posted) = mpsc::channel();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while stream.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let status = if number == 0 { "503 Service Unavailable" } else { "204 No Content" };
            write!(stream.get_mut(), "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                .unwrap();
            if number > 0 && to.send(serde_json::from_slice(&body).unwrap()).is_err() {
                return;
            }
        }
    });
    (format!("http://{address}/hook"), posted)
}

#[test]
fn a_url_gets_one_message_when_failures_begin_and_one_when_they_have_ended() {
    let place = Place::new();
    let (url, posted) = hook();
    let service = Service::start(&place, &format!("--notify {url} --notify-quiet 5s"));
    ["a.png", "b.png"].into_iter().for_each(|name| fail_one(&place, name));
    let began = posted.recv_timeout(LONG).unwrap();
    assert_eq!(began["event"], "failures-began", "{began}");
    assert!(began["text"].as_str().unwrap().contains("PNG"), "{began}");
    let ended = posted.recv_timeout(LONG).unwrap();
    assert_eq!((&ended["event"], &ended["failed"]), (&"failures-ended".into(), &2.into()), "{ended}");
    assert!(posted.try_recv().is_err());
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn a_command_gets_messages_on_standard_input() {
    let place = Place::new();
    place.file("hook", "cat >> told; echo >> told\n");
    let service = Service::spawn(&place, place.histeqd("--watch in --out out").args(["--notify", "sh hook"]));
    std::fs::create_dir_all(place.path("in")).unwrap();
    wait("the service", || service.log().contains("watching "));
    fail_one(&place, "a.png");
    wait("the message", || place.path("told").exists() && place.read("told").ends_with(b"}\n"));
    let told: Value = serde_json::from_slice(&place.read("told")).unwrap();
    assert_eq!(told["event"], "failures-began");
    assert_eq!(service.stop(), Some(0));
}
