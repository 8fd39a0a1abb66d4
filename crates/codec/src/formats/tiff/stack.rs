//! Files of several pages, and the places of these.
//!
//! Channels that are not colours are pages too, whether they lie in planes or are interleaved.
//!
//! ImageJ and tifffile store large stacks with a directory for the first page alone: the others lie
//! after it, and the description has their number. They are written back the same way, with the
//! directory before the pages, because it has to lie within 4 GiB.

use std::sync::Arc;

use crate::formats::foreign::{CHANNELS, EACH_CHANNEL};
use crate::formats::tiff::compression::method::Method;
use crate::formats::tiff::cut::CutShape;
use crate::formats::tiff::describe::dimensions::{Coordinates, Order};
use crate::formats::tiff::describe::{arrangement, imagej};
use crate::formats::tiff::outside::Outside;
use crate::formats::tiff::pyramid::DESCRIBED;
use crate::formats::tiff::read::channels::Channels;
use crate::formats::tiff::read::header::Header;
use crate::formats::tiff::read::pages;
use crate::formats::tiff::read::pages::Pictures;
use crate::formats::tiff::read::planes::Planes;
use crate::formats::tiff::read::values::FirstPage;
use crate::formats::tiff::write::writer::Writer;
use crate::formats::tiff::{Parts, malformed, tags};
use crate::io::reader::Reader;
use crate::metadata::ifd::{self, Directory, Form, Value};
use crate::parts::pages::{PageSink, PageSource};
use crate::parts::volumes::{NoVolumes, Volumes};
use crate::samples::mapped::SharedSpread;
use crate::{CodecError, Format};

/// The place of a page.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(super) directory: u64,
    pub(super) part: Part,
    /// The number of its channel among those of the directory.
    pub(super) channel: usize,
    pub(super) channels: Channels,
    pub(super) first_page: FirstPage,
}

/// Which part of a directory's pixel data this page is.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// The page.
    Page,
    /// A page of a joined stack: the number of pages before it. Only the first has a directory.
    Behind(u64),
    /// Some rows of the page of this shape; the spread of levels over all rows is found once.
    Rows { shape: CutShape, first: u32, count: u32, spread: Arc<SharedSpread> },
}

impl Place {
    /// Returns whether it is a page of a joined stack, where only the first has a directory.
    pub(super) const fn is_joined(&self) -> bool {
        matches!(self.part, Part::Behind(_))
    }

    /// Returns whether it is a page with a directory of its own.
    pub(super) const fn is_page(&self) -> bool {
        matches!(self.part, Part::Page)
    }

    /// Refuses a page with other channels than the first one, or another shape than its bands'.
    ///
    /// The channels of the first page decide on the number of pages.
    pub(super) fn check(&self, header: &Header) -> Result<(), CodecError> {
        if let Part::Rows { shape, .. } = &self.part
            && *shape != CutShape::of(header)
        {
            return Err(malformed("a page has another shape than when the file was opened"));
        }
        if header.channels == self.channels {
            return Ok(());
        }
        Err(CodecError::unsupported(
            "a TIFF whose pages differ in their channels besides colours",
            EACH_CHANNEL,
        ))
    }

    /// Restricts a directory and its header to this place.
    pub(super) fn narrow(&self, directory: &mut Directory, header: &mut Header) {
        match self.part {
            Part::Page => {}
            Part::Behind(pages) => {
                let start =
                    directory.numbers(tags::STRIP_OFFSETS).and_then(|offsets| offsets.get(0)).unwrap_or(0);
                let bytes = page_bytes(header);
                join_strips(directory, header, start.saturating_add(pages.saturating_mul(bytes)));
            }
            Part::Rows { first, count, .. } => header.narrow(first, count),
        }
    }

    /// Returns the spread of levels over the page, if this is some rows of it.
    pub(super) fn spread(&self) -> Option<Arc<SharedSpread>> {
        if let Part::Rows { spread, .. } = &self.part { Some(Arc::clone(spread)) } else { None }
    }
}

/// The pages of a file.
#[derive(Debug)]
pub(crate) struct Stack {
    /// The offsets of their directories.
    directories: Vec<u64>,
    /// The number of pages that share the only directory; 1 if each has its own.
    joined: u64,
    /// The channels of each directory that are not colours.
    channels: Channels,
    /// The places of the pages, by the first directory.
    order: Order,
    /// The metadata outside of directories.
    outside: Option<Outside>,
    /// The pages of the file that have one place in the order, each a channel: the samples of a
    /// page, unless these are slices or times.
    samples: usize,
    big: bool,
    /// The bytes of the first directory.
    directory_bytes: u64,
    first_page: FirstPage,
    /// Bytes of room for all directories, if these lie before all pixels (COG).
    room: Option<u64>,
}

impl Stack {
    /// Returns the pages of a file of these pictures, if there are several.
    ///
    /// `directory` is that of the first.
    pub(super) fn new(
        file: &Reader<'_>,
        header: &Header,
        first_page: FirstPage,
        directory: &mut Directory,
        Pictures { places, numbers, .. }: Pictures,
    ) -> Result<Option<Self>, CodecError> {
        let channels = header.channels;
        let are_pages = first_page.planes(directory, channels.count) == Some(Planes::Pages);
        let stated = if places.len() == 1 { stated_pictures(directory, are_pages) } else { 1 };
        if stated > 1 && channels != Channels::ONE {
            let what = format!("a TIFF of {stated} pictures of {} channels in one page", channels.count);
            return Err(CodecError::unsupported(what, EACH_CHANNEL));
        }
        let joined = if stated > 1 { joined_pages(file, header, directory, places[0], stated)? } else { 1 };
        if joined > 1 {
            let start =
                directory.numbers(tags::STRIP_OFFSETS).and_then(|offsets| offsets.get(0)).unwrap_or(0);
            join_strips(directory, header, start);
        }
        let big = header.form.big;
        let directory_bytes = ifd::written_bytes(&directory.borrowed(), Form::written(big));
        let description = directory.bytes(tags::DESCRIPTION).unwrap_or_default();
        let pages = (places.len() as u64).saturating_mul(joined);
        pages::check_count(pages.saturating_mul(channels.count as u64))?;
        if pages == 1 && channels == Channels::ONE {
            return Ok(None);
        }
        let samples = if are_pages { 1 } else { channels.count };
        let planes = (channels.count / samples) as u64;
        let numbers: Vec<usize> = numbers
            .into_iter()
            .flat_map(|number| (0..planes as usize).map(move |plane| number * planes as usize + plane))
            .collect();
        let order = Order::new(description, &numbers, pages * planes, samples);
        Ok(Some(Self {
            directories: places,
            joined,
            channels,
            order,
            outside: None,
            samples,
            big,
            directory_bytes,
            first_page,
            room: None,
        }))
    }

    /// Returns the pages with metadata outside of directories, which are written too.
    pub(super) fn with_outside(self, outside: Option<Outside>) -> Self {
        Self { outside: outside.filter(|_| !self.is_joined()), ..self }
    }

    /// Keeps a single picture of several channels behind its directories, which take so much room.
    pub(super) fn keep_behind(&mut self, room: Option<u64>) {
        self.room = room.filter(|_| self.directories.len() == 1 && self.joined == 1);
    }

    /// Returns whether the stack is joined: only the first page has a directory.
    pub(super) const fn is_joined(&self) -> bool {
        self.joined > 1
    }

    /// Returns the place of a page.
    fn place(&self, index: usize) -> Place {
        let channels = self.channels;
        let (page, channel) = (index / channels.count, index % channels.count);
        let (directory, part) = match self.joined {
            ..=1 => (self.directories[page], Part::Page),
            _ => (self.directories[0], Part::Behind(page as u64)),
        };
        Place { directory, part, channel, channels, first_page: self.first_page }
    }

    /// Returns the offsets of the pages' directories, and their channels, if bands are possible.
    pub(super) fn directories(&self) -> Option<(&[u64], Option<Order>)> {
        let may_be_cut = self.joined == 1 && self.channels == Channels::ONE;
        may_be_cut.then(|| (&*self.directories, Some(self.order.clone())))
    }
}

impl PageSource for Stack {
    fn count(&self) -> usize {
        self.directories.len() * self.joined as usize * self.channels.count
    }

    fn channel(&self, index: usize) -> Option<usize> {
        let count = self.samples;
        let of_directory = self.order.channel(index / count)? as usize;
        Some(of_directory * count + index % count)
    }

    fn sample_channel(&self, index: usize) -> Option<u16> {
        let count = self.samples;
        (count > 1).then(|| u16::try_from(index % count).ok()).flatten()
    }

    /// Programs that split pages leave the samples of each together.
    fn split_remedy(&self) -> Option<&'static str> {
        (self.samples > 1).then_some(CHANNELS)
    }

    fn volumes(&self) -> Result<Volumes, NoVolumes> {
        let count = self.samples;
        let pages = (0..self.count()).map(|page| Some((self.order.coordinates(page / count)?, page % count)));
        let pages: Vec<_> = pages.collect::<Option<_>>().ok_or(NoVolumes::Untold)?;
        let volumes =
            Volumes::new(pages.iter().map(|(stated, channel)| ((stated.volume, channel), stated.slice)))?;
        let is_at_place = |(page, (stated, _)): (usize, &(Coordinates, usize))| {
            volumes.slice(page).index as u64 == stated.slice
        };
        if pages.iter().enumerate().all(is_at_place) { Ok(volumes) } else { Err(NoVolumes::Incomplete) }
    }

    fn place_of(&self, index: usize) -> crate::parts::pages::Place {
        crate::parts::pages::Place::new(self.place(index))
    }

    fn own_sink(&self, _: Format) -> Option<Box<dyn PageSink>> {
        if let Some(room) = self.room {
            return Some(Box::new(Writer::of_cog(self.channels, room, self.big)));
        }
        let joined = (self.joined > 1).then_some(self.directory_bytes + DESCRIBED);
        let writer = Writer::of_pages(self.count(), self.channels, joined, self.big);
        Some(Box::new(writer.with_outside(self.outside.clone())))
    }
}

/// Returns the number of pages of a joined stack; 1 if the pixels cannot lie that way.
///
/// `stated` is the number in the description.
fn joined_pages(
    file: &Reader<'_>,
    header: &Header,
    directory: &Directory,
    at: u64,
    stated: u64,
) -> Result<u64, CodecError> {
    let parts = Parts::new(file, header, directory)?;
    let bytes = page_bytes(header);
    if header.method != Method::Stored || header.planar || header.tiled || !parts.is_contiguous(bytes) {
        return Ok(1);
    }
    let room = file.file_bytes().saturating_sub(parts.start()) / bytes.max(1);
    if room >= stated {
        pages::check_count(stated)?;
        return Ok(stated);
    }
    // A program that takes a page out of a stack may keep its description, but not the place of its
    // directory.
    if room < 2 && at > parts.start() {
        return Ok(1);
    }
    Err(malformed(format!(
        "its description states {stated} pictures, but the file has room for {room}; it may be truncated"
    )))
}

/// Returns the bytes of the stored samples of a page.
fn page_bytes(header: &Header) -> u64 {
    (header.row_bytes(header.layout.width) as u64).saturating_mul(header.layout.height.into())
}

/// Makes a directory describe one strip at `start`.
fn join_strips(directory: &mut Directory, header: &Header, start: u64) {
    let rows = header.part.height;
    let strip = (header.row_bytes(header.layout.width) as u64).saturating_mul(rows.into());
    let count = u64::from(header.layout.height.div_ceil(rows));
    let total = page_bytes(header);
    let offsets: Vec<u64> = (0..count).map(|number| start.saturating_add(number * strip)).collect();
    let lengths: Vec<u64> = (0..count).map(|number| strip.min(total - number * strip)).collect();
    directory.set(tags::STRIP_OFFSETS, Value::longs(&offsets));
    directory.set(tags::STRIP_BYTE_COUNTS, Value::longs(&lengths));
}

/// Returns the number of pictures in the description of a single directory, or 1.
///
/// ImageJ and tifffile store large stacks that way. `are_pages` says that the samples of a pixel
/// are of several pictures.
fn stated_pictures(directory: &Directory, are_pages: bool) -> u64 {
    let description = directory.bytes(tags::DESCRIPTION).unwrap_or_default();
    let stated = imagej::images(description).map(|images| {
        let samples = directory.number(tags::SAMPLES_PER_PIXEL).unwrap_or(1).max(1);
        let are_counted = are_pages || imagej::counts_samples(description, samples);
        if are_counted { images / samples } else { images }
    });
    let stated = stated.or_else(|| {
        let series = arrangement::series(description).filter(|series| series.truncated)?;
        let page = [tags::WIDTH, tags::HEIGHT, tags::SAMPLES_PER_PIXEL];
        let samples = product(&page.map(|tag| directory.number(tag).unwrap_or(1))).max(1);
        Some(product(&series.shape) / samples)
    });
    stated.unwrap_or(1).max(1)
}

fn product(factors: &[u64]) -> u64 {
    factors.iter().fold(1, |product, &factor| product.saturating_mul(factor))
}
