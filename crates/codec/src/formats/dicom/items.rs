//! Elements within sequences, looked up.

use std::iter;

use super::dataset::{DataSet, inside, skip_items};
use super::header::Header;
use super::tags;
use crate::formats::elements::{Encoding, Tag, Type};
use crate::io::reader::Bytes;

/// How deep sequences within an item may be nested.
const DEPTH: usize = 32;

/// A data set, or an item of a sequence.
#[derive(Clone, Copy)]
pub(super) enum Scope<'s> {
    Whole(&'s DataSet),
    Item(&'s [u8], Encoding),
}

/// An element's value, and its type where that is written.
#[derive(Clone, Copy)]
pub(super) struct Found<'s> {
    pub(super) kind: Option<Type>,
    pub(super) value: &'s [u8],
    encoding: Encoding,
}

impl<'s> Scope<'s> {
    /// Finds an element.
    pub(super) fn find(self, tag: Tag) -> Option<Found<'s>> {
        match self {
            Self::Whole(set) => {
                let kind = set.elements.get(&tag)?.kind;
                Some(Found { kind, value: set.value(tag)?, encoding: set.encoding })
            }
            Self::Item(content, encoding) => find(content, encoding, tag),
        }
    }

    /// Returns the first item of a sequence.
    pub(super) fn item(self, tag: Tag) -> Option<Self> {
        self.find(tag)?.item(0)
    }

    /// Returns the first of the numbers that are written as text.
    pub(super) fn number(self, tag: Tag) -> Option<f64> {
        self.find(tag)?.numbers().next()
    }

    /// Returns numbers that are written as text, if there are exactly `N`.
    pub(super) fn coordinates<const N: usize>(self, tag: Tag) -> Option<[f64; N]> {
        self.find(tag)?.numbers().collect::<Vec<_>>().try_into().ok()
    }

    pub(super) fn text(self, tag: Tag) -> Option<&'s str> {
        let text = str::from_utf8(self.find(tag)?.value).ok()?;
        Some(text.trim_matches([' ', '\0'])).filter(|text| !text.is_empty())
    }
}

impl<'s> Found<'s> {
    /// Returns numbers that are written as text.
    pub(super) fn numbers(self) -> impl Iterator<Item = f64> {
        let texts = str::from_utf8(self.value).unwrap_or_default().split('\\');
        texts
            .map_while(|text| text.trim_matches([' ', '\0']).parse().ok())
            .filter(|number: &f64| number.is_finite())
    }

    /// Returns numbers of 16 bits.
    pub(super) fn words(self) -> Vec<u16> {
        self.value.as_chunks().0.iter().map(|word| self.encoding.u16(*word)).collect()
    }

    /// Returns numbers of 32 bits.
    pub(super) fn longs(self) -> Vec<u32> {
        self.value.as_chunks().0.iter().map(|long| self.encoding.u32(*long)).collect()
    }

    /// Returns tags.
    pub(super) fn tags(self) -> Vec<Tag> {
        self.value.as_chunks().0.iter().map(|tag| self.encoding.tag(*tag)).collect()
    }

    /// Returns the offsets of the first items of a sequence, `most` of them at most.
    pub(super) fn item_offsets(self, most: usize) -> Vec<usize> {
        let encoding = inside(self.kind, self.encoding);
        let (mut data, mut at) = (self.value, 0);
        let mut offsets = Vec::with_capacity(most);
        while offsets.len() < most
            && let Some((_, end)) = next_item(&mut data, at, encoding)
        {
            offsets.push(at);
            at = end;
        }
        offsets
    }

    /// Returns the item of a sequence at one of its [offsets](Self::item_offsets).
    pub(super) fn item_at(self, offset: usize) -> Option<Scope<'s>> {
        let (mut data, encoding) = (self.value, inside(self.kind, self.encoding));
        let (content, _) = next_item(&mut data, offset, encoding)?;
        Some(Scope::Item(self.value.get(content)?, encoding))
    }

    /// Returns the items of a sequence.
    pub(super) fn items(self) -> impl Iterator<Item = Scope<'s>> {
        let encoding = inside(self.kind, self.encoding);
        let (mut data, mut at) = (self.value, 0);
        iter::from_fn(move || {
            let (content, end) = next_item(&mut data, at, encoding)?;
            at = end;
            Some(Scope::Item(self.value.get(content)?, encoding))
        })
    }

    /// Returns an item of a sequence, by its number from 0.
    pub(super) fn item(self, number: usize) -> Option<Scope<'s>> {
        self.items().nth(number)
    }
}

/// Returns the place of the content of an item, and the end of the item.
fn next_item(data: &mut &[u8], at: usize, encoding: Encoding) -> Option<(std::ops::Range<usize>, usize)> {
    let item = Header::read(data, at as u64, encoding).ok()?;
    let start = at + item.bytes;
    if item.tag != tags::ITEM {
        return None;
    }
    if let Some(length) = item.length {
        let end = start + length as usize;
        return Some((start..end, end));
    }
    let mut at = start;
    loop {
        let (element, end) = next_element(data, at, encoding)?;
        if element.tag == tags::ITEM_END {
            return Some((start..at, end));
        }
        at = end;
    }
}

/// Returns an element, and its end.
fn next_element(data: &mut &[u8], at: usize, encoding: Encoding) -> Option<(Header, usize)> {
    let element = Header::read(data, at as u64, encoding).ok()?;
    let value = at + element.bytes;
    let end = match element.length {
        Some(length) => value + length as usize,
        None => skip_items(data, value as u64, inside(element.kind, encoding), DEPTH).ok()? as usize,
    };
    Some((element, end)).filter(|_| end <= data.length())
}

fn find(content: &[u8], encoding: Encoding, tag: Tag) -> Option<Found<'_>> {
    let (mut data, mut at) = (content, 0);
    while at < content.len() {
        let (element, end) = next_element(&mut data, at, encoding)?;
        if element.tag == tag {
            return Some(Found { kind: element.kind, value: &content[at + element.bytes..end], encoding });
        }
        at = end;
    }
    None
}
