//! DICOM files made for tests, of 16-bit samples.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, Write};

use super::data::Data;
use super::header::element;
use super::{Known, tags};
use crate::formats::elements::{Encoding, MARK, PREAMBLE, Tag, Type};
use crate::io::budget::Unbounded;
use crate::io::reader::Reader;
use crate::{CodecError, Cores, Decoded, Limits, Target};

const LIMITS: Limits = Limits { max_pixels: 1 << 20, max_bytes: 1 << 26 };

/// A file by its elements.
pub(super) struct Made(BTreeMap<Tag, Vec<u8>>);

impl Made {
    /// Returns a file of frames of one size, each with the next of these samples.
    pub(super) fn new([columns, rows]: [u16; 2], samples: &[u16]) -> Self {
        let frames = samples.len() / usize::from(columns * rows);
        let pixels: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        let made = Self(BTreeMap::new()).with(tags::PIXEL_DATA, b"OW", &pixels);
        let words = [
            (tags::SAMPLES, 1),
            (tags::ROWS, rows),
            (tags::COLUMNS, columns),
            (tags::BITS_ALLOCATED, 16),
            (tags::BITS_STORED, 16),
        ];
        let words =
            words.into_iter().fold(made, |made, (tag, word)| made.with(tag, b"US", &word.to_le_bytes()));
        words.with(tags::FRAMES, b"IS", frames.to_string().as_bytes())
    }

    /// Returns the file with an element.
    pub(super) fn with(mut self, tag: Tag, kind: &Type, value: &[u8]) -> Self {
        self.0.insert(tag, element(Encoding::EXPLICIT, tag, kind, value));
        self
    }

    /// Returns the file with a sequence.
    pub(super) fn with_items(self, tag: Tag, items: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let items: Vec<u8> = items.into_iter().flat_map(|content| item(&content)).collect();
        self.with(tag, b"SQ", &items)
    }

    fn file(&self) -> File {
        let uid = element(Encoding::EXPLICIT, tags::TRANSFER_SYNTAX, b"UI", b"1.2.840.10008.1.2.1");
        let mut bytes = vec![0; PREAMBLE];
        bytes.extend(MARK);
        bytes.extend(uid);
        self.0.values().for_each(|element| bytes.extend(element));
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        file.rewind().unwrap();
        file
    }

    /// Reads the elements.
    pub(super) fn known(&self) -> Result<Known, CodecError> {
        let (mut file, mut buffer) = (self.file(), Vec::new());
        let mut data = Data::new(Reader::new(&mut file, &mut buffer, &LIMITS, &mut Unbounded)?);
        Known::read(&mut data, PREAMBLE + MARK.len(), &LIMITS, &mut Unbounded, &Target::AS_STORED)
    }

    /// Decodes the first frame. Returns its levels too.
    pub(super) fn decoded(&self, target: &Target) -> Result<(Decoded, Vec<u16>), CodecError> {
        decode(&mut self.file(), target)
    }
}

/// Decodes a picture, or the first frame of a file. Returns its levels too.
pub(super) fn decode(file: &mut File, target: &Target) -> Result<(Decoded, Vec<u16>), CodecError> {
    let mut buffer = Vec::new();
    let opened = crate::open(file, &mut buffer, &LIMITS, target)?;
    let mut slot = vec![0; opened.slot_bytes()];
    let decoded = opened.decode(&mut slot, Vec::<u8>::new(), &Cores::none())?;
    let pixels = &slot[..decoded.layout.bytes() as usize];
    let levels = pixels.as_chunks().0.iter().map(|level| u16::from_ne_bytes(*level)).collect();
    Ok((decoded, levels))
}

/// Returns levels as they are in a slot.
pub(super) fn slot_of(levels: &[u16]) -> Vec<u8> {
    levels.iter().flat_map(|level| level.to_ne_bytes()).collect()
}

/// Returns an item of a sequence.
fn item(content: &[u8]) -> Vec<u8> {
    element(Encoding::EXPLICIT, tags::ITEM, b"UN", content)
}

/// Returns an element, for an item.
pub(super) fn inner(tag: Tag, kind: &Type, value: &[u8]) -> Vec<u8> {
    element(Encoding::EXPLICIT, tag, kind, value)
}

/// Returns a sequence of one item, for another item.
pub(super) fn group(tag: Tag, content: &[u8]) -> Vec<u8> {
    inner(tag, b"SQ", &item(content))
}
