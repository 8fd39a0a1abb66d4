//! The pages of a file, or the bands of its pictures, and how they are written: knows no format.

use std::any::Any;
use std::fmt::Debug;
use std::fs::File;

use super::bands::BandRows;
use super::volumes::{NoVolumes, Volumes};
use crate::coding::streams::Help;
use crate::io::image_store::MediumRef;
use crate::{CodecError, Decoded, Format, Target};

/// The pages of a file that has several, or the bands of its pictures.
pub(crate) trait PageSource: Debug + Send + Sync {
    /// Returns the number of pages or bands.
    fn count(&self) -> usize;

    /// Returns the place of a page or band.
    fn place_of(&self, index: usize) -> Place;

    /// Returns the number of pictures: of pages, unless they are bands.
    fn pictures(&self) -> usize {
        self.count()
    }

    /// Returns how each picture is cut, if they are bands.
    fn bands(&self) -> Option<BandRows> {
        None
    }

    /// Returns whether people know their pictures by numbers.
    fn are_numbered(&self) -> bool {
        true
    }

    /// Returns the volumes that the pages are slices of.
    fn volumes(&self) -> Result<Volumes, NoVolumes> {
        Err(NoVolumes::Flat)
    }

    /// Returns the number of a page's channel; `None` if it is not known.
    fn channel(&self, _index: usize) -> Option<usize> {
        Some(0)
    }

    /// Returns the channel of a page that is one of several samples.
    fn sample_channel(&self, _index: usize) -> Option<u16> {
        None
    }

    /// Returns whether equal levels of pages of one channel may have different meanings.
    fn differ_in_meaning(&self) -> bool {
        false
    }

    /// Returns the command that makes single pictures of the pages, if it is of their format alone.
    fn split_remedy(&self) -> Option<&'static str> {
        None
    }

    /// Returns a writer of the pages in a format that keeps more of them than their pixels.
    fn own_sink(&self, _output: Format) -> Option<Box<dyn PageSink>> {
        None
    }
}

/// Writes the pages of one file, in any order, from several threads at once.
pub(crate) trait PageSink: Debug + Send + Sync {
    /// Announces that the next page, in their order, has been opened.
    ///
    /// `bytes` is the length of its samples in the output if that is known. It is of use only where
    /// the places of pages depend on those before.
    fn announce(&self, _bytes: Option<u64>) {}

    /// Returns the number of samples of a page that an earlier process has written into `out`.
    fn kept(&self, _index: usize, _out: &File) -> Result<Option<u64>, CodecError> {
        Ok(None)
    }

    /// Writes a page that has been announced.
    ///
    /// Returns the bytes of the file once it is complete.
    fn write(
        &self,
        index: usize,
        decoded: &Decoded,
        slot: &mut [u8],
        to: PageOutput<'_>,
    ) -> Result<Option<u64>, CodecError>;
}

/// The output of a page, with the settings of its encoder.
#[derive(Clone, Copy)]
pub struct PageOutput<'o> {
    /// The format and its settings.
    pub target: &'o Target,
    /// Idle cores, and a device for streams.
    pub help: Help<'o>,
    /// The output, which this writer alone writes to: a file, empty at first, or an image that is
    /// empty or holds pages that were [kept](crate::opened::pages::PageWriter::kept).
    pub out: MediumRef<'o>,
    /// A file for pages until those before them are written, empty at first.
    pub spill: &'o File,
}

impl<'o> PageOutput<'o> {
    /// Returns the output, which is a file.
    pub(crate) fn file(&self, decoded: &Decoded) -> Result<&'o File, CodecError> {
        match self.out {
            MediumRef::File(file) => Ok(file),
            MediumRef::Image(_) => {
                let format = self.target.format_for(decoded.format);
                Err(CodecError::encoder(format, "its pages go into a file"))
            }
        }
    }
}

/// The place of a page in its file, which only its format knows.
#[derive(Debug)]
pub(crate) struct Place(Box<dyn Any>);

impl Place {
    pub(crate) fn new(place: impl Any) -> Self {
        Self(Box::new(place))
    }

    /// Returns the place as the format knows it; `None` if it is one of another format.
    pub(crate) fn into<T: Any>(self) -> Option<T> {
        self.0.downcast().ok().map(|place| *place)
    }
}
