//! The blocks of a GIF (GIF89a, appendix B).
//!
//! The `gif` crate skips unknown extensions only together with any other bytes that are not blocks,
//! and a frame could be among these.

const EXTENSION: u8 = 0x21;
const IMAGE: u8 = 0x2c;
const TRAILER: u8 = 0x3b;

/// Returns whether there are only images and extensions between the header and the trailer.
pub(super) fn are_known(bytes: &[u8]) -> bool {
    walk(bytes).is_some()
}

fn walk(bytes: &[u8]) -> Option<()> {
    const HEADER: usize = 13;
    let mut rest = bytes.get(HEADER + palette_bytes(*bytes.get(10)?)..)?;
    loop {
        let (kind, behind) = rest.split_first()?;
        rest = match *kind {
            EXTENSION => behind_sub_blocks(behind.get(1..)?)?,
            // Place, flags, palette, and the size of the codes.
            IMAGE => behind_sub_blocks(behind.get(9 + palette_bytes(*behind.get(8)?) + 1..)?)?,
            TRAILER => return Some(()),
            _ => return None,
        };
    }
}

/// Returns the bytes of the palette that these flags announce.
fn palette_bytes(flags: u8) -> usize {
    if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) }
}

/// Returns the bytes after the sub-blocks; the last of these is empty.
fn behind_sub_blocks(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        let (&length, behind) = bytes.split_first()?;
        if length == 0 {
            return Some(behind);
        }
        bytes = behind.get(usize::from(length)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::are_known;

    #[test]
    fn an_extension_of_any_kind_is_known_and_what_is_no_block_is_not() {
        let header = b"GIF89a\x01\0\x01\0\x80\0\0abcdef";
        let image = b",\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0";
        let extension = b"!\x2a\x05Hello\x01,\0";
        let file = |blocks: &[&[u8]]| [&header[..], &blocks.concat()].concat();
        assert!(are_known(&file(&[extension, image, extension, b";"])));
        assert!(!are_known(&file(&[image, b"\x05Hello\0", image, b";"])), "it is no extension");
        assert!(!are_known(&file(&[extension, image])), "there is no trailer");
    }
}
