//! The page for people: its files, and the data that it requests while it is open.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use serde::Serialize;

use super::access::Caller;
use super::answers::{Answers, InForce, off_thread};
use super::previews::Side;
use crate::ledger::Report;
use crate::service::reports::activity::Recent;
use crate::slot::device_state::DeviceState;

/// A file of the page.
struct StaticFile {
    content_type: &'static str,
    text: &'static str,
}

const HTML: StaticFile =
    StaticFile { content_type: "text/html; charset=utf-8", text: include_str!("page/index.html") };
const STYLE: StaticFile =
    StaticFile { content_type: "text/css; charset=utf-8", text: include_str!("page/page.css") };
const SCRIPT: StaticFile =
    StaticFile { content_type: "text/javascript; charset=utf-8", text: include_str!("page/page.js") };

/// Only content of this server, and never within another page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns the paths of the page itself, which is the same everywhere.
pub(crate) fn routes() -> Router<Arc<Answers>> {
    Router::new()
        .route("/", get(|| async { served(HTML) }))
        .route("/page.css", get(|| async { served(STYLE) }))
        .route("/page.js", get(|| async { served(SCRIPT) }))
}

/// Returns the paths of the data that the page shows.
pub(crate) fn private_routes() -> Router<Arc<Answers>> {
    Router::new().route("/activity", get(activity)).route("/pictures/{number}/{part}", get(picture))
}

fn served(StaticFile { content_type, text }: StaticFile) -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, text)
}

/// The data that the page shows.
#[derive(Serialize)]
struct Page {
    version: &'static str,
    in_force: InForce,
    /// Whether the client may make changes without a token.
    may_change: bool,
    status: Report,
    recent: Recent,
    devices: Vec<Device>,
    memory: Use,
    disk: Option<Use>,
}

/// A device and its activity.
#[derive(Serialize)]
struct Device {
    #[serde(flatten)]
    state: DeviceState,
    slots: usize,
    slots_in_use: usize,
    /// Seconds during which it had pictures, if that is known.
    busy_seconds: Option<f64>,
}

/// The use of a resource, in bytes.
#[derive(Serialize)]
struct Use {
    used: u64,
    all: u64,
}

async fn activity(
    State(answers): State<Arc<Answers>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<Json<Page>, StatusCode> {
    let page = off_thread(move || {
        let machine = answers.metrics.machine();
        let (used, all) = machine.pool.memory();
        Page {
            version: env!("CARGO_PKG_VERSION"),
            in_force: answers.in_force.clone(),
            may_change: answers.access.may_change(caller, &headers).is_ok(),
            status: answers.account.report(),
            recent: answers.account.recent(),
            devices: machine
                .devices()
                .map(|(state, slots)| Device {
                    busy_seconds: state.in_use.map(|in_use| in_use.busy.as_secs_f64()),
                    state,
                    slots: slots.all,
                    slots_in_use: slots.taken,
                })
                .collect(),
            memory: Use { used, all },
            disk: disk(answers.account.out()),
        }
    });
    page.await.map(Json)
}

/// Returns the use of the disk that a folder is on, as far as its user may fill it.
fn disk(folder: &std::path::Path) -> Option<Use> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    let used = disk.f_blocks.saturating_sub(disk.f_bfree) * disk.f_frsize;
    Some(Use { used, all: used + disk.f_bavail * disk.f_frsize })
}

/// Answers with a preview of one of the latest pictures: as a picture, or its histogram.
async fn picture(
    State(answers): State<Arc<Answers>>,
    Path((number, part)): Path<(u64, String)>,
) -> Result<Response, StatusCode> {
    let (side, is_picture) = match part.as_str() {
        "before.png" => (Side::Before, true),
        "after.png" => (Side::After, true),
        "before.json" => (Side::Before, false),
        "after.json" => (Side::After, false),
        _ => return Err(StatusCode::NOT_FOUND),
    };
    let kept =
        [(header::CACHE_CONTROL, "private, max-age=3600"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    Ok(match answers.previews.get(number, side).await {
        Ok(preview) if is_picture => {
            (kept, [(header::CONTENT_TYPE, "image/png")], preview.png.clone()).into_response()
        }
        Ok(preview) => (kept, Json(&preview.facts)).into_response(),
        Err(why) => (StatusCode::NOT_FOUND, why + "\n").into_response(),
    })
}
