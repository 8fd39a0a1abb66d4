//! Encoding by libjpeg.

use std::ffi::{c_int, c_uint};
use std::{mem, ptr, slice};

use mozjpeg_sys::{
    JCP_FASTEST, JINT_COMPRESS_PROFILE, boolean, jpeg_alloc_quant_table, jpeg_c_set_int_param,
    jpeg_compress_struct, jpeg_create_compress, jpeg_destination_mgr, jpeg_destroy_compress, jpeg_error_mgr,
    jpeg_finish_compress, jpeg_scan_info, jpeg_set_colorspace, jpeg_set_defaults, jpeg_set_quality,
    jpeg_start_compress, jpeg_write_marker, jpeg_write_scanlines,
};

use super::super::markers::{Density, Factors, Segment};
use super::{Fault, QuantTable, ROWS, Space, catch, error_manager};

/// The least number of bytes that the output buffer grows by.
const ROOM: usize = 1 << 16;

/// The largest divisor that libjpeg's forward DCT handles.
///
/// The DCT multiplies it by 8 in 16 bits. Far smaller ones already quantize every coefficient to 0.
pub(in crate::formats::jpeg) const MAX_QUANT: u16 = 8191;

/// The scans of progressive RGB; our own coder writes other progressive pictures.
///
/// There is no successive approximation: its refinement scans would take longer than everything
/// else together.
const SCANS: [jpeg_scan_info; 5] =
    [scan(&[0, 1, 2], 0, 0), scan(&[0], 1, 5), scan(&[2], 1, 63), scan(&[1], 1, 63), scan(&[0], 6, 63)];

const fn scan(components: &[c_int], first: c_int, last: c_int) -> jpeg_scan_info {
    let mut component_index = [0; 4];
    let (used, _) = component_index.split_at_mut(components.len());
    used.copy_from_slice(components);
    jpeg_scan_info {
        comps_in_scan: components.len() as c_int,
        component_index,
        Ss: first,
        Se: last,
        Ah: 0,
        Al: 0,
    }
}

/// The settings and metadata of a picture to be written.
#[derive(Debug)]
pub(in crate::formats::jpeg) struct Frame<'a> {
    pub(in crate::formats::jpeg) width: u32,
    pub(in crate::formats::jpeg) height: u32,
    /// The colour space of the components.
    pub(in crate::formats::jpeg) space: Space,
    /// The sampling factors, one entry per component.
    pub(in crate::formats::jpeg) components: &'a [Factors],
    pub(in crate::formats::jpeg) tables: Tables<'a>,
    pub(in crate::formats::jpeg) progressive: bool,
    /// MCUs between restart markers; 0 for no markers.
    pub(in crate::formats::jpeg) restart_interval: u16,
    /// The density in the JFIF segment; `None` to write no such segment.
    pub(in crate::formats::jpeg) density: Option<Density>,
    /// Application data and comments.
    pub(in crate::formats::jpeg) segments: Vec<Segment<'a>>,
}

impl Frame<'_> {
    /// Returns the quantization table of every component.
    pub(in crate::formats::jpeg) fn quant_tables(&self) -> Result<Vec<QuantTable>, Fault> {
        self.tables.of(self.components.len())
    }
}

/// The quantization of coefficients.
#[derive(Clone, Copy, Debug)]
pub(in crate::formats::jpeg) enum Tables<'a> {
    /// The standard's example tables, scaled.
    Quality(u8),
    /// One table per component.
    Own(&'a [QuantTable]),
}

impl Tables<'_> {
    /// Returns the tables of this many components.
    pub(in crate::formats::jpeg) fn of(self, components: usize) -> Result<Vec<QuantTable>, Fault> {
        match self {
            Tables::Own(own) => Ok(own.iter().map(|table| table.map(|d| d.clamp(1, MAX_QUANT))).collect()),
            Tables::Quality(quality) => {
                let [luma, chroma] = quality_tables(quality)?;
                Ok([luma, chroma, chroma].into_iter().take(components).collect())
            }
        }
    }
}

/// Encodes packed pixels of a colour space.
///
/// `out` is cleared first.
pub(in crate::formats::jpeg) fn write(
    out: &mut Vec<u8>,
    frame: &Frame<'_>,
    space: Space,
    samples: &[u8],
) -> Result<(), Fault> {
    write_prepared(out, frame, space, samples, |_| ())
}

/// Encodes like [`write`], but in libjpeg's own progressive scans.
///
/// They refine coefficients bit by bit.
#[cfg(test)]
pub(in crate::formats::jpeg) fn write_refined(
    out: &mut Vec<u8>,
    frame: &Frame<'_>,
    space: Space,
    samples: &[u8],
) -> Result<(), Fault> {
    // SAFETY: `prepare` is called when everything that the scans depend on is set.
    write_prepared(out, frame, space, samples, |info| unsafe { mozjpeg_sys::jpeg_simple_progression(info) })
}

/// Encodes packed pixels.
///
/// `prepare` is called when everything is set up.
fn write_prepared(
    out: &mut Vec<u8>,
    frame: &Frame<'_>,
    space: Space,
    samples: &[u8],
    prepare: impl FnOnce(&mut jpeg_compress_struct),
) -> Result<(), Fault> {
    out.clear();
    let writer = Writer::new(out)?;
    // SAFETY: `state` is valid and not shared; `new` has created the object.
    catch(|| unsafe {
        let info = &mut (*writer.state).info;
        set_up(info, frame, space);
        prepare(info);
        jpeg_start_compress(info, 1);
        for segment in &frame.segments {
            jpeg_write_marker(
                info,
                c_int::from(segment.marker),
                segment.content.as_ptr(),
                segment.content.len() as c_uint,
            );
        }
        write_rows(info, space, samples);
        jpeg_finish_compress(info);
    })
}

/// Returns the standard's example tables, one for Y and one for Cb and Cr.
///
/// They are scaled for a quality as libjpeg does.
fn quality_tables(quality: u8) -> Result<[QuantTable; 2], Fault> {
    let mut out = Vec::new();
    let writer = Writer::new(&mut out)?;
    // SAFETY: `state` is valid and not shared; `new` has created the object; `jpeg_set_quality` has
    // set both tables.
    catch(|| unsafe {
        let info = &mut (*writer.state).info;
        jpeg_c_set_int_param(info, JINT_COMPRESS_PROFILE, JCP_FASTEST as c_int);
        info.in_color_space = Space::YCbCr.to_libjpeg();
        info.input_components = Space::YCbCr.components() as c_int;
        jpeg_set_defaults(info);
        jpeg_set_quality(info, c_int::from(quality), 1);
        [0, 1].map(|number| (*info.quant_tbl_ptrs[number]).quantval)
    })
}

/// Sets the compressor up for a frame, with pixels in the colour space `input`.
///
/// # Safety
/// `info` must have been created, and not started.
unsafe fn set_up(info: &mut jpeg_compress_struct, frame: &Frame<'_>, input: Space) {
    assert_eq!(frame.components.len(), frame.space.components());
    info.image_width = frame.width;
    info.image_height = frame.height;
    info.input_components = input.components() as c_int;
    info.in_color_space = input.to_libjpeg();
    // SAFETY: the fields that the defaults depend on are set above; the component array has the
    // entries of the colour space.
    unsafe {
        // mozjpeg's default profile, which searches for smaller files, takes ten times as long.
        jpeg_c_set_int_param(info, JINT_COMPRESS_PROFILE, JCP_FASTEST as c_int);
        jpeg_set_defaults(info);
        jpeg_set_colorspace(info, frame.space.to_libjpeg());
        let components = slice::from_raw_parts_mut(info.comp_info, frame.components.len());
        for (component, factors) in components.iter_mut().zip(frame.components) {
            component.h_samp_factor = c_int::from(factors.horizontal);
            component.v_samp_factor = c_int::from(factors.vertical);
        }
        match frame.tables {
            Tables::Quality(quality) => jpeg_set_quality(info, c_int::from(quality), 1),
            Tables::Own(tables) => set_tables(info, tables),
        }
    }
    if frame.progressive {
        assert_eq!(frame.components.len(), 3);
        (info.scan_info, info.num_scans) = (SCANS.as_ptr(), SCANS.len() as c_int);
    }
    info.restart_interval = c_uint::from(frame.restart_interval);
    // JFIF is YCbCr or gray: readers that find its header do not check whether the components are
    // RGB.
    info.write_JFIF_header = (frame.density.is_some() && frame.space != Space::Rgb).into();
    if let Some(Density { unit, x, y }) = frame.density {
        (info.density_unit, info.X_density, info.Y_density) = (unit, x, y);
    }
}

/// Gives every component its table.
///
/// Components with equal tables share one.
///
/// # Safety
/// The defaults must have been set.
unsafe fn set_tables(info: &mut jpeg_compress_struct, tables: &[QuantTable]) {
    for (component, table) in tables.iter().enumerate() {
        let number = tables.iter().position(|other| other == table).unwrap_or(component);
        // SAFETY: `comp_info` has an entry for every component; at most three of the four table
        // slots are used.
        unsafe {
            if info.quant_tbl_ptrs[number].is_null() {
                info.quant_tbl_ptrs[number] = jpeg_alloc_quant_table(&mut info.common);
            }
            (*info.quant_tbl_ptrs[number]).quantval = table.map(|divisor| divisor.clamp(1, MAX_QUANT));
            (*info.comp_info.add(component)).quant_tbl_no = number as c_int;
        }
    }
}

/// # Safety
/// Compression must have been started for pixels of this colour space.
unsafe fn write_rows(info: &mut jpeg_compress_struct, space: Space, samples: &[u8]) {
    let stride = info.image_width as usize * space.components();
    assert_eq!(samples.len(), stride * info.image_height as usize);
    while info.next_scanline < info.image_height {
        let start = info.next_scanline as usize * stride;
        let rows: Vec<*const u8> = samples[start..].chunks(stride).take(ROWS).map(<[u8]>::as_ptr).collect();
        // SAFETY: every row is as long as libjpeg reads, by the assertion above.
        unsafe { jpeg_write_scanlines(info, rows.as_ptr(), rows.len() as c_uint) };
    }
}

/// A compressor and the data it points to.
struct Writer {
    /// Pointer from `Box::into_raw`, as in [`Reader`](super::Reader).
    state: *mut State,
}

struct State {
    info: jpeg_compress_struct,
    errors: jpeg_error_mgr,
    destination: Destination,
}

impl Writer {
    /// Creates a compressor that appends to `out`, which must outlive it.
    ///
    /// (The compiler does not enforce that: callers keep `out` borrowed.)
    fn new(out: &mut Vec<u8>) -> Result<Self, Fault> {
        // SAFETY: this is plain C data, which `jpeg_create_compress` initializes.
        let info: jpeg_compress_struct = unsafe { mem::zeroed() };
        let manager = jpeg_destination_mgr {
            next_output_byte: ptr::null_mut(),
            free_in_buffer: 0,
            init_destination: Some(init_destination),
            empty_output_buffer: Some(empty_output_buffer),
            term_destination: Some(term_destination),
        };
        let destination = Destination { manager, out };
        let state = Box::into_raw(Box::new(State { info, errors: error_manager(), destination }));
        let writer = Self { state };
        // SAFETY: `state` is valid and at a fixed address. `writer` already owns it, and may
        // destroy an object that was not fully created.
        catch(|| unsafe {
            (*state).info.common.err = &raw mut (*state).errors;
            jpeg_create_compress(&raw mut (*state).info);
            (*state).info.dest = (&raw mut (*state).destination).cast();
        })?;
        Ok(writer)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // SAFETY: `state` came from `Box::into_raw` and is dropped once. Destroying the object
        // frees its pools and raises no errors.
        unsafe {
            let mut state = Box::from_raw(self.state);
            jpeg_destroy_compress(&mut state.info);
        }
    }
}

/// The output: a growing vector.
///
/// libjpeg only knows the first field.
#[repr(C)]
struct Destination {
    manager: jpeg_destination_mgr,
    out: *mut Vec<u8>,
}

impl Destination {
    /// Returns the destination of a compressor.
    ///
    /// # Safety
    /// `info` must be the compressor of a live [`Writer`].
    unsafe fn of(info: &mut jpeg_compress_struct) -> (&mut jpeg_destination_mgr, &mut Vec<u8>) {
        // SAFETY: `Writer::new` has set `dest` to the `Destination` in the same state, and the
        // vector outlives the writer.
        unsafe {
            let destination = info.dest.cast::<Self>();
            (&mut (*destination).manager, &mut *(*destination).out)
        }
    }
}

/// Gives libjpeg the vector's spare capacity to write to, after growing it.
fn lend_room(manager: &mut jpeg_destination_mgr, out: &mut Vec<u8>) {
    out.reserve(ROOM.max(out.len()));
    let room = out.spare_capacity_mut();
    manager.next_output_byte = room.as_mut_ptr().cast();
    manager.free_in_buffer = room.len();
}

unsafe extern "C-unwind" fn init_destination(info: &mut jpeg_compress_struct) {
    // SAFETY: libjpeg calls this with the writer's compressor.
    let (manager, out) = unsafe { Destination::of(info) };
    lend_room(manager, out);
}

/// Called when the buffer is full, regardless of `free_in_buffer`.
unsafe extern "C-unwind" fn empty_output_buffer(info: &mut jpeg_compress_struct) -> boolean {
    // SAFETY: as above; libjpeg has filled the spare capacity, so the vector is initialized up to
    // its capacity.
    unsafe {
        let (manager, out) = Destination::of(info);
        out.set_len(out.capacity());
        lend_room(manager, out);
    }
    1
}

unsafe extern "C-unwind" fn term_destination(info: &mut jpeg_compress_struct) {
    // SAFETY: as above; libjpeg has filled the spare capacity except for the last `free_in_buffer`
    // bytes.
    unsafe {
        let (manager, out) = Destination::of(info);
        out.set_len(out.capacity() - manager.free_in_buffer);
    }
}
