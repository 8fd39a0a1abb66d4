//! Pictures that are read in bands of rows: they have the same pixels, or fault, as the whole.

use std::io::Seek;

use codec::pages::PageRef;
use codec::{Budget, Cores, Format, Target};

use super::reading::{LIMITS, file_of, read};

/// Cuts every picture that can be cut.
struct Cut;

impl Budget for Cut {
    fn hold(&mut self, _bytes: u64) -> Result<(), u64> {
        Ok(())
    }

    fn most_at_once(&self) -> u64 {
        3
    }
}

/// Reads the bands of a file, the last one first, if it has any, and compares them with the whole.
///
/// # Panics
/// If they differ.
pub(crate) fn check(data: &[u8], target: &Target) {
    // A PNM may have bands of any height.
    let target = Target { format: Some(Format::Pnm), ..*target };
    let (mut file, mut buffer) = (file_of(data), Vec::new());
    file.rewind().expect("a file can be rewound");
    let opened = codec::open_within(&mut Cut, &mut file, &mut buffer, &LIMITS, &target);
    let Some(pages) = opened.ok().and_then(|mut opened| opened.take_pages()) else { return };
    let order = (0..pages.len()).rev().take(1).chain(0..pages.len() - 1);
    let mut bands: Vec<_> = order.map(|index| (index, band(data, &target, pages.page(index)))).collect();
    bands.sort_by_key(|(index, _)| *index);
    let bands: Option<Vec<u8>> =
        bands.into_iter().map(|(_, band)| band).collect::<Option<Vec<_>>>().map(|bands| bands.concat());
    let mut slot = Vec::new();
    let whole = read(&mut file, &target, &mut slot, 0, 0);
    if let Err(why) = &whole {
        assert!(bands.is_none(), "bands of a picture are read that cannot be read as a whole: {why}");
        return;
    }
    let whole = whole.ok().map(|decoded| slot[..decoded.layout.bytes() as usize].to_vec());
    assert!(bands == whole, "of {} bands, what is read differs from the whole", pages.len());
}

/// Returns the pixels of a band, if it can be read.
fn band(data: &[u8], target: &Target, page: PageRef<'_>) -> Option<Vec<u8>> {
    let (mut file, mut buffer) = (file_of(data), Vec::new());
    file.rewind().expect("a file can be rewound");
    let opened = codec::pages::open_page(&mut Cut, &mut file, &mut buffer, &LIMITS, target, page).ok()?;
    let mut slot = vec![0xff; opened.slot_bytes()];
    let decoded = opened.decode(&mut slot, vec![0; 0], &Cores::none()).ok()?;
    slot.truncate(decoded.layout.bytes() as usize);
    Some(slot)
}
