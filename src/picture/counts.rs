//! Sums of the histograms of any number of pictures, and the files that hold them. Sums of several
//! machines add up.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::fs::files::WithRemedy;
use crate::fs::input::InputRoots;
use crate::fs::paths::Shown;
use crate::picture::kind::Kind;
use equalize::count;
use equalize::{Layout, Levels};

/// The format's name in a file of counts.
const NAME: &str = "histeqd counts";
/// The version of the format.
const VERSION: u32 = 1;
/// More bytes than a file of counts has: every kind with 20 digits a level.
const LONGEST: u64 = 32 << 20;

/// The sums of histograms, for each kind of pictures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<Kind, Sum>);

/// The sum of the histograms of pictures of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sum {
    pictures: u64,
    /// Plane by plane, in the order of [`Kind::planes`].
    counts: Vec<u64>,
}

impl Counts {
    /// Adds the counts, as [`count::count`] returns them, of a picture or page with these levels.
    /// `channel` is its number, if channels that are not colours have tables of their own.
    pub fn add(&mut self, layout: &Layout, levels: Levels, channel: Option<u16>, counts: &[u64]) {
        let (kind, levels) = (Kind::of(layout, levels).of_channel(channel), layout.depth.levels());
        let planes = count::planes(layout.pixel).len();
        // Alpha, which precedes luma, is left out.
        let (colours, last) = (layout.pixel.colour_channels(), planes - 1);
        let own = counts[..colours * levels].iter();
        let luma = if colours > 1 { &counts[last * levels..][..levels] } else { &[] };
        self.add_sum(kind, 1, own.chain(luma).copied());
    }

    /// Adds other sums.
    pub fn merge(&mut self, other: &Self) {
        for (kind, sum) in &other.0 {
            self.add_sum(*kind, sum.pictures, sum.counts.iter().copied());
        }
    }

    fn add_sum(&mut self, kind: Kind, pictures: u64, counts: impl Iterator<Item = u64>) {
        let length = kind.planes().len() * kind.counts();
        let sum = self.0.entry(kind).or_insert_with(|| Sum { pictures: 0, counts: vec![0; length] });
        sum.pictures = sum.pictures.saturating_add(pictures);
        // Saturates, as a file may contain any number; no real pictures have this many pixels.
        sum.counts.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(count));
    }

    /// Returns whether no picture was counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the sums of each kind, plane by plane in the order of [`Kind::planes`].
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (Kind, &[u64])> {
        self.0.iter().map(|(kind, sum)| (*kind, &sum.counts[..]))
    }

    /// Returns the sums as a file.
    pub fn to_json(&self) -> String {
        let kinds = self.0.iter().map(|(kind, Sum { pictures, counts })| {
            let first = kind.fewer_levels().map_or(kind.counts(), usize::from);
            let planes = kind.planes().iter().zip(counts.chunks(kind.counts()));
            KindOfFile {
                colours: kind.name().to_owned(),
                bits: kind.bits(),
                levels: kind.fewer_levels(),
                channel: kind.channel(),
                pictures: *pictures,
                counts: planes
                    .map(|(plane, counts)| ((*plane).to_owned(), counts[..first].to_vec()))
                    .collect(),
            }
        });
        let file = CountsFile { format: NAME.to_owned(), version: VERSION, kinds: kinds.collect() };
        serde_json::to_string(&file).expect("texts and numbers can be written") + "\n"
    }

    /// Parses the sums in a file.
    ///
    /// # Errors
    /// A description of the error in it, or in a part of it.
    pub(crate) fn from_json(text: &[u8]) -> Result<Self, String> {
        let file: CountsFile = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if file.format != NAME || file.version != VERSION {
            return Err(format!("it is {} of version {}", file.format, file.version));
        }
        let mut all = Self::default();
        for KindOfFile { colours, bits, levels, channel, pictures, counts } in file.kinds {
            let kind = Kind::named(&colours, bits, levels)
                .ok_or_else(|| format!("{colours} of {bits} bits is not a kind of pictures"))?
                .of_channel(channel);
            let first = kind.fewer_levels().map_or(kind.counts(), usize::from);
            let above = vec![0; kind.counts() - first];
            let planes = kind.planes().iter().map(|name| {
                let counts = counts.get(*name).filter(|counts| counts.len() == first);
                counts.ok_or_else(|| format!("it does not have {first} counts of {name}"))
            });
            let planes: Vec<_> = planes.collect::<Result<_, _>>()?;
            all.add_sum(
                kind,
                pictures,
                planes.into_iter().flat_map(|counts| counts.iter().chain(&above)).copied(),
            );
        }
        Ok(all)
    }

    /// Returns whether a file that begins like this has sums.
    pub fn are_in(head: &[u8]) -> bool {
        let text: Vec<u8> = head.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
        text.starts_with(b"{\"format\":\"histeqdcounts\"")
    }

    /// Reads a file of sums, which has to lie in `roots`.
    ///
    /// # Errors
    /// [`CountsError`].
    pub fn read(path: &Path, roots: &InputRoots) -> Result<Self, CountsError> {
        let mut text = Vec::new();
        (roots.open_named(path))
            .and_then(|file| file.take(LONGEST).read_to_end(&mut text))
            .map_err(|source| CountsError::Read { path: path.to_owned(), source })?;
        Self::from_json(&text).map_err(|why| CountsError::NotCounts { path: path.to_owned(), why })
    }
}

/// Why a file of counts cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CountsError {
    /// It cannot be read.
    #[error("{} cannot be read: {}", Shown(path), WithRemedy(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// It is a file of another kind, or invalid.
    #[error("{} is not a file of counts from `histeqd histogram --counts FILE`: {why}", Shown(path))]
    NotCounts {
        /// The file.
        path: PathBuf,
        /// The error in it.
        why: String,
    },
}

/// A file of counts.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CountsFile {
    format: String,
    version: u32,
    kinds: Vec<KindOfFile>,
}

/// One kind of pictures in a file of counts.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KindOfFile {
    colours: String,
    bits: u32,
    /// The number of levels, if fewer than the samples' bits allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    levels: Option<u16>,
    /// The number of the channel, from 0, if channels are not colours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    channel: Option<u16>,
    pictures: u64,
    /// The counts of each plane.
    counts: BTreeMap<String, Vec<u64>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use equalize::{Depth, Pixel};

    fn layout(pixel: Pixel, depth: Depth) -> Layout {
        Layout { width: 1, height: 1, pixel, depth }
    }

    /// Returns counts that are all different.
    fn counts(layout: &Layout) -> Vec<u64> {
        (1..=count::length(layout) as u64).collect()
    }

    #[test]
    fn sums_add_up_and_come_back_from_their_file() {
        let mut all = Counts::default();
        for (pixel, depth) in [
            (Pixel::Gray, Depth::Eight),
            (Pixel::Rgba, Depth::Eight),
            (Pixel::Rgb, Depth::Eight),
            (Pixel::GrayAlpha, Depth::Sixteen),
        ] {
            let layout = layout(pixel, depth);
            all.add(&layout, Levels::All, None, &counts(&layout));
        }
        assert_eq!(all.0.len(), 3, "alpha makes no kind");
        let colours = &all.0[&Kind::of(&layout(Pixel::Rgb, Depth::Eight), Levels::All)];
        assert_eq!(colours.pictures, 2);
        // Red has the same position in both, and luma follows alpha or not.
        assert_eq!((colours.counts[0], colours.counts[3 * 256]), (1 + 1, (4 * 256 + 1) + (3 * 256 + 1)));
        let mut twice = Counts::from_json(all.to_json().as_bytes()).unwrap();
        assert_eq!(twice, all);
        twice.merge(&all);
        assert_eq!(twice.0[&Kind::of(&layout(Pixel::Gray, Depth::Eight), Levels::All)].counts[5], 12);
    }

    #[test]
    fn pictures_of_fewer_levels_are_a_kind_of_their_own() {
        let (mut all, gray) = (Counts::default(), layout(Pixel::Gray, Depth::Sixteen));
        let mut twelve_bits = counts(&gray);
        twelve_bits[4096..].fill(0);
        all.add(&gray, Levels::First(4096), None, &twelve_bits);
        all.add(&gray, Levels::All, None, &counts(&gray));
        assert_eq!(all.0.len(), 2);
        let text = all.to_json();
        assert!(text.contains("\"bits\":16,\"levels\":4096,"), "{}", &text[..200]);
        assert_eq!(Counts::from_json(text.as_bytes()).unwrap(), all);
        for levels in ["0", "1", "70000", "-1"] {
            let wrong = text.replace("\"levels\":4096", &format!("\"levels\":{levels}"));
            assert!(Counts::from_json(wrong.as_bytes()).is_err(), "{levels}");
        }
    }

    #[test]
    fn channels_are_kinds_of_their_own_and_come_back_as_such() {
        let (mut all, gray) = (Counts::default(), layout(Pixel::Gray, Depth::Eight));
        for channel in [None, Some(0), Some(3), Some(0)] {
            all.add(&gray, Levels::All, channel, &counts(&gray));
        }
        let kind = Kind::of(&gray, Levels::All);
        assert_eq!(all.0.len(), 3);
        assert_eq!(all.0[&kind.of_channel(Some(0))].pictures, 2);
        let text = all.to_json();
        assert_eq!(text.matches("\"channel\":").count(), 2, "{text}");
        assert_eq!(Counts::from_json(text.as_bytes()).unwrap(), all);
    }

    #[test]
    fn what_is_no_file_of_counts_is_refused() {
        let mut all = Counts::default();
        let gray = layout(Pixel::Gray, Depth::Eight);
        all.add(&gray, Levels::All, None, &counts(&gray));
        let text = all.to_json();
        for (old, new, why) in [
            ("histeqd counts", "other", "it is other of version 1"),
            ("\"bits\":8", "\"bits\":9", "gray of 9 bits is not a kind of pictures"),
            ("\"gray\":[1,", "\"gray\":[", "it does not have 256 counts of gray"),
            ("[1,", "[-1,", "invalid value"),
            ("pictures", "pages", "unknown field `pages`"),
        ] {
            let error = Counts::from_json(text.replace(old, new).as_bytes()).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        for end in 0..text.len() - 1 {
            assert!(Counts::from_json(&text.as_bytes()[..end]).is_err(), "{end}");
        }
    }
}
