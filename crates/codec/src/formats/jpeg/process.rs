//! The coding process of a JPEG stream inside another file.

use super::markers::{APP0, APP14, SOF0, SOF1, SOF3, SOF55, SOI, SOS, Segment, next_marker, segment};

/// The decoder of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Process {
    /// libjpeg: a lossy stream of 8 bits.
    EightBit,
    /// [`super::decode_deep`]: a lossless stream, or one of more bits.
    Deep,
    /// [`super::ls`].
    Ls,
}

/// Returns the process of a stream; `None` if it is no JPEG.
pub(crate) fn process(stream: &[u8]) -> Option<Process> {
    let frame = segments(stream).find(
        |segment| matches!(segment.marker, 0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf | SOF55),
    )?;
    Some(match (frame.marker, frame.content.first()?) {
        (SOF55, _) => Process::Ls,
        (SOF0 | SOF1, 12) | (SOF3, _) => Process::Deep,
        // libjpeg also refuses processes that no decoder reads.
        _ => Process::EightBit,
    })
}

/// Returns whether the three components of a stream are Y, Cb and Cr.
///
/// The stream's own markers decide; without them, the file around it does (`says`).
pub(crate) fn is_ycbcr(stream: &[u8], says: bool) -> bool {
    let [adobe, jfif] = [APP14, APP0].map(|marker| segments(stream).find(|segment| segment.marker == marker));
    let adobe = adobe.filter(|segment| segment.content.starts_with(b"Adobe"));
    if let Some(&transform) = adobe.and_then(|segment| segment.content.get(11)) {
        return transform != 0;
    }
    says || jfif.is_some_and(|segment| segment.content.starts_with(b"JFIF\0"))
}

/// Returns the segments before the first scan.
fn segments(stream: &[u8]) -> impl Iterator<Item = Segment<'_>> {
    let mut rest = stream.strip_prefix(&[0xff, SOI]).unwrap_or_default();
    std::iter::from_fn(move || {
        let (marker, behind) = next_marker(rest).ok()?;
        let (found, behind) = segment(marker, behind).ok()?;
        rest = behind;
        (marker != SOS).then_some(found)
    })
}
