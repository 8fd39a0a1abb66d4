//! Statements of sequences about the old pixels: taken out, or made true.
//!
//! Above all, functional groups (PS3.3, C.7.6.16).

use std::io;

use super::dataset::{inside, skip_items};
use super::header::{Header, UNDEFINED, element, header};
use super::tags;
use crate::formats::elements::{Encoding, Tag, Type};
use crate::io::reader::Bytes;

/// The functional groups of all frames, and those of each.
const GROUPS: [Tag; 2] = [tags::SHARED_GROUPS, tags::FRAME_GROUPS];
/// Windows, and mappings to values with a unit.
const UNTRUE: [Tag; 2] = [0x0028_9132, tags::VALUE_MAPPINGS];
/// Slope, intercept and type of rescaled values.
const TRANSFORMATION: Tag = 0x0028_9145;
const FRAME_TYPE: Tag = 0x0008_9007;
/// How a slide was lit, and the profile of its colours.
const OPTICAL_PATHS: Tag = 0x0048_0105;

/// How deep sequences within these may be nested.
const DEPTH: usize = 32;

/// Facts of the new pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Truth {
    /// Whether colours became gray, for which a profile is meaningless.
    pub(super) lost_colours: bool,
    /// PixelPresentation, where it is stated.
    pub(super) presentation: &'static [u8],
    /// Whether samples are values of the source's kind, and are rescaled as those are.
    pub(super) keeps_values: bool,
}

/// The fate of an element in the new file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    LeftOut,
    /// It gets another value. The value of a sequence ends with its delimiter.
    Becomes(Vec<u8>),
}

/// The subject of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// The frames.
    Frames,
    /// How values of frames are rescaled.
    Rescaling,
    /// How the frames' colours came about.
    Optics,
    Other,
}

/// Returns the fate of an element of a data set.
///
/// Anything but a sequence stays, and so does a damaged one.
pub(super) fn fate(tag: Tag, kind: Option<Type>, value: &[u8], encoding: Encoding, truth: Truth) -> Fate {
    if !is_sequence(kind, value, encoding) {
        return Fate::Stays;
    }
    let about = match tag {
        OPTICAL_PATHS => About::Optics,
        _ if GROUPS.contains(&tag) => About::Frames,
        _ => About::Other,
    };
    of_items(value, inside(kind, encoding), about, truth, DEPTH).unwrap_or(Fate::Stays)
}

/// Returns whether the value of an element is a sequence.
///
/// Where its type is not written or not known, its first bytes decide.
fn is_sequence(kind: Option<Type>, value: &[u8], encoding: Encoding) -> bool {
    match kind {
        Some(kind) if kind != *b"UN" => kind == *b"SQ",
        _ => value.starts_with(&header(encoding, tags::ITEM, b"UN", 0)[..4]),
    }
}

/// Returns the fate of a sequence with these items.
fn of_items(value: &[u8], encoding: Encoding, about: About, truth: Truth, depth: usize) -> io::Result<Fate> {
    if depth == 0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let (mut kept, mut changes) = (Vec::new(), false);
    let (mut data, mut at) = (value, 0);
    while at < value.len() {
        let item = Header::read(&mut data, at as u64, encoding)?;
        at += item.bytes;
        if item.tag == tags::SEQUENCE_END {
            break;
        }
        if item.tag != tags::ITEM {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut content =
            Item { encoding, about, truth, depth, kept: Vec::new(), changes: false, has_type: false };
        let end = item.length.map(|length| at + length as usize);
        while end.is_none_or(|end| at < end) {
            let element = Header::read(&mut data, at as u64, encoding)?;
            let start = at;
            at += element.bytes;
            if element.tag == tags::ITEM_END {
                break;
            }
            if tags::PIXELS.contains(&element.tag) {
                // A picture of the old pixels, such as an icon.
                return Ok(Fate::LeftOut);
            }
            at = match element.length {
                Some(length) => at + length as usize,
                None => skip_items(&mut data, at as u64, inside(element.kind, encoding), depth)? as usize,
            };
            content.take(&element, data.at(start, at - start)?)?;
        }
        content.finish();
        changes |= content.changes;
        kept.extend(header(encoding, tags::ITEM, b"UN", UNDEFINED));
        kept.extend(content.kept);
        kept.extend(header(encoding, tags::ITEM_END, b"UN", 0));
    }
    kept.extend(header(encoding, tags::SEQUENCE_END, b"UN", 0));
    Ok(if changes { Fate::Becomes(kept) } else { Fate::Stays })
}

/// An item of a sequence, while its elements are looked at.
struct Item {
    encoding: Encoding,
    about: About,
    truth: Truth,
    depth: usize,
    /// Its content in the new file.
    kept: Vec<u8>,
    changes: bool,
    /// Whether it states the type of rescaled values.
    has_type: bool,
}

impl Item {
    /// Takes over an element; its `bytes` begin with its header.
    fn take(&mut self, found: &Header, bytes: &[u8]) -> io::Result<()> {
        let (value, kind) = (&bytes[found.bytes..], found.kind);
        let fate = self.fate(found, value)?;
        self.changes |= fate != Fate::Stays;
        match fate {
            Fate::Stays => self.kept.extend_from_slice(bytes),
            Fate::LeftOut => {}
            Fate::Becomes(new) if is_sequence(kind, value, self.encoding) => {
                self.kept.extend(header(self.encoding, found.tag, &kind.unwrap_or(*b"SQ"), UNDEFINED));
                self.kept.extend(new);
            }
            Fate::Becomes(new) => {
                self.kept.extend(element(self.encoding, found.tag, &kind.unwrap_or(*b"CS"), &new));
            }
        }
        Ok(())
    }

    fn fate(&mut self, found: &Header, value: &[u8]) -> io::Result<Fate> {
        let is_of_frames = matches!(self.about, About::Frames | About::Rescaling);
        Ok(match found.tag {
            tag if is_of_frames && UNTRUE.contains(&tag) => Fate::LeftOut,
            FRAME_TYPE if is_of_frames => Fate::Becomes(derived(value)),
            tags::PIXEL_PRESENTATION if is_of_frames => Fate::Becomes(self.truth.presentation.to_vec()),
            tags::RESCALE_TYPE if self.about == About::Rescaling => {
                self.has_type = true;
                Fate::Becomes(tags::UNSPECIFIED.to_vec())
            }
            tags::RESCALE_SLOPE if self.about == About::Rescaling && !self.truth.keeps_values => {
                Fate::Becomes(b"1".to_vec())
            }
            tags::RESCALE_INTERCEPT if self.about == About::Rescaling && !self.truth.keeps_values => {
                Fate::Becomes(b"0".to_vec())
            }
            tags::ICC | tags::COLOR_SPACE if self.about == About::Optics && self.truth.lost_colours => {
                Fate::LeftOut
            }
            tag if is_sequence(found.kind, value, self.encoding) => {
                let about = match self.about {
                    About::Frames if tag == TRANSFORMATION => About::Rescaling,
                    about => about,
                };
                of_items(value, inside(found.kind, self.encoding), about, self.truth, self.depth - 1)?
            }
            _ => Fate::Stays,
        })
    }

    /// Adds the type of rescaled values, if it is missing.
    fn finish(&mut self) {
        if self.about == About::Rescaling && !self.has_type {
            self.kept.extend(element(self.encoding, tags::RESCALE_TYPE, b"LO", tags::UNSPECIFIED));
            self.changes = true;
        }
    }
}

/// Returns the type of a derived image or frame.
pub(super) fn derived(kind: &[u8]) -> Vec<u8> {
    let further = kind.trim_ascii().split(|&byte| byte == b'\\').skip(1);
    [&b"DERIVED"[..]].into_iter().chain(further).collect::<Vec<_>>().join(&b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUTH: Truth = Truth { lost_colours: false, presentation: b"MONOCHROME", keeps_values: true };
    const EXPLICIT: Encoding = Encoding::EXPLICIT;
    const OTHER: &[u8] = b"\x28\0\x45\x90SQ\0\0\x08\0\0\0\xfe\xff\0\xe0\0\0\0\0";
    const WINDOW: &[u8] =
        b"\x28\0\x32\x91SQ\0\0\xff\xff\xff\xff\xfe\xff\0\xe0\x0a\0\0\0\x28\0\x50\x10DS\x02\x001 \xfe\xff\xdd\xe0\0\0\0\0";

    fn item(content: &[&[u8]], is_ended: bool) -> Vec<u8> {
        let length = content.iter().map(|part| part.len()).sum::<usize>() as u32;
        let mut item = header(EXPLICIT, tags::ITEM, b"UN", if is_ended { UNDEFINED } else { length });
        content.iter().for_each(|part| item.extend(*part));
        if is_ended {
            item.extend(header(EXPLICIT, tags::ITEM_END, b"UN", 0));
        }
        item
    }

    fn ended(mut items: Vec<u8>) -> Vec<u8> {
        items.extend(header(EXPLICIT, tags::SEQUENCE_END, b"UN", 0));
        items
    }

    fn of_groups(value: &[u8]) -> Fate {
        fate(GROUPS[1], Some(*b"SQ"), value, EXPLICIT, TRUTH)
    }

    #[test]
    fn windows_and_mappings_are_left_out_and_the_rest_stays() {
        let mapping = element(EXPLICIT, tags::VALUE_MAPPINGS, b"SQ", &item(&[], false));
        let both = [item(&[OTHER, WINDOW, OTHER], true), item(&[&mapping, OTHER], false)].concat();
        let expected = ended([item(&[OTHER, OTHER], true), item(&[OTHER], true)].concat());
        assert_eq!(of_groups(&both), Fate::Becomes(expected));
        assert_eq!(of_groups(&item(&[OTHER], false)), Fate::Stays);
        assert_eq!(of_groups(&both[..both.len() - 1]), Fate::Stays);
        // Other sequences describe other pictures.
        assert_eq!(fate(0x0008_1140, Some(*b"SQ"), &both, EXPLICIT, TRUTH), Fate::Stays);
    }

    #[test]
    fn frames_are_derived_and_their_values_have_no_unit() {
        let kind = |text: &[u8]| {
            let kinds = [
                element(EXPLICIT, FRAME_TYPE, b"CS", text),
                element(EXPLICIT, tags::PIXEL_PRESENTATION, b"CS", b"COLOR"),
            ];
            element(EXPLICIT, 0x0018_9329, b"SQ", &item(&[&kinds.concat()], false))
        };
        let slope = element(EXPLICIT, tags::RESCALE_SLOPE, b"DS", b"2");
        let unit = element(EXPLICIT, tags::RESCALE_TYPE, b"LO", b"HU");
        for rescale in [vec![&slope[..], &unit], vec![&slope]] {
            let rescale = element(EXPLICIT, TRANSFORMATION, b"SQ", &item(&rescale, false));
            let groups = item(&[&kind(b"ORIGINAL\\PRIMARY"), &rescale], false);
            let Fate::Becomes(found) = of_groups(&groups) else { panic!("they change") };
            let has = |part: &[u8]| found.windows(part.len()).any(|window| window == part);
            assert!(has(b"DERIVED\\PRIMARY") && has(b"MONOCHROME") && !has(b"COLOR"));
            assert!(has(&element(EXPLICIT, tags::RESCALE_TYPE, b"LO", b"US")) && has(&slope) && !has(b"HU"));
            let levels = Truth { keeps_values: false, ..TRUTH };
            let Fate::Becomes(found) = fate(GROUPS[1], Some(*b"SQ"), &groups, EXPLICIT, levels) else {
                panic!("they change")
            };
            let line = element(EXPLICIT, tags::RESCALE_SLOPE, b"DS", b"1");
            assert!(found.windows(line.len()).any(|window| window == line));
        }
    }

    #[test]
    fn pictures_within_sequences_are_left_out_wherever_they_are() {
        let mut pixels = header(EXPLICIT, tags::PIXEL_DATA, b"OB", UNDEFINED);
        pixels.extend(item(&[b"\xff\xd8"], false));
        let icon = ended(item(&[OTHER, &pixels], true));
        for kind in [Some(*b"SQ"), Some(*b"UN")] {
            assert_eq!(
                fate(0x07a3_10ce, kind, &icon, EXPLICIT, TRUTH),
                if kind == Some(*b"SQ") { Fate::LeftOut } else { Fate::Stays }
            );
        }
        let implicit = item(&[&element(Encoding::IMPLICIT, tags::PIXEL_DATA, b"OB", &[1, 2])], false);
        for (kind, encoding) in [(None, Encoding::IMPLICIT), (Some(*b"UN"), EXPLICIT)] {
            assert_eq!(fate(0x07a3_10ce, kind, &implicit, encoding, TRUTH), Fate::LeftOut);
        }
        let nested = item(&[OTHER, &element(EXPLICIT, 0x0009_1001, b"SQ", &icon)], false);
        assert_eq!(
            fate(0x0009_1002, Some(*b"SQ"), &nested, EXPLICIT, TRUTH),
            Fate::Becomes(ended(item(&[OTHER], true)))
        );
    }

    #[test]
    fn a_profile_goes_with_the_colours() {
        let profile = element(EXPLICIT, tags::ICC, b"OB", &[1, 2]);
        let path = item(&[&profile, OTHER], false);
        let of = |lost_colours| {
            fate(OPTICAL_PATHS, Some(*b"SQ"), &path, EXPLICIT, Truth { lost_colours, ..TRUTH })
        };
        assert_eq!(of(true), Fate::Becomes(ended(item(&[OTHER], true))));
        assert_eq!(of(false), Fate::Stays);
    }
}
