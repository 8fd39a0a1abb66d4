//! Elements as they are written.

use std::collections::BTreeMap;

use super::header::element;
use crate::formats::elements::{Encoding, Tag, Type};

/// Elements with their headers, by tag.
pub(super) struct Elements {
    pub(super) encoding: Encoding,
    pub(super) encoded: BTreeMap<Tag, Vec<u8>>,
}

impl Elements {
    pub(super) fn new(encoding: Encoding) -> Self {
        Self { encoding, encoded: BTreeMap::new() }
    }

    /// Puts an element in the place of any other of its tag. Values of odd length are padded.
    pub(super) fn put(&mut self, tag: Tag, kind: &Type, value: &[u8]) {
        self.encoded.insert(tag, element(self.encoding, tag, kind, value));
    }

    pub(super) fn put_number(&mut self, tag: Tag, number: u16) {
        self.put(tag, b"US", &number.to_le_bytes());
    }

    pub(super) fn remove(&mut self, tag: Tag) {
        self.encoded.remove(&tag);
    }

    pub(super) fn bytes(&self) -> usize {
        self.encoded.values().map(Vec::len).sum()
    }
}
