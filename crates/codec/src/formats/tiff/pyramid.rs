//! The smaller versions of a picture in its file.
//!
//! They are overviews after it, as GDAL writes them, and the resolutions of a pyramid in its
//! sub-directories, as in OME-TIFF.
//!
//! They show the old contrast, and are therefore made again ([`overviews`]): as many as there were,
//! each where it was, as large, and in the same tiles and compression.
//!
//! A version has the samples of the picture and its shape. A thumbnail of another kind is left out.
//!
//! [`overviews`]: super::write::overviews

pub(crate) mod mask;

use std::sync::Arc;

use crate::CodecError;
use crate::formats::tiff::compression::method::Compression;
use crate::formats::tiff::read::header::Header;
use crate::formats::tiff::read::pages::{self, Companion, Companions, Smaller};
use crate::formats::tiff::read::slide;
use crate::formats::tiff::read::values::FirstPage;
use crate::formats::tiff::strips::{Put, Raster, Shape, Strips};
use crate::formats::tiff::tags;
use crate::io::reader::Reader;
use crate::metadata::ifd::{Directory, Numbers};
use crate::samples::mapped::{Boxes, Cut};
use crate::samples::size::Size;
use mask::Mask;

/// Room in a directory for the tags that are written in addition to its own.
pub(crate) const DESCRIBED: u64 = 4 << 10;

/// A smaller version of a picture, as it is made again.
#[derive(Clone, Debug)]
pub(crate) struct Overview {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Its tiles, if it has any.
    shape: Option<Shape>,
    pub(crate) compression: Compression,
    /// Whether its directory is a sub-directory of the picture's, rather than after it.
    pub(crate) is_below: bool,
    /// Whether it declares itself a smaller version.
    pub(crate) says_so: bool,
    /// The offset of the directory that it had, and its strips or tiles.
    pub(crate) place: u64,
    parts: usize,
    /// The tags that it had, and then those that it keeps.
    pub(crate) kept: Arc<Directory>,
}

/// The smaller versions of a picture, in the order of their directories, and its masks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pyramid {
    pub(crate) overviews: Vec<Overview>,
    /// The masks of the picture and of its overviews.
    pub(crate) masks: Vec<Mask>,
    /// The offsets of the directories that overviews and masks had, in their order.
    order: Vec<u64>,
    /// Whether the samples are labels, which have no mean.
    pub(crate) are_labels: bool,
    /// Bytes of room for all directories, if these lie before all pixels (COG).
    ///
    /// Readers of a part of the file then find them at once.
    pub(crate) room: Option<u64>,
}

/// Pages beside a picture that are left out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Misfits {
    /// Smaller pictures of another kind or shape.
    pub(crate) smaller: bool,
    /// Photographs of a slide's label and glass.
    pub(crate) labels: bool,
    /// Masks of another kind, or of what is left out.
    pub(crate) masks: bool,
}

impl Pyramid {
    /// No smaller versions and no masks.
    pub(crate) const NONE: Self =
        Self { overviews: Vec::new(), masks: Vec::new(), order: Vec::new(), are_labels: false, room: None };

    /// Finds the versions of a picture among `smaller` ones, and the place of the directories.
    ///
    /// `header` is the picture's; its directory is at the offset `place`. Also returns which of the
    /// `smaller` ones are no such versions.
    pub(crate) fn find(
        file: &mut Reader<'_>,
        place: u64,
        directory: &Directory,
        header: &Header,
        first_page: &FirstPage,
        Companions { smaller, masks, order, .. }: &Companions,
        keeps_overviews: bool,
    ) -> Result<(Self, Misfits), CodecError> {
        let mut overviews = Vec::new();
        for version in smaller {
            overviews.extend(Overview::read(file, version, header, first_page)?);
        }
        leave_out_misfits(&mut overviews, header);
        let mut misfits = Misfits::default();
        let is_left_out =
            |version: &&Smaller| overviews.iter().all(|overview: &Overview| overview.place != version.place);
        for version in smaller.iter().filter(is_left_out) {
            match (version.lacks_subfile_type, version.may_be_label) {
                (true, _) => return Err(slide::refused()),
                (false, true) => misfits.labels = true,
                (false, false) => misfits.smaller = true,
            }
        }
        if !keeps_overviews {
            misfits.smaller |= !overviews.is_empty();
            overviews.clear();
        }
        let masks = masks_of(file, masks, header, first_page, &overviews)?;
        misfits.masks = masks.is_none();
        let (masks, order) = (masks.unwrap_or_default(), order.clone());
        let mut all = Self { overviews, masks, order, are_labels: header.is_of_labels(), room: None };
        // Masks do not count: GDAL appends them to a picture that is in order.
        let versions = || all.overviews.iter().map(|overview| overview.place);
        let last = versions().fold(place, u64::max);
        let is_first = versions().all(|other| other > place) && last < first_pixels(directory);
        all.room = (is_first && header.tile_to_keep().is_some()).then(|| all.room_for(directory, header));
        Ok((all, misfits))
    }

    /// Returns the most bytes that the directories take with that of the picture.
    fn room_for(&self, directory: &Directory, header: &Header) -> u64 {
        const PART: u64 = 16; // its offset and its length
        let own = (directory, header.all_parts());
        let of_overviews = self.overviews.iter().map(|overview| (&*overview.kept, overview.parts));
        let of_masks = self.masks.iter().map(|mask| (&*mask.kept, mask.parts()));
        let rooms = of_overviews.chain(of_masks).chain([own]).map(|(directory, parts)| {
            directory.bytes_of_values().saturating_add((parts as u64).saturating_mul(PART)) + DESCRIBED
        });
        rooms.fold(0, u64::saturating_add)
    }

    /// Returns the same with the tags that each keeps.
    pub(crate) fn keeping(mut self, kept: impl Fn(Directory) -> Directory) -> Self {
        for overview in &mut self.overviews {
            overview.kept = Arc::new(kept(Arc::unwrap_or_clone(std::mem::take(&mut overview.kept))));
        }
        self
    }

    /// Returns the bytes of all overviews of a picture with this raster, if they are uncompressed.
    pub(crate) fn stored_bytes(&self, raster: &Raster) -> Option<u64> {
        let are_stored = self.overviews.iter().all(|overview| overview.compression == Compression::Stored);
        are_stored.then(|| self.all_bytes(raster))
    }

    pub(crate) fn all_bytes(&self, raster: &Raster) -> u64 {
        let all = self.overviews.iter().map(|overview| overview.raster(raster).all_bytes());
        all.fold(0, u64::saturating_add)
    }

    /// Returns the bytes of heap for making the overviews of a picture, or of a band of it.
    ///
    /// `raster` has all channels that are written together, `own` one that is written by itself.
    pub(crate) fn heap_bytes(&self, raster: &Raster, own: &Raster, is_band: bool) -> u64 {
        let of_one = |overview: &Overview| {
            let made = overview.raster(raster);
            // Rows that wait, and those that are compressed.
            let waiting = 2 * (made.rows() * made.row()) as u64;
            waiting + Boxes::heap_bytes(made.width, made.channels() as u64)
        };
        let rows: u64 = self.overviews.iter().map(of_one).sum();
        let kept = match (is_band, self.room) {
            // A band is made smaller before its turn.
            (true, _) => raster.all_bytes() / 4,
            // They are compressed before the picture, and LZW may add half.
            (false, Some(_)) => self.all_bytes(own).saturating_mul(3) / 2,
            (false, None) => 0,
        };
        if self.overviews.is_empty() { 0 } else { rows.saturating_add(kept) }
    }

    /// Returns the mask of the picture itself.
    pub(crate) fn mask_of_picture(&self, header: &Header) -> Option<&Mask> {
        self.masks.iter().find(|mask| mask.size() == header.size())
    }

    /// Loads the masks, to be written.
    pub(crate) fn load_masks(&mut self, file: &Reader<'_>) -> Result<(), CodecError> {
        self.masks.iter_mut().try_for_each(|mask| mask.load(file))
    }

    /// Writes the masks. Returns the places of their strips or tiles.
    pub(crate) fn write_masks(&self, put: &mut Put<'_>) -> Result<Vec<Strips>, CodecError> {
        self.masks.iter().map(|mask| mask.write(put)).collect()
    }

    /// Returns the number of the directory at an offset among those of overviews and masks.
    pub(crate) fn number_of(&self, place: u64) -> usize {
        self.order.iter().position(|&other| other == place).unwrap_or(self.order.len())
    }

    /// Returns the bytes of the masks that are written.
    pub(crate) fn bytes_of_masks(&self) -> u64 {
        self.masks.iter().map(Mask::bytes).sum()
    }

    /// Returns the numbers of the overviews from the largest to the smallest.
    pub(crate) fn by_size(&self) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..self.overviews.len()).collect();
        numbers.sort_by_key(|&number| std::cmp::Reverse(self.overviews[number].size().pixels()));
        numbers
    }
}

impl Overview {
    /// Reads the directory of a smaller version of the picture with this header.
    ///
    /// Returns `None` if it does not have the same samples.
    fn read(
        file: &mut Reader<'_>,
        version: &Smaller,
        header: &Header,
        first_page: &FirstPage,
    ) -> Result<Option<Self>, CodecError> {
        let Some(directory) = pages::directory_of_other(file, header.form, version.place)? else {
            return Ok(None);
        };
        let Ok(own) = Header::new(&directory, header.form, first_page, header.channel, None) else {
            return Ok(None);
        };
        let shape = own.tile_to_keep().map(|Size { width, height }| Shape::Tiles { width, height });
        Ok(own.has_samples_of(header).then(|| Self {
            width: own.layout.width,
            height: own.layout.height,
            shape,
            compression: own.method.written(),
            is_below: version.is_below,
            says_so: !version.lacks_subfile_type,
            place: version.place,
            parts: own.all_parts(),
            kept: Arc::new(directory),
        }))
    }

    /// Returns its raster, given that of the picture.
    pub(crate) fn raster(&self, of_picture: &Raster) -> Raster {
        Raster { width: self.width, height: self.height, shape: self.shape, ..*of_picture }
    }

    /// Returns its width and height.
    pub(crate) fn size(&self) -> Size {
        Size { width: self.width, height: self.height }
    }

    /// Returns the cut of the next larger version, of this size, into its pixels.
    pub(crate) fn cut(&self, larger: Size) -> [Cut; 2] {
        Cut::of(larger, self.size())
    }
}

/// Returns the masks of a picture and of its overviews.
///
/// `None` if any cannot be kept: all are left out then.
fn masks_of(
    file: &mut Reader<'_>,
    companions: &[Companion],
    header: &Header,
    first_page: &FirstPage,
    overviews: &[Overview],
) -> Result<Option<Vec<Mask>>, CodecError> {
    let picture = header.size();
    let (mut masks, mut bytes) = (Vec::new(), 0_u64);
    for &companion in companions {
        let Some(mask) = Mask::read(file, header.form, companion, first_page)? else { return Ok(None) };
        let is_of = |overview: &Overview| mask.size() == overview.size();
        // That of an overview that is left out goes with it.
        if mask.size() == picture || overviews.iter().any(is_of) {
            bytes = bytes.saturating_add(mask.bytes());
            masks.push(mask);
        }
    }
    let is_whole = masks.is_empty() || masks.iter().any(|mask| mask.size() == picture);
    Ok((is_whole && bytes <= mask::MOST_BYTES).then_some(masks))
}

/// Leaves out overviews without the shape of the picture, or larger than the next larger version.
fn leave_out_misfits(overviews: &mut Vec<Overview>, header: &Header) {
    let size = header.size();
    let mut sizes: Vec<Size> = overviews.iter().map(Overview::size).collect();
    sizes.sort_by_key(|size| std::cmp::Reverse(size.pixels()));
    let fits = |larger: Size, own: Size| own.width <= larger.width && own.height <= larger.height;
    let mut larger = size;
    sizes.retain(|&own| {
        let is_version = fits(larger, own) && has_shape(size, own);
        larger = if is_version { own } else { larger };
        is_version
    });
    overviews.retain(|overview| sizes.contains(&overview.size()));
}

/// Returns whether a smaller version has the shape of a picture, as far as whole pixels allow.
fn has_shape(picture: Size, own: Size) -> bool {
    let [width, height, own_width, own_height] =
        [picture.width, picture.height, own.width, own.height].map(i128::from);
    (width * own_height - height * own_width).abs() <= width + height
}

/// Returns the offset of the first tile in the file that has been written.
fn first_pixels(directory: &Directory) -> u64 {
    let offsets = directory.numbers(tags::TILE_OFFSETS).into_iter().flat_map(Numbers::iter);
    offsets.filter(|&offset| offset > 0).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_the_shape_of_the_picture_but_for_rounding() {
        for (size, own, is_one) in [
            ((101, 61), (51, 31), true),
            ((101, 61), (50, 30), true),
            ((101, 61), (1, 1), true),
            ((1000, 500), (333, 166), true),
            ((1000, 500), (500, 500), false),
            ((1000, 500), (160, 120), false),
            ((46_000, 32_914), (1024, 732), true),
        ] {
            assert_eq!(has_shape(size.into(), own.into()), is_one, "{own:?} of {size:?}");
        }
    }
}
