//! Other data in a file: thumbnails in its segments, and bytes after its end.

use memchr::memmem;

use super::markers::{APP1, APP2, EOI, GAIN_MAP, Markers, Segment, XMP, next_marker, segment};
use crate::metadata::xmp;

/// The first bytes of a JPEG.
const JPEG: &[u8] = b"\xff\xd8\xff";
/// The type of the box at the start of videos (ISO/IEC 14496-12, 4.3), after its length.
const VIDEO: &[u8] = b"ftyp";
/// The longest box that is recognized as such.
const LONGEST_BOX: u32 = 256;

/// Recognized data other than the picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct More {
    /// The video of a motion photo.
    pub(crate) video: bool,
    /// A gain map for displays with a high dynamic range.
    pub(crate) gain_map: bool,
    /// Other versions of the picture, as of the multi-picture format or of JFXX.
    pub(crate) previews: bool,
    /// The number of unrecognized bytes.
    pub(crate) unknown: u64,
}

impl More {
    /// Returns the data recognized in a file.
    pub(super) fn of(markers: &Markers<'_>) -> Self {
        let mut more = Self { previews: markers.has_thumbnail, ..Self::default() };
        more.add_behind(markers.behind);
        more
    }

    /// Adds the bytes after the end of the picture.
    ///
    /// Cameras and programs pad files with zeros and line feeds, which are ignored.
    fn add_behind(&mut self, mut rest: &[u8]) {
        loop {
            let bare = without_padding(rest);
            if !bare.starts_with(JPEG) {
                break;
            }
            let Some((is_gain_map, behind)) = skip_jpeg(bare) else { break };
            *(if is_gain_map { &mut self.gain_map } else { &mut self.previews }) = true;
            rest = behind;
        }
        // Zeros are also the first bytes of a video, and Samsung puts names before its own.
        if begins_video(rest) {
            self.video = true;
        } else {
            self.unknown = without_padding(rest).len() as u64;
        }
    }
}

fn without_padding(bytes: &[u8]) -> &[u8] {
    let is_padding = |byte: &u8| *byte == 0 || byte.is_ascii_whitespace();
    &bytes[bytes.iter().take_while(|byte| is_padding(byte)).count()..]
}

/// Returns whether a JPEG is a gain map, and the bytes after it; `None` if it is not whole.
fn skip_jpeg(bytes: &[u8]) -> Option<(bool, &[u8])> {
    let (mut rest, mut is_gain_map) = (&bytes[2..], false);
    loop {
        let (marker, behind) = next_marker(rest).ok()?;
        rest = match marker {
            EOI => return Some((is_gain_map, behind)),
            0x01 | 0xd0..=0xd7 => behind,
            _ => {
                let (segment, behind) = segment(marker, behind).ok()?;
                is_gain_map |= says_gain_map(&segment);
                behind
            }
        };
    }
}

fn says_gain_map(Segment { marker, content }: &Segment<'_>) -> bool {
    match *marker {
        APP1 => content.strip_prefix(XMP).is_some_and(xmp::tells_of_gain_map),
        APP2 => content.starts_with(GAIN_MAP),
        _ => false,
    }
}

/// Returns whether a video begins somewhere in these bytes.
fn begins_video(bytes: &[u8]) -> bool {
    memmem::find_iter(bytes, VIDEO).any(|at| {
        let length = at.checked_sub(4).and_then(|from| bytes[from..].first_chunk());
        length.is_some_and(|length| (8..=LONGEST_BOX).contains(&u32::from_be_bytes(*length)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: More = More { video: false, gain_map: false, previews: false, unknown: 0 };

    fn behind(bytes: &[u8]) -> More {
        let mut more = More::default();
        more.add_behind(bytes);
        more
    }

    /// A JPEG of one segment.
    fn jpeg(marker: u8, content: &[u8]) -> Vec<u8> {
        let length = (content.len() as u16 + 2).to_be_bytes();
        [b"\xff\xd8\xff", &[marker][..], &length, content, b"\xff\xda\0\x02scan\xff\0\xff\xd9"].concat()
    }

    #[test]
    fn padding_is_nothing() {
        for padding in [&b""[..], b"\n", b"\r\n", &[0; 300], b"\0 \n\0"] {
            assert_eq!(behind(padding), NOTHING, "{padding:?}");
        }
    }

    #[test]
    fn what_follows_is_told_apart() {
        let preview = jpeg(0xe1, b"Exif\0\0II*\0");
        let maps = [
            jpeg(APP2, &[GAIN_MAP, b"\0\0\0\0"].concat()),
            jpeg(APP1, &[XMP, b"<x xmlns:hdrgm='http://ns.adobe.com/hdr-gain-map/1.0/'/>"].concat()),
            jpeg(APP1, &[XMP, b"<x xmlns:H='http://ns.apple.com/HDRGainMap/1.0/'/>"].concat()),
        ];
        let video = b"\0\0\0\x18ftypmp42\0\0\0\0isommp42\0\0\0\x08mdat";
        assert_eq!(behind(&preview), More { previews: true, ..NOTHING });
        assert_eq!(behind(video), More { video: true, ..NOTHING });
        assert_eq!(behind(&[b"MotionPhoto_Data", &video[..]].concat()), More { video: true, ..NOTHING });
        for map in maps {
            assert_eq!(behind(&map), More { gain_map: true, ..NOTHING });
            let all = [&b"\0"[..], &map, &[0; 5], &preview, video].concat();
            assert_eq!(behind(&all), More { gain_map: true, previews: true, video: true, unknown: 0 });
        }
    }

    #[test]
    fn what_is_not_known_is_counted() {
        assert_eq!(behind(b"\nSEFHe\0"), More { unknown: 6, ..NOTHING });
        assert_eq!(behind(b"it says ftyp and is none"), More { unknown: 24, ..NOTHING });
        let cut = &jpeg(0xe1, b"Exif\0\0II*\0")[..20];
        assert_eq!(behind(cut), More { unknown: 20, ..NOTHING });
    }
}
