//! Reading of inputs as pictures.

use std::fs::File;
use std::io::{Seek, Write};

use codec::{CodecError, Cores, Decoded, Limits, Target};
use rustix::fs::{MemfdFlags, memfd_create};

use super::memory::Watched;

/// Small limits, which leave the time to the decoders and not to pixels.
pub(crate) const LIMITS: Limits = Limits { max_pixels: 1 << 18, max_bytes: 1 << 24 };

/// The target of a picture that only has to be read.
pub(crate) const PLAIN: Target = Target::AS_STORED;

/// The most memory of a picture: more is refused before it is decoded, as by the program.
const MEMORY: u64 = 1 << 28;

pub(crate) fn file_of(data: &[u8]) -> File {
    let fd = memfd_create("fuzz", MemfdFlags::CLOEXEC).expect("there is memory for a file");
    let mut file = File::from(fd);
    file.write_all(data).expect("there is memory for a file");
    file
}

/// Decodes into a slot that is filled with `before`, with the help of `idle` cores.
pub(crate) fn read(
    file: &mut File,
    target: &Target,
    slot: &mut Vec<u8>,
    before: u8,
    idle: usize,
) -> Result<Decoded, CodecError> {
    file.rewind().expect("a file can be rewound");
    let mut buffer = Vec::new();
    let watched = Watched::begin();
    let opened = codec::open(file, &mut buffer, &LIMITS, target)?;
    slot.clear();
    slot.resize(opened.slot_bytes(), before);
    let workspace = vec![0; opened.workspace().bytes as usize];
    let counted = opened.heap_bytes().saturating_add((slot.capacity() + workspace.len()) as u64);
    if counted > MEMORY {
        return Err(CodecError::LargerThanMemory {
            what: format!("{counted} bytes"),
            allowed: MEMORY,
            needs: None,
            enough: None,
        });
    }
    let decoded = opened.decode(slot, workspace, &Cores::new(idle));
    watched.check(counted);
    decoded
}
