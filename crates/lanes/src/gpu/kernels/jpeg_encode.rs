//! The launches that turn coefficients of JPEGs into samples and back, and code them.
//!
//! See `kernels/jpeg_transform.cu` and `kernels/jpeg_encode.cu`.

use bytemuck::{Pod, Zeroable};

use super::jpeg_decode::{ADDING, MAX_COMPONENTS, Picture};
use super::{Kernels, Launch, arguments};
use crate::gpu::driver::{Address, Result, Stream};
use codec::{BaselineOutput, BaselinePicture, Codebook};
use histeqd_kernels::{JPEG_ENCODE, JPEG_TRANSFORM};

/// Threads per block of the kernels that transform. `THREADS` in `jpeg_transform.cu`.
const TRANSFORMING: u32 = 128;

/// Threads per block of the kernels that code. `THREADS` in `jpeg_encode.cu`.
const CODING: u32 = 256;

/// Bytes per thread when bytes are stuffed. `RUN` in the kernels.
const RUN: u32 = 16;

/// Mirrors `Transform` in the kernels.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Transform {
    pub samples: Address,
    pub covered: Address,
    width: u32,
    height: u32,
    chroma_width: u32,
    chroma_height: u32,
    across: u32,
    down: u32,
    is_requantized: [u32; MAX_COMPONENTS],
    unused: u32,
    divisors: [[u16; 64]; MAX_COMPONENTS],
    correction: [[u16; 64]; MAX_COMPONENTS],
    reciprocal: [[u16; 64]; MAX_COMPONENTS],
    scale: [[u16; 64]; MAX_COMPONENTS],
}

const _: () = assert!(size_of::<Transform>() == 1592, "as the kernels say");

impl Transform {
    /// Describes the transforms of a picture of at most three components, whose chroma follows luma
    /// if each sample covers so much of it, across and down.
    ///
    /// It still lacks places for its samples.
    pub fn new(picture: &BaselinePicture<'_>, output: &BaselineOutput, covers: Option<(u32, u32)>) -> Self {
        let (width, height) = picture.size;
        let mut transform = Self { width, height, ..Self::zeroed() };
        if let Some((across, down)) = covers {
            (transform.across, transform.down) = (across, down);
            (transform.chroma_width, transform.chroma_height) =
                (width.div_ceil(across), height.div_ceil(down));
        }
        let components = picture.components.iter().zip(&output.divisors).take(MAX_COMPONENTS);
        for (number, (component, to)) in components.enumerate() {
            transform.is_requantized[number] = (number > 0 && to.are_new).into();
            transform.divisors[number] = component.divisors;
            transform.correction[number] = to.correction;
            transform.reciprocal[number] = to.reciprocal;
            transform.scale[number] = to.scale;
        }
        transform
    }

    /// Returns the number of samples.
    pub const fn samples(&self) -> u64 {
        self.width as u64 * self.height as u64
    }

    /// Returns the number of samples of one component of chroma, if it follows luma; 0 otherwise.
    pub const fn following(&self) -> u64 {
        self.chroma_width as u64 * self.chroma_height as u64
    }
}

/// Mirrors `Coding` in the kernels.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Coding {
    pub codebook: Address,
    pub symbols: Address,
    pub offsets: Address,
    pub chunks: Address,
    pub ends: Address,
    pub raw: Address,
    pub tiles: Address,
    pub out: Address,
    raw_room: u32,
    room: u32,
    pub length: Address,
    sample_step: u32,
    interval_chunks: u32,
}

const _: () = assert!(size_of::<Coding>() == 88, "as the kernels say");

impl Coding {
    /// Describes the coding of a picture, still without places, with room for so many bytes.
    pub fn new(picture: &Picture, output: &BaselineOutput, room: u32) -> Self {
        Self {
            raw_room: room,
            room,
            sample_step: output.sample_step as u32,
            interval_chunks: picture.interval_blocks().div_ceil(CODING),
            ..Self::zeroed()
        }
    }

    /// Returns the room for data, in bytes.
    pub const fn room(&self) -> u64 {
        self.room as u64
    }

    /// Returns the number of its chunks.
    pub const fn chunks(&self, picture: &Picture) -> u64 {
        picture.intervals() * self.interval_chunks as u64
    }

    /// Returns the number of its tiles at most.
    pub const fn tiles(&self) -> u64 {
        self.raw_room.div_ceil(CODING * RUN) as u64
    }
}

/// The counts of each symbol in the sample, as [`BaselineOutput::codes`] takes them.
///
/// Mirrors `Symbols` in the kernels.
pub type Symbols = Codebook;

/// Pictures as the kernels take them, and the places of these descriptions on the device.
#[derive(Clone, Copy)]
pub struct JpegBatch<'p> {
    pub pictures: &'p [Picture],
    pub transforms: &'p [Transform],
    pub codings: &'p [Coding],
    pub pictures_at: Address,
    pub transforms_at: Address,
    pub codings_at: Address,
}

impl JpegBatch<'_> {
    /// Returns a launch of blocks of so many threads, enough for the most units of any picture.
    fn launch(self, threads: u32, units: impl Fn(&Picture) -> u64) -> Launch {
        let most = self.pictures.iter().map(units).max().unwrap_or(0).div_ceil(threads.into()).max(1);
        Launch { grid: (most as u32, self.pictures.len() as u32, 1), block: (threads, 1, 1), shared: 0 }
    }

    /// Returns a launch of one block for each picture.
    fn adding(self) -> Launch {
        Launch { grid: (self.pictures.len() as u32, 1, 1), block: (ADDING, 1, 1), shared: 0 }
    }
}

impl Kernels {
    /// Transforms the coefficients of the first components to samples.
    ///
    /// # Safety
    /// Only this stream may use the pictures' places until it is done. They must be as large as the
    /// pictures require.
    pub unsafe fn jpeg_samples(&self, stream: &Stream, all: JpegBatch<'_>) -> Result<()> {
        let launch = all.launch(TRANSFORMING, Picture::first_blocks);
        let JpegBatch { pictures_at, transforms_at, .. } = all;
        let (kernel, arguments) = (("jpeg_samples", ""), arguments![pictures_at, transforms_at]);
        // SAFETY: the arguments match the parameters; the rest is guaranteed by the caller.
        unsafe {
            self.loaded().launch(stream, &JPEG_TRANSFORM, kernel, launch, arguments)?;
            self.jpeg_covered(stream, all, 0)
        }
    }

    /// Adds up the luma that chroma covers, if any follows it: before it is equalized, or `after`.
    ///
    /// # Safety
    /// As [`Kernels::jpeg_samples`].
    unsafe fn jpeg_covered(&self, stream: &Stream, all: JpegBatch<'_>, after: u32) -> Result<()> {
        let most = all.transforms.iter().map(Transform::following).max().unwrap_or(0);
        if most == 0 {
            return Ok(());
        }
        let launch = all.launch(TRANSFORMING, |_| most);
        let transforms_at = all.transforms_at;
        let (kernel, arguments) = (("jpeg_covered", ""), arguments![transforms_at, after]);
        // SAFETY: the arguments match the parameters; the rest is guaranteed by the caller.
        unsafe { self.loaded().launch(stream, &JPEG_TRANSFORM, kernel, launch, arguments) }
    }

    /// Transforms samples to coefficients, recolours or requantizes others, and counts symbols in a
    /// sample.
    ///
    /// The counts must be zero before.
    ///
    /// # Safety
    /// As [`Kernels::jpeg_samples`].
    pub unsafe fn jpeg_quantized(&self, stream: &Stream, all: JpegBatch<'_>) -> Result<()> {
        let JpegBatch { pictures_at, transforms_at, codings_at, .. } = all;
        let luma = all.launch(TRANSFORMING, Picture::first_blocks);
        let others = all.launch(TRANSFORMING, |picture| picture.blocks() - picture.first_blocks());
        let rows = all
            .pictures
            .iter()
            .zip(all.codings)
            .map(|(picture, coding)| picture.rows().div_ceil(coding.sample_step));
        let grid = (rows.max().unwrap_or(1), all.pictures.len() as u32, MAX_COMPONENTS as u32);
        let sampled = Launch { grid, block: (CODING, 1, 1), shared: 0 };
        // SAFETY: the arguments match the parameters; the rest is guaranteed by the caller.
        unsafe {
            let transform = |name, launch| {
                let arguments = arguments![pictures_at, transforms_at];
                self.loaded().launch(stream, &JPEG_TRANSFORM, (name, ""), launch, arguments)
            };
            transform("jpeg_quantized", luma)?;
            transform("jpeg_requantized", others)?;
            if all.transforms.iter().any(|transform| transform.following() > 0) {
                self.jpeg_covered(stream, all, 1)?;
                transform("jpeg_recoloured", all.launch(TRANSFORMING, Picture::mcus))?;
            }
            let arguments = arguments![pictures_at, codings_at];
            self.loaded().launch(stream, &JPEG_ENCODE, ("jpeg_symbols", ""), sampled, arguments)
        }
    }

    /// Codes coefficients.
    ///
    /// # Safety
    /// As [`Kernels::jpeg_samples`]; the codebooks must be there, and the bytes without stuffing
    /// zero.
    pub unsafe fn jpeg_coded(&self, stream: &Stream, all: JpegBatch<'_>) -> Result<()> {
        let JpegBatch { pictures_at, codings_at, .. } = all;
        let of = |most: Option<u64>| Launch {
            grid: (most.unwrap_or(1).max(1) as u32, all.pictures.len() as u32, 1),
            block: (CODING, 1, 1),
            shared: 0,
        };
        let both = || all.pictures.iter().zip(all.codings);
        let chunks = of(both().map(|(picture, coding)| coding.chunks(picture)).max());
        let tiles = of(all.codings.iter().map(Coding::tiles).max());
        let steps = [
            ("jpeg_lengths", chunks),
            ("jpeg_places", all.adding()),
            ("jpeg_bits", chunks),
            ("jpeg_tiles", tiles),
            ("jpeg_tile_places", all.adding()),
            ("jpeg_bytes", tiles),
        ];
        for (name, launch) in steps {
            let arguments = arguments![pictures_at, codings_at];
            // SAFETY: the arguments match the parameters; the rest is guaranteed by the caller.
            unsafe { self.loaded().launch(stream, &JPEG_ENCODE, (name, ""), launch, arguments)? };
        }
        Ok(())
    }
}
