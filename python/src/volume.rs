//! A batch of pictures as the slices of a volume.

use std::sync::{Mutex, PoisonError};

use bytemuck::cast_slice;
use equalize::clahe::Volume;
use equalize::{Layout, Operation, Sample};
use pyo3::PyResult;
use pyo3::exceptions::PyValueError;

use crate::threads::{share, worthwhile};
use crate::views::{Batch, bytes_mut, pixel, read};

/// Returns the volume of these pictures, if tiles are boxes.
///
/// `shape` is number, height, width and channels.
pub(crate) fn of<S: Sample>(shape: &[usize], operation: &Operation) -> PyResult<Option<Volume>> {
    let &[pages, height, width, channels] = shape else { return Ok(None) };
    if !operation.method.has_boxes() || pages == 0 {
        return Ok(None);
    }
    let (width, height) = (width as u32, height as u32);
    let layout = Layout { width, height, pixel: pixel(channels), depth: S::DEPTH };
    let volume = Volume::new(&layout, pages, operation);
    volume.map(Some).ok_or_else(|| {
        PyValueError::new_err("tiles: makes boxes of more than 4294967295 pixels; pass more tiles")
    })
}

/// Equalizes the pictures of a volume. `threads` is as in [`worthwhile`].
pub(crate) fn equalize<S: Sample>(batch: &mut Batch<'_, S>, volume: &Volume, threads: usize) {
    let before = batch.before();
    let threads = worthwhile(threads, before.len());
    let rows: Vec<_> = (0..volume.rows()).map(|_| Mutex::new(vec![0; volume.row_counts()])).collect();
    let exposed = Mutex::new(vec![0; volume.exposed_counts()]);
    share(threads, before.outer_iter().enumerate(), Vec::new, |buffer, (page, slice)| {
        buffer.resize(slice.len(), S::zeroed());
        read(&slice, buffer);
        for part in volume.parts(volume.page(page)) {
            let mut counts = rows[part.row].lock().unwrap_or_else(PoisonError::into_inner);
            volume.count(cast_slice(buffer), volume.page(page), part, &mut counts);
        }
        if volume.exposed_counts() > 0 {
            let mut exposed = exposed.lock().unwrap_or_else(PoisonError::into_inner);
            volume.count_exposed(cast_slice(buffer), volume.page(page), &mut exposed);
        }
    });
    let counted = rows.into_iter().map(|row| row.into_inner().unwrap_or_else(PoisonError::into_inner));
    let exposed = exposed.into_inner().unwrap_or_else(PoisonError::into_inner);
    let tables = volume.tables(&counted.collect::<Vec<_>>(), &exposed);
    share(threads, batch.pictures().enumerate(), Vec::new, |buffer, (page, mut slice)| {
        slice.change(1, buffer, |source, samples, _| {
            if let Some(source) = source {
                samples.copy_from_slice(source);
            }
            volume.equalize(volume.page(page), bytes_mut(samples), &tables);
        });
    });
}
