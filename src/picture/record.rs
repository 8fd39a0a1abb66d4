//! The record on an output: the input that it was made from, that input's state, and the settings.
//!
//! It is an extended attribute of the output itself: it appears and goes together with the output,
//! needs no other state, and holds for all runs and machines that share an output folder. On a file
//! system without such attributes there is no record.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub use crate::fs::digest::Digest;
use crate::fs::stamp::{Stamp, mtime_ns};
use rustix::fs::{XattrFlags, fsetxattr, lgetxattr};

/// The name of the attribute.
pub const NAME: &str = "user.histeqd";

/// The version of the attribute's text.
const VERSION: u64 = 1;

/// The most bytes of the text. Up to this length, ext4 keeps it in the inode, where it costs no
/// block.
const LONGEST: usize = 64;

/// The origin of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The state of the input.
    pub input: Stamp,
    /// The settings that decide how the output looks.
    pub settings: Digest,
}

/// The content of the attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The digest of the input's length and modification time.
    input: Digest,
    /// The input's inode number, or 0 where inode numbers do not last.
    inode: u64,
    settings: Digest,
    /// The digest of the output's own length and modification time, which change if another program
    /// writes to it.
    output: Digest,
}

impl Record {
    /// Returns the record of an output whose content is complete.
    pub fn new(origin: &Origin, output: &Metadata) -> Self {
        let Origin { input, settings } = *origin;
        let Stamp { size, mtime_ns, inode } = input;
        Self { input: of_state(size, mtime_ns), inode, settings, output: state(output) }
    }

    /// Returns the record of an object of this length. It has no modification time before it
    /// exists, and its metadata is lost if another program overwrites it.
    pub(crate) fn of_object(origin: &Origin, size: u64) -> Self {
        let Origin { input: Stamp { size: of_input, mtime_ns, inode }, settings } = *origin;
        Self { input: of_state(of_input, mtime_ns), inode, settings, output: of_state(size, 0) }
    }

    /// Puts the record on an output. Some file systems cannot keep it, and no result depends on it.
    pub fn put_on(&self, output: &File) {
        let _ = fsetxattr(output, NAME, self.text().as_bytes(), XattrFlags::empty());
    }

    /// Reads the record of an output, but not through a link; `None` if it is missing or cannot be
    /// understood.
    pub fn of(output: &Path) -> Option<Self> {
        let mut text = [0; LONGEST];
        let length = lgetxattr(output, NAME, &mut text[..]).ok()?;
        Self::parse(text.get(..length)?)
    }

    /// Returns the record of an object; `None` if it is missing or cannot be understood.
    pub(crate) fn of_found(object: &store::Found) -> Option<Self> {
        Self::parse(object.record.as_ref()?.as_bytes())
    }

    /// Returns the digest of the settings.
    pub(crate) fn settings(&self) -> Digest {
        self.settings
    }

    /// Returns whether the output was made from an input in this state.
    pub fn is_from(&self, input: &Stamp) -> bool {
        let same_file = self.inode == input.inode || self.inode == 0 || input.inode == 0;
        same_file && self.input == of_state(input.size, input.mtime_ns)
    }

    /// Returns whether the output was made with these settings.
    pub fn has_settings(&self, settings: Digest) -> bool {
        self.settings == settings
    }

    /// Returns whether the output is unchanged since.
    pub fn is_untouched(&self, output: &Metadata) -> bool {
        self.output == state(output)
    }

    /// Returns whether an object of this length is unchanged since.
    pub(crate) fn is_of_length(&self, size: u64) -> bool {
        self.output == of_state(size, 0)
    }

    /// Returns the record as the attribute spells it.
    pub(crate) fn text(&self) -> String {
        let Self { input, inode, settings, output } = self;
        format!("{VERSION} {input} {inode:x} {settings} {output}")
    }

    /// Parses exactly the texts that [`Record::text`] returns.
    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut numbers = text.split(' ').skip(1).map_while(|field| u64::from_str_radix(field, 16).ok());
        let (input, inode) = (Digest::new(numbers.next()?)?, numbers.next()?);
        let (settings, output) = (Digest::new(numbers.next()?)?, Digest::new(numbers.next()?)?);
        Some(Self { input, inode, settings, output }).filter(|record| record.text() == text)
    }
}

/// Returns the digest of a length and a modification time.
fn of_state(size: u64, mtime_ns: i64) -> Digest {
    Digest::of([size.to_le_bytes(), mtime_ns.to_le_bytes()].as_flattened())
}

fn state(file: &Metadata) -> Digest {
    of_state(file.size(), mtime_ns(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    use proptest::prelude::*;

    const FULL: &str = "1 0123456789ab ffffffffffffffff 000000000000 ba9876543210";

    #[test]
    fn the_digest_of_a_state_never_changes() {
        assert_eq!(
            of_state(1, -1),
            Digest::of(&[1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255])
        );
    }

    #[test]
    fn the_text_is_short_and_read_back_and_nothing_else_is() {
        assert!(FULL.len() <= LONGEST);
        assert_eq!(Record::parse(FULL.as_bytes()).unwrap().text(), FULL);
        let wrong = [
            "",
            "1",
            "1 0123456789ab ff 000000000000",
            "1 0123456789ab ff 000000000000 ba9876543210 ",
            "1 0123456789ab ff 000000000000 ba9876543210 0",
            "1 0123456789ab ff 000000000000 ba9876543210\n",
            "2 0123456789ab ff 000000000000 ba9876543210",
            "1 0123456789AB ff 000000000000 ba9876543210",
            "1 0123456789ab +f 000000000000 ba9876543210",
            "1 0123456789ab 0ff 000000000000 ba9876543210",
            "1 123456789ab ff 000000000000 ba9876543210",
            "1 00123456789ab ff 000000000000 ba9876543210",
            "1 1230123456789ab ff 000000000000 ba9876543210",
            "1 0123456789ab fffffffffffffffff 000000000000 ba9876543210",
            "1  0123456789ab ff 000000000000 ba9876543210",
        ];
        for text in wrong {
            assert_eq!(Record::parse(text.as_bytes()), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn rubbish_is_no_record(at in 0..FULL.len(), byte: u8, bytes: Vec<u8>) {
            let mut text = FULL.as_bytes().to_vec();
            text[at] = byte;
            for text in [text, bytes] {
                if let Some(record) = Record::parse(&text) {
                    let again = record.text();
                    prop_assert_eq!(again.as_bytes(), &text[..]);
                }
            }
        }
    }

    #[test]
    fn an_inode_number_counts_only_where_both_sides_know_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let input = Stamp { size: 5, mtime_ns: 6, inode: 7 };
        let output = fs::metadata(file.path()).unwrap();
        let of = |input| Record::new(&Origin { input, settings: Digest::of(b"8") }, &output);
        let (known, unknown) = (of(input), of(Stamp { inode: 0, ..input }));
        let (same, vague, other) = (input, Stamp { inode: 0, ..input }, Stamp { inode: 9, ..input });
        assert_eq!([same, vague, other].map(|input| known.is_from(&input)), [true, true, false]);
        assert_eq!([same, vague, other].map(|input| unknown.is_from(&input)), [true; 3]);
        assert!(
            !unknown.is_from(&Stamp { size: 6, ..input })
                && !unknown.is_from(&Stamp { mtime_ns: 5, ..input })
        );
        assert!(known.has_settings(Digest::of(b"8")) && !known.has_settings(Digest::of(b"9")));
    }
}
