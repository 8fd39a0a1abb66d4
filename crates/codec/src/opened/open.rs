//! From a file to a picture that can be decoded: its format is detected, and its header read.

mod limits;

use std::fs::File;
use std::sync::Arc;

use limits::with_all_limits;

use super::Opened;
use crate::formats::{foreign, open_folder};
use crate::io::budget::{Budget, Unbounded};
use crate::io::image_store::{ImageStore, MediumRef};
use crate::io::input;
use crate::opened::pages::{PageRef, Pages};
use crate::parts::opening::{Found, Header, Opening};
use crate::parts::slice::Slice;
use crate::picture::guard::guard;
use crate::{CodecError, Format, Limits, Target};
use equalize::colour::Gray;

/// Opens a picture as [`open_within`] does, without a budget.
///
/// # Errors
/// Any [`CodecError`] except [`CodecError::Encoder`].
pub fn open<'a>(
    file: &'a mut File,
    buffer: &'a mut Vec<u8>,
    limits: &Limits,
    target: &Target,
) -> Result<Opened<'a>, CodecError> {
    open_within(&mut Unbounded, file, buffer, limits, target)
}

/// Opens a picture: detects its format, reads its header, and checks limits and target.
///
/// No memory is allocated for pixels, nor for more of the file than `budget` allows. `file` must be
/// at its start; `buffer` is scratch space worth reusing.
///
/// # Errors
/// Any [`CodecError`] except [`CodecError::Encoder`].
pub fn open_within<'a>(
    budget: &mut dyn Budget,
    file: &'a mut File,
    buffer: &'a mut Vec<u8>,
    limits: &Limits,
    target: &Target,
) -> Result<Opened<'a>, CodecError> {
    open_one(budget, file, buffer, limits, target, None)
}

/// Returns the place of a picture in a series, as a slice.
///
/// `None` if it is not a DICOM picture, or has no series. `file` must be at its start.
///
/// # Errors
/// If it is DICOM, and cannot be read.
pub fn slice_of(file: &mut File, limits: &Limits) -> Result<Option<Slice>, CodecError> {
    let mut buffer = Vec::new();
    input::read_head(file, &mut buffer)?;
    let Some(format) = Format::sniff(&buffer) else { return Ok(None) };
    guard(
        format,
        |reason| CodecError::malformed(format, reason),
        || format.slice_of(file, &mut buffer, limits),
    )
}

/// Returns whether a file has several pages or frames, as far as it can be read.
///
/// `file` must be at its start.
pub fn has_several(file: &mut File, limits: &Limits) -> bool {
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let mut buffer = Vec::new();
    let opened = open(file, &mut buffer, limits, &Target::AS_STORED);
    opened.is_ok_and(|mut opened| {
        opened.frames() > 1 || opened.take_pages().is_some_and(|pages| pages.pictures() > 1)
    })
}

/// Opens a page of a file.
///
/// Its pages are those that [`Opened::take_pages`] returned when the file was opened. Everything
/// else is as for [`open_within`].
///
/// # Errors
/// Any [`CodecError`] except [`CodecError::Encoder`].
pub fn open_page<'a>(
    budget: &mut dyn Budget,
    file: &'a mut File,
    buffer: &'a mut Vec<u8>,
    limits: &Limits,
    target: &Target,
    page: PageRef<'_>,
) -> Result<Opened<'a>, CodecError> {
    open_one(budget, file, buffer, limits, target, Some(page))
}

/// Opens an image that is not a file, or one of its pages, as [`open_within`] and [`open_page`] do.
///
/// # Errors
/// Any [`CodecError`] except [`CodecError::Encoder`].
pub fn open_image(
    budget: &mut dyn Budget,
    store: &Arc<dyn ImageStore>,
    limits: &Limits,
    target: &Target,
    page: Option<PageRef<'_>>,
) -> Result<Opened<'static>, CodecError> {
    open_tree(budget, MediumRef::Image(store), limits, target, page)
}

/// Opens an image that is a tree of values.
fn open_tree(
    budget: &mut dyn Budget,
    medium: MediumRef<'_>,
    limits: &Limits,
    target: &Target,
    page: Option<PageRef<'_>>,
) -> Result<Opened<'static>, CodecError> {
    let place = page.map(|page| page.place());
    let header = guard(
        Format::OF_FOLDERS,
        |reason| CodecError::malformed(Format::OF_FOLDERS, reason),
        || open_folder(medium, limits, budget, target, place),
    )?;
    header.accepted(Format::OF_FOLDERS, 0, limits, target, page.map(|page| page.pages))
}

fn open_one<'a>(
    budget: &mut dyn Budget,
    file: &'a mut File,
    buffer: &'a mut Vec<u8>,
    limits: &Limits,
    target: &Target,
    page: Option<PageRef<'_>>,
) -> Result<Opened<'a>, CodecError> {
    if file.metadata()?.is_dir() {
        return open_tree(budget, MediumRef::File(file), limits, target, page);
    }
    let length = input::read_head(file, buffer)?;
    let format = format_of(buffer)?;
    let place = page.map(|page| page.place());
    let header = guard(
        format,
        |reason| CodecError::malformed(format, reason),
        move || read_header(format, Opening { file, buffer, limits, budget, target, place }),
    )?;
    header.accepted(format, length, limits, target, page.map(|page| page.pages))
}

impl<'a> Header<'a> {
    /// Returns the picture of a file of this length, after checking limits and target.
    ///
    /// `of` are the pages of the file if one of them was asked for by its number.
    fn accepted(
        self,
        format: Format,
        length: u64,
        limits: &Limits,
        target: &Target,
        of: Option<&Pages>,
    ) -> Result<Opened<'a>, CodecError> {
        let mut opened = self.opened(format, target, of.is_some())?;
        opened.is_band = of.or(opened.pages.as_ref()).is_some_and(Pages::are_bands);
        // The pages of a file are read one by one.
        let are_pages = of.is_some() || opened.pages.as_ref().is_some_and(Pages::are_numbered);
        opened.check(limits, if are_pages { 0 } else { length }, target)?;
        Ok(opened)
    }

    /// Returns the picture as decoded for a target.
    ///
    /// `is_further`: whether it is a page that was asked for by its number.
    fn opened(self, format: Format, target: &Target, is_further: bool) -> Result<Opened<'a>, CodecError> {
        let Self { source, file_bytes, pages } = self;
        if target.range.is_some_and(|range| range.unit.is_some()) && !format.has_units() {
            let what = format!("--range with a unit for a {format}");
            return Err(CodecError::unsupported(what, "only DICOM states one; give its own values"));
        }
        let facts = source.facts();
        let gray = target.gray.or(facts.is_gray.then_some(Gray::Luma));
        let output = target.format_for(format);
        let pages = pages.map(|pages| Pages::new(pages, format, output, target.splits)).transpose()?;
        let no_data = target.no_data.or(facts.no_data);
        Ok(Opened {
            format,
            output,
            written: target.layout_for(facts.visible_in(gray)),
            gray,
            keeps_byte_orders: false,
            range: target.range,
            levels: target.levels,
            no_data: no_data.filter(|_| facts.mapped.is_none()),
            mask: None,
            needs: source.needs(),
            facts,
            source,
            file_bytes,
            is_band: false,
            leaves: target.splits && (is_further || pages.is_some()),
            pages,
            decoder: None,
        })
    }
}

/// Reads the header of a picture, or of the page at its place.
fn read_header<'a>(format: Format, opening: Opening<'a, '_>) -> Result<Header<'a>, CodecError> {
    match format.open(opening)? {
        Found::Header(header) => Ok(header),
        Found::Whole(opening) => open_at_once(format, opening),
    }
}

/// Reads a whole file.
fn open_at_once<'a>(format: Format, opening: Opening<'a, '_>) -> Result<Header<'a>, CodecError> {
    let Opening { file, buffer, limits, budget, target, .. } = opening;
    let length = file.metadata()?.len();
    input::admit(length, limits, budget)
        .map_err(|why| with_all_limits(why, format, file, buffer, length, limits, target))?;
    let bytes = input::read_admitted(file, buffer, limits, budget)?;
    let file_bytes = bytes.len() as u64;
    Ok(Header { source: format.open_whole(bytes, limits, target)?, file_bytes, pages: None })
}

/// Returns the format of a file that begins with `head`.
fn format_of(head: &[u8]) -> Result<Format, CodecError> {
    Format::sniff(head).ok_or_else(|| match foreign::by_head(head).or_else(|| foreign::by_content(head)) {
        Some(name) => foreign::refused(name),
        None if head.is_empty() => CodecError::Empty,
        None => CodecError::NotAPicture,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;

    /// Returns the error of opening a file of this content.
    fn refusal(content: &[u8]) -> CodecError {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file.rewind().unwrap();
        let limits = Limits { max_pixels: 1 << 20, max_bytes: 1 << 20 };
        open(&mut file, &mut Vec::new(), &limits, &Target::AS_STORED).unwrap_err()
    }

    #[test]
    fn an_image_that_is_a_folder_is_refused_by_name_where_its_format_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = File::open(folder.path()).unwrap();
        let limits = Limits { max_pixels: 1 << 20, max_bytes: 1 << 20 };
        let error = open(&mut file, &mut Vec::new(), &limits, &Target::AS_STORED).unwrap_err();
        let expected = match cfg!(feature = "zarr") {
            true => CodecError::NotAPicture.to_string(),
            false => "OME-Zarr is left out of this build; build histeqd with --features zarr".to_owned(),
        };
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_format_that_is_left_out_is_refused_by_its_name_and_that_of_its_feature() {
        let dicom = [&[0; 128][..], b"DICM"].concat();
        for (content, is_built, expected) in [
            (
                &dicom[..],
                cfg!(feature = "dicom"),
                "DICOM is left out of this build; build histeqd with --features dicom",
            ),
            (
                b"\xff\x4f\xff\x51",
                cfg!(feature = "jpeg2000"),
                "JPEG 2000 is left out of this build; build histeqd with --features jpeg2000",
            ),
            (
                b"\xff\x0a",
                cfg!(feature = "jxl"),
                "JPEG XL is left out of this build; build histeqd with --features jxl",
            ),
        ] {
            let error = refusal(content);
            assert_eq!(matches!(error, CodecError::LeftOut { .. }), !is_built, "{error}");
            assert_eq!(error.to_string() == expected, !is_built, "{error}");
            assert_eq!(error.may_be_incomplete(), is_built, "{error}");
        }
    }

    #[test]
    #[cfg(all(feature = "dicom", not(feature = "jpeg2000")))]
    fn a_frame_of_dicom_that_is_jpeg_2000_is_refused_by_that_name() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/dicom/mr-jpeg-2000.dcm");
        let (mut file, mut buffer) = (File::open(file).unwrap(), Vec::new());
        let limits = Limits { max_pixels: 1 << 20, max_bytes: 1 << 24 };
        let picture = open(&mut file, &mut buffer, &limits, &Target::AS_STORED).unwrap();
        let mut slot = vec![0; picture.slot_bytes()];
        let error = picture.decode(&mut slot, Vec::new(), &crate::Cores::none()).unwrap_err();
        assert!(matches!(error, CodecError::LeftOut { format: Format::Jpeg2000, .. }), "{error}");
    }
}
