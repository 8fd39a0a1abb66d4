//! CIE L*a*b* of 8-bit sRGB, with the bytes of OpenCV.
//!
//! These are `COLOR_RGB2LAB`, and `COLOR_LAB2RGB` of a new lightness; both are tables and integers
//! in OpenCV too. L* (0 to 100) takes the levels 0 to 255; a* and b* are moved by 128. A colour may
//! change although its L stays: rounding loses some colours.

use std::sync::LazyLock;

use super::portable::Words;
use super::simd;

/// Pixels that go through each step together.
///
/// The steps are then loops over few kinds of operations, which the compiler vectorizes.
const STEP: usize = 256;

/// Factors from linear light to X, Y and Z, in units of 1/4096.
///
/// Both are in units of 1/2040; X, Y and Z are relative to white (D65).
const TO_XYZ: [[i32; 3]; 3] = [[1777, 1541, 778], [871, 2929, 296], [73, 448, 3575]];

/// Factors from X, Y and Z, relative to white, to linear light, in units of 1/4096.
const TO_LIGHT: [[i32; 3]; 3] = [[12615, -6296, -2223], [-3773, 7684, 185], [217, -836, 4715]];

/// Levels of linear light before [`Tables::of_light`].
const LIGHTS: usize = 1 << 12;

/// Entries of [`Tables::root`]; those above 2040, which stands for 1, are unused.
const ROOTS: usize = 1 << 11;

/// The functions of one value.
struct Tables {
    /// Linear light of a sample, in units of 1/2040.
    light: Words,
    /// The root that L*a*b* takes of X, Y and Z, in units of 1/32768.
    root: [i32; ROOTS],
    /// Y of a lightness, and its root, both in units of 1/16384.
    y: Words,
    root_of_y: Words,
    /// The sample of linear light in units of 1/4096.
    of_light: [i32; LIGHTS],
}

/// The tables, the same on every processor.
///
/// No entry is near enough to a half for another processor's last bit to matter, except the roots,
/// which are first rounded to 32 bits as in OpenCV.
static TABLES: LazyLock<Tables> = LazyLock::new(|| Tables {
    light: words(|sample| 2040.0 * light(f64::from(sample as f32 / 255.0))),
    root: std::array::from_fn(|x| rounded(32768.0 * f64::from(root(x as f64 / 2040.0) as f32))),
    y: words(|lightness| match lightness as f64 * 100.0 / 255.0 {
        low if low <= 8.0 => 16384.0 * low * 27.0 / 24389.0,
        high => 16384.0 * ((high + 16.0) / 116.0).powi(3),
    }),
    root_of_y: words(|lightness| 16384.0 * (lightness as f64 * 100.0 / 255.0 + 16.0) / 116.0),
    of_light: std::array::from_fn(|light| rounded(255.0 * sample(light as f64 / LIGHTS as f64))),
});

/// Returns the table of a function's values, rounded; they are from 0 to 32767.
fn words(value: impl Fn(usize) -> f64) -> Words {
    let entries: [u16; 256] = std::array::from_fn(|at| rounded(value(at)) as u16);
    Words { entries, halves: [0, 1].map(|half| entries.map(|entry| entry.to_le_bytes()[half])) }
}

/// [`Tables`] with entries of their smallest size, for the kernels of GPUs.
///
/// The layout is that of `LabTables` in `kernels/colours.cuh`.
static PACKED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let Tables { light, root, y, root_of_y, of_light } = &*TABLES;
    let root = root.iter().map(|&entry| entry as u16).collect();
    let wide: [Vec<u16>; 4] = [light.entries.to_vec(), root, y.entries.to_vec(), root_of_y.entries.to_vec()];
    let wide = wide.concat().into_iter().flat_map(u16::to_ne_bytes);
    wide.chain(of_light.map(|sample| sample as u8)).collect()
});

/// Returns the tables of [`crate::Colour::Lab`], as kernels of GPUs take them.
pub fn lab_tables() -> &'static [u8] {
    &PACKED
}

fn rounded(value: f64) -> i32 {
    value.round_ties_even() as i32
}

/// Returns the linear light of an sRGB sample; both are from 0 to 1.
fn light(sample: f64) -> f64 {
    if sample <= 0.04045 { sample / 12.92 } else { ((sample + 0.055) / 1.055).powf(2.4) }
}

/// Returns the sRGB sample of linear light.
fn sample(light: f64) -> f64 {
    if light <= 0.003_130_8 { light * 12.92 } else { light.powf(1.0 / 2.4).mul_add(1.055, -0.055) }
}

/// Returns the cube root of X, Y or Z, or near black a line.
fn root(value: f64) -> f64 {
    if value < 216.0 / 24389.0 { value * 841.0 / 108.0 + 16.0 / 116.0 } else { value.cbrt() }
}

/// Returns the value for a root; both are in units of 1/16384.
#[inline(always)]
const fn of_root(root: i32) -> i32 {
    if root <= 3390 { root * 108 / 841 - 290 } else { (((root * root) >> 14) * root) >> 14 }
}

/// Reads the lightness of pixels of `C` channels: 3 colours and perhaps alpha.
pub(crate) fn read<const C: usize>(samples: &[u8], lightness: &mut [u8]) {
    let tables = &*TABLES;
    simd::vectorized!(read_portable::<C>(samples, lightness, tables));
}

/// Gives pixels of `C` channels a new lightness.
pub(crate) fn write<const C: usize>(samples: &mut [u8], lightness: &[u8]) {
    let tables = &*TABLES;
    simd::vectorized!(write_portable::<C>(samples, lightness, tables));
}

#[inline(always)]
fn read_portable<const C: usize>(samples: &[u8], lightness: &mut [u8], tables: &Tables) {
    for (pixels, lightness) in samples.as_chunks::<C>().0.chunks(STEP).zip(lightness.chunks_mut(STEP)) {
        let of_y = roots(&lights(pixels, tables), TO_XYZ[1], tables);
        let mut levels = [0; STEP];
        for (level_of_y, root) in levels.iter_mut().zip(of_y) {
            *level_of_y = level(296 * root - 1_336_934);
        }
        lightness.copy_from_slice(&levels[..lightness.len()]);
    }
}

#[inline(always)]
fn write_portable<const C: usize>(samples: &mut [u8], lightness: &[u8], tables: &Tables) {
    for (pixels, lightness) in samples.as_chunks_mut::<C>().0.chunks_mut(STEP).zip(lightness.chunks(STEP)) {
        let lights = lights(pixels, tables);
        // A closure for all three would not be compiled for this function's vector instructions.
        let [of_x, of_y, of_z] = [
            roots(&lights, TO_XYZ[0], tables),
            roots(&lights, TO_XYZ[1], tables),
            roots(&lights, TO_XYZ[2], tables),
        ];
        let mut xyz = [[0; STEP]; 3];
        let (mut ys, mut roots_of_y) = ([0; STEP], [0; STEP]);
        simd::look_up_words(lightness, &tables.y, &mut ys);
        simd::look_up_words(lightness, &tables.root_of_y, &mut roots_of_y);
        for at in 0..STEP {
            let a = level(500 * (of_x[at] - of_y[at]) + (128 << 15));
            let b = level(200 * (of_y[at] - of_z[at]) + (128 << 15));
            xyz[0][at] = of_root(factor(roots_of_y[at]) + ((5 * i32::from(a) * 53_687 + 128) >> 13) - 4194);
            xyz[1][at] = factor(ys[at]);
            xyz[2][at] = of_root(factor(roots_of_y[at]) - ((i32::from(b) * 41_943 + 16) >> 9) + 10_484);
        }
        let colours = [
            colours(&xyz, TO_LIGHT[0], tables),
            colours(&xyz, TO_LIGHT[1], tables),
            colours(&xyz, TO_LIGHT[2], tables),
        ];
        for (at, pixel) in pixels.iter_mut().enumerate() {
            (pixel[0], pixel[1], pixel[2]) = (colours[0][at], colours[1][at], colours[2][at]);
        }
    }
}

/// Returns the linear light of each colour.
#[inline(always)]
fn lights<const C: usize>(pixels: &[[u8; C]], tables: &Tables) -> [[u16; STEP]; 3] {
    let (mut samples, mut lights) = ([[0; STEP]; 3], [[0; STEP]; 3]);
    for (channel, samples) in samples.iter_mut().enumerate() {
        for (sample, pixel) in samples.iter_mut().zip(pixels) {
            *sample = pixel[channel];
        }
    }
    for (samples, lights) in samples.iter().zip(&mut lights) {
        simd::look_up_words(samples, &tables.light, lights);
    }
    lights
}

/// Returns an entry as a factor.
///
/// The mask shows the compiler that it has 15 bits, which multiply faster.
#[inline(always)]
fn factor(entry: u16) -> i32 {
    i32::from(entry & 0x7fff)
}

/// Returns the roots of X, Y or Z; `row` is a row of [`TO_XYZ`].
#[inline(always)]
fn roots([red, green, blue]: &[[u16; STEP]; 3], row: [i32; 3], tables: &Tables) -> [i32; STEP] {
    let mut roots = [0; STEP];
    for (at, root) in roots.iter_mut().enumerate() {
        let (red, green, blue) = (factor(red[at]), factor(green[at]), factor(blue[at]));
        let value = (row[0] * red + row[1] * green + row[2] * blue + 2048) >> 12;
        *root = tables.root[value as usize % ROOTS];
    }
    roots
}

/// Returns the samples of a colour; `row` is a row of [`TO_LIGHT`].
#[inline(always)]
fn colours([x, y, z]: &[[i32; STEP]; 3], row: [i32; 3], tables: &Tables) -> [u8; STEP] {
    let mut samples = [0; STEP];
    for (at, sample) in samples.iter_mut().enumerate() {
        let light = (row[0] * x[at] + row[1] * y[at] + row[2] * z[at] + 8192) >> 14;
        *sample = tables.of_light[light.clamp(0, LIGHTS as i32 - 1) as usize] as u8;
    }
    samples
}

/// Rounds a value in units of 1/32768.
#[inline(always)]
fn level(value: i32) -> u8 {
    ((value + 16_384) >> 15).clamp(0, 255) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a digest of bytes: the sum of each times a power of a constant.
    fn digest(bytes: impl IntoIterator<Item = u8>) -> u64 {
        const BASE: u64 = 0x9e37_79b9_7f4a_7c15;
        let (mut sum, mut power) = (0_u64, 1_u64);
        for byte in bytes {
            power = power.wrapping_mul(BASE);
            sum = sum.wrapping_add(power.wrapping_mul(byte.into()));
        }
        sum
    }

    /// The digests are of OpenCV 5.0's results for all colours, the last channel changing fastest.
    ///
    /// They are L of `COLOR_RGB2LAB`, and `COLOR_LAB2RGB` of that with L as it is and with 255 - L.
    #[test]
    fn every_colour_gets_opencvs_lightness_and_colours_of_another() {
        let colours = (0..1_u32 << 24).flat_map(|number| number.to_be_bytes().into_iter().skip(1));
        let colours: Vec<u8> = colours.collect();
        let mut lightness = vec![0; 1 << 24];
        read::<3>(&colours, &mut lightness);
        assert_eq!(digest(lightness.iter().copied()), 0xc60e_08a4_ab86_d2ac);
        for (digest_of_opencv, flip) in [(0xf78e_3fad_32dd_d495, 0), (0x6a33_fd94_d35e_2220, 255)] {
            let mut changed = colours.clone();
            lightness.iter_mut().for_each(|lightness| *lightness ^= flip);
            write::<3>(&mut changed, &lightness);
            assert_eq!(digest(changed), digest_of_opencv);
        }
    }

    #[test]
    fn alpha_stays_and_plain_loops_do_the_same() {
        let samples: Vec<u8> =
            (0..4 * 777_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let opaque: Vec<u8> = samples.chunks(4).flat_map(|pixel| &pixel[..3]).copied().collect();
        let mut of_both = [vec![0; 777], vec![0; 777]];
        read::<4>(&samples, &mut of_both[0]);
        read_portable::<3>(&opaque, &mut of_both[1], &TABLES);
        assert_eq!(of_both[0], of_both[1]);
        of_both[0].iter_mut().for_each(|lightness| *lightness = lightness.wrapping_mul(3));
        let (mut changed, mut plain) = (samples.clone(), opaque);
        write::<4>(&mut changed, &of_both[0]);
        write_portable::<3>(&mut plain, &of_both[0], &TABLES);
        assert!(changed.chunks(4).zip(plain.chunks(3)).all(|(pixel, plain)| pixel[..3] == *plain));
        assert!(changed.chunks(4).zip(samples.chunks(4)).all(|(pixel, before)| pixel[3] == before[3]));
    }
}
