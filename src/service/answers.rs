//! What the service answers to those who ask it: its health, metrics and status, and whether it takes failed pictures up again.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use rustix::net::sockopt::socket_peercred;

use super::account::Account;
use super::connection::{Answer, Question};
use super::health::Health;
use super::metrics::Metrics;
use crate::status;

const PROMETHEUS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

const OK: &str = "200 OK";
const BAD_REQUEST: &str = "400 Bad Request";
const FORBIDDEN: &str = "403 Forbidden";
const NOT_FOUND: &str = "404 Not Found";
const NOT_ALLOWED: &str = "405 Method Not Allowed";
const UNAVAILABLE: &str = "503 Service Unavailable";

/// How long the loop may take to answer.
const LOOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// Anybody who can reach the address.
    Anybody,
    /// A user of this machine, known by a Unix socket.
    User,
}

/// A request to take failed pictures up again, for the loop.
pub(super) struct Retry {
    /// As of [`Wanted::new`](crate::retry::Wanted::new).
    pub(super) patterns: Vec<String>,
    /// Gets how many there are, or why they cannot be.
    pub(super) answer: Sender<Result<usize, String>>,
}

/// Answers all questions.
pub(super) struct Answers {
    pub(super) account: Arc<Account>,
    pub(super) health: Arc<Health>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) retries: Sender<Retry>,
}

impl Answers {
    /// Answers a question, `None` if it was no HTTP, that came through `socket`.
    pub(super) fn to(&self, question: Option<&Question>, caller: Caller, socket: &OwnedFd) -> Answer {
        let Some(Question { method, path, body }) = question else {
            return (BAD_REQUEST, TEXT, "only HTTP\n".into());
        };
        match (method.as_str(), path.as_str()) {
            ("GET" | "HEAD", path) => self.get(path),
            ("POST", "/retry") if caller == Caller::User => {
                if is_trusted(socket) {
                    self.retry(body)
                } else {
                    (FORBIDDEN, TEXT, "only the user of the service and root may do this\n".into())
                }
            }
            _ => (NOT_ALLOWED, TEXT, "only GET\n".into()),
        }
    }

    fn get(&self, path: &str) -> Answer {
        match path {
            "/metrics" => (OK, PROMETHEUS, self.metrics.text()),
            "/healthz" => verdict(self.health.alive()),
            "/readyz" => verdict(self.health.able()),
            "/status" => (OK, JSON, status::json(&self.account.report())),
            "/status.txt" => (OK, TEXT, status::text(&self.account.report())),
            _ => (NOT_FOUND, TEXT, "there are /metrics, /healthz, /readyz, /status and /status.txt\n".into()),
        }
    }

    /// Has the loop take failed pictures up again. The body is a list of patterns in JSON.
    fn retry(&self, body: &str) -> Answer {
        let Ok(patterns) = serde_json::from_str(body) else {
            return (BAD_REQUEST, TEXT, "the body is a list of patterns\n".into());
        };
        let (answer, answered) = bounded(1);
        // Fails only if the service is ending.
        let _ = self.retries.send(Retry { patterns, answer });
        match answered.recv_timeout(LOOP_TIMEOUT) {
            Ok(Ok(count)) => (OK, TEXT, count.to_string()),
            Ok(Err(why)) => (UNAVAILABLE, TEXT, why),
            Err(_) => (UNAVAILABLE, TEXT, "the service is busy or stopping; try again".into()),
        }
    }

    /// Answers for a service that is alive, and about which nothing is known.
    #[cfg(test)]
    pub(super) fn for_tests() -> Self {
        let machine = Arc::new(crate::machine::Machine::new(1 << 20, 1));
        Self {
            account: Arc::new(Account::new("nowhere".into())),
            health: Arc::new(Health::new(Duration::from_secs(1))),
            metrics: Arc::new(Metrics::new(machine)),
            retries: bounded(1).0,
        }
    }
}

/// Returns whether the user at the other end of a Unix socket may tell the service what to do.
fn is_trusted(socket: &OwnedFd) -> bool {
    socket_peercred(socket).is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid())
}

fn verdict(health: Result<(), String>) -> Answer {
    match health {
        Ok(()) => (OK, TEXT, "ok\n".into()),
        Err(why) => (UNAVAILABLE, TEXT, why + "\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn health_metrics_and_status_are_told() {
        let answers = Answers::for_tests();
        let socket: OwnedFd = UnixStream::pair().unwrap().0.into();
        let ask = |method: &str, path: &str, caller| {
            let question = Question { method: method.into(), path: path.into(), body: String::new() };
            answers.to(Some(&question), caller, &socket)
        };
        let get = |path| ask("GET", path, Caller::Anybody);
        assert_eq!(get("/healthz").0, OK);
        assert_eq!(get("/readyz").0, UNAVAILABLE);
        answers.health.ready();
        assert_eq!(get("/readyz").0, OK);
        assert!(get("/metrics").2.contains("# EOF"));
        assert!(get("/status").2.contains("\"done\":0"));
        assert!(get("/status.txt").2.contains("done      0"));
        assert_eq!(get("/nothing").0, NOT_FOUND);
        assert_eq!(ask("POST", "/healthz", Caller::User).0, NOT_ALLOWED);
        assert_eq!(ask("POST", "/retry", Caller::Anybody).0, NOT_ALLOWED, "not over the network");
        assert_eq!(ask("POST", "/retry", Caller::User).0, BAD_REQUEST, "no list");
        assert_eq!(answers.to(None, Caller::Anybody, &socket).0, BAD_REQUEST);
    }
}
