//! A first look at the pages of a file: what each is among the others, and what its samples are.

use crate::CodecError;
use crate::formats::tiff::{malformed, tags};
use crate::io::reader::Reader;
use crate::metadata::ifd::{self, Form};

/// The tags by which pages are compared: those of the samples, after those of the role and size.
const TAGS: [u16; 9] = [
    tags::KIND,
    tags::OLD_KIND,
    tags::WIDTH,
    tags::HEIGHT,
    tags::TILE_WIDTH,
    tags::SAMPLES_PER_PIXEL,
    tags::BITS_PER_SAMPLE,
    tags::PHOTOMETRIC,
    tags::SAMPLE_FORMAT,
];

/// The role, size and samples of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) role: Role,
    pub(crate) size: (u64, u64),
    pub(crate) is_tiled: bool,
    pub(crate) samples: [Option<u64>; 4],
}

/// A page of a chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    /// The offset of its directory.
    pub(crate) place: u64,
    pub(crate) look: Look,
}

impl Look {
    /// Looks at the page at an offset. Also returns the offset of the next one.
    pub(crate) fn at(bytes: &mut Reader<'_>, form: Form, offset: u64) -> Result<(Self, u64), CodecError> {
        let offset = usize::try_from(offset).map_err(|_| outside())?;
        match ifd::glance(bytes, form, offset, TAGS) {
            Ok(([kind, old_kind, width, height, tile, samples @ ..], next)) => {
                let size = (width.unwrap_or(0), height.unwrap_or(0));
                Ok((Self { role: Role::new(kind, old_kind), size, is_tiled: tile.is_some(), samples }, next))
            }
            Err(error) if error.raw_os_error().is_some() => Err(error.into()),
            Err(_) => Err(outside()),
        }
    }
}

/// The role of a page among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Picture,
    /// A smaller version of a picture: an overview or a thumbnail.
    Smaller,
    /// A mask of a picture's valid pixels.
    Mask,
}

impl Role {
    /// Returns the role by the tags NewSubfileType and SubfileType.
    fn new(kind: Option<u64>, old_kind: Option<u64>) -> Self {
        const MASK: u64 = 4;
        const OLD_SMALLER: u64 = 2;
        match kind {
            Some(bits) if bits & MASK != 0 => Self::Mask,
            Some(bits) if bits & tags::SMALLER != 0 => Self::Smaller,
            None if old_kind == Some(OLD_SMALLER) => Self::Smaller,
            _ => Self::Picture,
        }
    }
}

/// The error of a page whose directory cannot be read.
fn outside() -> CodecError {
    malformed("the directory of a page is outside the file or invalid; it may be truncated")
}
