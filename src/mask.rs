//! `--mask`: pictures that say which pixels of others count.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use crate::files::WithRemedy;
use crate::input;
use crate::paths::Shown;
use crate::record::Digest;
use crate::slot::{Held, SlotError};
use crate::stamp::Stamp;
use codec::{CodecError, Cores, JpegQuality, LevelCount, Limits, Mask, Opened, PngLevel, Target};

/// What masks are decoded as: gray.
const GRAY: Target = Target {
    format: None,
    jpeg_quality: JpegQuality::Keep,
    png_level: PngLevel::Fast,
    eight_bit: false,
    gray: true,
    needs_rgb: false,
    range: None,
    window: None,
    levels: LevelCount::Full,
    no_data: None,
    splits: false,
    segmentations: false,
    derivation: None,
};

/// Extensions of masks besides that of the picture: those of formats without loss.
const EXTENSIONS: [&str; 5] = ["png", "tif", "tiff", "pgm", "bmp"];

/// Where masks are, and what they are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Masks {
    /// A folder with the tree of the input folders.
    pub folder: PathBuf,
    /// Whether pixels that do not count stay as they are.
    pub keeps: bool,
}

/// Why a picture cannot have its mask.
#[derive(Debug, thiserror::Error)]
pub enum MaskError {
    /// There is none.
    #[error(
        "there is no mask {}; a mask has the picture's name below --mask, perhaps with the extension png, tif, pgm or bmp",
        Shown(.0)
    )]
    Missing(PathBuf),
    /// It cannot be read.
    #[error("its mask {} cannot be read: {}", Shown(path), WithRemedy(source))]
    Read {
        /// The mask.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// It cannot be decoded.
    #[error("its mask {} cannot be used: {error}", Shown(path))]
    Codec {
        /// The mask.
        path: PathBuf,
        /// What is wrong with it.
        error: CodecError,
    },
    /// Its samples have no fixed black.
    #[error("its mask {} has samples that are floats or long integers; use one of 8 or 16 bits", Shown(.0))]
    NoLevels(PathBuf),
    /// It has fewer pages than the picture.
    #[error("its mask {} has {pages} pages, but not that of page {page}", Shown(path))]
    Pages {
        /// The mask.
        path: PathBuf,
        /// How many pages it has.
        pages: usize,
        /// The page of the picture, from 1.
        page: usize,
    },
    /// It is of another size.
    #[error("its mask {} is {}x{} pixels, and the picture is {}x{}", Shown(path), mask.0, mask.1, picture.0, picture.1)]
    Size {
        /// The mask.
        path: PathBuf,
        /// Its width and height.
        mask: (u32, u32),
        /// Those of the picture.
        picture: (u32, u32),
    },
    /// There was no memory for it.
    #[error(transparent)]
    Slot(#[from] SlotError),
}

impl MaskError {
    /// Returns whether the same picture may get its mask at another time.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Missing(_) | Self::Read { .. } | Self::Slot(_) => true,
            Self::Codec { error, .. } => error.may_be_incomplete() || matches!(error, CodecError::Io(_)),
            Self::NoLevels(_) | Self::Pages { .. } | Self::Size { .. } => false,
        }
    }
}

impl Masks {
    /// Returns the mask of a page, from 0, of a picture below one of the input folders or among the input files. What it takes is held.
    ///
    /// # Errors
    /// [`MaskError`].
    pub fn mask_of(
        &self,
        (inputs, input): (&[PathBuf], &Path),
        page: usize,
        opened: &Opened<'_>,
        limits: &Limits,
        held: &mut Held,
    ) -> Result<Mask, MaskError> {
        let (path, _) = self.find(inputs, input)?;
        let mask = self.read(&path, page, limits, held)?;
        let layout = opened.layout();
        let picture = (layout.width, layout.height / opened.frames() as u32);
        if mask.size() != picture {
            return Err(MaskError::Size { path, mask: mask.size(), picture });
        }
        Ok(mask)
    }

    /// Returns what tells the mask of a picture from another, and from another state of it: its name, length and modification time. Nothing if there
    /// is none. It takes one look at the file system if the mask has the picture's extension.
    pub fn state_of(&self, inputs: &[PathBuf], input: &Path) -> Option<Digest> {
        let (path, metadata) = self.find(inputs, input).ok()?;
        // The folder may be mounted elsewhere on another machine, with other inode numbers.
        let Stamp { size, mtime_ns, inode: _ } = Stamp::of(&metadata, false);
        let extension = path.extension().unwrap_or_default().as_encoded_bytes();
        let state = [&size.to_le_bytes(), &mtime_ns.to_le_bytes(), extension].concat();
        Some(Digest::of(&state))
    }

    fn find(&self, inputs: &[PathBuf], input: &Path) -> Result<(PathBuf, Metadata), MaskError> {
        let folders = inputs.iter().filter_map(|folder| input.strip_prefix(folder).ok());
        let below =
            folders.filter(|below| !below.as_os_str().is_empty()).min_by_key(|below| below.as_os_str().len());
        let name = below.or_else(|| input.file_name().map(Path::new)).unwrap_or(input);
        let path = self.folder.join(name);
        let others = EXTENSIONS.iter().map(|extension| path.with_extension(extension));
        let mut all = [path.clone()].into_iter().chain(others);
        let found = all.find_map(|path| fs::metadata(&path).ok().map(|metadata| (path, metadata)));
        found.ok_or(MaskError::Missing(path))
    }

    fn read(&self, path: &Path, page: usize, limits: &Limits, held: &mut Held) -> Result<Mask, MaskError> {
        let open = || input::open(path).map_err(|source| MaskError::Read { path: path.to_owned(), source });
        let (mut file, mut buffer) = (open()?, Vec::new());
        let mut opened = codec::open_within(held, &mut file, &mut buffer, limits, &GRAY)
            .map_err(|error| of_codec(path, error))?;
        match opened.take_pages() {
            Some(pages) if page >= pages.len() => {
                Err(MaskError::Pages { path: path.to_owned(), pages: pages.len(), page: page + 1 })
            }
            Some(pages) if page > 0 => {
                drop(opened);
                let (mut file, mut buffer): (File, _) = (open()?, Vec::new());
                let opened = codec::open_page(held, &mut file, &mut buffer, limits, &GRAY, (&pages, page))
                    .map_err(|error| of_codec(path, error))?;
                self.decode(path, opened, held)
            }
            _ => self.decode(path, opened, held),
        }
    }

    fn decode(&self, path: &Path, opened: Opened<'_>, held: &mut Held) -> Result<Mask, MaskError> {
        let bytes = opened.slot_bytes();
        let pixels = opened.layout().pixels();
        held.hold((bytes as u64).saturating_add(opened.heap_bytes()).saturating_add(pixels))?;
        // Aligned for samples of 16 bits.
        let (mut slot, words) = (Vec::<u64>::new(), bytes.div_ceil(size_of::<u64>()));
        let no_memory = CodecError::OutOfMemory { bytes: Some(bytes as u64) };
        slot.try_reserve_exact(words).map_err(|_| of_codec(path, no_memory))?;
        slot.resize(words, 0);
        let slot = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut slot)[..bytes];
        let decoded =
            opened.decode(slot, Vec::new(), &Cores::none()).map_err(|error| of_codec(path, error))?;
        if decoded.has_own_range() {
            return Err(MaskError::NoLevels(path.to_owned()));
        }
        Mask::new(&decoded, slot, self.keeps).map_err(|error| of_codec(path, error))
    }
}

fn of_codec(path: &Path, error: CodecError) -> MaskError {
    MaskError::Codec { path: path.to_owned(), error }
}
