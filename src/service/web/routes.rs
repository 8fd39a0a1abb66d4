//! The HTTP interface of the service, by path: health, metrics, status, failures, changes, and the
//! page.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde::Deserialize;

use super::access::Caller;
use super::answers::{Answers, Change, off_thread};
use super::page;
use crate::commands::retry::Wanted;
use crate::commands::status;
use crate::ledger::FailureSearch;

const PROMETHEUS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const JSON: &str = "application/json";

/// Keeps other pages from embedding an answer, in browsers that do not say which site asks: over
/// plain HTTP they only do for localhost.
const SAME_ORIGIN: (HeaderName, &str) =
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin");

/// The longest body of a request, in bytes: many names of pictures.
const LONGEST_BODY: usize = 1 << 20;

/// Returns the routes of all paths.
pub(crate) fn all(answers: Arc<Answers>) -> Router {
    let private = Router::new()
        .route("/status", get(status_json))
        .route("/status.txt", get(status_text))
        .route("/failures", get(failures))
        .merge(page::private_routes())
        .route_layer(from_fn_with_state(Arc::clone(&answers), check_reader));
    Router::new()
        .route("/metrics", get(metrics))
        .route("/readyz", get(readyz))
        .route("/retry", post(retry))
        .route("/pause", post(pause))
        .route("/resume", post(resume))
        .route("/session/{key}", get(begin_session).head(no_session))
        .merge(page::routes())
        .merge(private)
        .fallback(not_found)
        .layer(from_fn_with_state(Arc::clone(&answers), check_name))
        // Outside the check of the name: probes may have their own name for this machine, and the
        // answer names no file.
        .route("/healthz", get(healthz))
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .with_state(answers)
}

type Shared = State<Arc<Answers>>;

/// Lets requests pass that name this server.
async fn check_name(
    State(answers): Shared,
    Extension(caller): Extension<Caller>,
    request: Request,
    next: Next,
) -> Response {
    match answers.access.knows_name(caller, request.headers()) {
        Ok(()) => next.run(request).await,
        Err(why) => why.into_response(),
    }
}

/// Lets requests pass that may read names of files, reasons and pictures.
async fn check_reader(
    State(answers): Shared,
    Extension(caller): Extension<Caller>,
    request: Request,
    next: Next,
) -> Response {
    match answers.access.may_read(caller, request.headers()) {
        Ok(()) => ([SAME_ORIGIN], next.run(request).await).into_response(),
        Err(why) => why.into_response(),
    }
}

/// Gives the browser that opens the link in the log a session.
async fn begin_session(
    State(answers): Shared,
    Extension(caller): Extension<Caller>,
    Path(key): Path<String>,
) -> Response {
    match answers.access.begin_session(&key, caller) {
        Some(cookie) => ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response(),
        None => {
            let why = "this link was used, or is from an earlier start: enter the token from the service's log on the page\n";
            (StatusCode::FORBIDDEN, why).into_response()
        }
    }
}

/// Answers a program that looks at the link without opening it, as mail and chat do.
async fn no_session() -> impl IntoResponse {
    (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET")])
}

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

/// A request for the failures.
#[derive(Deserialize)]
struct FailureQuery {
    /// Text to find in their paths or reasons.
    #[serde(default)]
    search: String,
    /// The most to list.
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
    if let Err(why) = answers.access.may_change(caller, &headers) {
        return why.into_response();
    }
    match off_thread(move || wanted(&body)).await {
        Ok(Ok(wanted)) => answers.change(Change::Retry(wanted), caller, &headers).await,
        Ok(Err(why)) => (StatusCode::BAD_REQUEST, why + "\n").into_response(),
        Err(status) => status.into_response(),
    }
}

/// Parses a selection of pictures to retry. The error is a sentence for the client.
fn wanted(body: &str) -> Result<Wanted, String> {
    let patterns: Vec<String> =
        serde_json::from_str(body).map_err(|_| "the body is a list of patterns".to_owned())?;
    Wanted::new(&patterns)
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
    use tower::ServiceExt;

    const TRUSTED: Caller = Caller::Socket { user: Some(0) };
    const ANYBODY: Caller = Caller::Socket { user: None };

    fn ask(answers: &Arc<Answers>, method: &str, path: &str, caller: Caller) -> (u16, String) {
        ask_with(answers, &format!("{method} {path}"), caller, &[])
    }

    fn ask_with(
        answers: &Arc<Answers>,
        line: &str,
        caller: Caller,
        headers: &[(&str, &str)],
    ) -> (u16, String) {
        let (method, path) = line.split_once(' ').unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut request = Request::builder().method(method).uri(path).extension(caller);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let request = request.body(Body::empty()).unwrap();
            let answer = all(Arc::clone(answers)).oneshot(request).await.unwrap();
            let status = answer.status().as_u16();
            let policy = answer.headers().get("cross-origin-resource-policy");
            assert!(policy.is_none_or(|policy| policy == "same-origin"));
            let is_private = ["/status", "/failures", "/activity", "/pictures/"];
            if is_private.iter().any(|private| path.starts_with(private)) && ![403, 421].contains(&status) {
                assert!(policy.is_some(), "{path}: no page of another site embeds it");
            }
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
        assert_eq!(ask(&answers, "POST", "/retry", ANYBODY).0, 403, "nothing is read");
        assert_eq!(ask(&answers, "POST", "/healthz", TRUSTED).0, 405);
    }

    #[test]
    fn who_reads_names_this_server_and_is_no_page_of_another() {
        let answers = Arc::new(Answers::for_tests());
        let get = |path: &str, headers: &[(&str, &str)]| {
            ask_with(&answers, &format!("GET {path}"), Caller::Network { port: 9464 }, headers).0
        };
        let private = ["/status", "/status.txt", "/failures", "/activity", "/pictures/1/before.png"];
        let open = ["/", "/page.js", "/metrics", "/readyz", "/none"];
        for path in private.iter().chain(&open) {
            assert_eq!(get(path, &[("host", "evil.example:9464")]), 421, "{path}");
            assert_eq!(get(path, &[]), 421, "{path}");
            assert_ne!(get(path, &[("host", "localhost:9464")]), 421, "{path}");
        }
        for path in private {
            assert_eq!(get(path, &[("host", "localhost"), ("sec-fetch-site", "cross-site")]), 403, "{path}");
            assert_ne!(get(path, &[("host", "localhost"), ("sec-fetch-site", "same-origin")]), 403, "{path}");
        }
        assert_eq!(get("/healthz", &[("host", "evil.example")]), 200);
    }

    #[test]
    fn the_link_in_the_log_gives_one_session() {
        let answers = Arc::new(Answers::for_tests());
        let link = answers.access.way_in().unwrap();
        let open = |method: &str| {
            let request = format!("{method} {link}");
            ask_with(&answers, &request, Caller::Network { port: 1 }, &[("host", "[::1]:1")]).0
        };
        assert_eq!(open("HEAD"), 405, "a look at the link does not use it up");
        assert_eq!((open("GET"), open("GET")), (303, 403));
    }
}
