//! Pages with channels that are not colours, as of a microscope or a satellite.
//!
//! Each channel is a picture by itself, and a page of the file like those that have a directory.

use crate::CodecError;
use crate::formats::foreign::{CHANNELS, EACH_CHANNEL};
use crate::formats::tiff::compression::method::Method;
use crate::formats::tiff::read::pages;
use crate::formats::tiff::read::samples::{Colours, MAX_BEHIND};
use crate::formats::tiff::tags;
use crate::metadata::ifd::{Directory, Numbers};

/// The number of channels in a page's samples, and their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Channels {
    pub(crate) count: usize,
    /// Whether each lies by itself, rather than all samples of a pixel together.
    pub(crate) planar: bool,
}

impl Channels {
    /// A picture with colours, or gray.
    pub(crate) const ONE: Self = Self { count: 1, planar: false };

    /// Returns the channels of a page of so many samples.
    ///
    /// Colours with the samples after them are one channel, and so is gray with alpha.
    ///
    /// # Errors
    /// If they are interleaved and cannot be taken apart.
    pub(crate) fn of(
        directory: &Directory,
        samples: usize,
        colours: Colours,
        colour_samples: usize,
        method: Method,
    ) -> Result<Self, CodecError> {
        let kinds = directory.numbers(tags::EXTRA_SAMPLES).into_iter().flat_map(Numbers::iter);
        let has_alpha =
            kinds.take(samples).any(|kind| [tags::ASSOCIATED, tags::UNASSOCIATED].contains(&kind));
        if samples < 2 || colour_samples > 1 || !colours.are_of_light() || has_alpha {
            return Ok(Self::ONE);
        }
        let planar = directory.number(tags::PLANAR_CONFIGURATION) == Some(2);
        let channels = Self { count: samples, planar };
        if !planar {
            check_interleaved(samples, method)?;
        }
        pages::check_count(samples as u64)?;
        Ok(channels)
    }

    /// Returns the channels of a page whose planes are no colours, by its description.
    pub(crate) fn of_planes(count: usize) -> Result<Self, CodecError> {
        pages::check_count(count as u64)?;
        Ok(Self { count, planar: true })
    }

    /// Returns the distance in samples between two of the same channel.
    pub(crate) const fn stride(self) -> usize {
        if self.planar { 1 } else { self.count }
    }
}

/// Refuses interleaved channels that cannot be taken apart, or not in sensible time.
fn check_interleaved(channels: usize, method: Method) -> Result<(), CodecError> {
    let of_channels = format!("a TIFF of {channels} interleaved channels");
    if matches!(method, Method::WebP | Method::Fax(_)) {
        return Err(CodecError::unsupported(of_channels + " that are compressed as pixels", EACH_CHANNEL));
    }
    if method == Method::Jpeg && channels == 3 {
        // Some writers convert three channels, without a tag about it.
        return Err(CodecError::unsupported(of_channels + " in JPEG (which may be YCbCr)", EACH_CHANNEL));
    }
    if channels > MAX_BEHIND + 1 {
        return Err(CodecError::unsupported(of_channels, CHANNELS));
    }
    Ok(())
}

/// Puts the samples of one channel, of `bytes` bytes each, into a row.
///
/// A pixel has `stride` samples, with the wanted one at `channel`.
pub(crate) fn pick(row: &mut [u8], pixels: &[u8], channel: usize, stride: usize, bytes: usize) {
    match bytes {
        1 => pick_samples(row.as_chunks_mut::<1>().0, pixels, channel, stride),
        2 => pick_samples(row.as_chunks_mut::<2>().0, pixels, channel, stride),
        3 => pick_samples(row.as_chunks_mut::<3>().0, pixels, channel, stride),
        4 => pick_samples(row.as_chunks_mut::<4>().0, pixels, channel, stride),
        _ => pick_samples(row.as_chunks_mut::<8>().0, pixels, channel, stride),
    }
}

fn pick_samples<const BYTES: usize>(row: &mut [[u8; BYTES]], pixels: &[u8], channel: usize, stride: usize) {
    let samples = pixels.as_chunks::<BYTES>().0.iter().skip(channel).step_by(stride);
    row.iter_mut().zip(samples).for_each(|(to, sample)| *to = *sample);
}

/// Puts the samples of one channel between those of others, as [`pick`] takes them.
pub(crate) fn put(pixels: &mut [u8], samples: &[u8], channel: usize, stride: usize, bytes: usize) {
    match bytes {
        1 => put_samples(pixels, samples.as_chunks::<1>().0, channel, stride),
        2 => put_samples(pixels, samples.as_chunks::<2>().0, channel, stride),
        3 => put_samples(pixels, samples.as_chunks::<3>().0, channel, stride),
        4 => put_samples(pixels, samples.as_chunks::<4>().0, channel, stride),
        _ => put_samples(pixels, samples.as_chunks::<8>().0, channel, stride),
    }
}

fn put_samples<const BYTES: usize>(
    pixels: &mut [u8],
    samples: &[[u8; BYTES]],
    channel: usize,
    stride: usize,
) {
    let places = pixels.as_chunks_mut::<BYTES>().0.iter_mut().skip(channel).step_by(stride);
    places.zip(samples).for_each(|(to, sample)| *to = *sample);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::tests::noise;

    #[test]
    fn what_is_picked_is_put_back() {
        for bytes in [1, 2, 3, 4, 8] {
            for stride in [2, 3, 17] {
                let pixels = noise(11 * stride * bytes, 9);
                let mut again = vec![0; pixels.len()];
                for channel in 0..stride {
                    let mut row = vec![0; 11 * bytes];
                    pick(&mut row, &pixels, channel, stride, bytes);
                    let expected =
                        pixels.chunks(stride * bytes).map(|pixel| &pixel[channel * bytes..][..bytes]);
                    assert!(row == expected.collect::<Vec<_>>().concat(), "{channel} of {stride}");
                    put(&mut again, &row, channel, stride, bytes);
                }
                assert!(again == pixels, "{stride} channels of {bytes} bytes");
            }
        }
    }
}
