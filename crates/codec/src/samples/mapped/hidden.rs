//! The pixels that do not count, in runs of equal ones.
//!
//! Some stay as they are, bit by bit, because one of their samples is not a number, infinite or the
//! no-data value; the others have an alpha of 0.

use super::CodecError;
use crate::io::reader::resize;

/// Marks the length of a run that does not stay as it is.
const CHANGES: u32 = 1 << 31;
const MAX_LENGTH: u32 = CHANGES - 1;

/// The pixels that do not count, from top to bottom.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    /// The lengths of the runs.
    lengths: Vec<u32>,
    /// A pixel's samples for each run.
    samples: Vec<u8>,
}

/// A place among hidden pixels.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    run: usize,
    /// The number of pixels of the run before it.
    passed: u32,
}

impl Hidden {
    pub(super) fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        (4 * self.lengths.len() + self.samples.len()) as u64
    }

    /// Adds a pixel that stays as it is.
    #[inline]
    pub(super) fn add_staying(&mut self, pixel: &[u8]) {
        self.add(pixel, 0);
    }

    /// Adds a pixel with colours, of this many bytes, that change like those of others.
    #[inline]
    pub(super) fn add_changing(&mut self, bytes: usize) {
        self.add(&[0; 32][..bytes], CHANGES);
    }

    fn add(&mut self, pixel: &[u8], mark: u32) {
        if let Some(length) = self.lengths.last_mut()
            && *length & CHANGES == mark
            && *length & MAX_LENGTH < MAX_LENGTH
            && self.samples.ends_with(pixel)
        {
            *length += 1;
            return;
        }
        self.lengths.push(1 | mark);
        self.samples.extend_from_slice(pixel);
    }

    /// Forgets all pixels, but keeps the memory for others.
    pub(super) fn clear(&mut self) {
        self.lengths.clear();
        self.samples.clear();
    }

    /// Adds the pixels that come after these. All of them may take `most` bytes.
    pub(super) fn append(&mut self, behind: &Self, most: u64) -> Result<(), CodecError> {
        let bytes = self.bytes() + behind.bytes();
        if bytes > most {
            return Err(CodecError::unsupported(
                "a picture with many pixels of different NaN or infinite values",
                "set them to one value first, such as NaN",
            ));
        }
        let further = behind.lengths.len();
        self.lengths.try_reserve(further).map_err(|_| CodecError::OutOfMemory { bytes: Some(bytes) })?;
        self.lengths.extend_from_slice(&behind.lengths);
        let filled = self.samples.len();
        resize(&mut self.samples, filled + behind.samples.len())?;
        self.samples[filled..].copy_from_slice(&behind.samples);
        Ok(())
    }

    /// Returns the pixel of `bytes` bytes at a place, if it stays as it is, and moves to the next.
    #[inline]
    pub(super) fn next(&self, place: &mut Place, bytes: usize) -> Option<&[u8]> {
        let (run, length) = (place.run, *self.lengths.get(place.run)?);
        *place = self.after(*place, 1);
        (length & CHANGES == 0).then(|| &self.samples[run * bytes..][..bytes])
    }

    /// Returns the place `count` pixels after another.
    pub(super) fn after(&self, mut place: Place, mut count: u64) -> Place {
        while count > 0
            && let Some(length) = self.lengths.get(place.run)
        {
            let left = u64::from(length & MAX_LENGTH) - u64::from(place.passed);
            if count < left {
                place.passed += count as u32;
                break;
            }
            count -= left;
            place = Place { run: place.run + 1, passed: 0 };
        }
        place
    }
}

/// Returns whether the last sample of a pixel, which is alpha, is 0.
#[inline(always)]
pub(super) fn is_hidden(pixel: &[u8], level: usize) -> bool {
    pixel[pixel.len() - level..].iter().all(|&byte| byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_come_back_in_their_order_from_any_place() {
        let (mut first, mut second) = (Hidden::default(), Hidden::default());
        let pixels: Vec<Option<[u8; 2]>> = (0..300_u32)
            .map(|at| (at / 7 % 5 > 0).then(|| [(at / 40) as u8, (at.is_multiple_of(61)).into()]))
            .collect();
        for (at, pixel) in pixels.iter().enumerate() {
            let to = if at < 111 { &mut first } else { &mut second };
            match pixel {
                Some(pixel) => to.add_staying(pixel),
                None => to.add_changing(2),
            }
        }
        let most = first.bytes() + second.bytes();
        assert!(first.append(&second, most - 1).is_err());
        first.append(&second, most).unwrap();
        for start in [0, 1, 6, 7, 110, 111, 112, 299, 300] {
            let mut place = first.after(Place::default(), start);
            for pixel in &pixels[start as usize..] {
                assert_eq!(first.next(&mut place, 2), pixel.as_ref().map(|pixel| &pixel[..]));
            }
            assert_eq!(first.next(&mut place, 2), None);
        }
    }

    #[test]
    fn equal_pixels_take_no_memory_however_many_they_are() {
        let mut border = Hidden::default();
        (0..100_000).for_each(|_| border.add_staying(&f32::NAN.to_ne_bytes()));
        assert_eq!(border.bytes(), 8);
    }
}
