//! Pictures with samples that are not levels: signed or long integers, and floats.
//!
//! Long integers have more than 16 bits.
//!
//! Devices work on levels. Decoding therefore puts levels into the slot that stand for the samples,
//! and encoding makes samples of the new levels, of the same type and in the same range. A
//! [`mapping`] is the line between the two. Its ends are those of the type for signed integers of 8
//! and 16 bits, and otherwise the least and the greatest value of the picture, for which its rows
//! are read once more.
//!
//! A pixel stays as it is, bit by bit, and does not count if one of its colours is not a number,
//! infinite or the no-data value. It has an alpha of 0 in the slot, as has one that is transparent,
//! and is kept in [`hidden`]. If a picture has no alpha of its own, the slot has a mask in its
//! place: 0 or the highest level.

use crate::io::cores::{Cores, SMALL_CHANGE};
use crate::io::reader::resize;
use crate::samples::size::Size;
use crate::samples::{drop_last, pixels_of};
use crate::target::range::Range;
use crate::{CodecError, LevelCount};
use equalize::colour::Gray;
use equalize::{Layout, Pixel};

mod average;
mod form;
pub(crate) mod half;
mod hidden;
pub(crate) mod kind;
mod mapping;
mod means;
mod spread;
mod survey;
mod tables;
mod to_levels;
mod to_samples;
mod without_data;

#[cfg(feature = "zarr")]
pub(crate) use average::Average;
pub(crate) use form::{Alpha, Form, NoData};
use hidden::Hidden;
pub(crate) use kind::Kind;
use kind::Value;
pub(crate) use kind::with_values;
pub(crate) use means::{Boxes, Cut, Pixels};
pub(crate) use spread::{SharedSpread, Spread};
pub(crate) use to_samples::Piece;

/// Returns the bytes of heap that an encoder takes for rows of `row` bytes.
///
/// The rows themselves are included if they are not pixels in a slot.
pub(crate) fn bytes_of_rows(row: u64) -> u64 {
    const ROWS: u64 = 6;
    ROWS.saturating_mul(row)
}

/// A thread reads about this many bytes of samples at a time.
pub(crate) const BAND: usize = 512 << 10;

/// Rows of samples that can be read in any order, and more than once.
pub(crate) trait Rows: Sync {
    /// The working memory of a thread for reading.
    type Tool: Default + Send;

    /// Returns the number of rows to be read at a time.
    fn at_once(&self) -> usize;

    /// Returns the bytes of heap that a tool takes.
    fn tool_bytes(&self) -> u64;

    /// Fills `into` with rows from number `first` on, a multiple of [`Rows::at_once`].
    ///
    /// Their samples are in native byte order.
    fn read(&self, tool: &mut Self::Tool, first: usize, into: &mut [u8]) -> Result<(), CodecError>;
}

/// Returns the bytes of heap for reading rows of this many bytes.
pub(crate) fn heap_bytes(rows: &impl Rows, row: usize) -> u64 {
    rows.tool_bytes().saturating_add(rows.at_once().saturating_mul(row) as u64)
}

/// Returns the cores for rows of this many bytes: `alone` if each took more than small change.
pub(crate) fn helpers<'c>(rows: &impl Rows, row: usize, cores: &'c Cores, alone: &'c Cores) -> &'c Cores {
    if heap_bytes(rows, row) <= SMALL_CHANGE { cores } else { alone }
}

/// The use of samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purpose {
    /// The values between which levels are spread, if they are not the picture's own.
    pub(crate) range: Option<Range>,
    /// The spread of levels over the whole picture, if these are only some of its rows.
    pub(crate) of_all: Option<Spread>,
    /// The gray that is made of colours, if any.
    pub(crate) gray: Option<Gray>,
    /// Whether samples are made again of the new levels.
    pub(crate) restores: bool,
    /// The number of levels that samples are taken to have.
    pub(crate) levels: LevelCount,
}

/// The samples of a picture in levels: the part that is needed for making samples again.
#[derive(Debug)]
pub(crate) struct Mapped {
    form: Form,
    pub(crate) spread: Spread,
    /// The sample of each level, in native byte order; empty if that many do not pay.
    samples: Vec<u8>,
    hidden: Hidden,
    /// The samples after the colours.
    behind: Vec<u8>,
    /// Whether alpha is a mask, and not the picture's own.
    pub(crate) is_masked: bool,
    /// Whether samples are made again of the levels.
    pub(crate) restores: bool,
}

/// Puts levels into the front of `slot`, with the help of idle cores.
///
/// The picture has `size` pixels across and down. Returns the layout of the levels.
pub(crate) fn decode<R: Rows>(
    rows: &R,
    form: Form,
    size: Size,
    purpose: Purpose,
    slot: &mut [u8],
    cores: &Cores,
) -> Result<(Layout, Mapped), CodecError> {
    let form = form.with_levels(purpose.levels);
    let layout = form.layout(size);
    let alone = Cores::none();
    let cores = helpers(rows, size.width as usize * form.pixel_bytes(), cores, &alone);
    let spread = match purpose.of_all {
        Some(spread) => spread,
        None => Spread::of(rows, &form, size, purpose.range, cores)?,
    };
    let is_masked = form.may_mask() && form.alpha.is_none();
    let mut mapped = Mapped {
        form,
        spread,
        samples: Vec::new(),
        hidden: Hidden::default(),
        behind: Vec::new(),
        is_masked,
        restores: purpose.restores,
    };
    if mapped.restores {
        mapped.samples = mapped.samples_of_levels(layout.pixels())?;
    }
    let slot = pixels_of(&layout, slot);
    let hides = mapped.fill(rows, purpose.gray, &layout, slot, cores)?;
    if is_masked && !hides {
        return Ok((mapped.unmask(slot, layout), mapped));
    }
    Ok((layout, mapped))
}

impl Mapped {
    /// Removes the mask from the pixels at the front of `slot`. Returns their layout without it.
    fn unmask(&mut self, slot: &mut [u8], layout: Layout) -> Layout {
        self.is_masked = false;
        let pixel = if layout.pixel.colour_channels() == 1 { Pixel::Gray } else { Pixel::Rgb };
        let without = Layout { pixel, ..layout };
        drop_last(slot, layout.pixel_bytes(), without.pixel_bytes());
        without
    }

    /// Returns the sample that a level stands for.
    #[inline(always)]
    fn sample<V: Value>(&self, level: u16) -> V {
        match self.samples.get(usize::from(level) * size_of::<V>()..) {
            Some(samples) if samples.len() >= size_of::<V>() => {
                bytemuck::pod_read_unaligned(&samples[..size_of::<V>()])
            }
            _ => self.nearest(level),
        }
    }

    fn nearest<V: Value>(&self, level: u16) -> V {
        let top = self.form.top();
        V::nearest(self.spread.mapping.value(if self.form.inverted { top - level } else { level }))
    }

    /// Returns the samples of all levels, if that many pay for so many pixels.
    fn samples_of_levels(&self, pixels: u64) -> Result<Vec<u8>, CodecError> {
        fn fill<V: Value>(mapped: &Mapped, samples: &mut [u8]) {
            for (level, sample) in samples.chunks_exact_mut(size_of::<V>()).enumerate() {
                sample.copy_from_slice(bytemuck::bytes_of(&mapped.nearest::<V>(level as u16)));
            }
        }
        let mut samples = Vec::new();
        resize(&mut samples, self.form.samples_bytes(pixels))?;
        with_values!(self.form.kind, fill(self, &mut samples));
        Ok(samples)
    }

    /// Returns the bytes of heap in use.
    pub(crate) fn heap_bytes(&self) -> u64 {
        self.hidden.bytes() + (self.behind.len() + self.samples.len()) as u64
    }

    /// Returns whether there is a channel that is neither colour nor alpha.
    pub(crate) fn has_other(&self) -> bool {
        self.form.others > 0
    }

    /// Returns whether levels are of another kind than the samples, and not only more or fewer.
    pub(crate) fn changes_kind(&self) -> bool {
        !matches!(self.form.kind, Kind::Unsigned8 | Kind::Unsigned16)
    }

    pub(crate) fn form(&self) -> &Form {
        &self.form
    }
}
