//! The launches that turn coefficients of JPEGs into samples and back, and code them.
//!
//! See `kernels/jpeg_transform.cu` and `kernels/jpeg_encode.cu`.

use bytemuck::{Pod, Zeroable};

use super::jpeg_decode::{ADDING, MAX_COMPONENTS, Picture};
use super::{Kernels, Launch, arguments};
use crate::gpu::driver::{Address, Result, Stream};
use codec::Size;
use codec::baseline::{BaselineOutput, BaselinePicture, Codebook};
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
    pub rgb: Address,
    pub chroma: Address,
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

const _: () = assert!(size_of::<Transform>() == 1608, "as the kernels say");

/// The change of a picture's chroma.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recolouring {
    /// None: the coefficients stay.
    Nothing,
    /// Chroma follows luma, so that the hue stays.
    Hue(Cover),
    /// The picture is equalized as RGB.
    Rgb(Cover),
}

impl Recolouring {
    const fn cover(self) -> Option<Cover> {
        match self {
            Self::Nothing => None,
            Self::Hue(cover) | Self::Rgb(cover) => Some(cover),
        }
    }
}

/// The luma that a sample of chroma covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cover {
    pub across: u32,
    pub down: u32,
}

/// The bytes of a picture's memory for its samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct SampleBytes {
    pub samples: u64,
    pub covered: u64,
    pub rgb: u64,
    pub chroma: u64,
}

impl SampleBytes {
    pub const fn sum(self) -> u64 {
        self.samples + self.covered + self.rgb + self.chroma
    }

    /// Returns the bytes for a picture of this size.
    pub fn new(Size { width, height }: Size, recolouring: Recolouring) -> Self {
        let samples = u64::from(width) * u64::from(height);
        let Some(Cover { across, down }) = recolouring.cover() else {
            return Self { samples, ..Self::default() };
        };
        let (columns, rows) = (u64::from(width.div_ceil(across)), u64::from(height.div_ceil(down)));
        // Two sums of 16 bits for each sample.
        let (covered, rgb) = match recolouring {
            Recolouring::Hue(_) => (4 * columns * rows, 0),
            _ => (0, 3 * samples),
        };
        Self { samples, covered, rgb, chroma: 2 * columns.next_multiple_of(8) * rows }
    }
}

impl Transform {
    /// Describes the transforms of a picture of at most three components.
    ///
    /// It still lacks places for its samples.
    pub fn new(picture: &BaselinePicture<'_>, output: &BaselineOutput, recolouring: Recolouring) -> Self {
        let Size { width, height } = picture.size;
        let mut transform = Self { width, height, ..Self::zeroed() };
        if let Some(Cover { across, down }) = recolouring.cover() {
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

    /// Returns the samples of one component of chroma, in rows of whole blocks, if it changes; 0
    /// otherwise.
    const fn chroma_samples(&self) -> u64 {
        self.chroma_width.next_multiple_of(8) as u64 * self.chroma_height as u64
    }

    /// Returns whether its chroma follows luma.
    const fn keeps_hue(&self) -> bool {
        self.covered != 0
    }

    /// Returns whether it is equalized as RGB.
    const fn is_rgb(&self) -> bool {
        self.rgb != 0
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

    /// Returns a launch of a thread for each sample of chroma that changes.
    fn chroma(self) -> Launch {
        let most = self.transforms.iter().map(Transform::chroma_samples).max().unwrap_or(0);
        self.launch(TRANSFORMING, |_| most)
    }

    /// Returns a launch of a thread for each block of Cb and Cr, which have one each in an MCU.
    fn chroma_blocks(self) -> Launch {
        self.launch(TRANSFORMING, |picture| 2 * picture.mcus())
    }

    /// Returns a launch of one block for each picture.
    fn adding(self) -> Launch {
        Launch { grid: (self.pictures.len() as u32, 1, 1), block: (ADDING, 1, 1), shared: 0 }
    }

    fn any_keeps_hue(self) -> bool {
        self.transforms.iter().any(Transform::keeps_hue)
    }

    fn any_is_rgb(self) -> bool {
        self.transforms.iter().any(Transform::is_rgb)
    }
}

impl Kernels {
    /// Transforms the coefficients of the first components to samples, and of all components to RGB
    /// where the picture is equalized so.
    ///
    /// # Safety
    /// Only this stream may use the pictures' places until it is done. They must be as large as the
    /// pictures require.
    pub unsafe fn jpeg_samples(&self, stream: &Stream, all: JpegBatch<'_>) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            self.jpeg_blocks(stream, all, "jpeg_samples", all.launch(TRANSFORMING, Picture::first_blocks))?;
            if all.any_keeps_hue() || all.any_is_rgb() {
                self.jpeg_blocks(stream, all, "jpeg_chroma_samples", all.chroma_blocks())?;
            }
            if all.any_keeps_hue() {
                self.jpeg_covered(stream, all, 0)?;
            }
            if all.any_is_rgb() {
                self.jpeg_chroma(stream, all, "jpeg_rgb")?;
            }
        }
        Ok(())
    }

    /// Launches a kernel that transforms blocks.
    ///
    /// # Safety
    /// As [`Kernels::jpeg_samples`].
    unsafe fn jpeg_blocks(
        &self,
        stream: &Stream,
        all: JpegBatch<'_>,
        name: &'static str,
        launch: Launch,
    ) -> Result<()> {
        let JpegBatch { pictures_at, transforms_at, .. } = all;
        let arguments = arguments![pictures_at, transforms_at];
        // SAFETY: the arguments match the parameters; the rest is guaranteed by the caller.
        unsafe { self.loaded().launch(stream, &JPEG_TRANSFORM, (name, ""), launch, arguments) }
    }

    /// Launches a kernel with a thread for each sample of chroma.
    ///
    /// # Safety
    /// As [`Kernels::jpeg_samples`].
    unsafe fn jpeg_chroma(&self, stream: &Stream, all: JpegBatch<'_>, name: &'static str) -> Result<()> {
        let transforms_at = all.transforms_at;
        let arguments = arguments![transforms_at];
        // SAFETY: the argument matches the parameter; the rest is guaranteed by the caller.
        unsafe { self.loaded().launch(stream, &JPEG_TRANSFORM, (name, ""), all.chroma(), arguments) }
    }

    /// Adds up the luma that chroma covers, where it follows luma: before it is equalized, or
    /// `after`.
    ///
    /// # Safety
    /// As [`Kernels::jpeg_samples`].
    unsafe fn jpeg_covered(&self, stream: &Stream, all: JpegBatch<'_>, after: u32) -> Result<()> {
        let transforms_at = all.transforms_at;
        let (kernel, arguments) = (("jpeg_covered", ""), arguments![transforms_at, after]);
        // SAFETY: the arguments match the parameters; the rest is guaranteed by the caller.
        unsafe { self.loaded().launch(stream, &JPEG_TRANSFORM, kernel, all.chroma(), arguments) }
    }

    /// Transforms samples and RGB to coefficients, quantizes others anew, and counts symbols in a
    /// sample.
    ///
    /// The counts must be zero before.
    ///
    /// # Safety
    /// As [`Kernels::jpeg_samples`].
    pub unsafe fn jpeg_quantized(&self, stream: &Stream, all: JpegBatch<'_>) -> Result<()> {
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
            if all.any_is_rgb() {
                self.jpeg_chroma(stream, all, "jpeg_ycbcr")?;
            }
            if all.any_keeps_hue() {
                self.jpeg_covered(stream, all, 1)?;
                self.jpeg_chroma(stream, all, "jpeg_followed")?;
            }
            if all.any_keeps_hue() || all.any_is_rgb() {
                self.jpeg_blocks(stream, all, "jpeg_chroma_quantized", all.chroma_blocks())?;
            }
            self.jpeg_blocks(stream, all, "jpeg_quantized", luma)?;
            self.jpeg_blocks(stream, all, "jpeg_requantized", others)?;
            let JpegBatch { pictures_at, codings_at, .. } = all;
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
