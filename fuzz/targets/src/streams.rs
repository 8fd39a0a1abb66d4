//! The check of a TIFF with strips or tiles that would be handed to a device to be inflated.

use std::io::Seek;

use codec::coders::{CodedStreams, Help, StreamCoder, Streams, code_streams};
use codec::{CodecError, Cores, Format};

use super::reading::{LIMITS, PLAIN, file_of};

/// The most memory that the pool of a small machine would lend.
const MEMORY: u64 = 1 << 28;

/// Inflates on the CPU the streams that a device would get.
#[derive(Debug)]
struct Device;

impl StreamCoder for Device {
    fn code(&self, streams: &Streams, fill: &mut dyn FnMut(&mut [u8]) -> bool) -> Option<CodedStreams<'_>> {
        let bytes = Some(streams.bytes).filter(|&bytes| bytes <= MEMORY)?;
        let mut memory = vec![0x5a; bytes as usize];
        if !fill(&mut memory) {
            return None;
        }
        assert!(
            streams.places_within(&streams.lengths(&memory), memory.len()).is_some(),
            "it is in the memory"
        );
        code_streams(streams, &mut memory);
        Some(Box::new(memory))
    }
}

/// Compares the CPU's and a device's results for an input.
///
/// # Panics
/// If they differ.
pub(crate) fn check(data: &[u8]) {
    if Format::sniff(data) != Some(Format::Tiff) {
        return;
    }
    let (expected, found) = (read(data, None), read(data, Some(&Device)));
    assert!(expected.ok() == found.ok(), "the pixels are those of the CPU");
}

fn read(data: &[u8], coder: Option<&dyn StreamCoder>) -> Result<Vec<u8>, CodecError> {
    let (mut file, mut buffer) = (file_of(data), Vec::new());
    file.rewind().expect("a file can be rewound");
    let opened = codec::open(&mut file, &mut buffer, &LIMITS, &PLAIN)?;
    let mut slot = vec![0; opened.slot_bytes()];
    let workspace = vec![0; opened.workspace().bytes as usize];
    opened.decode(&mut slot, workspace, Help { cores: &Cores::none(), coder })?;
    Ok(slot)
}
