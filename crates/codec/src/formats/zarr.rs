//! OME-Zarr: a folder with the arrays of an image, one for each of its resolutions, in chunks.
//!
//! The largest array is read in pages, which are blocks of its chunks (see [`blocks`]), or its
//! planes; they lie in the slot row by row. The folder is written again: its metadata and all other
//! files as they are, the largest array in the same chunks, and the smaller ones made again of it
//! (see [`write`](mod@write)). The folder is an open file here, and nothing outside it is reached;
//! or the image lies in another [`ImageStore`].

mod array;
mod blocks;
mod bounded;
mod folder;
mod keys;
mod omero;
mod reduce;
mod region;
mod write;
mod written;

use std::sync::Arc;

use array::Level;
use blocks::{BlockPage, Blocks, Cut};
use folder::{below, store_of};
use keys::Keys;
use region::Region;

use crate::io::budget::{self, Budget};
use crate::io::image_store::{ImageStore, MediumRef};
use crate::metadata::multiscales::{DOCUMENTS, GroupError, LONGEST, METADATA, Multiscales, is_within};
use crate::parts::opening::Header;
use crate::parts::pages::{self, PageSink, PageSource};
use crate::parts::volumes::{NoVolumes, Volumes};
use crate::picture::decode::{Decode, Facts, Needs, Room, Wanted};
use crate::picture::decoded::Payload;
use crate::samples::mapped::{self, BAND, Form, Kind, Mapped, NoData, Rows};
use crate::samples::size::Size;
use crate::{CodecError, Format, Limits, Metadata, Remark, Target, picture};
use equalize::{Depth, Layout, Pixel};
pub(super) use write::Writer;

/// The most bytes of a page of several chunks.
const MOST_AT_ONCE: u64 = 32 << 20;
/// About the bytes that a page takes until the image is done: its place, its slot in several tables
/// and queues.
const PAGE_BYTES: u64 = 400;
/// The most channels.
const MOST_CHANNELS: u64 = 1 << 16;
/// About the bytes that a parsed document takes for each of its own, in two copies at times.
const PARSED: u64 = 32;
/// Bytes of an array's metadata that take no memory worth counting.
const SHORT: u64 = 64 << 10;
/// The share of all memory, one in so many, for each of these.
const SHARE_OF_MEMORY: u64 = 4;
/// The pages that share the bytes of one picture, because several are under way at once.
const SHARE: u64 = 4;

/// An image: its arrays, the largest first.
#[derive(Debug)]
struct Image {
    store: Arc<dyn ImageStore>,
    about: Multiscales,
    levels: Vec<Level>,
}

/// The pages of an image.
#[derive(Clone, Debug)]
pub(super) struct Stack {
    image: Arc<Image>,
    blocks: Arc<Blocks>,
}

/// The place of a page.
#[derive(Clone, Debug)]
pub(super) struct Place {
    image: Arc<Image>,
    page: BlockPage,
    heap_bytes: u64,
}

/// The part of a page that is needed for writing it back.
#[derive(Debug)]
pub(super) struct Native {
    heap_bytes: u64,
    /// Whether it has samples that were never written.
    is_sparse: bool,
}

/// A page that is to be read.
#[derive(Debug)]
pub(super) struct Source {
    place: Place,
    /// The no-data value.
    no_data: Option<f64>,
}

/// Opens the page at `place`, or the first one of the image in the medium with all of its pages.
pub(crate) fn open(
    medium: MediumRef<'_>,
    limits: &Limits,
    budget: &dyn Budget,
    target: &Target,
    place: Option<pages::Place>,
) -> Result<Header<'static>, CodecError> {
    let no_data = target.no_data;
    if let Some(place) = place.and_then(pages::Place::into) {
        return Ok(Header::of(Source { place, no_data }));
    }
    let image = Image::open(store_of(medium)?, budget)?;
    image.check(limits, target)?;
    let base = image.base();
    image.check_channels(budget, target.in_planes)?;
    let most = budget.most_at_once().min(SHARE * MOST_AT_ONCE) / SHARE;
    let blocks = Blocks::new(&Cut {
        array: &base.shape,
        chunk: &base.chunk,
        channels: image.about.channels(),
        in_planes: target.in_planes,
        most: most / base.kind.bytes() as u64,
    })
    .ok_or_else(|| unsupported("an OME-Zarr image of more than 4194304 blocks of chunks or planes"))?;
    let pages = blocks.pages() as u64;
    let what = format!("{pages} pages (blocks of chunks, or planes)");
    budget::check(budget, pages * PAGE_BYTES, SHARE_OF_MEMORY, &what)?;
    let stack = Stack { image: Arc::new(image), blocks: Arc::new(blocks) };
    Ok(Header::of(Source { place: stack.place(0), no_data }).with_pages(Some(stack)))
}

impl Image {
    /// Opens the arrays of the image in a store.
    fn open(store: Arc<dyn ImageStore>, budget: &dyn Budget) -> Result<Self, CodecError> {
        let mut about = None;
        for document in DOCUMENTS.into_iter().chain([omero::CONSOLIDATED]) {
            let Some(text) = store.read(document, LONGEST)? else { continue };
            let parsed = text.len() as u64 * PARSED;
            budget::check(budget, parsed, SHARE_OF_MEMORY, &format!("metadata in {document}"))?;
            if about.is_none() && DOCUMENTS.contains(&document) {
                about = Multiscales::parse(&text)?;
            }
        }
        let about = about.ok_or(CodecError::NotAPicture)?;
        let longest = (budget.memory() / SHARE_OF_MEMORY / PARSED).clamp(SHORT, LONGEST);
        let levels = about.datasets.iter().map(|path| Level::open(&store, path, about.axes.len(), longest));
        let levels = levels.collect::<Result<Vec<_>, _>>()?;
        let image = Self { store, about, levels };
        image.check_levels()?;
        // A value that cannot be copied is found before anything is written.
        let keys = Keys::of(&image.levels);
        image.store.each_key(&|path| keys.skips(path), &mut |key| {
            keys.take(key);
            Ok(())
        })?;
        keys.check()?;
        Ok(image)
    }

    /// Returns the largest array.
    fn base(&self) -> &Level {
        &self.levels[0]
    }

    /// Checks that each array can be made again of the one before.
    fn check_levels(&self) -> Result<(), CodecError> {
        for pair in self.levels.windows(2) {
            let [larger, smaller] = pair else { continue };
            if larger.kind != smaller.kind {
                return Err(malformed(format!(
                    "arrays {} and {} are of different types",
                    larger.path, smaller.path
                )));
            }
            if self.factors(larger, smaller).is_none() {
                let what = format!(
                    "an OME-Zarr image whose array {} of {:?} samples is not a whole-number reduction of {} ({:?})",
                    smaller.path, smaller.shape, larger.path, larger.shape
                );
                return Err(CodecError::unsupported(what, "leave that resolution out of its multiscales"));
            }
        }
        Ok(())
    }

    /// Returns whether the value at a path is made again: chunks of arrays, not metadata.
    fn is_made_again(&self, path: &str) -> bool {
        let mut within =
            self.levels.iter().filter(|level| is_within(path, &level.path) && path != level.path);
        within.any(|level| METADATA.iter().all(|name| path != below(&level.path, name)))
    }

    /// Returns the samples of the larger array for each of the smaller one, along each axis.
    fn factors(&self, larger: &Level, smaller: &Level) -> Option<Vec<u64>> {
        let lengths = larger.shape.iter().zip(&smaller.shape);
        let factors: Vec<_> =
            lengths.map(|(&larger, &smaller)| reduce::factor(larger, smaller)).collect::<Option<_>>()?;
        let of_space =
            self.about.axes.iter().zip(&factors).all(|(axis, &factor)| factor == 1 || axis.is_of_space());
        of_space.then_some(factors)
    }

    /// Refuses more channels than there is room for: each has counts and a table of its own, unless
    /// planes have.
    fn check_channels(&self, budget: &dyn Budget, in_planes: bool) -> Result<(), CodecError> {
        let Some(axis) = self.about.channels().filter(|_| !in_planes) else { return Ok(()) };
        let (base, channels) = (self.base(), self.base().shape[axis]);
        if channels > MOST_CHANNELS {
            let what = format!("an OME-Zarr image of more than {MOST_CHANNELS} channels");
            return Err(CodecError::unsupported(what, "rename that axis if it does not stand for channels"));
        }
        let levels = if base.kind.depth() == Depth::Eight { 1 << 8 } else { 1 << 16 };
        let table = levels * (size_of::<u64>() + size_of::<u16>()) as u64;
        budget::check(budget, channels * table, 1, &format!("tables of levels for {channels} channels"))
    }

    /// Refuses planes over the limits, and samples that the target would reduce.
    fn check(&self, limits: &Limits, target: &Target) -> Result<(), CodecError> {
        let base = self.base();
        let [.., height, width] = base.shape[..] else { return Err(malformed("it has fewer than two axes")) };
        let sides = [width, height].map(u32::try_from);
        let [Ok(width), Ok(height)] = sides else {
            return Err(unsupported(format!("an OME-Zarr image of {width}x{height} pixels")));
        };
        let bytes = u64::from(width) * u64::from(height) * base.kind.bytes() as u64;
        let plane = Layout { width, height, pixel: Pixel::Gray, depth: base.kind.depth() };
        limits.check(&plane, bytes, || None)?;
        if target.eight_bit && base.kind != Kind::Unsigned8 && base.kind != Kind::Signed8 {
            let what = "8-bit samples instead of those that its metadata describe";
            return Err(CodecError::cannot_represent(Format::Zarr, what, "leave --depth out for it"));
        }
        Ok(())
    }
}

impl Stack {
    /// Returns the place of a page.
    fn place(&self, index: usize) -> Place {
        let image = Arc::clone(&self.image);
        Place {
            image,
            page: self.blocks.page(index),
            heap_bytes: write::heap_bytes(&self.image, &self.blocks),
        }
    }
}

impl PageSource for Stack {
    fn count(&self) -> usize {
        self.blocks.pages()
    }

    fn channel(&self, index: usize) -> Option<usize> {
        let axis = self.image.about.channels();
        Some(axis.map_or(0, |axis| self.blocks.page(index).region.start[axis] as usize))
    }

    /// Returns the volumes of planes that differ only along an axis of space, if pages are planes.
    fn volumes(&self) -> Result<Volumes, NoVolumes> {
        let axes = &self.image.about.axes;
        let planes = (0..self.count()).map(|index| {
            let Region { start, shape } = self.blocks.page(index).region;
            let before = start.len().saturating_sub(2);
            let is_plane = shape[..before].iter().all(|&length| length == 1);
            let places = start.into_iter().zip(axes).take(before);
            let (along, of_volume): (Vec<_>, Vec<_>) = places.partition(|(_, axis)| axis.is_of_space());
            let [along, of_volume] =
                [along, of_volume].map(|places| places.into_iter().map(|(at, _)| at).collect::<Vec<_>>());
            is_plane.then_some((of_volume, along))
        });
        Volumes::new(planes.collect::<Option<Vec<_>>>().ok_or(NoVolumes::Untold)?)
    }

    fn place_of(&self, index: usize) -> pages::Place {
        pages::Place::new(self.place(index))
    }

    /// They may be blocks that an image in chunks was cut into.
    fn are_numbered(&self) -> bool {
        false
    }

    fn own_sink(&self, _: Format) -> Option<Box<dyn PageSink>> {
        Some(Box::new(Writer::new(Arc::clone(&self.image), Arc::clone(&self.blocks))))
    }
}

impl picture::Native for Native {
    fn encoder_bytes(&self, _: &Layout, _: u64, _: bool) -> Option<u64> {
        Some(self.heap_bytes)
    }

    fn remarks(&self, _: &Target, _: Format, _: Option<&Mapped>) -> Vec<Option<Remark>> {
        vec![self.is_sparse.then_some(Remark::Sparse)]
    }
}

impl Source {
    fn base(&self) -> &Level {
        self.place.image.base()
    }

    fn region(&self) -> &Region {
        &self.place.page.region
    }

    /// Returns the form of samples that are not levels.
    fn form(&self) -> Option<Form> {
        let kind = self.base().kind;
        if matches!(kind, Kind::Unsigned8 | Kind::Unsigned16) {
            return None;
        }
        Some(Form { no_data: self.no_data.map(NoData::value), ends: kind.whole_range(), ..Form::of(kind) })
    }

    /// Returns the bytes of the samples as they are in the array.
    fn bytes(&self) -> u64 {
        self.region().samples() * self.base().kind.bytes() as u64
    }
}

impl Source {
    fn layout(&self) -> Layout {
        let size = size(self.region());
        let depth = if self.base().kind.bytes() == 1 { Depth::Eight } else { Depth::Sixteen };
        let layout = Layout { width: size.width, height: size.height, pixel: Pixel::Gray, depth };
        self.form().map_or(layout, |form| form.layout(size))
    }
}

impl Decode for Source {
    fn facts(&self) -> Facts {
        Facts { mapped: self.form(), ..Facts::of(self.layout()) }
    }

    fn needs(&self) -> Needs {
        let mapped = if self.form().is_some() { self.bytes() } else { 0 };
        Needs::of_heap(self.place.heap_bytes + mapped)
    }

    fn encoder_bytes(&self, _: Format, _: &Layout) -> Option<u64> {
        Some(self.place.heap_bytes)
    }

    fn decode(self: Box<Self>, room: Room<'_>, wanted: &Wanted<'_>) -> Result<Payload, CodecError> {
        let slot = room.slot;
        let (layout, metadata) = (self.layout(), Metadata::default());
        let native = |is_sparse| Box::new(Native { heap_bytes: self.place.heap_bytes, is_sparse });
        let Some(form) = self.form() else {
            let is_sparse = self.base().read(self.region(), &mut slot[..self.bytes() as usize])?;
            return Ok(Payload { layout, metadata, native: native(is_sparse), mapped: None });
        };
        let mut samples = Vec::new();
        crate::io::reader::resize(&mut samples, self.bytes() as usize)?;
        let native = native(self.base().read(self.region(), &mut samples)?);
        let size = size(self.region());
        let rows = SamplesInMemory { row: size.width as usize * form.kind.bytes(), samples };
        let (layout, mapped) = mapped::decode(&rows, form, size, wanted.purpose, slot, wanted.cores)?;
        Ok(Payload { layout, metadata, native, mapped: Some(Box::new(mapped)) })
    }
}

/// Rows of samples that are not levels.
struct SamplesInMemory {
    /// Bytes of a row.
    row: usize,
    samples: Vec<u8>,
}

impl Rows for SamplesInMemory {
    type Tool = ();

    fn at_once(&self) -> usize {
        (BAND / self.row).max(1)
    }

    fn tool_bytes(&self) -> u64 {
        0
    }

    fn read(&self, _: &mut (), first: usize, into: &mut [u8]) -> Result<(), CodecError> {
        into.copy_from_slice(&self.samples[first * self.row..][..into.len()]);
        Ok(())
    }
}

/// Returns the size of a box with its planes below each other.
fn size(region: &Region) -> Size {
    let width = region.shape.last().copied().unwrap_or(1);
    let [width, height] =
        [width, region.samples() / width.max(1)].map(|side| u32::try_from(side).unwrap_or(u32::MAX));
    Size { width, height }
}

fn malformed(reason: impl Into<String>) -> CodecError {
    CodecError::malformed(Format::Zarr, reason)
}

fn unsupported(what: impl Into<String>) -> CodecError {
    CodecError::unsupported(
        what,
        "convert it to an image of integers or floats in a regular grid of chunks first",
    )
}

impl From<GroupError> for CodecError {
    fn from(why: GroupError) -> Self {
        match why {
            GroupError::Malformed(reason) => malformed(reason),
            GroupError::Unsupported { what, remedy } => Self::unsupported(what, remedy),
        }
    }
}
