//! The elements of a derived image (PS3.3, C.7.6.1.1.2), a member of a series of its own.
//!
//! They are those of the source, except for those that describe the pixels, and those that would be
//! false: units and meanings of values, windows, tables and pictures made for the old values,
//! overlays among their bits, signatures, checksums of groups.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

use super::dataset::DataSet;
use super::encoded::Elements;
use super::header::{UNDEFINED, header};
use super::nested::{self, Fate, Truth};
use super::{Known, tags, transfer};
use crate::Derivation;
use crate::formats::elements::{Encoding, Tag, Type};

/// The UID of this program, made of a random UUID (PS3.5, B.2).
const IMPLEMENTATION: &str = "2.25.221637485960715533104982346671530274119";
const VERSION: &str = "HISTEQD";
/// The class of pictures of unknown origin.
const SECONDARY_CAPTURE: &[u8] = b"1.2.840.10008.5.1.4.1.1.7";
/// The class of magnetic resonance images with frames described in groups.
const ENHANCED_RESONANCE: &str = "1.2.840.10008.5.1.4.1.1.4.1";
const DERIVATION: &str = concat!("Contrast enhanced by histeqd ", env!("CARGO_PKG_VERSION"));
/// The most bytes of a short text, of a long string and of a whole number.
const MAX_TEXT: usize = 1024;
const MAX_STRING: usize = 64;
const MAX_NUMBER: i64 = i32::MAX as i64;

/// How samples are written.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub(super) tag: Tag,
    pub(super) kind: Type,
    pub(super) allocated: u16,
    pub(super) stored: u16,
    pub(super) signed: bool,
}

/// The facts of a picture that was made of another.
pub(super) struct Derived<'d> {
    pub(super) source: &'d Known,
    pub(super) form: Form,
    pub(super) is_gray: bool,
    /// Whether the least value is white.
    pub(super) white_is_least: bool,
    /// Whether samples are values of the source's kind.
    pub(super) keeps_values: bool,
    /// The least and the greatest value that counts.
    pub(super) range: Option<(f64, f64)>,
    pub(super) frames: u64,
    /// Its UID.
    pub(super) instance: &'d str,
    /// The settings of the derivation, if they are recorded.
    pub(super) derivation: Option<Derivation>,
}

impl Derived<'_> {
    /// Returns its elements, without the pixels.
    pub(super) fn elements(&self) -> Elements {
        let mut elements = self.kept();
        self.describe(&mut elements);
        self.tell_source(&mut elements);
        self.tell_series(&mut elements);
        self.tell_values(&mut elements);
        self.tell_range(&mut elements);
        elements
    }

    fn set(&self) -> &DataSet {
        &self.source.set
    }

    /// Returns whether the source has colours and the picture is gray.
    fn lost_colours(&self) -> bool {
        let description = &self.source.description;
        self.is_gray && (description.samples > 1 || description.palette.is_some())
    }

    /// Returns the elements of the source that stay true.
    fn kept(&self) -> Elements {
        let (set, lost_colours) = (self.set(), self.lost_colours());
        let truth =
            Truth { lost_colours, presentation: self.presentation(), keeps_values: self.keeps_values };
        let mut elements = Elements::new(set.encoding);
        let is_resonance = set.text(tags::SOP_CLASS) == Some(ENHANCED_RESONANCE);
        for (&tag, element) in &set.elements {
            let is_lost_profile = lost_colours && matches!(tag, tags::ICC | tags::COLOR_SPACE);
            let is_of_original = is_resonance && tags::OF_ORIGINAL_RESONANCE.contains(&tag);
            if tags::is_untrue(tag) || is_lost_overlay(set, tag) || is_lost_profile || is_of_original {
                continue;
            }
            let value = &set.bytes[element.value.clone()];
            let encoded = match nested::fate(tag, element.kind, value, set.encoding, truth) {
                Fate::LeftOut => continue,
                Fate::Stays => [&set.bytes[element.header.clone()], value].concat(),
                Fate::Becomes(items) => {
                    let kind = element.kind.unwrap_or(*b"SQ");
                    [header(set.encoding, tag, &kind, UNDEFINED), items].concat()
                }
            };
            elements.encoded.insert(tag, encoded);
        }
        elements
    }

    /// Returns the value of PixelPresentation.
    fn presentation(&self) -> &'static [u8] {
        if self.is_gray { b"MONOCHROME" } else { b"TRUE_COLOR" }
    }

    /// Describes the pixels.
    fn describe(&self, elements: &mut Elements) {
        let Self { form, is_gray, .. } = *self;
        let photometric: &[u8] = match (is_gray, self.white_is_least) {
            (true, true) => b"MONOCHROME1",
            (true, false) => b"MONOCHROME2",
            (false, _) => b"RGB",
        };
        elements.put_number(tags::SAMPLES, if is_gray { 1 } else { 3 });
        elements.put(tags::PHOTOMETRIC, b"CS", photometric);
        if is_gray {
            elements.remove(tags::PLANAR);
        } else {
            elements.put_number(tags::PLANAR, 0);
        }
        if self.set().value(tags::PIXEL_PRESENTATION).is_some() {
            elements.put(tags::PIXEL_PRESENTATION, b"CS", self.presentation());
        }
        elements.put_number(tags::BITS_ALLOCATED, form.allocated);
        if form.tag == tags::PIXEL_DATA {
            elements.put_number(tags::BITS_STORED, form.stored);
            elements.put_number(tags::HIGH_BIT, form.stored - 1);
            elements.put_number(tags::REPRESENTATION, form.signed.into());
        }
        if self.source.lossy {
            elements.put(tags::LOSSY, b"CS", b"01");
        }
        if self.source.description.frames > 1 {
            elements.put(tags::FRAMES, b"IS", self.frames.to_string().as_bytes());
        }
    }

    /// Records the source of the picture, and how it was made from it.
    fn tell_source(&self, elements: &mut Elements) {
        let set = self.set();
        elements.put(tags::IMAGE_TYPE, b"CS", &image_type(set));
        let mut how = set.value(tags::DERIVATION).unwrap_or_default().trim_ascii().to_vec();
        if !how.is_empty() && how.len() + 2 + DERIVATION.len() <= MAX_TEXT {
            how.extend(b"; ");
        } else {
            how.clear();
        }
        how.extend(DERIVATION.as_bytes());
        elements.put(tags::DERIVATION, b"ST", &how);
        let source = set.value(tags::SOP_INSTANCE).filter(|uid| is_uid(uid));
        let class = set.value(tags::SOP_CLASS);
        if let (Some(class), Some(source)) = (class, source) {
            let mut item = Elements::new(elements.encoding);
            item.put(tags::REFERENCED_CLASS, b"UI", class);
            item.put(tags::REFERENCED_INSTANCE, b"UI", source);
            let mut value = header(elements.encoding, tags::ITEM, b"UN", item.bytes() as u32);
            value.extend(item.encoded.into_values().flatten());
            elements.put(tags::SOURCE_IMAGES, b"SQ", &value);
        }
        if set.value(tags::SOP_CLASS).is_none() {
            elements.put(tags::SOP_CLASS, b"UI", SECONDARY_CAPTURE);
        }
        elements.put(tags::SOP_INSTANCE, b"UI", self.instance.as_bytes());
    }

    /// Puts the picture into another series.
    ///
    /// It is the same for all pictures of a series that were made with the same settings.
    fn tell_series(&self, elements: &mut Elements) {
        let (set, Some(derivation)) = (self.set(), self.derivation) else { return };
        for tag in [tags::SERIES_INSTANCE, tags::CONCATENATION] {
            if let Some(old) = set.value(tag) {
                elements.put(tag, b"UI", series_uid(old, &derivation).as_bytes());
            }
        }
        let old = set.text(tags::SERIES_NUMBER).and_then(|text| text.parse::<i64>().ok());
        let number = 100 * old.unwrap_or(0) + i64::from(derivation.number);
        if (0..=MAX_NUMBER).contains(&number) {
            elements.put(tags::SERIES_NUMBER, b"IS", number.to_string().as_bytes());
        }
        let old = set.value(tags::SERIES_DESCRIPTION).unwrap_or_default().trim_ascii();
        elements.put(tags::SERIES_DESCRIPTION, b"LO", &series_description(old, derivation.what));
    }

    /// Declares values to be without a unit.
    fn tell_values(&self, elements: &mut Elements) {
        let rescaled = [tags::RESCALE_INTERCEPT, tags::RESCALE_SLOPE, tags::RESCALE_TYPE];
        let is_rescaled = rescaled.into_iter().any(|tag| self.set().value(tag).is_some());
        if !self.keeps_values {
            [tags::PADDING, tags::PADDING_LIMIT].into_iter().for_each(|tag| elements.remove(tag));
        }
        if is_rescaled && !self.is_gray {
            rescaled.into_iter().for_each(|tag| elements.remove(tag));
        } else if is_rescaled {
            if !self.keeps_values {
                elements.put(tags::RESCALE_INTERCEPT, b"DS", b"0");
                elements.put(tags::RESCALE_SLOPE, b"DS", b"1");
            }
            // An unstated type means Hounsfield units in some pictures.
            elements.put(tags::RESCALE_TYPE, b"LO", tags::UNSPECIFIED);
        }
        if self.set().value(tags::UNITS).is_some() {
            elements.put(tags::UNITS, b"CS", b"NONE");
        }
    }

    /// Records the least and greatest value of 16 bits, and a window that shows all between them.
    fn tell_range(&self, elements: &mut Elements) {
        let (form, set) = (&self.form, self.set());
        if !self.is_gray || form.tag != tags::PIXEL_DATA || form.allocated > 16 {
            return;
        }
        let (least, greatest) = self.range.unwrap_or_default();
        if set.value(tags::SMALLEST).is_some() || set.value(tags::LARGEST).is_some() {
            let kind = if form.signed { b"SS" } else { b"US" };
            for (tag, value) in [(tags::SMALLEST, least), (tags::LARGEST, greatest)] {
                elements.put(tag, kind, &(value as i32 as u16).to_le_bytes());
            }
        }
        // A window is given in rescaled values (PS3.3, C.11.2.1.2): its lower end is at center -
        // width / 2, its upper one at center + width / 2 - 1.
        let [slope, intercept] =
            [(tags::RESCALE_SLOPE, 1.0), (tags::RESCALE_INTERCEPT, 0.0)].map(|(tag, usual)| {
                let text = set.text(tag).filter(|_| self.keeps_values);
                text.map_or(usual, |text| text.parse().unwrap_or(f64::NAN))
            });
        if slope == 1.0 && intercept.is_finite() {
            let (center, width) = ((least + greatest + 1.0) / 2.0 + intercept, greatest - least + 1.0);
            for (tag, value) in [(tags::WINDOW_CENTER, center), (tags::WINDOW_WIDTH, width)] {
                // Padded to the longest such number, to have the same length whatever its value.
                let text = format!("{value:<16}");
                elements.put(tag, b"DS", text.get(..16).unwrap_or_default().as_bytes());
            }
        }
    }
}

/// Returns the file meta information (PS3.10, 7.1).
pub(super) fn meta(set: &DataSet, instance: &str) -> Vec<u8> {
    let mut elements = Elements::new(Encoding::EXPLICIT);
    let class = set.value(tags::SOP_CLASS).map_or(SECONDARY_CAPTURE, <[u8]>::trim_ascii);
    elements.put(tags::META_VERSION, b"OB", &[0, 1]);
    elements.put(tags::META_CLASS, b"UI", class);
    elements.put(tags::META_INSTANCE, b"UI", instance.as_bytes());
    let transfer = if set.encoding.explicit { transfer::EXPLICIT } else { transfer::IMPLICIT };
    elements.put(tags::TRANSFER_SYNTAX, b"UI", transfer.as_bytes());
    elements.put(tags::IMPLEMENTATION, b"UI", IMPLEMENTATION.as_bytes());
    elements.put(tags::IMPLEMENTATION_NAME, b"SH", VERSION.as_bytes());
    let length = elements.bytes() as u32;
    elements.put(tags::META_LENGTH, b"UL", &length.to_le_bytes());
    elements.encoded.into_values().flatten().collect()
}

/// Returns whether an element belongs to an overlay in unused bits of the pixels.
fn is_lost_overlay(set: &DataSet, tag: Tag) -> bool {
    let group = tag >> 16;
    tags::OVERLAYS.contains(&group) && set.value(group << 16 | tags::OVERLAY_DATA).is_none()
}

/// Returns whether frames are described one by one, in groups.
fn is_enhanced(set: &DataSet) -> bool {
    let has_groups = set.value(tags::SHARED_GROUPS).is_some() || set.value(tags::FRAME_GROUPS).is_some();
    has_groups || set.text(tags::SOP_CLASS) == Some(ENHANCED_RESONANCE)
}

/// Returns the type of a derived image.
///
/// It was not made in the examination and is therefore secondary. Where each frame has a type,
/// those of patients' images are always of the first kind (PS3.3, C.8.16.1.2).
fn image_type(set: &DataSet) -> Vec<u8> {
    let old = set.value(tags::IMAGE_TYPE).unwrap_or_default();
    let kind = nested::derived(old);
    if is_enhanced(set) {
        return kind;
    }
    let further = kind.split(|&byte| byte == b'\\').skip(2);
    [&b"DERIVED"[..], b"SECONDARY"].into_iter().chain(further).collect::<Vec<_>>().join(&b'\\')
}

/// Returns the description of a derived series, given that of its source.
///
/// The source's part is cut to fit, if letters are bytes.
fn series_description(old: &[u8], what: &str) -> Vec<u8> {
    let what = format!("histeqd {what}");
    if old.is_empty() {
        return what.into_bytes();
    }
    let room = MAX_STRING - " ()".len() - what.len();
    let old = match old.len() {
        length if length <= room => old,
        _ if old.is_ascii() => &old[..room],
        _ => return what.into_bytes(),
    };
    [old, b" (", what.as_bytes(), b")"].concat()
}

/// Returns whether this is a UID (PS3.5, 9.1).
fn is_uid(value: &[u8]) -> bool {
    matches!(value, [b'0'..=b'2', b'.', ..])
        && value.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | 0 | b' '))
}

/// Returns the UID of a derived series.
fn series_uid(source: &[u8], derivation: &Derivation) -> String {
    let mut hasher = new_hasher();
    hasher.write(source.trim_ascii_end().split(|&byte| byte == 0).next().unwrap_or_default());
    hasher.write_u8(0);
    hasher.write(&derivation.settings.to_le_bytes());
    uid(hasher.finish128().as_u128())
}

/// Returns a UID made of a UUID (PS3.5, B.2), with these bits. It always has 44 characters.
pub(super) fn uid(bits: u128) -> String {
    // Version 8, with all other bits free (RFC 9562, 5.8). The highest bit makes it a number of 39
    // digits.
    let bits = bits & !(0xf << 76 | 0b11 << 62) | 8 << 76 | 0b10 << 62 | 1 << 127;
    format!("2.25.{bits}")
}

pub(super) fn new_hasher() -> SipHasher13 {
    SipHasher13::new_with_keys(0x6869_7374_6571_6400, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_says_what_was_done_within_its_length() {
        assert_eq!(series_description(b"", "CLAHE"), b"histeqd CLAHE");
        assert_eq!(series_description(b"T1 axial", "CLAHE"), b"T1 axial (histeqd CLAHE)");
        let long = series_description(&[b'x'; 64], "CLAHE");
        assert_eq!(long.len(), 64);
        assert!(long.ends_with(b"x (histeqd CLAHE)"));
        assert_eq!(series_description("ü".repeat(30).as_bytes(), "CLAHE"), b"histeqd CLAHE");
    }

    #[test]
    fn a_series_is_known_by_its_source_and_the_settings() {
        let of =
            |source: &[u8], settings| series_uid(source, &Derivation { what: "CLAHE", number: 4, settings });
        assert_eq!(of(b"1.2.3", 5), of(b"1.2.3\0", 5));
        assert!(of(b"1.2.3", 5) != of(b"1.2.3", 6) && of(b"1.2.3", 5) != of(b"1.2.4", 5));
    }
}
