//! Pictures whose samples are no levels: signed integers, integers of more than 16 bits, and floats.
//!
//! Devices work on levels, so decoding puts levels into the slot that stand for the samples, and encoding makes samples of the new levels,
//! of the same type and in the same range. A [`mapping`] is the line between the two. Its ends are those of the type for signed integers of
//! 8 and 16 bits, and otherwise the least and the greatest value of the picture, for which its rows are read once more.
//!
//! A pixel stays as it is, bit by bit, and does not count if one of its colours is not a number, infinite or the no-data value. It has an
//! alpha of 0 in the slot, as has one that is transparent, and is kept in [`hidden`]. If a picture has no alpha of its own, what is in its
//! place in the slot is a mask: 0 or the highest level.

use std::mem;

use super::cores::{Cores, SMALL_CHANGE};
use super::range::Range;
use super::reader::resize;
use super::samples::drop_last;
use super::{CodecError, LevelCount, pixels_of};
use equalize::{Layout, Level, Levels, Pixel};

mod half;
mod hidden;
mod kind;
mod mapping;
mod without_data;

use hidden::{Hidden, Place};
pub(super) use kind::Kind;
use kind::{Value, with_values};
use mapping::{Extremes, Mapping};

/// A thread reads about this many bytes of samples at a time.
pub(super) const BAND: usize = 512 << 10;

/// What alpha is to the colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alpha {
    /// The colours are as they are.
    Straight,
    /// The colours have been multiplied by it.
    Premultiplied,
}

/// The values of samples that are none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NoData {
    least: f64,
    greatest: f64,
}

impl NoData {
    /// That value alone.
    pub(super) fn value(value: f64) -> Self {
        Self::between(value, value)
    }

    /// All values from one to the other, whichever is less.
    pub(super) fn between(one: f64, other: f64) -> Self {
        Self { least: one.min(other), greatest: one.max(other) }
    }

    #[inline(always)]
    pub(super) fn has(self, value: f64) -> bool {
        self.least <= value && value <= self.greatest
    }

    /// Returns whether they are more than one.
    fn are_several(self) -> bool {
        self.least < self.greatest
    }
}

/// The pixels of a file whose samples are no levels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) kind: Kind,
    /// The samples of a pixel that are colours: 1 or 3.
    pub(super) colours: usize,
    /// What the first sample behind them is to them, if it is alpha.
    pub(super) alpha: Option<Alpha>,
    /// The samples behind those, which are anything else.
    pub(super) others: usize,
    /// Whether the least value is white.
    pub(super) inverted: bool,
    /// The values of samples that are none.
    pub(super) no_data: Option<NoData>,
    /// The values of the lowest and of the highest level, if they are not the least and the greatest of the picture.
    pub(super) ends: Option<(f64, f64)>,
    /// How many levels the file says that there are.
    pub(super) stated: Option<u32>,
    /// How many levels there are.
    pub(super) levels: Levels,
    /// Whether values beyond the ends are refused.
    pub(super) is_bounded: bool,
}

impl Form {
    /// Returns the form with so many levels, one for each value; the same if samples are floats or long, or there are as many levels as they
    /// have room for. If samples are `reduced` to fewer bits afterwards, all levels of these are used, from the lowest value to the highest.
    pub(super) fn with_levels(self, count: LevelCount, reduced: bool) -> Self {
        let number = match count {
            LevelCount::Full => None,
            LevelCount::Stated => self.stated,
            LevelCount::Number(number) => Some(number.into()),
        };
        let is_short = self.kind.bytes() <= 2 && !self.kind.is_float();
        let Some(number) = number.filter(|_| is_short) else { return self };
        let number = number.min(self.kind.depth().levels() as u32);
        let least = if self.kind.is_signed() { -f64::from(number / 2) } else { 0.0 };
        let levels = if reduced { Levels::All } else { Levels::first(number, self.kind.depth()) };
        let ends = Some((least, least + f64::from(number - 1)));
        Self { ends, levels, is_bounded: true, ..self }
    }

    /// Returns the highest level.
    fn top(&self) -> u16 {
        (self.levels.number(self.kind.depth()) - 1) as u16
    }

    /// Returns whether a value is refused because there is no level for it.
    #[inline(always)]
    fn refuses(&self, value: f64) -> bool {
        self.is_bounded
            && self.ends.is_some_and(|(low, high)| value < low || value > high)
            && counts(self, value)
    }

    /// Returns the bytes of a pixel in the file.
    pub(super) fn pixel_bytes(&self) -> usize {
        (self.colours + self.behind()) * self.kind.bytes()
    }

    /// Returns the number of samples behind the colours. They come back as they were.
    fn behind(&self) -> usize {
        usize::from(self.alpha.is_some()) + self.others
    }

    /// Returns the layout of the levels in the slot, as if some pixels had to stay as they are.
    pub(super) fn layout(&self, width: u32, height: u32) -> Layout {
        let layout = self.visible(width, height);
        let pixel = match layout.pixel {
            Pixel::Gray if self.may_mask() => Pixel::GrayAlpha,
            Pixel::Rgb if self.may_mask() => Pixel::Rgba,
            pixel => pixel,
        };
        Layout { pixel, ..layout }
    }

    /// Returns the layout of the levels without a mask.
    pub(super) fn visible(&self, width: u32, height: u32) -> Layout {
        let pixel = match (self.colours, self.alpha) {
            (1, Some(_)) => Pixel::GrayAlpha,
            (1, None) => Pixel::Gray,
            (_, Some(_)) => Pixel::Rgba,
            (_, None) => Pixel::Rgb,
        };
        Layout { width, height, pixel, depth: self.kind.depth() }
    }

    /// Returns whether pixels may have to stay as they are.
    fn may_mask(&self) -> bool {
        self.kind.is_float() || self.no_data.is_some()
    }

    /// Returns the bytes of a row of samples, if pixels have the colours of a layout.
    pub(super) fn row_bytes(&self, layout: &Layout) -> u64 {
        let samples = layout.pixel.colour_channels() + self.behind();
        u64::from(layout.width) * (samples * self.kind.bytes()) as u64
    }

    /// Returns the most bytes of heap in use until the picture is encoded, if it has this many pixels.
    pub(super) fn kept_bytes(&self, pixels: u64) -> u64 {
        let behind = pixels.saturating_mul((self.behind() * self.kind.bytes()) as u64);
        behind.saturating_add(self.hidden_bytes(pixels))
    }

    /// Returns the most bytes that hidden pixels may take: enough for any picture of which not nearly every pixel differs from the one before,
    /// or for any at all if several values are none.
    fn hidden_bytes(&self, pixels: u64) -> u64 {
        const FEW: u64 = 4 << 10;
        const RUN: u64 = size_of::<u32>() as u64;
        let colours = (self.colours * self.kind.bytes()) as u64;
        let has_hidden = self.may_mask() || self.alpha.is_some();
        match self.no_data {
            _ if !has_hidden => 0,
            Some(no_data) if no_data.are_several() => pixels.saturating_mul(colours + RUN) + FEW,
            _ => pixels.saturating_mul(colours) / 2 + FEW,
        }
    }
}

/// Rows of samples that can be read in any order, and more than once.
pub(super) trait Rows: Sync {
    /// What a thread needs for reading.
    type Tool: Default + Send;

    /// Returns how many rows are to be read at a time.
    fn at_once(&self) -> usize;

    /// Returns the bytes of heap that a tool takes.
    fn tool_bytes(&self) -> u64;

    /// Fills `into` with rows from number `first` on, which is a multiple of [`Rows::at_once`]. Their samples are in native byte order.
    fn read(&self, tool: &mut Self::Tool, first: usize, into: &mut [u8]) -> Result<(), CodecError>;
}

/// Returns the bytes of heap for reading rows of this many bytes.
pub(super) fn heap_bytes(rows: &impl Rows, row: usize) -> u64 {
    rows.tool_bytes().saturating_add(rows.at_once().saturating_mul(row) as u64)
}

/// What is made of samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purpose {
    /// The values between which levels are spread, if they are not the picture's own.
    pub(super) range: Option<Range>,
    /// Whether one gray sample is made of all colours.
    pub(super) gray: bool,
    /// Whether samples are made again of the new levels.
    pub(super) restores: bool,
    /// How many levels samples are taken to have.
    pub(super) levels: LevelCount,
    /// Whether levels are rounded to fewer bits before they are counted.
    pub(super) reduces: bool,
}

/// What is remembered of a picture whose levels stand for samples.
#[derive(Debug)]
pub(super) struct Mapped {
    form: Form,
    mapping: Mapping,
    hidden: Hidden,
    /// The samples behind the colours.
    behind: Vec<u8>,
    /// Whether alpha is a mask, and not the picture's own.
    pub(super) is_masked: bool,
    /// Whether samples are made again of the levels.
    pub(super) restores: bool,
    /// Whether levels are spread over the picture's own range.
    pub(super) has_own_range: bool,
}

/// What a thread uses for some rows.
struct Tool<T> {
    reader: T,
    rows: Vec<u8>,
    extremes: Extremes,
    hidden: Hidden,
    /// Whether any pixel was hidden.
    hides: bool,
    outcome: Result<(), CodecError>,
}

impl<T: Default> Tool<T> {
    fn new() -> Self {
        let (reader, extremes, hidden) = (T::default(), Extremes::NONE, Hidden::default());
        Self { reader, rows: Vec::new(), extremes, hidden, hides: false, outcome: Ok(()) }
    }

    /// Reads rows of `row` bytes from number `first` on.
    fn read(
        &mut self,
        source: &impl Rows<Tool = T>,
        first: usize,
        rows: usize,
        row: usize,
    ) -> Result<(), CodecError> {
        resize(&mut self.rows, rows * row)?;
        source.read(&mut self.reader, first, &mut self.rows)
    }
}

/// Puts levels into the front of `slot`, with the help of idle cores. The picture has `size` pixels across and down. Returns the layout of
/// the levels.
pub(super) fn decode<R: Rows>(
    rows: &R,
    form: Form,
    (width, height): (u32, u32),
    purpose: Purpose,
    slot: &mut [u8],
    cores: &Cores,
) -> Result<(Layout, Mapped), CodecError> {
    let form = form.with_levels(purpose.levels, purpose.reduces);
    let layout = form.layout(width, height);
    let alone = Cores::none();
    let cores =
        if heap_bytes(rows, width as usize * form.pixel_bytes()) <= SMALL_CHANGE { cores } else { &alone };
    let mapping = match (form.ends, purpose.range) {
        (Some(ends), _) => Mapping::of_ends(form.top(), ends),
        (None, Some(range)) => Mapping::of_range(form.top(), range),
        (None, None) => Mapping::of_extremes(form.top(), extremes(rows, &form, &layout, cores)?),
    };
    let is_masked = form.may_mask() && form.alpha.is_none();
    let mut mapped = Mapped {
        form,
        mapping,
        hidden: Hidden::default(),
        behind: Vec::new(),
        is_masked,
        restores: purpose.restores,
        has_own_range: form.ends.is_none() && purpose.range.is_none(),
    };
    let slot = pixels_of(&layout, slot);
    let hides = mapped.fill(rows, purpose.gray, &layout, slot, cores)?;
    if is_masked && !hides {
        return Ok((mapped.unmask(slot, layout), mapped));
    }
    Ok((layout, mapped))
}

/// Returns the least and the greatest value of all rows.
fn extremes<R: Rows>(rows: &R, form: &Form, layout: &Layout, cores: &Cores) -> Result<Extremes, CodecError> {
    let (height, at_once) = (layout.height as usize, rows.at_once());
    let row = layout.width as usize * form.pixel_bytes();
    let work = |tool: &mut Tool<R::Tool>, band: usize| {
        let first = band * at_once;
        tool.outcome = tool.read(rows, first, at_once.min(height - first), row);
        tool.extremes = with_values!(form.kind, extremes_of(form, &tool.rows));
    };
    let mut all = Extremes::NONE;
    cores.in_order(0..height.div_ceil(at_once), Tool::new, work, |tool| {
        all.join(tool.extremes);
        mem::replace(&mut tool.outcome, Ok(()))
    })?;
    Ok(all)
}

fn extremes_of<V: Value>(form: &Form, rows: &[u8]) -> Extremes {
    let mut extremes = Extremes::NONE;
    for pixel in rows.chunks_exact(form.pixel_bytes()) {
        for sample in colours_of::<V>(form, pixel).filter(|sample| counts(form, *sample)) {
            extremes.add(sample);
        }
    }
    extremes
}

/// Returns the values of a pixel's colours, without the alpha that they have been multiplied by.
#[inline(always)]
fn colours_of<V: Value>(form: &Form, pixel: &[u8]) -> impl Iterator<Item = f64> {
    let share = match form.alpha {
        Some(Alpha::Premultiplied) => alpha_of::<V>(form, pixel) / V::OPAQUE,
        _ => 1.0,
    };
    let colours = pixel.chunks_exact(size_of::<V>()).take(form.colours);
    let values = colours.map(|sample| bytemuck::pod_read_unaligned::<V>(sample).value());
    values.map(move |value| if share == 0.0 { value } else { value / share })
}

/// Returns the value of a pixel's alpha.
#[inline(always)]
fn alpha_of<V: Value>(form: &Form, pixel: &[u8]) -> f64 {
    let at = form.colours * size_of::<V>();
    bytemuck::pod_read_unaligned::<V>(&pixel[at..at + size_of::<V>()]).value()
}

#[inline(always)]
fn counts(form: &Form, sample: f64) -> bool {
    sample.is_finite() && !form.no_data.is_some_and(|no_data| no_data.has(sample))
}

impl Mapped {
    /// Fills the slot with levels, and keeps what does not become one. Returns whether any pixel is hidden.
    fn fill<R: Rows>(
        &mut self,
        rows: &R,
        gray: bool,
        layout: &Layout,
        slot: &mut [u8],
        cores: &Cores,
    ) -> Result<bool, CodecError> {
        let (kind, restores) = (self.form.kind, self.restores);
        let behind_bytes = self.form.behind() * kind.bytes();
        let (width, at_once) = (layout.width as usize, rows.at_once());
        let (row, row_of_levels) = (width * self.form.pixel_bytes(), width * layout.pixel_bytes());
        let mut kept = Vec::new();
        if restores {
            resize(&mut kept, layout.pixels() as usize * behind_bytes)?;
        }
        let mut behind = kept.chunks_mut(at_once.saturating_mul(width * behind_bytes).max(1));
        let bands = slot.chunks_mut(at_once.saturating_mul(row_of_levels));
        let bands = bands.map(|levels| (levels, behind.next().unwrap_or_default())).enumerate();
        let to_levels = ToLevels { form: &self.form, mapping: &self.mapping, pixel: layout.pixel, gray };
        let most = self.form.hidden_bytes(layout.pixels());
        let work = |tool: &mut Tool<R::Tool>, (band, (levels, behind)): (usize, (&mut [u8], &mut [u8]))| {
            (tool.hidden, tool.hides) = (Hidden::default(), false);
            tool.outcome = tool.read(rows, band * at_once, levels.len() / row_of_levels, row);
            if tool.outcome.is_ok() {
                let pairs = tool.rows.chunks_exact(row).zip(levels.chunks_exact_mut(row_of_levels));
                for (samples, levels) in pairs {
                    let beyond = with_values!(kind, run(&to_levels, samples, levels, &mut tool.hidden));
                    if let Some(sample) = beyond {
                        tool.outcome = Err(super::levels::beyond(sample, usize::from(self.form.top()) + 1));
                        break;
                    }
                    tool.hides |= !tool.hidden.is_empty();
                    if !restores {
                        tool.hidden.clear();
                    } else if tool.hidden.bytes() > most {
                        break;
                    }
                }
                keep_behind(&tool.rows, self.form.pixel_bytes(), behind, behind_bytes);
            }
        };
        let (mut hidden, mut hides) = (Hidden::default(), false);
        cores.in_order(bands, Tool::new, work, |tool| {
            mem::replace(&mut tool.outcome, Ok(()))?;
            hides |= tool.hides;
            hidden.append(&tool.hidden, most)
        })?;
        (self.hidden, self.behind) = (hidden, kept);
        Ok(hides)
    }

    /// Takes the mask out of the pixels at the front of `slot`. Returns their layout without it.
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
        let top = self.form.top();
        V::nearest(self.mapping.value(if self.form.inverted { top - level } else { level }))
    }

    /// Returns the bytes of heap in use.
    pub(super) fn heap_bytes(&self) -> u64 {
        self.hidden.bytes() + self.behind.len() as u64
    }

    /// Returns whether there is a channel that is neither colour nor alpha.
    pub(super) fn has_other(&self) -> bool {
        self.form.others > 0
    }

    /// Returns whether levels are of another kind than the samples, and not only more or fewer.
    pub(super) fn changes_kind(&self) -> bool {
        !matches!(self.form.kind, Kind::Unsigned8 | Kind::Unsigned16)
    }

    /// Returns the least and the greatest value that the levels of a picture stand for, of the pixels that count.
    pub(super) fn range_of(&self, pixels: &[u8], layout: &Layout) -> Option<(f64, f64)> {
        with_values!(self.form.kind, range_of(self, pixels, layout))
    }

    pub(super) fn form(&self) -> &Form {
        &self.form
    }

    /// Returns pieces of `rows` rows, from top to bottom, of which samples can be made.
    pub(super) fn pieces<'p>(&'p self, layout: &Layout, pixels: &'p [u8], rows: usize) -> Vec<Piece<'p>> {
        let width = layout.width as usize;
        let (pixel, mut place) = (layout.pixel, Place::default());
        let mut behind =
            self.behind.chunks((rows * width * self.form.behind() * self.form.kind.bytes()).max(1));
        let piece = |levels: &'p [u8]| {
            let piece =
                Piece { mapped: self, pixel, levels, behind: behind.next().unwrap_or_default(), place };
            place = self.hidden.after(place, piece.hidden_pixels());
            piece
        };
        pixels.chunks(rows * width * layout.pixel_bytes()).map(piece).collect()
    }
}

fn range_of<V: Value>(mapped: &Mapped, pixels: &[u8], layout: &Layout) -> Option<(f64, f64)> {
    let (level, colours) = (size_of::<V::Level>(), layout.pixel.colour_channels());
    let visible = pixels
        .chunks_exact(layout.pixel_bytes())
        .filter(|pixel| !layout.pixel.has_alpha() || !is_hidden(pixel, level));
    let levels = visible.flat_map(|pixel| pixel.chunks_exact(level).take(colours));
    let levels = levels.map(|sample| bytemuck::pod_read_unaligned::<V::Level>(sample).level() as u16);
    let (least, greatest) =
        levels.fold((u16::MAX, 0), |(least, greatest), level| (least.min(level), greatest.max(level)));
    let value = |level: u16| mapped.sample::<V>(level).value();
    let (one, other) = (value(least), value(greatest));
    (least <= greatest).then(|| (one.min(other), one.max(other)))
}

/// How levels are made of samples.
struct ToLevels<'f> {
    form: &'f Form,
    mapping: &'f Mapping,
    /// The pixels of the levels.
    pixel: Pixel,
    /// Whether one gray sample is made of all colours.
    gray: bool,
}

/// Makes the levels of some pixels. Returns a value that has none, if there is one.
fn run<V: Value>(with: &ToLevels<'_>, samples: &[u8], levels: &mut [u8], hidden: &mut Hidden) -> Option<f64> {
    let ToLevels { form, mapping, pixel, gray } = *with;
    let level = size_of::<V::Level>();
    let (top, opaque) = (form.top(), (form.kind.depth().levels() - 1) as u16);
    let mut beyond = None;
    let colour_bytes = form.colours * size_of::<V>();
    for (samples, levels) in
        samples.chunks_exact(form.pixel_bytes()).zip(levels.chunks_exact_mut(pixel.channels() * level))
    {
        let mut stays = None;
        for (at, value) in colours_of::<V>(form, samples).enumerate() {
            if stays.is_none() && !counts(form, value) {
                stays = Some(at * size_of::<V>());
            }
            if form.refuses(value) {
                beyond = Some(value);
            }
            let found = mapping.level(value);
            put::<V>(levels, at, if form.inverted { top - found } else { found });
        }
        if !pixel.has_alpha() {
            continue;
        }
        let alpha = match (stays, form.alpha) {
            (Some(at), _) => {
                let kept = if gray { &samples[at..at + size_of::<V>()] } else { &samples[..colour_bytes] };
                hidden.add_staying(kept);
                0
            }
            (None, Some(_)) => {
                let alpha = alpha_of::<V>(form, samples);
                if alpha == 0.0 {
                    hidden.add_changing(if gray { size_of::<V>() } else { colour_bytes });
                }
                alpha_level::<V>(alpha, opaque)
            }
            (None, _) => opaque,
        };
        put::<V>(levels, pixel.channels() - 1, alpha);
    }
    beyond
}

#[inline(always)]
fn put<V: Value>(levels: &mut [u8], at: usize, level: u16) {
    let bytes = size_of::<V::Level>();
    levels[at * bytes..][..bytes].copy_from_slice(bytemuck::bytes_of(&V::Level::from_level(level.into())));
}

/// Returns the level of alpha. Only none at all is 0.
fn alpha_level<V: Value>(alpha: f64, top: u16) -> u16 {
    let level = (alpha / V::OPAQUE * f64::from(top) + 0.5).clamp(0.0, f64::from(top)) as u16;
    if alpha == 0.0 { 0 } else { level.max(1) }
}

/// Copies the last `bytes` bytes of pixels, if there is room for them.
fn keep_behind(rows: &[u8], pixel: usize, behind: &mut [u8], bytes: usize) {
    for (to, pixel) in behind.chunks_exact_mut(bytes.max(1)).zip(rows.chunks_exact(pixel)) {
        to.copy_from_slice(&pixel[pixel.len() - bytes..]);
    }
}

/// Rows of levels, of which samples can be made.
#[derive(Clone, Copy)]
pub(super) struct Piece<'p> {
    mapped: &'p Mapped,
    pixel: Pixel,
    levels: &'p [u8],
    /// The samples behind the colours.
    behind: &'p [u8],
    /// The place of the first hidden pixel from here on.
    place: Place,
}

impl Piece<'_> {
    /// Returns how many pixels are hidden.
    fn hidden_pixels(&self) -> u64 {
        let level = self.mapped.form.kind.depth().bytes();
        if self.mapped.hidden.is_empty() || !self.pixel.has_alpha() {
            return 0;
        }
        let pixels = self.levels.chunks_exact(self.pixel.channels() * level);
        pixels.filter(|pixel| is_hidden(pixel, level)).count() as u64
    }

    /// Replaces the content of `into` by the samples, in native byte order.
    pub(super) fn make_samples(&self, into: &mut Vec<u8>) {
        with_values!(self.mapped.form.kind, make_samples(self, into));
    }
}

/// Returns whether the last sample of a pixel, which is alpha, is 0.
#[inline(always)]
fn is_hidden(pixel: &[u8], level: usize) -> bool {
    pixel[pixel.len() - level..].iter().all(|&byte| byte == 0)
}

fn make_samples<V: Value>(piece: &Piece<'_>, into: &mut Vec<u8>) {
    let Piece { mapped, pixel, levels, behind, mut place } = *piece;
    let (colours, level) = (pixel.colour_channels(), size_of::<V::Level>());
    let mut behind = behind.chunks_exact((mapped.form.behind() * size_of::<V>()).max(1));
    into.clear();
    for levels in levels.chunks_exact(pixel.channels() * level) {
        let hidden = if pixel.has_alpha() && is_hidden(levels, level) {
            mapped.hidden.next(&mut place, colours * size_of::<V>())
        } else {
            None
        };
        if let Some(samples) = hidden {
            into.extend_from_slice(samples);
        } else {
            for sample in levels.chunks_exact(level).take(colours) {
                let found = bytemuck::pod_read_unaligned::<V::Level>(sample).level() as u16;
                into.extend_from_slice(bytemuck::bytes_of(&mapped.sample::<V>(found)));
            }
        }
        into.extend_from_slice(behind.next().unwrap_or_default());
    }
}
