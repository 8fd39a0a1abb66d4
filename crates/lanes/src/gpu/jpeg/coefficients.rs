//! From files to coefficients.
#![allow(unsafe_code)]

use super::Parts;
use crate::gpu::driver::{Address, Buffer, Stream};
use crate::gpu::equalizer::grow;
use crate::gpu::kernels::{Finding, Interval, Kernels, Picture, Places, STEPS};
use crate::lane::LaneError;
use codec::baseline::BaselinePicture;

/// The bytes after entropy-coded data that kernels may read. `Walk::BEYOND` in the kernels.
const BEHIND_DATA: u64 = 32;

/// The bytes of a block of coefficients.
const BLOCK: u64 = 128;

/// Returns about how many bytes of device memory a picture takes.
pub(super) fn bytes(picture: &BaselinePicture<'_>) -> u64 {
    let blocks = (picture.mcus.0 * picture.mcus.1 * picture.blocks_of_mcu()) as u64;
    // Its data, a tenth more for their pieces, its intervals, and its blocks.
    let data = picture.data.len() as u64;
    data + data / 10 + 48 * picture.intervals.len() as u64 + blocks * (BLOCK + 2) + STEPS + 4096
}

/// The coefficients of a batch of pictures in device memory, and findings from decoding them.
#[derive(Default)]
pub(super) struct Coefficients {
    memory: Buffer,
    pub(super) pictures: Vec<Picture>,
    intervals: Vec<Interval>,
    findings: Vec<Finding>,
    /// For each picture of the batch, its index in `pictures`; without one, it is for the CPU.
    places: Vec<Option<usize>>,
    /// The places of the descriptions of the pictures, and of the findings.
    pub(super) described: Address,
    found: Address,
}

impl Coefficients {
    /// Starts decoding these pictures. A file of another kind is `None`.
    ///
    /// # Safety
    /// The data must stay valid and unwritten, and this must not be used for anything else, until
    /// the stream is through.
    pub(super) unsafe fn decode(
        &mut self,
        kernels: &Kernels,
        stream: &Stream,
        batch: &[Option<&BaselinePicture<'_>>],
    ) -> Result<(), LaneError> {
        self.describe(batch);
        if self.pictures.is_empty() {
            return Ok(());
        }
        let mut parts = Parts::default();
        let intervals = parts.add(size_of_val(&*self.intervals) as u64);
        let described = parts.add(size_of_val(&*self.pictures) as u64);
        self.place(intervals, &mut parts);
        // Parts that are zero before come last.
        let zeros = parts.bytes;
        let findings = parts.add(size_of_val(&*self.findings) as u64);
        for (number, picture) in self.pictures.iter_mut().enumerate() {
            picture.at.finding = findings + (number * size_of::<Finding>()) as u64;
            [picture.at.dc, picture.at.coefficients] = parts.add_for(picture.blocks(), [2, BLOCK]);
        }
        for (picture, place) in batch.iter().zip(&self.places) {
            if let (Some(picture), Some(place)) = (picture, *place) {
                self.pictures[place].at.data = parts.add(picture.data.len() as u64 + BEHIND_DATA);
            }
        }
        let at = grow(&mut self.memory, parts.bytes)?;
        self.pictures.iter_mut().for_each(|picture| picture.at = picture.at.moved(at));
        (self.described, self.found) = (at + described, at + findings);
        // SAFETY: each part is as large as its content, and this lane's own; the rest is guaranteed
        // by the caller.
        unsafe {
            stream.zero(at + zeros, parts.bytes - zeros)?;
            for (picture, place) in batch.iter().zip(&self.places) {
                if let (Some(picture), Some(place)) = (picture, *place) {
                    stream.upload(picture.data, self.pictures[place].at.data)?;
                }
            }
            stream.upload(bytemuck::cast_slice(&self.intervals), at + intervals)?;
            stream.upload(bytemuck::cast_slice(&self.pictures), self.described)?;
            Ok(kernels.decode_jpegs(stream, &self.pictures, self.described)?)
        }
    }

    /// Describes the pictures for the kernels.
    fn describe(&mut self, batch: &[Option<&BaselinePicture<'_>>]) {
        self.pictures.clear();
        self.intervals.clear();
        self.places.clear();
        for picture in batch {
            let described = picture.and_then(|picture| Picture::new(picture, &mut self.intervals));
            self.places.push(described.map(|_| self.pictures.len()));
            self.pictures.extend(described);
        }
        self.findings.clear();
        self.findings.resize(self.pictures.len(), Finding::default());
    }

    /// Finds places for the tables and the pieces of each picture.
    fn place(&mut self, intervals: u64, parts: &mut Parts) {
        let mut first = 0;
        for picture in &mut self.pictures {
            let [starts, ends, counts, before] = parts.add_for(picture.pieces(), [8, 8, 4, 4]);
            let steps = parts.add(STEPS);
            let intervals = intervals + first * size_of::<Interval>() as u64;
            picture.at = Places { intervals, steps, starts, ends, counts, before, ..picture.at };
            first += picture.intervals();
        }
    }

    /// Copies the findings to the host.
    ///
    /// # Safety
    /// As [`Coefficients::decode`].
    pub(super) unsafe fn look(&mut self, stream: &Stream) -> Result<(), LaneError> {
        // SAFETY: guaranteed by the caller.
        unsafe { stream.download(self.found, bytemuck::cast_slice_mut(&mut self.findings))? };
        Ok(())
    }

    /// Returns the index in `pictures` of a picture of the batch; `None` if it is for the CPU.
    pub(super) fn place_of(&self, number: usize) -> Option<usize> {
        self.places[number]
    }

    /// Returns whether no fault has been found in a picture of the batch.
    ///
    /// Valid once the stream is through. Any other picture is for the CPU.
    pub(super) fn is_whole(&self, number: usize) -> bool {
        self.places[number].is_some_and(|place| self.pictures[place].is_whole(self.findings[place]))
    }
}
