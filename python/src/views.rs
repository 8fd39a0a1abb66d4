//! Pictures in their place in memory, with any strides.

use bytemuck::cast_slice_mut;
use equalize::{Depth, Layout, Pixel, Sample};
use numpy::ndarray::{
    ArrayView, ArrayView2, ArrayView3, ArrayViewMut, ArrayViewMut3, Axis, Dimension, Ix3, Ix4, Slice,
};

use crate::threads::share;

/// The samples of pictures, and the place of the results.
pub(crate) struct Pair<'a, S, D> {
    /// `None` if the samples lie in the place of the results.
    pub(crate) source: Option<ArrayView<'a, S, D>>,
    pub(crate) out: ArrayViewMut<'a, S, D>,
}

/// Pictures of one size: number, height, width, channels.
pub(crate) type Batch<'a, S> = Pair<'a, S, Ix4>;

/// One picture, or some rows of it: height, width, channels.
pub(crate) type Picture<'a, S> = Pair<'a, S, Ix3>;

impl<S: Sample, D: Dimension> Pair<'_, S, D> {
    /// Returns the samples before any write.
    pub(crate) fn before(&self) -> ArrayView<'_, S, D> {
        match &self.source {
            Some(source) => source.view(),
            None => self.out.view(),
        }
    }
}

impl<S: Sample> Batch<'_, S> {
    /// Returns the pictures one by one.
    pub(crate) fn pictures(&mut self) -> impl Iterator<Item = Picture<'_, S>> {
        let Self { source, out } = self;
        let out = out.outer_iter_mut().enumerate();
        out.map(|(at, out)| Pair {
            source: source.as_ref().map(|source| source.index_axis(Axis(0), at)),
            out,
        })
    }
}

impl<S: Sample> Picture<'_, S> {
    /// Returns this many rows at a time.
    pub(crate) fn bands(&mut self, rows: usize) -> impl Iterator<Item = Picture<'_, S>> {
        let Self { source, out } = self;
        let source = source.as_ref();
        let out = out.axis_chunks_iter_mut(Axis(0), rows).enumerate();
        out.map(move |(at, out)| {
            let range = Slice::from(at * rows..at * rows + out.len_of(Axis(0)));
            Pair { source: source.map(|source| source.slice_axis(Axis(0), range)), out }
        })
    }

    /// Lets `change` work on samples without gaps.
    ///
    /// It goes from their own place, if that is elsewhere, to the place of the results. Samples
    /// with gaps are copied, those of results by way of `buffer`, by this many threads.
    pub(crate) fn change(
        &mut self,
        threads: usize,
        buffer: &mut Vec<S>,
        change: impl FnOnce(Option<&[S]>, &mut [S], &Layout),
    ) {
        let layout = layout(&self.before());
        let Self { source, out } = self;
        let without_gaps = source.as_ref().and_then(|source| source.as_slice());
        if let Some(samples) = out.as_slice_mut() {
            if let (Some(source), None) = (&source, without_gaps) {
                read_on(threads, source, samples);
            }
            return change(without_gaps, samples, &layout);
        }
        buffer.resize(out.len(), S::zeroed());
        if without_gaps.is_none() {
            read_on(threads, &source.as_ref().map_or(out.view(), |source| source.view()), buffer);
        }
        change(without_gaps, buffer, &layout);
        let (rows, row) = (layout.height as usize, buffer.len() / layout.height as usize);
        let rows = rows.div_ceil(threads);
        let parts = buffer.chunks(rows * row).zip(out.axis_chunks_iter_mut(Axis(0), rows));
        share(threads, parts, || (), |(), (samples, mut out)| write(samples, &mut out));
    }
}

/// Copies the samples of a picture to a place without gaps, on this many threads.
fn read_on<S: Sample>(threads: usize, picture: &ArrayView3<'_, S>, samples: &mut [S]) {
    let (height, row) = (picture.len_of(Axis(0)), samples.len() / picture.len_of(Axis(0)));
    let rows = height.div_ceil(threads);
    let parts = picture.axis_chunks_iter(Axis(0), rows).zip(samples.chunks_mut(rows * row));
    share(threads, parts, || (), |(), (picture, samples)| read(&picture, samples));
}

/// Returns the layout of a picture once its samples lie without gaps.
pub(crate) fn layout<S: Sample>(picture: &ArrayView3<'_, S>) -> Layout {
    let (height, width, channels) = picture.dim();
    let depth = if S::LEVELS == 256 { Depth::Eight } else { Depth::Sixteen };
    Layout { width: width as u32, height: height as u32, pixel: pixel(channels), depth }
}

/// Returns the pixel that has this many channels, 1 to 4.
pub(crate) const fn pixel(channels: usize) -> Pixel {
    match channels {
        1 => Pixel::Gray,
        2 => Pixel::GrayAlpha,
        3 => Pixel::Rgb,
        _ => Pixel::Rgba,
    }
}

/// Copies the samples of a picture to a place without gaps, which has as many.
pub(crate) fn read<S: Sample>(picture: &ArrayView3<'_, S>, samples: &mut [S]) {
    if let Some(source) = picture.as_slice() {
        return samples.copy_from_slice(source);
    }
    let length = samples.len() / picture.len_of(Axis(0));
    for (row, samples) in picture.outer_iter().zip(samples.chunks_exact_mut(length)) {
        match row.as_slice() {
            Some(row) => samples.copy_from_slice(row),
            None => samples.iter_mut().zip(&row).for_each(|(to, from)| *to = *from),
        }
    }
}

/// Copies samples that lie without gaps to a picture, which has as many.
pub(crate) fn write<S: Sample>(samples: &[S], picture: &mut ArrayViewMut3<'_, S>) {
    if let Some(target) = picture.as_slice_mut() {
        return target.copy_from_slice(samples);
    }
    let length = samples.len() / picture.len_of(Axis(0));
    for (mut row, samples) in picture.outer_iter_mut().zip(samples.chunks_exact(length)) {
        match row.as_slice_mut() {
            Some(row) => row.copy_from_slice(samples),
            None => row.iter_mut().zip(samples).for_each(|(to, from)| *to = *from),
        }
    }
}

/// Copies the samples of the pixels with a value in `mask` that is not 0.
pub(crate) fn read_masked<S: Sample>(
    picture: &ArrayView3<'_, S>,
    mask: &ArrayView2<'_, u8>,
    samples: &mut Vec<S>,
) {
    samples.clear();
    for (row, mask) in picture.outer_iter().zip(mask.outer_iter()) {
        for (pixel, _) in row.outer_iter().zip(mask).filter(|(_, counts)| **counts != 0) {
            samples.extend(pixel);
        }
    }
}

/// Returns samples as bytes.
pub(crate) fn bytes_mut<S: Sample>(samples: &mut [S]) -> &mut [u8] {
    cast_slice_mut(samples)
}
