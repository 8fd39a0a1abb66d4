//! What the service answers over HTTP, by path: health, metrics, status, failures, changes, and the page.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde::Deserialize;

use super::access::Caller;
use super::answers::{Answers, Change, off_thread};
use super::page;
use crate::ledger::FailureSearch;
use crate::status;

const PROMETHEUS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const JSON: &str = "application/json";

/// The longest body of a request, in bytes: many names of pictures.
const LONGEST_BODY: usize = 1 << 20;

/// Returns all paths that are answered.
pub(super) fn all(answers: Arc<Answers>) -> Router {
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
            let answer = all(Arc::clone(answers)).oneshot(request.unwrap()).await.unwrap();
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
