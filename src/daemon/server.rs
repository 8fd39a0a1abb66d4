//! Health and metrics over HTTP.
//!
//! Every connection gets one answer, a thread of its own and a few seconds, so a client that does not read the answer, or connects and
//! sends nothing, is in nobody's way. So small a part of HTTP needs no library, and the small libraries have no such limits.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::{debug, info};

use super::health::Health;
use super::metrics::Metrics;
use crate::ledger::Ledger;
use crate::status;

const PROMETHEUS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

const OK: &str = "200 OK";
const BAD_REQUEST: &str = "400 Bad Request";
const NOT_FOUND: &str = "404 Not Found";
const NOT_ALLOWED: &str = "405 Method Not Allowed";
const UNAVAILABLE: &str = "503 Service Unavailable";

/// How often the server checks whether it is to end, and whether there is room for another connection.
const PAUSE: Duration = Duration::from_millis(200);
/// How long a client may take to send its request, and how long to read the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most connections at once. Further ones wait to be accepted.
const READERS: usize = 64;
/// The longest request that is read, in bytes.
const LONGEST_QUESTION: u64 = 16 << 10;

/// A server that answers until it is dropped.
#[derive(Debug)]
pub(super) struct Server {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// The address that it listens on.
    #[cfg(test)]
    address: SocketAddr,
}

/// The status, the content type, and the body.
type Answer = (&'static str, &'static str, String);

struct Answering {
    ledger: PathBuf,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

/// Starts a server at `address`. The error is a sentence for the user.
pub(super) fn start(
    address: SocketAddr,
    ledger: &Path,
    health: &Arc<Health>,
    metrics: &Arc<Metrics>,
) -> Result<Server, String> {
    let cannot = |error: io::Error| format!("--listen {address} cannot be used: {error}");
    let listener = TcpListener::bind(address).map_err(cannot)?;
    // So that `accept` does not block if the client has gone away again.
    listener.set_nonblocking(true).map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let answering =
        Answering { ledger: ledger.to_owned(), health: Arc::clone(health), metrics: Arc::clone(metrics) };
    let end = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&end);
    let thread = thread::Builder::new()
        .name("http".into())
        .spawn(move || Arc::new(answering).answer_all(&listener, &ended))
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
            // A panic was reported where it happened, and only ended this server.
            let _ = thread.join();
        }
    }
}

impl Answering {
    fn answer_all(self: &Arc<Self>, listener: &TcpListener, ended: &AtomicBool) {
        while !ended.load(Ordering::Relaxed) {
            // Every connection holds a reference of its own.
            if Arc::strong_count(self) > READERS {
                thread::sleep(PAUSE);
                continue;
            }
            let Some(stream) = accept(listener) else { continue };
            let this = Arc::clone(self);
            let stream = InTime { stream, until: Instant::now() + PATIENCE };
            let answer = move || {
                if let Err(error) = answer(stream, |url| this.get(url)) {
                    debug!("a reader of health or metrics went away: {error}");
                }
            };
            // Never joined. If no thread can be created, there is no answer.
            let _ = thread::Builder::new().name("http".into()).spawn(answer);
        }
    }

    fn get(&self, url: &str) -> Answer {
        match url.split('?').next().unwrap_or(url) {
            "/metrics" => (OK, PROMETHEUS, self.metrics.text()),
            "/healthz" => verdict(self.health.alive()),
            "/readyz" => verdict(self.health.able()),
            "/status" => self.status(),
            _ => (NOT_FOUND, TEXT, "there are /metrics, /healthz, /readyz and /status\n".into()),
        }
    }

    fn status(&self) -> Answer {
        match Ledger::read(&self.ledger).and_then(|ledger| ledger.map(|ledger| ledger.report()).transpose()) {
            Ok(Some(report)) => (OK, JSON, status::json(&report)),
            Ok(None) => (UNAVAILABLE, TEXT, "there is no ledger\n".into()),
            Err(error) => (UNAVAILABLE, TEXT, format!("{error}\n")),
        }
    }
}

/// Answers one request; `get` returns the answer for a URL.
fn answer(mut stream: InTime, get: impl FnOnce(&str) -> Answer) -> io::Result<()> {
    let question = question(&mut stream)?;
    let mut words = question.split_ascii_whitespace();
    let method = words.next();
    let (status, kind, body) = match (method, words.next(), words.next()) {
        (Some("GET" | "HEAD"), Some(url), Some(_)) => get(url),
        (Some(_), Some(_), Some(_)) => (NOT_ALLOWED, TEXT, "only GET\n".into()),
        _ => (BAD_REQUEST, TEXT, "only HTTP\n".into()),
    };
    // An answer that took long to prepare is sent all the same.
    stream.until = Instant::now() + PATIENCE;
    let length = body.len();
    let mut answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    if method != Some("HEAD") {
        answer.push_str(&body);
    }
    stream.write_all(answer.as_bytes())?;
    stream.stream.shutdown(Shutdown::Write)?;
    // Closing a connection with unread data resets it, and the client may lose the answer.
    io::copy(&mut stream, &mut io::sink()).map(drop)
}

fn verdict(health: Result<(), String>) -> Answer {
    match health {
        Ok(()) => (OK, TEXT, "ok\n".into()),
        Err(why) => (UNAVAILABLE, TEXT, why + "\n"),
    }
}

/// Accepts the next connection, if there is one within [`PAUSE`].
fn accept(listener: &TcpListener) -> Option<TcpStream> {
    let pause = Timespec::try_from(PAUSE).expect("it is short");
    let is_there =
        poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&pause)).is_ok_and(|count| count > 0);
    match listener.accept() {
        Ok((stream, _)) => Some(stream),
        Err(error) => {
            // If file descriptors have run out, the connection stays pending, and `poll` returns at once.
            if is_there {
                debug!("a reader of health or metrics is not let in: {error}");
                thread::sleep(PAUSE);
            }
            None
        }
    }
}

/// Reads a request and returns its first line. The other lines do not matter, but have to be read.
fn question(stream: impl Read) -> io::Result<String> {
    let mut lines = BufReader::new(stream.take(LONGEST_QUESTION)).split(b'\n');
    let first = lines.next().transpose()?.unwrap_or_default();
    for line in lines {
        if line?.trim_ascii().is_empty() {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&first).into_owned())
}

/// A connection with a deadline, which it keeps however slow the client is.
struct InTime {
    stream: TcpStream,
    until: Instant,
}

impl InTime {
    fn left(&self) -> io::Result<Option<Duration>> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

impl Read for InTime {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(to)
    }
}

impl Write for InTime {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    fn get(server: &Server, path: &str) -> String {
        ask(server, &format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n"))
    }

    fn ask(server: &Server, question: &str) -> String {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(question.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Starts a server. Returns the folder where its ledger would be, its health, and itself.
    fn serving() -> (tempfile::TempDir, Arc<Health>, Server) {
        let folder = tempfile::tempdir().unwrap();
        let health = Arc::new(Health::new(Duration::from_secs(1)));
        let metrics = Arc::new(Metrics::new(Arc::new(Machine::new(1 << 20, 1))));
        let server = start("127.0.0.1:0".parse().unwrap(), folder.path(), &health, &metrics).unwrap();
        (folder, health, server)
    }

    #[test]
    fn health_metrics_and_status_are_served() {
        let (folder, health, server) = serving();
        assert!(get(&server, "/healthz").starts_with("HTTP/1.1 200"));
        assert!(get(&server, "/readyz").starts_with("HTTP/1.1 503"));
        health.ready();
        assert!(get(&server, "/readyz").starts_with("HTTP/1.1 200"));
        assert!(get(&server, "/metrics").contains("# EOF"));
        assert!(get(&server, "/status").starts_with("HTTP/1.1 503"));
        let (_ledger, _) = Ledger::open(folder.path()).unwrap();
        assert!(get(&server, "/status").contains("\"done\":0"));
        assert!(get(&server, "/nothing").starts_with("HTTP/1.1 404"));
        assert!(ask(&server, "POST /healthz HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(ask(&server, "what?\r\n\r\n").starts_with("HTTP/1.1 400"));
        let head = ask(&server, "HEAD /healthz HTTP/1.1\r\n\r\n");
        assert!(head.contains("Content-Length: 3\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    }

    #[test]
    fn who_comes_when_all_are_taken_is_answered_when_one_is_free() {
        let (_folder, _health, server) = serving();
        let connect = || TcpStream::connect(server.address).unwrap();
        let mut silent: Vec<TcpStream> = (0..READERS).map(|_| connect()).collect();
        let begun = Instant::now();
        let mut next = connect();
        next.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
        next.set_read_timeout(Some(3 * PAUSE)).unwrap();
        let early = next.read(&mut [0; 1]);
        // On a machine that was busy for this long, some of them have timed out.
        if begun.elapsed() < PATIENCE / 2 {
            assert!(early.is_err(), "there was a place more than {READERS}");
        }
        silent.pop();
        next.set_read_timeout(None).unwrap();
        let mut answer = String::new();
        next.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        drop(silent);
        assert!(get(&server, "/healthz").starts_with("HTTP/1.1 200"));
    }

    #[test]
    fn an_answer_that_took_long_is_given() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut asking = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        asking.write_all(b"GET /status HTTP/1.1\r\n\r\n").unwrap();
        let until = Instant::now() + Duration::from_secs(2);
        let stream = InTime { stream: listener.accept().unwrap().0, until };
        let slow = move |_: &str| -> Answer {
            thread::sleep(until.saturating_duration_since(Instant::now()));
            (OK, TEXT, "late\n".into())
        };
        let answering = thread::spawn(move || answer(stream, slow));
        let mut given = String::new();
        asking.read_to_string(&mut given).unwrap();
        assert!(given.ends_with("\r\n\r\nlate\n"), "{given:?}");
        drop(asking);
        answering.join().unwrap().unwrap();
    }

    #[test]
    fn a_connection_ends_in_time_whatever_the_other_end_does() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut silent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let in_time = |patience| InTime {
            stream: stream.try_clone().unwrap(),
            until: Instant::now() + Duration::from_millis(patience),
        };
        assert!(question(in_time(10)).is_err());
        // Every byte arrives within the time that is left, but the whole request does not.
        silent.write_all(b"GE").unwrap();
        assert!(question(in_time(10)).is_err());
        assert!(in_time(100).write_all(&[0; 1 << 26]).is_err());
        assert!(in_time(0).write_all(b"a").is_err());
    }
}
