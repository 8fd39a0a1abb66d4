//! Strips and tiles that are read one by one, and put where they belong.

use super::super::CodecError;
use super::header::Header;
use super::malformed;

/// Fills `target`, the samples of the picture as they are stored, from strips or tiles of `part`'s width and rows. `fetch` brings as
/// many rows of the part of an index as there is room for, each of a tile's full width. What is as wide as the picture is fetched
/// straight to its place, all else passes through a buffer.
pub(super) fn read(
    header: &Header,
    part: (u32, u32),
    target: &mut [u8],
    mut fetch: impl FnMut(u32, &mut [u8]) -> Result<(), CodecError>,
) -> Result<(), CodecError> {
    let (width, height) = (header.layout.width, header.layout.height as usize);
    let (row, part_row, rows) = (header.row_bytes(width), header.part_row_bytes(part), part.1 as usize);
    let across = width.div_ceil(part.0) as usize;
    let per_plane = across * height.div_ceil(rows);
    let mut buffer = Vec::new();
    for number in 0..per_plane * header.planes() {
        let index = u32::try_from(number).map_err(|_| malformed("it has too many strips"))?;
        let (plane, place) = (number / per_plane, number % per_plane);
        let (left, top) = (place % across * part_row, place / across * rows);
        let inside = rows.min(height - top);
        let place = &mut target[top * row..][..inside * row];
        if part_row == row && !header.planar {
            fetch(index, place)?;
            continue;
        }
        // The tiff crate cuts the last tiles of the first plane alone to the picture.
        let fetched = if header.tiled && plane > 0 { rows } else { inside };
        resize(&mut buffer, fetched * part_row)?;
        fetch(index, &mut buffer)?;
        for (target, samples) in place.chunks_exact_mut(row).zip(buffer.chunks_exact(part_row)) {
            if header.planar {
                interleave(target, samples, header, plane, left);
            } else {
                let inside = part_row.min(row - left);
                target[left..][..inside].copy_from_slice(&samples[..inside]);
            }
        }
    }
    Ok(())
}

/// Puts samples of a plane, `left` bytes behind the first of its row, into the row of the picture. They have 8 or 16 bits.
fn interleave(row: &mut [u8], samples: &[u8], header: &Header, plane: usize, left: usize) {
    let bytes = header.layout.depth.bytes();
    let pixels = row.chunks_exact_mut(header.samples * bytes).skip(left / bytes);
    for (pixel, sample) in pixels.zip(samples.chunks_exact(bytes)) {
        pixel[plane * bytes..][..bytes].copy_from_slice(sample);
    }
}

fn resize(buffer: &mut Vec<u8>, length: usize) -> Result<(), CodecError> {
    let further = length.saturating_sub(buffer.len());
    buffer.try_reserve_exact(further).map_err(|_| CodecError::OutOfMemory { bytes: Some(length as u64) })?;
    buffer.resize(length, 0);
    Ok(())
}
