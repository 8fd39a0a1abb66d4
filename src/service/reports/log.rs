//! The service's log: lines on standard error, with the journal's levels if the journal reads them.

use std::fmt;
use std::path::Path;

use rustix::fs::fstat;
use tracing::{Event, Level, Subscriber, info, warn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::{Existing, Settings, Style};
use crate::error::Error;
use crate::fs::paths::{Shown, absolute};
use crate::progress::trace;
use crate::source::folder_settings::FolderNote;
use crate::terminal_text::OneLine;

/// Starts logging at the level of `style`; the environment variable `HISTEQD_LOG` overrides it.
///
/// # Errors
/// When the requested trace cannot be written.
pub(crate) fn start(style: Style) -> Result<(), Error> {
    let level = match style {
        Style::Quiet => "warn",
        Style::Normal => "info",
        Style::Verbose => "debug",
    };
    let filter = EnvFilter::try_from_env("HISTEQD_LOG");
    let filter = filter.unwrap_or_else(|_| EnvFilter::new(format!("histeqd={level}")));
    let lines = Lines { journal: leads_to_journal() };
    let log = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        // They would go to standard error too, by a macro that panics if writing there fails.
        .log_internal_errors(false)
        .event_format(lines)
        .with_filter(filter);
    let trace = trace::layer(true)?;
    // A second service in the same process, as in tests, uses the first one's log.
    let _ = tracing_subscriber::registry().with(log).with(trace).try_init();
    Ok(())
}

/// Returns the log's first line: the version, the settings, and the devices.
pub(crate) fn first_line(settings: &Settings) -> String {
    let shown = |path: &Path| Shown(&absolute(path)).to_string();
    format!(
        "histeqd {}: {}; output {}; devices {}, {} threads; configuration file {}",
        env!("CARGO_PKG_VERSION"),
        settings.in_brief(),
        shown(&settings.out),
        settings.devices,
        settings.threads,
        settings.config_file.as_deref().map_or_else(|| "none".to_owned(), shown),
    )
}

/// Logs a note about the settings of a folder.
pub(crate) fn folder_note(note: FolderNote) {
    match note {
        FolderNote::Says(text) => info!("settings of a folder: {text}"),
        FolderNote::Idle(text) => warn!("{text}"),
        FolderNote::Unusable(why) => warn!("pictures of a folder are held back: {why}"),
    }
}

/// Logs the effect of a reload: the changed keys, and the keys that need a restart.
pub(crate) fn reloaded(applied: &[String], fixed: &[String]) {
    match applied {
        [] => info!("configuration reloaded: no changes for the running service"),
        applied => info!("configuration reloaded: changes to {} are in force", applied.join(", ")),
    }
    if !fixed.is_empty() {
        warn!("restart the service for the changes to {}", fixed.join(", "));
    }
}

/// Warns if `overwrite` is set, which has no effect: the ledger decides which pictures are
/// processed, not the modification times of outputs.
pub(crate) fn warn_of_overwrite(settings: &Settings) {
    if settings.existing == Existing::Overwrite {
        warn!("overwrite = true has no effect in a service; to process everything again, delete its ledger");
    }
}

struct Lines {
    journal: bool,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut to: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = *event.metadata().level();
        if self.journal {
            write!(to, "<{}>", priority(level))?;
        } else {
            SystemTime.format_time(&mut to)?;
            write!(to, " {level:>5} ")?;
        }
        let mut words = String::new();
        context.format_fields(Writer::new(&mut words), event)?;
        writeln!(to, "{}", OneLine(&words))
    }
}

/// Returns whether standard error is the journal, by the device and inode number that systemd gives
/// (systemd.exec(5)). A child with its output elsewhere inherits the variable.
fn leads_to_journal() -> bool {
    let Ok(journal) = std::env::var("JOURNAL_STREAM") else { return false };
    fstat(std::io::stderr()).is_ok_and(|stderr| journal == format!("{}:{}", stderr.st_dev, stderr.st_ino))
}

/// Returns the syslog priority of a level.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}
