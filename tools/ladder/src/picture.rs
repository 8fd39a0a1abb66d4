//! The common input of all rungs: one picture, gray and in colour, and the CPU's results for it.

use equalize::clahe::Geometry;
use equalize::colour::Plane;
use equalize::histogram::{Counted, of_plane};
use equalize::{Clahe, ClipLimit, Depth, Layout, Method, Operation, Pixel, Scratch, Tiles, equalize, lut};

/// The settings of CLAHE: OpenCV's defaults, except for a more usual clip limit.
pub(super) const CLAHE: Clahe =
    Clahe { clip_limit: ClipLimit::Times(2.0), tiles: Tiles::Grid { x: 8, y: 8 }, noise: 0 };

/// Width and height of the picture are multiples of this, to divide evenly into tiles and halves.
pub(super) const GRAIN: u32 = 16;

/// The picture and its expected results.
pub(super) struct TestPicture {
    pub(super) layout: Layout,
    pub(super) gray: Vec<u8>,
    /// 256 counts.
    pub(super) counts: Vec<u32>,
    /// 256 entries.
    pub(super) lut: Vec<u32>,
    pub(super) equalized: Vec<u8>,
    pub(super) clahe: Vec<u8>,
    /// The picture in colour: its red, green and blue differ from gray in brightness and noise.
    pub(super) colour: Vec<u8>,
    /// 256 counts of red, then of green, then of blue.
    pub(super) colour_counts: Vec<u32>,
}

impl TestPicture {
    /// Makes a picture, with sides that are multiples of [`GRAIN`], and its results.
    pub(super) fn new(width: u32, height: u32) -> Self {
        let layout = Layout { width, height, pixel: Pixel::Gray, depth: Depth::Eight };
        let colour_layout = Layout { pixel: Pixel::Rgb, ..layout };
        let (gray, colour) = (paint(&layout, 1), paint(&layout, 3));
        let counts = words(&of_plane(&gray, &layout, Plane::Channel(0), Counted::All));
        let result = |method| {
            let mut pixels = gray.clone();
            let operation = Operation::new(method);
            equalize(&mut pixels, &layout, &operation, &mut Scratch::default());
            pixels
        };
        let channel = |channel| of_plane(&colour, &colour_layout, Plane::Channel(channel), Counted::All);
        Self {
            lut: lut_of(&counts).map(u32::from).to_vec(),
            counts,
            equalized: result(Method::Global),
            clahe: result(Method::Clahe(CLAHE)),
            colour_counts: (0..3).flat_map(|number| words(&channel(number))).collect(),
            layout,
            gray,
            colour,
        }
    }

    pub(super) fn pixels(&self) -> usize {
        self.gray.len()
    }

    pub(super) fn geometry(&self) -> Geometry {
        Geometry::new(&self.layout, &CLAHE)
    }
}

/// Returns the LUT that follows from 256 counts.
pub(super) fn lut_of(counts: &[u32]) -> [u8; 256] {
    let counts: Vec<u64> = counts.iter().copied().map(u64::from).collect();
    let mut entries = [0; 256];
    lut::Rule::Equalize.fill(&counts, &mut entries);
    entries
}

fn words(counts: &[u64]) -> Vec<u32> {
    counts.iter().map(|&count| u32::try_from(count).expect("fewer pixels than 2^32")).collect()
}

/// Paints noise over a gentle slope across and down.
///
/// As in a photograph, neighbouring pixels have similar levels, and the histogram is broad.
fn paint(layout: &Layout, channels: u32) -> Vec<u8> {
    let mut state = 2026_u64;
    let mut bytes = Vec::with_capacity(layout.pixels() as usize * channels as usize);
    for y in 0..layout.height {
        for x in 0..layout.width {
            let slope = 40 + x * 90 / layout.width + y * 60 / layout.height;
            for channel in 0..channels {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let noise = ((state >> 59) + (state >> 43 & 31)) as u32 / 2;
                bytes.push((slope + noise + 8 * channel) as u8);
            }
        }
    }
    bytes
}
