//! Smaller versions of a picture whose pages do not say so: the pyramids of slide scanners, and of
//! programs that write every resolution as a picture.
//!
//! The pages after a picture are versions of it if their samples are like its own and their sides
//! are its own divided by a whole number, each smaller than the one before. There are at least two,
//! or all are in tiles: the pages of a document may have two sizes.

use crate::formats::tiff::read::look::{Look, Page, Role};

/// The most sizes of pictures with versions in a file.
const MAX_SIZES: usize = 64;

/// Returns whether a page has the shape and the samples of a version of another one.
fn is_version(page: &Look, of: &Look) -> bool {
    let ((width, height), (own_width, own_height)) = (of.size, page.size);
    if own_width == 0 || own_height == 0 || page.samples != of.samples {
        return false;
    }
    let factor = (width + own_width / 2) / own_width;
    let is_part = |own: u64, all: u64| (all / factor..=all.div_ceil(factor)).contains(&own);
    factor > 1 && is_part(own_width, width) && is_part(own_height, height)
}

/// Returns the numbers of the pages that are smaller versions of the page `first`.
pub(crate) fn versions(pages: &[Page], first: usize) -> Vec<usize> {
    let of = pages[first].look;
    let (mut larger, mut found) = (of.size, Vec::new());
    for (number, Page { look: page, .. }) in pages.iter().enumerate().skip(first + 1) {
        match page.role {
            Role::Picture if is_version(page, &of) && page.size.0 < larger.0 => {
                larger = page.size;
                found.push(number);
            }
            Role::Picture => break,
            Role::Smaller | Role::Mask => {}
        }
    }
    let all_are_tiled = of.is_tiled && found.iter().all(|&number| pages[number].look.is_tiled);
    if found.len() > 1 || all_are_tiled { found } else { Vec::new() }
}

/// Gives versions of pictures that do not say so their role. Returns whether there are any.
///
/// There are none if a picture with versions is followed by another page of their kind: all
/// pictures then come before all versions, or in an order that is not known.
pub(crate) fn find(pages: &mut [Page]) -> bool {
    let (mut all, mut with_versions, mut at) = (Vec::new(), Vec::<Look>::new(), 0);
    while at < pages.len() {
        let page = pages[at].look;
        if page.role == Role::Picture {
            if with_versions.iter().any(|of| is_version(&page, of)) {
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
    all.iter().for_each(|&number| pages[number].look.role = Role::Smaller);
    !all.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(sizes: &[(u64, u64)], is_tiled: bool) -> Vec<Page> {
        let look = |&size| Look { role: Role::Picture, size, is_tiled, samples: [Some(3); 4] };
        sizes.iter().map(|size| Page { place: 0, look: look(size) }).collect()
    }

    fn pictures(sizes: &[(u64, u64)], is_tiled: bool) -> Vec<usize> {
        let mut pages = pages(sizes, is_tiled);
        find(&mut pages);
        (0..pages.len()).filter(|&number| pages[number].look.role == Role::Picture).collect()
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
