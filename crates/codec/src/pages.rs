//! The pages of a file, or the bands of pictures that are too large to be in memory as a whole.
//!
//! Pages are those of a microscope's stack, a scanned document, or the frames of a scan.

use std::collections::HashSet;
use std::fs::File;

use super::bands::BandRows;
use super::foreign::{SPLIT, SPLIT_DICOM};
use super::guard::guard;
use super::image_store::MediumRef;
use super::volumes::{NoVolumes, Volumes};
use super::{CodecError, Decoded, Format, Help, Target, bmp, dicom, png, pnm, tiff, zarr};

/// The pages of a file that has several, or the bands of its only picture or of each page.
///
/// Pages are in the order in which they are written, bands from top to bottom.
#[derive(Debug)]
pub struct Pages {
    source: Source,
    /// The format of the output.
    output: Format,
}

/// The pages of a file, in each format that has pages.
#[derive(Debug)]
pub(super) enum Source {
    Tiff(Box<tiff::Stack>),
    Dicom(dicom::Frames),
    Zarr(zarr::Stack),
    Bands(Bands),
}

/// The bands of pictures, in each format that has bands.
#[derive(Debug)]
pub(super) enum Bands {
    Tiff(Box<tiff::Bands>),
    Pnm(pnm::Bands),
    Png(png::Bands),
    Bmp(bmp::Bands),
}

impl Bands {
    /// Returns how many pictures are cut.
    fn pictures(&self) -> usize {
        match self {
            Self::Tiff(bands) => bands.pictures(),
            Self::Pnm(_) | Self::Png(_) | Self::Bmp(_) => 1,
        }
    }

    fn rows(&self) -> BandRows {
        match self {
            Self::Tiff(bands) => bands.rows,
            Self::Pnm(bands) => bands.rows,
            Self::Png(bands) => bands.rows,
            Self::Bmp(bands) => bands.rows,
        }
    }

    fn place(&self, index: usize) -> Place {
        match self {
            Self::Tiff(bands) => Place::Tiff(bands.place(index)),
            Self::Pnm(bands) => Place::Pnm(bands.place(index)),
            Self::Png(bands) => Place::Png(bands.place(index)),
            Self::Bmp(bands) => Place::Bmp(bands.place(index)),
        }
    }

    /// Returns the writer that makes pictures of them in a format that is written in bands.
    fn writer(&self, output: Format) -> Writer {
        let rows = self.rows();
        match (output, self) {
            (Format::Pnm, _) => Writer::Pnm(pnm::Writer::new(rows)),
            (Format::Png, _) => Writer::Png(png::Writer::new(rows)),
            (Format::Bmp, _) => Writer::Bmp(bmp::Writer::new(rows)),
            (_, Self::Tiff(bands)) => Writer::Tiff(bands.writer()),
            _ => Writer::Tiff(tiff::Writer::of_plain_bands(rows)),
        }
    }
}

/// The place of a page in a file, in each format.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Tiff(tiff::Place),
    Pnm(pnm::Place),
    Png(png::Place),
    Bmp(bmp::Place),
    Dicom(dicom::Place),
    Zarr(zarr::Place),
}

impl Pages {
    /// Returns the pages, after a check of the output format.
    ///
    /// Its files must have pages, or may each be one of them if the target splits them.
    pub(super) fn new(
        source: Source,
        format: Format,
        output: Format,
        splits: bool,
    ) -> Result<Self, CodecError> {
        let pages = Self { source, output };
        if splits && output == Format::Dicom {
            let what = "a single frame with the description of all frames";
            return Err(CodecError::cannot_represent(output, what, "use --format png, jpeg or tiff"));
        }
        if format == Format::Zarr && (splits || output != Format::Zarr) {
            let what = "an image of several resolutions that is a folder";
            return Err(CodecError::cannot_represent(output, what, "leave --format and --frames out for it"));
        }
        if splits || output.has_pages() || pages.are_bands() && pages.pictures() == 1 {
            return Ok(pages);
        }
        let remedy = match &pages.source {
            Source::Tiff(_) | Source::Zarr(_) | Source::Bands(_) => SPLIT,
            Source::Dicom(_) => SPLIT_DICOM,
        };
        Err(CodecError::cannot_represent(
            output,
            format!("the {} pages of a {format}", pages.pictures()),
            format!(
                "write each into a file of its own (--frames split) or all as TIFF (--format tiff), or {remedy}"
            ),
        ))
    }

    /// Returns the number of pages: at least two, or one for an image that is a folder.
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        match &self.source {
            Source::Tiff(stack) => stack.count(),
            Source::Dicom(frames) => frames.count(),
            Source::Zarr(stack) => stack.count(),
            Source::Bands(bands) => bands.pictures() * bands.rows().count(),
        }
    }

    /// Returns the number of pictures: of pages, unless they are bands.
    pub fn pictures(&self) -> usize {
        if let Source::Bands(bands) = &self.source { bands.pictures() } else { self.len() }
    }

    /// Returns the number of the picture that a page or band is or belongs to.
    pub fn picture_of(&self, index: usize) -> usize {
        index * self.pictures() / self.len()
    }

    /// Returns the number of a band among those of its picture; 0 for a page.
    pub fn band_of(&self, index: usize) -> usize {
        index % (self.len() / self.pictures())
    }

    /// Returns whether they are bands.
    pub fn are_bands(&self) -> bool {
        self.height_of_bands().is_some()
    }

    /// Returns whether people know their pictures by numbers.
    ///
    /// They do not if the file has one picture, or if an image in chunks was cut into blocks.
    pub fn are_numbered(&self) -> bool {
        match &self.source {
            Source::Tiff(_) | Source::Dicom(_) => true,
            Source::Zarr(_) => false,
            Source::Bands(bands) => bands.pictures() > 1,
        }
    }

    /// Returns how each picture is cut, if they are bands.
    fn bands(&self) -> Option<BandRows> {
        if let Source::Bands(bands) = &self.source { Some(bands.rows()) } else { None }
    }

    /// Returns how many rows each picture has, if they are bands.
    pub fn height_of_bands(&self) -> Option<u32> {
        self.bands().map(|bands| bands.height())
    }

    /// Returns the rows of all bands but the last, if `most` bytes of pixels need no bands.
    ///
    /// `None` if no picture would need bands then, or if these are not bands.
    pub fn rows_of_bands(&self, most: u64) -> Option<u32> {
        Some(self.bands()?.within(most)?.rows(0))
    }

    /// Returns the number of the first row of a band in its picture; 0 for a page.
    pub fn first_row(&self, index: usize) -> u32 {
        self.bands().map_or(0, |bands| bands.first_row(self.band_of(index)))
    }

    /// Returns the volumes that the pages are slices of: one for each channel and time.
    ///
    /// Channels and times are known as far as the file describes them.
    ///
    /// # Errors
    /// If it does not describe each page, if slices are missing, or if there are no volumes.
    pub fn volumes(&self) -> Result<Volumes, NoVolumes> {
        match &self.source {
            Source::Tiff(stack) => stack.volumes(),
            Source::Dicom(frames) => frames.volumes(),
            Source::Zarr(stack) => stack.volumes(),
            Source::Bands(_) => Err(NoVolumes::Flat),
        }
    }

    /// Returns a writer of the pages into one file.
    pub fn writer(&self) -> PageWriter {
        let writer = match (&self.source, self.output) {
            (Source::Dicom(frames), Format::Dicom) => Writer::Dicom(frames.writer()),
            (Source::Dicom(_), _) => Writer::Tiff(tiff::Writer::new(self.len())),
            (Source::Tiff(stack), _) => Writer::Tiff(stack.writer()),
            (Source::Zarr(stack), _) => Writer::Zarr(stack.writer()),
            (Source::Bands(bands), output) => bands.writer(output),
        };
        PageWriter { writer }
    }

    /// Returns the channel of a page that is one of several samples, as of a satellite's scene.
    pub fn sample_channel(&self, index: usize) -> Option<u16> {
        if let Source::Tiff(stack) = &self.source { stack.sample_channel(index) } else { None }
    }

    /// Returns whether several pages are of one known channel, with the same meaning of levels.
    ///
    /// Frames of a DICOM may each be rescaled in another way.
    pub fn share_channels(&self) -> bool {
        let channels: Option<HashSet<_>> = (0..self.len()).map(|page| self.channel(page)).collect();
        let may_differ = matches!(self.source, Source::Dicom(_));
        !may_differ && channels.is_some_and(|channels| channels.len() < self.pictures())
    }

    /// Returns the number of a page's channel, by the file's description.
    ///
    /// `None` if that has several channels, but none for this page. Channels may be pages of their
    /// own, or samples of a page that are not colours.
    pub fn channel(&self, index: usize) -> Option<usize> {
        match &self.source {
            Source::Tiff(stack) => stack.channel(index),
            Source::Bands(Bands::Tiff(bands)) => bands.channel(index),
            Source::Dicom(_) | Source::Bands(_) => Some(0),
            Source::Zarr(stack) => Some(stack.channel(index)),
        }
    }

    pub(super) fn place(&self, index: usize) -> Place {
        match &self.source {
            Source::Tiff(stack) => Place::Tiff(stack.place(index)),
            Source::Dicom(frames) => Place::Dicom(frames.place(index)),
            Source::Zarr(stack) => Place::Zarr(stack.place(index)),
            Source::Bands(bands) => bands.place(index),
        }
    }
}

/// Writes the pages of one file. They may come in any order, from several threads at once.
#[derive(Debug)]
pub struct PageWriter {
    writer: Writer,
}

#[derive(Debug)]
enum Writer {
    Tiff(tiff::Writer),
    Pnm(pnm::Writer),
    Png(png::Writer),
    Bmp(bmp::Writer),
    Dicom(dicom::Writer),
    Zarr(zarr::Writer),
}

impl PageWriter {
    /// Announces that the next page, in their order, has been opened.
    ///
    /// `bytes` is the length of its samples in the output if that is known
    /// ([`Opened::stored_page_bytes`](super::Opened::stored_page_bytes)).
    pub fn announce(&self, bytes: Option<u64>) {
        match &self.writer {
            Writer::Tiff(writer) => writer.announce(bytes),
            // All frames are of one length, rows have their places or wait for the rows above, and
            // chunks are files of their own.
            Writer::Dicom(_) | Writer::Pnm(_) | Writer::Png(_) | Writer::Bmp(_) | Writer::Zarr(_) => {}
        }
    }

    /// Returns the number of samples of page `index` if it is in `out` already.
    ///
    /// An image that is a folder may be gone on with after the process that wrote it was killed.
    /// Such a page is not to be written. The folder's content must be of the same pages with the
    /// same samples.
    ///
    /// # Errors
    /// When the folder cannot be read or written to.
    pub fn kept(&self, index: usize, out: &File) -> Result<Option<u64>, CodecError> {
        match &self.writer {
            Writer::Zarr(writer) => writer.kept(index, out),
            _ => Ok(None),
        }
    }

    /// Encodes page `index`, which has been announced and is in the slot, and writes it to `out`.
    ///
    /// It goes to `spill` until the pages before it are written. Both are files of this writer
    /// alone, empty at first; for an image that is a folder, `out` is a folder that is empty or
    /// holds pages that were [kept](Self::kept), or another store. Returns the bytes of the file,
    /// or of the output written to the image, once all pages are in it. The encoder works in the
    /// slot, and its contents are lost. Idle cores may `help`, or cores and a device for streams.
    ///
    /// # Errors
    /// As for [`encode`](super::encode).
    pub fn write<'h, 'm>(
        &self,
        index: usize,
        decoded: &Decoded,
        slot: &mut [u8],
        target: &Target,
        help: impl Into<Help<'h>>,
        (out, spill): (impl Into<MediumRef<'m>>, &File),
    ) -> Result<Option<u64>, CodecError> {
        let out = out.into();
        let (format, help) = (target.format_for(decoded.format), help.into());
        let cores = help.cores;
        format.check(&decoded.layout)?;
        guard(
            format,
            |reason| CodecError::encoder(format, reason),
            || match (&self.writer, out) {
                (Writer::Zarr(writer), out) => writer.write(index, decoded, slot, cores, (out, spill)),
                (_, MediumRef::Image(_)) => Err(CodecError::encoder(format, "its pages go into a file")),
                (Writer::Tiff(writer), MediumRef::File(out)) => {
                    writer.write(index, decoded, slot, help, out, spill)
                }
                (Writer::Pnm(writer), MediumRef::File(out)) => writer.write(index, decoded, slot, out),
                (Writer::Png(writer), MediumRef::File(out)) => {
                    writer.write(index, (decoded, slot), (target.png_level, cores), (out, spill))
                }
                (Writer::Bmp(writer), MediumRef::File(out)) => writer.write(index, decoded, slot, out),
                (Writer::Dicom(writer), MediumRef::File(out)) => {
                    writer.write(index, decoded, slot, target, cores, out)
                }
            },
        )
    }
}
