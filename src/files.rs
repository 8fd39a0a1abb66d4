//! How many files may be open at a time: what a run makes of that, and what helps where it is too little.

use std::fmt;
use std::io;
use std::num::NonZeroUsize;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that are open however little is done at a time: standard streams, locks, the ledger, outputs that are on their way to the disk.
const ALWAYS: u64 = 16;

/// A picture's input is open while it is decoded, and its output until it is published.
const OF_A_THREAD: u64 = 2;

/// Has the system allow as many open files as it may. A GPU's slots are one each: eight GPUs would pass the usual 1,024.
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused, a picture that finds no descriptor says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// What the files that may be open are enough for. Where they are few, a third is for threads, a third for slots that workers map, and
/// a third for all else: the workers' sockets, folders, those who ask a service.
#[derive(Clone, Copy, Debug)]
pub struct Enough {
    third: u64,
}

impl Enough {
    /// What this process is allowed, at most.
    pub fn allowed() -> Self {
        raise_limit();
        Self::of(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
    }

    fn of(limit: u64) -> Self {
        Self { third: limit.saturating_sub(ALWAYS) / 3 }
    }

    /// The most threads of each stage.
    pub fn threads(self) -> NonZeroUsize {
        let threads = usize::try_from(self.third / OF_A_THREAD).unwrap_or(usize::MAX);
        NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN)
    }

    /// The most slots that workers map.
    pub fn slots(self) -> u64 {
        self.third
    }
}

/// What can be done about an error of the system, where it is that no more files can be opened.
pub fn remedy(error: &io::Error) -> Option<&'static str> {
    match Errno::from_io_error(error)? {
        Errno::MFILE => {
            Some("raise the limit of open files (ulimit -n, LimitNOFILE= of a unit) or lower --threads")
        }
        Errno::NFILE => Some("the whole system has too many files open; raise fs.file-max"),
        _ => None,
    }
}

/// An error of the system, with what can be done about it where that is known.
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
        let of = |limit| (Enough::of(limit).threads().get(), Enough::of(limit).slots());
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
