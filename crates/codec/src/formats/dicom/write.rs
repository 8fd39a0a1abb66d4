//! Writing a derived image, with the elements of [`derived`](super::derived).

use std::fs::File;
use std::hash::Hasher;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use siphasher::sip128::Hasher128;

use super::derived::{Derived, Form, meta, new_hasher, uid};
use super::header::header;
use super::{Known, Native, invert, tags};
use crate::formats::elements::{MARK, PREAMBLE};
use crate::io::cores::Cores;
use crate::parts::pages::{PageOutput, PageSink};
use crate::samples::mapped::{BAND, Mapped};
use crate::samples::{pixels_of, swap_bytes};
use crate::{CodecError, Decoded, Derivation, Format, Target};
use equalize::{Depth, Layout};

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
    /// Whether the least value is white, as the file will state.
    white_is_least: bool,
    /// Whether the samples are the levels in reverse order, where they are not mapped.
    inverted: bool,
    /// Whether samples are values of the source's kind.
    keeps_values: bool,
    /// Bytes of a row of samples.
    row: u64,
    derivation: Option<Derivation>,
}

impl<'d> Ready<'d> {
    fn new(decoded: &'d Decoded, target: &Target) -> Result<Self, CodecError> {
        let Some(native) = decoded.native_of::<Native>() else {
            return Err(CodecError::encoder(Format::Dicom, "the source is not a DICOM"));
        };
        let (known, layout, mapped) = (&*native.known, decoded.layout, decoded.restored());
        let form = Form::new(known, &layout, mapped);
        let is_gray = layout.pixel.colour_channels() == 1;
        let row = u64::from(layout.width) * layout.pixel_bytes() as u64;
        let row = mapped.map_or(row, |mapped| mapped.form().row_bytes(&layout));
        let white_is_least = is_gray && known.white_is_least;
        let keeps_values = !native.is_shown && (mapped.is_some() || known.description.form().is_none());
        let inverted = if keeps_values { is_gray && native.inverted } else { white_is_least };
        let derivation = target.derivation;
        Ok(Self { known, layout, mapped, form, white_is_least, inverted, keeps_values, row, derivation })
    }

    /// Returns the bytes of the samples.
    fn bytes(&self) -> u64 {
        self.row * u64::from(self.layout.height)
    }

    /// Returns the facts of the levels in a slot that elements record.
    fn facts(&self, pixels: &[u8]) -> Facts {
        let range = match self.mapped {
            Some(mapped) => mapped.range_of(pixels, &self.layout),
            None => range_of_levels(pixels, &self.layout, self.inverted),
        };
        Facts { range, digest: self.digest(pixels) }
    }

    /// Returns a hash of the levels, their settings, and the UID of their source.
    fn digest(&self, pixels: &[u8]) -> u128 {
        let mut hasher = new_hasher();
        hasher.write(self.known.set.value(tags::SOP_INSTANCE).unwrap_or_default());
        hasher.write_u8(0);
        for number in [self.layout.width, self.layout.height, self.layout.pixel_bytes() as u32] {
            hasher.write(&number.to_le_bytes());
        }
        if let Some(derivation) = &self.derivation {
            hasher.write(&derivation.settings.to_le_bytes());
        }
        hasher.write(pixels);
        hasher.finish128().as_u128()
    }

    /// Returns the bytes before the samples in a file of `frames` frames, and the bytes after them.
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
        let (set, instance) = (&self.known.set, uid(facts.digest));
        let derived = Derived {
            source: self.known,
            form: self.form,
            is_gray: self.layout.pixel.colour_channels() == 1,
            white_is_least: self.white_is_least,
            keeps_values: self.keeps_values,
            range: facts.range,
            frames,
            instance: &instance,
            derivation: self.derivation,
        };
        let elements = derived.elements();
        let mut head = vec![0; PREAMBLE];
        head.extend(MARK);
        head.extend(meta(set, &instance));
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
        cores.in_order(
            pieces.into_iter(),
            Vec::new,
            |samples, piece| {
                piece.make_samples(samples);
                if is_big_endian {
                    swap_bytes(samples, mapped.form().kind.bytes());
                }
            },
            |samples| Ok(put(samples)?),
        )
    }
}

/// Facts of the new samples that elements record.
#[derive(Clone, Copy, Debug, Default)]
struct Facts {
    /// The least and the greatest sample that counts.
    range: Option<(f64, f64)>,
    /// A hash of all levels and of the source's UID.
    digest: u128,
}

impl Facts {
    /// Adds the facts of a frame, in any order.
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
}

/// Writes the levels in `slot`, or samples that are made of them.
pub(crate) fn encode(
    decoded: &Decoded,
    slot: &mut [u8],
    target: &Target,
    cores: &Cores,
    out: &mut File,
) -> Result<u64, CodecError> {
    let ready = Ready::new(decoded, target)?;
    let pixels = pixels_of(&decoded.layout, slot);
    let (head, behind) = ready.around(&ready.facts(pixels), 1)?;
    out.write_all(&head)?;
    ready.write_samples(pixels, cores, |samples| out.write_all(samples))?;
    out.write_all(&behind)?;
    Ok((head.len() + behind.len()) as u64 + ready.bytes())
}

/// Writes the frames of a file, each to its place, which does not depend on the others.
///
/// Elements about all frames are written last.
#[derive(Debug)]
pub(crate) struct Writer {
    count: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The offset of the samples, once it is known: elements may be long, and describe each frame.
    start: Option<u64>,
    facts: Facts,
    written: usize,
}

impl Writer {
    pub(super) fn new(count: usize) -> Self {
        Self { count, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the offset of the samples: the length of the elements before them, which does not
    /// depend on their values.
    fn start(&self, ready: &Ready<'_>) -> Result<u64, CodecError> {
        let mut state = self.state();
        if let Some(start) = state.start {
            return Ok(start);
        }
        let start = ready.around(&Facts::default(), self.count as u64)?.0.len() as u64;
        state.start = Some(start);
        Ok(start)
    }
}

impl PageSink for Writer {
    fn write(
        &self,
        index: usize,
        decoded: &Decoded,
        slot: &mut [u8],
        to: PageOutput<'_>,
    ) -> Result<Option<u64>, CodecError> {
        let (target, cores, out) = (to.target, to.help.cores, to.file(decoded)?);
        let ready = Ready::new(decoded, target)?;
        let pixels = pixels_of(&decoded.layout, slot);
        let facts = ready.facts(pixels);
        let start = self.start(&ready)?;
        let mut at = start + index as u64 * ready.bytes();
        ready.write_samples(pixels, cores, |samples| {
            out.write_all_at(samples, at)?;
            at += samples.len() as u64;
            Ok(())
        })?;
        let mut state = self.state();
        state.facts.join(index as u32, &facts);
        state.written += 1;
        if state.written < self.count {
            return Ok(None);
        }
        let (head, behind) = ready.around(&state.facts, self.count as u64)?;
        let end = start + self.count as u64 * ready.bytes();
        if head.len() as u64 != start {
            return Err(CodecError::encoder(
                Format::Dicom,
                "the description of the frames has another length",
            ));
        }
        out.write_all_at(&head, 0)?;
        out.write_all_at(&behind, end)?;
        Ok(Some(end + behind.len() as u64))
    }
}

/// Returns the least and the greatest of gray levels, as they are written.
fn range_of_levels(pixels: &[u8], layout: &Layout, inverted: bool) -> Option<(f64, f64)> {
    if layout.pixel.channels() != 1 {
        return None;
    }
    let (least, greatest) = match layout.depth {
        Depth::Eight => extremes(pixels.iter().map(|&level| level.into())),
        Depth::Sixteen => extremes(pixels.as_chunks().0.iter().map(|level| u16::from_ne_bytes(*level))),
    }?;
    let top = (layout.depth.levels() - 1) as u16;
    let (least, greatest) = if inverted { (top - greatest, top - least) } else { (least, greatest) };
    Some((least.into(), greatest.into()))
}

fn extremes(levels: impl Iterator<Item = u16> + Clone) -> Option<(u16, u16)> {
    Some((levels.clone().min()?, levels.max()?))
}
