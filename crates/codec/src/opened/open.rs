//! From a file to a picture that can be decoded: its format is detected, and its header read.

mod limits;

use std::fs::File;
use std::sync::Arc;

use super::super::bands::Cut;
use super::super::budget::{Budget, Unbounded};
use super::super::decode::{Decode, Describe};
use super::super::format;
use super::super::guard::guard;
use super::super::image_store::{ImageStore, MediumRef};
use super::super::pages::{self, Bands, Pages, Place};
use super::super::{
    CodecError, Format, Limits, Slice, Target, bmp, dicom, foreign, gif, input, jpeg, jpeg2000, jxl, pfm,
    png, pnm, tiff, webp, zarr,
};
use super::Opened;
use super::source::{PictureSource, in_gray};
use equalize::Layout;
use equalize::colour::Gray;
use limits::with_all_limits;

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
    if Format::sniff(&buffer) != Some(Format::Dicom) {
        return Ok(None);
    }
    guard(
        Format::Dicom,
        |reason| CodecError::malformed(Format::Dicom, reason),
        || dicom::slice_of(file, &mut buffer, limits, &mut Unbounded),
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

/// Opens the page `index`, from 0, of a file with these pages.
///
/// They are those that [`Opened::take_pages`] returned when the file was opened. Everything else is
/// as for [`open_within`].
///
/// # Errors
/// Any [`CodecError`] except [`CodecError::Encoder`].
pub fn open_page<'a>(
    budget: &mut dyn Budget,
    file: &'a mut File,
    buffer: &'a mut Vec<u8>,
    limits: &Limits,
    target: &Target,
    (pages, index): (&Pages, usize),
) -> Result<Opened<'a>, CodecError> {
    open_one(budget, file, buffer, limits, target, Some((pages, index)))
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
    page: Option<(&Pages, usize)>,
) -> Result<Opened<'static>, CodecError> {
    open_tree(budget, MediumRef::Image(store), limits, target, page)
}

/// Opens an image that is a tree of values.
fn open_tree(
    budget: &mut dyn Budget,
    medium: MediumRef<'_>,
    limits: &Limits,
    target: &Target,
    page: Option<(&Pages, usize)>,
) -> Result<Opened<'static>, CodecError> {
    let place = match page.map(|(pages, index)| pages.place(index)) {
        Some(Place::Zarr(place)) => Some(place),
        _ => None,
    };
    let (first, stack) = guard(
        Format::Zarr,
        |reason| CodecError::malformed(Format::Zarr, reason),
        || zarr::open(medium, limits, budget, target, place),
    )?;
    let pages = stack.map(pages::Source::Zarr);
    let header = Header { source: PictureSource::Other(first), file_bytes: 0, pages };
    header.accepted(Format::Zarr, 0, limits, target, page.map(|(pages, _)| pages))
}

fn open_one<'a>(
    budget: &mut dyn Budget,
    file: &'a mut File,
    buffer: &'a mut Vec<u8>,
    limits: &Limits,
    target: &Target,
    page: Option<(&Pages, usize)>,
) -> Result<Opened<'a>, CodecError> {
    if file.metadata()?.is_dir() {
        return open_tree(budget, MediumRef::File(file), limits, target, page);
    }
    let length = input::read_head(file, buffer)?;
    let format = format_of(buffer)?;
    let place = page.map(|(pages, index)| pages.place(index));
    let header = guard(
        format,
        |reason| CodecError::malformed(format, reason),
        move || read_header(format, budget, file, buffer, limits, target, place),
    )?;
    header.accepted(format, length, limits, target, page.map(|(pages, _)| pages))
}

/// A picture whose header has been read.
struct Header<'a> {
    source: PictureSource<'a>,
    /// Bytes of the file in memory.
    file_bytes: u64,
    /// The pages of the file, if there are several and this is the first.
    pages: Option<pages::Source>,
}

impl<'a> Header<'a> {
    fn of(picture: impl Decode + 'a) -> Self {
        Self { source: PictureSource::of(picture), file_bytes: 0, pages: None }
    }

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
        if target.range.is_some_and(|range| range.unit.is_some()) && format != Format::Dicom {
            let what = format!("--range with a unit for a {format}");
            return Err(CodecError::unsupported(what, "only DICOM states one; give its own values"));
        }
        let gray = target.gray.or(source.facts().is_gray().then_some(Gray::Luma));
        let output = target.format_for(format);
        let pages = pages.map(|pages| Pages::new(pages, format, output, target.splits)).transpose()?;
        let no_data = target.no_data.or(source.facts().no_data());
        Ok(Opened {
            format,
            output,
            written: target.layout_for(source.visible_in(gray)),
            gray,
            keeps_byte_orders: false,
            range: target.range,
            levels: target.levels,
            no_data: no_data.filter(|_| source.facts().mapped().is_none()),
            mask: None,
            source,
            file_bytes,
            is_band: false,
            leaves: target.splits && (is_further || pages.is_some()),
            pages,
            decoder: None,
        })
    }
}

/// Reads the header of a picture, or of the page at `place`.
fn read_header<'a>(
    format: Format,
    budget: &mut dyn Budget,
    file: &'a mut File,
    buffer: &'a mut Vec<u8>,
    limits: &Limits,
    target: &Target,
    place: Option<Place>,
) -> Result<Header<'a>, CodecError> {
    match format {
        Format::Pnm if pfm::is_pfm(buffer) => {
            pfm::Source::open(file, buffer, limits, budget, target.no_data).map(Header::of)
        }
        Format::Pnm => {
            let place = if let Some(Place::Pnm(place)) = place { Some(place) } else { None };
            open_pnm(budget, file, buffer, limits, target, place)
        }
        Format::Tiff => {
            let place = if let Some(Place::Tiff(place)) = place { Some(place) } else { None };
            let cut = cut_of(budget, Format::Tiff, target);
            let (no_data, keeps_overviews) = (target.no_data, target.overviews);
            let selection = tiff::Selection { place, no_data, cut, keeps_overviews };
            let mut tiff = tiff::Source::open(file, buffer, limits, budget, selection)?;
            let bands = tiff.take_bands().map(|bands| pages::Source::Bands(Bands::Tiff(Box::new(bands))));
            let pages = bands.or_else(|| tiff.take_pages().map(|stack| pages::Source::Tiff(Box::new(stack))));
            Ok(Header { pages, ..Header::of(tiff) })
        }
        Format::Dicom => {
            let place = if let Some(Place::Dicom(place)) = place { Some(place) } else { None };
            let (frame, frames) = dicom::open(file, buffer, limits, budget, target, place)?;
            let pages = frames.map(pages::Source::Dicom);
            Ok(Header { source: PictureSource::Other(frame), file_bytes: 0, pages })
        }
        Format::Png => {
            let place = if let Some(Place::Png(place)) = place { Some(place) } else { None };
            open_png(budget, file, buffer, limits, target, place)
        }
        Format::Bmp => {
            let place = if let Some(Place::Bmp(place)) = place { Some(place) } else { None };
            open_bmp(budget, file, buffer, limits, target, place)
        }
        _ => open_at_once(format, budget, file, buffer, limits, target),
    }
}

/// Reads a PNG as a whole, or the part before a band.
fn open_png<'a>(
    budget: &mut dyn Budget,
    file: &'a mut File,
    buffer: &'a mut Vec<u8>,
    limits: &Limits,
    target: &Target,
    place: Option<png::Place>,
) -> Result<Header<'a>, CodecError> {
    let bands = if place.is_none() {
        let cut = (cut_of(budget, Format::Png, target), target.levels);
        let unit = |layout| rows_together(in_gray(layout, target.gray), Format::Png, target);
        png::find((file, buffer), (limits, budget), cut, unit)?
    } else {
        None
    };
    let is_further = place.is_some();
    let Some(place) = place.or_else(|| bands.as_ref().map(|bands| bands.place(0))) else {
        return open_at_once(Format::Png, budget, file, buffer, limits, target);
    };
    let file_bytes = place.bytes();
    // The budget of the first one was asked for when the bands were found.
    let band = place.open(file, buffer, if is_further { Some(budget) } else { None })?;
    let pages = bands.map(|bands| pages::Source::Bands(Bands::Png(bands)));
    Ok(Header { file_bytes, pages, ..Header::of(band) })
}

/// Reads a bitmap as a whole, or the headers of a band.
fn open_bmp<'a>(
    budget: &mut dyn Budget,
    file: &'a mut File,
    buffer: &'a mut Vec<u8>,
    limits: &Limits,
    target: &Target,
    place: Option<bmp::Place>,
) -> Result<Header<'a>, CodecError> {
    let bands = if place.is_none() {
        let cut = cut_of(budget, Format::Bmp, target);
        let unit = |layout, gray: bool| {
            rows_together(in_gray(layout, target.gray.or(gray.then_some(Gray::Luma))), Format::Bmp, target)
        };
        bmp::find((file, buffer), (limits, budget), cut, unit)?
    } else {
        None
    };
    let Some(place) = place.or_else(|| bands.as_ref().map(|bands| bands.place(0))) else {
        return open_at_once(Format::Bmp, budget, file, buffer, limits, target);
    };
    let pages = bands.map(|bands| pages::Source::Bands(Bands::Bmp(bands)));
    Ok(Header { pages, ..Header::of(place.open(file)) })
}

/// Reads a whole file.
fn open_at_once<'a>(
    format: Format,
    budget: &mut dyn Budget,
    file: &'a mut File,
    buffer: &'a mut Vec<u8>,
    limits: &Limits,
    target: &Target,
) -> Result<Header<'a>, CodecError> {
    let length = file.metadata()?.len();
    input::admit(length, limits, budget)
        .map_err(|why| with_all_limits(why, format, (file, buffer, length), limits, target))?;
    let bytes = input::read_admitted(file, buffer, limits, budget)?;
    let file_bytes = bytes.len() as u64;
    Ok(Header { source: open_whole(format, bytes, limits, target)?, file_bytes, pages: None })
}

/// Returns the rule for cutting a picture of a format into bands, if that is possible.
fn cut_of(budget: &dyn Budget, format: Format, target: &Target) -> Cut {
    let output = target.format_for(format);
    let is_written_so = matches!(output, Format::Tiff | Format::Pnm | Format::Png | Format::Bmp);
    let may_be = is_written_so && !target.splits;
    let least_rows: fn(u32) -> u32 = if output == Format::Png { png::least_rows } else { |_| 1 };
    Cut { most: if may_be { budget.most_at_once() } else { u64::MAX }, least_rows }
}

/// Returns the number of rows that no band divides, of a picture that is not a TIFF.
fn rows_together(layout: Layout, format: Format, target: &Target) -> u32 {
    match target.format_for(format) {
        Format::Tiff => tiff::rows_of_strip(&target.layout_for(layout)),
        _ => 1,
    }
}

/// Reads the header of a PNM, which may be decoded in bands.
fn open_pnm<'a>(
    budget: &mut dyn Budget,
    file: &'a mut File,
    buffer: &'a mut Vec<u8>,
    limits: &Limits,
    target: &Target,
    place: Option<pnm::Place>,
) -> Result<Header<'a>, CodecError> {
    let cut = cut_of(budget, Format::Pnm, target);
    let source = pnm::Source::open(file, buffer, limits, budget)?;
    let unit = rows_together(in_gray(source.layout(), target.gray), Format::Pnm, target);
    let bands = if place.is_none() { source.bands(unit, cut) } else { None };
    let source = match place.or_else(|| bands.map(|bands| bands.place(0))) {
        Some(place) => source.narrow(place),
        None => source,
    };
    let pages = bands.map(|bands| pages::Source::Bands(Bands::Pnm(bands)));
    Ok(Header { pages, ..Header::of(source) })
}

/// Opens a picture with a decoder that needs the whole file in memory.
///
/// Some files are mended first.
fn open_whole<'a>(
    format: Format,
    bytes: &'a mut [u8],
    limits: &Limits,
    target: &Target,
) -> Result<PictureSource<'a>, CodecError> {
    match format {
        Format::Png => png::Source::open(bytes).map(PictureSource::of),
        Format::Jpeg => {
            jpeg::complete_frame(bytes);
            jpeg::open(bytes, target).map(|opened| match opened {
                jpeg::Opened::Usual(jpeg) => PictureSource::Jpeg(jpeg),
                jpeg::Opened::Other(jpeg) => PictureSource::Other(jpeg),
            })
        }
        Format::Bmp => {
            bmp::forget_empty_alpha(bytes);
            bmp::Source::open(bytes).map(PictureSource::of)
        }
        Format::WebP => webp::Source::open(bytes).map(PictureSource::of),
        Format::Gif => gif::Source::open(bytes).map(PictureSource::of),
        Format::JpegXl => jxl::open(bytes, limits).map(PictureSource::Other),
        Format::Jpeg2000 => jpeg2000::open(bytes, limits).map(PictureSource::Other),
        Format::Pnm | Format::Tiff | Format::Dicom | Format::Zarr => unreachable!("read in parts"),
    }
}

/// Returns the format of a file that begins with `head`.
fn format_of(head: &[u8]) -> Result<Format, CodecError> {
    Format::sniff(head).ok_or_else(|| match format::foreign(head).or_else(|| foreign::by_content(head)) {
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
        let told = match cfg!(feature = "zarr") {
            true => CodecError::NotAPicture.to_string(),
            false => "OME-Zarr is left out of this build; build histeqd with --features zarr".to_owned(),
        };
        assert_eq!(error.to_string(), told);
    }

    #[test]
    fn a_format_that_is_left_out_is_refused_by_its_name_and_that_of_its_feature() {
        let dicom = [&[0; 128][..], b"DICM"].concat();
        for (content, is_built, told) in [
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
            assert_eq!(error.to_string() == told, !is_built, "{error}");
            assert_eq!(error.may_be_incomplete(), is_built, "{error}");
        }
    }
}
