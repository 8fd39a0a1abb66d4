//! Parts of a picture that can be equalized apart from each other, each in a copy of the picture.

use std::ops::Range;

use super::Clahe;
use super::tiles::{Axis, Geometry, reflect};
use crate::{Layout, Operation};

/// Rows of a picture whose new values follow from few others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// The rows that are equalized.
    pub rows: Range<usize>,
    /// The rows that they follow from; the others may hold anything.
    pub needed: Range<usize>,
    pub(super) bands: Range<usize>,
}

/// Divides a picture into at most so many stripes of about equal height; one if an operation's tables follow from the whole picture.
pub fn stripes(layout: &Layout, operation: &Operation, clahe: &Clahe, most: usize) -> Vec<Stripe> {
    let (height, levels) = (layout.height as usize, operation.levels.number(layout.depth));
    let tiles = Geometry::new(layout, clahe);
    let mut down = Axis::default();
    down.set(height, tiles.tile_height, tiles.rows);
    let all = down.runs.len();
    let parts = if clahe.clip_limit.needs_levels(levels) { 1 } else { most.clamp(1, all) };
    let mut stripes = Vec::with_capacity(parts);
    let mut first = 0;
    for part in 1..=parts {
        let until = height * part / parts;
        let end = if part == parts {
            all
        } else {
            down.runs.partition_point(|run| run.pixels.start + run.pixels.len() / 2 < until)
        };
        if end <= first {
            continue;
        }
        let bands = first..end;
        let (top, bottom) = (&down.runs[first], &down.runs[end - 1]);
        let below = (bottom.second + 1) * tiles.tile_height;
        // What is below the picture mirrors rows of it.
        let mirrored = (height..below).map(|y| reflect(y, height)).min().unwrap_or(height);
        stripes.push(Stripe {
            rows: top.pixels.start..bottom.pixels.end,
            needed: (top.first * tiles.tile_height).min(top.pixels.start).min(mirrored)
                ..below.max(bottom.pixels.end).min(height),
            bands,
        });
        first = end;
    }
    stripes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClipLimit, Depth, Method, Pixel, Scratch, Tiles, equalize, equalize_stripe};

    #[test]
    fn stripes_of_copies_make_up_the_picture() {
        for (width, height) in [(64, 64), (61, 203), (300, 17), (5, 1), (40, 500)] {
            for (x, y) in [(8, 8), (3, 5), (1, 1), (2, 40)] {
                for (pixel, depth) in
                    [(Pixel::Gray, Depth::Eight), (Pixel::Rgba, Depth::Eight), (Pixel::Gray, Depth::Sixteen)]
                {
                    let layout = Layout { width, height, pixel, depth };
                    let mut seed = 1_u32;
                    let picture: Vec<u16> = (0..layout.bytes() / 2 + 1)
                        .map(|_| {
                            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                            (seed >> 17) as u16
                        })
                        .collect();
                    let bytes = layout.bytes() as usize;
                    let picture = &bytemuck::cast_slice::<u16, u8>(&picture)[..bytes];
                    let clahe = Clahe { clip_limit: ClipLimit::Times(3.0), tiles: Tiles::Grid { x, y } };
                    let operation = Operation::new(Method::Clahe(clahe));
                    let mut whole = picture.to_vec();
                    equalize(&mut whole, &layout, &operation, &mut Scratch::default());
                    for most in [1, 2, 3, 7] {
                        let row = bytes / height as usize;
                        let mut joined = vec![0; bytes];
                        for stripe in stripes(&layout, &operation, &clahe, most) {
                            let mut copy = vec![0xa5; bytes];
                            let needed = stripe.needed.start * row..stripe.needed.end * row;
                            copy[needed.clone()].copy_from_slice(&picture[needed]);
                            equalize_stripe(&mut copy, &layout, &operation, &stripe, &mut Scratch::default());
                            let rows = stripe.rows.start * row..stripe.rows.end * row;
                            joined[rows.clone()].copy_from_slice(&copy[rows]);
                        }
                        assert!(joined == whole, "{layout:?}, {x}x{y}, {most}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_depends_on_all_levels_is_one_stripe() {
        let layout = Layout { width: 99, height: 99, pixel: Pixel::Gray, depth: Depth::Sixteen };
        let clahe = Clahe { clip_limit: ClipLimit::Auto, tiles: Tiles::Grid { x: 8, y: 8 } };
        let operation = Operation::new(Method::Clahe(clahe));
        assert_eq!(stripes(&layout, &operation, &clahe, 4).len(), 1);
        assert_eq!(stripes(&Layout { depth: Depth::Eight, ..layout }, &operation, &clahe, 4).len(), 4);
    }
}
