//! Smaller versions of a picture whose pages do not say so: the pyramids of slide scanners, and of
//! programs that write every resolution as a picture.
//!
//! The pages after a picture are versions of it if their samples are like its own and their sides
//! are its own divided by a whole number, each smaller than the one before. There are at least two,
//! or all are in tiles: the pages of a document may have two sizes.

use super::super::CodecError;
use super::super::ifd::{self, Form};
use super::pages::{Role, outside};
use super::tags;
use crate::reader::Reader;

/// The most sizes of pictures with versions in a file.
const MAX_SIZES: usize = 64;

/// The tags by which pages are compared: those of the samples, after those of the role and size.
const TAGS: [u16; 9] = [
    tags::KIND,
    tags::OLD_KIND,
    tags::WIDTH,
    tags::HEIGHT,
    tags::TILE_WIDTH,
    tags::SAMPLES_PER_PIXEL,
    tags::BITS_PER_SAMPLE,
    tags::PHOTOMETRIC,
    tags::SAMPLE_FORMAT,
];

/// The role, size and samples of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) role: Role,
    size: (u64, u64),
    is_tiled: bool,
    samples: [Option<u64>; 4],
}

impl Look {
    /// Looks at the page at an offset. Also returns the offset of the next one.
    pub(super) fn at(bytes: &mut Reader<'_>, form: Form, offset: u64) -> Result<(Self, u64), CodecError> {
        let offset = usize::try_from(offset).map_err(|_| outside())?;
        match ifd::glance(bytes, form, offset, TAGS) {
            Ok(([kind, old_kind, width, height, tile, samples @ ..], next)) => {
                let size = (width.unwrap_or(0), height.unwrap_or(0));
                Ok((Self { role: Role::new(kind, old_kind), size, is_tiled: tile.is_some(), samples }, next))
            }
            Err(error) if error.raw_os_error().is_some() => Err(error.into()),
            Err(_) => Err(outside()),
        }
    }

    /// Returns whether it has the shape and the samples of a version of another page.
    fn is_version_of(&self, of: &Self) -> bool {
        let ((width, height), (own_width, own_height)) = (of.size, self.size);
        if own_width == 0 || own_height == 0 || self.samples != of.samples {
            return false;
        }
        let factor = (width + own_width / 2) / own_width;
        let is_part = |own: u64, all: u64| (all / factor..=all.div_ceil(factor)).contains(&own);
        factor > 1 && is_part(own_width, width) && is_part(own_height, height)
    }
}

/// Returns the numbers of the pages that are smaller versions of the page `first`.
pub(super) fn versions(pages: &[(u64, Look)], first: usize) -> Vec<usize> {
    let (_, of) = pages[first];
    let (mut larger, mut found) = (of.size, Vec::new());
    for (number, (_, page)) in pages.iter().enumerate().skip(first + 1) {
        match page.role {
            Role::Picture if page.is_version_of(&of) && page.size.0 < larger.0 => {
                larger = page.size;
                found.push(number);
            }
            Role::Picture => break,
            Role::Smaller | Role::Mask => {}
        }
    }
    let all_are_tiled = of.is_tiled && found.iter().all(|&number| pages[number].1.is_tiled);
    if found.len() > 1 || all_are_tiled { found } else { Vec::new() }
}

/// Gives versions of pictures that do not say so their role. Returns whether there are any.
///
/// There are none if a picture with versions is followed by another page of their kind: all
/// pictures then come before all versions, or in an order that is not known.
pub(super) fn find(pages: &mut [(u64, Look)]) -> bool {
    let (mut all, mut with_versions, mut at) = (Vec::new(), Vec::<Look>::new(), 0);
    while at < pages.len() {
        let (_, page) = pages[at];
        if page.role == Role::Picture {
            if with_versions.iter().any(|of| page.is_version_of(of)) {
                return false;
            }
            let found = versions(pages, at);
            if let Some(&last) = found.last() {
                if !with_versions.contains(&page) {
                    with_versions.push(page);
                }
                if with_versions.len() > MAX_SIZES {
                    return false;
                }
                at = last;
                all.extend(found);
            }
        }
        at += 1;
    }
    all.iter().for_each(|&number| pages[number].1.role = Role::Smaller);
    !all.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(sizes: &[(u64, u64)], is_tiled: bool) -> Vec<(u64, Look)> {
        let look = |&size| (0, Look { role: Role::Picture, size, is_tiled, samples: [Some(3); 4] });
        sizes.iter().map(look).collect()
    }

    fn pictures(sizes: &[(u64, u64)], is_tiled: bool) -> Vec<usize> {
        let mut pages = pages(sizes, is_tiled);
        find(&mut pages);
        (0..pages.len()).filter(|&number| pages[number].1.role == Role::Picture).collect()
    }

    #[test]
    fn pages_that_are_parts_of_the_one_before_are_its_versions() {
        for (sizes, expected) in [
            (&[(512, 384), (256, 192), (128, 96)][..], &[0][..]),
            (&[(513, 385), (256, 192), (129, 97)], &[0]),
            // A slide after its overview, and two slides.
            (&[(120, 40), (512, 384), (128, 96), (32, 24)], &[0, 1]),
            (&[(512, 384), (256, 192), (128, 96), (512, 384), (256, 192), (128, 96)], &[0, 3]),
            (&[(512, 384), (512, 384), (512, 384)], &[0, 1, 2]),
            (&[(512, 384), (300, 225), (200, 150)], &[0, 1, 2]),
            // Channels: all of one resolution after another.
            (&[(512, 384), (512, 384), (256, 192), (256, 192)], &[0, 1, 2, 3]),
        ] {
            assert_eq!(pictures(sizes, true), expected, "{sizes:?}");
        }
    }

    #[test]
    fn a_smaller_sheet_of_a_document_is_no_version() {
        assert_eq!(pictures(&[(2480, 3508), (1240, 1754)], false), [0, 1]);
        assert_eq!(pictures(&[(2480, 3508), (1240, 1754)], true), [0]);
        assert_eq!(pictures(&[(2480, 3508), (1240, 1754), (620, 877)], false), [0]);
    }
}
