//! Whether the service is alive and able to work, for the service manager and for whoever asks over HTTP.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

use crate::ledger::Daemon;

/// The loop comes round several times a second; after so long it hangs.
const HANGS: Duration = Duration::from_secs(30);
/// The pipeline ends a picture, good or bad, within so many times what a device may take for one.
const PICTURES: u32 = 10;
/// And it gets at least this long: a huge picture on a small machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// The watchdog hears of life no more often than this; the loop comes round with every picture.
const SIGN: Duration = Duration::from_millis(200);

/// Written by the loop, read by everybody.
#[derive(Debug)]
pub(super) struct Health {
    patience: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    beat: Instant,
    /// The last time that a picture ended, or that there was none under way.
    moved: Instant,
    /// When the watchdog is due to hear a sign of life.
    next_sign: Instant,
    ready: bool,
    stopping: bool,
    trouble: Option<String>,
}

impl Health {
    /// Alive, and not ready.
    pub(super) fn new(device_timeout: Duration) -> Self {
        let now = Instant::now();
        let state =
            State { beat: now, moved: now, next_sign: now, ready: false, stopping: false, trouble: None };
        Self { patience: (device_timeout * PICTURES).max(PATIENCE), state: Mutex::new(state) }
    }

    /// All of the pipeline stands.
    pub(super) fn ready(&self) {
        self.lock().ready = true;
        notify(&[NotifyState::Ready]);
    }

    /// No more pictures are begun.
    pub(super) fn stopping(&self) {
        self.lock().stopping = true;
        notify(&[NotifyState::Stopping]);
    }

    /// The loop comes round. The watchdog hears of it only while the pipeline moves too.
    pub(super) fn beat(&self, pictures_under_way: bool) {
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

    /// A picture came to an end.
    pub(super) fn moved(&self) {
        self.lock().moved = Instant::now();
    }

    /// What the loop knows of itself.
    pub(super) fn say(&self, daemon: &Daemon) {
        let missing =
            (!daemon.missing.is_empty()).then(|| format!("not there: {}", daemon.missing.join(", ")));
        let trouble = daemon.held.clone().or(missing);
        let status = match &trouble {
            Some(trouble) => trouble.clone(),
            None => work(daemon),
        };
        self.lock().trouble = trouble;
        notify(&[NotifyState::Status(&status)]);
    }

    /// Whether the loop and the pipeline move, or why not.
    pub(super) fn alive(&self) -> Result<(), String> {
        let state = self.lock();
        if state.beat.elapsed() > HANGS {
            return Err("the loop hangs".into());
        }
        if state.moved.elapsed() > self.patience {
            return Err(format!("no picture came to an end for {} s", state.moved.elapsed().as_secs()));
        }
        Ok(())
    }

    /// Whether it can do pictures, or why not.
    pub(super) fn able(&self) -> Result<(), String> {
        self.alive()?;
        let state = self.lock();
        match &state.trouble {
            _ if state.stopping => Err("stopping".into()),
            _ if !state.ready => Err("starting".into()),
            Some(trouble) => Err(trouble.clone()),
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is done, and what does not help with it.
fn work(daemon: &Daemon) -> String {
    let mut text = format!("{} under way, {} waiting", daemon.running, daemon.waiting + daemon.pausing);
    for device in &daemon.devices {
        if let Some(trouble) = &device.trouble {
            text.push_str(&format!("; {}: {trouble}", device.name));
        }
    }
    if let Some(why) = &daemon.staying {
        text.push_str(&format!("; {why}"));
    }
    text
}

fn notify(states: &[NotifyState<'_>]) {
    // Without a service manager nobody listens, and one that does not hear draws its own conclusions.
    let _ = sd_notify::notify(states);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceState;

    #[test]
    fn able_is_who_is_ready_without_trouble_and_not_stopping() {
        let health = Health::new(Duration::from_secs(1));
        assert_eq!(health.alive(), Ok(()));
        assert_eq!(health.able(), Err("starting".into()));
        health.ready();
        assert_eq!(health.able(), Ok(()));
        health.say(&Daemon { held: Some("no room".into()), ..Daemon::default() });
        assert_eq!(health.able(), Err("no room".into()));
        health.say(&Daemon { missing: vec!["in".into()], ..Daemon::default() });
        assert_eq!(health.able(), Err("not there: in".into()));
        health.say(&Daemon::default());
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
        let daemon = Daemon { running: 2, devices: vec![cpu, gpu], ..Daemon::default() };
        assert_eq!(work(&daemon), "2 under way, 0 waiting; gpu0: it died");
        let health = Health::new(Duration::from_secs(1));
        health.ready();
        health.say(&daemon);
        assert_eq!(health.able(), Ok(()));
    }

    #[test]
    fn an_archive_that_takes_nothing_is_shown_and_hinders_no_picture() {
        let staying = Some("in/a.png cannot be moved below kept: no room".to_owned());
        let daemon = Daemon { leaving: 3, staying, ..Daemon::default() };
        assert_eq!(work(&daemon), "0 under way, 0 waiting; in/a.png cannot be moved below kept: no room");
        let health = Health::new(Duration::from_secs(1));
        health.ready();
        health.say(&daemon);
        assert_eq!(health.able(), Ok(()));
    }

    #[test]
    fn a_pipeline_that_ends_nothing_is_not_alive_unless_it_has_nothing() {
        let health = Health::new(Duration::from_secs(1));
        let Some(long_ago) = Instant::now().checked_sub(PATIENCE * 2) else { return };
        health.lock().moved = long_ago;
        health.beat(true);
        assert!(health.alive().is_err());
        health.beat(false);
        assert_eq!(health.alive(), Ok(()));
    }
}
