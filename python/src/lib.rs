//! The Python module `histeqd._histeqd`, called by `histeqd/__init__.py`.
//!
//! The caller has checked the arguments, and given arrays four axes.
//!
//! It is private in Python. NumPy's memory is borrowed through rust-numpy: two calls at once cannot
//! write the same array, and the interpreter is free while pictures are processed.

// Values from Python are taken out of its objects for the call, and functions own them.
#![allow(clippy::needless_pass_by_value)]

mod dlpack;
mod failure;
mod gpu;
mod pictures;
mod threads;
mod views;
mod volume;

use bytemuck::cast_slice_mut;
use equalize::{
    Clahe, ClipLimit, Colour, Depth, Exposure, Levels, Method, Operation, Plateau, Sample, Strength, Stretch,
    Tiles, lut,
};
use numpy::ndarray::{Array2, Axis};
use numpy::{
    Element, IntoPyArray, PyArray3, PyArray4, PyArrayMethods, PyReadonlyArray2, PyReadonlyArray3,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use failure::unchecked;
use pictures::{Kept, Planes, Task, Through};
use views::Pair;

/// A way of enhancing contrast.
///
/// It has a method, the equalized part of a colour picture, a strength in thousandths, and the
/// number of levels if samples have fewer than their bits allow.
#[pyclass(frozen, name = "Operation")]
struct PyOperation(Operation);

#[pymethods]
impl PyOperation {
    /// One LUT for the whole picture, from its histogram.
    ///
    /// A plateau cuts the counts to its share in parts per million.
    #[staticmethod]
    fn equalize(plateau: Option<u32>, color: &str, strength: u16, levels: Option<u32>) -> PyResult<Self> {
        let method = plateau.map_or(Method::Global, |share| Method::Plateau(Plateau { share }));
        Self::new(method, color, strength, levels)
    }

    /// A straight line between two percentiles, given in parts per million.
    #[staticmethod]
    fn stretch(low: u32, high: u32, color: &str, strength: u16, levels: Option<u32>) -> PyResult<Self> {
        Self::new(Method::Stretch(Stretch { low, high }), color, strength, levels)
    }

    /// The histogram of a reference.
    #[staticmethod]
    #[pyo3(name = "match")]
    fn match_reference(color: &str, strength: u16, levels: Option<u32>) -> PyResult<Self> {
        Self::new(Method::Match, color, strength, levels)
    }

    /// A LUT for each tile.
    ///
    /// No clip limit means automatic. Tiles are a grid, of boxes if it has three sides, or a side.
    #[staticmethod]
    fn clahe(
        clip_limit: Option<f64>,
        grid: (u32, u32, Option<u32>),
        side: Option<u32>,
        noise: u8,
        color: &str,
        strength: u16,
        levels: Option<u32>,
    ) -> PyResult<Self> {
        let clip_limit = clip_limit.map_or(ClipLimit::Auto, ClipLimit::Times);
        let (x, y, z) = grid;
        let of_grid = z.map_or(Tiles::Grid { x, y }, |z| Tiles::Boxes { x, y, z });
        let tiles = side.map_or(of_grid, Tiles::Pixels);
        Self::new(Method::Clahe(Clahe { clip_limit, tiles, noise }), color, strength, levels)
    }

    /// The same after an exposure to this share of the range, in thousandths.
    ///
    /// `low` and `high` are the shares that are skipped at the ends, in parts per million.
    fn exposed(&self, share: u16, low: u32, high: u32) -> Self {
        let exposure = Exposure { share, ends: Stretch { low, high } };
        Self(Operation { exposure: (share > 0).then_some(exposure), ..self.0 })
    }
}

impl PyOperation {
    fn new(method: Method, color: &str, strength: u16, levels: Option<u32>) -> PyResult<Self> {
        let strength = Strength::thousandths(strength).ok_or_else(|| unchecked("strength"))?;
        Ok(Self(Operation {
            strength,
            colour: colour_of(color)?,
            levels: levels_of(levels),
            ..Operation::new(method)
        }))
    }
}

/// Returns the part of a colour picture that is equalized.
fn colour_of(name: &str) -> PyResult<Colour> {
    match name {
        "luma" => Ok(Colour::Luma),
        "hue" => Ok(Colour::Hue),
        "lab" => Ok(Colour::Lab),
        "per-channel" => Ok(Colour::PerChannel),
        "linked" => Ok(Colour::Linked),
        _ => Err(unchecked("color")),
    }
}

/// Returns the number of levels; without one, as many as the samples' bits allow.
fn levels_of(number: Option<u32>) -> Levels {
    number.and_then(|number| u16::try_from(number).ok()).map_or(Levels::All, Levels::First)
}

/// The samples of an array with four axes, by their type.
enum Typed<'a, 'py> {
    Eight(&'a Bound<'py, PyArray4<u8>>),
    Sixteen(&'a Bound<'py, PyArray4<u16>>),
}

impl<'a, 'py> Typed<'a, 'py> {
    fn of(array: &'a Bound<'py, PyAny>, name: &str) -> PyResult<Self> {
        let of_eight = array.cast::<PyArray4<u8>>().map(Self::Eight).ok();
        let typed = of_eight.or_else(|| array.cast::<PyArray4<u16>>().map(Self::Sixteen).ok());
        typed.ok_or_else(|| unchecked(name))
    }
}

/// Fails if pictures cannot be read in place, or the arithmetic does not support their sizes.
fn check<S: Element>(array: &Bound<'_, PyArray4<S>>, name: &str) -> PyResult<()> {
    let shape = array.shape();
    if !array.is_aligned() {
        let text = format!("{name}: its samples do not lie at even addresses; pass a copy, {name}.copy()");
        return Err(PyValueError::new_err(text));
    }
    let is_empty = shape[1] == 0 || shape[2] == 0;
    if is_empty || !(1..=4).contains(&shape[3]) || shape.iter().any(|&length| u32::try_from(length).is_err())
    {
        return Err(unchecked(name));
    }
    Ok(())
}

/// Fails if two samples of an array to be written may lie at the same address.
///
/// They do in a sliding window.
fn check_apart<S: Element>(array: &Bound<'_, PyArray4<S>>) -> PyResult<()> {
    if array.shape().contains(&0) {
        return Ok(());
    }
    let sides = array.shape().iter().zip(array.strides()).filter(|(length, _)| **length > 1);
    let mut sides: Vec<_> = sides.map(|(length, stride)| (stride.unsigned_abs(), *length)).collect();
    sides.sort_unstable();
    let mut reach = size_of::<S>();
    for (stride, length) in sides {
        if stride < reach {
            return Err(PyValueError::new_err("out: its own samples overlap; pass a copy, out.copy()"));
        }
        reach = reach.saturating_add(stride.saturating_mul(length - 1));
    }
    Ok(())
}

fn in_use(name: &str) -> PyErr {
    let text = format!("{name}: is in use by another call, or as another argument; pass an array of its own");
    PyValueError::new_err(text)
}

/// Returns the exception for a sample that is above the highest level.
fn beyond(name: &str, sample: usize, levels: Levels, depth: Depth) -> PyErr {
    let levels = levels.number(depth);
    let text = format!(
        "{name}: sample {sample} is outside the stated range 0..{}; pass another number of levels, or leave it out",
        levels - 1
    );
    PyValueError::new_err(text)
}

/// Borrows arrays and does `work` on their memory, without the interpreter.
///
/// Fails if samples of colours are above the levels.
fn with_pair<S: Sample + Element>(
    py: Python<'_>,
    source: Option<&Bound<'_, PyAny>>,
    out: &Bound<'_, PyArray4<S>>,
    levels: Levels,
    threads: usize,
    work: impl FnOnce(&mut views::Batch<'_, S>) + Send,
) -> PyResult<()> {
    check(out, "out")?;
    check_apart(out)?;
    let source = match source {
        Some(source) => {
            let source = source.cast::<PyArray4<S>>().map_err(|_| unchecked("out"))?;
            check(source, "array")?;
            if source.shape() != out.shape() {
                return Err(unchecked("out"));
            }
            Some(source.try_readonly().map_err(|_| in_use("array"))?)
        }
        None => None,
    };
    let mut out = out.try_readwrite().map_err(|_| in_use("out"))?;
    let mut batch = Pair { source: source.as_ref().map(|source| source.as_array()), out: out.as_array_mut() };
    let found = py.detach(|| {
        let colours = views::pixel(batch.out.len_of(Axis(3))).colour_channels();
        let found = pictures::beyond(&batch.before(), colours, levels, threads);
        if found.is_none() {
            work(&mut batch);
        }
        found
    });
    found.map_or(Ok(()), |sample| Err(beyond("array", sample, levels, S::DEPTH)))
}

/// Fails unless there is a mask value for each pixel of the pictures.
fn check_mask(mask: Option<&PyReadonlyArray3<'_, u8>>, shape: &[usize]) -> PyResult<()> {
    match mask {
        Some(mask) if mask.shape() != &shape[..3] => Err(unchecked("mask")),
        _ => Ok(()),
    }
}

/// Enhances the contrast of pictures from `source`, or, without it, in place in `out`.
#[pyfunction]
#[pyo3(signature = (source, out, operation, mask, reference, threads))]
fn equalize_pictures(
    py: Python<'_>,
    source: Option<&Bound<'_, PyAny>>,
    out: &Bound<'_, PyAny>,
    operation: &PyOperation,
    mask: Option<PyReadonlyArray3<'_, u8>>,
    reference: Option<PyReadonlyArray2<'_, u64>>,
    threads: usize,
) -> PyResult<()> {
    fn run<S: Kept + Element>(
        py: Python<'_>,
        source: Option<&Bound<'_, PyAny>>,
        out: &Bound<'_, PyArray4<S>>,
        operation: Operation,
        mask: Option<&PyReadonlyArray3<'_, u8>>,
        reference: &[u64],
        threads: usize,
    ) -> PyResult<()> {
        check_mask(mask, out.shape())?;
        let mask = mask.map(|mask| mask.as_array());
        let volume = volume::of::<S>(out.shape(), &operation)?;
        with_pair(py, source, out, operation.levels, threads, |batch| match &volume {
            Some(volume) => volume::equalize(batch, volume, threads),
            None => pictures::equalize(batch, &Task { operation, reference, mask, threads }),
        })
    }
    let reference = match &reference {
        Some(reference) => reference.as_slice().map_err(|_| unchecked("reference"))?,
        None => &[],
    };
    check_counts(reference, "reference")?;
    let shape = out.getattr("shape")?.extract::<Vec<usize>>()?;
    let planes = match (shape.last(), operation.0.is_per_channel()) {
        (Some(3 | 4), true) => 3,
        _ => 1,
    };
    let typed = Typed::of(out, "out")?;
    let levels = if matches!(typed, Typed::Eight(_)) { 256 } else { 65_536 };
    if reference.len() != if operation.0.method.has_reference() { planes * levels } else { 0 } {
        let text = "reference: does not have the depth and channels of array; convert it with astype, or use color=\"luma\"";
        return Err(PyValueError::new_err(text));
    }
    match typed {
        Typed::Eight(out) => run(py, source, out, operation.0, mask.as_ref(), reference, threads),
        Typed::Sixteen(out) => run(py, source, out, operation.0, mask.as_ref(), reference, threads),
    }
}

/// Counts how often each level occurs: number, plane, level.
///
/// Without `color`, every channel is counted, alpha included; with it, the planes that would be
/// equalized. No sample may be above `levels`.
#[pyfunction]
#[pyo3(signature = (array, name, mask, color, levels, threads))]
fn histograms<'py>(
    py: Python<'py>,
    array: &Bound<'py, PyAny>,
    name: &str,
    mask: Option<PyReadonlyArray3<'py, u8>>,
    color: Option<&str>,
    levels: Option<u32>,
    threads: usize,
) -> PyResult<Bound<'py, PyArray3<u64>>> {
    fn run<'py, S: Kept + Element>(
        py: Python<'py>,
        array: &Bound<'py, PyArray4<S>>,
        name: &str,
        mask: Option<&PyReadonlyArray3<'_, u8>>,
        planes: Planes,
        levels: Levels,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray3<u64>>> {
        check(array, name)?;
        check_mask(mask, array.shape())?;
        let array = array.try_readonly().map_err(|_| in_use(name))?;
        let (array, mask) = (array.as_array(), mask.map(|mask| mask.as_array()));
        let counts = py.detach(|| {
            let channels = array.len_of(Axis(3));
            let counted =
                if planes == Planes::Channels { channels } else { views::pixel(channels).colour_channels() };
            match pictures::beyond(&array, counted, levels, threads) {
                Some(sample) => Err(beyond(name, sample, levels, S::DEPTH)),
                None => Ok(pictures::histograms(&array, mask.as_ref(), planes, threads)),
            }
        })?;
        Ok(counts.into_pyarray(py))
    }
    let planes = match color {
        Some(color) => Planes::Equalized(colour_of(color)?),
        None => Planes::Channels,
    };
    let (mask, levels) = (mask.as_ref(), levels_of(levels));
    match Typed::of(array, name)? {
        Typed::Eight(array) => run(py, array, name, mask, planes, levels, threads),
        Typed::Sixteen(array) => run(py, array, name, mask, planes, levels, threads),
    }
}

/// Fails for more samples than the arithmetic supports.
fn check_counts(counts: &[u64], name: &str) -> PyResult<()> {
    let total = counts.iter().try_fold(0_u64, |total, &count| total.checked_add(count));
    match total {
        Some(total) if total < 1 << 47 => Ok(()),
        _ => Err(PyValueError::new_err(format!("{name}: counts 2**47 samples or more; divide all counts"))),
    }
}

/// Makes the LUTs of planes with these counts: plane, level.
#[pyfunction]
#[pyo3(signature = (counts, operation, reference))]
fn luts<'py>(
    py: Python<'py>,
    counts: PyReadonlyArray2<'py, u64>,
    operation: &PyOperation,
    reference: Option<PyReadonlyArray2<'py, u64>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (planes, levels) = (counts.shape()[0], counts.shape()[1]);
    let reference_counts = match &reference {
        Some(reference) => reference.as_slice().map_err(|_| unchecked("reference"))?,
        None => &[],
    };
    let counts = counts.as_slice().map_err(|_| unchecked("counts"))?;
    check_counts(counts, "counts")?;
    check_counts(reference_counts, "reference")?;
    let needs = if operation.0.method.has_reference() { counts.len() } else { 0 };
    if matches!(operation.0.method, Method::Clahe(_)) || reference_counts.len() != needs {
        return Err(unchecked("reference"));
    }
    match levels {
        256 => {
            let mut filled = Array2::<u8>::zeros((planes, levels));
            let entries = filled.as_slice_mut().unwrap_or_default();
            lut::fill(&operation.0, Depth::Eight, counts, reference_counts, entries);
            Ok(filled.into_pyarray(py).into_any())
        }
        65_536 => {
            let mut filled = Array2::<u16>::zeros((planes, levels));
            let entries = cast_slice_mut(filled.as_slice_mut().unwrap_or_default());
            lut::fill(&operation.0, Depth::Sixteen, counts, reference_counts, entries);
            Ok(filled.into_pyarray(py).into_any())
        }
        _ => Err(unchecked("counts")),
    }
}

/// Sends pictures through LUTs of an operation.
///
/// There is one for each plane that it equalizes, with an entry for each level that the samples'
/// bits allow.
#[pyfunction]
#[pyo3(signature = (source, out, luts, operation, threads))]
fn apply_luts(
    py: Python<'_>,
    source: Option<&Bound<'_, PyAny>>,
    out: &Bound<'_, PyAny>,
    luts: &Bound<'_, PyAny>,
    operation: &PyOperation,
    threads: usize,
) -> PyResult<()> {
    fn run<S: Sample + Element>(
        py: Python<'_>,
        source: Option<&Bound<'_, PyAny>>,
        out: &Bound<'_, PyArray4<S>>,
        luts: &Bound<'_, PyAny>,
        operation: &Operation,
        threads: usize,
    ) -> PyResult<()> {
        let luts: PyReadonlyArray2<'_, S> = luts.extract().map_err(|_| unchecked("lut"))?;
        let luts = luts.as_slice().map_err(|_| unchecked("lut"))?;
        if luts.len() != operation.planes(views::pixel(out.shape()[3])) * S::LEVELS {
            return Err(unchecked("lut"));
        }
        with_pair(py, source, out, operation.levels, threads, |batch| {
            pictures::apply_luts(batch, &Through { luts, operation }, threads);
        })
    }
    match Typed::of(out, "out")? {
        Typed::Eight(out) => run(py, source, out, luts, &operation.0, threads),
        Typed::Sixteen(out) => run(py, source, out, luts, &operation.0, threads),
    }
}

/// Fills the module.
#[pymodule(gil_used = false)]
#[pyo3(name = "_histeqd")]
fn fill(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyOperation>()?;
    module.add_function(wrap_pyfunction!(equalize_pictures, module)?)?;
    module.add_function(wrap_pyfunction!(histograms, module)?)?;
    module.add_function(wrap_pyfunction!(luts, module)?)?;
    module.add_function(wrap_pyfunction!(apply_luts, module)?)?;
    module.add_class::<dlpack::Borrowed>()?;
    module.add_class::<dlpack::Exported>()?;
    module.add_function(wrap_pyfunction!(gpu::gpu_equalize, module)?)?;
    module.add_function(wrap_pyfunction!(gpu::gpu_histograms, module)?)?;
    module.add_function(wrap_pyfunction!(gpu::gpu_luts, module)?)?;
    module.add_function(wrap_pyfunction!(gpu::gpu_apply, module)?)?;
    module.add_function(wrap_pyfunction!(gpu::gpu_empty, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    Ok(())
}
