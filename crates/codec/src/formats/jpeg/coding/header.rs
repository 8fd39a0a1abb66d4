//! The header of a file: everything that comes before its scans and their Huffman tables.

use super::ZIGZAG;
use crate::formats::jpeg::libjpeg::{Frame, QuantTable};
use crate::formats::jpeg::markers::{APP0, DQT, DRI, SOF0, SOF1, SOF2, SOI, write_segment};

/// Writes everything that comes before the scans and their Huffman tables.
pub(super) fn write_header(out: &mut Vec<u8>, frame: &Frame<'_>, tables: &[QuantTable]) {
    out.extend([0xff, SOI]);
    if let Some(density) = frame.density {
        write_segment(out, APP0, &density.jfif());
    }
    for segment in &frame.segments {
        write_segment(out, segment.marker, segment.content);
    }
    // Components with equal tables share one.
    let number = |table: &QuantTable| tables.iter().position(|other| other == table).unwrap_or_default();
    for (i, table) in tables.iter().enumerate().filter(|(i, table)| number(table) == *i) {
        let divisors = ZIGZAG.iter().map(|&place| table[usize::from(place)]);
        let number = i as u8;
        let content: Vec<u8> = match divisors.clone().map(u8::try_from).collect::<Result<Vec<u8>, _>>() {
            Ok(bytes) => [&[number][..], &bytes].concat(),
            Err(_) => [0x10 | number].into_iter().chain(divisors.flat_map(u16::to_be_bytes)).collect(),
        };
        write_segment(out, DQT, &content);
    }
    let ([h0, h1], [w0, w1]) = ((frame.height as u16).to_be_bytes(), (frame.width as u16).to_be_bytes());
    let mut header = vec![8, h0, h1, w0, w1, tables.len() as u8];
    for (i, (factors, table)) in frame.components.iter().zip(tables).enumerate() {
        header.extend([i as u8 + 1, factors.horizontal << 4 | factors.vertical, number(table) as u8]);
    }
    let wide = tables.iter().flatten().any(|&divisor| divisor > 255);
    let process = match (frame.progressive, wide) {
        (true, _) => SOF2,
        (false, true) => SOF1,
        (false, false) => SOF0,
    };
    write_segment(out, process, &header);
    if frame.restart_interval > 0 {
        write_segment(out, DRI, &frame.restart_interval.to_be_bytes());
    }
}
