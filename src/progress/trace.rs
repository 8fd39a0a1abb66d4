//! `HISTEQD_TRACE=FILE`: the activity of each thread of the program and its workers over time, as
//! Chrome's trace events, which `chrome://tracing` and Perfetto show.
//!
//! The events are the spans of the `tracing` crate that histeqd's own crates enter. All processes
//! append to one file, an array with an event a line, where the format allows the closing bracket
//! to be absent. The times are of the monotonic clock, which all processes share.

use std::cell::Cell;
use std::env;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::thread;

use rustix::process::getpid;
use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use tracing::span::Id;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::error::Error;
use crate::fs::paths::Shown;

/// The environment variable that names the file.
const VARIABLE: &str = "HISTEQD_TRACE";

thread_local! {
    /// Whether the file has the name of this thread.
    static IS_NAMED: Cell<bool> = const { Cell::new(false) };
}

/// Returns the layer of this process's subscriber that writes the trace, if one is requested: the
/// main process begins the file, and its workers continue it.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn layer<S>(begins: bool) -> Result<Option<impl Layer<S>>, Error>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let Some(path) = env::var_os(VARIABLE).map(PathBuf::from) else { return Ok(None) };
    let unwritten = |source| Error::Unwritten { what: format!("the trace {}", Shown(&path)), source };
    let file = open(&path, begins).map_err(unwritten)?;
    Ok(Some(Trace { file }.with_filter(filter_fn(is_shown))))
}

/// Makes this process write the requested trace, and drop all other events of `tracing`.
///
/// # Errors
/// As [`layer`].
pub(crate) fn start(begins: bool) -> Result<(), Error> {
    if let Some(layer) = layer(begins)? {
        // Another run in the same process, as in tests, has its spans in the first one's file.
        let _ = tracing_subscriber::registry().with(layer).try_init();
    }
    Ok(())
}

fn open(path: &PathBuf, begins: bool) -> io::Result<File> {
    if begins {
        File::create(path)?.write_all(b"[\n")?;
    }
    OpenOptions::new().append(true).open(path)
}

fn is_shown(of: &Metadata<'_>) -> bool {
    of.is_span() && of.target().starts_with("histeqd")
}

/// Microseconds of the monotonic clock.
struct Entered(f64);

fn now() -> f64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

struct Trace {
    file: File,
}

impl Trace {
    /// Appends an event. A trace that cannot be written is no reason to fail.
    fn write(&self, event: &serde_json::Value) {
        let _ = (&self.file).write_all(format!("{event},\n").as_bytes());
    }

    fn name_thread(&self, process: i32, thread: i32) {
        let name = thread::current().name().unwrap_or("thread").to_owned();
        self.write(&json!({ "ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": { "name": name } }));
        let program = env::args().next().unwrap_or_default();
        self.write(
            &json!({ "ph": "M", "name": "process_name", "pid": process, "args": { "name": program } }),
        );
    }
}

impl<S> Layer<S> for Trace
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(Entered(now()));
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let Some(Entered(begun)) = span.extensions_mut().remove() else { return };
        let (process, thread) = (getpid().as_raw_pid(), gettid().as_raw_pid());
        if !IS_NAMED.replace(true) {
            self.name_thread(process, thread);
        }
        let took = now() - begun;
        self.write(
            &json!({ "ph": "X", "name": span.name(), "ts": begun, "dur": took, "pid": process, "tid": thread }),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_this_program_are_events_of_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        let trace = Trace { file: open(&path, true).unwrap() }.with_filter(filter_fn(is_shown));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(trace), || {
            tracing::trace_span!("one").in_scope(|| tracing::trace_span!("within").in_scope(|| ()));
            tracing::trace_span!(target: "elsewhere", "other").in_scope(|| ());
            tracing::info!("an event is no span");
        });
        let text = std::fs::read_to_string(path).unwrap();
        let closed = format!("{}]", text.trim_end().trim_end_matches(','));
        let events: Vec<serde_json::Value> = serde_json::from_str(&closed).unwrap();
        let of = |kind: &str| -> Vec<&serde_json::Value> {
            events.iter().filter(|event| event["ph"] == kind).collect()
        };
        let names: Vec<&str> = of("X").iter().map(|event| event["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["within", "one"]);
        assert_eq!(of("M")[0]["args"]["name"], thread::current().name().unwrap());
        let within = |key: &str| of("X")[0][key].as_f64().unwrap();
        let one = |key: &str| of("X")[1][key].as_f64().unwrap();
        assert!(one("ts") <= within("ts") && within("ts") + within("dur") <= one("ts") + one("dur"));
    }
}
