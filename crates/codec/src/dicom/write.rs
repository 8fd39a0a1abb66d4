//! Writing a derived image (PS3.3, C.7.6.1.1.2): the elements of the source, but for those that describe the pixels, and those that would be
//! false: windows, tables and pictures made for the old values, overlays among their bits, signatures, checksums of groups.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::Hasher;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use siphasher::sip128::{Hasher128, SipHasher13};

use super::dataset::{DataSet, Encoding, Type, is_long};
use super::tags::{self, Tag};
use super::{Known, groups, invert, transfer};
use crate::cores::Cores;
use crate::format::dicom::{MARK, PREAMBLE};
use crate::mapped::{BAND, Mapped, Piece};
use crate::samples::swap_bytes;
use crate::{CodecError, Decoded, Format, Native as AnyNative, pixels_of};
use equalize::{Depth, Layout};

/// The UID of this program, made of a random UUID (PS3.5, B.2).
const IMPLEMENTATION: &str = "2.25.221637485960715533104982346671530274119";
const VERSION: &str = "HISTEQD";
/// The class of pictures of which nothing is known.
const SECONDARY_CAPTURE: &[u8] = b"1.2.840.10008.5.1.4.1.1.7";
const DERIVATION: &str = concat!("Contrast enhanced by histeqd ", env!("CARGO_PKG_VERSION"));
/// The most bytes of a short text.
const MAX_TEXT: usize = 1024;

/// Elements with their headers, by tag.
struct Elements {
    encoding: Encoding,
    encoded: BTreeMap<Tag, Vec<u8>>,
}

impl Elements {
    /// Puts an element in the place of any other of its tag. Values of odd length are padded.
    fn put(&mut self, tag: Tag, kind: &Type, value: &[u8]) {
        let padding: &[u8] = match kind {
            _ if value.len().is_multiple_of(2) => b"",
            b"UI" | b"OB" => b"\0",
            _ => b" ",
        };
        let mut encoded = header(self.encoding, tag, kind, (value.len() + padding.len()) as u32);
        encoded.extend_from_slice(value);
        encoded.extend_from_slice(padding);
        self.encoded.insert(tag, encoded);
    }

    fn put_number(&mut self, tag: Tag, number: u16) {
        self.put(tag, b"US", &number.to_le_bytes());
    }

    fn remove(&mut self, tag: Tag) {
        self.encoded.remove(&tag);
    }

    fn bytes(&self) -> usize {
        self.encoded.values().map(Vec::len).sum()
    }
}

/// Returns the header of an element with a value of so many bytes.
fn header(encoding: Encoding, tag: Tag, kind: &Type, length: u32) -> Vec<u8> {
    let mut header = Vec::new();
    header.extend(((tag >> 16) as u16).to_le_bytes());
    header.extend((tag as u16).to_le_bytes());
    if !encoding.explicit {
        header.extend(length.to_le_bytes());
    } else if is_long(*kind) {
        header.extend(kind);
        header.extend([0; 2]);
        header.extend(length.to_le_bytes());
    } else {
        header.extend(kind);
        header.extend((length as u16).to_le_bytes());
    }
    header
}

/// How samples are written.
#[derive(Clone, Copy)]
struct Form {
    tag: Tag,
    kind: Type,
    allocated: u16,
    stored: u16,
    signed: bool,
}

impl Form {
    fn new(known: &Known, layout: &Layout, mapped: Option<&Mapped>) -> Self {
        let Some(kind) = mapped.map(|mapped| mapped.form().kind) else {
            let bits = 8 * layout.depth.bytes() as u16;
            let kind = if bits == 8 { *b"OB" } else { *b"OW" };
            return Self { tag: tags::PIXEL_DATA, kind, allocated: bits, stored: bits, signed: false };
        };
        let allocated = 8 * kind.bytes() as u16;
        let (tag, own) = match (kind.is_float(), allocated) {
            (true, 32) => (tags::FLOATS, *b"OF"),
            (true, _) => (tags::DOUBLES, *b"OD"),
            (false, 8) => (tags::PIXEL_DATA, *b"OB"),
            (false, _) => (tags::PIXEL_DATA, *b"OW"),
        };
        let stored = known.description.stored as u16;
        Self { tag, kind: own, allocated, stored, signed: kind.is_signed() }
    }
}

/// A picture, or a frame of one, that is ready to be written.
struct Ready<'d> {
    known: &'d Known,
    layout: Layout,
    mapped: Option<&'d Mapped>,
    form: Form,
    /// Whether the least value is white.
    inverted: bool,
    /// Bytes of a row of samples.
    row: u64,
}

impl<'d> Ready<'d> {
    fn new(decoded: &'d Decoded) -> Result<Self, CodecError> {
        let AnyNative::Dicom(native) = &decoded.native else {
            return Err(CodecError::encoder(Format::Dicom, "the source is no DICOM"));
        };
        let (known, layout, mapped) = (&*native.known, decoded.layout, decoded.restored());
        let form = Form::new(known, &layout, mapped);
        let is_gray = layout.pixel.colour_channels() == 1;
        let row = u64::from(layout.width) * layout.pixel_bytes() as u64;
        let row = mapped.map_or(row, |mapped| mapped.form().row_bytes(&layout));
        let inverted = is_gray && known.description.is_inverted();
        Ok(Self { known, layout, mapped, form, inverted, row })
    }

    /// Returns the bytes of the samples.
    fn bytes(&self) -> u64 {
        self.row * u64::from(self.layout.height)
    }

    /// Returns what is to be told of the levels in a slot.
    fn facts(&self, pixels: &[u8]) -> Facts {
        let range = match self.mapped {
            Some(mapped) => mapped.range_of(pixels, &self.layout),
            None => range_of_levels(pixels, &self.layout, self.inverted),
        };
        Facts { range, digest: digest(&self.known.set, &self.layout, pixels) }
    }

    /// Returns what is before the samples in a file of `frames` frames, and what is behind them.
    fn around(&self, facts: &Facts, frames: u64) -> Result<(Vec<u8>, Vec<u8>), CodecError> {
        let length = self.bytes().saturating_mul(frames);
        let padded = u32::try_from(length.next_multiple_of(2)).ok().filter(|&bytes| bytes < u32::MAX);
        let padded = padded.ok_or_else(|| {
            CodecError::cannot_represent(
                Format::Dicom,
                format!("{length} bytes of pixels"),
                "use --format tiff",
            )
        })?;
        let instance = facts.instance();
        let mut elements = kept(&self.known.set);
        describe(&mut elements, self);
        if self.known.description.frames > 1 {
            elements.put(tags::FRAMES, b"IS", frames.to_string().as_bytes());
        }
        derive(&mut elements, &self.known.set, &instance);
        tell_range(&mut elements, self, facts);
        let mut head = vec![0; PREAMBLE];
        head.extend(MARK);
        head.extend(meta(&self.known.set, elements.encoding, &instance));
        let mut behind = vec![0; (u64::from(padded) - length) as usize];
        let pixels = header(elements.encoding, self.form.tag, &self.form.kind, padded);
        for (tag, element) in elements.encoded {
            if tag < self.form.tag { head.extend(element) } else { behind.extend(element) }
        }
        head.extend(pixels);
        Ok((head, behind))
    }

    /// Passes the samples that are made of the levels in a slot to `put`, in their order.
    fn write_samples(
        &self,
        pixels: &mut [u8],
        cores: &Cores,
        mut put: impl FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<(), CodecError> {
        let is_big_endian = cfg!(target_endian = "big");
        let Some(mapped) = self.mapped else {
            if self.inverted {
                // Deeper gray is mapped.
                invert(pixels);
            }
            if is_big_endian {
                swap_bytes(pixels, self.layout.depth.bytes());
            }
            return Ok(put(pixels)?);
        };
        let alone = Cores::none();
        let cores = if self.row > BAND as u64 { &alone } else { cores };
        let pieces = mapped.pieces(&self.layout, pixels, (BAND as u64 / self.row).max(1) as usize);
        let make = |samples: &mut Vec<u8>, piece: Piece<'_>| {
            piece.make_samples(samples);
            if is_big_endian {
                swap_bytes(samples, mapped.form().kind.bytes());
            }
        };
        cores.in_order(pieces.into_iter(), Vec::new, make, |samples| Ok(put(samples)?))
    }
}

/// What is told of the new samples.
#[derive(Clone, Copy, Debug, Default)]
struct Facts {
    /// The least and the greatest one that counts.
    range: Option<(f64, f64)>,
    /// A hash of all levels and of the source's UID.
    digest: u128,
}

impl Facts {
    /// Adds what is known of a frame, in whatever order they come.
    fn join(&mut self, frame: u32, other: &Self) {
        self.range = match (self.range, other.range) {
            (Some((least, greatest)), Some((low, high))) => Some((least.min(low), greatest.max(high))),
            (range, None) | (None, range) => range,
        };
        let mut hasher = new_hasher();
        hasher.write_u32(frame);
        hasher.write_u128(other.digest);
        self.digest = self.digest.wrapping_add(hasher.finish128().as_u128());
    }

    /// Returns a UID made of a UUID (PS3.5, B.2): the same for the same source and the same pixels, and another for any others. It has 44
    /// characters whatever they are.
    fn instance(&self) -> String {
        // Version 8, whose other bits are free (RFC 9562, 5.8). The highest bit makes it a number of 39 digits.
        let bits = self.digest & !(0xf << 76 | 0b11 << 62) | 8 << 76 | 0b10 << 62 | 1 << 127;
        format!("2.25.{bits}")
    }
}

/// Writes the levels in `slot`, or samples that are made of them.
pub(crate) fn encode(
    decoded: &Decoded,
    slot: &mut [u8],
    cores: &Cores,
    out: &mut File,
) -> Result<u64, CodecError> {
    let ready = Ready::new(decoded)?;
    let pixels = pixels_of(&decoded.layout, slot);
    let (head, behind) = ready.around(&ready.facts(pixels), 1)?;
    out.write_all(&head)?;
    ready.write_samples(pixels, cores, |samples| out.write_all(samples))?;
    out.write_all(&behind)?;
    Ok((head.len() + behind.len()) as u64 + ready.bytes())
}

/// Writes the frames of a file, each to its place, which depends on none of the others. What is told of all of them is written last.
#[derive(Debug)]
pub(crate) struct Writer {
    count: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    facts: Facts,
    written: usize,
}

impl Writer {
    pub(super) fn new(count: usize) -> Self {
        Self { count, state: Mutex::default() }
    }

    /// Writes a frame. Returns the bytes of the file once it is complete.
    pub(crate) fn write(
        &self,
        index: usize,
        decoded: &Decoded,
        slot: &mut [u8],
        cores: &Cores,
        out: &File,
    ) -> Result<Option<u64>, CodecError> {
        let ready = Ready::new(decoded)?;
        let pixels = pixels_of(&decoded.layout, slot);
        let facts = ready.facts(pixels);
        // Its length does not depend on what is told.
        let start = ready.around(&Facts::default(), self.count as u64)?.0.len() as u64;
        let mut at = start + index as u64 * ready.bytes();
        ready.write_samples(pixels, cores, |samples| {
            out.write_all_at(samples, at)?;
            at += samples.len() as u64;
            Ok(())
        })?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.facts.join(index as u32, &facts);
        state.written += 1;
        if state.written < self.count {
            return Ok(None);
        }
        let (head, behind) = ready.around(&state.facts, self.count as u64)?;
        let end = start + self.count as u64 * ready.bytes();
        if head.len() as u64 != start {
            return Err(CodecError::encoder(Format::Dicom, "what is told of the frames has another length"));
        }
        out.write_all_at(&head, 0)?;
        out.write_all_at(&behind, end)?;
        Ok(Some(end + behind.len() as u64))
    }
}

/// Returns the file meta information (PS3.10, 7.1).
fn meta(set: &DataSet, encoding: Encoding, instance: &str) -> Vec<u8> {
    let mut elements = Elements { encoding: Encoding::EXPLICIT, encoded: BTreeMap::new() };
    let class = set.value(tags::SOP_CLASS).map_or(SECONDARY_CAPTURE, <[u8]>::trim_ascii);
    elements.put(tags::META_VERSION, b"OB", &[0, 1]);
    elements.put(tags::META_CLASS, b"UI", class);
    elements.put(tags::META_INSTANCE, b"UI", instance.as_bytes());
    let transfer = if encoding.explicit { transfer::EXPLICIT } else { transfer::IMPLICIT };
    elements.put(tags::TRANSFER_SYNTAX, b"UI", transfer.as_bytes());
    elements.put(tags::IMPLEMENTATION, b"UI", IMPLEMENTATION.as_bytes());
    elements.put(tags::IMPLEMENTATION_NAME, b"SH", VERSION.as_bytes());
    let length = elements.bytes() as u32;
    elements.put(tags::META_LENGTH, b"UL", &length.to_le_bytes());
    elements.encoded.into_values().flatten().collect()
}

/// Returns the elements of the source that stay true.
fn kept(set: &DataSet) -> Elements {
    let mut elements = Elements { encoding: set.encoding, encoded: BTreeMap::new() };
    for (&tag, element) in &set.elements {
        if tags::is_untrue(tag) || is_lost_overlay(set, tag) {
            continue;
        }
        let value = &set.bytes[element.value.clone()];
        let groups = groups::GROUPS.contains(&tag).then(|| groups::without_windows(value, set.encoding));
        let encoded = match groups.flatten() {
            Some(groups) => [header(set.encoding, tag, b"SQ", u32::MAX), groups].concat(),
            None => [&set.bytes[element.header.clone()], value].concat(),
        };
        elements.encoded.insert(tag, encoded);
    }
    elements
}

/// Returns whether an element belongs to an overlay whose bits were among those of the pixels.
fn is_lost_overlay(set: &DataSet, tag: Tag) -> bool {
    const DATA: Tag = 0x3000;
    let group = tag >> 16;
    tags::OVERLAYS.contains(&group) && set.value(group << 16 | DATA).is_none()
}

/// Says what the pixels are.
fn describe(elements: &mut Elements, ready: &Ready<'_>) {
    let form = &ready.form;
    let is_gray = ready.layout.pixel.colour_channels() == 1;
    let photometric: &[u8] = match (is_gray, ready.inverted) {
        (true, true) => b"MONOCHROME1",
        (true, false) => b"MONOCHROME2",
        (false, _) => b"RGB",
    };
    elements.put_number(tags::SAMPLES, if is_gray { 1 } else { 3 });
    elements.put(tags::PHOTOMETRIC, b"CS", photometric);
    if is_gray {
        elements.remove(tags::PLANAR);
    } else {
        elements.put_number(tags::PLANAR, 0);
    }
    elements.put_number(tags::BITS_ALLOCATED, form.allocated);
    if form.tag == tags::PIXEL_DATA {
        elements.put_number(tags::BITS_STORED, form.stored);
        elements.put_number(tags::HIGH_BIT, form.stored - 1);
        elements.put_number(tags::REPRESENTATION, form.signed.into());
    }
    if ready.known.lossy {
        elements.put(tags::LOSSY, b"CS", b"01");
    }
}

/// Says what the picture was made from, and how.
fn derive(elements: &mut Elements, set: &DataSet, instance: &str) {
    let old = set.value(tags::IMAGE_TYPE).unwrap_or_default().trim_ascii();
    let further = old.split(|&byte| byte == b'\\').skip(2);
    let kind: Vec<&[u8]> = [&b"DERIVED"[..], b"SECONDARY"].into_iter().chain(further).collect();
    elements.put(tags::IMAGE_TYPE, b"CS", &kind.join(&b'\\'));
    let mut how = set.value(tags::DERIVATION).unwrap_or_default().trim_ascii().to_vec();
    if !how.is_empty() && how.len() + 2 + DERIVATION.len() <= MAX_TEXT {
        how.extend(b"; ");
    } else {
        how.clear();
    }
    how.extend(DERIVATION.as_bytes());
    elements.put(tags::DERIVATION, b"ST", &how);
    let (class, source) = (set.value(tags::SOP_CLASS), set.value(tags::SOP_INSTANCE));
    if let (Some(class), Some(source)) = (class, source) {
        let mut item = Elements { encoding: elements.encoding, encoded: BTreeMap::new() };
        item.put(tags::REFERENCED_CLASS, b"UI", class);
        item.put(tags::REFERENCED_INSTANCE, b"UI", source);
        let mut value = header(Encoding::IMPLICIT, tags::ITEM, b"UN", item.bytes() as u32);
        value.extend(item.encoded.into_values().flatten());
        elements.put(tags::SOURCE_IMAGES, b"SQ", &value);
    }
    if set.value(tags::SOP_CLASS).is_none() {
        elements.put(tags::SOP_CLASS, b"UI", SECONDARY_CAPTURE);
    }
    elements.put(tags::SOP_INSTANCE, b"UI", instance.as_bytes());
}

/// Says what the least and the greatest value are, if they have 16 bits, and has programs show what lies between them.
fn tell_range(elements: &mut Elements, ready: &Ready<'_>, facts: &Facts) {
    let (form, set) = (&ready.form, &ready.known.set);
    let keeps_values = ready.mapped.is_some() || ready.known.description.form().is_none();
    if !keeps_values {
        let of_old_values = [
            tags::RESCALE_INTERCEPT,
            tags::RESCALE_SLOPE,
            tags::RESCALE_TYPE,
            tags::PADDING,
            tags::PADDING_LIMIT,
        ];
        of_old_values.into_iter().for_each(|tag| elements.remove(tag));
    } else if set.value(tags::RESCALE_TYPE).is_some() {
        // They are no Hounsfield units any more.
        elements.put(tags::RESCALE_TYPE, b"LO", b"US");
    }
    let is_gray = ready.layout.pixel.colour_channels() == 1;
    if !is_gray || form.tag != tags::PIXEL_DATA || form.allocated > 16 {
        return;
    }
    let (least, greatest) = facts.range.unwrap_or_default();
    if set.value(tags::SMALLEST).is_some() || set.value(tags::LARGEST).is_some() {
        let kind = if form.signed { b"SS" } else { b"US" };
        for (tag, value) in [(tags::SMALLEST, least), (tags::LARGEST, greatest)] {
            elements.put(tag, kind, &(value as i32 as u16).to_le_bytes());
        }
    }
    // A window is given in rescaled values (PS3.3, C.11.2.1.2): its lower end is at center - width / 2, its upper one at center + width / 2 - 1.
    let number = |tag, usual: f64| match set.text(tag) {
        Some(text) if keeps_values => text.parse().unwrap_or(f64::NAN),
        _ => usual,
    };
    let (slope, intercept) = (number(tags::RESCALE_SLOPE, 1.0), number(tags::RESCALE_INTERCEPT, 0.0));
    if slope == 1.0 && intercept.is_finite() {
        let (center, width) = ((least + greatest + 1.0) / 2.0 + intercept, greatest - least + 1.0);
        for (tag, value) in [(tags::WINDOW_CENTER, center), (tags::WINDOW_WIDTH, width)] {
            // As long as such a number may be, whatever it is.
            let text = format!("{value:<16}");
            elements.put(tag, b"DS", text.get(..16).unwrap_or_default().as_bytes());
        }
    }
}

/// Returns the least and the greatest of 8-bit gray levels, as they are written.
fn range_of_levels(pixels: &[u8], layout: &Layout, inverted: bool) -> Option<(f64, f64)> {
    if layout.depth != Depth::Eight || layout.pixel.channels() != 1 {
        return None;
    }
    let (least, greatest) = (pixels.iter().min()?, pixels.iter().max()?);
    let [least, greatest] = if inverted { [!greatest, !least] } else { [*least, *greatest] };
    Some((least.into(), greatest.into()))
}

fn new_hasher() -> SipHasher13 {
    SipHasher13::new_with_keys(0x6869_7374_6571_6400, 0)
}

/// Returns a hash of the levels of a picture, and of the UID of its source.
fn digest(set: &DataSet, layout: &Layout, pixels: &[u8]) -> u128 {
    let mut hasher = new_hasher();
    hasher.write(set.value(tags::SOP_INSTANCE).unwrap_or_default());
    hasher.write_u8(0);
    for number in [layout.width, layout.height, layout.pixel_bytes() as u32] {
        hasher.write(&number.to_le_bytes());
    }
    hasher.write(pixels);
    hasher.finish128().as_u128()
}
