//! Entry points for fuzz targets: messages.

use std::path::Path;

use histeqd_queue::Letter;

use super::message::{Dead, Message};
use super::signature::Signatures;

/// A message that a worker has read.
#[derive(Debug, PartialEq, Eq)]
pub struct ReadMessage(Message);

impl ReadMessage {
    /// Reads a payload as a worker does, with a key or without. The error is a sentence.
    pub fn of(payload: &[u8], key: Option<&[u8]>) -> Result<Self, String> {
        signatures(key).read(payload).map(Self)
    }

    /// Returns a payload with the same content.
    pub fn payload(&self) -> Vec<u8> {
        self.0.letter().payload
    }

    /// Returns the keys that travel with the pictures.
    pub fn settings(&self) -> &str {
        &self.0.settings
    }

    /// Returns the paths of all inputs and outputs.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.pictures.iter().flat_map(|picture| [&*picture.input, &*picture.output])
    }
}

/// Signs a payload.
pub fn sign(payload: &[u8], key: &[u8]) -> Vec<u8> {
    signatures(Some(key)).sign(Letter { name: String::new(), payload: payload.to_owned() }).payload
}

/// Returns the text about a dead letter, if it is one.
pub fn text_of_dead(payload: &[u8]) -> Option<String> {
    Dead::parse(payload).map(|dead| dead.to_string())
}

fn signatures(key: Option<&[u8]>) -> Signatures {
    key.map_or_else(Signatures::none, Signatures::by)
}
