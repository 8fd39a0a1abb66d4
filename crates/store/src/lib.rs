//! Folders of object storage: listed, fetched ahead, and written whole.
//!
//! ```no_run
//! # use std::path::Path;
//! use histeqd_store::{Listed, Storage, Url};
//!
//! # fn main() -> Result<(), histeqd_store::Error> {
//! let storage = Storage::new(1 << 30);
//! let inbox = Url::parse(Path::new("s3://scans/inbox"))?;
//! for entry in storage.bucket(&inbox)?.list(&inbox) {
//!     if let Listed::Object(entry) = entry? {
//!         println!("{}", entry.key);
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Every call waits for its answer; fetches that were announced ([`announce`]) are under way
//! meanwhile. Credentials and endpoints come from the environment. No thread is started before the
//! first bucket is opened.

#![cfg_attr(
    not(feature = "object-storage"),
    allow(dead_code, unused_variables, unreachable_code, unused_mut, reason = "nothing can be opened")
)]

use std::fs::File;

mod ahead;
mod budget;
mod error;
mod object;
#[cfg(not(feature = "object-storage"))]
#[path = "absent.rs"]
mod remote;
#[cfg(feature = "object-storage")]
mod remote;
mod storage;
mod url;

pub use error::Error;
pub use object::{Object, announce};
pub use storage::{Bucket, Storage, unnamed_file, unnamed_folder};
pub use url::{Url, is_url};

/// The requests of a kind that are under way at once, enough to hide the network's delay.
pub const AT_ONCE: usize = 64;

/// The name of the metadata that an output carries.
pub(crate) const RECORD: &str = "histeqd";

/// The name of the metadata that has the settings. Services take letters alone in it.
pub(crate) const SETTINGS: &str = "histeqdsettings";

/// The identity of a state of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// The store's name for this content.
    pub e_tag: Option<String>,
    /// The store's number of this state, if there is one.
    pub(crate) version: Option<String>,
    /// The time when it was written, in nanoseconds since 1970.
    pub modified_ns: i64,
}

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its whole name in the bucket.
    pub key: String,
    /// Its length in bytes.
    pub size: u64,
    /// Its state.
    pub version: Version,
}

/// An item of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    /// An object that can be read.
    Object(Entry),
    /// One that cannot, because of its name.
    Unusable(Unusable),
    /// The name of an empty one with a slash at its end, which stands for a folder.
    Marker(String),
}

/// An object with a name that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// Its whole name in the bucket.
    pub name: String,
    /// Its length in bytes.
    pub size: u64,
    /// The reason, as a sentence about such names.
    pub why: &'static str,
}

/// The labels of an object.
#[derive(Clone, Copy, Debug, Default)]
pub struct Labels<'a> {
    /// The record of its source.
    pub record: Option<&'a str>,
    /// The settings that it was made with, up to a few lines.
    pub settings: Option<&'a str>,
    /// The media type that it is served with, such as `image/png`.
    pub content_type: Option<&'a str>,
}

/// An object with its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The object.
    pub entry: Entry,
    /// The record that it carries, if any.
    pub record: Option<String>,
    /// The settings that it records, if any.
    pub settings: Option<String>,
}

/// The source of an object that is written.
#[derive(Clone, Copy)]
pub(crate) enum Content<'c> {
    File(&'c File),
    Bytes(&'c [u8]),
}

/// The state that has to be at the place of an object that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// No object.
    Nothing,
    /// This state of it.
    State(Version),
    /// Any object, or no object.
    Anything,
}
