//! The state of a picture in the ledger.

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};

/// The state of a picture, in the column `state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PictureState {
    /// In progress, or its process was killed meanwhile.
    Running,
    Done,
    /// Not a picture.
    Skipped,
    /// Failed for good.
    Failed,
    /// Failed for a cause that can pass.
    Retry,
}

impl PictureState {
    const ALL: [Self; 5] = [Self::Running, Self::Done, Self::Skipped, Self::Failed, Self::Retry];

    /// Returns its name in the database.
    fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::Retry => "retry",
        }
    }
}

impl ToSql for PictureState {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

impl FromSql for PictureState {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let name = value.as_str()?;
        Self::ALL.into_iter().find(|state| state.as_str() == name).ok_or(FromSqlError::InvalidType)
    }
}
