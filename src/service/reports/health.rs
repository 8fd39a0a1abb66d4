//! Whether the service is alive and able to work, for the service manager and for HTTP clients.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

use crate::ledger::ServiceReport;

/// How long the loop, which comes round several times a second, may be silent before it counts as
/// hung.
const HANGS: Duration = Duration::from_secs(30);
/// The pipeline finishes a picture, successfully or not, within this many times the device timeout.
const PICTURES: u32 = 10;
/// The least time that the pipeline is given for a picture: it may be a huge one on a small
/// machine.
const LEAST_PICTURE_TIME: Duration = Duration::from_secs(600);

/// The least interval between two signs of life to the watchdog: the loop comes round with every
/// picture.
const SIGN: Duration = Duration::from_millis(200);

/// The service's health. Written by the loop, read by all other threads.
#[derive(Debug)]
pub(crate) struct Health {
    patience: Duration,
    state: Mutex<Beats>,
}

#[derive(Debug)]
struct Beats {
    beat: Instant,
    /// The last time that a picture ended, or no picture was in progress.
    moved: Instant,
    /// When the watchdog's next sign of life is due.
    next_sign: Instant,
    ready: bool,
    stopping: bool,
    trouble: Option<String>,
}

impl Health {
    /// Creates the health of a service that is alive and not ready yet.
    pub(crate) fn new(device_timeout: Duration) -> Self {
        let now = Instant::now();
        let state =
            Beats { beat: now, moved: now, next_sign: now, ready: false, stopping: false, trouble: None };
        Self { patience: (device_timeout * PICTURES).max(LEAST_PICTURE_TIME), state: Mutex::new(state) }
    }

    /// Reports that all of the pipeline is up.
    pub(crate) fn ready(&self) {
        self.lock().ready = true;
        notify(&[NotifyState::Ready]);
    }

    /// Reports that no more pictures are begun.
    pub(crate) fn stopping(&self) {
        self.lock().stopping = true;
        notify(&[NotifyState::Stopping]);
    }

    /// Records that the loop came round. The watchdog gets a sign of life only while the pipeline
    /// makes progress too.
    pub(crate) fn beat(&self, pictures_under_way: bool) {
        let now = Instant::now();
        let mut state = self.lock();
        state.beat = now;
        if !pictures_under_way {
            state.moved = now;
        }
        let is_time = state.next_sign <= now;
        if is_time {
            state.next_sign = now + SIGN;
        }
        drop(state);
        if is_time && self.alive().is_ok() && sd_notify::watchdog_enabled().is_some() {
            notify(&[NotifyState::Watchdog]);
        }
    }

    /// Records that a picture ended, or that a part of one is complete.
    pub(crate) fn moved(&self) {
        self.lock().moved = Instant::now();
    }

    /// Takes the loop's report about itself, and passes a summary on to the service manager.
    pub(crate) fn say(&self, service: &ServiceReport) {
        let missing =
            (!service.missing.is_empty()).then(|| format!("missing: {}", service.missing.join(", ")));
        let trouble = service.held.clone().or(missing);
        let status = match &trouble {
            Some(trouble) => trouble.clone(),
            None => work(service),
        };
        self.lock().trouble = trouble;
        notify(&[NotifyState::Status(&status)]);
    }

    /// Checks that the loop and the pipeline make progress; the error names the one that does not.
    pub(crate) fn alive(&self) -> Result<(), String> {
        let state = self.lock();
        if state.beat.elapsed() > HANGS {
            return Err("the main loop is not responding".into());
        }
        if state.moved.elapsed() > self.patience {
            return Err(format!("no picture has finished for {} s", state.moved.elapsed().as_secs()));
        }
        Ok(())
    }

    /// Checks that pictures can be processed; the error is the reason if not.
    pub(crate) fn able(&self) -> Result<(), String> {
        self.alive()?;
        let state = self.lock();
        match &state.trouble {
            _ if state.stopping => Err("stopping".into()),
            _ if !state.ready => Err("starting".into()),
            Some(trouble) => Err(trouble.clone()),
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Beats> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Describes the work in progress, and trouble that does not hold it up.
fn work(service: &ServiceReport) -> String {
    let paused = if service.paused { "paused; " } else { "" };
    let mut text =
        format!("{paused}{} in progress, {} waiting", service.running, service.waiting + service.pausing);
    for device in &service.devices {
        if let Some(trouble) = &device.trouble {
            text.push_str(&format!("; {}: {trouble}", device.name));
        }
    }
    if let Some(why) = &service.staying {
        text.push_str(&format!("; {why}"));
    }
    text
}

fn notify(states: &[NotifyState<'_>]) {
    // Fails without a service manager, which does not matter; a manager that misses a message draws
    // its own conclusions.
    let _ = sd_notify::notify(states);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::device_state::DeviceState;

    #[test]
    fn able_is_who_is_ready_without_trouble_and_not_stopping() {
        let health = Health::new(Duration::from_secs(1));
        assert_eq!(health.alive(), Ok(()));
        assert_eq!(health.able(), Err("starting".into()));
        health.ready();
        assert_eq!(health.able(), Ok(()));
        health.say(&ServiceReport { held: Some("no room".into()), ..ServiceReport::default() });
        assert_eq!(health.able(), Err("no room".into()));
        health.say(&ServiceReport { missing: vec!["in".into()], ..ServiceReport::default() });
        assert_eq!(health.able(), Err("missing: in".into()));
        health.say(&ServiceReport::default());
        health.stopping();
        assert_eq!(health.able(), Err("stopping".into()));
        assert_eq!(health.alive(), Ok(()));
    }

    #[test]
    fn a_device_in_trouble_is_shown_and_hinders_nothing() {
        let (cpu, gpu) = (
            DeviceState { name: "cpu".into(), up: true, ..DeviceState::default() },
            DeviceState { name: "gpu0".into(), trouble: Some("it died".into()), ..DeviceState::default() },
        );
        let service = ServiceReport { running: 2, devices: vec![cpu, gpu], ..ServiceReport::default() };
        assert_eq!(work(&service), "2 in progress, 0 waiting; gpu0: it died");
        let health = Health::new(Duration::from_secs(1));
        health.ready();
        health.say(&service);
        assert_eq!(health.able(), Ok(()));
    }

    #[test]
    fn an_archive_that_takes_nothing_is_shown_and_hinders_no_picture() {
        let staying = Some("in/a.png cannot be moved to kept: no room".to_owned());
        let service = ServiceReport { leaving: 3, staying, ..ServiceReport::default() };
        assert_eq!(work(&service), "0 in progress, 0 waiting; in/a.png cannot be moved to kept: no room");
        let health = Health::new(Duration::from_secs(1));
        health.ready();
        health.say(&service);
        assert_eq!(health.able(), Ok(()));
    }

    #[test]
    fn a_pipeline_that_ends_nothing_is_not_alive_unless_it_has_nothing() {
        let health = Health::new(Duration::from_secs(1));
        let Some(long_ago) = Instant::now().checked_sub(LEAST_PICTURE_TIME * 2) else { return };
        health.lock().moved = long_ago;
        health.beat(true);
        assert!(health.alive().is_err());
        health.beat(false);
        assert_eq!(health.alive(), Ok(()));
    }
}
