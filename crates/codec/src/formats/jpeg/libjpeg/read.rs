//! Decoding by libjpeg.

use std::ffi::c_uint;
use std::marker::PhantomData;
use std::{mem, slice};

use mozjpeg_sys::{
    J_COLOR_SPACE, jpeg_component_info, jpeg_create_decompress, jpeg_decompress_struct,
    jpeg_destroy_decompress, jpeg_error_mgr, jpeg_finish_decompress, jpeg_mem_src, jpeg_read_header,
    jpeg_read_raw_data, jpeg_read_scanlines, jpeg_start_decompress,
};

use super::super::BLOCK;
use super::{Fault, Plane, QuantTable, ROWS, Space, catch, error_manager};

/// A JPEG being decoded from memory.
#[derive(Debug)]
pub(in crate::formats::jpeg) struct Reader<'a> {
    /// Pointer from `Box::into_raw`.
    ///
    /// libjpeg keeps pointers into it: it is never moved, and never borrowed for longer than a
    /// call.
    state: *mut State,
    bytes: PhantomData<&'a [u8]>,
}

struct State {
    info: jpeg_decompress_struct,
    errors: jpeg_error_mgr,
}

impl<'a> Reader<'a> {
    /// Reads the header, up to the first scan.
    pub(in crate::formats::jpeg) fn new(bytes: &'a [u8]) -> Result<Self, Fault> {
        // SAFETY: this is plain C data, which `jpeg_create_decompress` initializes.
        let info: jpeg_decompress_struct = unsafe { mem::zeroed() };
        let state = Box::into_raw(Box::new(State { info, errors: error_manager() }));
        // From here on `Drop` cleans up; a zeroed object may be destroyed (its memory manager is
        // null).
        let mut reader = Self { state, bytes: PhantomData };
        // SAFETY: `state` is valid and at a fixed address; this sets the error manager before the
        // first call.
        unsafe { (*state).info.common.err = &raw mut (*state).errors };
        reader.calls(|info| {
            // `jpeg_create_decompress` clears everything but the error manager. SAFETY: the bytes
            // outlive the reader (`'a`), and the object is initialized in the order that
            // libjpeg.txt requires.
            unsafe {
                jpeg_create_decompress(info);
                jpeg_mem_src(info, bytes.as_ptr(), bytes.len() as _);
                jpeg_read_header(info, 1);
            }
        })?;
        Ok(reader)
    }

    /// Returns the colour space of the components.
    ///
    /// `None` for CMYK and YCCK, and for anything unknown.
    pub(in crate::formats::jpeg) fn space(&self) -> Option<Space> {
        // SAFETY: `new` has read the header.
        match unsafe { (*self.state).info.jpeg_color_space } {
            J_COLOR_SPACE::JCS_GRAYSCALE => Some(Space::Gray),
            J_COLOR_SPACE::JCS_RGB => Some(Space::Rgb),
            J_COLOR_SPACE::JCS_YCbCr => Some(Space::YCbCr),
            _ => None,
        }
    }

    /// Decodes to packed rows of gray or RGB, upsampled and converted.
    ///
    /// Returns the quantization table of every component.
    pub(in crate::formats::jpeg) fn read_packed(
        &mut self,
        space: Space,
        out: &mut [u8],
    ) -> Result<Vec<QuantTable>, Fault> {
        self.calls(|info| {
            info.out_color_space = space.to_libjpeg();
            let pixels = info.image_width as usize * info.image_height as usize;
            assert_eq!(out.len(), pixels * space.components());
            // SAFETY: the header has been read, but no data after it.
            unsafe { read_rows(info, space.components(), out) }
        })
    }

    /// Decodes to packed rows of CMYK, upsampled and, from YCCK, converted.
    ///
    /// The inks are as stored: inverted, as by Adobe's programs, or not.
    pub(in crate::formats::jpeg) fn read_inks(&mut self, out: &mut [u8]) -> Result<(), Fault> {
        self.calls(|info| {
            info.out_color_space = J_COLOR_SPACE::JCS_CMYK;
            // SAFETY: the header has been read, but no data after it.
            unsafe { read_rows(info, 4, out) };
        })
    }

    /// Decodes to packed rows, upsampled.
    ///
    /// Regardless of the markers, the components are converted from YCbCr to RGB if `ycbcr` is set,
    /// and otherwise left as they are. Rows that do not fit into `out` are decoded and dropped.
    pub(in crate::formats::jpeg) fn read_part(&mut self, ycbcr: bool, out: &mut [u8]) -> Result<(), Fault> {
        self.calls(|info| {
            (info.jpeg_color_space, info.out_color_space) = if ycbcr {
                (J_COLOR_SPACE::JCS_YCbCr, J_COLOR_SPACE::JCS_RGB)
            } else {
                (J_COLOR_SPACE::JCS_UNKNOWN, J_COLOR_SPACE::JCS_UNKNOWN)
            };
            // SAFETY: the header has been read, but no data after it.
            unsafe { read_rows(info, info.num_components as usize, out) };
        })
    }

    /// Decodes to the components' own planes, neither upsampled nor converted.
    ///
    /// Returns their quantization tables.
    pub(in crate::formats::jpeg) fn read_planes(
        &mut self,
        planes: &mut [Plane<&mut [u8]>],
    ) -> Result<Vec<QuantTable>, Fault> {
        self.calls(|info| {
            info.raw_data_out = 1;
            // SAFETY: the header has been read. Per call, libjpeg fills a band of `v_samp_factor`
            // block rows of every component, `width_in_blocks` wide: every pointer is to a row of
            // that length, in a plane or in a band.
            unsafe {
                jpeg_start_decompress(info);
                let components = slice::from_raw_parts(info.comp_info, info.num_components as usize);
                assert_eq!(components.len(), planes.len());
                let mut bands: Vec<Band> = components.iter().map(Band::new).collect();
                let lines = (info.max_v_samp_factor as usize * BLOCK) as c_uint;
                let mut index = 0;
                while info.output_scanline < info.output_height {
                    let mut rows: Vec<Vec<*mut u8>> = planes
                        .iter_mut()
                        .zip(&mut bands)
                        .map(|(plane, band)| plane.row_pointers(band, index))
                        .collect();
                    let mut images: Vec<*mut *mut u8> = rows.iter_mut().map(Vec::as_mut_ptr).collect();
                    jpeg_read_raw_data(info, images.as_mut_ptr(), lines);
                    for (plane, band) in planes.iter_mut().zip(&mut bands) {
                        plane.take(band, index);
                    }
                    index += 1;
                }
                finish(info)
            }
        })
    }

    fn calls<T>(&mut self, calls: impl FnOnce(&mut jpeg_decompress_struct) -> T) -> Result<T, Fault> {
        // SAFETY: `state` is valid, and `&mut self` makes this the only access.
        catch(|| calls(unsafe { &mut (*self.state).info }))
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        // SAFETY: `state` came from `Box::into_raw` and is dropped once. Destroying the object
        // frees its pools and raises no errors.
        unsafe {
            let mut state = Box::from_raw(self.state);
            jpeg_destroy_decompress(&mut state.info);
        }
    }
}

/// Decodes to packed rows with this number of components.
///
/// Rows that do not fit into `out` are dropped. Returns the quantization tables.
///
/// # Safety
/// The header must have been read, and decoding not begun.
unsafe fn read_rows(info: &mut jpeg_decompress_struct, components: usize, out: &mut [u8]) -> Vec<QuantTable> {
    // SAFETY: the row pointers lie within `out` and the spare row, and libjpeg's row length is
    // checked against theirs.
    unsafe {
        jpeg_start_decompress(info);
        let stride = info.output_width as usize * components;
        assert_eq!(info.output_components as usize, components);
        assert!(out.len().is_multiple_of(stride) && out.len() <= stride * info.output_height as usize);
        let mut spare = vec![0; stride];
        while info.output_scanline < info.output_height {
            let start = out.len().min(info.output_scanline as usize * stride);
            let mut rows: Vec<*mut u8> =
                out[start..].chunks_mut(stride).take(ROWS).map(<[u8]>::as_mut_ptr).collect();
            if rows.is_empty() {
                rows.push(spare.as_mut_ptr());
            }
            jpeg_read_scanlines(info, rows.as_mut_ptr(), rows.len() as c_uint);
        }
        finish(info)
    }
}

/// Finishes decoding and returns the components' quantization tables.
///
/// Only at this point are all of them known, and finishing frees them.
///
/// # Safety
/// Every row of the picture must have been read.
unsafe fn finish(info: &mut jpeg_decompress_struct) -> Vec<QuantTable> {
    // SAFETY: the component array exists once the header has been read, and a component's table,
    // which is null or its own copy, once its first scan has begun; both until
    // `jpeg_finish_decompress`, which may be called as the whole picture has been read.
    unsafe {
        let components = slice::from_raw_parts(info.comp_info, info.num_components as usize);
        let tables = components.iter().map(|component| component.quant_table.as_ref());
        let tables = tables.map(|table| table.map_or([1; 64], |table| table.quantval)).collect();
        jpeg_finish_decompress(info);
        tables
    }
}

/// A buffer for rows of one component between libjpeg and a plane.
struct Band {
    /// Samples in a row, padded to whole blocks as libjpeg requires.
    padded: usize,
    /// Rows per call.
    rows: usize,
    samples: Vec<u8>,
}

impl Band {
    fn new(component: &jpeg_component_info) -> Self {
        let padded = component.width_in_blocks as usize * BLOCK;
        let rows = component.v_samp_factor as usize * BLOCK;
        Self { padded, rows, samples: vec![0; padded * rows] }
    }

    fn row(&mut self, row: usize) -> &mut [u8] {
        &mut self.samples[row * self.padded..][..self.padded]
    }
}

impl Plane<&mut [u8]> {
    /// Returns pointers to the rows of the `index`th band.
    ///
    /// They point into the plane where its rows are whole blocks wide, otherwise into `band`.
    fn row_pointers(&mut self, band: &mut Band, index: usize) -> Vec<*mut u8> {
        let first = index * band.rows;
        (0..band.rows)
            .map(|row| {
                if self.width == band.padded && first + row < self.rows {
                    self.data[(first + row) * self.width..][..self.width].as_mut_ptr()
                } else {
                    band.row(row).as_mut_ptr()
                }
            })
            .collect()
    }

    /// Copies the rows of the `index`th band into the plane.
    ///
    /// Does nothing if libjpeg wrote to the plane directly.
    fn take(&mut self, band: &mut Band, index: usize) {
        if self.width == band.padded {
            return;
        }
        let first = index * band.rows;
        for row in 0..band.rows.min(self.rows.saturating_sub(first)) {
            self.data[(first + row) * self.width..][..self.width]
                .copy_from_slice(&band.row(row)[..self.width]);
        }
    }
}
