//! Conversion between RGB and the planes of a JPEG.
//!
//! Chroma is upsampled and downsampled, and colours are converted, as in libjpeg-turbo, sample for
//! sample (jdsample.c, jdcolor.c, jcsample.c, jccolor.c).

use super::coding::zeros;
use super::libjpeg::{Plane, Space};
use super::markers::{Factors, largest_factors};
use super::planes::{Cover, PlaneSize};
use super::{BLOCK, vectorized};

/// Fraction bits of the conversion factors.
const BITS: i32 = 16;

/// Returns a factor with [`BITS`] fraction bits.
const fn fixed(factor: f64) -> i32 {
    (factor * (1 << BITS) as f64 + 0.5) as i32
}

/// Half of a unit, which rounds to the nearest.
const HALF: i32 = 1 << (BITS - 1);

/// The sampling of a picture's planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sampled {
    size: PlaneSize,
    /// The pixels that a sample of the second plane, and of the third, covers.
    covers: [Cover; 2],
}

impl Sampled {
    /// Returns the sampling of a picture with these sampling factors.
    ///
    /// `None` unless the first component has a sample for each pixel, and its factors are multiples
    /// of those of the others.
    pub(super) fn new(size: PlaneSize, components: &[Factors]) -> Option<Self> {
        let [first, others @ ..] = components else { return None };
        let others: &[Factors; 2] = others.try_into().ok()?;
        let is_whole = others.iter().all(|other| {
            first.horizontal.is_multiple_of(other.horizontal) && first.vertical.is_multiple_of(other.vertical)
        });
        let is_most = (first.horizontal, first.vertical) == largest_factors(components);
        let covers = others.map(|other| {
            let cover = |most: u8, own: u8| usize::from(most / own.max(1));
            Cover {
                across: cover(first.horizontal, other.horizontal),
                down: cover(first.vertical, other.vertical),
            }
        });
        (is_whole && is_most).then_some(Self { size, covers })
    }

    /// Returns the sizes of the planes, without padding.
    fn sizes(&self) -> [PlaneSize; 3] {
        let [blue, red] = self.covers.map(|cover| cover.size(self.size));
        [self.size, blue, red]
    }

    /// Returns the sizes of the planes, with chroma padded to whole blocks across.
    ///
    /// libjpeg pads pixels there, not samples.
    fn padded_sizes(&self) -> [PlaneSize; 3] {
        let [first, second, third] = self.sizes();
        let padded =
            |size: PlaneSize| PlaneSize { width: size.width.next_multiple_of(BLOCK), rows: size.rows };
        [first, padded(second), padded(third)]
    }

    /// Returns the bytes of the planes.
    pub(super) fn bytes(&self) -> u64 {
        self.padded_sizes().map(|size| size.bytes() as u64).iter().sum()
    }
}

/// The planes of a picture of three components.
pub(super) struct Planes {
    sizes: [PlaneSize; 3],
    samples: [Vec<u8>; 3],
}

impl Planes {
    /// Makes planes of zeros, to decode into. `None` if memory runs out.
    pub(super) fn zeros(sampled: &Sampled) -> Option<Self> {
        Self::of_sizes(sampled.sizes())
    }

    fn of_sizes(sizes: [PlaneSize; 3]) -> Option<Self> {
        let mut samples = [const { Vec::new() }; 3];
        for (samples, size) in samples.iter_mut().zip(sizes) {
            *samples = zeros(size.bytes())?;
        }
        Some(Self { sizes, samples })
    }

    pub(super) fn planes(&self) -> [Plane<&[u8]>; 3] {
        std::array::from_fn(|i| self.sizes[i].plane(&self.samples[i][..]))
    }

    pub(super) fn planes_mut(&mut self) -> [Plane<&mut [u8]>; 3] {
        let mut sizes = self.sizes.into_iter();
        self.samples.each_mut().map(|samples| {
            let size = sizes.next().expect("there is one for each plane");
            size.plane(&mut samples[..])
        })
    }

    /// Upsamples the planes of [`Planes::zeros`], and writes RGB pixels.
    ///
    /// `space` is the colour space of the planes. `None` if memory runs out.
    pub(super) fn write_rgb(&self, sampled: &Sampled, space: Space, rgb: &mut [u8]) -> Option<()> {
        let PlaneSize { width, rows } = sampled.size;
        // Up to three samples beyond the edge.
        let mut lines = [zeros(width + 3)?, zeros(width + 3)?];
        let mut sums = Vec::new();
        sums.try_reserve_exact(width + 2).ok()?;
        let [first, others @ ..] = self.planes();
        vectorized::run(
            #[inline(always)]
            || {
                for (y, pixels) in rgb.chunks_exact_mut(3 * width).enumerate().take(rows) {
                    for i in 0..2 {
                        upsample(others[i], y, sampled.covers[i], &mut sums, &mut lines[i]);
                    }
                    let [second, third] = lines.each_ref().map(|line| &line[..width]);
                    let row = [&first.data[y * width..][..width], second, third];
                    if space == Space::YCbCr { to_rgb(row, pixels) } else { interleave(row, pixels) }
                }
            },
        );
        Some(())
    }

    /// Converts RGB pixels to Y, Cb and Cr, and downsamples chroma.
    ///
    /// `None` if memory runs out.
    pub(super) fn of_rgb(sampled: &Sampled, rgb: &[u8]) -> Option<Self> {
        let PlaneSize { width, .. } = sampled.size;
        let mut all = Self::of_sizes(sampled.padded_sizes())?;
        let down = sampled.covers.map(|cover| cover.down);
        let most_down = down[0].max(down[1]);
        let widths = [0, 1].map(|i| all.sizes[i + 1].width * sampled.covers[i].across);
        let mut lines = [zeros(widths[0] * most_down)?, zeros(widths[1] * most_down)?];
        let [luma, blue, red] = all.samples.each_mut().map(|samples| &mut samples[..]);
        let mut chroma = [blue, red];
        let sizes = all.sizes;
        vectorized::run(
            #[inline(always)]
            || {
                for (group, pixels) in rgb.chunks(3 * width * most_down).enumerate() {
                    for line in 0..most_down {
                        let places = [0, 1].map(|i| line * widths[i]..(line + 1) * widths[i]);
                        let Some(pixels) = pixels.chunks_exact(3 * width).nth(line) else {
                            // The last row is repeated beyond the edge.
                            for i in 0..2 {
                                lines[i]
                                    .copy_within((line - 1) * widths[i]..line * widths[i], places[i].start);
                            }
                            continue;
                        };
                        let luma = &mut luma[(group * most_down + line) * width..][..width];
                        let [blue, red] = &mut lines;
                        let (blue, red) = (&mut blue[places[0].clone()], &mut red[places[1].clone()]);
                        to_ycbcr(pixels, luma, &mut blue[..width], &mut red[..width]);
                        for line in [blue, red] {
                            let edge = line[width - 1];
                            line[width..].fill(edge);
                        }
                    }
                    for i in 0..2 {
                        let (size, rows) = (sizes[i + 1], most_down / down[i]);
                        let wide = lines[i].chunks_exact(widths[i] * down[i]);
                        let first = group * rows * size.width;
                        let narrow = chroma[i][first..].chunks_exact_mut(size.width);
                        for (wide, narrow) in wide.zip(narrow).take(rows) {
                            downsample(wide, sampled.covers[i], narrow);
                        }
                    }
                }
            },
        );
        Some(all)
    }
}

/// Upsamples the samples for row `y` of pixels.
///
/// For a factor of two it uses the triangle filter, otherwise repetition. Samples beyond the edge
/// may follow in `line`.
#[inline(always)]
fn upsample(
    plane: Plane<&[u8]>,
    y: usize,
    Cover { across, down }: Cover,
    sums: &mut Vec<u16>,
    line: &mut [u8],
) {
    /// The fewest samples across for the filter; narrower planes are repeated.
    const LEAST: usize = 3;
    let row = |number: usize| &plane.data[number * plane.width..][..plane.width];
    let near = row(y / down);
    // The nearer of the rows above and below; at the edges it is the row itself.
    let is_upper = y.is_multiple_of(down);
    let far = if is_upper { (y / down).saturating_sub(1) } else { (y / down + 1).min(plane.rows - 1) };
    match (across, down) {
        (1, 1) => line[..near.len()].copy_from_slice(near),
        (1, 2) => {
            let bias = 1 + (y % 2) as u16;
            for ((sample, &near), &far) in line.iter_mut().zip(near).zip(row(far)) {
                *sample = ((3 * u16::from(near) + u16::from(far) + bias) >> 2) as u8;
            }
        }
        (2, 1) if plane.width >= LEAST => {
            // Each with its neighbours; at the edges they are the sample itself.
            sums.clear();
            sums.push(near[0].into());
            sums.extend(near.iter().map(|&sample| u16::from(sample)));
            sums.push(near[near.len() - 1].into());
            widen::<1, 2, 2>(sums, line);
        }
        (2, 2) if plane.width >= LEAST => {
            sums.clear();
            sums.push(0);
            let rows = near.iter().zip(row(far));
            sums.extend(rows.map(|(&near, &far)| 3 * u16::from(near) + u16::from(far)));
            sums.push(sums[near.len()]);
            sums[0] = sums[1];
            widen::<8, 7, 4>(sums, line);
        }
        _ => {
            for (samples, &sample) in line.chunks_mut(across).zip(near) {
                samples.fill(sample);
            }
        }
    }
}

/// Makes two samples of each value between the first and the last one.
///
/// Each is three quarters of the value and one of a neighbour, rounded by two biases.
#[inline(always)]
fn widen<const LEFT: u16, const RIGHT: u16, const SHIFT: u32>(values: &[u16], line: &mut [u8]) {
    let pairs = line.as_chunks_mut::<2>().0.iter_mut();
    let (lefts, (mids, rights)) = (values, (&values[1..], &values[2..]));
    for (((pair, &left), &mid), &right) in pairs.zip(lefts).zip(mids).zip(rights) {
        *pair =
            [(3 * mid + left + LEFT) >> SHIFT, (3 * mid + right + RIGHT) >> SHIFT].map(|value| value as u8);
    }
}

/// Converts a row of Y, Cb and Cr.
#[inline(always)]
fn to_rgb([luma, blue, red]: [&[u8]; 3], pixels: &mut [u8]) {
    for (((pixel, &luma), &blue), &red) in
        pixels.as_chunks_mut::<3>().0.iter_mut().zip(luma).zip(blue).zip(red)
    {
        let (luma, blue, red) = (i32::from(luma), i32::from(blue) - 128, i32::from(red) - 128);
        *pixel = [
            luma + ((fixed(1.402) * red + HALF) >> BITS),
            luma + ((HALF - fixed(0.344_14) * blue - fixed(0.714_14) * red) >> BITS),
            luma + ((fixed(1.772) * blue + HALF) >> BITS),
        ]
        .map(|sample| sample.clamp(0, 255) as u8);
    }
}

/// Interleaves the samples of three planes.
#[inline(always)]
fn interleave([red, green, blue]: [&[u8]; 3], pixels: &mut [u8]) {
    for (((pixel, &red), &green), &blue) in
        pixels.as_chunks_mut::<3>().0.iter_mut().zip(red).zip(green).zip(blue)
    {
        *pixel = [red, green, blue];
    }
}

/// Converts a row of RGB.
#[inline(always)]
fn to_ycbcr(pixels: &[u8], luma: &mut [u8], blue: &mut [u8], red: &mut [u8]) {
    /// The middle of chroma; a half goes down.
    const MIDDLE: i32 = (128 << BITS) + HALF - 1;
    for (((pixel, luma), blue), red) in pixels.as_chunks::<3>().0.iter().zip(luma).zip(blue).zip(red) {
        let [r, g, b] = pixel.map(i32::from);
        *luma = ((fixed(0.299) * r + fixed(0.587) * g + fixed(0.114) * b + HALF) >> BITS) as u8;
        *blue = ((fixed(0.5) * b - fixed(0.168_74) * r - fixed(0.331_26) * g + MIDDLE) >> BITS) as u8;
        *red = ((fixed(0.5) * r - fixed(0.418_69) * g - fixed(0.081_31) * b + MIDDLE) >> BITS) as u8;
    }
}

/// Makes a row of means of boxes of samples, from consecutive rows.
///
/// A box is the samples that a mean covers. Halves between two samples go up and down by turns.
#[inline(always)]
fn downsample(rows: &[u8], Cover { across, down }: Cover, narrow: &mut [u8]) {
    let (upper, lower) = rows.split_at(rows.len() / down);
    match (across, down) {
        (1, 1) => narrow.copy_from_slice(upper),
        (2, 1) => {
            for ((at, sample), pair) in narrow.iter_mut().enumerate().zip(upper.as_chunks::<2>().0) {
                let sum: u16 = pair.iter().map(|&sample| u16::from(sample)).sum();
                *sample = ((sum + at as u16 % 2) >> 1) as u8;
            }
        }
        (2, 2) => {
            let pairs = upper.as_chunks::<2>().0.iter().zip(lower.as_chunks::<2>().0);
            for ((at, sample), (upper, lower)) in narrow.iter_mut().enumerate().zip(pairs) {
                let sum: u16 =
                    [upper[0], upper[1], lower[0], lower[1]].iter().map(|&sample| u16::from(sample)).sum();
                *sample = ((sum + 1 + at as u16 % 2) >> 2) as u8;
            }
        }
        _ => {
            let (width, area) = (rows.len() / down, (across * down) as u32);
            for (at, sample) in narrow.iter_mut().enumerate() {
                let covered = rows.chunks_exact(width).flat_map(|row| &row[at * across..(at + 1) * across]);
                let sum: u32 = covered.map(|&sample| u32::from(sample)).sum();
                *sample = ((sum + area / 2) / area) as u8;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::coding::{self, Part, Rest};
    use super::super::libjpeg::{self, Frame, Reader, Tables};
    use super::super::planes::plane_size;
    use super::*;
    use crate::io::cores::Cores;

    const FULL: (u8, u8) = (1, 1);

    /// Sampling factors of three components: all that encoders use, and some that few do.
    const SAMPLINGS: [[(u8, u8); 3]; 10] = [
        [FULL, FULL, FULL],
        [(2, 1), FULL, FULL],
        [(1, 2), FULL, FULL],
        [(2, 2), FULL, FULL],
        [(4, 1), FULL, FULL],
        [(1, 4), FULL, FULL],
        [(4, 2), FULL, FULL],
        [(2, 2), (2, 1), (1, 2)],
        [(2, 2), (2, 2), FULL],
        [(3, 1), FULL, FULL],
    ];

    const SIZES: [(u32, u32); 9] =
        [(1, 1), (2, 3), (3, 2), (5, 4), (16, 16), (33, 8), (45, 70), (31, 33), (130, 137)];

    fn noise(state: &mut u32) -> u8 {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (*state >> 24) as u8
    }

    /// Returns pixels, half of them smooth and half of them noise.
    fn pixels((width, height): (u32, u32)) -> Vec<u8> {
        let mut state = width * 31 + height;
        let sample = |i: u32| match i / (3 * width) % 4 {
            0 | 1 => noise(&mut state),
            _ => (i % (3 * width) * 2 + i / (3 * width) * 3) as u8,
        };
        (0..3 * width * height).map(sample).collect()
    }

    fn check(each: impl Fn(&Frame<'_>, &Sampled, &[u8])) {
        for (sampling, size) in SAMPLINGS.iter().flat_map(|sampling| SIZES.map(|size| (sampling, size))) {
            let components = sampling.map(|(horizontal, vertical)| Factors { horizontal, vertical });
            let plane = PlaneSize { width: size.0 as usize, rows: size.1 as usize };
            let sampled = Sampled::new(plane, &components).expect("these are whole");
            for progressive in [false, true] {
                let frame = Frame {
                    width: size.0,
                    height: size.1,
                    space: Space::YCbCr,
                    components: &components,
                    tables: Tables::Quality(97),
                    progressive,
                    restart_interval: 0,
                    density: None,
                    segments: Vec::new(),
                };
                each(&frame, &sampled, &pixels(size));
            }
        }
    }

    #[test]
    fn decoded_pixels_are_those_of_libjpeg() {
        check(|frame, sampled, pixels| {
            let mut file = Vec::new();
            libjpeg::write(&mut file, frame, Space::Rgb, pixels).expect("it can be written");
            let mut planes = Planes::zeros(sampled).expect("there is memory");
            coding::read(&file, &mut planes.planes_mut(), Rest::Nothing, &mut []).expect("it can be read");
            for space in [Space::YCbCr, Space::Rgb] {
                let (mut ours, mut theirs) = (vec![0; pixels.len()], vec![0; pixels.len()]);
                planes.write_rgb(sampled, space, &mut ours).expect("there is memory");
                let mut reader = Reader::new(&file).expect("it can be read");
                reader.read_part(space == Space::YCbCr, &mut theirs).expect("it can be read");
                assert!(ours == theirs, "{sampled:?} {space:?}");
            }
        });
    }

    #[test]
    fn written_planes_are_those_of_libjpeg() {
        check(|frame, sampled, pixels| {
            let sizes = frame
                .components
                .iter()
                .map(|component| plane_size(frame.width, frame.height, frame.components, *component));
            let sizes: Vec<PlaneSize> = sizes.collect();
            let decoded = |file: &[u8]| {
                let mut samples = sizes.iter().map(|size| vec![0; size.bytes()]).collect::<Vec<_>>();
                let planes =
                    sizes.iter().zip(&mut samples).map(|(size, samples)| size.plane(&mut samples[..]));
                let mut planes = planes.collect::<Vec<_>>();
                Reader::new(file).expect("it can be read").read_planes(&mut planes).expect("it can be read");
                samples
            };
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            let planes = Planes::of_rgb(sampled, pixels).expect("there is memory");
            let parts = planes.planes().map(Part::Samples);
            coding::write(&mut ours, frame, &parts, &Cores::none()).expect("it can be written");
            libjpeg::write(&mut theirs, frame, Space::Rgb, pixels).expect("it can be written");
            assert!(decoded(&ours) == decoded(&theirs), "{sampled:?}");
        });
    }
}
