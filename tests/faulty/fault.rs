//! Failures on request, for tests of their effects on pictures.

use std::sync::atomic::{AtomicU64, Ordering};

use codec::coders::CompressedJpeg;
use histeqd::device::worker::Faults;
use lanes::{EngineError, LaneError};
use rustix::process::{Signal, getpid, kill_process};

/// A requested failure, as `KIND@PICTURE`. `exit@5`, `fail@5` and `trap@5` strike at the fifth
/// picture of the device's first worker; with `*` appended, of every worker. `refuse@5` is
/// `exit@5`, after which all later workers refuse to work when they start. `decline@5` declines the
/// fifth picture and all later ones, and `hang@5` never returns them. With `echo@5`, `garble@5` and
/// `overlong@5`, the worker misreports its encoded result from the fifth picture on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fault {
    kind: FaultKind,
    picture: u64,
    every_life: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultKind {
    /// The process ends without a message.
    Exit,
    /// The lane never returns, with this picture or a later one.
    Hang,
    /// The engine reports an error.
    Fail,
    /// The process ends without a message, and its successors refuse to start.
    Refuse,
    /// A kernel traps, which destroys all of the process's state on the GPU.
    Trap,
    /// This picture and all later ones are declined.
    Decline,
    /// The original JPEG is passed off as the encoded one.
    Echo,
    /// Bytes that are not a JPEG, as many as the original has, are passed off as the encoded one.
    Garble,
    /// The reported length is longer than the slot.
    Overlong,
}

impl std::str::FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (body, every_life) = text.strip_suffix('*').map_or((text, false), |body| (body, true));
        let (kind, picture) = body.split_once('@').ok_or("a fault is KIND@PICTURE")?;
        let kind = match kind {
            "exit" => FaultKind::Exit,
            "hang" => FaultKind::Hang,
            "fail" => FaultKind::Fail,
            "refuse" => FaultKind::Refuse,
            "trap" => FaultKind::Trap,
            "decline" => FaultKind::Decline,
            "echo" => FaultKind::Echo,
            "garble" => FaultKind::Garble,
            "overlong" => FaultKind::Overlong,
            _ => return Err(format!("no such fault: {kind}")),
        };
        let picture = picture.parse().map_err(|_| format!("no number of a picture: {picture}"))?;
        Ok(Self { kind, picture, every_life })
    }
}

impl Fault {
    /// Returns whether the worker does not fail, but reports a false result.
    fn is_pretence(self) -> bool {
        matches!(self.kind, FaultKind::Echo | FaultKind::Garble | FaultKind::Overlong)
    }

    /// Returns whether it is meant for a worker in this life.
    fn is_for(self, life: u32) -> bool {
        self.every_life || life == 0 || self.kind == FaultKind::Refuse
    }
}

/// A worker's count of pictures, and the failure it leads up to.
pub(crate) struct Requested {
    fault: Option<Fault>,
    life: u32,
    pictures: AtomicU64,
}

impl Requested {
    /// Reads the fault that the environment variable `HISTEQD_FAULT` requests for this life of the
    /// worker.
    ///
    /// # Errors
    /// If the variable's text is not a fault.
    pub(crate) fn from_environment(life: u32) -> Result<Self, String> {
        let fault = match std::env::var("HISTEQD_FAULT") {
            Ok(text) => Some(text.parse()?).filter(|fault: &Fault| fault.is_for(life)),
            Err(_) => None,
        };
        Ok(Self { fault, life, pictures: AtomicU64::new(0) })
    }
}

impl Faults for Requested {
    fn refuse(&self) -> Result<(), EngineError> {
        match self.fault {
            Some(Fault { kind: FaultKind::Refuse, .. }) if self.life > 0 => {
                Err(EngineError("a test asked for this".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Carries out the fault if this is the picture it is meant for, after overwriting half of the
    /// bytes, as a real failure may.
    fn strike(
        &self,
        bytes: &mut [u8],
        trap: &mut dyn FnMut() -> Result<(), EngineError>,
    ) -> Result<(), LaneError> {
        let Some(fault) = self.fault else { return Ok(()) };
        let number = self.pictures.fetch_add(1, Ordering::Relaxed) + 1;
        let goes_on = matches!(fault.kind, FaultKind::Decline | FaultKind::Hang);
        let is_struck = number == fault.picture || goes_on && number > fault.picture;
        if !is_struck || fault.is_pretence() {
            return Ok(());
        }
        let half = bytes.len() / 2;
        bytes[..half].fill(0xA5);
        match fault.kind {
            FaultKind::Exit | FaultKind::Refuse => die(),
            FaultKind::Hang => loop {
                std::thread::park();
            },
            FaultKind::Fail => Err(EngineError("a test asked for this failure".to_owned()).into()),
            FaultKind::Decline => Err(LaneError::Decline("a test asked for this".to_owned())),
            FaultKind::Trap => Ok(trap()?),
            FaultKind::Echo | FaultKind::Garble | FaultKind::Overlong => Ok(()),
        }
    }

    fn pretend(&self, slot: &mut [u8], jpeg: &CompressedJpeg) -> Option<u64> {
        let fault = self.fault.filter(|fault| self.pictures.load(Ordering::Relaxed) >= fault.picture)?;
        match fault.kind {
            FaultKind::Echo => {}
            FaultKind::Garble => slot[..jpeg.bytes as usize].fill(0xA5),
            FaultKind::Overlong => return Some(slot.len() as u64 + 1),
            FaultKind::Exit
            | FaultKind::Hang
            | FaultKind::Fail
            | FaultKind::Refuse
            | FaultKind::Trap
            | FaultKind::Decline => return None,
        }
        Some(jpeg.bytes)
    }
}

/// Ends the process at once.
fn die() -> ! {
    // This cannot fail: a process may always signal itself.
    let _ = kill_process(getpid(), Signal::KILL);
    loop {
        std::thread::park();
    }
}
