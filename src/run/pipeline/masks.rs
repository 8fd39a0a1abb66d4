//! Reads the mask of a picture, within what the picture may hold.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::PictureError;
use crate::fs::input;
use crate::picture::mask::{MaskError, Masks};
use crate::slot::Held;
use codec::{CodecError, Cores, Limits, Mask, Opened, PngLevel, Target};

/// What masks are decoded as: gray.
const GRAY: Target = Target { png_level: PngLevel::Fast, gray: true, ..Target::AS_STORED };

/// Returns the mask for a page, from 0, of an opened picture, which is in the file `path`. What it takes is held.
///
/// # Errors
/// [`PictureError::Mask`], or that there is no memory for it.
pub(super) fn mask_of(
    masks: &Masks,
    path: PathBuf,
    page: usize,
    opened: &Opened<'_>,
    limits: &Limits,
    held: &mut Held,
) -> Result<Mask, PictureError> {
    let mask = read(masks, &path, page, limits, held)?;
    let layout = opened.layout();
    let picture = (layout.width, layout.height / opened.frames() as u32);
    if mask.size() != picture {
        return Err(MaskError::Size { path, mask: mask.size(), picture }.into());
    }
    Ok(mask)
}

fn read(
    masks: &Masks,
    path: &Path,
    page: usize,
    limits: &Limits,
    held: &mut Held,
) -> Result<Mask, PictureError> {
    let open = || input::open(path).map_err(|source| MaskError::Read { path: path.to_owned(), source });
    let (mut file, mut buffer) = (open()?, Vec::new());
    let mut opened = codec::open_within(held, &mut file, &mut buffer, limits, &GRAY)
        .map_err(|error| of_codec(path, error))?;
    match opened.take_pages() {
        Some(pages) if page >= pages.len() => {
            Err(MaskError::Pages { path: path.to_owned(), pages: pages.len(), page: page + 1 }.into())
        }
        Some(pages) if page > 0 => {
            drop(opened);
            let (mut file, mut buffer): (File, _) = (open()?, Vec::new());
            let opened = codec::open_page(held, &mut file, &mut buffer, limits, &GRAY, (&pages, page))
                .map_err(|error| of_codec(path, error))?;
            decode(masks, path, opened, held)
        }
        _ => decode(masks, path, opened, held),
    }
}

fn decode(masks: &Masks, path: &Path, opened: Opened<'_>, held: &mut Held) -> Result<Mask, PictureError> {
    let bytes = opened.slot_bytes();
    let pixels = opened.layout().pixels();
    held.hold((bytes as u64).saturating_add(opened.heap_bytes()).saturating_add(pixels))?;
    // Aligned for samples of 16 bits.
    let (mut slot, words) = (Vec::<u64>::new(), bytes.div_ceil(size_of::<u64>()));
    let no_memory = CodecError::OutOfMemory { bytes: Some(bytes as u64) };
    slot.try_reserve_exact(words).map_err(|_| of_codec(path, no_memory))?;
    slot.resize(words, 0);
    let slot = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut slot)[..bytes];
    let decoded = opened.decode(slot, Vec::new(), &Cores::none()).map_err(|error| of_codec(path, error))?;
    if decoded.has_own_range() {
        return Err(MaskError::NoLevels(path.to_owned()).into());
    }
    Ok(Mask::new(&decoded, slot, masks.keeps).map_err(|error| of_codec(path, error))?)
}

fn of_codec(path: &Path, error: CodecError) -> MaskError {
    MaskError::Codec { path: path.to_owned(), error }
}
