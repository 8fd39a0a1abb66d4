//! Health and metrics over HTTP.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tiny_http::{Header, Method, Request, Response};
use tracing::{debug, info, warn};

use super::health::Health;
use super::metrics::Metrics;
use crate::ledger::Ledger;
use crate::status;

const PROMETHEUS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// How often it is looked whether the server is to end, or can listen again.
const PAUSE: Duration = Duration::from_millis(200);

/// A server that answers until it is dropped.
#[derive(Debug)]
pub(super) struct Server {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Where it listens.
    #[cfg(test)]
    address: SocketAddr,
}

struct Answering {
    ledger: PathBuf,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

/// Starts to answer at `address`. Fails with a sentence.
pub(super) fn start(
    address: SocketAddr,
    ledger: &Path,
    health: &Arc<Health>,
    metrics: &Arc<Metrics>,
) -> Result<Server, String> {
    let listening = tiny_http::Server::http(address)
        .map_err(|error| format!("--listen {address} cannot be used: {error}"))?;
    let answering =
        Answering { ledger: ledger.to_owned(), health: Arc::clone(health), metrics: Arc::clone(metrics) };
    let end = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&end);
    let address = listening.server_addr().to_ip().unwrap_or(address);
    let thread = thread::Builder::new()
        .name("http".into())
        .spawn(move || answering.answer_all(listening, address, &ended))
        .map_err(|error| error.to_string())?;
    info!("serving /metrics, /healthz, /readyz and /status at http://{address}");
    Ok(Server {
        end,
        thread: Some(thread),
        #[cfg(test)]
        address,
    })
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic was reported where it happened; health is gone with it and nothing else.
            let _ = thread.join();
        }
    }
}

impl Answering {
    fn answer_all(&self, mut listening: tiny_http::Server, address: SocketAddr, ended: &AtomicBool) {
        while !ended.load(Ordering::Relaxed) {
            match listening.recv_timeout(PAUSE) {
                Ok(Some(request)) => self.answer(request),
                Ok(None) | Err(_) => {
                    if let Some(again) = listen_again(address) {
                        listening = again;
                    }
                }
            }
        }
    }

    fn answer(&self, request: Request) {
        let (code, kind, body) = match request.method() {
            Method::Get | Method::Head => self.get(request.url()),
            _ => (405, TEXT, "only GET\n".into()),
        };
        let kind = Header::from_bytes("Content-Type", kind).expect("the kinds are header values");
        let response = Response::from_string(body).with_status_code(code).with_header(kind);
        if let Err(error) = request.respond(response) {
            debug!("a reader of health or metrics went away: {error}");
        }
    }

    fn get(&self, url: &str) -> (u16, &'static str, String) {
        match url.split('?').next().unwrap_or(url) {
            "/metrics" => (200, PROMETHEUS, self.metrics.text()),
            "/healthz" => verdict(self.health.alive()),
            "/readyz" => verdict(self.health.able()),
            "/status" => self.status(),
            _ => (404, TEXT, "there are /metrics, /healthz, /readyz and /status\n".into()),
        }
    }

    fn status(&self) -> (u16, &'static str, String) {
        match Ledger::read(&self.ledger).and_then(|ledger| ledger.map(|ledger| ledger.report()).transpose()) {
            Ok(Some(report)) => (200, JSON, status::json(&report)),
            Ok(None) => (503, TEXT, "there is no ledger\n".into()),
            Err(error) => (503, TEXT, format!("{error}\n")),
        }
    }
}

/// A new server if the old one lets nobody in any more. For want of file descriptors the thread of tiny_http that does so ends,
/// most often without a word; but then the address is free.
fn listen_again(address: SocketAddr) -> Option<tiny_http::Server> {
    let listener = TcpListener::bind(address).ok()?;
    let server = tiny_http::Server::from_listener(listener, None).ok()?;
    warn!("nobody listened at {address} any more; listening again");
    Some(server)
}

fn verdict(health: Result<(), String>) -> (u16, &'static str, String) {
    match health {
        Ok(()) => (200, TEXT, "ok\n".into()),
        Err(why) => (503, TEXT, why + "\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn get(server: &Server, path: &str) -> String {
        let mut stream = TcpStream::connect(server.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn health_metrics_and_status_are_served() {
        let folder = tempfile::tempdir().unwrap();
        let health = Arc::new(Health::new(Duration::from_secs(1)));
        let metrics = Arc::new(Metrics::new(Arc::new(Machine::new(1 << 20, 1))));
        let server = start("127.0.0.1:0".parse().unwrap(), folder.path(), &health, &metrics).unwrap();
        assert!(get(&server, "/healthz").starts_with("HTTP/1.1 200"));
        assert!(get(&server, "/readyz").starts_with("HTTP/1.1 503"));
        health.ready();
        assert!(get(&server, "/readyz").starts_with("HTTP/1.1 200"));
        assert!(get(&server, "/metrics").contains("# EOF"));
        assert!(get(&server, "/status").starts_with("HTTP/1.1 503"));
        let (_ledger, _) = Ledger::open(folder.path()).unwrap();
        assert!(get(&server, "/status").contains("\"done\":0"));
        assert!(get(&server, "/nothing").starts_with("HTTP/1.1 404"));
    }
}
