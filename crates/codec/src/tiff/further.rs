//! What the pages of a TIFF are to each other: pictures, or what accompanies a picture.

use super::super::CodecError;
use super::super::ifd::{self, Directory, Form, Numbers};
use super::tags;
use crate::reader::Reader;

/// The most pages that are looked at.
const MAX_PAGES: usize = 10_000;

/// What a page is to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Picture,
    /// A smaller version of a picture: an overview or a thumbnail.
    Smaller,
    /// Which pixels of a picture are valid.
    Mask,
}

impl Role {
    /// Returns what the tags NewSubfileType and SubfileType say.
    fn new(kind: Option<u64>, old_kind: Option<u64>) -> Self {
        const SMALLER: u64 = 1;
        const MASK: u64 = 4;
        const OLD_SMALLER: u64 = 2;
        match kind {
            Some(bits) if bits & MASK != 0 => Self::Mask,
            Some(bits) if bits & SMALLER != 0 => Self::Smaller,
            None if old_kind == Some(OLD_SMALLER) => Self::Smaller,
            _ => Self::Picture,
        }
    }

    fn of(directory: &Directory) -> Self {
        Self::new(directory.number(tags::KIND), directory.number(tags::OLD_KIND))
    }
}

/// The pages of a file.
pub(super) struct Pages {
    /// Those that follow one another, from the first.
    main: Vec<Role>,
    /// Those in sub-directories of the first one.
    below: Vec<Role>,
}

impl Pages {
    /// Looks at the pages of a file, whose first one has this directory; `next` is the offset of the second one.
    pub(super) fn find(
        bytes: &mut Reader<'_>,
        form: Form,
        directory: &Directory,
        mut next: u64,
    ) -> Result<Self, CodecError> {
        let (mut main, mut below) = (vec![Role::of(directory)], Vec::new());
        while next > 0 && main.len() < MAX_PAGES {
            let Some((role, further)) = look_at(bytes, form, next)? else { break };
            main.push(role);
            next = further;
        }
        let places = directory.numbers(tags::SUB_IFDS);
        for place in places.into_iter().flat_map(Numbers::iter).take(MAX_PAGES) {
            below.extend(look_at(bytes, form, place)?.map(|(role, _)| role));
        }
        Ok(Self { main, below })
    }

    /// Returns the number of pages that follow one another.
    pub(super) fn count(&self) -> usize {
        self.main.len()
    }

    /// Refuses a file of one picture and what accompanies it, and names that.
    pub(super) fn refuse_company(&self, first: &Directory) -> Result<(), CodecError> {
        let count = |wanted| self.main.iter().chain(&self.below).filter(|&&role| role == wanted).count();
        let (smaller, masks) = (count(Role::Smaller), count(Role::Mask));
        let page = self.main.iter().position(|&role| role == Role::Picture);
        let (Some(page), 1, 1..) = (page, count(Role::Picture), smaller + masks) else { return Ok(()) };
        let some = |count: usize, one: &str, several: &str| match count {
            0 => None,
            1 => Some(one.to_owned()),
            _ => Some(format!("{count} {several}")),
        };
        let company: Vec<String> = [
            some(
                smaller,
                "a smaller version of it (an overview or a thumbnail)",
                "smaller versions of it (overviews)",
            ),
            some(masks, "a mask", "masks"),
        ]
        .into_iter()
        .flatten()
        .collect();
        // GDAL keeps what a GeoTIFF says about places.
        let command = match first.get(tags::GEO_KEYS) {
            Some(_) if page == 0 => "gdal_translate -mask none IN.tif OUT.tif".to_owned(),
            _ => format!("tiffcp IN.tif,{page} OUT.tif"),
        };
        Err(CodecError::unsupported(
            format!("a TIFF of one picture with {}", company.join(" and ")),
            format!("copy the picture alone first: {command}"),
        ))
    }
}

/// Returns the role of the page at an offset, and the offset of the next one. `None` if there is no page.
fn look_at(bytes: &mut Reader<'_>, form: Form, offset: u64) -> Result<Option<(Role, u64)>, CodecError> {
    let Ok(offset) = usize::try_from(offset) else { return Ok(None) };
    match ifd::glance(bytes, form, offset, [tags::KIND, tags::OLD_KIND]) {
        Ok(([kind, old_kind], next)) => Ok(Some((Role::new(kind, old_kind), next))),
        Err(error) if error.raw_os_error().is_some() => Err(error.into()),
        Err(_) => Ok(None),
    }
}
