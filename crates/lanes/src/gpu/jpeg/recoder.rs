//! From coefficients to luma or RGB, and back to the data of a file.
#![allow(unsafe_code)]

use super::Parts;
use super::coefficients::{self, Coefficients};
use crate::gpu::driver::{Address, Buffer, Stream};
use crate::gpu::equalizer::grow;
use crate::gpu::kernels::{Coding, JpegBatch, Kernels, Recolouring, SampleBytes, Symbols, Transform};
use crate::lane::LaneError;
use codec::baseline::{BaselineOutput, BaselinePicture, Codebook};

/// The bytes after those without stuffing that kernels may read.
const BEHIND_RAW: u64 = 16;

/// A file to recode.
pub(super) struct File<'f> {
    pub(super) picture: BaselinePicture<'f>,
    pub(super) output: BaselineOutput,
    /// The most bytes of data in the output.
    pub(super) room: u32,
    pub(super) recolouring: Recolouring,
}

impl File<'_> {
    fn sample_bytes(&self) -> SampleBytes {
        SampleBytes::new(self.picture.size, self.recolouring)
    }
}

/// A batch of pictures on its way from coefficients to luma or RGB, which the caller changes, and
/// back.
///
/// Its steps are [`Recoder::decode`], [`Recoder::quantize`] and [`Recoder::code`]; the stream must
/// be waited for after each of the last two.
#[derive(Default)]
pub(super) struct Recoder {
    coefficients: Coefficients,
    memory: Buffer,
    transforms: Vec<Transform>,
    sample_bytes: Vec<SampleBytes>,
    codings: Vec<Coding>,
    symbols: Vec<Symbols>,
    codebooks: Vec<Codebook>,
    lengths: Vec<u32>,
    /// The bytes before the data of each picture.
    heads: Vec<Vec<u8>>,
    at: Address,
    places: PartPlaces,
}

/// The places of parts, from the beginning of the memory on.
#[derive(Clone, Copy, Default)]
struct PartPlaces {
    transforms: u64,
    codings: u64,
    codebooks: u64,
    symbols: u64,
    lengths: u64,
    /// The first part to be zeroed before coding, and the end of all.
    raw: u64,
    end: u64,
}

impl Recoder {
    /// Returns about how many bytes of device memory a file takes.
    ///
    /// The memory for equalizing it is not included.
    pub(super) fn bytes(file: &File<'_>) -> u64 {
        let File { picture, room, .. } = file;
        let blocks = (picture.mcus.0 * picture.mcus.1 * picture.blocks_of_mcu()) as u64;
        let samples = file.sample_bytes().sum();
        coefficients::bytes(picture) + samples + 5 * blocks + 9 * u64::from(*room) / 4 + 16384
    }

    /// Starts decoding these pictures. A file of another kind is `None`.
    ///
    /// # Safety
    /// The data must stay valid and unwritten, and this must not be used for anything else, until
    /// the stream is through.
    pub(super) unsafe fn decode(
        &mut self,
        kernels: &Kernels,
        stream: &Stream,
        batch: &[Option<File<'_>>],
    ) -> Result<(), LaneError> {
        let pictures: Vec<_> = batch.iter().map(|file| file.as_ref().map(|file| &file.picture)).collect();
        // SAFETY: guaranteed by the caller.
        unsafe { self.coefficients.decode(kernels, stream, &pictures)? };
        self.describe(batch);
        if self.transforms.is_empty() {
            return Ok(());
        }
        self.place()?;
        // SAFETY: each part is as large as its content, and this lane's own; the rest is guaranteed
        // by the caller.
        unsafe {
            stream.zero(self.at + self.places.raw, self.places.end - self.places.raw)?;
            stream.upload(bytemuck::cast_slice(&self.transforms), self.at + self.places.transforms)?;
            stream.upload(bytemuck::cast_slice(&self.codings), self.at + self.places.codings)?;
            Ok(kernels.jpeg_samples(stream, self.all())?)
        }
    }

    fn describe(&mut self, batch: &[Option<File<'_>>]) {
        self.transforms.clear();
        self.sample_bytes.clear();
        self.codings.clear();
        for (number, file) in batch.iter().enumerate() {
            let (Some(file), Some(place)) = (file, self.coefficients.place_of(number)) else {
                continue;
            };
            self.transforms.push(Transform::new(&file.picture, &file.output, file.recolouring));
            self.sample_bytes.push(file.sample_bytes());
            self.codings.push(Coding::new(&self.coefficients.pictures[place], &file.output, file.room));
        }
        let number = self.transforms.len();
        self.symbols.resize(number, [[[0; 256]; 2]; 2]);
        self.codebooks.resize(number, [[[0; 256]; 2]; 2]);
        self.lengths.resize(number, 0);
    }

    /// Finds a place for everything.
    fn place(&mut self) -> Result<(), LaneError> {
        let mut parts = Parts::default();
        let number = self.transforms.len() as u64;
        let codebook = size_of::<Codebook>() as u64;
        let [transforms, codings, codebooks, lengths] =
            parts.add_for(number, [size_of::<Transform>() as u64, size_of::<Coding>() as u64, codebook, 4]);
        for (transform, &SampleBytes { samples, covered, rgb, chroma }) in
            self.transforms.iter_mut().zip(&self.sample_bytes)
        {
            // Only the first part is at 0, so a place of 0 means a part that is absent.
            let mut add = |bytes| if bytes > 0 { parts.add(bytes) } else { 0 };
            transform.samples = add(samples);
            transform.covered = add(covered);
            transform.rgb = add(rgb);
            transform.chroma = add(chroma);
        }
        for coding in &mut self.codings {
            coding.out = parts.add(coding.room());
        }
        for (coding, picture) in self.codings.iter_mut().zip(&self.coefficients.pictures) {
            coding.offsets = parts.add(4 * picture.blocks());
            coding.chunks = parts.add(8 * coding.chunks(picture));
            coding.ends = parts.add(4 * picture.intervals());
            coding.tiles = parts.add(4 * coding.tiles());
        }
        let raw = parts.bytes;
        let symbols = parts.add(number * codebook);
        for coding in &mut self.codings {
            coding.raw = parts.add(coding.room() + BEHIND_RAW);
        }
        self.at = grow(&mut self.memory, parts.bytes)?;
        self.places = PartPlaces { transforms, codings, codebooks, symbols, lengths, raw, end: parts.bytes };
        for (number, (transform, coding)) in self.transforms.iter_mut().zip(&mut self.codings).enumerate() {
            let places =
                [&mut transform.samples, &mut transform.covered, &mut transform.rgb, &mut transform.chroma];
            places.into_iter().filter(|place| **place > 0).for_each(|place| *place += self.at);
            let places = [
                &mut coding.out,
                &mut coding.offsets,
                &mut coding.chunks,
                &mut coding.ends,
                &mut coding.tiles,
                &mut coding.raw,
            ];
            places.into_iter().for_each(|place| *place += self.at);
            coding.codebook = self.at + codebooks + number as u64 * codebook;
            coding.symbols = self.at + symbols + number as u64 * codebook;
            coding.length = self.at + lengths + number as u64 * 4;
        }
        Ok(())
    }

    fn all(&self) -> JpegBatch<'_> {
        JpegBatch {
            pictures: &self.coefficients.pictures,
            transforms: &self.transforms,
            codings: &self.codings,
            pictures_at: self.coefficients.described,
            transforms_at: self.at + self.places.transforms,
            codings_at: self.at + self.places.codings,
        }
    }

    /// Returns the place of a picture's pixels to equalize, without gaps: of its RGB, or luma.
    ///
    /// `None` if the picture is for the CPU. They can be changed from [`Recoder::decode`] to
    /// [`Recoder::quantize`].
    pub(super) fn pixels(&self, number: usize) -> Option<Address> {
        let Transform { samples, rgb, .. } = self.transforms[self.coefficients.place_of(number)?];
        Some(if rgb > 0 { rgb } else { samples })
    }

    /// Starts looking for faults of pictures that do not go back.
    ///
    /// # Safety
    /// As [`Recoder::decode`].
    pub(super) unsafe fn look(&mut self, stream: &Stream) -> Result<(), LaneError> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.coefficients.look(stream) }
    }

    /// Returns whether no fault has been found in a picture. Any other one is for the CPU.
    ///
    /// Valid once the stream is through with [`Recoder::look`].
    pub(super) fn is_whole(&self, number: usize) -> bool {
        self.coefficients.is_whole(number)
    }

    /// Starts the way back: transforms samples, quantizes other coefficients anew, and counts
    /// symbols.
    ///
    /// # Safety
    /// As [`Recoder::decode`].
    pub(super) unsafe fn quantize(&mut self, kernels: &Kernels, stream: &Stream) -> Result<(), LaneError> {
        if self.transforms.is_empty() {
            return Ok(());
        }
        // SAFETY: guaranteed by the caller.
        unsafe {
            kernels.jpeg_quantized(stream, self.all())?;
            stream.download(self.at + self.places.symbols, bytemuck::cast_slice_mut(&mut self.symbols))?;
            self.coefficients.look(stream)
        }
    }

    /// Makes codes from the counted symbols, and starts coding.
    ///
    /// # Safety
    /// As [`Recoder::decode`]; the stream must be through with [`Recoder::quantize`].
    pub(super) unsafe fn code(
        &mut self,
        kernels: &Kernels,
        stream: &Stream,
        batch: &[Option<File<'_>>],
    ) -> Result<(), LaneError> {
        if self.transforms.is_empty() {
            return Ok(());
        }
        self.heads.clear();
        for (number, file) in batch.iter().enumerate() {
            let (Some(file), Some(place)) = (file, self.coefficients.place_of(number)) else {
                continue;
            };
            let (codebook, head) = file.output.codes(&self.symbols[place]);
            self.codebooks[place] = codebook;
            self.heads.push(head);
        }
        // SAFETY: guaranteed by the caller.
        unsafe {
            stream.upload(bytemuck::cast_slice(&self.codebooks), self.at + self.places.codebooks)?;
            kernels.jpeg_coded(stream, self.all())?;
            stream.download(self.at + self.places.lengths, bytemuck::cast_slice_mut(&mut self.lengths))?;
            self.coefficients.look(stream)
        }
    }

    /// Returns the bytes before a picture's data, the place of the data, and their length.
    ///
    /// `None` if the picture is for the CPU. Valid once the stream is through with
    /// [`Recoder::code`].
    pub(super) fn coded(&self, number: usize) -> Option<(&[u8], Address, u32)> {
        let place = self.coefficients.place_of(number)?;
        let coded = (&*self.heads[place], self.codings[place].out, self.lengths[place]);
        self.coefficients.is_whole(number).then_some(coded)
    }
}
