//! The JPEG coder on a GPU, which makes the bytes of the CPU.
//!
//! It goes from files to coefficients, from these to luma, and back to files. A batch of pictures
//! shares its launches and its waits.
//!
//! The coder takes only files that the CPU's own reader takes, and not all of these: walks along
//! the data of a large even page may not synchronize in the launches that they have.
#![allow(unsafe_code)]

mod coefficients;
mod lane;
mod recoder;
mod self_test;

#[cfg(test)]
mod tests;

pub(super) use lane::CoderLane;

/// The alignment of each part in device memory, in bytes.
const ALIGNMENT: u64 = 128;

/// How parts follow one another in device memory.
#[derive(Default)]
struct Parts {
    bytes: u64,
}

impl Parts {
    /// Adds a part; returns where it begins.
    fn add(&mut self, bytes: u64) -> u64 {
        let at = self.bytes;
        self.bytes = (at + bytes).next_multiple_of(ALIGNMENT);
        at
    }

    /// Adds parts with these bytes for each of `number` elements; returns where they begin.
    fn add_for<const N: usize>(&mut self, number: u64, bytes: [u64; N]) -> [u64; N] {
        bytes.map(|bytes| self.add(number * bytes))
    }
}
