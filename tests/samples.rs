//! Pictures for tests: reproducible random numbers, and the kinds of data that histograms have to
//! cope with.

use equalize::{Depth, Layout, Pixel};

/// The SplitMix64 generator (Steele, Lea, Flood 2014), with its seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// An index into a list of this length.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// One element.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }
}

/// Kinds of sample data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Data {
    Random,
    Natural,
    Constant,
    TwoValued,
    OneHotBin,
}

/// All kinds of data.
pub(crate) const DATA: [Data; 5] =
    [Data::Random, Data::Natural, Data::Constant, Data::TwoValued, Data::OneHotBin];

/// All kinds of pixel.
pub(crate) const PIXELS: [Pixel; 4] = [Pixel::Gray, Pixel::GrayAlpha, Pixel::Rgb, Pixel::Rgba];

/// All depths.
pub(crate) const DEPTHS: [Depth; 2] = [Depth::Eight, Depth::Sixteen];

/// Shorthand for a [`Layout`].
pub(crate) fn layout(width: u32, height: u32, pixel: Pixel, depth: Depth) -> Layout {
    Layout { width, height, pixel, depth }
}

/// Layouts of this size with every kind of pixel in every depth.
pub(crate) fn every_layout(width: u32, height: u32) -> impl Iterator<Item = Layout> {
    PIXELS.into_iter().flat_map(move |pixel| DEPTHS.map(|depth| layout(width, height, pixel, depth)))
}

/// Returns a picture's interleaved samples; with alpha, about half of the pixels are fully
/// transparent.
pub(crate) fn samples(layout: &Layout, data: Data, random: &mut Random) -> Vec<u16> {
    let top = layout.depth.levels() as u64;
    let (a, b) = (random.below(top), random.below(top));
    let channels = layout.pixel.channels();
    let row = layout.width as usize * channels;
    let across: Vec<f64> = (0..layout.width).map(|x| (f64::from(x) / 97.0).sin() * 0.2).collect();
    let down: Vec<f64> = (0..layout.height).map(|y| (f64::from(y) / 61.0).cos()).collect();
    (0..layout.pixels() as usize * channels)
        .map(|i| {
            let (x, y, channel) = (i % row / channels, i / row, i % channels);
            if layout.pixel.has_alpha() && channel == channels - 1 {
                return random.pick(&[0, 0, 1, top - 1]) as u16;
            }
            let level = match data {
                Data::Random => random.below(top),
                Data::Constant => a,
                Data::TwoValued => random.pick(&[a, a, b]),
                Data::OneHotBin => {
                    if random.below(50) == 0 {
                        random.below(top)
                    } else {
                        a
                    }
                }
                Data::Natural => {
                    let wave = across[x] * down[y];
                    let slope = (x as f64 * 0.3 + y as f64 * 0.7) / f64::from(layout.width + layout.height);
                    let noise = random.below(1000) as f64 / 40_000.0;
                    ((0.3 + wave + 0.2 * slope + noise - 0.03 * channel as f64) * top as f64) as u64
                }
            };
            level.min(top - 1) as u16
        })
        .collect()
}

/// Returns a PAM file (netpbm) of these samples.
pub(crate) fn pam(layout: &Layout, samples: &[u16]) -> Vec<u8> {
    let Layout { width, height, pixel, depth } = layout;
    let (channels, maximum) = (pixel.channels(), depth.levels() - 1);
    let kind = ["GRAYSCALE", "GRAYSCALE_ALPHA", "RGB", "RGB_ALPHA"][channels - 1];
    let mut file = format!(
        "P7\nWIDTH {width}\nHEIGHT {height}\nDEPTH {channels}\nMAXVAL {maximum}\nTUPLTYPE {kind}\nENDHDR\n"
    )
    .into_bytes();
    match depth {
        Depth::Eight => file.extend(samples.iter().map(|sample| *sample as u8)),
        Depth::Sixteen => file.extend(samples.iter().flat_map(|sample| sample.to_be_bytes())),
    }
    file
}
