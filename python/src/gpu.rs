//! The same functions for tensors in the memory of a GPU, called by `histeqd/_gpu.py`.
//!
//! They neither copy nor wait.
#![allow(unsafe_code)]

use arrays::{Batch, Error, Gpu, Mask, Pictures, Stream};
use equalize::{Depth, Layout};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::dlpack::{Borrowed, Exported};
use crate::failure::{failed, unchecked};
use crate::views::pixel;
use crate::{PyOperation, colour_of};

/// A borrowed tensor with pictures: attributes of `Pictures` in `histeqd/_gpu.py`.
#[derive(FromPyObject)]
pub(crate) struct BorrowedPictures<'py> {
    lent: PyRef<'py, Borrowed>,
    has_channels: bool,
}

/// A tensor as pictures: number, height, width, channels.
struct Shaped {
    layout: Layout,
    number: u32,
    pictures: Pictures,
}

impl Shaped {
    /// Takes the axes of a tensor with pictures.
    fn of(tensor: &BorrowedPictures<'_>, name: &str) -> PyResult<Self> {
        Self::new(&tensor.lent, tensor.has_channels, name)
    }

    /// Takes the axes of a tensor as NHWC, HWC, NHW or HW.
    fn new(tensor: &Borrowed, has_channels: bool, name: &str) -> PyResult<Self> {
        let depth = match tensor.dtype.as_str() {
            "u8" => Depth::Eight,
            "u16" => Depth::Sixteen,
            _ => return Err(unchecked(name)),
        };
        let mut axes: Vec<(i64, i64)> =
            tensor.shape.iter().copied().zip(tensor.strides.iter().copied()).collect();
        if !has_channels {
            axes.push((1, 1));
        }
        if axes.len() == 3 {
            axes.insert(0, (1, 0));
        }
        let &[(number, apart), height, width, channels] = axes.as_slice() else {
            return Err(unchecked(name));
        };
        let sides = [number, height.0, width.0, channels.0].map(u32::try_from);
        let [Ok(number), Ok(height_pixels), Ok(width_pixels), Ok(channels_number @ 1..=4)] = sides else {
            return Err(unchecked(name));
        };
        let of_picture = height.0 * width.0 * channels.0;
        let lies = |(side, stride): (i64, i64), apart| side == 1 || stride == apart;
        let is_dense = lies(channels, 1) && lies(width, channels.0) && lies(height, width.0 * channels.0);
        if !is_dense || (number > 1 && apart < of_picture) {
            return Err(PyValueError::new_err(format!(
                "{name}: its pictures have gaps, or are channels first; in a GPU they must lie without gaps, channels last: \
                 pass {name}.contiguous(), or a copy in C order"
            )));
        }
        let layout = Layout {
            width: width_pixels,
            height: height_pixels,
            pixel: pixel(channels_number as usize),
            depth,
        };
        let pitch = if number > 1 { apart } else { of_picture } as u64 * depth.bytes() as u64;
        if !tensor.at.is_multiple_of(depth.bytes() as u64) || layout.pixels() >= 1 << 31 {
            let text = format!("{name}: has pictures of 2**31 pixels or more, or samples at odd addresses");
            return Err(PyValueError::new_err(text));
        }
        Ok(Self { layout, number, pictures: Pictures { at: tensor.at, pitch } })
    }

    /// Returns the addresses from the first byte to the end of the last.
    fn reach(&self) -> std::ops::Range<u64> {
        let last = self.pictures.at + u64::from(self.number.saturating_sub(1)) * self.pictures.pitch;
        self.pictures.at..last + if self.number == 0 { 0 } else { self.layout.bytes() }
    }

    fn to_read(&self) -> Batch {
        Batch::to_read(self.layout, self.number, self.pictures)
    }

    /// Returns these pictures with the place for results.
    fn to_results(&self, out: &Borrowed, has_channels: bool) -> PyResult<Batch> {
        let to = Self::new(out, has_channels, "out")?;
        if to.layout != self.layout || to.number != self.number {
            return Err(unchecked("out"));
        }
        if out.is_read_only {
            return Err(PyValueError::new_err("out: is read-only; leave it out"));
        }
        let same = to.pictures.at == self.pictures.at
            && (self.number <= 1 || to.pictures.pitch == self.pictures.pitch);
        let (read, written) = (self.reach(), to.reach());
        if !same && read.start < written.end && written.start < read.end {
            let text = "out: overlaps array; pass out=array itself, or a tensor with memory of its own";
            return Err(PyValueError::new_err(text));
        }
        Ok(Batch { to: to.pictures, ..self.to_read() })
    }
}

/// Returns the mask: one value for each pixel of the pictures, or of one of them for all.
fn mask_of(mask: Option<&Borrowed>, pictures: &Shaped) -> PyResult<Option<Mask>> {
    let Some(mask) = mask else { return Ok(None) };
    if !matches!(mask.dtype.as_str(), "b8" | "b1") {
        return Err(PyTypeError::new_err(format!("mask: has the type {}, not bool", mask.dtype)));
    }
    let (height, width) = (i64::from(pictures.layout.height), i64::from(pictures.layout.width));
    let dense = |strides: &[i64]| (width == 1 || strides[1] == 1) && (height == 1 || strides[0] == width);
    let pitch = match (mask.shape.as_slice(), mask.strides.as_slice()) {
        (&[h, w], strides) if (h, w) == (height, width) && dense(strides) => 0,
        (&[n, h, w], &[apart, ref strides @ ..])
            if (n, h, w) == (i64::from(pictures.number), height, width)
                && dense(strides)
                && (n <= 1 || apart >= 0) =>
        {
            apart
        }
        _ => {
            return Err(PyValueError::new_err(
                "mask: needs one value a pixel, without gaps: height and width of array, or with the number of its pictures before them",
            ));
        }
    };
    Ok(Some(Mask { at: mask.at, pitch: pitch as u64 }))
}

/// Fails unless all tensors are in the same GPU, and returns that.
fn gpu_of(array: &Borrowed, others: &[(Option<&Borrowed>, &str)]) -> PyResult<u32> {
    for (other, name) in others {
        if other.is_some_and(|other| other.device != array.device) {
            return Err(PyValueError::new_err(format!("{name}: is in another GPU than array")));
        }
    }
    u32::try_from(array.device).map_err(|_| PyValueError::new_err("array: is in no GPU"))
}

/// Does `work` on a stream, without the interpreter.
fn on_stream(
    py: Python<'_>,
    device: u32,
    stream: usize,
    work: impl FnOnce(&Stream) -> Result<(), Error> + Send,
) -> PyResult<()> {
    py.detach(|| {
        let gpu = Gpu::get(device)?;
        // SAFETY: the stream is the one that the maker of the pictures named.
        work(&unsafe { gpu.stream(stream) }?)
    })
    .map_err(failed)
}

/// Enhances the contrast of pictures.
#[pyfunction]
#[pyo3(signature = (array, out, operation, mask, reference, stream))]
pub(crate) fn gpu_equalize(
    py: Python<'_>,
    array: BorrowedPictures<'_>,
    out: &Borrowed,
    operation: &PyOperation,
    mask: Option<&Borrowed>,
    reference: Option<BorrowedPictures<'_>>,
    stream: usize,
) -> PyResult<()> {
    let lent = reference.as_ref().map(|reference| &*reference.lent);
    let device = gpu_of(&array.lent, &[(Some(out), "out"), (mask, "mask"), (lent, "reference")])?;
    let pictures = Shaped::of(&array, "array")?;
    let batch = pictures.to_results(out, array.has_channels)?;
    let mask = mask_of(mask, &pictures)?;
    let reference = match &reference {
        Some(reference) => {
            let reference = Shaped::of(reference, "reference")?;
            let (mine, its) = (pictures.layout, reference.layout);
            let planes = |layout: Layout| operation.0.planes(layout.pixel);
            if its.depth != mine.depth || planes(its) != planes(mine) {
                let text = "reference: does not have the depth and channels of array; convert it, or use color=\"luma\"";
                return Err(PyValueError::new_err(text));
            }
            Some(reference.to_read())
        }
        None => None,
    };
    let operation = operation.0;
    on_stream(py, device, stream, |stream| {
        // SAFETY: the tensors lend their memory, and their owner has made this stream wait for its
        // own work on it.
        unsafe { stream.equalize(&batch, &operation, reference.as_ref(), mask) }
    })
}

/// Counts levels, in `bins` bins, into `out`: number, plane, bin, of 64 bits.
#[pyfunction]
#[pyo3(signature = (array, out, mask, color, bins, stream))]
pub(crate) fn gpu_histograms(
    py: Python<'_>,
    array: BorrowedPictures<'_>,
    out: &Borrowed,
    mask: Option<&Borrowed>,
    color: Option<&str>,
    bins: u32,
    stream: usize,
) -> PyResult<()> {
    let device = gpu_of(&array.lent, &[(Some(out), "out"), (mask, "mask")])?;
    let pictures = Shaped::of(&array, "array")?;
    let mask = mask_of(mask, &pictures)?;
    let colour = color.map(colour_of).transpose()?;
    let pixel = pictures.layout.pixel;
    let planes = colour.map_or(pixel.channels(), |colour| colour.to_equalize(pixel).len());
    let counts = i64::from(pictures.number) * planes as i64 * i64::from(bins);
    check_room(out, counts, "i64")?;
    let (batch, to) = (pictures.to_read(), out.at);
    on_stream(py, device, stream, |stream| {
        // SAFETY: as above; `out` has room for the counts.
        unsafe { stream.histograms(&batch, colour, mask, bins, to) }
    })
}

/// Makes the LUTs of planes with these counts.
#[pyfunction]
#[pyo3(signature = (counts, out, operation, reference, stream))]
pub(crate) fn gpu_luts(
    py: Python<'_>,
    counts: &Borrowed,
    out: &Borrowed,
    operation: &PyOperation,
    reference: Option<&Borrowed>,
    stream: usize,
) -> PyResult<()> {
    let device = gpu_of(counts, &[(Some(out), "out"), (reference, "reference")])?;
    let depth = match counts.shape.last() {
        Some(256) => Depth::Eight,
        Some(65_536) => Depth::Sixteen,
        _ => return Err(unchecked("counts")),
    };
    let elements: i64 = counts.shape.iter().product();
    for (tensor, name) in [(Some(counts), "counts"), (reference, "reference")] {
        let Some(tensor) = tensor else { continue };
        if tensor.shape != counts.shape || !matches!(tensor.dtype.as_str(), "i64" | "u64") {
            let text = format!("{name}: is not int64 of the shape of counts, as histogram() makes");
            return Err(PyValueError::new_err(text));
        }
        check_room(tensor, elements, &tensor.dtype)
            .map_err(|_| PyValueError::new_err(format!("{name}: has gaps; pass {name}.contiguous()")))?;
    }
    check_room(out, elements, if depth == Depth::Eight { "u8" } else { "u16" })?;
    let planes = elements as usize / depth.levels();
    let (counts, to, reference) = (counts.at, out.at, reference.map(|reference| reference.at));
    let operation = operation.0;
    on_stream(py, device, stream, |stream| {
        // SAFETY: as above; `out` has room for the LUTs.
        unsafe { stream.luts(counts, planes, depth, &operation, reference, to) }
    })
}

/// Sends pictures through LUTs.
///
/// There is one for each plane that the operation equalizes, or a single one for all planes.
#[pyfunction]
#[pyo3(signature = (array, out, luts, operation, stream))]
pub(crate) fn gpu_apply(
    py: Python<'_>,
    array: BorrowedPictures<'_>,
    out: &Borrowed,
    luts: &Borrowed,
    operation: &PyOperation,
    stream: usize,
) -> PyResult<()> {
    let device = gpu_of(&array.lent, &[(Some(out), "out"), (Some(luts), "lut")])?;
    let pictures = Shaped::of(&array, "array")?;
    let batch = pictures.to_results(out, array.has_channels)?;
    let operation = operation.0;
    let planes = operation.planes(pictures.layout.pixel) as i64;
    let levels = pictures.layout.depth.levels() as i64;
    let has = |planes| check_room(luts, planes * levels, &array.lent.dtype).is_ok();
    if luts.shape.last() != Some(&levels) || !(has(planes) || has(1)) {
        let all = if planes == 1 { String::new() } else { format!(" or ({planes}, {levels})") };
        let text =
            format!("lut: is not of the type of array and ({levels},){all} without gaps, as lut() makes");
        return Err(PyValueError::new_err(text));
    }
    let (luts, is_one) = (luts.at, !has(planes));
    on_stream(py, device, stream, |stream| {
        // SAFETY: as above; there is an entry for each level, of one plane or all.
        unsafe { stream.apply(&batch, &operation, luts, is_one) }
    })
}

/// Fails unless a tensor has this many elements of this type, without gaps.
fn check_room(tensor: &Borrowed, elements: i64, dtype: &str) -> PyResult<()> {
    let mut stride = 1;
    let mut is_dense = true;
    for (&side, &found) in tensor.shape.iter().zip(&tensor.strides).rev() {
        is_dense &= side <= 1 || found == stride;
        stride *= side;
    }
    if tensor.dtype != dtype || stride != elements || !is_dense {
        return Err(PyValueError::new_err("out: does not have the type and size of the result"));
    }
    Ok(())
}

/// Allocates a tensor in the memory of a GPU, for work in a stream.
#[pyfunction]
pub(crate) fn gpu_empty(device: u32, stream: usize, shape: Vec<i64>, dtype: &str) -> PyResult<Exported> {
    Exported::new(device, stream, shape, dtype)
}
