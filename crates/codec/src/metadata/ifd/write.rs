//! Directories that are written, little-endian.

use std::io::{self, Write};

use super::{Form, Value, sizes};

/// Serializes a directory of these entries as a structure of its own, with a header.
pub(crate) fn write_file(entries: &[(u16, &Value)]) -> Vec<u8> {
    const HEADER: &[u8; 8] = b"II*\0\x08\0\0\0";
    let length = HEADER.len() as u64 + written_bytes(entries, Form::written(false));
    let mut out = Vec::with_capacity(length as usize);
    out.extend_from_slice(HEADER);
    write_to(&mut out, entries, false, HEADER.len() as u64, 0).expect("a vector takes all that is written");
    out
}

/// Writes a directory, little-endian, with its values; returns the bytes written.
///
/// It begins at the file offset `at`, which is even, and its values follow it.
///
/// `next` is the offset of the directory that follows it, 0 at the last.
pub(crate) fn write_to(
    out: &mut dyn Write,
    entries: &[(u16, &Value)],
    big: bool,
    at: u64,
    next: u64,
) -> io::Result<u64> {
    let form = Form::written(big);
    let room = form.offset_bytes();
    let mut table = Vec::with_capacity(form.table_bytes(entries.len()));
    let mut behind = at + form.table_bytes(entries.len()) as u64;
    put_number(&mut table, entries.len() as u64, form.count_bytes());
    for (tag, value) in entries {
        put_number(&mut table, u64::from(*tag), 2);
        match value {
            Value::Data { kind, bytes } => {
                let size = sizes(*kind).map_or(1, |(size, _)| size);
                put_number(&mut table, u64::from(*kind), 2);
                put_number(&mut table, (bytes.len() / size) as u64, room);
                if bytes.len() <= room {
                    table.extend_from_slice(bytes);
                    table.resize(table.len() + room - bytes.len(), 0);
                } else {
                    put_number(&mut table, behind, room);
                }
            }
            Value::Directory(_) => {
                put_number(&mut table, if big { 18 } else { 4 }, 2); // IFD8, LONG
                put_number(&mut table, 1, room);
                put_number(&mut table, behind, room);
            }
        }
        behind += value.bytes_behind(form);
    }
    put_number(&mut table, next, room);
    out.write_all(&table)?;
    let mut here = at + table.len() as u64;
    for (_, value) in entries {
        match value {
            Value::Data { bytes, .. } if bytes.len() > room => {
                out.write_all(bytes)?;
                out.write_all(&[0][..bytes.len() % 2])?; // values begin on word boundaries
            }
            Value::Data { .. } => {}
            Value::Directory(sub) => {
                write_to(out, &sub.borrowed(), big, here, 0)?;
            }
        }
        here += value.bytes_behind(form);
    }
    Ok(here - at)
}

/// Appends a number of so many bytes.
fn put_number(table: &mut Vec<u8>, value: u64, bytes: usize) {
    table.extend_from_slice(&value.to_le_bytes()[..bytes]);
}

/// Returns the bytes that a directory of these entries takes with everything that belongs to it.
pub(crate) fn written_bytes(entries: &[(u16, &Value)], form: Form) -> u64 {
    let behind: u64 = entries.iter().map(|(_, value)| value.bytes_behind(form)).sum();
    form.table_bytes(entries.len()) as u64 + behind
}
