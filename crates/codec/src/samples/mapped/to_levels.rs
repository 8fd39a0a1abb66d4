//! From samples to levels: rows are read, and samples that do not become levels are kept.

use std::mem;

use super::form::{Alpha, Form, of_share};
use super::hidden::Hidden;
use super::kind::{Value, with_values};
use super::mapping::Mapping;
use super::survey::{self, Survey};
use super::tables::{Found, FoundTable};
use super::{Mapped, Rows};
use crate::CodecError;
use crate::io::cores::Cores;
use crate::io::reader::resize;
use equalize::colour::Gray;
use equalize::{Layout, Level, Pixel};

/// The working memory of a thread for some rows.
struct Tool<T> {
    reader: T,
    rows: Vec<u8>,
    survey: Survey,
    hidden: Hidden,
    /// Whether any pixel was hidden.
    hides: bool,
    outcome: Result<(), CodecError>,
}

impl<T: Default> Tool<T> {
    fn new() -> Self {
        let (reader, survey, hidden) = (T::default(), Survey::default(), Hidden::default());
        Self { reader, rows: Vec::new(), survey, hidden, hides: false, outcome: Ok(()) }
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

    /// Makes levels of the rows that were read.
    ///
    /// Sets whether any pixel is hidden, and collects the hidden ones, up to the first row with too
    /// many of them.
    fn make_levels(
        &mut self,
        with: &ToLevels<'_>,
        levels: &mut [u8],
        row: usize,
        row_of_levels: usize,
    ) -> Result<(), CodecError> {
        (self.hidden, self.hides) = (Hidden::default(), false);
        for (samples, levels) in self.rows.chunks_exact(row).zip(levels.chunks_exact_mut(row_of_levels)) {
            let beyond =
                with_values!(with.form.kind, look_up_or_run(with, samples, levels, &mut self.hidden));
            if let Some(value) = beyond {
                return Err(with.form.refusal(value));
            }
            self.hides |= !self.hidden.is_empty();
            match with.most_kept {
                None => self.hidden.clear(),
                Some(most) if self.hidden.bytes() > most => break,
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// Returns the survey of the values of all rows.
///
/// If it is `without` a value, it only has the extremes.
pub(super) fn survey<R: Rows>(
    rows: &R,
    form: &Form,
    layout: &Layout,
    without: Option<f64>,
    cores: &Cores,
) -> Result<Survey, CodecError> {
    let (height, at_once) = (layout.height as usize, rows.at_once());
    let row = layout.width as usize * form.pixel_bytes();
    let (mut all, step) = (Survey::default(), survey::step(form, layout).filter(|_| without.is_none()));
    cores.in_order(
        0..height.div_ceil(at_once),
        Tool::new,
        |tool, band| {
            let first = band * at_once;
            tool.outcome = tool.read(rows, first, at_once.min(height - first), row);
            tool.survey = Survey::of_rows(form, &tool.rows, step, without);
        },
        |tool| {
            all.join(mem::take(&mut tool.survey));
            mem::replace(&mut tool.outcome, Ok(()))
        },
    )?;
    Ok(all)
}

impl Mapped {
    /// Fills the slot with levels, and keeps other samples. Returns whether any pixel is hidden.
    pub(super) fn fill<R: Rows>(
        &mut self,
        rows: &R,
        gray: Option<Gray>,
        layout: &Layout,
        slot: &mut [u8],
        cores: &Cores,
    ) -> Result<bool, CodecError> {
        let behind_bytes = self.form.behind() * self.form.kind.bytes();
        let (width, at_once) = (layout.width as usize, rows.at_once());
        let (row, row_of_levels) = (width * self.form.pixel_bytes(), width * layout.pixel_bytes());
        let mut kept = Vec::new();
        if self.restores {
            resize(&mut kept, layout.pixels() as usize * behind_bytes)?;
        }
        let mut behind = kept.chunks_mut(at_once.saturating_mul(width * behind_bytes).max(1));
        let bands = slot.chunks_mut(at_once.saturating_mul(row_of_levels));
        let bands = bands.map(|levels| (levels, behind.next().unwrap_or_default())).enumerate();
        let most = self.form.hidden_bytes(layout.pixels());
        let most_kept = self.restores.then_some(most);
        let Self { form, spread, .. } = &*self;
        let mapping = &spread.mapping;
        let are_as_stored = form.alpha != Some(Alpha::Premultiplied);
        let table = FoundTable::worth(form, mapping, layout.pixels()).filter(|_| are_as_stored);
        let to_levels = ToLevels { form, mapping, table, pixel: layout.pixel, gray, most_kept };
        let (mut hidden, mut hides) = (Hidden::default(), false);
        cores.in_order(
            bands,
            Tool::new,
            |tool, (band, (levels, behind))| {
                tool.outcome = tool.read(rows, band * at_once, levels.len() / row_of_levels, row);
                if tool.outcome.is_ok() {
                    tool.outcome = tool.make_levels(&to_levels, levels, row, row_of_levels);
                    keep_behind(&tool.rows, form.pixel_bytes(), behind, behind_bytes);
                }
            },
            |tool| {
                mem::replace(&mut tool.outcome, Ok(()))?;
                hides |= tool.hides;
                hidden.append(&tool.hidden, most)
            },
        )?;
        (self.hidden, self.behind) = (hidden, kept);
        Ok(hides)
    }
}

/// The rules for making levels of samples.
struct ToLevels<'f> {
    form: &'f Form,
    mapping: &'f Mapping,
    /// The levels of all samples, if they can be and were looked up in advance.
    table: Option<FoundTable>,
    /// The pixels of the levels.
    pixel: Pixel,
    /// The gray that is made of colours, if any.
    gray: Option<Gray>,
    /// The most bytes of hidden pixels that are kept, if samples are made again of the levels.
    most_kept: Option<u64>,
}

/// Makes the levels of some pixels. Returns a value without a level, if there is one.
fn look_up_or_run<V: Value>(
    with: &ToLevels<'_>,
    samples: &[u8],
    levels: &mut [u8],
    hidden: &mut Hidden,
) -> Option<f64> {
    let are_single = with.pixel == Pixel::Gray && with.form.pixel_bytes() == size_of::<V>();
    match &with.table {
        // A refused value is looked for again.
        Some(table) if are_single && !table.fill::<V>(samples, levels) => None,
        Some(table) => run::<V>(with, samples, levels, hidden, |sample, _| table.of::<V>(sample)),
        None => run::<V>(with, samples, levels, hidden, |sample, share| {
            Found::of(with.form, with.mapping, of_share::<V>(sample, share))
        }),
    }
}

/// Makes the levels of some pixels; `find` looks up a sample, given its share of alpha.
#[inline(always)]
fn run<V: Value>(
    with: &ToLevels<'_>,
    samples: &[u8],
    levels: &mut [u8],
    hidden: &mut Hidden,
    find: impl Fn(&[u8], f64) -> Found,
) -> Option<f64> {
    let ToLevels { form, pixel, gray, .. } = *with;
    let level = size_of::<V::Level>();
    let opaque = (form.kind.depth().levels() - 1) as u16;
    let mut beyond = None;
    let colour_bytes = form.colours * size_of::<V>();
    let channel = gray.and_then(Gray::channel).filter(|_| form.colours > 1);
    for (samples, levels) in
        samples.chunks_exact(form.pixel_bytes()).zip(levels.chunks_exact_mut(pixel.channels() * level))
    {
        let (mut stays, share) = (None, form.share_of::<V>(samples));
        for (at, sample) in samples[..colour_bytes].chunks_exact(size_of::<V>()).enumerate() {
            let found = find(sample, share);
            if stays.is_none() && !found.counts && channel.is_none_or(|channel| channel == at) {
                stays = Some(at * size_of::<V>());
            }
            if found.is_refused {
                beyond = Some(of_share::<V>(sample, share));
            }
            put::<V>(levels, at, found.level);
        }
        if !pixel.has_alpha() {
            continue;
        }
        let alpha = match (stays, form.alpha) {
            (Some(at), _) => {
                let kept =
                    if gray.is_some() { &samples[at..at + size_of::<V>()] } else { &samples[..colour_bytes] };
                hidden.add_staying(kept);
                0
            }
            (None, Some(_)) => {
                let alpha = form.alpha_of::<V>(samples);
                if alpha == 0.0 {
                    hidden.add_changing(if gray.is_some() { size_of::<V>() } else { colour_bytes });
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

/// Returns the level of alpha. Only an alpha of 0 becomes 0.
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
