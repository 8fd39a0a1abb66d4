//! The recipe of an output: the settings that it was made with, as text, which people and other
//! runs can read.
//!
//! It is an extended attribute next to the [record](super::record), which has its digest. The
//! outputs of a run mostly have the same recipe, which ext4 then keeps in one block for a thousand
//! files. With all settings at their defaults there is no recipe.

use std::fs::File;
use std::path::Path;

use super::record::{Digest, Record};
use rustix::fs::{XattrFlags, fsetxattr, lgetxattr};

/// The name of the attribute.
pub const NAME: &str = "user.histeqd.settings";

/// The most bytes of a recipe that is written.
const LONGEST: usize = 1024;

/// The prefix of the line about a mask.
const MASK: &str = "# mask ";

/// The settings of an output, as far as they differ from the defaults: a configuration file, with
/// comments that identify the contents of files that it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipe(String);

impl Recipe {
    /// Returns the recipe with these settings and this mask.
    pub fn new(settings: &str, mask: Option<Digest>) -> Self {
        match mask {
            None => Self(settings.to_owned()),
            Some(mask) => Self(format!("{settings}{MASK}{mask}\n")),
        }
    }

    /// Returns the recipe as text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns its digest, which the record has.
    fn digest(&self) -> Digest {
        let lines = self.0.trim_end_matches('\n');
        let last = lines.rfind('\n').map_or(0, |end| end + 1);
        let mask = lines[last..].strip_prefix(MASK).and_then(|mask| u64::from_str_radix(mask, 16).ok());
        match mask.and_then(Digest::new) {
            None => Digest::of(self.0.as_bytes()),
            mask => Digest::of(&self.0.as_bytes()[..last]).with(mask),
        }
    }

    /// Returns the text to put on outputs; `None` if it is empty or too long.
    pub(crate) fn label(&self) -> Option<&str> {
        (1..=LONGEST).contains(&self.0.len()).then_some(self.text())
    }

    /// Puts the recipe on an output. Some file systems cannot keep it, and no result depends on it.
    pub fn put_on(&self, output: &File) {
        if let Some(text) = self.label() {
            let _ = fsetxattr(output, NAME, text.as_bytes(), XattrFlags::empty());
        }
    }

    /// Reads the recipe of an output with this record, but not through a link; `None` if it is not
    /// known.
    pub fn of(output: &Path, record: &Record) -> Option<Self> {
        let mut text = [0; LONGEST];
        let length = lgetxattr(output, NAME, &mut text[..]).unwrap_or(0);
        Self::parse(text.get(..length)?, record)
    }

    /// Returns the recipe of an object with this record; `None` if it is not known.
    pub(crate) fn of_found(object: &store::Found, record: &Record) -> Option<Self> {
        Self::parse(object.settings.as_deref().unwrap_or_default().as_bytes(), record)
    }

    /// Returns the recipe with this text; `None` if it is not that of the record.
    fn parse(text: &[u8], record: &Record) -> Option<Self> {
        let recipe = Self(std::str::from_utf8(text).ok()?.to_owned());
        record.has_settings(recipe.digest()).then_some(recipe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::stamp::Stamp;
    use crate::picture::record::Origin;

    #[test]
    fn a_recipe_is_that_of_its_record_or_not_known() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let input = Stamp { size: 1, mtime_ns: 2, inode: 3 };
        let text = "method = \"clahe\"\n# 0123456789ab\n";
        let settings = Digest::of(text.as_bytes());
        let record = |settings| Record::new(&Origin { input, settings }, &file.as_file().metadata().unwrap());
        let parse = |recipe: &Recipe, settings| Recipe::parse(recipe.text().as_bytes(), &record(settings));

        let mask = Digest::of(b"a mask");
        for (mask, digest) in [(None, settings), (Some(mask), settings.with(Some(mask)))] {
            let recipe = Recipe::new(text, mask);
            assert_eq!(parse(&recipe, digest), Some(recipe.clone()));
            assert_eq!(parse(&recipe, Digest::of(b"another")), None);
        }
        assert_eq!(parse(&Recipe::default(), Digest::of(b"")), Some(Recipe::default()));
        assert_eq!(Recipe::parse(b"\xff", &record(Digest::of(b"\xff"))), None);
    }

    #[test]
    fn an_output_says_it_unless_there_is_nothing_to_say() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let input = Stamp { size: 1, mtime_ns: 2, inode: 3 };
        let of = |recipe: &Recipe| {
            let origin = Origin { input, settings: recipe.digest() };
            recipe.put_on(file.as_file());
            Recipe::of(file.path(), &Record::new(&origin, &file.as_file().metadata().unwrap()))
        };
        assert_eq!(of(&Recipe::default()), Some(Recipe::default()));
        let long = Recipe::new(&"#".repeat(LONGEST + 1), None);
        assert_eq!((long.label(), of(&long)), (None, None));
        let recipe = Recipe::new("color = \"hue\"\n", None);
        if let Some(found) = of(&recipe) {
            assert_eq!(found, recipe);
        }
    }
}
