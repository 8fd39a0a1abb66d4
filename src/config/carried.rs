//! The keys that travel with a picture to another machine, which has the rest from its own command
//! line and configuration file.

use super::keys::{self, Role};
use super::together::why_not_in_queue;
use super::{JpegChoice, OrNone, PictureSettings, TogetherChoice, Written};

/// A key that travels in addition to those that decide how outputs look.
const OVERWRITE: &str = "overwrite";

/// Returns whether a key travels.
fn travels(key: &str) -> bool {
    key == OVERWRITE || keys::of(Role::Output).any(|of_outputs| of_outputs.name == key)
}

impl Written {
    /// Returns the keys that travel with a picture with these settings, as a configuration file;
    /// keys at their defaults are left out.
    pub(crate) fn carried(&self, picture: &PictureSettings) -> String {
        let overwrite = if self.overwrite == Some(true) { "overwrite = true\n" } else { "" };
        picture.keys().to_owned() + overwrite
    }

    /// Returns these keys with all travelling keys replaced by those in a text that
    /// `Written::carried` returned; presets do not set them either.
    ///
    /// # Errors
    /// A sentence that explains why the text is invalid.
    pub fn with_carried(self, text: &str) -> Result<Self, String> {
        let carried: toml::Table = text.parse().map_err(|why: toml::de::Error| why.message().to_owned())?;
        if let Some(key) = carried.keys().find(|key| !travels(key)) {
            return Err(format!("{key} is not a key of messages"));
        }
        let carried: Self = carried.try_into().map_err(|why: toml::de::Error| why.message().to_owned())?;
        carried.check_carried()?;
        let mut own = toml::Table::try_from(self.clone().spelled_out()).map_err(|why| why.to_string())?;
        own.retain(|key, _| !travels(key));
        Ok(carried.over(own.try_into().map_err(|why: toml::de::Error| why.message().to_owned())?))
    }

    /// Returns the names of the keys that only have an effect where the work is done.
    pub(crate) fn of_workers() -> impl Iterator<Item = &'static str> {
        keys::of(Role::Worker).map(|key| key.name)
    }

    /// Returns the first of these keys that only has an effect where the work is done.
    pub fn first_of_workers(&self) -> Option<&'static str> {
        self.first_of(Role::Worker)
    }

    /// Returns the first of these keys that only has an effect in a service that does the work
    /// itself.
    pub fn first_of_services(&self) -> Option<&'static str> {
        self.first_of(Role::Service)
    }

    fn first_of(&self, role: Role) -> Option<&'static str> {
        let written = self.differing(&Self::default());
        keys::of(role).map(|key| key.name).find(|name| written.iter().any(|written| written == name))
    }

    /// Checks that other machines can process a picture with these keys.
    ///
    /// # Errors
    /// A sentence for the user, about a key that cannot travel.
    pub fn check_carried(&self) -> Result<(), String> {
        if self.jpeg == Some(JpegChoice::Gpu) {
            return Err(
                "--jpeg gpu needs a GPU, which a worker may lack; leave the choice to each worker".to_owned()
            );
        }
        let is_of_files = matches!(
            self.together,
            Some(TogetherChoice::Folder | TogetherChoice::Series | TogetherChoice::All)
        );
        if is_of_files || matches!(self.together_by, Some(OrNone::Some(_))) {
            return Err("--together folder, series and all, and --together-by, need all pictures, which a worker never has; count them with `histeqd histogram --counts FILE`, and give the file to --lut"
                .to_owned());
        }
        if let Some(why) = self.frames.and_then(why_not_in_queue) {
            return Err(why);
        }
        if matches!(self.mask, Some(OrNone::Some(_))) {
            return Err("--mask finds masks by paths below the input folder, which workers do not know; use --shard to share pictures with masks"
                .to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Preset, Request, Settings};

    fn parse(text: &str) -> Written {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn what_decides_the_output_travels_and_the_rest_stays() {
        let sent = parse(
            "method = 'clahe'\nclip-limit = 3\nquality = 90\noverwrite = true\nthreads = 7\nrescan = 5",
        );
        let carried = |written: &Written| {
            let settings = Settings::resolve(written.clone(), Request::default()).unwrap();
            written.carried(&settings.picture)
        };
        let text = carried(&sent);
        assert_eq!(text, "method = \"clahe\"\nclip-limit = 3\nquality = 90\noverwrite = true\n");
        let own = parse("method = 'stretch'\nclip-low = 3\nthreads = 2\nmemory = '1GiB'\ncolor = 'gray'");
        let used = own.with_carried(&text).unwrap();
        assert_eq!(used, parse(&format!("{text}threads = 2\nmemory = '1GiB'")));
        assert_eq!(carried(&parse("threads = 2")), "");
        assert_eq!(parse("color = 'gray'").with_carried("").unwrap(), Written::default());
        assert_eq!(carried(&parse("preset = 'photo'")), carried(&Preset::Photo.keys()));
        let own = parse("preset = 'training'\nthreads = 2").with_carried(&text).unwrap();
        assert_eq!(
            own,
            parse(&format!("{text}threads = 2\ndurability = 'fast'")),
            "it says how work is done"
        );
    }

    #[test]
    fn what_does_not_travel_is_refused_on_both_sides() {
        for text in [
            "threads = 7",
            "preset = 'photo'",
            "state = '/etc'",
            "after = 'delete'",
            "nonsense = 1",
            "method = 'nonsense'",
            "= =",
        ] {
            assert!(Written::default().with_carried(text).is_err(), "{text}");
        }
        for text in [
            "jpeg = 'gpu'",
            "together = 'all'",
            "together = 'folder'",
            "together-by = '_(.)'",
            "mask = '/masks'",
            "frames = 'split'",
            "frames = 'auto'",
        ] {
            assert!(
                parse(text).check_carried().is_err() && Written::default().with_carried(text).is_err(),
                "{text}"
            );
        }
        for together in
            ["together = 'file'", "together = 'channel'", "together = 'stack'", "together-by = 'none'"]
        {
            assert!(parse(&format!("{together}\njpeg = 'cpu'")).check_carried().is_ok(), "{together}");
        }
    }

    #[test]
    fn keys_of_workers_are_found_unless_they_change_nothing() {
        assert_eq!(parse("method = 'clahe'\nmemory = '1GiB'").first_of_workers(), Some("memory"));
        assert_eq!(parse("method = 'clahe'\nmemory = 'auto'\ninclude = ['*.png']").first_of_workers(), None);
    }
}
