//! `--mask`: pictures that mark the pixels of others that count.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use crate::fs::files::WithRemedy;
use crate::fs::paths::{Shown, below_inputs};
use crate::fs::stamp::Stamp;
use crate::picture::record::Digest;
use codec::CodecError;

/// Extensions of masks, other than the picture's own: formats without loss.
const EXTENSIONS: [&str; 5] = ["png", "tif", "tiff", "pgm", "bmp"];

/// The place of masks, and their use.
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
    /// It does not exist.
    #[error(
        "there is no mask {}; a mask has the picture's name below --mask, or that with the extension png, tif, pgm or bmp",
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
        /// The error in it.
        error: CodecError,
    },
    /// Its samples have no fixed black.
    #[error("its mask {} has samples of floats or of more than 16 bits; use 8 or 16 bits", Shown(.0))]
    NoLevels(PathBuf),
    /// It has fewer pages than the picture.
    #[error("its mask {} has {pages} pages, and none for page {page}", Shown(path))]
    Pages {
        /// The mask.
        path: PathBuf,
        /// The number of its pages.
        pages: usize,
        /// The page of the picture, from 1.
        page: usize,
    },
    /// Its size differs.
    #[error("its mask {} is {mask} pixels, and the picture is {picture}", Shown(path))]
    Size {
        /// The mask.
        path: PathBuf,
        /// That of the mask.
        mask: codec::Size,
        /// That of the picture.
        picture: codec::Size,
    },
}

impl MaskError {
    /// Returns whether the same picture may get its mask at another time.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Missing(_) | Self::Read { .. } => true,
            Self::Codec { error, .. } => error.may_be_incomplete() || matches!(error, CodecError::Io(_)),
            Self::NoLevels(_) | Self::Pages { .. } | Self::Size { .. } => false,
        }
    }
}

impl Masks {
    /// Returns a digest of a picture's mask and its state: its name, length and modification time.
    /// `None` if there is no mask. A mask with the picture's extension costs one look-up in the
    /// file system.
    pub fn state_of(&self, inputs: &[PathBuf], input: &Path) -> Option<Digest> {
        let (path, metadata) = self.look(inputs, input).ok()?;
        // The folder may be mounted elsewhere on another machine, with other inode numbers.
        let Stamp { size, mtime_ns, inode: _ } = Stamp::of(&metadata, false);
        let extension = path.extension().unwrap_or_default().as_encoded_bytes();
        let state = [&size.to_le_bytes(), &mtime_ns.to_le_bytes(), extension].concat();
        Some(Digest::of(&state))
    }

    /// Returns the path of the mask of a picture below one of the input folders or among the input
    /// files.
    ///
    /// # Errors
    /// [`MaskError::Missing`].
    pub(crate) fn find(&self, inputs: &[PathBuf], input: &Path) -> Result<PathBuf, MaskError> {
        self.look(inputs, input).map(|(path, _)| path)
    }

    fn look(&self, inputs: &[PathBuf], input: &Path) -> Result<(PathBuf, Metadata), MaskError> {
        let path = self.folder.join(below_inputs(inputs, input));
        let others = EXTENSIONS.iter().map(|extension| path.with_extension(extension));
        let mut all = [path.clone()].into_iter().chain(others);
        let found = all.find_map(|path| fs::metadata(&path).ok().map(|metadata| (path, metadata)));
        found.ok_or(MaskError::Missing(path))
    }
}
