//! The page through nginx, by the file that the documentation names: TLS and users for other hosts.
//! Without nginx, openssl and curl the test is reported as skipped, or fails with
//! `HISTEQD_REQUIRE_SERVERS=1`.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use super::service::Service;
use crate::harness::{Place, Ran, server_or_skip, wait};

const CONFIGURATION: &str = include_str!("../../packaging/proxy/nginx.conf");
const TOKEN: &str = "0123456789abcdef-of-a-file";

/// A running nginx; it is killed when dropped.
struct Proxy {
    process: Child,
    port: u16,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn has_programs() -> bool {
    let is_there = |program: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("command -v {program}")]).env("PATH", path());
        command.stdout(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let are_there = ["nginx", "openssl", "curl"].into_iter().all(is_there);
    server_or_skip(are_there, "nginx, openssl and curl");
    are_there
}

fn path() -> String {
    format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default())
}

/// Starts nginx before a service at a port, with files of the place instead of those in /etc.
fn start(place: &Place, port_of_service: u16) -> Proxy {
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=scans.example.org",
        ])
        .args(["-addext", "subjectAltName=DNS:scans.example.org", "-keyout"])
        .arg(place.path("histeqd.key"))
        .arg("-out")
        .arg(place.path("histeqd.crt"))
        .stderr(Stdio::null())
        .status();
    assert!(made.unwrap().success());
    place.file("histeqd.users", "ann:{PLAIN}pass\n");
    // The port is freed at once; another program is most unlikely to take it before nginx.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let folder = place.path("").display().to_string();
    let server = CONFIGURATION
        .replace("listen 443", &format!("listen 127.0.0.1:{port}"))
        .replace("/etc/nginx", folder.trim_end_matches('/'))
        .replace("127.0.0.1:9464", &format!("127.0.0.1:{port_of_service}"))
        .replace("THE-TOKEN-OF-THE-FILE", TOKEN);
    let text = format!(
        "daemon off; master_process off; user root; pid {folder}/pid; error_log stderr; events {{}}\nhttp {{ access_log off;\n{server}}}\n"
    );
    place.file("nginx.conf", text);
    let mut nginx = Command::new("nginx");
    nginx.arg("-c").arg(place.path("nginx.conf")).env("PATH", path()).stderr(Stdio::null());
    Proxy { process: nginx.spawn().unwrap(), port }
}

#[test]
fn behind_nginx_users_read_and_change_over_tls_and_nobody_else() {
    if !has_programs() {
        return;
    }
    let place = Place::with(&["in/a.pgm"]);
    place.file("token", TOKEN);
    let service =
        Service::start(&place, "--listen 127.0.0.1:0 --listen-name scans.example.org --token-file token");
    let log = service.log();
    let (_, address) = log.split_once("/status at http://127.0.0.1:").unwrap();
    let proxy = start(&place, address.lines().next().unwrap().parse().unwrap());
    let port = proxy.port;
    let ask = |arguments: &str| {
        let line = format!(
            "-s -o answer -w %{{http_code}} --resolve scans.example.org:{port}:127.0.0.1 --cacert histeqd.crt {arguments}"
        );
        Ran::from(place.command("curl", line.split(' '))).stdout()
    };
    let url = format!("https://scans.example.org:{port}");
    wait("nginx", || ask(&url) == "401");
    assert_eq!(ask(&format!("-u ann:pass {url}/status")), "200");
    assert!(fs::read_to_string(place.path("answer")).unwrap().contains("\"done\":"));
    assert_eq!(ask(&format!("-u ann:pass -X POST {url}/pause")), "200");
    assert_eq!(ask(&format!("-u ann:pass -H Origin:{url} -X POST {url}/resume")), "200");
    for header in ["Origin:https://evil.example", "Sec-Fetch-Site:cross-site"] {
        assert_eq!(ask(&format!("-u ann:pass -H {header} -X POST {url}/pause")), "403", "{header}");
        assert_eq!(ask(&format!("-u ann:pass -H {header} {url}/activity")), "403", "{header}");
    }
    assert_eq!(ask(&format!("-u ann:wrong {url}/status")), "401");
    drop(proxy);
    assert_eq!(service.stop(), Some(0));
}
