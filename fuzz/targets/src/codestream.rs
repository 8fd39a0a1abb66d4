//! The check that the CPU accepts the codestreams that would be handed to a device.

use std::io::Seek;
use std::sync::Mutex;

use codec::coders::{BlockCoder, Codestream, CodestreamDecoder, decode_codestream};
use codec::{CodecError, Cores};

use super::reading::{LIMITS, PLAIN, file_of};

/// Decodes codestreams on the CPU as a device would, and keeps the CPU's refusals.
///
/// A panic would be taken for one of the decoder.
#[derive(Debug, Default)]
struct Device {
    refused: Mutex<Option<String>>,
}

impl CodestreamDecoder for Device {
    fn decode(&self, codestream: &Codestream, bytes: &[u8], into: &mut [u8]) -> bool {
        if codestream.coder == BlockCoder::HighThroughput {
            return false;
        }
        match decode_codestream(codestream, bytes, into) {
            Ok(()) => return true,
            Err(error) => *self.refused.lock().expect("nobody panics with it") = Some(error.to_string()),
        }
        false
    }
}

/// Compares the CPU's and a device's results for an input.
///
/// # Panics
/// If they differ.
pub(crate) fn check(data: &[u8]) {
    let device = Device::default();
    let (expected, found) = (read(data, None), read(data, Some(&device)));
    assert_eq!(device.refused.into_inner().expect("nobody panicked with it"), None, "it was handed over");
    assert!(expected.ok() == found.ok(), "the pixels are those of the CPU");
}

fn read(data: &[u8], device: Option<&dyn CodestreamDecoder>) -> Result<Vec<u8>, CodecError> {
    let (mut file, mut buffer) = (file_of(data), Vec::new());
    file.rewind().expect("a file can be rewound");
    let mut opened = codec::open(&mut file, &mut buffer, &LIMITS, &PLAIN)?;
    if let Some(device) = device {
        opened = opened.with_decoder(device);
    }
    let mut slot = vec![0; opened.slot_bytes()];
    let workspace = vec![0; opened.workspace().bytes as usize];
    opened.decode(&mut slot, workspace, &Cores::none())?;
    Ok(slot)
}
