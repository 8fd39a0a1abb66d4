//! A list of the pictures that failed for good, or a search among them.

use serde::Serialize;

use super::report::{FailedPicture, seconds_ago};
use super::{Ledger, LedgerError, path};
use crate::fs::paths::Shown;

/// A search for failures.
#[derive(Clone, Debug)]
pub struct FailureSearch {
    /// Text to find in their paths or reasons, in any case; empty for all.
    pub text: String,
    /// The most to list.
    pub limit: usize,
}

/// The failures that were found.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct FoundFailures {
    /// The number found.
    pub found: usize,
    /// The failures, newest first, up to the limit.
    pub failures: Vec<FailedPicture>,
}

impl Ledger {
    /// Looks for pictures that failed for good.
    ///
    /// # Errors
    /// When a call of the database fails, or the ledger is damaged.
    pub fn failures(&self, search: &FailureSearch) -> Result<FoundFailures, LedgerError> {
        self.find_failures(search).map_err(|why| why.for_reader_of(&self.file))
    }

    fn find_failures(&self, search: &FailureSearch) -> Result<FoundFailures, LedgerError> {
        let wanted = search.text.to_lowercase();
        let mut query = self.db.prepare(
            "SELECT input, coalesce(reason, ''), coalesce(finished, started) FROM picture
             WHERE state = 'failed' ORDER BY finished DESC",
        )?;
        let rows = query.query_map([], |row| {
            Ok(FailedPicture {
                input: path(row.get(0)?),
                reason: row.get(1)?,
                seconds_ago: seconds_ago(row.get(2)?),
                again_in_seconds: None,
            })
        })?;
        let mut all = FoundFailures { found: 0, failures: Vec::new() };
        for row in rows {
            let failure = row?;
            let told = [&Shown(&failure.input).to_string(), &failure.reason];
            if told.iter().any(|text| text.to_lowercase().contains(&wanted)) {
                all.found += 1;
                if all.failures.len() < search.limit {
                    all.failures.push(failure);
                }
            }
        }
        Ok(all)
    }
}
