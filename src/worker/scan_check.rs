//! Whether the entropy-coded data of JPEGs are whole, told by the GPU: nvJPEG was seen to accept damaged ones without a word, and to
//! look through them on the processor takes longer than all else that it has to do.
#![allow(unsafe_code)]

use super::EngineError;
use super::check::wrong;
use super::cuda::{Buffer, Stream};
use super::kernels::{Kernels, Scan, ScanMemory, Verdict};
use super::resident::{Failure, grow};
use crate::codec::BaselineScan;

/// What is in the device's memory begins at a multiple of so many bytes.
const ALIGNMENT: u64 = 128;

/// What a lane looks through the data of a batch with.
#[derive(Default)]
pub(super) struct ScanCheck {
    memory: Buffer,
    scans: Vec<Scan>,
    verdicts: Vec<u32>,
    /// The kernels have said what the processor says.
    proven: bool,
}

impl ScanCheck {
    /// Starts to look through these scans. None is of a file that can be none.
    ///
    /// # Safety
    /// The data stay and are not written, nor is this used for anything else, until the stream is through.
    pub(super) unsafe fn start(
        &mut self,
        kernels: &Kernels,
        stream: &Stream,
        scans: &[Option<BaselineScan<'_>>],
    ) -> Result<(), Failure> {
        let mut end = 0;
        let mut part = |bytes: u64| {
            let start = end;
            end = (start + bytes).next_multiple_of(ALIGNMENT);
            start
        };
        self.scans.clear();
        let mut pieces = 0;
        for scan in scans.iter().flatten() {
            let described =
                Scan::new(scan, part(scan.data().len() as u64), pieces).ok_or(Failure::TooLarge)?;
            pieces += described.pieces();
            self.scans.push(described);
        }
        if self.scans.is_empty() {
            return Ok(());
        }
        self.verdicts.clear();
        self.verdicts.resize(self.scans.len(), 0);
        let (places, counts) = (8 * u64::from(pieces), 4 * u64::from(pieces));
        let (described, verdicts) = (size_of_val(&*self.scans) as u64, size_of_val(&*self.verdicts) as u64);
        let parts = [places, places, counts, described, verdicts].map(part);
        let at = grow(&mut self.memory, end)?;
        self.scans.iter_mut().for_each(|scan| scan.data += at);
        let [starts, ends, counts, described, verdicts] = parts.map(|offset| at + offset);
        let memory = ScanMemory { scans: described, starts, ends, counts, verdicts };
        // SAFETY: each part is as large as what goes there, and this lane's; the rest is the caller's promise.
        unsafe {
            for (scan, described) in scans.iter().flatten().zip(&self.scans) {
                stream.upload(scan.data(), described.data)?;
            }
            stream.upload(bytemuck::cast_slice(&self.scans), memory.scans)?;
            kernels.judge_scans(stream, &self.scans, memory)?;
            stream.download(memory.verdicts, bytemuck::cast_slice_mut(&mut self.verdicts))?;
        }
        Ok(())
    }

    /// Whether each is whole, once the stream has been through. The processor looks through what has remained unclear, and at first
    /// through all.
    ///
    /// # Errors
    /// When the kernels have said anything else than the processor.
    pub(super) fn are_whole(&mut self, scans: &[Option<BaselineScan<'_>>]) -> Result<Vec<bool>, EngineError> {
        let mut verdicts = self.verdicts.iter().copied().map(Verdict::read);
        let is_whole = |scan: &Option<BaselineScan<'_>>| {
            let Some(scan) = scan else { return Ok(false) };
            let found = verdicts.next().unwrap_or(Verdict::Unclear);
            if self.proven && found != Verdict::Unclear {
                return Ok(found == Verdict::Whole);
            }
            let whole = scan.is_whole();
            let agree = found == Verdict::Unclear || whole == (found == Verdict::Whole);
            if agree { Ok(whole) } else { Err(wrong()) }
        };
        let whole = scans.iter().map(is_whole).collect();
        self.proven = true;
        whole
    }
}
