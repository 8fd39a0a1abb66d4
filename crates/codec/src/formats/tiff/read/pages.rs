//! The pages of a TIFF: pictures, and their companions.

use std::collections::HashSet;

use crate::CodecError;
use crate::formats::tiff::read::look::{Look, Page, Role};
use crate::formats::tiff::read::{slide, unmarked};
use crate::formats::tiff::{malformed, tags};
use crate::io::budget::SMALL_CHANGE;
use crate::io::reader::{Bytes, Reader};
use crate::metadata::ifd::{Directory, Form, Numbers, Outline};

/// The most pages of a file.
const MAX_PAGES: usize = 100_000;

/// The most directories after a picture that are taken for smaller versions of it.
///
/// A picture can hardly be halved more often, and each may have a mask.
const MAX_BEHIND: usize = 64;

/// Companions of a file's pictures that are left out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dropped {
    /// Smaller versions that do not belong to any of them.
    pub(crate) smaller: bool,
    /// Masks.
    pub(crate) masks: bool,
    /// Photographs of a slide's label and glass.
    pub(crate) labels: bool,
    /// A page after the only one, which would lie beyond the end of the file.
    pub(crate) beyond: bool,
}

/// A smaller version of a picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Smaller {
    /// The offset of its directory.
    pub(crate) place: u64,
    /// Whether that is a sub-directory of the picture's, rather than after it.
    pub(crate) is_below: bool,
    /// Whether it has no subfile type; it is a picture if it proves not to be smaller.
    pub(crate) lacks_subfile_type: bool,
    /// Whether it is a photograph of a slide's label or glass if it proves not to be smaller.
    pub(crate) may_be_label: bool,
}

/// The place of a page beside a picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Companion {
    /// The offset of its directory.
    pub(crate) place: u64,
    /// Whether that is a sub-directory of the picture's, rather than after it.
    pub(crate) is_below: bool,
}

/// Companions of one picture.
#[derive(Debug, Default)]
pub(crate) struct Companions {
    pub(crate) smaller: Vec<Smaller>,
    pub(crate) masks: Vec<Companion>,
    /// The offsets of the directories of both, in their order.
    pub(crate) order: Vec<u64>,
    /// Whether there are photographs of a slide's label and glass.
    pub(crate) has_labels: bool,
}

impl Companions {
    fn add(&mut self, role: Role, place: u64, is_below: bool) {
        if role == Role::Smaller {
            self.smaller.push(Smaller { place, is_below, lacks_subfile_type: false, may_be_label: false });
        }
        if role == Role::Mask {
            self.masks.push(Companion { place, is_below });
        }
        self.order.push(place);
    }

    /// Adds a page after a picture that is a smaller version of it, though it does not say so.
    fn add_unmarked(&mut self, place: u64) {
        self.smaller.push(Smaller { place, is_below: false, lacks_subfile_type: true, may_be_label: false });
        self.order.push(place);
    }

    /// Adds a page of a slide that is after the first.
    fn add_of_slide(&mut self, role: Role, place: u64, is_label: bool) {
        match role {
            Role::Mask => self.add(role, place, false),
            Role::Picture | Role::Smaller if is_label => self.has_labels = true,
            Role::Picture => self.add_unmarked(place),
            Role::Smaller => {
                self.smaller.push(Smaller {
                    place,
                    is_below: false,
                    lacks_subfile_type: false,
                    may_be_label: true,
                });
                self.order.push(place);
            }
        }
    }
}

/// The pictures of a file.
#[derive(Debug)]
pub(crate) struct Pictures {
    /// The offsets of their directories, in order.
    pub(crate) places: Vec<u64>,
    /// The numbers of these directories, from 0, among all.
    pub(crate) numbers: Vec<usize>,
    /// Their companions.
    pub(crate) dropped: Dropped,
    /// Whether smaller versions follow pictures without a subfile type.
    pub(crate) has_unmarked: bool,
}

impl Pictures {
    /// Finds the pictures among the pages, from the directory at `first` on.
    ///
    /// A file without a page of the picture type has one picture, its first page, and so does a
    /// slide.
    pub(crate) fn find(
        bytes: &mut Reader<'_>,
        form: Form,
        first: u64,
        is_slide: bool,
    ) -> Result<Self, CodecError> {
        let (mut pages, mut seen, mut next) = (Vec::new(), HashSet::new(), first);
        let mut beyond = false;
        while next > 0 {
            if pages.len() == 1 && is_beyond(bytes, next) {
                beyond = true;
                break;
            }
            if !seen.insert(next) {
                return Err(malformed("its pages follow one another in a circle"));
            }
            check_count(seen.len() as u64)?;
            let (look, further) = Look::at(bytes, form, next)?;
            pages.push(Page { place: next, look });
            next = further;
        }
        let has_unmarked = !is_slide && unmarked::find(&mut pages);
        if is_slide {
            pages.iter_mut().for_each(|page| page.look.role = Role::Smaller);
        }
        let has_role = |page: &Page, role| page.look.role == role;
        if !pages.iter().any(|page| has_role(page, Role::Picture)) {
            pages[0].look.role = Role::Picture;
        }
        let before = || pages.iter().take_while(|page| !has_role(page, Role::Picture));
        let dropped = Dropped {
            smaller: before().any(|page| has_role(page, Role::Smaller)),
            masks: before().any(|page| has_role(page, Role::Mask)),
            labels: false,
            beyond,
        };
        let pictures = pages.iter().enumerate().filter(|(_, page)| has_role(page, Role::Picture));
        let (numbers, places) = pictures.map(|(number, page)| (number, page.place)).unzip();
        Ok(Self { places, numbers, dropped, has_unmarked })
    }

    /// Returns a picture that was found before.
    pub(crate) fn at(place: u64) -> Self {
        Self { places: vec![place], numbers: vec![0], dropped: Dropped::default(), has_unmarked: false }
    }
}

/// Returns whether an offset is beyond the end of a file.
///
/// Some writers leave such a number after the last page, without a meaning.
fn is_beyond(bytes: &Reader<'_>, offset: u64) -> bool {
    offset >= bytes.length() as u64
}

/// Checks that a file does not have more pages than can be kept in mind.
pub(crate) fn check_count(pages: u64) -> Result<(), CodecError> {
    if pages > MAX_PAGES as u64 {
        let what = format!("a TIFF of more than {MAX_PAGES} pages");
        return Err(CodecError::unsupported(what, crate::formats::foreign::SPLIT));
    }
    Ok(())
}

/// Returns the companions of a picture: sub-directories, and pages after it.
///
/// The pages end at the next picture, or at the end of a slide. The picture's own directory is at
/// the offset `place`. If it `has_unmarked` versions, they are pages of the picture type.
///
/// # Errors
/// If there are further pictures in sub-directories, or more pages after a slide than it has.
pub(crate) fn companions(
    bytes: &mut Reader<'_>,
    form: Form,
    place: u64,
    directory: &Directory,
    is_slide: bool,
    has_unmarked: bool,
) -> Result<Companions, CodecError> {
    let mut companions = Companions::default();
    let places = directory.numbers(tags::SUB_IFDS);
    for place in places.into_iter().flat_map(Numbers::iter).take(MAX_PAGES).filter(|&place| place > 0) {
        match Look::at(bytes, form, place)?.0.role {
            Role::Picture => {
                return Err(CodecError::unsupported(
                    "a TIFF with further pictures in sub-directories",
                    crate::formats::foreign::SPLIT,
                ));
            }
            role => companions.add(role, place, true),
        }
    }
    let (own, mut next) = Look::at(bytes, form, place)?;
    let mut pages = vec![Page { place, look: own }];
    // Directories that follow one another in a circle were refused before.
    while next > 0 && pages.len() <= MAX_BEHIND && !is_beyond(bytes, next) {
        let (look, further) = Look::at(bytes, form, next)?;
        if look.role == Role::Picture && !is_slide && !has_unmarked {
            break;
        }
        pages.push(Page { place: next, look });
        next = further;
    }
    let unmarked = if has_unmarked { unmarked::versions(&pages, 0) } else { Vec::new() };
    for (number, &Page { place, look }) in pages.iter().enumerate().skip(1) {
        match look.role {
            role if is_slide => {
                let directory = directory_of_other(bytes, form, place)?;
                companions.add_of_slide(role, place, directory.as_ref().is_some_and(slide::is_label));
            }
            Role::Picture if unmarked.contains(&number) => companions.add_unmarked(place),
            Role::Picture => break,
            role => companions.add(role, place, false),
        }
    }
    if is_slide && next > 0 { Err(slide::refused()) } else { Ok(companions) }
}

/// Reads the directory of another picture at an offset, without the places of its pixels.
///
/// Returns `None` if there is no directory, or if it is long.
pub(crate) fn directory_of_other(
    bytes: &mut Reader<'_>,
    form: Form,
    offset: u64,
) -> Result<Option<Directory>, CodecError> {
    let Ok(offset) = usize::try_from(offset) else { return Ok(None) };
    let outline = match Outline::read(bytes, form, offset) {
        Ok(outline) => outline.without(&tags::PLACES),
        Err(error) if error.raw_os_error().is_some() => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    if outline.bytes() > SMALL_CHANGE {
        return Ok(None);
    }
    Ok(Some(outline.fill(bytes)?))
}
