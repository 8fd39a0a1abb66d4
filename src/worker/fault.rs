//! Failures on request, so that tests can show what becomes of the pictures.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{EngineError, Trouble};
use crate::codec::CompressedJpeg;

/// A failure that a test asks for: `exit@5`, `hang@5`, `fail@5` or `trap@5`, at the fifth picture of the device's first worker; with `*`
/// at its end, of every worker. `refuse@5` is `exit@5`, and the workers after it say at their start that they cannot work.
/// `decline@5` declines the fifth and all that follow. `echo@5`, `garble@5` and `overlong@5` are what it says from its fifth picture on
/// that it encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    kind: FaultKind,
    picture: u64,
    every_life: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultKind {
    /// The process ends without a word.
    Exit,
    /// A lane never comes back.
    Hang,
    /// The engine reports an error.
    Fail,
    /// The process ends without a word, and its successors do not begin.
    Refuse,
    /// A kernel traps, and with it everything that the process has on the GPU.
    Trap,
    /// This picture and all that follow are declined.
    Decline,
    /// What is said to be encoded is the JPEG as it came.
    Echo,
    /// It is as long, and no JPEG.
    Garble,
    /// It is longer than the slot.
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
    /// Whether the worker fails only in what it says.
    fn is_pretence(self) -> bool {
        matches!(self.kind, FaultKind::Echo | FaultKind::Garble | FaultKind::Overlong)
    }

    /// The fault that the environment asks for in this life of the worker.
    ///
    /// # Errors
    /// When the variable's text is no fault.
    pub fn from_environment(life: u32) -> Result<Option<Self>, String> {
        let Ok(text) = std::env::var("HISTEQD_FAULT") else { return Ok(None) };
        let fault: Self = text.parse()?;
        Ok(Some(fault).filter(|fault| fault.every_life || life == 0 || fault.kind == FaultKind::Refuse))
    }

    /// Whether a worker in this life is to say that it cannot work.
    pub fn refuses(self, life: u32) -> bool {
        self.kind == FaultKind::Refuse && life > 0
    }
}

/// Counts a worker's pictures up to the failure.
pub(super) struct Faults {
    fault: Option<Fault>,
    pictures: AtomicU64,
}

impl Faults {
    pub(super) fn new(fault: Option<Fault>) -> Self {
        Self { fault, pictures: AtomicU64::new(0) }
    }

    /// Does what the test asked for, if this is the picture; half of it is overwritten first, as a real failure may.
    pub(super) fn strike(
        &self,
        bytes: &mut [u8],
        trap: impl FnOnce() -> Result<(), EngineError>,
    ) -> Result<(), Trouble> {
        let Some(fault) = self.fault else { return Ok(()) };
        let number = self.pictures.fetch_add(1, Ordering::Relaxed) + 1;
        let is_struck =
            number == fault.picture || (number > fault.picture && fault.kind == FaultKind::Decline);
        if !is_struck || fault.is_pretence() {
            return Ok(());
        }
        let half = bytes.len() / 2;
        bytes[..half].fill(0xA5);
        match fault.kind {
            FaultKind::Exit | FaultKind::Refuse => super::die(),
            FaultKind::Hang => loop {
                std::thread::park();
            },
            FaultKind::Fail => Err(EngineError("a test asked for this failure".to_owned()).into()),
            FaultKind::Decline => Err(Trouble::Decline("a test asked for this".to_owned())),
            FaultKind::Trap => Ok(trap()?),
            FaultKind::Echo | FaultKind::Garble | FaultKind::Overlong => Ok(()),
        }
    }

    /// Puts in place of planes, of which there are so many bytes, what is said to be encoded, if the test asked for that; returns the
    /// length that is told.
    pub(super) fn pretend(&self, slot: &mut [u8], planes: u64, jpeg: &CompressedJpeg) -> Option<u64> {
        let fault = self.fault.filter(|fault| self.pictures.load(Ordering::Relaxed) >= fault.picture)?;
        let (start, length) = (planes as usize, jpeg.bytes as usize);
        match fault.kind {
            FaultKind::Echo => slot.copy_within(start..start + length, 0),
            FaultKind::Garble => slot[..length].fill(0xA5),
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
