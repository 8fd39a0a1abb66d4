//! The model and the codes of a scan (T.87, annex A).
//!
//! Names are the standard's, unless noted otherwise.

use super::bits::Bits;
use super::{Frame, Interleave, Preset};
use crate::CodecError;
use crate::formats::jpeg::malformed;

/// The orders of the codes of runs (A.2.1).
const J: [u32; 32] =
    [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Contexts for samples outside runs.
const CONTEXTS: usize = 365;

/// The constants of a scan.
pub(super) struct Parameters {
    /// The greatest sample.
    most: i32,
    /// The greatest error of a sample.
    near: i32,
    thresholds: [i32; 3],
    reset: i32,
    range: i32,
    /// Bits of an error that is written directly.
    error_bits: u32,
    /// The most bits of a code.
    limit: u32,
}

impl Parameters {
    pub(super) fn new(frame: &Frame, preset: Preset, near: i32) -> Result<Self, CodecError> {
        let deepest = (1 << frame.precision) - 1;
        let most = if preset.most == 0 { deepest } else { preset.most.into() };
        if most > deepest || near > most / 2 {
            return Err(malformed("its parameters are damaged"));
        }
        // C.2.4.1.1.
        let mut thresholds = preset.thresholds.map(i32::from);
        let mut least = near + 1;
        for (threshold, (basic, near_factor, floor)) in
            thresholds.iter_mut().zip([(3, 3, 2), (7, 5, 3), (21, 7, 4)])
        {
            if *threshold == 0 {
                let usual = if most >= 128 {
                    let factor = (most.min(4095) + 128) / 256;
                    factor * (basic - floor) + floor + near_factor * near
                } else {
                    floor.max(basic / (256 / (most + 1)) + near_factor * near)
                };
                *threshold = if (least..=most).contains(&usual) { usual } else { least };
            }
            least = *threshold;
        }
        let [t1, t2, t3] = thresholds;
        let is_sorted = near < t1 && t1 <= t2 && t2 <= t3 && t3 <= most;
        let reset = if preset.reset == 0 { 64 } else { i32::from(preset.reset) };
        if !is_sorted || reset < 3 {
            return Err(malformed("its parameters are damaged"));
        }
        let range = (most + 2 * near) / (2 * near + 1) + 1;
        let bits = (most as u32 + 1).next_power_of_two().trailing_zeros().max(2);
        let error_bits = (range as u32).next_power_of_two().trailing_zeros();
        let limit = 2 * (bits + bits.max(8));
        Ok(Self { most, near, thresholds, reset, range, error_bits, limit })
    }

    /// Quantizes a difference between neighbours (A.3.3).
    #[inline(always)]
    fn quantized(&self, difference: i32) -> i32 {
        let [t1, t2, t3] = self.thresholds;
        let size = difference.abs();
        let level = i32::from(size > self.near)
            + i32::from(size >= t1)
            + i32::from(size >= t2)
            + i32::from(size >= t3);
        if difference < 0 { -level } else { level }
    }

    /// Adds an error to a prediction (A.4.5).
    #[inline(always)]
    fn reconstructed(&self, predicted: i32, error: i32) -> i32 {
        let step = 2 * self.near + 1;
        let mut value = predicted + error * step;
        if value < -self.near {
            value += self.range * step;
        } else if value > self.most + self.near {
            value -= self.range * step;
        }
        value.clamp(0, self.most)
    }
}

/// The statistics of the samples in one context.
#[derive(Clone, Copy)]
struct Context {
    a: i32,
    b: i32,
    c: i32,
    n: i32,
}

/// The statistics of the samples at the ends of runs.
#[derive(Clone, Copy)]
struct RunContext {
    a: i32,
    n: i32,
    /// The number of negative errors.
    negative: i32,
}

/// The variable state of a scan.
struct Model<'p, 'b> {
    parameters: &'p Parameters,
    bits: Bits<'b>,
    contexts: Vec<Context>,
    run_contexts: [RunContext; 2],
}

/// Two lines of a component, each with an extra sample at either end.
struct Lines {
    above: Vec<i32>,
    current: Vec<i32>,
    /// The place in the orders of runs.
    run: usize,
}

impl Lines {
    fn new(width: usize) -> Self {
        Self { above: vec![0; width + 2], current: vec![0; width + 2], run: 0 }
    }

    /// Begins a line below the current one.
    fn begin(&mut self) {
        std::mem::swap(&mut self.above, &mut self.current);
        let width = self.above.len() - 2;
        self.above[width + 1] = self.above[width];
        self.current[0] = self.above[1];
    }

    /// Returns the neighbours of a sample.
    ///
    /// They are to the left, above, above to the left and above to the right.
    #[inline(always)]
    fn neighbours(&self, at: usize) -> [i32; 4] {
        [self.current[at - 1], self.above[at], self.above[at - 1], self.above[at + 1]]
    }
}

/// Reads a scan into the samples of pixels, for the components at these places.
///
/// Returns the bytes after it; `None` if it is damaged.
pub(super) fn read<'b>(
    data: &'b [u8],
    frame: &Frame,
    parameters: &Parameters,
    places: &[usize],
    interleave: Interleave,
    samples: &mut [u16],
) -> Option<&'b [u8]> {
    let mut model = Model::new(parameters, data);
    let mut lines: Vec<Lines> = places.iter().map(|_| Lines::new(frame.width)).collect();
    for row in samples.chunks_exact_mut(frame.width * frame.count) {
        lines.iter_mut().for_each(Lines::begin);
        match interleave {
            Interleave::Samples => model.read_pixels(&mut lines)?,
            Interleave::None | Interleave::Lines => {
                lines.iter_mut().try_for_each(|lines| model.read_line(lines))?;
            }
        }
        if model.bits.is_beyond() {
            return None;
        }
        for (lines, place) in lines.iter().zip(places) {
            for (to, &value) in row.iter_mut().skip(*place).step_by(frame.count).zip(&lines.current[1..]) {
                *to = value as u16;
            }
        }
    }
    model.bits.finish()
}

impl<'p, 'b> Model<'p, 'b> {
    fn new(parameters: &'p Parameters, data: &'b [u8]) -> Self {
        let a = ((parameters.range + 32) / 64).max(2);
        Self {
            parameters,
            bits: Bits::new(data),
            contexts: vec![Context { a, b: 0, c: 0, n: 1 }; CONTEXTS],
            run_contexts: [RunContext { a, n: 1, negative: 0 }; 2],
        }
    }

    /// Reads a line of one component.
    fn read_line(&mut self, lines: &mut Lines) -> Option<()> {
        let width = lines.current.len() - 2;
        let mut at = 1;
        while at <= width {
            let neighbours = lines.neighbours(at);
            let context = self.context(neighbours);
            if context != 0 {
                lines.current[at] = self.regular(neighbours, context)?;
                at += 1;
                continue;
            }
            let length = self.run_length(&mut lines.run, width + 1 - at)?;
            let before = lines.current[at - 1];
            lines.current[at..at + length].fill(before);
            at += length;
            if at <= width {
                let above = lines.above[at];
                let is_near = (before - above).abs() <= self.parameters.near;
                lines.current[at] = self.interruption(before, above, is_near, &mut lines.run)?;
                at += 1;
            }
        }
        Some(())
    }

    /// Reads a line of pixels with interleaved samples.
    ///
    /// These are in a run only together.
    fn read_pixels(&mut self, lines: &mut [Lines]) -> Option<()> {
        let width = lines[0].current.len() - 2;
        let mut at = 1;
        while at <= width {
            if lines.iter().any(|lines| self.context(lines.neighbours(at)) != 0) {
                for lines in lines.iter_mut() {
                    let neighbours = lines.neighbours(at);
                    lines.current[at] = self.regular(neighbours, self.context(neighbours))?;
                }
                at += 1;
                continue;
            }
            let mut run = lines[0].run;
            let length = self.run_length(&mut run, width + 1 - at)?;
            for lines in lines.iter_mut() {
                let before = lines.current[at - 1];
                lines.current[at..at + length].fill(before);
            }
            at += length;
            if at <= width {
                let order = run;
                for lines in lines.iter_mut() {
                    let (before, above) = (lines.current[at - 1], lines.above[at]);
                    run = order;
                    lines.current[at] = self.interruption(before, above, false, &mut run)?;
                }
                at += 1;
            }
            lines[0].run = run;
        }
        Some(())
    }

    /// Returns the number of the context of a sample with these neighbours, with a sign.
    ///
    /// It is 0 if the sample is in a run.
    #[inline(always)]
    fn context(&self, [left, above, corner, right]: [i32; 4]) -> i32 {
        let parameters = self.parameters;
        81 * parameters.quantized(right - above)
            + 9 * parameters.quantized(above - corner)
            + parameters.quantized(corner - left)
    }

    /// Reads a sample outside runs (A.4 to A.6).
    #[inline(always)]
    fn regular(&mut self, [left, above, corner, _]: [i32; 4], signed: i32) -> Option<i32> {
        let parameters = self.parameters;
        let sign = if signed < 0 { -1 } else { 1 };
        let context = &mut self.contexts[signed.unsigned_abs() as usize];
        let (least, most) = (left.min(above), left.max(above));
        let edge = if corner >= most {
            least
        } else if corner <= least {
            most
        } else {
            left + above - corner
        };
        let predicted = (edge + sign * context.c).clamp(0, parameters.most);
        let order = order(context.n, context.a)?;
        let code = code(&mut self.bits, order, parameters.limit, parameters.error_bits)?;
        let is_turned = parameters.near == 0 && order == 0 && 2 * context.b <= -context.n;
        let half = (code >> 1).cast_signed();
        let error = match (code & 1, is_turned) {
            (0, false) | (1, true) => half,
            (_, _) => -half - 1,
        };
        context.b += error * (2 * parameters.near + 1);
        context.a = context.a.saturating_add(error.abs());
        if context.n == parameters.reset {
            (context.a, context.b, context.n) = (context.a >> 1, context.b >> 1, context.n >> 1);
        }
        context.n += 1;
        if context.b <= -context.n {
            context.b = (context.b + context.n).max(1 - context.n);
            context.c = (context.c - 1).max(-128);
        } else if context.b > 0 {
            context.b = (context.b - context.n).min(0);
            context.c = (context.c + 1).min(127);
        }
        Some(parameters.reconstructed(predicted, sign * error))
    }

    /// Reads the length of a run; `left` samples remain in the line (A.7.1).
    fn run_length(&mut self, run: &mut usize, left: usize) -> Option<usize> {
        let mut length = 0;
        while self.bits.take(1) == 1 {
            let whole = 1 << J[*run];
            if whole > left - length {
                // The run goes on to the end of the line.
                return Some(left);
            }
            length += whole;
            *run = (*run + 1).min(31);
            if length == left {
                return Some(left);
            }
        }
        length += self.bits.take(J[*run]) as usize;
        (length < left).then_some(length)
    }

    /// Reads the sample that ends a run (A.7.2).
    ///
    /// `is_near` is set if its neighbours are alike.
    fn interruption(&mut self, left: i32, above: i32, is_near: bool, run: &mut usize) -> Option<i32> {
        let parameters = self.parameters;
        let kind = i32::from(is_near);
        let context = &mut self.run_contexts[usize::from(is_near)];
        let order = order(context.n, context.a + if is_near { context.n >> 1 } else { 0 })?;
        let limit = parameters.limit - J[*run] - 1;
        let code = code(&mut self.bits, order, limit, parameters.error_bits)?.cast_signed();
        let (twice, odd) = (code + kind, (code + kind) & 1 == 1);
        let size = (twice + i32::from(odd)) / 2;
        let expects_negative = order != 0 || 2 * context.negative >= context.n;
        let error = if expects_negative == odd { -size } else { size };
        if error < 0 {
            context.negative += 1;
        }
        context.a = context.a.saturating_add((code + 1 - kind) >> 1);
        if context.n == parameters.reset {
            (context.a, context.n, context.negative) =
                (context.a >> 1, context.n >> 1, context.negative >> 1);
        }
        context.n += 1;
        *run = run.saturating_sub(1);
        if is_near {
            return Some(parameters.reconstructed(left, error));
        }
        let sign = if left > above { -1 } else { 1 };
        Some(parameters.reconstructed(above, sign * error))
    }
}

/// Returns the order of a code (A.5.1); `None` if damaged data led to it.
#[inline(always)]
fn order(n: i32, a: i32) -> Option<u32> {
    (0..32).find(|&order| i64::from(n) << order >= i64::from(a))
}

/// Reads a limited Golomb code (A.5.3).
#[inline(always)]
fn code(bits: &mut Bits<'_>, order: u32, limit: u32, error_bits: u32) -> Option<u32> {
    let zeros = bits.zeros()?;
    if zeros < limit - error_bits - 1 {
        return Some(zeros << order | bits.take(order)).filter(|code| *code <= 1 << 20);
    }
    Some(bits.take(error_bits) + 1)
}
