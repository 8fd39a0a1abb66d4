//! Functional groups (PS3.3, C.7.6.16): what is said of each frame, in sequences within sequences.

use super::dataset::{Encoding, Header, skip_items};
use super::tags::{self, Tag};
use crate::ifd::Bytes;

/// The groups of all frames, and those of each.
pub(super) const GROUPS: [Tag; 2] = [0x5200_9229, 0x5200_9230];

/// What is left out of them: windows.
const WINDOWS: Tag = 0x0028_9132;

/// How deep sequences within these may be nested.
const DEPTH: usize = 32;

/// Returns the value of a sequence of functional groups without windows, ended by a delimiter; `None` if it has none, or is damaged.
pub(super) fn without_windows(value: &[u8], encoding: Encoding) -> Option<Vec<u8>> {
    let (mut kept, mut has_windows) = (Vec::new(), false);
    let (mut data, mut at) = (value, 0);
    while at < value.len() {
        let item = Header::read(&mut data, at as u64, encoding).ok()?;
        at += item.bytes;
        if item.tag == tags::SEQUENCE_END {
            break;
        }
        let end = item.length.map(|length| at + length as usize);
        put_header(&mut kept, tags::ITEM, u32::MAX);
        while end.is_none_or(|end| at < end) {
            let element = Header::read(&mut data, at as u64, encoding).ok()?;
            let start = at;
            at += element.bytes;
            if element.tag == tags::ITEM_END {
                break;
            }
            at = match element.length {
                Some(length) => at + length as usize,
                None => skip_items(&mut data, at as u64, encoding, DEPTH).ok()? as usize,
            };
            if element.tag == WINDOWS {
                has_windows = true;
            } else {
                kept.extend_from_slice(data.at(start, at - start).ok()?);
            }
        }
        put_header(&mut kept, tags::ITEM_END, 0);
    }
    put_header(&mut kept, tags::SEQUENCE_END, 0);
    has_windows.then_some(kept)
}

/// Appends the header of an item or delimiter.
fn put_header(to: &mut Vec<u8>, tag: Tag, length: u32) {
    to.extend(((tag >> 16) as u16).to_le_bytes());
    to.extend((tag as u16).to_le_bytes());
    to.extend(length.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: &[u8] = b"\x28\0\x45\x91SQ\0\0\x08\0\0\0\xfe\xff\0\xe0\0\0\0\0";
    const WINDOW: &[u8] =
        b"\x28\0\x32\x91SQ\0\0\xff\xff\xff\xff\xfe\xff\0\xe0\x02\0\0\0ab\xfe\xff\xdd\xe0\0\0\0\0";

    #[test]
    fn windows_are_left_out_and_the_rest_stays() {
        let item = |content: &[&[u8]], length: u32| {
            let mut item = Vec::new();
            put_header(&mut item, tags::ITEM, length);
            content.iter().for_each(|part| item.extend(*part));
            item
        };
        let mut ended = item(&[OTHER, WINDOW, OTHER], u32::MAX);
        put_header(&mut ended, tags::ITEM_END, 0);
        let long = item(&[WINDOW, OTHER], (WINDOW.len() + OTHER.len()) as u32);
        let mut expected = item(&[OTHER, OTHER], u32::MAX);
        put_header(&mut expected, tags::ITEM_END, 0);
        expected.extend(item(&[OTHER], u32::MAX));
        put_header(&mut expected, tags::ITEM_END, 0);
        put_header(&mut expected, tags::SEQUENCE_END, 0);
        let both = [ended, long].concat();
        assert_eq!(without_windows(&both, Encoding::EXPLICIT), Some(expected));
        let without = item(&[OTHER], OTHER.len() as u32);
        assert_eq!(without_windows(&without, Encoding::EXPLICIT), None);
        assert_eq!(without_windows(&both[..both.len() - 1], Encoding::EXPLICIT), None);
    }
}
