//! ImageJ's metadata, without the display range and calibration of levels.
//!
//! A new contrast makes these wrong: ImageJ would show the picture between the old bounds.
//!
//! ImageJ states them in the description, line by line, and in a tag of its own
//! (`ij/io/TiffEncoder.java`, `writeMetaData`): a mark, the type and number of parts of each type,
//! and then the parts. Their lengths are in another tag. Numbers and texts are in the byte order of
//! the file.

use crate::samples::swap_bytes;

/// The mark at the beginning, in big-endian order.
const MARK: [u8; 4] = *b"IJIJ";
/// The display range of each channel.
const RANGES: [u8; 4] = *b"rang";
/// Parts that are texts in UTF-16: about the picture, its slices' labels, and its properties.
const TEXTS: [[u8; 4]; 3] = [*b"info", *b"labl", *b"prop"];

/// Returns a description without the lines that have become false, if it is ImageJ's.
///
/// These are the lines about levels, and those about pictures if this one `leaves` the others, or
/// if they count samples of a pixel whose number changes.
pub(crate) fn description(text: Vec<u8>, leaves: bool, (before, after): (usize, usize)) -> Vec<u8> {
    if !is_description(&text) {
        return text;
    }
    let leaves = leaves || before != after && counts_samples(&text, before as u64);
    // The zero that ends the text is not part of its last line.
    let (text, end) = text.split_at(text.iter().position(|&byte| byte == 0).unwrap_or(text.len()));
    let lines = text
        .split_inclusive(|&byte| byte == b'\n')
        .filter(|line| !(is_of_levels(line) || leaves && is_of_others(line)));
    lines.chain([end]).flatten().copied().collect()
}

/// Returns whether a description is ImageJ's.
pub(crate) fn is_description(text: &[u8]) -> bool {
    text.starts_with(b"ImageJ=")
}

/// Returns the number of pictures that ImageJ's description states.
pub(crate) fn images(text: &[u8]) -> Option<u64> {
    if is_description(text) { number(text, "images") } else { None }
}

/// Returns whether ImageJ's description counts the samples of a pixel as channels, and as pictures.
///
/// Bio-Formats writes such ones, of colours too.
pub(crate) fn counts_samples(text: &[u8], samples: u64) -> bool {
    samples > 1 && is_description(text) && number(text, "channels") == Some(samples)
}

/// Returns a number that ImageJ's description states.
pub(crate) fn number(text: &[u8], name: &str) -> Option<u64> {
    value(text, name)?.parse().ok()
}

/// Returns the value that ImageJ's description has under a name.
pub(crate) fn value<'t>(text: &'t [u8], name: &str) -> Option<&'t str> {
    let mut lines = text.split(|&byte| matches!(byte, b'\n' | 0));
    let value = lines.find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    str::from_utf8(value).ok().map(str::trim)
}

/// Returns whether a line of the description is about levels.
///
/// They are the display range, and the function from levels to physical values.
fn is_of_levels(line: &[u8]) -> bool {
    let Some(at) = line.iter().position(|&byte| byte == b'=') else { return false };
    match &line[..at] {
        b"min" | b"max" | b"cf" | b"vunit" | b"zeroclip" => true,
        [b'c', digits @ ..] => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// Returns whether a line of the description is about the pictures of a stack.
fn is_of_others(line: &[u8]) -> bool {
    let name = line.split(|&byte| byte == b'=').next().unwrap_or_default();
    matches!(name, b"images" | b"channels" | b"slices" | b"frames" | b"hyperstack" | b"order" | b"mode")
}

/// Returns the metadata, little-endian and without display ranges, after the lengths of parts.
///
/// `None` if there is no other part, or if it makes no sense.
pub(crate) fn metadata(lengths: &[u64], bytes: &[u8]) -> Option<(Vec<u64>, Vec<u8>)> {
    let (head_length, mut lengths) = lengths.split_first()?;
    let (head, mut rest) = bytes.split_at_checked(usize::try_from(*head_length).ok()?)?;
    let (mark, types) = head.split_first_chunk()?;
    let big_endian = *mark == MARK;
    if !big_endian && *mark != reversed(MARK) {
        return None;
    }
    let (mut new_head, mut new_lengths, mut parts) = (reversed(MARK).to_vec(), vec![0], Vec::new());
    for [kind, count] in types.as_chunks::<4>().0.as_chunks::<2>().0 {
        let [kind, count] = [*kind, *count].map(|word| if big_endian { word } else { reversed(word) });
        let own = lengths.split_off(..u32::from_be_bytes(count) as usize)?;
        let total = own.iter().try_fold(0, |sum: u64, &length| sum.checked_add(length))?;
        let mut content = rest.split_off(..usize::try_from(total).ok()?)?.to_vec();
        if kind == RANGES {
            continue;
        }
        if big_endian && TEXTS.contains(&kind) {
            swap_bytes(&mut content, 2);
        }
        new_head.extend([reversed(kind), reversed(count)].concat());
        new_lengths.extend(own);
        parts.extend(content);
    }
    new_lengths[0] = new_head.len() as u64;
    (!parts.is_empty()).then(|| (new_lengths, [new_head, parts].concat()))
}

fn reversed(mut word: [u8; 4]) -> [u8; 4] {
    word.reverse();
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Metadata of these types and parts.
    fn metadata_of(big_endian: bool, types: &[(&[u8; 4], Vec<&[u8]>)]) -> (Vec<u64>, Vec<u8>) {
        let word = |word: [u8; 4]| if big_endian { word } else { reversed(word) };
        let mut bytes = word(MARK).to_vec();
        for (kind, parts) in types {
            bytes.extend([word(**kind), word((parts.len() as u32).to_be_bytes())].concat());
        }
        let parts = || types.iter().flat_map(|(_, parts)| parts.iter());
        let lengths = [bytes.len() as u64].into_iter().chain(parts().map(|part| part.len() as u64));
        (lengths.collect(), [bytes.clone(), parts().copied().flatten().copied().collect()].concat())
    }

    #[test]
    fn ranges_go_and_the_rest_becomes_little_endian() {
        let ranges = || (b"rang", vec![&b"RANGERANGERANGE!"[..]]);
        let luts = || (b"luts", vec![&b"xyz"[..]]);
        let little = [(b"info", vec![&b"a\0b\0"[..]]), (b"labl", vec![b"c\0", b"d\0"])];
        let big = [(b"info", vec![&b"\0a\0b"[..]]), (b"labl", vec![b"\0c", b"\0d"])];
        let expected = metadata_of(false, &[&little[..], &[luts()]].concat());
        for (big_endian, texts) in [(false, little), (true, big)] {
            let [info, labels] = texts;
            let (lengths, bytes) = metadata_of(big_endian, &[info, ranges(), labels, luts()]);
            assert_eq!(metadata(&lengths, &bytes).as_ref(), Some(&expected), "{big_endian}");
        }
    }

    #[test]
    fn nothing_else_and_nonsense_go() {
        let (lengths, bytes) = metadata_of(true, &[(b"rang", vec![&[0; 16]])]);
        assert_eq!(metadata(&lengths, &bytes), None);
        let (lengths, bytes) = metadata_of(true, &[(b"info", vec![b"\0a", b"\0b"])]);
        assert!(metadata(&lengths, &bytes).is_some());
        for end in 0..bytes.len() {
            assert_eq!(metadata(&lengths, &bytes[..end]), None, "{end}");
        }
        for end in 0..lengths.len() {
            assert_eq!(metadata(&lengths[..end], &bytes), None, "{end}");
        }
        assert_eq!(metadata(&[12, u64::MAX, 1], &bytes), None);
        assert_eq!(metadata(&lengths, &vec![0; bytes.len()]), None);
    }

    #[test]
    fn lines_about_levels_go_only_from_imagejs_description() {
        let text =
            b"ImageJ=1.53\nunit=um\ncf=0\nc0=1.5\nc12=2\nvunit=OD\nchannels=1\nmin=100.0\nmax=4000.0\n\0";
        assert_eq!(description(text.to_vec(), false, (1, 1)), b"ImageJ=1.53\nunit=um\nchannels=1\n\0");
        assert_eq!(description(text.to_vec(), true, (1, 1)), b"ImageJ=1.53\nunit=um\n\0");
        assert_eq!(description(text[1..].to_vec(), true, (1, 1)), &text[1..]);
        assert_eq!(description(b"ImageJ=1\nmax=4\0".to_vec(), false, (1, 1)), b"ImageJ=1\n\0");
    }

    #[test]
    fn counts_of_pictures_go_if_they_count_samples_whose_number_changes() {
        let text = b"ImageJ=\nimages=3\nchannels=3\nslices=1\nunit=um\n\0";
        for (samples, expected) in
            [((3, 3), &text[..]), ((4, 1), &text[..]), ((3, 1), b"ImageJ=\nunit=um\n\0")]
        {
            assert_eq!(description(text.to_vec(), false, samples), expected, "{samples:?}");
        }
    }
}
