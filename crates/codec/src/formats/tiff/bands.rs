//! Bands of a TIFF's pictures that are too large to be in memory as a whole.
//!
//! Each is read in bands of rows, which are written like the pages of a stack, but make one picture
//! again. If there are several, all are cut in the same way.

use std::sync::Arc;

use crate::formats::tiff::cut::CutShape;
use crate::formats::tiff::describe::dimensions::Order;
use crate::formats::tiff::pyramid::Pyramid;
use crate::formats::tiff::read::channels::Channels;
use crate::formats::tiff::read::header::Header;
use crate::formats::tiff::read::pages;
use crate::formats::tiff::read::values::FirstPage;
use crate::formats::tiff::stack::{Part, Place};
use crate::formats::tiff::write::writer::Writer;
use crate::io::reader::Reader;
use crate::parts::bands::{BandRows, Cut};
use crate::parts::pages::{PageSink, PageSource};
use crate::samples::mapped::SharedSpread;
use crate::samples::size::Size;
use crate::{CodecError, Format};

/// The bands of the pictures of a file, of each from top to bottom.
#[derive(Debug)]
pub(crate) struct Bands {
    pictures: Vec<Picture>,
    /// The channels of the pictures, if there are several.
    order: Option<Order>,
    first_page: FirstPage,
    big: bool,
    shape: CutShape,
    /// The cut of each picture.
    pub(crate) rows: BandRows,
    pyramid: Pyramid,
}

/// A picture that is cut.
#[derive(Debug)]
struct Picture {
    /// The offset of its directory.
    directory: u64,
    /// The spread of levels over all of its bands, if samples are not levels.
    spread: Arc<SharedSpread>,
}

impl Bands {
    /// Returns the bands of pictures like this one, with directories at these offsets.
    ///
    /// `None` unless it is large enough and can be cut.
    ///
    /// A compressed strip or tile is decoded as a whole.
    pub(super) fn of(
        header: &Header,
        pyramid: &Pyramid,
        directories: &[u64],
        order: Option<Order>,
        first_page: FirstPage,
        cut: Cut,
    ) -> Option<Self> {
        let kept = header.mapped().map_or(0, |form| form.kept_bytes(header.layout.pixels()));
        let bytes = header.layout.bytes().saturating_add(header.other_bytes()).saturating_add(kept);
        if header.is_one_stream {
            return None;
        }
        let shape = CutShape::of(header);
        let rows = cut.rows(Size { width: shape.width, height: shape.height }, bytes, shape.together)?;
        let pictures =
            directories.iter().map(|&directory| Picture { directory, spread: Arc::default() }).collect();
        let (pyramid, big) = (pyramid.clone(), header.form.big);
        Some(Self { pictures, order, first_page, big, shape, rows, pyramid })
    }

    /// Returns whether all pictures are like the first, with this header, and can be cut like it.
    pub(super) fn are_alike(
        &self,
        file: &mut Reader<'_>,
        header: &Header,
        no_data: Option<f64>,
    ) -> Result<bool, CodecError> {
        for picture in self.pictures.iter().skip(1) {
            let directory = pages::directory_of_other(file, header.form, picture.directory)?;
            let Some(directory) = directory else { return Ok(false) };
            let own = Header::new(&directory, header.form, &self.first_page, 0, no_data);
            let is_alike = |own: Header| {
                let is_whole = own.is_one_stream == header.is_one_stream;
                let are_alike = own.has_samples_of(header) && own.stated == header.stated;
                is_whole && are_alike && CutShape::of(&own) == self.shape
            };
            if !own.is_ok_and(is_alike) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the place of a band.
    pub(super) fn place(&self, index: usize) -> Place {
        let (picture, band) = (&self.pictures[index / self.rows.count()], index % self.rows.count());
        let (first, count) = (self.rows.first_row(band), self.rows.rows(band));
        let part = Part::Rows { shape: self.shape, first, count, spread: Arc::clone(&picture.spread) };
        let (directory, first_page) = (picture.directory, self.first_page);
        Place { directory, part, channel: 0, channels: Channels::ONE, first_page }
    }
}

impl PageSource for Bands {
    fn count(&self) -> usize {
        self.pictures.len() * self.rows.count()
    }

    fn place_of(&self, index: usize) -> crate::parts::pages::Place {
        crate::parts::pages::Place::new(self.place(index))
    }

    fn pictures(&self) -> usize {
        self.pictures.len()
    }

    fn bands(&self) -> Option<BandRows> {
        Some(self.rows)
    }

    fn are_numbered(&self) -> bool {
        self.pictures.len() > 1
    }

    fn channel(&self, index: usize) -> Option<usize> {
        let picture = index / self.rows.count();
        self.order.as_ref().map_or(Some(0), |order| order.channel(picture).map(|channel| channel as usize))
    }

    fn own_sink(&self, output: Format) -> Option<Box<dyn PageSink>> {
        let writer = || Writer::of_bands(self.rows, self.pictures.len(), &self.pyramid, self.big);
        (output == Format::Tiff).then(|| Box::new(writer()) as Box<dyn PageSink>)
    }
}
