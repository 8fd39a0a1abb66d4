//! Keeps the rows of pictures that finished before their turn. If the first picture is slow, these
//! can be all the others.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Rows by the number of their picture: in memory as long as there is room, else in a temporary
/// file.
pub(super) struct Waiting {
    rows: BTreeMap<usize, Rows>,
    /// The most bytes of rows kept in memory.
    most: usize,
    /// Bytes of rows in memory.
    held: usize,
    /// Created when first needed. It has no name, and disappears with the process.
    file: Option<File>,
    /// The end of the rows in the file.
    end: u64,
}

/// The place of a picture's rows.
enum Rows {
    Held(Vec<u8>),
    InFile { at: u64, bytes: usize },
}

impl Waiting {
    pub(super) fn new(most: usize) -> Self {
        Self { rows: BTreeMap::new(), most, held: 0, file: None, end: 0 }
    }

    /// Adds the rows of a picture, in place of those it had.
    ///
    /// # Errors
    /// The system's error if the file cannot be created or written; the rows are then lost.
    pub(super) fn add(&mut self, number: usize, rows: Vec<u8>) -> io::Result<()> {
        let rows = if self.held + rows.len() <= self.most {
            self.held += rows.len();
            Rows::Held(rows)
        } else {
            let file = match &mut self.file {
                Some(file) => file,
                none => none.insert(tempfile::tempfile()?),
            };
            file.write_all_at(&rows, self.end)?;
            let at = self.end;
            self.end += rows.len() as u64;
            Rows::InFile { at, bytes: rows.len() }
        };
        if let Some(Rows::Held(replaced)) = self.rows.insert(number, rows) {
            self.held -= replaced.len();
        }
        Ok(())
    }

    /// Removes and returns the rows of a picture, if they have been added.
    ///
    /// # Errors
    /// The system's error if the file cannot be read; the rows are then lost.
    pub(super) fn take(&mut self, number: usize) -> io::Result<Option<Vec<u8>>> {
        let rows = match self.rows.remove(&number) {
            None => return Ok(None),
            Some(Rows::Held(rows)) => {
                self.held -= rows.len();
                rows
            }
            Some(Rows::InFile { at, bytes }) => {
                let mut rows = vec![0; bytes];
                self.file.as_ref().expect("rows are in it").read_exact_at(&mut rows, at)?;
                rows
            }
        };
        if self.rows.is_empty() {
            // Frees the file; the next one starts empty.
            (self.file, self.end) = (None, 0);
        }
        Ok(Some(rows))
    }

    /// Returns the lowest number among the pictures with waiting rows.
    pub(super) fn first(&self) -> Option<usize> {
        self.rows.keys().next().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(number: usize) -> Vec<u8> {
        vec![number as u8; 10 + number % 7]
    }

    #[test]
    fn what_is_too_much_for_memory_comes_back_too() {
        let mut waiting = Waiting::new(100);
        for round in 0..2 {
            for number in (1..50).rev() {
                waiting.add(number, rows(number)).unwrap();
                assert!(waiting.held <= 100, "{} bytes are held", waiting.held);
            }
            assert!(waiting.file.is_some());
            assert_eq!(waiting.take(0).unwrap(), None);
            for number in 1..50 {
                assert_eq!(waiting.first(), Some(number));
                assert_eq!(waiting.take(number).unwrap(), Some(rows(number)), "round {round}");
            }
            assert_eq!((waiting.held, waiting.end, waiting.first()), (0, 0, None));
            assert!(waiting.file.is_none());
        }
    }

    #[test]
    fn replaced_rows_take_no_room() {
        let mut waiting = Waiting::new(100);
        for _ in 0..50 {
            waiting.add(1, rows(1)).unwrap();
            waiting.add(1, Vec::new()).unwrap();
        }
        assert!(waiting.file.is_none());
        assert_eq!((waiting.take(1).unwrap(), waiting.held), (Some(Vec::new()), 0));
    }

    #[test]
    fn little_needs_no_file() {
        let mut waiting = Waiting::new(100);
        for number in 0..1000 {
            waiting.add(number, rows(number)).unwrap();
            waiting.add(number + 1, Vec::new()).unwrap();
            assert_eq!(waiting.take(number).unwrap(), Some(rows(number)));
            assert_eq!(waiting.take(number + 1).unwrap(), Some(Vec::new()));
        }
        assert!(waiting.file.is_none());
    }
}
