//! Errors of reading and writing pictures.

pub(crate) mod object;

use super::{Format, Object};
use equalize::Layout;

/// The reason why a picture could not be read or written, in words for the user.
///
/// The caller adds the path.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The content is in none of the supported formats.
    #[error(
        "not a picture: its content is not PNG, JPEG, TIFF, PNM, BMP, WebP, GIF, JPEG XL, JPEG 2000 or DICOM"
    )]
    NotAPicture,
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// The file is a DICOM object that is no picture, by its SOP class.
    #[error("not a picture but a DICOM {}, whose values are not brightness; {}", .0.name(true), .0.remedy())]
    NoPicture(Object),
    /// The file is damaged, cut short, or breaks the rules of its format.
    #[error("damaged {format}: {reason}")]
    Malformed {
        /// The format of the file, by its content.
        format: Format,
        /// The damage.
        reason: String,
    },
    /// The file is valid, but holds something that could not be written back in full.
    #[error("{what} is not supported; {remedy}")]
    Unsupported {
        /// The unsupported content, with its article: "a multi-page TIFF".
        what: String,
        /// The user's remedy.
        remedy: String,
    },
    /// The program was built without the format.
    #[error("{format} is left out of this build; build histeqd with --features {feature}")]
    LeftOut {
        /// The format of the file, or of the picture in it.
        format: Format,
        /// The Cargo feature that brings it.
        feature: &'static str,
    },
    /// The picture exceeds limits.
    #[error("too large: {what} exceeds {}", listed(exceeded, true))]
    TooLarge {
        /// The excess, with its size: "60000x60000 pixels in 3600000000 bytes".
        what: String,
        /// All limits that it is known to exceed, at least one.
        exceeded: Vec<Limit>,
        /// The needs of the pixels, if the error is about these.
        needs: Option<MemoryNeeds>,
    },
    /// The file, or its data other than pixels, does not fit into memory.
    #[error(
        "{what} takes more memory than the {allowed} bytes that --memory allows; raise --memory{}",
        enough.map_or_else(String::new, |enough| format!(" to {enough}"))
    )]
    LargerThanMemory {
        /// The data that takes the memory, with its size: "metadata of 60000000 bytes".
        what: String,
        /// Bytes that `--memory` allows.
        allowed: u64,
        /// The needs of the whole picture, if known.
        needs: Option<MemoryNeeds>,
        /// The bytes that would do, if they are known.
        enough: Option<u64>,
    },
    /// A sample is outside the stated levels of the picture.
    #[error(
        "sample {sample} is outside the stated range 0..{}; use another --levels, or --levels full",
        levels - 1
    )]
    BeyondLevels {
        /// The sample.
        sample: f64,
        /// The stated number of levels.
        levels: usize,
    },
    /// A sample has bits below the stated place of the levels.
    #[error(
        "sample {sample} has data in its {shift} unused low bits; use a smaller --shift, or leave it out"
    )]
    LowerBits {
        /// The sample.
        sample: f64,
        /// The number of bits that are stated to be 0.
        shift: u8,
    },
    /// The output format has no place for the picture's content.
    #[error("{format} cannot hold {what}; {remedy}")]
    CannotRepresent {
        /// The output format.
        format: Format,
        /// The content that has no place in it.
        what: String,
        /// The user's remedy.
        remedy: String,
    },
    /// Reading or writing the file failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Memory could not be allocated.
    #[error("out of memory{}; lower --memory or --threads", .bytes.map_or_else(String::new, |bytes| format!(": could not allocate {bytes} bytes")))]
    OutOfMemory {
        /// The bytes that were asked for, where known.
        bytes: Option<u64>,
    },
    /// An encoding library refused valid pixels: a fault of this program, not of the picture.
    #[error("encoding {format} failed: {reason}")]
    Encoder {
        /// The output format.
        format: Format,
        /// The library's report.
        reason: String,
    },
}

/// The needs of a picture that is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryNeeds {
    /// The layout of the part in memory at once: the picture, or a band of it.
    pub layout: Layout,
    /// The rows of the picture if it is done in bands.
    pub height_of_bands: Option<u32>,
    /// Bytes of memory for that and for its decoding and encoding.
    pub bytes: u64,
}

impl MemoryNeeds {
    /// Returns the needs of a picture's pixels alone, before anything else is known of it.
    pub(super) fn of_pixels(layout: Layout) -> Self {
        Self { layout, height_of_bands: None, bytes: layout.bytes() }
    }
}

/// The flag of the limit that is not in bytes.
const PIXELS: &str = "--max-pixels";

/// A limit on the size of pictures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Its value, with its unit: "2000000000 pixels".
    pub value: String,
    /// The flag that raises it.
    pub flag: &'static str,
    /// The least value that would do, where known.
    pub enough: Option<u64>,
}

impl Limit {
    pub(super) fn of_pixels(most: u64, enough: u64) -> Self {
        Self { value: format!("{most} pixels"), flag: PIXELS, enough: Some(enough) }
    }

    pub(super) fn of_bytes(most: u64, enough: Option<u64>) -> Self {
        Self { value: format!("{most} bytes"), flag: "--max-bytes", enough }
    }

    /// Returns the flag with the value that would do: from a gibibyte on, the next tenth of one.
    fn raised(&self) -> String {
        const GIB: u64 = 1 << 30;
        match self.enough {
            None => self.flag.to_owned(),
            Some(enough) if enough >= GIB && self.flag != PIXELS => {
                let tenths = (u128::from(enough) * 10).div_ceil(GIB.into());
                match (tenths / 10, tenths % 10) {
                    (whole, 0) => format!("{} {whole}GiB", self.flag),
                    (whole, tenth) => format!("{} {whole}.{tenth}GiB", self.flag),
                }
            }
            Some(enough) => format!("{} {enough}", self.flag),
        }
    }
}

/// Lists limits, and the flags that raise them, perhaps with values that would do.
fn listed(limits: &[Limit], with_values: bool) -> String {
    let values = enumerated(&limits.iter().map(|limit| &*limit.value).collect::<Vec<_>>());
    let flags = limits.iter().map(|limit| if with_values { limit.raised() } else { limit.flag.to_owned() });
    let flags = flags.collect::<Vec<_>>();
    let flags = enumerated(&flags.iter().map(String::as_str).collect::<Vec<_>>());
    match limits {
        [_] => format!("the limit of {values}; raise it with {flags}"),
        _ => format!("the limits of {values}; raise them with {flags}"),
    }
}

/// Returns words as in a sentence: "one, two and three".
fn enumerated(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

impl CodecError {
    /// Returns whether more bytes could mend this, if the file is still being written.
    ///
    /// They could if the file is damaged, or cut short, or has no format yet. A file's format, its
    /// content and its size do not change by more bytes.
    pub fn may_be_incomplete(&self) -> bool {
        match self {
            Self::NotAPicture | Self::Empty | Self::Malformed { .. } => true,
            Self::NoPicture(_)
            | Self::Unsupported { .. }
            | Self::LeftOut { .. }
            | Self::TooLarge { .. }
            | Self::LargerThanMemory { .. }
            | Self::BeyondLevels { .. }
            | Self::CannotRepresent { .. }
            | Self::Io(_)
            | Self::OutOfMemory { .. }
            | Self::LowerBits { .. }
            | Self::Encoder { .. } => false,
        }
    }

    /// Returns the reason without the parts that differ from picture to picture.
    pub fn kind(&self) -> String {
        match self {
            Self::BeyondLevels { levels, .. } => format!(
                "a sample is outside the stated range of {levels} levels; use another --levels, or --levels full"
            ),
            Self::TooLarge { exceeded, .. } => format!("too large: over {}", listed(exceeded, false)),
            error => error.to_string(),
        }
    }

    /// A [`CodecError::TooLarge`] about data over the limit of `most` bytes: `bytes`, where known.
    pub fn too_long(what: impl Into<String>, most: u64, bytes: Option<u64>) -> Self {
        let exceeded = vec![Limit::of_bytes(most, bytes)];
        Self::TooLarge { what: what.into(), exceeded, needs: None }
    }

    /// Adds `--memory` to the limits that a picture exceeds, if its needs are over `allowed` bytes.
    ///
    /// `of` returns the bytes of its needs. An error about memory gets those bytes as `enough`.
    #[must_use]
    pub fn within_memory(mut self, allowed: u64, of: impl FnOnce(&MemoryNeeds) -> u64) -> Self {
        match &mut self {
            Self::TooLarge { exceeded, needs: Some(needs), .. } => {
                let needed = of(needs);
                if needed > allowed {
                    let value = format!("{allowed} bytes of memory");
                    exceeded.push(Limit { value, flag: "--memory", enough: Some(needed) });
                }
            }
            Self::LargerThanMemory { needs: Some(needs), enough, .. } => *enough = Some(of(needs)),
            _ => {}
        }
        self
    }

    /// Adds the needs of the picture to an error about its size.
    pub(super) fn needing(mut self, of_picture: Option<MemoryNeeds>) -> Self {
        if let Self::TooLarge { needs, .. } | Self::LargerThanMemory { needs, .. } = &mut self {
            *needs = of_picture;
        }
        self
    }

    /// A [`CodecError::Malformed`].
    pub(super) fn malformed(format: Format, reason: impl Into<String>) -> Self {
        Self::Malformed { format, reason: reason.into() }
    }

    /// A [`CodecError::Unsupported`].
    pub(super) fn unsupported(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Unsupported { what: what.into(), remedy: remedy.into() }
    }

    /// A [`CodecError::CannotRepresent`].
    pub(super) fn cannot_represent(
        format: Format,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::CannotRepresent { format, what: what.into(), remedy: remedy.into() }
    }

    /// A [`CodecError::Encoder`].
    pub(super) fn encoder(format: Format, reason: impl Into<String>) -> Self {
        Self::Encoder { format, reason: reason.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_raised_to_a_size_that_people_write_and_that_is_enough() {
        for (enough, expected) in [
            (6_000_017, "--max-bytes 6000017"),
            ((1 << 30) - 1, "--max-bytes 1073741823"),
            (1 << 30, "--max-bytes 1GiB"),
            ((1 << 30) + 1, "--max-bytes 1.1GiB"),
            (3_714_122_880, "--max-bytes 3.5GiB"),
            (u64::MAX, "--max-bytes 17179869184GiB"),
        ] {
            assert_eq!(Limit::of_bytes(1, Some(enough)).raised(), expected);
        }
        assert_eq!(Limit::of_pixels(1, 3_714_122_880).raised(), "--max-pixels 3714122880");
    }
}
