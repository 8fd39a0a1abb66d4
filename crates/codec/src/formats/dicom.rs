//! DICOM (PS3.3, PS3.5, PS3.10).
//!
//! Read: single frames, and several as pages; explicit and implicit elements, of either byte order,
//! deflated, with or without preamble and file meta information; integers of 1, 8, 12, 16 and 32
//! bits, signed or not, and floats of 32 and 64 bits; gray of either polarity, RGB, YBR and
//! palettes; stored, run-length encoded, and compressed as JPEG (also lossless and of 12 bits),
//! JPEG-LS and JPEG 2000. Stored values are read as they are: neither rescaled nor windowed.
//!
//! Written: a derived image of a DICOM source, not compressed. Every element is kept, byte for
//! byte, that neither describes the pixels nor would be false; [`derived`] has the list.
//!
//! The structure is parsed here, and not by a crate, because elements are kept as they are,
//! whatever is wrong with their texts; because memory is asked for before it is taken; and because
//! sequences may be nested no deeper than the stack is.

use std::fs::File;
use std::sync::Arc;

use crate::coding::codestream::BlockCoder;
use crate::formats::elements::{Encoding, MARK, PREAMBLE, has_preamble, is_type};
use crate::formats::foreign::SPLIT_DICOM;
use crate::io::budget::Budget;
use crate::io::cores::Cores;
use crate::io::reader::{Bytes, Reader};
use crate::metadata::MetadataBytes;
use crate::parts::pages::{self, PageSink, PageSource};
use crate::parts::volumes::{NoVolumes, Volumes};
use crate::picture::decode::{Decode, Facts, Needs, Room, Wanted};
use crate::picture::decoded::Payload;
use crate::samples::eight::to_eight_bits;
use crate::samples::mapped::{self, NoData, Purpose, Rows};
use crate::samples::pixels_of;
use crate::target::range::Range;
use crate::{CodecError, Format, Limits, Metadata, Object, Resolution, Target, picture};
use equalize::{Depth, Layout};

mod data;
mod dataset;
mod derived;
mod description;
mod encoded;
mod fragments;
mod groups;
mod header;
mod items;
mod nested;
mod open;
mod palette;
mod pixels;
mod rle;
mod series;
mod shown;
mod tags;
#[cfg(test)]
mod tests;
mod transfer;
mod turn;
mod volumes;
mod write;

use data::Data;
use dataset::{DataSet, fault};
use description::Description;
use fragments::Fragments;
use header::Header;
pub(crate) use open::open;
use pixels::Frame;
pub(super) use series::slice_of;
use shown::{Rescale, Shown, ShownRows};
use transfer::{Compression, Transfer};
pub(super) use write::{Writer, encode};

const CONVERT: &str = "convert it first, as in `dcmj2pnm --write-16-bit-png IN OUT.png` (DCMTK)";
/// DCMTK does not write colours of these kinds.
const TO_TIFF: &str = "convert it first, as in `python3 -c \"import pydicom, tifffile; tifffile.imwrite('OUT.tif', pydicom.dcmread('IN').pixel_array, photometric='rgb')\"` (pydicom, tifffile)";
const DECOMPRESS: &str =
    "decompress it first, as in Python's pydicom: `ds = dcmread(IN); ds.decompress(); ds.save_as(OUT)`";

/// The elements of a file and the description of its pixels, which its frames have in common.
#[derive(Debug)]
struct Known {
    set: DataSet,
    description: Description,
    /// Whether the least value is white where no modality table is applied, as in the output.
    white_is_least: bool,
    /// Whether the pixels were compressed with loss.
    lossy: bool,
    /// The start of the data set in the file, if it is deflated.
    deflated: Option<u64>,
    /// The offset of the pixels, and their bytes, if they are not compressed.
    place: (u64, u64),
    /// The compressed frames.
    fragments: Option<Fragments>,
}

impl Known {
    /// Reads the elements of a file whose first one is at `start`.
    fn read(
        data: &mut Data<'_>,
        start: usize,
        limits: &Limits,
        budget: &mut dyn Budget,
        target: &Target,
    ) -> Result<Self, CodecError> {
        let (start, uid) = meta(data, start as u64)?;
        let transfer = uid.as_deref().map_or(Ok(Transfer::UNKNOWN), Transfer::of)?;
        if transfer.deflated {
            data.inflate(start, limits, budget)?;
        }
        let encoding = encoding(data, start, transfer)?;
        let mut set = DataSet::read(data, start, encoding, budget)?;
        refuse_object(&set, target)?;
        let Some(pixels) = set.pixels else { return Err(without_pixels(&set)) };
        let mut description = Description::new(&set, &pixels, transfer.compression, encoding.big_endian)?;
        description.padding = target.no_data.map(NoData::value).or(description.padding);
        let (place, fragments) = match pixels.length {
            Some(length) if transfer.compression == Compression::None => ((pixels.at, length), None),
            Some(_) => return Err(malformed("its compressed pixels are not in fragments")),
            None => {
                let table = set.value(tags::FRAME_OFFSETS).unwrap_or_default();
                let fragments = Fragments::find(data, &pixels, encoding, description.frames, table)?;
                ((0, 0), Some(fragments))
            }
        };
        let found = fragments.as_ref().map_or(0, Fragments::heap_bytes);
        let held = data.heap_bytes() + set.bytes.len() as u64 + found;
        groups::index(&mut set, description.frames, held, budget)?;
        let deflated = transfer.deflated.then_some(start);
        let white_is_least = description.is_inverted() != shown::has_falling_table(&set, &description);
        Ok(Self { set, description, white_is_least, lossy: transfer.lossy, deflated, place, fragments })
    }

    /// Returns the bytes of the elements, and of the table of fragments.
    fn metadata_bytes(&self) -> u64 {
        let fragments = self.fragments.as_ref().map_or(0, Fragments::heap_bytes);
        // The encoder has a copy of the elements.
        self.set.bytes.len() as u64 + self.set.heap_bytes() + fragments
    }
}

/// The frames of a file that has several.
#[derive(Debug)]
pub(super) struct Frames {
    known: Arc<Known>,
}

/// The place of a frame: a file, and the frame's number in it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    known: Arc<Known>,
    frame: u32,
}

impl PageSource for Frames {
    fn count(&self) -> usize {
        self.known.description.frames as usize
    }

    fn place_of(&self, index: usize) -> pages::Place {
        pages::Place::new(Place { known: Arc::clone(&self.known), frame: index as u32 })
    }

    fn volumes(&self) -> Result<Volumes, NoVolumes> {
        volumes::of_frames(&self.known.set, self.count())
    }

    /// They may each be rescaled in another way.
    fn differ_in_meaning(&self) -> bool {
        true
    }

    fn split_remedy(&self) -> Option<&'static str> {
        Some(SPLIT_DICOM)
    }

    fn own_sink(&self, output: Format) -> Option<Box<dyn PageSink>> {
        (output == Format::Dicom).then(|| Box::new(Writer::new(self.count())) as Box<dyn PageSink>)
    }
}

/// The part of a file that is needed for writing it back.
#[derive(Debug)]
pub(super) struct Native {
    known: Arc<Known>,
    /// Whether the levels are of brightness as it is shown, and not of stored values.
    is_shown: bool,
    /// Whether the least stored value has the highest level.
    inverted: bool,
    /// The slope and intercept that make values of the stored ones, if the levels stand for these.
    rescale: Option<[f64; 2]>,
}

impl picture::Native for Native {
    fn metadata_bytes(&self) -> u64 {
        self.known.metadata_bytes()
    }

    fn is_shown(&self) -> bool {
        self.is_shown
    }

    fn rescale(&self) -> Option<[f64; 2]> {
        self.rescale
    }

    fn is_segmentation(&self) -> bool {
        object(&self.known.set) == Some(Object::Segmentation)
    }

    /// It is among the elements that stay.
    fn loses_profile(&self) -> Option<bool> {
        Some(false)
    }
}

/// Reads the elements of a file, with its head in `buffer`; decodes no pixels.
///
/// The elements may be known from another frame. Returns the frame at `place`, or the first one
/// with all frames if there are several.
fn read<'a>(
    file: &'a mut File,
    buffer: &'a mut Vec<u8>,
    limits: &Limits,
    budget: &mut dyn Budget,
    target: &Target,
    place: Option<Place>,
) -> Result<(Box<dyn Decode + 'a>, Option<Frames>), CodecError> {
    let is_first = place.is_none();
    let frame = Source::open(file, buffer, limits, budget, target, place)?;
    let has_more = is_first && frame.known.description.frames > 1;
    let frames = has_more.then(|| Frames { known: Arc::clone(&frame.known) });
    Ok((Box::new(frame), frames))
}

/// An opened frame.
#[derive(Debug)]
struct Source<'a> {
    data: Data<'a>,
    known: Arc<Known>,
    /// Its number, from 0.
    frame: u32,
    /// Whether its least stored value is shown as white, and has the highest level.
    inverted: bool,
    /// The way its values are shown, if brightness is equalized instead of values.
    shown: Option<Shown>,
    /// Whether brightness becomes levels of 8 bits, as samples of 8 bits have no more.
    reduces: bool,
}

impl<'a> Source<'a> {
    /// Opens the frame at `place`, or the first one.
    fn open(
        file: &'a mut File,
        buffer: &'a mut Vec<u8>,
        limits: &Limits,
        budget: &mut dyn Budget,
        target: &Target,
        place: Option<Place>,
    ) -> Result<Self, CodecError> {
        let start = start(buffer);
        let mut data = Data::new(Reader::new(file, buffer, limits, budget)?);
        let Place { known, frame } = match place {
            Some(place) => {
                if let Some(start) = place.known.deflated {
                    data.inflate(start, limits, budget)?;
                }
                place
            }
            None => {
                let known = Known::read(&mut data, start, limits, budget, target)?;
                Place { known: Arc::new(known), frame: 0 }
            }
        };
        let description = &known.description;
        let window = target.window.filter(|_| description.is_gray());
        let shown =
            window.map(|window| Shown::find(&known.set, description, frame, window)).transpose()?.flatten();
        let reduces = shown.is_some() && description.allocated <= 8;
        let inverted = known.white_is_least != shown::has_falling_line(&known.set, description, frame);
        Ok(Self { data, known, frame, inverted, shown, reduces })
    }

    /// Returns the layout of the levels before they are reduced.
    fn whole_layout(&self) -> Layout {
        let description = &self.known.description;
        match &self.shown {
            Some(_) => Shown::form().layout(description.size()),
            None => description.layout(),
        }
    }

    /// Returns the user's range of values, as they are stored, between which levels are spread.
    fn range(&self, given: Option<Range>) -> Result<Option<Range>, CodecError> {
        let Some((Range { low, high, .. }, unit)) = given.and_then(|range| Some((range, range.unit?))) else {
            return Ok(given);
        };
        let [low, high] = Rescale::stored(&self.known.set, self.frame, unit, [low, high])?;
        Ok(Some(Range { low, high, unit: None }))
    }
}

impl Source<'_> {
    fn layout(&self) -> Layout {
        let layout = self.whole_layout();
        Layout { depth: if self.reduces { Depth::Eight } else { layout.depth }, ..layout }
    }

    /// Returns the form of samples that are not levels.
    fn form(&self) -> Option<mapped::Form> {
        match self.shown {
            Some(_) => Some(Shown::form()),
            None => Some(mapped::Form { inverted: self.inverted, ..self.known.description.form()? }),
        }
    }
}

impl Decode for Source<'_> {
    fn facts(&self) -> Facts {
        let Known { set, description, .. } = &*self.known;
        let carried = set.value(tags::ICC).map_or(0, <[u8]>::len) as u64;
        Facts {
            mapped: self.form(),
            restores: !self.reduces && self.shown.is_none(),
            block_coder: match description.compression {
                Compression::Jpeg2000 => Some(BlockCoder::Usual),
                Compression::HighThroughput => Some(BlockCoder::HighThroughput),
                Compression::None | Compression::Rle | Compression::Jpeg | Compression::JpegLs => None,
            },
            metadata: MetadataBytes { native: self.known.metadata_bytes(), carried },
            ..Facts::of(self.layout())
        }
    }

    fn needs(&self) -> Needs {
        let description = &self.known.description;
        let frame = self.known.fragments.as_ref().map_or(0, |fragments| {
            let compressed = fragments.bytes(self.frame);
            let decoder = pixels::decoder_bytes(description, compressed);
            compressed + pixels::frame_bytes(description) + decoder
        });
        let table = self.shown.as_ref().map_or(0, |_| ShownRows::TABLE_BYTES);
        let beyond = self.whole_layout().bytes() - self.layout().bytes();
        Needs { beyond, ..Needs::of_heap(pixels::rows_bytes(description) + frame + table) }
    }

    fn decode(self: Box<Self>, room: Room<'_>, wanted: &Wanted<'_>) -> Result<Payload, CodecError> {
        let slot = room.slot;
        let &Wanted { purpose, cores, decoder, .. } = wanted;
        let Self { data, known, frame, shown, .. } = &*self;
        let description = &known.description;
        let mut layout = self.whole_layout();
        let rows = match &known.fragments {
            Some(fragments) => Frame::decompressed(description, data, fragments, *frame, decoder)?,
            None => Frame::stored(description, data, known.place.0, known.place.1, *frame)?,
        };
        let mut mapped = None;
        if let Some(form) = self.form() {
            let size = description.size();
            let (found, map) = match shown {
                Some(shown) => {
                    let rows = ShownRows::new(&rows, shown, description);
                    mapped::decode(&rows, form, size, purpose, slot, cores)?
                }
                None => {
                    let purpose = Purpose { range: self.range(purpose.range)?, ..purpose };
                    mapped::decode(&rows, form, size, purpose, slot, cores)?
                }
            };
            (layout, mapped) = (found, Some(Box::new(map)));
        } else {
            read_levels(&rows, &layout, pixels_of(&layout, slot), cores)?;
            if self.inverted {
                invert(pixels_of(&layout, slot));
            }
        }
        if self.reduces {
            to_eight_bits(pixels_of(&layout, slot));
            layout.depth = Depth::Eight;
        }
        let icc = known.set.value(tags::ICC).map(<[u8]>::to_vec);
        let metadata = Metadata { icc, resolution: resolution(&known.set), ..Metadata::default() };
        drop(rows);
        let stands_for_stored =
            self.shown.is_none() && purpose.range.is_none_or(|range| range.unit.is_none());
        let rescale = Rescale::of(&known.set, *frame).filter(|_| stands_for_stored).and_then(Rescale::line);
        let (is_shown, inverted) = (self.shown.is_some(), self.inverted);
        let native = Native { is_shown, inverted, rescale, known: self.known };
        Ok(Payload { layout, metadata, native: Box::new(native), mapped })
    }
}

/// Reads rows of samples that are levels.
fn read_levels(rows: &Frame<'_>, layout: &Layout, slot: &mut [u8], cores: &Cores) -> Result<(), CodecError> {
    let row = layout.width as usize * layout.pixel_bytes();
    let at_once = rows.at_once();
    let alone = Cores::none();
    let cores = mapped::helpers(rows, row, cores, &alone);
    cores.in_order(
        slot.chunks_mut(at_once * row).enumerate(),
        || (Vec::new(), Ok(())),
        |(tool, outcome), (band, into)| *outcome = rows.read(tool, band * at_once, into),
        |(_, outcome)| std::mem::replace(outcome, Ok(())),
    )
}

/// Inverts levels: black becomes white.
fn invert(levels: &mut [u8]) {
    levels.iter_mut().for_each(|level| *level = !*level);
}

/// Returns the offset of the first element.
fn start(head: &[u8]) -> usize {
    if has_preamble(head) { PREAMBLE + MARK.len() } else { 0 }
}

/// Reads the file meta information, if there is any.
///
/// Returns the offset of the data set, and the transfer syntax.
fn meta(data: &mut Data<'_>, mut at: u64) -> Result<(u64, Option<String>), CodecError> {
    const LONGEST: u32 = 64;
    let mut uid = None;
    loop {
        // The data set may be of any encoding, and its first bytes those of any group.
        let Ok(&[g0, g1]) = data.at(at as usize, 2).map(|bytes| bytes.first_chunk().unwrap_or(&[0; 2]))
        else {
            return Err(dataset::truncated());
        };
        if u32::from(u16::from_le_bytes([g0, g1])) != tags::META {
            return Ok((at, uid));
        }
        let header = Header::read(data, at, Encoding::EXPLICIT).map_err(fault)?;
        let length = header.length.ok_or_else(|| malformed("its file meta information is damaged"))?;
        at += header.bytes as u64;
        if header.tag == tags::TRANSFER_SYNTAX && length <= LONGEST {
            let text = data.at(at as usize, length as usize).map_err(fault)?;
            uid = Some(String::from_utf8_lossy(text).trim_matches(['\0', ' ']).to_owned());
        }
        at += u64::from(length);
    }
}

/// Returns the encoding of a data set's elements.
///
/// Some files do not state it, or state another one.
fn encoding(data: &mut Data<'_>, start: u64, transfer: Transfer) -> Result<Encoding, CodecError> {
    let &[g0, g1, _, _, a, b] =
        data.at(start as usize, 6).map_err(fault)?.first_chunk().ok_or_else(dataset::truncated)?;
    let big_endian = transfer.big_endian || (g0 == 0 && g1 != 0);
    Ok(Encoding { explicit: is_type([a, b]), big_endian })
}

/// Returns the resolution, by the distances of rows and of columns in millimetres.
fn resolution(set: &DataSet) -> Option<Resolution> {
    let (rows, columns) = set.text(tags::PIXEL_SPACING)?.split_once('\\')?;
    let [x, y] = [columns, rows].map(|distance| distance.trim().parse::<f64>());
    Resolution::per_inch([25.4 / x.ok()?, 25.4 / y.ok()?])
}

/// Returns the kind of an object that is not a picture, by its class.
fn object(set: &DataSet) -> Option<Object> {
    set.text(tags::SOP_CLASS).and_then(Object::of_class)
}

/// Refuses objects that are not pictures, by their class.
fn refuse_object(set: &DataSet, target: &Target) -> Result<(), CodecError> {
    match object(set) {
        Some(Object::Segmentation) if target.segmentations => {
            if target.format_for(Format::Dicom) != Format::Dicom {
                return Ok(());
            }
            let remedy = "use --format png or tiff";
            Err(CodecError::cannot_represent(Format::Dicom, "the enhanced labels of a segmentation", remedy))
        }
        Some(object) => Err(CodecError::NoPicture(object)),
        None => Ok(()),
    }
}

/// Returns the error for a file without pixels.
fn without_pixels(set: &DataSet) -> CodecError {
    /// The records of a directory, a file that is always named DICOMDIR.
    const RECORDS: u32 = 0x0004_1220;
    if set.value(RECORDS).is_some() {
        CodecError::NotAPicture
    } else if set.value(tags::ROWS).is_some() {
        truncated_pixels()
    } else {
        // Only the rest of a file that is still being written would show which.
        malformed("it has no pixels: it is truncated, or a report or a plan; leave those out with --exclude")
    }
}

fn malformed(reason: impl Into<String>) -> CodecError {
    CodecError::malformed(Format::Dicom, reason)
}

fn truncated_pixels() -> CodecError {
    malformed("truncated: pixels are missing")
}

fn unsupported(what: impl Into<String>, remedy: &str) -> CodecError {
    CodecError::unsupported(what, remedy)
}
