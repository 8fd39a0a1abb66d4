//! A model for samples that are not levels, slow and plain: from little-endian bytes to
//! little-endian bytes.

use std::sync::OnceLock;

use equalize::{Depth, Layout, Pixel};

/// A type of samples: TIFF's tag SampleFormat (1 unsigned, 2 signed, 3 float), and bits.
pub(super) type Kind = (u16, u16);

pub(super) const KINDS: [Kind; 10] =
    [(2, 8), (2, 16), (2, 32), (2, 64), (1, 24), (1, 32), (1, 64), (3, 16), (3, 32), (3, 64)];

fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let size = match exponent {
        0 => fraction / 1024.0 * 2_f64.powi(-14),
        31 if fraction > 0.0 => f64::NAN,
        31 => f64::INFINITY,
        _ => (1.0 + fraction / 1024.0) * 2_f64.powi(exponent - 15),
    };
    if bits > 0x7fff { -size } else { size }
}

/// Returns the value of a sample.
pub(super) fn value((format, bits): Kind, sample: &[u8]) -> f64 {
    let mut bytes = [0; 8];
    bytes[..sample.len()].copy_from_slice(sample);
    let whole = u64::from_le_bytes(bytes);
    match format {
        1 => whole as f64,
        2 => (whole << (64 - bits)).cast_signed() as f64 / 2_f64.powi(64 - i32::from(bits)),
        _ if bits == 16 => half(whole as u16),
        _ if bits == 32 => f64::from(f32::from_bits(whole as u32)),
        _ => f64::from_bits(whole),
    }
}

/// Every finite half that is not negative, in order.
static HALVES: OnceLock<Vec<f64>> = OnceLock::new();

/// Returns the sample that is nearest to a value.
pub(super) fn sample((format, bits): Kind, value: f64) -> Vec<u8> {
    let bytes = usize::from(bits / 8);
    let most = 2_f64.powi(i32::from(bits));
    match format {
        1 => ((value + 0.5).floor().clamp(0.0, most - 1.0) as u64).to_le_bytes()[..bytes].to_vec(),
        2 => ((value + 0.5).floor().clamp(-most / 2.0, most / 2.0 - 1.0) as i64).to_le_bytes()[..bytes]
            .to_vec(),
        _ if bits == 16 => {
            let finite = HALVES.get_or_init(|| (0..0x7c00).map(half).collect());
            let above = finite.partition_point(|half| *half <= value.abs()) as u16;
            let below = above - 1;
            let is_up = match (half(above.min(0x7bff)) - value.abs()) - (value.abs() - half(below)) {
                0.0 => below & 1 == 1,
                difference => difference < 0.0,
            };
            let nearest = if is_up && above < 0x7c00 { above } else { below };
            (nearest | if value.is_sign_negative() { 0x8000 } else { 0 }).to_le_bytes().to_vec()
        }
        _ if bits == 32 => (value as f32).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    }
}

/// The levels of a picture's colours; the flags of each pixel: hidden, and unchanged; and the
/// values of the lowest and highest level.
type Levels = (Vec<u32>, Vec<(bool, bool)>, (f64, f64));

/// The way a picture is processed.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub(super) kind: Kind,
    pub(super) colours: usize,
    /// The kind of the sample after the colours, as TIFF's tag ExtraSamples gives it.
    pub(super) extra: Option<u16>,
    pub(super) no_data: Option<f64>,
    pub(super) range: Option<(f64, f64)>,
    pub(super) inverted: bool,
}

impl How {
    pub(super) const fn new(kind: Kind, colours: usize) -> Self {
        Self { kind, colours, extra: None, no_data: None, range: None, inverted: false }
    }

    pub(super) fn pixel_bytes(self) -> usize {
        (self.colours + usize::from(self.extra.is_some())) * usize::from(self.kind.1 / 8)
    }

    fn counts(self, value: f64) -> bool {
        value.is_finite() && Some(value) != self.no_data
    }

    fn levels(self, picture: &[u8]) -> Levels {
        let bytes = usize::from(self.kind.1 / 8);
        let pixels = || picture.chunks_exact(self.pixel_bytes());
        let colours = |pixel: &[u8]| -> Vec<f64> {
            pixel.chunks_exact(bytes).take(self.colours).map(|s| value(self.kind, s)).collect()
        };
        let values: Vec<f64> = pixels().flat_map(colours).collect();
        let counted = values.iter().copied().filter(|&value| self.counts(value));
        let (low, high) = match self.kind {
            (2, bits @ (8 | 16)) => {
                (-(2_f64.powi(i32::from(bits) - 1)), 2_f64.powi(i32::from(bits) - 1) - 1.0)
            }
            _ => self.range.unwrap_or_else(|| {
                let ends = counted.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                    (low.min(value), high.max(value))
                });
                if ends.0 > ends.1 { (0.0, 0.0) } else { ends }
            }),
        };
        let top = f64::from(self.top());
        let level = |&value: &f64| {
            let value = if value.is_nan() { low } else { value.clamp(low, high) };
            let level =
                if low == high { 0.0 } else { ((value - low) / (high - low) * top + 0.5).floor() } as u32;
            if self.inverted { self.top() - level } else { level }
        };
        let hidden = pixels().zip(values.chunks_exact(self.colours)).map(|(pixel, colours)| {
            let stays = !colours.iter().all(|&value| self.counts(value));
            let is_clear = self.extra == Some(2) && value(self.kind, &pixel[self.colours * bytes..]) == 0.0;
            (stays || is_clear, stays)
        });
        (values.iter().map(level).collect(), hidden.collect(), (low, high))
    }

    fn top(self) -> u32 {
        if self.kind == (2, 8) { 255 } else { 65_535 }
    }

    /// Returns the samples of a picture that is equalized globally on its luma.
    pub(super) fn equalized(self, picture: &[u8]) -> Vec<u8> {
        let (levels, hidden, (low, high)) = self.levels(picture);
        let luma = |pixel: &[u32]| match *pixel {
            [r, g, b] => {
                ((19_595 * u64::from(r) + 38_470 * u64::from(g) + 7_471 * u64::from(b) + 32_768) >> 16) as u32
            }
            _ => pixel[0],
        };
        let lumas: Vec<u32> = levels.chunks_exact(self.colours).map(luma).collect();
        let counted = lumas.iter().zip(&hidden).filter(|(_, (is_hidden, _))| !is_hidden);
        let lut = lut(counted.map(|(luma, _)| *luma), self.top());
        let top = f64::from(self.top());
        let mut made = Vec::new();
        let pixels = picture.chunks_exact(self.pixel_bytes()).zip(levels.chunks_exact(self.colours));
        for ((pixel, levels), (luma, (_, stays))) in pixels.zip(lumas.iter().zip(hidden)) {
            let colours = self.colours * usize::from(self.kind.1 / 8);
            if stays {
                made.extend(&pixel[..colours]);
            } else {
                let shift = i64::from(lut[*luma as usize]) - i64::from(*luma);
                for level in levels {
                    let new = (i64::from(*level) + shift).clamp(0, self.top().into()) as u32;
                    let new = if self.inverted { self.top() - new } else { new };
                    let of = |level: u32| sample(self.kind, low + f64::from(level) / top * (high - low));
                    made.extend(self.avoiding(new, of));
                }
            }
            made.extend(&pixel[colours..]);
        }
        made
    }

    /// Returns the sample of a level, which is not the no-data value: the next up, or down from the
    /// top.
    fn avoiding(self, level: u32, sample_of: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
        let is_none = |sample: &Vec<u8>| self.no_data == Some(value(self.kind, sample));
        let up = (level..=self.top()).map(&sample_of).find(|sample| !is_none(sample));
        up.or_else(|| (0..level).rev().map(&sample_of).find(|sample| !is_none(sample)))
            .unwrap_or(sample_of(level))
    }

    /// Returns the layout of the levels of a picture with or without hidden pixels.
    pub(super) fn layout(self, width: u32, height: u32, hides: bool) -> Layout {
        let pixel = match (self.colours, hides || self.extra == Some(2)) {
            (1, false) => Pixel::Gray,
            (1, true) => Pixel::GrayAlpha,
            (_, false) => Pixel::Rgb,
            (_, true) => Pixel::Rgba,
        };
        let depth = if self.kind == (2, 8) { Depth::Eight } else { Depth::Sixteen };
        Layout { width, height, pixel, depth }
    }
}

/// The table of global equalization.
fn lut(levels: impl Iterator<Item = u32>, top: u32) -> Vec<u32> {
    let mut counts = vec![0_u64; top as usize + 1];
    levels.for_each(|level| counts[level as usize] += 1);
    let first = counts.iter().position(|&count| count > 0).unwrap_or(0);
    let rest = counts.iter().sum::<u64>() - counts[first];
    if rest == 0 {
        return (0..=top).collect();
    }
    let mut sum = 0;
    let entry = |(at, count): (usize, &u64)| {
        sum += if at > first { count } else { &0 };
        ((2 * sum * u64::from(top) + rest) / (2 * rest)) as u32
    };
    counts.iter().enumerate().map(entry).collect()
}
