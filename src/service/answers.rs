//! What the service answers over HTTP: health, metrics, status, failures, the page; and the changes that it takes.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use crossbeam_channel::{Sender, bounded};
use serde::Deserialize;

use super::access::{Access, Caller};
use super::account::Account;
use super::health::Health;
use super::metrics::Metrics;
use super::page;
use super::previews::Previews;
use crate::ledger::FailureSearch;
use crate::status;

const PROMETHEUS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const JSON: &str = "application/json";

/// The longest body of a request, in bytes: many names of pictures.
const LONGEST_BODY: usize = 1 << 20;
/// How long the loop may take to answer.
const LOOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A change of what the service does, for the loop.
#[derive(Debug)]
pub(super) enum Change {
    /// Take failed pictures up again: those that these patterns mean, as of [`Wanted::new`](crate::retry::Wanted::new).
    Retry(Vec<String>),
    /// Begin no more pictures.
    Pause,
    /// Begin pictures again.
    Resume,
}

/// A change that somebody asks for.
pub(super) struct ChangeRequest {
    pub(super) change: Change,
    /// Gets how many pictures it concerns, or why it cannot be.
    pub(super) answer: Sender<Result<usize, String>>,
}

/// What is needed to answer all requests.
pub(super) struct Answers {
    pub(super) account: Arc<Account>,
    pub(super) health: Arc<Health>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) changes: Sender<ChangeRequest>,
    pub(super) access: Access,
    pub(super) previews: Previews,
}

/// Returns all paths that are answered.
pub(super) fn routes(answers: Arc<Answers>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/status", get(status_json))
        .route("/status.txt", get(status_text))
        .route("/failures", get(failures))
        .route("/retry", post(retry))
        .route("/pause", post(pause))
        .route("/resume", post(resume))
        .merge(page::routes())
        .fallback(not_found)
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .with_state(answers)
}

/// Does what may wait for the disk on another thread than that of all connections.
pub(super) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StatusCode> {
    tokio::task::spawn_blocking(work).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

type Shared = State<Arc<Answers>>;

async fn metrics(State(answers): Shared) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, PROMETHEUS)], answers.metrics.text())
}

async fn healthz(State(answers): Shared) -> Response {
    verdict(answers.health.alive())
}

async fn readyz(State(answers): Shared) -> Response {
    verdict(answers.health.able())
}

fn verdict(health: Result<(), String>) -> Response {
    match health {
        Ok(()) => "ok\n".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why + "\n").into_response(),
    }
}

async fn status_json(State(answers): Shared) -> Result<impl IntoResponse, StatusCode> {
    let report = off_thread(move || answers.account.report()).await?;
    Ok(([(header::CONTENT_TYPE, JSON)], status::json(&report)))
}

async fn status_text(State(answers): Shared) -> Result<String, StatusCode> {
    off_thread(move || answers.account.report()).await.map(|report| status::text(&report))
}

/// How the failures are asked for.
#[derive(Deserialize)]
struct FailureQuery {
    /// What their paths or reasons contain.
    #[serde(default)]
    search: String,
    /// The most that are listed.
    #[serde(default = "usual_limit")]
    limit: usize,
}

fn usual_limit() -> usize {
    usize::MAX
}

async fn failures(State(answers): Shared, Query(query): Query<FailureQuery>) -> Result<Response, StatusCode> {
    let search = FailureSearch { text: query.search, limit: query.limit };
    match off_thread(move || answers.account.failures(&search)).await? {
        Ok(found) => Ok(Json(found).into_response()),
        Err(why) => Ok((StatusCode::SERVICE_UNAVAILABLE, why + "\n").into_response()),
    }
}

async fn retry(
    State(answers): Shared,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: String,
) -> Response {
    match serde_json::from_str(&body) {
        Ok(patterns) => answers.change(Change::Retry(patterns), caller, &headers).await,
        Err(_) => (StatusCode::BAD_REQUEST, "the body is a list of patterns\n").into_response(),
    }
}

async fn pause(State(answers): Shared, Extension(caller): Extension<Caller>, headers: HeaderMap) -> Response {
    answers.change(Change::Pause, caller, &headers).await
}

async fn resume(
    State(answers): Shared,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Response {
    answers.change(Change::Resume, caller, &headers).await
}

async fn not_found() -> impl IntoResponse {
    (StatusCode::NOT_FOUND, "there are /, /metrics, /healthz, /readyz, /status, /status.txt and /failures\n")
}

impl Answers {
    /// Has the loop change something, if the caller may ask for that.
    async fn change(self: Arc<Self>, change: Change, caller: Caller, headers: &HeaderMap) -> Response {
        if let Err(why) = self.access.may_change(caller, headers) {
            return (StatusCode::FORBIDDEN, why).into_response();
        }
        let asked = off_thread(move || self.ask_loop(change)).await;
        match asked {
            Ok(Ok(count)) => count.to_string().into_response(),
            Ok(Err(why)) => (StatusCode::SERVICE_UNAVAILABLE, why).into_response(),
            Err(status) => status.into_response(),
        }
    }

    fn ask_loop(&self, change: Change) -> Result<usize, String> {
        let (answer, answered) = bounded(1);
        // Fails only if the service is ending.
        let _ = self.changes.send_timeout(ChangeRequest { change, answer }, LOOP_TIMEOUT);
        let busy = |_| "the service is busy or stopping; try again".to_owned();
        answered.recv_timeout(LOOP_TIMEOUT).map_err(busy)?
    }

    /// Answers for a service that is alive, and about which nothing is known.
    #[cfg(test)]
    pub(super) fn for_tests() -> Self {
        let machine = Arc::new(crate::machine::Machine::new(1 << 20, 1));
        let account = Arc::new(Account::new("nowhere".into(), "nowhere".into()));
        Self {
            previews: Previews::start(Arc::clone(&machine), Arc::clone(&account), u64::MAX).unwrap(),
            account,
            health: Arc::new(Health::new(Duration::from_secs(1))),
            metrics: Arc::new(Metrics::new(machine)),
            changes: bounded(1).0,
            access: Access::new(None).unwrap(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::Request;
    use tower::ServiceExt;

    const TRUSTED: Caller = Caller::Socket { user: Some(0) };
    const ANYBODY: Caller = Caller::Socket { user: None };

    fn ask(answers: &Arc<Answers>, method: &str, path: &str, caller: Caller) -> (u16, String) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let request = Request::builder().method(method).uri(path).extension(caller).body(Body::empty());
            let answer = routes(Arc::clone(answers)).oneshot(request.unwrap()).await.unwrap();
            let status = answer.status().as_u16();
            let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
            (status, String::from_utf8_lossy(&body).into_owned())
        })
    }

    #[test]
    fn health_metrics_and_status_are_told() {
        let answers = Arc::new(Answers::for_tests());
        let get = |path| ask(&answers, "GET", path, ANYBODY);
        assert_eq!(get("/healthz").0, 200);
        assert_eq!(get("/readyz").0, 503);
        answers.health.ready();
        assert_eq!(get("/readyz").0, 200);
        assert!(get("/metrics").1.contains("# EOF"));
        assert!(get("/status").1.contains("\"done\":0"));
        assert!(get("/status.txt").1.contains("done      0"));
        assert_eq!(get("/nothing").0, 404);
        assert_eq!(ask(&answers, "HEAD", "/status", ANYBODY), (200, String::new()));
    }

    #[test]
    fn changes_are_taken_from_those_who_may_ask_for_them() {
        let answers = Arc::new(Answers::for_tests());
        for path in ["/pause", "/resume"] {
            assert_eq!(ask(&answers, "POST", path, ANYBODY).0, 403, "{path}");
            assert_eq!(ask(&answers, "POST", path, TRUSTED).0, 503, "there is no loop");
            assert_eq!(ask(&answers, "GET", path, TRUSTED).0, 405);
        }
        assert_eq!(ask(&answers, "POST", "/retry", TRUSTED).0, 400, "no list");
        assert_eq!(ask(&answers, "POST", "/healthz", TRUSTED).0, 405);
    }
}
