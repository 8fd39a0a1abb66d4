//! Small versions of the latest pictures and their histograms, before and after, made on request.
//!
//! One thread of the lowest priority makes them, with memory that pictures in progress do not need
//! at the moment: it does not slow them down.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use codec::Limits;
use crossbeam_channel::{Receiver, Sender, bounded};
use tokio::sync::oneshot;

use crate::config::Settings;
use crate::device::machine::Machine;
use crate::fs::beneath::Folder;
use crate::fs::input::InputRoots;
use crate::picture::preview::{Facts, Preview, PreviewError};
use crate::service::reports::account::Account;
use crate::service::reports::activity::DonePicture;
use crate::slot::{SlotPool, Spare};

/// The longest side of a preview, in pixels.
const SIDE: u32 = 480;
/// Requests that may wait.
const WAITING: usize = 64;
/// Bytes of previews to keep.
const KEPT: usize = 8 << 20;
/// The increment to the niceness of the thread, for the lowest priority.
const NICENESS: i32 = 19;

/// A version of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The input.
    Before,
    /// The output.
    After,
}

/// A small version of a picture, ready to send.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub(crate) png: Vec<u8>,
    pub(crate) facts: Facts,
}

/// A preview, or why there is none, as a sentence.
type Answer = Result<Arc<Drawn>, String>;

struct Request {
    number: u64,
    side: Side,
    answer: oneshot::Sender<Answer>,
}

/// The requesting end for previews.
#[derive(Clone)]
pub(crate) struct Previews(Sender<Request>);

impl Previews {
    /// Starts the thread that makes them, of pictures within the limits of these settings, read
    /// from the places that they allow.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(crate) fn start(
        machine: Arc<Machine>,
        account: Arc<Account>,
        settings: &Settings,
    ) -> io::Result<Self> {
        let (requests, to_do) = bounded(WAITING);
        let (max_pixels, roots) = (settings.limits.max_pixels, settings.roots.clone());
        let maker = Maker { machine, account, max_pixels, roots, kept: Kept::default() };
        thread::Builder::new().name("preview".into()).spawn(move || maker.run(&to_do))?;
        Ok(Self(requests))
    }

    /// Returns the preview of one of the latest pictures, and makes it if needed. The error is a
    /// sentence for the client.
    pub(crate) async fn get(&self, number: u64, side: Side) -> Answer {
        let (answer, answered) = oneshot::channel();
        let busy = || "too many requests for previews; try again".to_owned();
        self.0.try_send(Request { number, side, answer }).map_err(|_| busy())?;
        answered.await.unwrap_or_else(|_| Err(busy()))
    }
}

struct Maker {
    machine: Arc<Machine>,
    account: Arc<Account>,
    max_pixels: u64,
    roots: InputRoots,
    kept: Kept,
}

impl Maker {
    /// Makes previews until all senders of requests are gone.
    fn run(mut self, requests: &Receiver<Request>) {
        // On Linux every thread has a niceness of its own. If the call is refused, only the
        // courtesy is lost.
        let _ = rustix::process::nice(NICENESS);
        for Request { number, side, answer } in requests {
            // The client may have given up.
            if !answer.is_closed() {
                let _ = answer.send(self.get(number, side));
            }
        }
    }

    fn get(&mut self, number: u64, side: Side) -> Answer {
        if let Some(preview) = self.kept.get(number, side) {
            return Ok(preview);
        }
        let picture = self.account.picture(number).ok_or("it is no longer among the latest pictures")?;
        let bytes = match side {
            Side::Before => picture.bytes_in,
            Side::After => picture.bytes_out,
        };
        let file = open(&picture, side, self.account.out(), &self.roots);
        let file = file.map_err(|error| format!("it cannot be read any more: {error}"))?;
        let limits = Limits { max_pixels: self.max_pixels, max_bytes: u64::MAX };
        let preview = Arc::new(make(file, bytes, &limits, &self.machine.pool)?);
        self.kept.add(number, side, Arc::clone(&preview));
        Ok(preview)
    }
}

/// The previews that were made last.
#[derive(Default)]
struct Kept(VecDeque<(u64, Side, Arc<Drawn>)>);

impl Kept {
    fn get(&self, number: u64, side: Side) -> Option<Arc<Drawn>> {
        let kept = self.0.iter().find(|(own, of, _)| (*own, *of) == (number, side));
        kept.map(|(_, _, preview)| Arc::clone(preview))
    }

    fn add(&mut self, number: u64, side: Side, preview: Arc<Drawn>) {
        self.0.push_back((number, side, preview));
        let mut bytes: usize = self.0.iter().map(|(_, _, preview)| preview.png.len()).sum();
        while bytes > KEPT
            && let Some((_, _, oldest)) = self.0.pop_front()
        {
            bytes -= oldest.png.len();
        }
    }
}

/// Opens a version of a picture. Below the output folder, `out`, and the folder that inputs are
/// moved to, no link is followed, and in an inbox none that leads out of the `roots`.
fn open(picture: &DonePicture, side: Side, out: &Path, roots: &InputRoots) -> io::Result<File> {
    let beneath =
        |root: &Path, path: &Path| Folder::of(root, path).and_then(|(folder, name)| folder.read(name));
    match (side, &picture.moved_below) {
        (Side::After, _) => beneath(out, &picture.output),
        (Side::Before, Some(root)) => beneath(root, &picture.input),
        (Side::Before, None) => roots.open(&picture.input),
    }
}

/// Makes the preview of a file of this many bytes.
fn make(mut file: File, bytes: u64, limits: &Limits, pool: &Arc<SlotPool>) -> Result<Drawn, String> {
    let drawn = Preview::of(&mut file, Some(bytes), SIDE, limits, &mut Spare::of(pool)).and_then(|preview| {
        let png = preview.to_png()?;
        Ok(Drawn { png, facts: preview.facts })
    });
    drawn.map_err(|error| match error {
        PreviewError::Memory => no_memory(),
        error => error.to_string(),
    })
}

fn no_memory() -> String {
    "pictures in progress need the memory; try again".into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const LIMITS: Limits = Limits { max_pixels: 1 << 20, max_bytes: 1 << 30 };

    fn made(bytes: &[u8], memory: u64) -> Result<Drawn, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, bytes).unwrap();
        make(File::open(&path).unwrap(), bytes.len() as u64, &LIMITS, &Arc::new(SlotPool::new(memory)))
    }

    #[test]
    fn what_cannot_be_shown_is_said() {
        assert_eq!(made(b"P5 2 1 255 ab", 64).unwrap_err(), no_memory());
        assert!(made(b"P5 2000 2000 255 ab", 1 << 24).unwrap_err().contains("pixels"));
    }

    #[test]
    fn no_link_is_followed_below_the_output_folder_or_to_what_was_moved() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        ["out", "kept", "in"].into_iter().for_each(|name| fs::create_dir(at(name)).unwrap());
        fs::write(at("secret"), "another's").unwrap();
        for name in ["out/a.png", "kept/a.png", "in/a.png"] {
            std::os::unix::fs::symlink("../secret", at(name)).unwrap();
        }
        let picture =
            DonePicture { input: at("in/a.png"), output: at("out/a.png"), ..DonePicture::for_tests(9) };
        let moved = DonePicture { input: at("kept/a.png"), moved_below: Some(at("kept")), ..picture.clone() };
        let anywhere = InputRoots::default();
        let opens = |picture, side| open(picture, side, &at("out"), &anywhere).is_ok();
        assert!(!opens(&picture, Side::After) && !opens(&moved, Side::Before));
        assert!(opens(&picture, Side::Before), "an input may be a link");
        let inbox = InputRoots::within(vec![at("in")]);
        assert!(open(&picture, Side::Before, &at("out"), &inbox).is_err(), "that leads out of the inbox");
    }
}
