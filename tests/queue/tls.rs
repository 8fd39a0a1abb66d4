//! TLS to the queue's server: problems with its certificate are reported, and no data is sent to
//! it.

use std::process::Command;

use super::server::Server;
use super::work;
use crate::harness::{BRIGHT, Place, Ran, skipped};

/// Makes a self-signed certificate for an address of the server, valid for so many days; `None`
/// where that is not possible.
fn certify(place: &Place, name: &str, subject: &str, days: i32) -> Option<()> {
    let extensions = format!("subjectAltName={subject}\nbasicConstraints=critical,CA:FALSE\n");
    place.file("extensions", extensions);
    let ask = format!(
        "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -keyout {name}.key -out {name}.csr"
    );
    let sign = format!(
        "x509 -req -in {name}.csr -signkey {name}.key -days {days} -extfile extensions -out {name}.crt"
    );
    for line in [ask, sign] {
        let made = place.command("openssl", line.split_whitespace()).output();
        if !made.is_ok_and(|made| made.status.success()) {
            skipped("no openssl that makes a certificate");
            return None;
        }
    }
    Some(())
}

/// Returns a command for the program that trusts this authority.
fn trusting(place: &Place, authority: &str, line: &str) -> Command {
    let mut command = place.histeqd(line);
    command.env("NATS_CA", authority);
    command
}

fn start(place: &Place, certificate: &str) -> Option<Server> {
    let tls = format!("tls {{ cert_file: {certificate}.crt, key_file: {certificate}.key }}");
    place.file("server.conf", tls);
    Server::start(place, &["-c", "server.conf"])
}

#[test]
fn what_is_wrong_with_a_certificate_is_told_with_a_remedy_and_there_is_no_way_without_tls() {
    let place = Place::with(&["in/a.pgm"]);
    let certificates = [
        ("right", "IP:127.0.0.1", 2),
        ("elsewhere", "DNS:elsewhere.example", 2),
        ("old", "IP:127.0.0.1", -1),
    ];
    for (name, subject, days) in certificates {
        let Some(()) = certify(&place, name, subject, days) else { return };
    }
    place.file("none.crt", "no certificate");
    for (server, authority, code, why) in [
        ("right", "elsewhere.crt", 3, "is not trusted here ("),
        (
            "right",
            "none.crt",
            2,
            "NATS_CA names none.crt, which cannot be used: there is no certificate in it",
        ),
        ("right", "missing.crt", 2, "NATS_CA names missing.crt, which cannot be used: No such file"),
        ("elsewhere", "elsewhere.crt", 3, "use one of: DnsName(\"elsewhere.example\")"),
        ("old", "old.crt", 3, "its certificate has expired; renew it"),
    ] {
        let Some(started) = start(&place, server) else { return };
        let queue = started.queue("q");
        // The server asks for TLS, which the other scheme then uses too.
        for queue in [queue.replace("nats://", "tls://"), queue] {
            let line = format!("submit in --out out --queue {queue}");
            Ran::from(trusting(&place, authority, &line)).exits(code).says(why);
            let root = place.path("");
            let line = format!("work --queue {queue} --root {} --devices cpu", root.display());
            Ran::from(trusting(&place, authority, &line)).exits(code).says(why);
        }
        drop(started);
        std::fs::remove_file(place.path("server.log")).unwrap();
    }
    let Some(server) = start(&place, "right") else { return };
    let queue = server.queue("q").replace("nats://", "tls://");
    let submit = format!("submit in --out out --queue {queue}");
    Ran::from(trusting(&place, "right.crt", &submit)).exits(0).says("1 picture submitted");
}

#[test]
fn a_server_without_tls_is_not_used_by_way_of_tls() {
    let place = Place::with(&["in/a.pgm"]);
    let Some(server) = Server::start(&place, &[]) else { return };
    let queue = server.queue("q");
    let safe = queue.replace("nats://", "tls://");
    place.run(&format!("submit in --out out --queue {safe}")).exits(3).says(&format!(
        "the queue's server {} cannot be used: it does not use TLS;",
        safe.trim_end_matches("/q")
    ));
    place.run(&format!("submit in --out out --queue {queue}")).exits(0);
    work(&place, &queue, "").exits(0);
    assert_eq!(place.read("out/a.pgm"), BRIGHT);
}
