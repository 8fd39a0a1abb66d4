//! An object to be read, fetched into an unnamed file when it is opened, or before.

use std::fmt;
use std::fs::File;
use std::mem;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};

use crate::ahead::{Place, Upcoming};
use crate::budget::Share;
use crate::error::Error;
use crate::remote::Fetching;
use crate::storage::{Bucket, Storage, unkept, unnamed_file};
use crate::{Entry, Url};

/// An object in the state in which it was listed.
pub struct Object {
    bucket: Bucket,
    entry: Entry,
    state: Mutex<State>,
}

enum State {
    /// It has not been asked for, or has been let go.
    Away,
    /// It is being fetched, perhaps ahead.
    Coming(Fetching, Option<Share>, Option<Place>),
    /// It is here.
    Here(File, #[expect(dead_code, reason = "it is given back when this is dropped")] Option<Share>),
}

impl Object {
    /// Creates an object of this bucket, in the state that was found.
    pub fn new(bucket: Bucket, entry: Entry) -> Arc<Self> {
        Arc::new(Self { bucket, entry, state: Mutex::new(State::Away) })
    }

    /// The entry of the listing.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Its URL.
    pub fn url(&self) -> Url {
        self.bucket.url(&self.entry.key)
    }

    /// Returns its content as a file with a position of its own, once it has been fetched.
    ///
    /// # Errors
    /// When it cannot be fetched; for example, if it has been replaced since it was listed.
    pub fn open(&self) -> Result<File, Error> {
        let opened = self.bring();
        self.bucket.storage().ahead().go_on();
        opened
    }

    fn bring(&self) -> Result<File, Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::Away) {
            let (file, share) = match self.bucket.storage().file_for(self.entry.size)? {
                Some((file, share)) => (file, Some(share)),
                None => (unnamed_file().map_err(|why| unkept(&why))?, None),
            };
            *state = State::Coming(self.fetch(file), share, None);
        }
        match mem::replace(&mut *state, State::Away) {
            State::Coming(fetching, share, place) => {
                // It is not ahead any more.
                drop(place);
                *state = State::Here(fetching.wait()?, share);
            }
            here => *state = here,
        }
        match &*state {
            // Through /proc, because a duplicate would share its position with others.
            State::Here(file, _) => {
                File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(|why| unkept(&why))
            }
            State::Away | State::Coming(..) => unreachable!("it has just been fetched"),
        }
    }

    /// Frees the memory of its content, which is fetched once more when it is opened again.
    pub fn let_go(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State::Away;
    }

    fn fetch(&self, file: File) -> Fetching {
        self.bucket.remote().fetch(self.url(), self.entry.clone(), file)
    }
}

/// Has objects fetched ahead, in their order, as far as there is room for unopened ones.
pub fn announce<'o>(storage: &Storage, objects: impl IntoIterator<Item = &'o Arc<Object>>) {
    storage.ahead().announce(objects.into_iter().map(|object| Arc::clone(object) as Arc<dyn Upcoming>));
}

impl Upcoming for Object {
    fn come(&self, place: &mut dyn FnMut() -> Place) -> bool {
        // The thread that holds the lock is opening it.
        let Ok(mut state) = self.state.try_lock() else { return true };
        if !matches!(*state, State::Away) {
            return true;
        }
        match self.bucket.storage().file_for(self.entry.size) {
            Ok(Some((file, share))) => {
                *state = State::Coming(self.fetch(file), Some(share), Some(place()));
                true
            }
            Ok(None) => false,
            // The error comes up again where it is opened.
            Err(_) => true,
        }
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("bucket", &self.bucket)
            .field("entry", &self.entry)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.url() == other.url() && self.entry == other.entry
    }
}

impl Eq for Object {}
