//! The ledger's record of how an output was made.

use std::path::{Path, PathBuf};

use rusqlite::OptionalExtension;

use super::{Ledger, LedgerError, bytes, path};
use crate::fs::stamp::Stamp;

/// How an output was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The file that was read.
    pub input: PathBuf,
    /// Its state then.
    pub stamp: Stamp,
    /// All settings that determined how the output looks.
    pub settings: String,
    /// The bytes of the output.
    pub bytes_out: u64,
}

impl Ledger {
    /// Returns how an output was made last.
    ///
    /// # Errors
    /// When a call of the database fails, or the ledger is damaged.
    pub fn recorded(&self, output: &Path) -> Result<Option<Recorded>, LedgerError> {
        self.look_up(output).map_err(|why| why.for_reader_of(&self.file))
    }

    fn look_up(&self, output: &Path) -> Result<Option<Recorded>, LedgerError> {
        let mut query = self.db.prepare(
            "SELECT input, size, mtime, inode, text, coalesce(bytes_out, 0)
             FROM picture JOIN settings ON settings = CAST(id AS TEXT)
             WHERE output = ?1 AND state = 'done' ORDER BY finished DESC LIMIT 1",
        )?;
        let row = query.query_row([bytes(output)], |row| {
            let (size, inode, bytes_out): (i64, i64, i64) = (row.get(1)?, row.get(3)?, row.get(5)?);
            let stamp =
                Stamp { size: size.cast_unsigned(), mtime_ns: row.get(2)?, inode: inode.cast_unsigned() };
            let (input, bytes_out) = (path(row.get(0)?), bytes_out.cast_unsigned());
            Ok(Recorded { input, stamp, settings: row.get(4)?, bytes_out })
        });
        Ok(row.optional()?)
    }
}
