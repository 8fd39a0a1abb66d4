//! The limit on open files: its distribution within a run, and the remedies if it is too low.

use std::fmt;
use std::io;
use std::num::NonZeroUsize;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that are open however few threads there are: standard streams, locks, the ledger, outputs
/// that are being synced.
const ALWAYS: u64 = 16;

/// Open files of a thread: a picture's input while it is decoded, and its output until it is
/// published.
const OF_A_THREAD: u64 = 2;

/// Raises the limit on open files as far as the system allows. Every slot of a GPU takes one file:
/// eight GPUs would exceed the usual 1,024.
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If this is refused, a picture that gets no descriptor reports it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// The limit on open files, divided among its uses. A third is for threads, a third for slots that
/// workers map, and a third for everything else: the workers' sockets, folders, the clients of a
/// service.
#[derive(Clone, Copy, Debug)]
pub struct FileLimit {
    third: u64,
}

impl FileLimit {
    /// Raises this process's limit to the allowed maximum, and returns it.
    pub fn allowed() -> Self {
        raise_limit();
        Self::of(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
    }

    fn of(limit: u64) -> Self {
        Self { third: limit.saturating_sub(ALWAYS) / 3 }
    }

    /// Returns the most threads per stage.
    pub fn threads(self) -> NonZeroUsize {
        let threads = usize::try_from(self.third / OF_A_THREAD).unwrap_or(usize::MAX);
        NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN)
    }

    /// Returns the most slots that workers may map.
    pub fn slots(self) -> u64 {
        self.third
    }
}

/// Returns the remedy for a system error, if the error is that no more files can be opened.
pub fn remedy(error: &io::Error) -> Option<&'static str> {
    match Errno::from_io_error(error)? {
        Errno::MFILE => {
            Some("raise the limit of open files (ulimit -n, LimitNOFILE= of a unit) or lower --threads")
        }
        Errno::NFILE => Some("the whole system has too many files open; raise fs.file-max"),
        _ => None,
    }
}

/// A system error with its remedy, if one is known.
pub struct WithRemedy<'e>(pub &'e io::Error);

impl fmt::Display for WithRemedy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        remedy(self.0).map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_files_are_shared_out_and_many_bound_nothing() {
        let of = |limit| (FileLimit::of(limit).threads().get(), FileLimit::of(limit).slots());
        assert_eq!([64, 1024, 65536].map(of), [(8, 16), (168, 336), (10_920, 21_840)]);
        assert_eq!([0, 16, 18].map(|limit| of(limit).0), [1, 1, 1]);
        assert!(of(u64::MAX).0 > 1 << 40);
    }

    #[test]
    fn who_finds_no_file_is_told_what_to_raise() {
        let told = |errno| WithRemedy(&io::Error::from(errno)).to_string();
        assert!(
            told(Errno::MFILE)
                .contains("(os error 24); raise the limit of open files (ulimit -n, LimitNOFILE=")
        );
        assert!(told(Errno::NFILE).ends_with("fs.file-max"));
        assert_eq!(told(Errno::NOENT), "No such file or directory (os error 2)");
    }
}
