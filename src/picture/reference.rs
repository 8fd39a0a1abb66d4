//! The reference of `--method match`: a picture, of which only the counts are kept, or a file of
//! counts. Other pictures get its levels.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::fs::files::WithRemedy;
use crate::fs::input::InputRoots;
use crate::fs::paths::Shown;
use crate::picture::counts::{Counts, CountsError};
use crate::picture::kind::{Kind, kind_of};
use crate::picture::record::Digest;
use codec::{CodecError, Cores, Limits, Opened, Target};
use equalize::{Colour, Layout, Levels, Scratch, count};

/// Why a reference cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the reference {} {why}", Shown(path))]
pub struct ReferenceError {
    path: PathBuf,
    why: Why,
}

#[derive(Debug, thiserror::Error)]
enum Why {
    #[error("cannot be read: {}", WithRemedy(.0))]
    Read(#[from] io::Error),
    #[error("is not a regular file")]
    NotAFile,
    #[error("cannot be used: {0}")]
    Counts(#[from] CountsError),
    #[error("cannot be used: {0}")]
    Codec(#[from] CodecError),
    #[error("needs {needed} bytes of memory, but --memory allows {allowed}; raise --memory")]
    LargerThanMemory { needed: u64, allowed: u64 },
    #[error("has pages of different kinds; use one of them")]
    PagesDiffer,
    #[error("has no visible pixels")]
    Invisible,
}

/// Why a picture cannot get its levels from a reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unlike {
    /// Its levels differ.
    #[error(
        "it has {levels} levels, and the reference {} has {of_reference}; use a reference of the same depth and --levels, or convert one of the two",
        Shown(reference)
    )]
    Levels {
        /// Levels of its samples.
        levels: usize,
        /// The reference.
        reference: PathBuf,
        /// Levels of the reference's samples.
        of_reference: usize,
    },
    /// The reference is a file of counts that has no pictures of its kind.
    #[error(
        "the reference {} has no counts for its kind of picture ({kind}); count some with `histeqd histogram --counts FILE`",
        Shown(reference)
    )]
    Kind {
        /// Its kind.
        kind: String,
        /// The reference.
        reference: PathBuf,
    },
    /// It is a channel that the reference does not have.
    #[error(
        "it has a channel {}, and the reference {} has {of_reference}; use a reference with as many channels",
        u32::from(*channel) + 1,
        Shown(reference)
    )]
    Channel {
        /// Its number, from 0.
        channel: u16,
        /// The reference.
        reference: PathBuf,
        /// The number of the reference's channels.
        of_reference: usize,
    },
    /// Each of its channels needs one in the reference, which has no colour.
    #[error(
        "it has colour, and the reference {} has none; use a reference with colour, or --color luma",
        Shown(reference)
    )]
    Colours {
        /// The reference.
        reference: PathBuf,
    },
}

/// The counts of a reference.
pub struct Reference {
    path: PathBuf,
    content: Content,
}

/// The kinds of references.
enum Content {
    Picture {
        /// The layout of its first page.
        layout: Layout,
        levels: Levels,
        /// The counts of all of its planes.
        counts: Vec<u64>,
        /// The counts of each channel, if it has several that are not colours.
        channels: Vec<Vec<u64>>,
    },
    /// The sums of pictures of several kinds.
    Counts(Counts),
}

impl Content {
    fn read(
        path: &Path,
        target: &Target,
        limits: &Limits,
        memory: u64,
        roots: &InputRoots,
    ) -> Result<Self, Why> {
        if !fs::metadata(path)?.is_file() {
            return Err(Why::NotAFile);
        }
        let mut head = Vec::new();
        roots.open_named(path)?.take(HEAD).read_to_end(&mut head)?;
        if Counts::are_in(&head) {
            return Ok(Self::Counts(Counts::read(path, roots)?));
        }
        let ((layout, levels, counts), channels) = count_pages(path, target, limits, memory, roots)?;
        Ok(Self::Picture { layout, levels, counts, channels })
    }
}

/// Bytes at the beginning of a file that identify one of counts.
const HEAD: u64 = 64;

impl Reference {
    /// Reads a file of counts; or reads a picture and counts all of its pages and frames, as
    /// pictures are decoded for this target and within these limits. Decoding may take `memory`
    /// bytes. The file has to lie in `roots`.
    ///
    /// # Errors
    /// [`ReferenceError`].
    pub fn read(
        path: &Path,
        target: &Target,
        limits: &Limits,
        memory: u64,
        roots: &InputRoots,
    ) -> Result<Self, Box<ReferenceError>> {
        // The reference is not written, whatever the target of pictures.
        let is_written_as_jpeg = target.format.is_none_or(|format| format == codec::Format::Jpeg);
        let needs_rgb = target.needs_rgb || !is_written_as_jpeg;
        let target = Target { format: None, eight_bit: false, needs_rgb, ..*target };
        let wrong = |why| Box::new(ReferenceError { path: path.to_owned(), why });
        let content = Content::read(path, &target, limits, memory, roots).map_err(wrong)?;
        let counts_any = match &content {
            Content::Picture { layout, counts, .. } => {
                count::of_equalized(counts, layout, Colour::Luma).iter().any(|&count| count > 0)
            }
            Content::Counts(sums) => sums.kinds().any(|(_, counts)| counts.iter().any(|&count| count > 0)),
        };
        if counts_any { Ok(Self { path: path.to_owned(), content }) } else { Err(wrong(Why::Invisible)) }
    }

    /// Checks that a picture of this layout can be like the reference, as far as its layout shows.
    ///
    /// # Errors
    /// If the picture has another depth or other channels than the reference.
    pub fn check(&self, layout: &Layout, colour: Colour) -> Result<(), Unlike> {
        let by_channel = colour == Colour::PerChannel && layout.pixel.colour_channels() > 1;
        match &self.content {
            Content::Picture { layout: own, .. } if own.depth != layout.depth => {
                Err(self.has_others_than(layout, Levels::All))
            }
            Content::Picture { layout: own, .. } if by_channel && own.pixel.colour_channels() == 1 => {
                Err(Unlike::Colours { reference: self.path.clone() })
            }
            Content::Picture { .. } => Ok(()),
            Content::Counts(sums) => {
                let mut kinds = sums.kinds().map(|(kind, _)| kind);
                match kinds.any(|kind| kind.depth() == layout.depth && (kind.has_colour() || !by_channel)) {
                    true => Ok(()),
                    false => Err(self.has_none_of(layout, Levels::All)),
                }
            }
        }
    }

    /// Returns the counts for a picture of this layout and these levels, as
    /// [`equalize::equalize_like`] takes them.
    ///
    /// Gray and luma are interchangeable, but a file with sums of both gives those of the picture's
    /// own kind. A `channel` that is not a colour gets the reference's, or the whole of a reference
    /// without such channels.
    ///
    /// # Errors
    /// If the picture has other levels or channels than the reference.
    pub fn counts(
        &self,
        layout: &Layout,
        levels: Levels,
        channel: Option<u16>,
        colour: Colour,
    ) -> Result<Cow<'_, [u64]>, Unlike> {
        self.check(layout, colour)?;
        let has_colour = layout.pixel.colour_channels() > 1;
        // Gray takes the place of luma where each channel would have a table of its own.
        let colour = if colour == Colour::PerChannel && !has_colour { Colour::Luma } else { colour };
        match &self.content {
            Content::Picture { layout: own, levels: of_own, counts, channels } => {
                if levels.number(layout.depth) != of_own.number(own.depth) {
                    return Err(self.has_others_than(layout, levels));
                }
                let of_channel = channel
                    .filter(|_| !channels.is_empty())
                    .map(|channel| self.of_channel(channels, channel));
                Ok(count::of_equalized(of_channel.unwrap_or(Ok(counts))?, own, colour))
            }
            Content::Counts(sums) => {
                let fitting = sums.kinds().filter(|(kind, _)| {
                    (kind.depth(), kind.levels().number(layout.depth))
                        == (layout.depth, levels.number(layout.depth))
                        && (kind.has_colour() || colour != Colour::PerChannel)
                        && (kind.channel() == channel || kind.channel().is_none())
                });
                // Sums of the same channel and with colours alike come first.
                let is_other = |kind: Kind| (kind.channel() != channel, kind.has_colour() != has_colour);
                let (kind, counts) = (fitting.min_by_key(|(kind, _)| is_other(*kind)))
                    .ok_or_else(|| self.has_none_of(layout, levels))?;
                Ok(count::of_equalized(counts, &kind.layout(), colour))
            }
        }
    }

    /// Returns the counts of a channel.
    fn of_channel<'c>(&self, channels: &'c [Vec<u64>], channel: u16) -> Result<&'c Vec<u64>, Unlike> {
        let missing =
            || Unlike::Channel { channel, reference: self.path.clone(), of_reference: channels.len() };
        channels.get(usize::from(channel)).ok_or_else(missing)
    }

    fn has_none_of(&self, layout: &Layout, levels: Levels) -> Unlike {
        Unlike::Kind { kind: kind_of(layout, levels), reference: self.path.clone() }
    }

    fn has_others_than(&self, layout: &Layout, levels: Levels) -> Unlike {
        let of_reference = match &self.content {
            Content::Picture { layout, levels, .. } => levels.number(layout.depth),
            Content::Counts(_) => return self.has_none_of(layout, levels),
        };
        let levels = levels.number(layout.depth);
        Unlike::Levels { levels, reference: self.path.clone(), of_reference }
    }

    /// Returns a digest of its counts.
    pub fn digest(&self) -> Digest {
        match &self.content {
            Content::Picture { counts, channels, .. } => {
                let all = counts.iter().chain(channels.iter().flatten());
                let bytes: Vec<u8> = all.flat_map(|count| count.to_le_bytes()).collect();
                Digest::of(&bytes)
            }
            Content::Counts(sums) => Digest::of(sums.to_json().as_bytes()),
        }
    }
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reference").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The layout of a picture, its levels, and the counts of all of its planes.
type Counted = (Layout, Levels, Vec<u64>);

/// The counts of each channel, if channels that are not colours have tables of their own.
type ChannelCounts = Vec<Vec<u64>>;

/// Counts all pages of a file, which have to be of one kind. Returns the layout and levels of the
/// first with the sums of the counts, and the counts of each channel.
fn count_pages(
    path: &Path,
    target: &Target,
    limits: &Limits,
    memory: u64,
    roots: &InputRoots,
) -> Result<(Counted, ChannelCounts), Why> {
    let (mut buffer, mut scratch) = (Vec::new(), Scratch::default());
    let mut file = roots.open_named(path)?;
    let mut first = codec::open(&mut file, &mut buffer, limits, target)?;
    let pages = first.take_pages();
    let (layout, levels, mut sums) = count_page(first, memory, &mut scratch)?;
    let Some(pages) = pages else { return Ok(((layout, levels, sums), Vec::new())) };
    let mut channels: BTreeMap<u16, Vec<u64>> =
        pages.sample_channel(0).map(|channel| (channel, sums.clone())).into_iter().collect();
    for index in 1..pages.len() {
        let (mut file, place) = (roots.open_named(path)?, pages.page(index));
        let page =
            codec::pages::open_page(&mut codec::Unbounded, &mut file, &mut buffer, limits, target, place)?;
        let (other, of_other, counts) = count_page(page, memory, &mut scratch)?;
        if (other.pixel, other.depth, of_other) != (layout.pixel, layout.depth, levels) {
            return Err(Why::PagesDiffer);
        }
        add(&mut sums, &counts);
        if let Some(channel) = pages.sample_channel(index) {
            add(channels.entry(channel).or_insert_with(|| vec![0; counts.len()]), &counts);
        }
    }
    Ok(((layout, levels, sums), channels.into_values().collect()))
}

/// Adds counts to sums.
fn add(sums: &mut [u64], counts: &[u64]) {
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

/// Decodes a picture or page and counts all of its planes.
fn count_page(opened: Opened<'_>, allowed: u64, scratch: &mut Scratch) -> Result<Counted, Why> {
    let bytes = opened.slot_bytes();
    let needed = (bytes as u64).saturating_add(opened.heap_bytes());
    if needed > allowed {
        return Err(Why::LargerThanMemory { needed, allowed });
    }
    // Aligned for samples of 16 bits.
    let (mut slot, words) = (Vec::<u64>::new(), bytes.div_ceil(size_of::<u64>()));
    slot.try_reserve_exact(words).map_err(|_| CodecError::OutOfMemory { bytes: Some(needed) })?;
    slot.resize(words, 0);
    let slot = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut slot)[..bytes];
    let decoded = opened.decode(slot, Vec::new(), &Cores::none())?;
    let (layout, levels) = (decoded.layout, decoded.levels());
    let mut counts = vec![0; count::length(&layout)];
    count::count(&slot[..layout.bytes() as usize], &layout, &mut counts, scratch);
    Ok((layout, levels, counts))
}
