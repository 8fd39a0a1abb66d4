//! Standard input as a picture. It is kept in an unnamed temporary file, because decoders seek and
//! may begin again.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::{Error, PictureError};
use crate::fs::paths::Shown;
use crate::source::stop::Stop;
use codec::{CodecError, Limits};

/// The input that stands for standard input. A file of that name is `./-`.
pub const STANDARD_INPUT: &str = "-";

/// The interval of checks for a stop while no data arrives.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The data from standard input.
#[derive(Clone, Debug)]
pub struct Spooled(Arc<File>);

impl PartialEq for Spooled {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Spooled {}

impl Spooled {
    /// Reads all of `stdin`, or as much as is there before a stop is requested. The inner error is
    /// the picture's: there is more than the limits allow, or it cannot be read.
    ///
    /// # Errors
    /// When it is a terminal, or there is no room for its data.
    pub(super) fn read(
        stdin: &mut File,
        limits: &Limits,
        stop: &Stop,
    ) -> Result<Result<Self, PictureError>, Error> {
        if stdin.is_terminal() {
            return Err(Error::Usage(
                "`-` stands for standard input, which is the terminal; send it a picture, as in \
                 `histeqd - --out result.png < photo.png`"
                    .to_owned(),
            ));
        }
        let mut file = tempfile::tempfile().map_err(|error| unkept(&error))?;
        let (mut buffer, mut length) = (vec![0; 1 << 16], 0);
        while !stop.asked() {
            let count = match next(stdin, &mut buffer) {
                Ok(Some(0)) => break,
                Ok(count) => count.unwrap_or(0),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Ok(Err(PictureError::Read(error))),
            };
            length += count as u64;
            if length > limits.max_bytes {
                return Ok(Err(too_long(limits).into()));
            }
            file.write_all(&buffer[..count]).map_err(|error| unkept(&error))?;
        }
        Ok(Ok(Self(Arc::new(file))))
    }

    /// Returns the file, at its start.
    pub(crate) fn open(&self) -> io::Result<File> {
        let mut file = self.0.try_clone()?;
        file.rewind()?;
        Ok(file)
    }
}

/// Returns standard input without a buffer in front of it.
pub(super) fn standard_input() -> io::Result<File> {
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

/// Reads the data that arrives; returns its length, or `None` if no data arrives for a moment.
fn next(stdin: &mut File, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let mut fds = [PollFd::new(stdin, PollFlags::IN)];
    if poll(&mut fds, Some(&PAUSE))? == 0 {
        return Ok(None);
    }
    stdin.read(buffer).map(Some)
}

fn unkept(error: &io::Error) -> Error {
    let folder = std::env::temp_dir();
    let folder = Shown(&folder);
    Error::CannotRun(format!(
        "standard input cannot be stored in {folder}: {error}; set TMPDIR to another folder"
    ))
}

fn too_long(limits: &Limits) -> CodecError {
    CodecError::too_long("standard input", limits.max_bytes, None)
}
