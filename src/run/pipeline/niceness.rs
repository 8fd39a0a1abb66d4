//! The priority of the threads that decode and encode.

use crate::device::task::Content;

/// The niceness of a thread that decodes or encodes.
///
/// It is raised for good once a device does such work too or starts: the device's threads need a
/// core briefly but often, and while they wait for one, the device waits for them. Measured with 16
/// cores and an H100: a seventh more pictures.
#[derive(Default)]
pub(super) struct Niceness {
    shown: bool,
}

impl Niceness {
    /// The increment to the niceness of the process, which may itself have been started with
    /// `nice`.
    const STEP: i32 = 10;

    /// `workers_start`: whether workers have started, which takes them a second on cores of their
    /// own.
    pub(super) fn lower_for(&mut self, content: Content, workers_start: bool) {
        if (content != Content::Pixels || workers_start) && !self.shown {
            self.shown = true;
            // On Linux every thread has a niceness of its own. If the call is refused, only the
            // courtesy is lost.
            let _ = rustix::process::nice(Self::STEP);
        }
    }
}
