//! The pages of a file, or the bands of pictures that are too large to be in memory as a whole.
//!
//! Pages are those of a microscope's stack, a scanned document, or the frames of a scan.

use std::collections::HashSet;
use std::fs::File;

use crate::formats::foreign::SPLIT;
use crate::formats::sink_of_pages;
use crate::parts::bands::BandRows;
use crate::parts::pages::{PageOutput, PageSink, PageSource, Place};
use crate::parts::volumes::{NoVolumes, Volumes};
use crate::picture::guard::guard;
use crate::{CodecError, Decoded, Format};

/// The pages of a file that has several, or the bands of its only picture or of each page.
///
/// Pages are in the order in which they are written, bands from top to bottom.
#[derive(Debug)]
pub struct Pages {
    source: Box<dyn PageSource>,
    /// The format of the output.
    output: Format,
}

impl Pages {
    /// Returns the pages, after a check of the output format.
    ///
    /// Its files must have pages, or may each be one of them if the target splits them.
    pub(crate) fn new(
        source: Box<dyn PageSource>,
        format: Format,
        output: Format,
        splits: bool,
    ) -> Result<Self, CodecError> {
        let pages = Self { source, output };
        if let Some([what, remedy]) = output.only_of_all_pages().filter(|_| splits) {
            return Err(CodecError::cannot_represent(output, what, remedy));
        }
        if format.is_folder() && (splits || !output.is_folder()) {
            let what = "an image of several resolutions that is a folder";
            return Err(CodecError::cannot_represent(output, what, "leave --format and --frames out for it"));
        }
        if splits || output.has_pages() || pages.are_bands() && pages.pictures() == 1 {
            return Ok(pages);
        }
        let remedy = pages.source.split_remedy().unwrap_or(SPLIT);
        let last = pages.len() - 1;
        let are_channels = pages.sample_channel(last).map(usize::from) == Some(last);
        let noun = if are_channels { "channels (bands)" } else { "pages" };
        Err(CodecError::cannot_represent(
            output,
            format!("the {} {noun} of a {format}", pages.pictures()),
            format!(
                "write each into a file of its own (--frames split) or all as TIFF (--format tiff), or {remedy}"
            ),
        ))
    }

    /// Returns the number of pages: at least two, or one for an image that is a folder.
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.source.count()
    }

    /// Returns the number of pictures: of pages, unless they are bands.
    pub fn pictures(&self) -> usize {
        self.source.pictures()
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
        self.source.are_numbered()
    }

    /// Returns how each picture is cut, if they are bands.
    fn bands(&self) -> Option<BandRows> {
        self.source.bands()
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
        self.source.volumes()
    }

    /// Returns a writer of the pages into one file.
    pub fn writer(&self) -> PageWriter {
        let sink = self.source.own_sink(self.output).unwrap_or_else(|| match self.bands() {
            Some(rows) => self.output.sink_of_bands(rows),
            None => sink_of_pages(self.len()),
        });
        PageWriter { sink }
    }

    /// Returns the channel of a page that is one of several samples, as of a satellite's scene.
    pub fn sample_channel(&self, index: usize) -> Option<u16> {
        self.source.sample_channel(index)
    }

    /// Returns whether several pages are of one known channel, with the same meaning of levels.
    ///
    /// Frames of a DICOM may each be rescaled in another way.
    pub fn share_channels(&self) -> bool {
        let channels: Option<HashSet<_>> = (0..self.len()).map(|page| self.channel(page)).collect();
        !self.source.differ_in_meaning() && channels.is_some_and(|channels| channels.len() < self.pictures())
    }

    /// Returns the number of a page's channel, by the file's description.
    ///
    /// `None` if that has several channels, but none for this page. Channels may be pages of their
    /// own, or samples of a page that are not colours.
    pub fn channel(&self, index: usize) -> Option<usize> {
        self.source.channel(index)
    }

    /// Returns the page `index`, from 0, for [`open_page`](crate::opened::open_page).
    pub fn page(&self, index: usize) -> PageRef<'_> {
        PageRef { pages: self, index }
    }
}

/// One of the pages of a file.
#[derive(Clone, Copy, Debug)]
pub struct PageRef<'p> {
    /// The pages of the file.
    pub pages: &'p Pages,
    /// Its number among them, from 0.
    pub index: usize,
}

impl PageRef<'_> {
    pub(crate) fn place(&self) -> Place {
        self.pages.source.place_of(self.index)
    }
}

/// Writes the pages of one file. They may come in any order, from several threads at once.
#[derive(Debug)]
pub struct PageWriter {
    sink: Box<dyn PageSink>,
}

impl PageWriter {
    /// Announces that the next page, in their order, has been opened.
    ///
    /// `bytes` is the length of its samples in the output if that is known
    /// ([`Opened::stored_page_bytes`](crate::Opened::stored_page_bytes)).
    pub fn announce(&self, bytes: Option<u64>) {
        self.sink.announce(bytes);
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
        self.sink.kept(index, out)
    }

    /// Encodes page `index`, which has been announced and is in the slot, and writes it.
    ///
    /// Returns the bytes of the file, or of the output written to the image, once all pages are in
    /// it. The encoder works in the slot, and its contents are lost.
    ///
    /// # Errors
    /// As for [`encode`](crate::encode).
    pub fn write(
        &self,
        index: usize,
        decoded: &Decoded,
        slot: &mut [u8],
        to: PageOutput<'_>,
    ) -> Result<Option<u64>, CodecError> {
        let format = to.target.format_for(decoded.format);
        format.check(&decoded.layout)?;
        guard(
            format,
            |reason| CodecError::encoder(format, reason),
            || self.sink.write(index, decoded, slot, to),
        )
    }
}
