//! The state needed to answer HTTP requests, and the changes that clients may request.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use crossbeam_channel::{Sender, bounded};
use serde::Serialize;

use super::access::{Access, Caller, Denied};
use super::previews::Previews;
use crate::commands::retry::Wanted;
use crate::config::{Request, Settings, Written};
use crate::device::machine::Machine;
use crate::fs::paths::{Shown, absolute};
use crate::service::reports::account::Account;
use crate::service::reports::health::Health;
use crate::service::reports::metrics::Metrics;

/// How long the loop may take to answer.
const LOOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A change to the service, for the loop.
#[derive(Debug)]
pub(crate) enum Change {
    /// Take failed pictures up again.
    Retry(Wanted),
    /// Begin no more pictures.
    Pause,
    /// Begin pictures again.
    Resume,
}

/// A client's request for a change.
pub(crate) struct ChangeRequest {
    pub(crate) change: Change,
    /// Receives the number of affected pictures, or the reason for a refusal.
    pub(crate) answer: Sender<Result<usize, String>>,
}

/// The settings of all pictures as long as the service runs, for people.
#[derive(Clone, Serialize)]
pub(crate) struct InForce {
    /// The keys that decide how outputs look.
    settings: String,
    /// The configuration file, if one was read.
    file: Option<String>,
    /// Whether folders may have settings of their own.
    folders: bool,
}

impl InForce {
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            settings: settings.in_brief(),
            file: settings.config_file.as_deref().map(|file| Shown(&absolute(file)).to_string()),
            folders: settings.folder_settings,
        }
    }
}

/// The state needed to answer all requests.
pub(crate) struct Answers {
    pub(crate) in_force: InForce,
    pub(crate) account: Arc<Account>,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) changes: Sender<ChangeRequest>,
    pub(crate) access: Access,
    pub(crate) previews: Previews,
}

/// Runs work that may wait for the disk on another thread than that of all connections.
pub(crate) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StatusCode> {
    tokio::task::spawn_blocking(work).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Name => StatusCode::MISDIRECTED_REQUEST,
            Self::Origin | Self::User | Self::Token => StatusCode::FORBIDDEN,
        };
        (status, format!("{self}\n")).into_response()
    }
}

impl Answers {
    /// Requests a change from the loop, if the caller may.
    pub(crate) async fn change(
        self: Arc<Self>,
        change: Change,
        caller: Caller,
        headers: &HeaderMap,
    ) -> Response {
        if let Err(why) = self.access.may_change(caller, headers) {
            return why.into_response();
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

    /// Returns answers for a service that is alive but has no data, and sends changes to `changes`.
    /// The error is a sentence.
    pub(crate) fn without_data(changes: Sender<ChangeRequest>) -> Result<Self, String> {
        let machine = Arc::new(Machine::new(1 << 20, 1));
        let account = Arc::new(Account::new("nowhere".into(), "nowhere".into()));
        let settings = Settings::resolve(Written::default(), Request::default())?;
        let previews = Previews::start(Arc::clone(&machine), Arc::clone(&account), &settings);
        Ok(Self {
            in_force: InForce { settings: "method global".into(), file: None, folders: true },
            previews: previews.map_err(|error| error.to_string())?,
            account,
            health: Arc::new(Health::new(Duration::from_secs(1))),
            metrics: Arc::new(Metrics::new(machine)),
            changes,
            access: Access::new(None, &[])?,
        })
    }

    /// Returns the same without a loop.
    #[cfg(test)]
    pub(super) fn for_tests() -> Self {
        Self::without_data(bounded(1).0).unwrap()
    }
}
