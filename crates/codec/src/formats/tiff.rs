//! TIFF and BigTIFF.
//!
//! Read: unsigned samples of 1 to 16 bits; signed ones of 8 and 16, integers of 24, 32 and 64, and
//! floats of 16, 32 and 64 bits, which [`mapped`] turns into levels; gray (of either polarity), RGB
//! and palettes, with or without alpha or another channel, which stays as it is; several channels
//! that are not colours, each of which is a page ([`channels`](read::channels)); strips, tiles and
//! planes; stored, LZW, deflate, Zstandard, PackBits, JPEG, WebP and CCITT's codes. CMYK becomes
//! RGB. Depths below 8 become 8, those between 8 and 16 become 16, palettes become RGB,
//! premultiplied alpha is divided out.
//!
//! Written: pictures in tiles where they were, else in strips, compressed like the source or, where
//! its compression does not suit (PackBits, JPEG, faxes), with LZW or deflate. Every tag is kept
//! that describes neither the storage of the pixels nor their contrast. The pages of a file are
//! read and written one by one ([`stack`], [`writer`](write::writer)); smaller versions of pictures
//! are made again ([`pyramid`]), and masks are left out.
//!
//! Regular files are not read as a whole: tags are read through a window on the file, strips and
//! tiles one by one, uncompressed ones straight into the slot.

use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::io::budget::{Budget, ask};
use crate::io::cores::Cores;
use crate::io::reader::{Bytes, Reader};
use crate::metadata::{geotiff, ifd};
use crate::parts::bands::Cut;
use crate::picture::decode::{Decode, Facts, Needs, Room, Wanted};
use crate::picture::decoded::Payload;
use crate::samples::eight::to_eight_bits;
use crate::samples::mapped::{self, Mapped, Purpose, Spread, bytes_of_rows};
use crate::samples::size::Size;
use crate::samples::stated::Place as Levels;
use crate::samples::uncounted::Mask;
use crate::samples::{pixels_of, unpack};
use crate::{CodecError, Format, Limits, Remark, Target, picture};
use equalize::Layout;

mod bands;
mod compression;
mod cut;
mod describe;
mod needs;
mod open;
mod outside;
mod pyramid;
mod read;
mod stack;
mod strips;
mod tags;
mod tiles;
mod write;

pub(super) use bands::Bands;
use compression::method::Method;
pub(super) use cut::rows_of_strip;
use describe::arrangement::Change;
pub(crate) use open::open;
use outside::Outside;
use pyramid::Pyramid;
use read::header::Header;
use read::pages::{Companions, Dropped, Pictures};
use read::parts::Parts;
use read::samples::Colours;
use read::values::FirstPage;
pub(super) use stack::{Place, Stack};
use strips::Shape;
pub(crate) use write::heap_bytes;
pub(super) use write::whole::encode;
pub(super) use write::writer::Writer;

/// The part of a TIFF that is needed for writing it back.
#[derive(Debug)]
pub(super) struct Native {
    compression: compression::method::Compression,
    /// The samples of channels that are neither colour nor alpha, kept apart from the pixels.
    pub(super) other: Option<Vec<u8>>,
    /// The number of such channels.
    others: usize,
    /// The number of them that lie before alpha.
    before_alpha: usize,
    /// The number of interleaved channels that are pictures by themselves, this one included.
    interleaved: usize,
    big: bool,
    /// The strips or tiles of the output, if they are to be like those of the file.
    shape: Option<Shape>,
    /// The smaller versions that are made again.
    pyramid: Pyramid,
    /// The bytes of heap that an encoder takes in addition to rows, for tiles and overviews.
    aside_bytes: u64,
    /// Whether parts of it were never written.
    pub(super) was_sparse: bool,
    /// Whether layers were left out.
    pub(super) had_layers: bool,
    /// Whether smaller versions of the picture were left out.
    had_smaller: bool,
    /// Whether masks were left out.
    pub(super) had_masks: bool,
    /// The mask of valid pixels, until these are marked.
    pub(super) mask: Option<Mask>,
    /// Whether photographs of a slide's label and glass were left out.
    pub(super) had_labels: bool,
    /// Whether the directory of a page after the only one would lie beyond the end of the file.
    pub(super) had_beyond: bool,
    /// Whether its colours were inks.
    pub(super) had_inks: bool,
    /// Whether its OME-XML describes other files.
    pub(super) is_of_series: bool,
    /// Whether its OME-XML is in another file, which it names.
    pub(super) has_ome_elsewhere: bool,
    /// Whether it states a no-data value, which levels have.
    states_no_data: bool,
    /// Whether metadata outside of directories are left out.
    pub(super) lost_outside: bool,
    /// Whether OME-XML was left out, as it describes other samples.
    pub(super) lost_ome: bool,
    /// Whether channels other than colour and alpha were left out, for lack of a place for them.
    pub(super) lost_channel: bool,
    kept: Arc<ifd::Directory>,
}

impl picture::Native for Native {
    fn is_georeferenced(&self) -> bool {
        geotiff::is_georeferenced(&self.kept)
    }

    fn metadata_bytes(&self) -> u64 {
        let of_overviews = self.pyramid.overviews.iter().map(|overview| overview.kept.bytes_of_values());
        self.kept.bytes_of_values() + of_overviews.sum::<u64>()
    }

    fn encoder_bytes(&self, written: &Layout, _: u64, restores: bool) -> Option<u64> {
        Some(match &self.other {
            _ if restores => self.aside_bytes,
            Some(other) => {
                self.aside_bytes + other.len() as u64 + bytes_of_rows(row_bytes(written, self.others))
            }
            None => self.aside_bytes + bytes_of_rows(row_bytes(written, self.interleaved - 1)),
        })
    }

    fn reduce_depth(&mut self) {
        if let Some(other) = &mut self.other {
            to_eight_bits(other);
            other.truncate(other.len() / 2);
        }
    }

    fn take_mask(&mut self) -> Option<Mask> {
        self.mask.take()
    }

    fn had_overviews(&self) -> bool {
        self.had_smaller || !self.pyramid.overviews.is_empty()
    }

    fn remarks(&self, target: &Target, to: Format, restored: Option<&Mapped>) -> Vec<Option<Remark>> {
        let is_kept = self.other.is_some() || restored.is_some_and(Mapped::has_other);
        let channel = match (is_kept, self.lost_channel) {
            (true, _) => Some(Remark::ChannelAsItWas),
            (false, lost) => lost.then_some(Remark::WithoutChannel),
        };
        // With a request there is no loss.
        let loses_overviews =
            target.overviews && (self.had_smaller || to != Format::Tiff && self.had_overviews());
        vec![
            (self.lost_outside && to == Format::Tiff).then_some(Remark::WithoutOutside),
            self.had_layers.then_some(Remark::WithoutLayers),
            channel,
            self.was_sparse.then_some(Remark::Sparse),
            loses_overviews.then_some(Remark::WithoutOverviews),
            self.had_masks.then_some(Remark::WithoutMasks),
            self.had_labels.then_some(Remark::WithoutLabels),
            self.had_beyond.then_some(Remark::PageBeyondEnd),
            (self.is_of_series && to == Format::Tiff).then_some(Remark::OneOfSeries),
            (self.has_ome_elsewhere && to == Format::Tiff).then_some(Remark::MetadataElsewhere),
        ]
    }

    fn had_inks(&self) -> bool {
        self.had_inks
    }

    fn loses_metadata(&self) -> bool {
        self.lost_ome
    }
}

/// An opened TIFF, or a page of one.
#[derive(Debug)]
pub(super) struct Source<'a> {
    file: Reader<'a>,
    header: Header,
    directory: ifd::Directory,
    /// The offset of the first strip or tile.
    start: u64,
    /// Whether a device may inflate its strips or tiles.
    may_be_inflated: bool,
    /// Bytes of heap that reading takes.
    tool_bytes: u64,
    /// The smaller versions that may be made again.
    pyramid: Pyramid,
    /// Pages that accompany the picture and are left out in any case.
    dropped: Dropped,
    /// The pages, if this is the first of several.
    stack: Option<Stack>,
    /// The bands, if this is the first of several.
    bands: Option<Bands>,
    /// Whether the file has metadata outside of directories.
    has_outside: bool,
    /// Whether its pages, written together, keep these.
    keeps_outside: bool,
    /// The spread of levels over all bands, if this is one.
    spread: Option<Arc<mapped::SharedSpread>>,
}

/// The part of a file to be opened, and the way to open it.
#[derive(Clone, Debug)]
struct Selection {
    /// The place of a page or band; `None` for the first.
    pub(super) place: Option<Place>,
    /// The user's no-data value, if there is one.
    pub(super) no_data: Option<f64>,
    /// The rule that cuts pictures into bands.
    pub(super) cut: Cut,
    /// Whether smaller versions of it are made again.
    pub(super) keeps_overviews: bool,
}

impl<'a> Source<'a> {
    /// Reads the structure of a file, with its head in `buffer`; decodes no pixels.
    ///
    /// Finds the places of its pages, unless `place` is the wanted one.
    fn open(
        file: &'a mut File,
        buffer: &'a mut Vec<u8>,
        limits: &Limits,
        budget: &mut dyn Budget,
        Selection { place, no_data, cut, keeps_overviews }: Selection,
    ) -> Result<Self, CodecError> {
        let (form, offset) = ifd::header(buffer).ok_or_else(|| malformed("its header is truncated"))?;
        let mut file = Reader::new(file, buffer, limits, budget)?;
        let first = match &place {
            Some(place) => place.directory,
            None => offset as u64,
        };
        let mut directory = read_directory(&mut file, form, first, budget)?;
        read::refused::refuse_others(&file, &directory)?;
        let mut pictures = match &place {
            Some(_) => Pictures::at(first),
            None => Pictures::find(&mut file, form, first, read::slide::is_one(&directory))?,
        };
        if pictures.places[0] != first {
            directory = read_directory(&mut file, form, pictures.places[0], budget)?;
        }
        read::slide::refuse_overlaps(&directory)?;
        let at = pictures.places[0];
        let mut first_page =
            place.as_ref().map_or_else(|| FirstPage::read(&directory), |place| place.first_page);
        first_page.has_unmarked |= pictures.has_unmarked;
        let (is_slide, has_unmarked) = (read::slide::is_one(&directory), first_page.has_unmarked);
        let companions = read::pages::companions(&mut file, form, at, &directory, is_slide, has_unmarked)?;
        pictures.dropped.labels |= companions.has_labels;
        let outside = match &place {
            Some(_) => None,
            None => Outside::read(&mut file, form, &directory, &pictures.places, budget)?,
        };
        first_page.has_outside |= outside.is_some();
        let channel = place.as_ref().map_or(0, |place| place.channel);
        let mut header = Header::new(&directory, form, &first_page, channel, no_data)?;
        let is_only = place.is_none() && pictures.places.len() == 1;
        read::parts::check(&header, if is_only { Bytes::length(&file) as u64 } else { 0 }, limits)?;
        let mut dropped = pictures.dropped;
        let mut stack = match &place {
            Some(place) => {
                place.check(&header)?;
                None
            }
            None => Stack::new(&file, &header, first_page, &mut directory, pictures)?
                .map(|stack| stack.with_outside(outside)),
        };
        let is_alone = place.is_none() && stack.is_none();
        let is_joined =
            stack.as_ref().is_some_and(Stack::is_joined) || place.as_ref().is_some_and(Place::is_joined);
        let nothing = Companions::default();
        let kept = if is_joined { &nothing } else { &companions };
        let (pyramid, misfits) =
            Pyramid::find(&mut file, at, &directory, &header, &first_page, kept, keeps_overviews)?;
        dropped.labels |= misfits.labels;
        dropped.masks |= misfits.masks || is_joined && !companions.masks.is_empty();
        dropped.smaller |= misfits.smaller || is_joined && !companions.smaller.is_empty();
        stack.iter_mut().for_each(|stack| stack.keep_behind(pyramid.room));
        let alone = [at];
        let directories = match &stack {
            Some(stack) => stack.directories(),
            None => is_alone.then_some((&alone[..], None)),
        };
        let bands = directories
            .and_then(|(places, order)| Bands::of(&header, &pyramid, places, order, first_page, cut));
        let bands = match bands {
            Some(bands) if bands.are_alike(&mut file, &header, no_data)? => Some(bands),
            _ => None,
        };
        let stack = stack.filter(|_| bands.is_none());
        let keeps_outside = match &place {
            Some(place) => place.is_page(),
            None => stack.as_ref().is_some_and(|stack| !stack.is_joined()),
        };
        let place = place.or_else(|| bands.as_ref().map(|bands| bands.place(0)));
        if let Some(place) = &place {
            place.narrow(&mut directory, &mut header);
        }
        let spread = place.as_ref().and_then(Place::spread);
        let parts = Parts::new(&file, &header, &directory)?;
        let (start, may_be_inflated) = (parts.start(), parts.may_be_inflated());
        let row = header.row_bytes(header.layout.width);
        let tool_bytes =
            if header.kind.is_some() { mapped::heap_bytes(&parts, row) } else { parts.tool_bytes() };
        drop(parts);
        Ok(Self {
            file,
            header,
            directory,
            start,
            may_be_inflated,
            tool_bytes,
            pyramid,
            dropped,
            stack,
            bands,
            has_outside: first_page.has_outside,
            keeps_outside,
            spread,
        })
    }

    /// Decodes samples that are levels.
    ///
    /// Returns the channels that are neither colour nor alpha if they are to be kept.
    fn decode_levels(
        &self,
        parts: &Parts<'_>,
        slot: &mut [u8],
        keeps_other: bool,
        cores: &Cores,
    ) -> Result<Option<Vec<u8>>, CodecError> {
        let header = &self.header;
        let layout = header.layout;
        // The stored samples go to the end of the slot; unpacking and expanding them moves them to
        // its front.
        let samples = layout.pixels() as usize * header.samples;
        let start = slot.len() - samples * layout.depth.bytes();
        let stored = &mut slot[start..];
        let packed = stored.len() - header.row_bytes(layout.width) * layout.height as usize;
        parts.read(&mut stored[packed..], cores)?;
        if header.is_packed() && !header.unpacks_parts() {
            unpack(stored, packed, layout.width as usize * header.samples, header.bits);
        }
        read::colours::make(slot, start, header, &self.directory)?;
        let (samples, bytes) = (layout.pixel.channels() + header.others, layout.depth.bytes());
        let slot = &mut slot[..layout.pixels() as usize * samples * bytes];
        if header.before_alpha > 0 {
            let (colours, before) = (layout.pixel.colour_channels(), header.before_alpha);
            read::other::move_alpha(slot, samples, colours, before, bytes, false);
        }
        let other = match header.others {
            0 => None,
            others => read::other::take_out(slot, &layout, others, keeps_other)?,
        };
        read::colours::convert(pixels_of(&layout, slot), header, &self.directory)?;
        Ok(other)
    }

    /// Returns the spread of levels over all of the picture, if this is a band of it.
    fn spread_of_all(&self, purpose: Purpose, cores: &Cores) -> Result<Option<Spread>, CodecError> {
        let Some(spread) = &self.spread else { return Ok(None) };
        let mut whole = self.header.clone();
        whole.narrow(0, whole.file_rows);
        let Some(form) = whole.mapped() else { return Ok(None) };
        let form = form.with_levels(purpose.levels);
        let parts = Parts::new(&self.file, &whole, &self.directory)?;
        let size = whole.size();
        spread.get_or(|| Spread::of(&parts, &form, size, purpose.range, cores)).map(Some)
    }

    /// Returns the pages of the file, the first time, if this is the first of several.
    pub(super) fn take_pages(&mut self) -> Option<Stack> {
        self.stack.take()
    }

    /// Returns the bands of the picture, the first time, if this is the first of several.
    pub(super) fn take_bands(&mut self) -> Option<Bands> {
        self.bands.take()
    }
}

impl Decode for Source<'_> {
    fn facts(&self) -> Facts {
        self.facts()
    }

    fn needs(&self) -> Needs {
        self.needs()
    }

    fn encoder_bytes(&self, to: Format, layout: &Layout) -> Option<u64> {
        self.encoder_bytes(to, layout)
    }

    fn stored_bytes(&self, layout: &Layout, restores: bool) -> Option<u64> {
        self.stored_bytes(layout, restores)
    }

    fn decode(self: Box<Self>, room: Room<'_>, wanted: &Wanted<'_>) -> Result<Payload, CodecError> {
        let slot = room.slot;
        let &Wanted { written, output: to, leaves, purpose, cores, coder, .. } = wanted;
        let header = &self.header;
        let parts = Parts::new(&self.file, header, &self.directory)?.inflated_by(coder);
        let was_sparse = parts.is_sparse();
        let others = header.others;
        let mut keeps_other = others > 0 && to == Format::Tiff;
        let (layout, other, mapped) = match header.mapped() {
            Some(form) => {
                let size = Size::of(&header.layout);
                let purpose = Purpose { of_all: self.spread_of_all(purpose, cores)?, ..purpose };
                let (layout, mapped) = mapped::decode(&parts, form, size, purpose, slot, cores)?;
                keeps_other &= purpose.restores;
                (layout, None, Some(Box::new(mapped)))
            }
            None => (header.layout, self.decode_levels(&parts, slot, keeps_other, cores)?, None),
        };
        // The device's memory is given back.
        drop(parts);
        let rows = header.first_row..header.first_row + header.layout.height;
        let mask = self.pyramid.mask_of_picture(header);
        let mask = mask.map(|mask| mask.counts(&self.file, rows, cores)).transpose()?;
        let change = Change {
            samples: (header.samples, written.pixel.channels() + if keeps_other { others } else { 0 }),
            planes: header.planar,
            reduced: written.depth != layout.depth,
            to_levels: mapped.is_some() && !purpose.restores,
            keeps_levels: purpose.levels.is_stated()
                && header.stated.is_some_and(|stated| stated.place == Levels::Low),
            leaves,
        };
        let (compression, shape, aside_bytes) = (header.method.written(), self.shape(), self.aside_bytes());
        let big = header.form.big;
        let states_no_data = header.no_data.is_some() && self.directory.get(tags::GDAL_NODATA).is_some();
        let still_true = [
            (states_no_data && purpose.restores).then_some(tags::GDAL_NODATA),
            header.has_display_colours.then_some(tags::COLOUR_MAP),
            tags::is_page(&self.directory).then_some(tags::KIND),
        ];
        let still_true: Vec<u16> = still_true.into_iter().flatten().collect();
        let ome = self.directory.bytes(tags::DESCRIPTION).filter(|text| describe::arrangement::is_ome(text));
        let (had_ome, is_of_series) =
            (ome.is_some(), ome.is_some_and(describe::arrangement::has_several_files));
        let has_ome_elsewhere = ome.is_some_and(describe::arrangement::is_elsewhere);
        let had_layers = self.directory.get(tags::LAYERS).is_some();
        let Dropped { smaller: had_smaller, masks: had_masks, labels: had_labels, beyond } = self.dropped;
        let had_masks = had_masks || to != Format::Tiff && !self.pyramid.masks.is_empty();
        let lost_outside = self.has_outside && (leaves || !self.keeps_outside);
        let keep = |directory| {
            let mut kept = kept(directory, header, change, &still_true);
            // Readers look for the table behind the header by this tag.
            kept.entries.retain(|(tag, _)| !(lost_outside && *tag == tags::MICRO_MANAGER));
            if change.reduced {
                read::colours::reduce_palette(&mut kept);
            }
            kept
        };
        let (kept, mut pyramid) = (keep(self.directory), self.pyramid.keeping(keep));
        // They are those of all bands, and of all channels, of which any may be written last.
        let is_for_masks = header.channel == 0 || header.is_interleaved() || leaves;
        if to == Format::Tiff && header.first_row == 0 && is_for_masks {
            pyramid.load_masks(&self.file)?;
        } else {
            pyramid.masks.clear();
        }
        let mut metadata = tags::metadata(&kept);
        let had_inks = header.colours == Colours::Cmyk;
        if had_inks {
            // It describes inks.
            metadata.icc = None;
        }
        Ok(Payload {
            layout,
            metadata,
            native: Box::new(Native {
                compression,
                other,
                others,
                before_alpha: header.before_alpha,
                shape,
                pyramid,
                aside_bytes,
                interleaved: header.channels.stride(),
                big,
                had_layers,
                had_inks,
                had_smaller,
                had_masks,
                mask,
                had_labels,
                had_beyond: beyond,
                was_sparse,
                is_of_series,
                has_ome_elsewhere,
                states_no_data,
                lost_outside,
                lost_ome: had_ome && kept.get(tags::DESCRIPTION).is_none(),
                lost_channel: others > 0 && !keeps_other,
                kept: Arc::new(kept),
            }),
            mapped,
        })
    }
}

/// Reads a directory with all its values, which must be in the file.
fn read_directory(
    file: &mut Reader<'_>,
    form: ifd::Form,
    offset: u64,
    budget: &mut dyn Budget,
) -> Result<ifd::Directory, CodecError> {
    let offset = usize::try_from(offset).map_err(|_| malformed("its directory lies outside the file"))?;
    let outline = ifd::Outline::read(file, form, offset).map_err(no_directory)?;
    ask(budget, outline.bytes(), "metadata")?;
    let directory = outline.fill(file).map_err(io_error)?;
    // They are often the last part of a file, and the only sign that its end is missing.
    if directory.cut.iter().any(|tag| tags::METADATA.contains(tag)) {
        return Err(malformed("a profile or other metadata lie outside the file; it may be truncated"));
    }
    Ok(directory)
}

/// Returns the tags to pass on, of a picture with this header or of an overview of it.
fn kept(directory: ifd::Directory, header: &Header, change: Change, still_true: &[u16]) -> ifd::Directory {
    let mut kept = tags::kept(directory, change, still_true);
    if let Some(value) = header.no_data_of_user().filter(|_| kept.get(tags::GDAL_NODATA).is_some()) {
        kept.set(tags::GDAL_NODATA, describe::gdal::no_data_text(value));
    }
    kept
}

/// Returns the bytes of a row of pixels with this many more samples each.
fn row_bytes(layout: &Layout, others: usize) -> u64 {
    let pixel = layout.pixel_bytes() + others * layout.depth.bytes();
    u64::from(layout.width) * pixel as u64
}

fn io_error(error: io::Error) -> CodecError {
    if error.kind() == io::ErrorKind::UnexpectedEof { malformed("it is truncated") } else { error.into() }
}

fn no_directory(error: io::Error) -> CodecError {
    match error.kind() {
        _ if error.raw_os_error().is_some() => error.into(),
        io::ErrorKind::InvalidData => malformed("its directory is invalid"),
        _ => malformed("its directory lies outside the file"),
    }
}

fn malformed(reason: impl Into<String>) -> CodecError {
    CodecError::malformed(Format::Tiff, reason)
}

fn unsupported(what: impl Into<String>) -> CodecError {
    CodecError::unsupported(what, "convert it first, as in `convert IN OUT.png` (ImageMagick)")
}
