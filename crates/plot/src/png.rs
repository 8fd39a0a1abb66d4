//! Drawings as PNG files.

use std::error::Error;

use ::png::{BitDepth, ColorType, Encoder};
use plotters::prelude::BitMapBackend;

use super::{Drawing, draw_on};

/// Pixels of the picture per unit of the drawing, to be sharp on high-density screens.
const DENSITY: u32 = 2;
/// The factor by which a drawing is drawn larger and then averaged down.
///
/// The backend draws areas and texts with hard edges.
const OVERSAMPLING: u32 = 2;

/// Draws and encodes.
pub(super) fn draw(drawing: &impl Drawing) -> Result<Vec<u8>, Box<dyn Error>> {
    let zoom = DENSITY * OVERSAMPLING;
    let size = |zoom: u32| (drawing.size().0 * zoom, drawing.size().1 * zoom);
    let (width, height) = size(zoom);
    let mut large = vec![0; width as usize * height as usize * 3];
    draw_on(BitMapBackend::with_buffer(&mut large, (width, height)), drawing, zoom)
        .map_err(|error| error.to_string())?;
    let (width, height) = size(DENSITY);
    let pixels = average(&large, width as usize);
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, width, height);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(bytes)
}

/// Averages squares of [`OVERSAMPLING`] pixels a side into rows of `width` RGB pixels.
fn average(large: &[u8], width: usize) -> Vec<u8> {
    const SIDE: usize = OVERSAMPLING as usize;
    let stride = width * SIDE * 3;
    let mut small = Vec::with_capacity(large.len() / (SIDE * SIDE));
    for rows in large.chunks_exact(stride * SIDE) {
        for x in 0..width {
            for channel in 0..3 {
                let at = |dx: usize, dy: usize| u32::from(rows[dy * stride + (x * SIDE + dx) * 3 + channel]);
                let sum: u32 = (0..SIDE * SIDE).map(|n| at(n % SIDE, n / SIDE)).sum();
                small.push((sum / OVERSAMPLING.pow(2)) as u8);
            }
        }
    }
    small
}
