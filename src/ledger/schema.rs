//! The ledger's tables, and their migration from older versions.

use rusqlite::Connection;

/// The version of the tables; goes up with every change.
pub(super) const VERSION: i32 = 4;
/// The version of a database without tables.
const NONE: i32 = 0;
const TABLES: &str =
    concat!(include_str!("schema.sql"), include_str!("settings.sql"), include_str!("report.sql"));
/// The migrations: from version 1 to 2, from 2 to 3, and so on.
const UPDATES: [&str; VERSION as usize - 1] = [
    "ALTER TABLE picture ADD COLUMN again INTEGER;",
    concat!("DROP INDEX picture_by_end;", include_str!("settings.sql"), include_str!("report.sql")),
    "ALTER TABLE picture ADD COLUMN starts INTEGER NOT NULL DEFAULT 0;",
];

/// Creates the tables if there are none, or brings them up to date. The inner error is the version
/// of a ledger that allows neither.
pub(super) fn prepare(db: &Connection) -> rusqlite::Result<Result<(), i32>> {
    let how = match version(db)? {
        VERSION => return Ok(Ok(())),
        NONE => TABLES.into(),
        version if is_older(version) => UPDATES[version as usize - 1..].concat(),
        other => return Ok(Err(other)),
    };
    db.execute_batch(&format!("BEGIN; {how} PRAGMA user_version = {VERSION}; COMMIT;")).map(Ok)
}

/// Returns whether a ledger of `version` can be brought up to date.
pub(super) fn is_older(version: i32) -> bool {
    (NONE + 1..VERSION).contains(&version)
}

pub(super) fn version(db: &Connection) -> rusqlite::Result<i32> {
    db.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Runs a query that any ledger can answer. Returns false if the database has no tables yet.
pub(super) fn probe(db: &Connection) -> rusqlite::Result<bool> {
    if version(db)? == NONE {
        return Ok(false);
    }
    db.query_row("SELECT count(*) FROM picture WHERE state = 'running'", [], |_| Ok(true))
}
