//! Metadata that microscopes' programs put outside of the directories, behind the file's header.
//!
//! Micro-Manager writes a table of offsets there, and its summary after that
//! (<https://micro-manager.org/Micro-Manager_File_Formats>). It leads to an index of the pages'
//! directories, to display settings and to comments. ScanImage writes its settings and regions of
//! interest after the header of a BigTIFF
//! (<https://docs.scanimage.org/Appendix/ScanImage+BigTiff+Specification.html>).
//!
//! They are kept in stacks, with the index of the new directories and without display settings,
//! which were made for the old contrast.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::CodecError;
use crate::formats::tiff::tags;
use crate::io::budget::{Budget, ask};
use crate::io::reader::{Bytes, Reader};
use crate::metadata::ifd::{Directory, Form};

/// The most bytes of any of these metadata, many times those of usual ones.
const MOST: usize = 16 << 20;

/// The marks of Micro-Manager's table and of what it leads to.
const INDEX_MARK: u32 = 54_773_648;
const INDEX: [u32; 2] = [INDEX_MARK, 3_453_623];
const DISPLAY: [u32; 2] = [483_765_892, 347_834_724];
const COMMENTS: [u32; 2] = [99_384_722, 84_720_485];
const SUMMARY: u32 = 2_355_492;

/// The bytes of Micro-Manager's table.
const TABLE: usize = 32;

/// The bytes of a page in Micro-Manager's index: five numbers, of which the last is an offset.
const ENTRY: usize = 20;

/// The mark of ScanImage, and the versions of what follows.
const SCAN_IMAGE: u32 = 117_637_889;
const VERSIONS: [u32; 2] = [3, 4];

/// The bytes of the header of a TIFF, and of a BigTIFF.
const SMALL_HEADER: usize = 8;
const BIG_HEADER: usize = 16;

/// The metadata of a file outside of directories.
#[derive(Clone, Debug)]
pub(crate) enum Outside {
    MicroManager(MicroManager),
    /// The bytes behind the header.
    ScanImage(Vec<u8>),
}

/// Micro-Manager's metadata; `None` for what the table does not lead to.
#[derive(Clone, Debug)]
pub(crate) struct MicroManager {
    summary: Vec<u8>,
    /// Channel, slice, frame and position of each page.
    index: Option<Vec<[u32; 4]>>,
    has_display: bool,
    comments: Option<Vec<u8>>,
}

impl Outside {
    /// Reads those of a file with pictures in directories at these offsets; `first` is the first.
    ///
    /// Damaged ones are none.
    pub(super) fn read(
        file: &mut Reader<'_>,
        form: Form,
        first: &Directory,
        directories: &[u64],
        budget: &mut dyn Budget,
    ) -> Result<Option<Self>, CodecError> {
        let mut source = Source { file, form, budget };
        if form.big {
            source.scan_image()
        } else if first.get(tags::MICRO_MANAGER).is_some() {
            source.micro_manager(directories)
        } else {
            Ok(None)
        }
    }

    /// Returns the offset behind them in a file.
    pub(super) fn end(&self) -> u64 {
        let length = match self {
            Self::MicroManager(of) => SMALL_HEADER + of.written(&[]).len(),
            Self::ScanImage(bytes) => BIG_HEADER + bytes.len(),
        };
        length.next_multiple_of(BIG_HEADER) as u64
    }

    /// Writes them to a file with the directories of its pages at these offsets.
    pub(super) fn write(&self, out: &File, directories: &[u64]) -> io::Result<()> {
        match self {
            Self::MicroManager(of) => out.write_all_at(&of.written(directories), SMALL_HEADER as u64),
            Self::ScanImage(bytes) => out.write_all_at(bytes, BIG_HEADER as u64),
        }
    }
}

impl MicroManager {
    /// Returns the bytes behind the header of a file, for directories at these offsets.
    fn written(&self, directories: &[u64]) -> Vec<u8> {
        let index = self.index.as_ref().map(|places| {
            let offsets = directories.iter().copied().chain(std::iter::repeat(0));
            let entries = places.iter().zip(offsets);
            let bytes = entries
                .flat_map(|(place, offset)| numbers(place).into_iter().chain(numbers(&[offset as u32])));
            (places.len(), bytes.collect::<Vec<u8>>())
        });
        let display = self.has_display.then(|| (2, b"[]".to_vec()));
        let comments = self.comments.as_ref().map(|comments| (comments.len(), comments.clone()));
        let (mut table, mut blocks) = (Vec::new(), self.summary.clone());
        for (marks, block) in [(INDEX, index), (DISPLAY, display), (COMMENTS, comments)] {
            let at = (SMALL_HEADER + TABLE + blocks.len()) as u32;
            table.extend([marks[0], if block.is_some() { at } else { 0 }]);
            if let Some((count, bytes)) = block {
                blocks.extend(numbers(&[marks[1], count as u32]));
                blocks.extend(bytes);
            }
        }
        table.extend([SUMMARY, self.summary.len() as u32]);
        [numbers(&table), blocks].concat()
    }
}

fn numbers(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// A file whose metadata are read; what lies outside of it is `None`.
struct Source<'s, 'r> {
    file: &'s mut Reader<'r>,
    form: Form,
    budget: &'s mut dyn Budget,
}

impl Source<'_, '_> {
    fn copy(&mut self, at: usize, length: usize) -> Result<Option<Vec<u8>>, CodecError> {
        if length > MOST {
            return Ok(None);
        }
        ask(self.budget, length as u64, "metadata")?;
        match self.file.copy(at, length) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.raw_os_error().is_some() => Err(error.into()),
            Err(_) => Ok(None),
        }
    }

    fn numbers<const N: usize>(&mut self, at: usize) -> Result<Option<[u32; N]>, CodecError> {
        let Some(bytes) = self.copy(at, 4 * N)? else { return Ok(None) };
        let mut numbers = bytes.chunks_exact(4).map(|number| self.form.number(number) as u32);
        Ok(Some(std::array::from_fn(|_| numbers.next().unwrap_or(0))))
    }

    /// Reads what an entry of Micro-Manager's table, a mark and an offset, leads to.
    fn block(
        &mut self,
        entry: [u32; 2],
        marks: [u32; 2],
        unit: usize,
    ) -> Result<Option<Vec<u8>>, CodecError> {
        let [mark, at] = entry.map(|number| number as usize);
        let head = if mark == marks[0] as usize { self.numbers::<2>(at)? } else { None };
        match head.filter(|head| head[0] == marks[1]) {
            Some([_, count]) => self.copy(at + 8, (count as usize).saturating_mul(unit)),
            None => Ok(None),
        }
    }

    fn micro_manager(&mut self, directories: &[u64]) -> Result<Option<Outside>, CodecError> {
        let table = self.numbers::<8>(SMALL_HEADER)?;
        let Some([INDEX_MARK, index, display_mark, display, comments_mark, comments, SUMMARY, length]) =
            table
        else {
            return Ok(None);
        };
        let Some(summary) = self.copy(SMALL_HEADER + TABLE, length as usize)? else { return Ok(None) };
        let index = self.block([INDEX_MARK, index], INDEX, ENTRY)?;
        let has_display = self.block([display_mark, display], DISPLAY, 1)?.is_some();
        let comments = self.block([comments_mark, comments], COMMENTS, 1)?;
        let index = index.map(|index| self.places(&index, directories)).transpose()?.flatten();
        Ok(Some(Outside::MicroManager(MicroManager { summary, index, has_display, comments })))
    }

    /// Returns the places in an index of all pages.
    fn places(&mut self, index: &[u8], directories: &[u64]) -> Result<Option<Vec<[u32; 4]>>, CodecError> {
        if index.len() / ENTRY < directories.len() {
            return Ok(None);
        }
        let held = index.len() + directories.len() * size_of::<[u32; 4]>();
        ask(self.budget, held as u64, "metadata")?;
        let entries = index.as_chunks::<ENTRY>().0.iter().map(|entry| {
            let mut numbers = entry.chunks_exact(4).map(|number| self.form.number(number) as u32);
            let [place @ .., offset] = std::array::from_fn::<_, 5, _>(|_| numbers.next().unwrap_or(0));
            (offset, place)
        });
        let mut entries: Vec<(u32, [u32; 4])> = entries.collect();
        entries.sort_unstable();
        let mut places = Vec::with_capacity(directories.len());
        for directory in directories {
            let found = entries.binary_search_by_key(directory, |(offset, _)| u64::from(*offset));
            let Ok(at) = found else { return Ok(None) };
            places.push(entries[at].1);
        }
        Ok(Some(places))
    }

    fn scan_image(&mut self) -> Result<Option<Outside>, CodecError> {
        let head = self.numbers::<4>(BIG_HEADER)?;
        let Some([SCAN_IMAGE, version, settings, regions]) = head else { return Ok(None) };
        if self.form.big_endian || !VERSIONS.contains(&version) {
            return Ok(None);
        }
        let length = (settings as usize).saturating_add(regions as usize).saturating_add(16);
        Ok(self.copy(BIG_HEADER, length)?.map(Outside::ScanImage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::io::budget::Unbounded;

    #[test]
    fn the_table_leads_to_all_that_is_written() {
        let of = MicroManager {
            summary: b"{\"a\": 1}".to_vec(),
            index: Some(vec![[0, 1, 2, 3], [1, 1, 2, 3]]),
            has_display: true,
            comments: Some(b"{}".to_vec()),
        };
        let file = [b"II*\0\0\0\0\0".to_vec(), of.written(&[500, 700])].concat();
        assert_eq!(Outside::MicroManager(of).end(), file.len().next_multiple_of(16) as u64);
        let at = |place: usize| u32::from_le_bytes(*file[place..].first_chunk().unwrap());
        assert_eq!([8, 16, 24, 32].map(at), [INDEX[0], DISPLAY[0], COMMENTS[0], SUMMARY]);
        assert_eq!(&file[40..40 + at(36) as usize], b"{\"a\": 1}");
        let index = at(12) as usize;
        let entries = (0..12).map(|number| at(index + 4 * number));
        assert!(entries.eq([INDEX[1], 2, 0, 1, 2, 3, 500, 1, 1, 2, 3, 700]));
        for (place, mark, text) in [(20, DISPLAY[1], b"[]"), (28, COMMENTS[1], b"{}")] {
            let block = at(place) as usize;
            assert_eq!((at(block), at(block + 4)), (mark, 2));
            assert_eq!(&file[block + 8..block + 10], text);
        }
    }

    #[test]
    fn the_places_of_many_pages_are_asked_for() {
        struct Small(u64);
        impl Budget for Small {
            fn hold(&mut self, bytes: u64) -> Result<(), u64> {
                self.0 = self.0.checked_sub(bytes).ok_or(self.0)?;
                Ok(())
            }
        }
        const PAGES: usize = 60_000;
        let directories: Vec<u64> = (0..PAGES as u64).map(|page| 10_000_000 - 8 * page).collect();
        let index: Vec<_> = (0..PAGES as u32).map(|page| [page, 1, 2, 3]).collect();
        let of = MicroManager {
            summary: b"{}".to_vec(),
            index: Some(index.clone()),
            has_display: false,
            comments: None,
        };
        let bytes = [b"II*\0\0\0\0\0".to_vec(), of.written(&directories)].concat();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        let mut read = |bytes| {
            let (mut buffer, mut budget) = (Vec::new(), Small(bytes));
            let limits = Limits { max_pixels: 1, max_bytes: u64::MAX };
            let mut file = Reader::new(&mut file, &mut buffer, &limits, &mut Unbounded)?;
            let form = Form { big: false, big_endian: false };
            Source { file: &mut file, form, budget: &mut budget }.micro_manager(&directories)
        };
        let (in_file, sorted) = (PAGES * ENTRY, PAGES * (ENTRY + 16));
        let Ok(Some(Outside::MicroManager(found))) = read((in_file + sorted) as u64) else {
            panic!("it is read")
        };
        assert_eq!(found.index, Some(index));
        let why = read((in_file + sorted - 1) as u64).unwrap_err();
        assert!(matches!(why, CodecError::LargerThanMemory { .. }), "{why}");
    }
}
