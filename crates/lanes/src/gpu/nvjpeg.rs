//! As much of nvJPEG as the worker needs. The library is loaded on first use and stays loaded; without it, histeqd builds, starts and
//! works.
//!
//! Work on the device is asynchronous, and starting it is therefore `unsafe`: whoever does must keep the memory it touches valid and
//! otherwise unused until the stream is through.
#![allow(unsafe_code)]

mod library;

use std::ffi::{c_int, c_uchar};
use std::ptr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::driver::{Address, Stream};
use super::library::{CallError, Handle, Owned, Status};
use codec::{JpegQuality, Sampling};
use library::{Functions, Image, MAX_COMPONENTS, load};

const BACKEND_DEFAULT: c_int = 0;
const BACKEND_HARDWARE: c_int = 3;
const OUTPUT_YUV: c_int = 1;

type Result<T> = std::result::Result<T, CallError>;

/// NVJPEG_STATUS_ALLOCATOR_FAILURE.
const OUT_OF_MEMORY: Status = 5;

const fn text(status: Status) -> &'static str {
    match status {
        1 => "not initialized",
        2 => "invalid parameter",
        3 => "bad JPEG",
        4 => "JPEG not supported",
        OUT_OF_MEMORY => "out of memory",
        6 => "execution failed",
        7 => "not for this GPU",
        8 => "internal error",
        9 => "not implemented",
        10 => "incomplete data",
        _ => "unknown",
    }
}

fn failed(action: &'static str, status: Status) -> CallError {
    let is_out_of_memory = status == OUT_OF_MEMORY;
    CallError { library: "nvJPEG", action, what: text(status), status, is_out_of_memory }
}

fn check(action: &'static str, status: Status) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(failed(action, status)) }
}

/// Returns nvJPEG's number for a chroma subsampling.
const fn number(sampling: Sampling) -> c_int {
    match sampling {
        Sampling::Full => 0,
        Sampling::HalfWidth => 1,
        Sampling::Quarter => 2,
        Sampling::HalfHeight => 3,
        Sampling::Gray => 6,
    }
}

/// Returns the version of nvJPEG, or why it cannot be used.
pub(super) fn version(driver_cuda: u32) -> std::result::Result<String, String> {
    load(driver_cuda).map(|(_, version)| version)
}

impl Functions {
    fn handle(&self, backend: c_int) -> Result<Handle> {
        let mut handle = ptr::null_mut();
        let (none, no_flags) = (ptr::null_mut(), 0);
        // SAFETY: writes a handle to the place given; without allocators, CUDA's are used.
        check("start", unsafe { (self.create)(backend, none, none, no_flags, &raw mut handle) })?;
        Ok(handle)
    }
}

/// nvJPEG, started for the current context's GPU. It is never shut down.
pub(super) struct NvJpeg {
    functions: &'static Functions,
    /// Uses the GPU's JPEG engines if it has any; otherwise the same backend as `general`.
    main: Handle,
    /// Decodes more kinds of pictures, one by one; started on first use.
    general: OnceLock<Result<Handle>>,
    decoder: Mutex<Option<Decoder>>,
    encoders: Mutex<Vec<Encoder>>,
}

// SAFETY: nvJPEG's handles may be used from several threads at once; only states may not, and those of the decoder and the encoders are behind locks.
unsafe impl Send for NvJpeg {}
// SAFETY: as above.
unsafe impl Sync for NvJpeg {}

impl NvJpeg {
    /// Starts nvJPEG in the current context.
    pub(super) fn open(driver_cuda: u32) -> std::result::Result<Self, String> {
        let (functions, _) = load(driver_cuda)?;
        // A GPU without JPEG engines refuses the hardware backend.
        let main = functions.handle(BACKEND_HARDWARE).or_else(|_| functions.handle(BACKEND_DEFAULT));
        let main = main.map_err(|error| error.to_string())?;
        Ok(Self {
            functions,
            main,
            general: OnceLock::new(),
            decoder: Mutex::default(),
            encoders: Mutex::default(),
        })
    }

    fn general(&self) -> Result<Handle> {
        *self.general.get_or_init(|| self.functions.handle(BACKEND_DEFAULT))
    }

    /// Waits for the decoder, which all lanes share: the driver takes 0.65 s to make one, for all processes one after the other, and one keeps a
    /// GPU's JPEG engines as busy as several of the same process do. Whoever has it keeps it until the stream is through.
    pub(super) fn decoder(&self) -> Result<SharedDecoder<'_>> {
        let mut decoder = self.decoder.lock().unwrap_or_else(PoisonError::into_inner);
        if decoder.is_none() {
            *decoder = Some(Decoder { batches: self.decoder_state(self.main)?, batch: 0, single: None });
        }
        Ok(SharedDecoder { jpeg: self, decoder })
    }

    /// Waits for so many encoders or more, which all lanes share: each takes the driver a tenth of a second when it gets its first picture.
    /// Whoever has them keeps them until what they made is on the host.
    pub(super) fn encoders(&self, number: usize, stream: &Stream) -> Result<MutexGuard<'_, Vec<Encoder>>> {
        let mut encoders = self.encoders.lock().unwrap_or_else(PoisonError::into_inner);
        while encoders.len() < number {
            encoders.push(Encoder::new(self, stream)?);
        }
        Ok(encoders)
    }

    /// Gives back the memory of the decoder and the encoders. The next to ask for them gets new ones.
    pub(super) fn shrink(&self) {
        *self.decoder.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.encoders.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn decoder_state(&self, handle: Handle) -> Result<Owned> {
        // SAFETY: writes a handle to the place given.
        let create = |to| unsafe { (self.functions.state_create)(handle, to) };
        self.make("create a decoder", create, self.functions.state_destroy)
    }

    fn make(
        &self,
        action: &'static str,
        create: impl FnOnce(*mut Handle) -> Status,
        destroy: unsafe extern "C" fn(Handle) -> Status,
    ) -> Result<Owned> {
        Owned::make(create, destroy).map_err(|status| failed(action, status))
    }
}

/// The header of a JPEG, as parsed by nvJPEG.
pub(super) struct Header {
    functions: &'static Functions,
    main: Handle,
    stream: Owned,
}

impl Header {
    pub(super) fn new(jpeg: &NvJpeg) -> Result<Self> {
        let &NvJpeg { functions, main, .. } = jpeg;
        // SAFETY: writes a handle to the place given.
        let create = |to| unsafe { (functions.stream_create)(main, to) };
        let stream = jpeg.make("create a parser", create, functions.stream_destroy)?;
        Ok(Self { functions, main, stream })
    }

    /// Parses the header of a file, in place of any parsed before.
    pub(super) fn parse(&mut self, bytes: &[u8]) -> Result<()> {
        let (metadata, stream) = (0, 0);
        // SAFETY: reads only the given bytes, and keeps nothing of them but the header.
        check("read the header", unsafe {
            (self.functions.stream_parse)(
                self.main,
                bytes.as_ptr(),
                bytes.len(),
                metadata,
                stream,
                self.stream.handle,
            )
        })
    }

    /// Returns whether the JPEG has this chroma subsampling.
    pub(super) fn is_sampled(&self, sampling: Sampling) -> Result<bool> {
        let mut found = -1;
        // SAFETY: writes one integer to the place given.
        let status = unsafe { (self.functions.stream_sampling)(self.stream.handle, &raw mut found) };
        check("read the chroma subsampling", status)?;
        Ok(found == number(sampling))
    }

    /// Returns the width and height of each plane.
    pub(super) fn planes(&self) -> Result<Vec<(u32, u32)>> {
        let functions = self.functions;
        let mut count = 0;
        // SAFETY: writes one integer to the place given.
        check("count planes", unsafe { (functions.stream_components)(self.stream.handle, &raw mut count) })?;
        let plane = |number| {
            let (mut width, mut height) = (0, 0);
            // SAFETY: writes one integer to each place given.
            let status = unsafe {
                (functions.stream_dimensions)(self.stream.handle, number, &raw mut width, &raw mut height)
            };
            check("read a plane's dimensions", status).map(|()| (width, height))
        };
        (0..count).map(plane).collect()
    }

    /// Returns whether the JPEG can be decoded in a batch.
    pub(super) fn is_batchable(&self) -> bool {
        let mut refused = -1;
        // SAFETY: writes one integer to the place given.
        let status = unsafe { (self.functions.supported)(self.main, self.stream.handle, &raw mut refused) };
        status == 0 && refused == 0
    }
}

/// A plane in device memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plane {
    pub(super) at: Address,
    pub(super) width: u32,
    pub(super) height: u32,
    /// The stride in samples.
    pub(super) pitch: u32,
    /// The number of rows that there is memory for.
    pub(super) rows: u32,
}

impl Plane {
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.pitch) * u64::from(self.rows)
    }
}

fn image(planes: &[Plane]) -> Image {
    let mut image = Image { channel: [ptr::null_mut(); MAX_COMPONENTS], pitch: [0; MAX_COMPONENTS] };
    for (place, plane) in planes.iter().enumerate() {
        image.channel[place] = plane.at as *mut c_uchar;
        image.pitch[place] = plane.pitch as usize;
    }
    image
}

struct Decoder {
    batches: Owned,
    /// The batch size that `batches` is set up for; 0 if it has to be set up.
    batch: usize,
    /// For pictures one by one; created on first use.
    single: Option<Owned>,
}

/// The decoder, while nobody else uses it.
pub(super) struct SharedDecoder<'j> {
    jpeg: &'j NvJpeg,
    decoder: MutexGuard<'j, Option<Decoder>>,
}

impl SharedDecoder<'_> {
    fn states(&mut self) -> (&NvJpeg, &mut Decoder) {
        (self.jpeg, self.decoder.as_mut().expect("it was made before it was lent"))
    }

    /// Decodes pictures in one batch; all of them must [go in batches](Header::is_batchable).
    ///
    /// # Safety
    /// The planes must be as many and as large as each header says, and not used by anything else; they and the files must stay valid until
    /// the stream is through.
    pub(super) unsafe fn decode_all(
        &mut self,
        files: &[&[u8]],
        planes: &[&[Plane]],
        stream: &Stream,
    ) -> Result<()> {
        let (jpeg, decoder) = self.states();
        let (functions, handle) = (jpeg.functions, jpeg.main);
        let data: Vec<*const c_uchar> = files.iter().map(|file| file.as_ptr()).collect();
        let lengths: Vec<usize> = files.iter().map(|file| file.len()).collect();
        let mut images: Vec<Image> = planes.iter().map(|planes| image(planes)).collect();
        assert_eq!(data.len(), images.len(), "a picture has planes");
        let state = decoder.batches.handle;
        if decoder.batch != data.len() {
            let threads = 1;
            // SAFETY: handle and state belong together.
            let status = unsafe {
                (functions.batch_initialize)(handle, state, data.len() as c_int, threads, OUTPUT_YUV)
            };
            check("set up a batch", status)?;
            decoder.batch = data.len();
        }
        // SAFETY: the arrays are as long as the batch that was set up; the rest is guaranteed by the caller.
        let status = unsafe {
            (functions.batch_decode)(
                handle,
                state,
                data.as_ptr(),
                lengths.as_ptr(),
                images.as_mut_ptr(),
                stream.0.cast(),
            )
        };
        if status != 0 {
            // After a failure, the batch has to be set up again.
            decoder.batch = 0;
        }
        check("decode a batch", status)
    }

    /// Decodes a picture by itself, which works for more kinds of pictures.
    ///
    /// # Safety
    /// As [`SharedDecoder::decode_all`].
    pub(super) unsafe fn decode(&mut self, file: &[u8], planes: &[Plane], stream: &Stream) -> Result<()> {
        let (jpeg, decoder) = self.states();
        let handle = jpeg.general()?;
        let state = match &mut decoder.single {
            Some(state) => state,
            none => none.insert(jpeg.decoder_state(handle)?),
        };
        let mut image = image(planes);
        // SAFETY: handle and state belong together; the rest is guaranteed by the caller.
        check("decode", unsafe {
            (jpeg.functions.decode)(
                handle,
                state.handle,
                file.as_ptr(),
                file.len(),
                OUTPUT_YUV,
                &raw mut image,
                stream.0.cast(),
            )
        })
    }
}

/// An encoder for one picture at a time.
pub(super) struct Encoder {
    functions: &'static Functions,
    main: Handle,
    state: Owned,
    params: Owned,
}

impl Encoder {
    pub(super) fn new(jpeg: &NvJpeg, stream: &Stream) -> Result<Self> {
        let &NvJpeg { functions, main, .. } = jpeg;
        // SAFETY: writes a handle to the place given.
        let create = |to| unsafe { (functions.encoder_create)(main, to, stream.0.cast()) };
        let state = jpeg.make("create an encoder", create, functions.encoder_destroy)?;
        // SAFETY: as above.
        let create = |to| unsafe { (functions.params_create)(main, to, stream.0.cast()) };
        let params = jpeg.make("create an encoder", create, functions.params_destroy)?;
        // Optimized Huffman tables: on an H100 they take no longer, and files are a tenth smaller.
        // SAFETY: the parameters are those just made.
        let status = unsafe { (functions.params_optimized)(params.handle, 1, stream.0.cast()) };
        check("optimize Huffman codes", status)?;
        Ok(Self { functions, main, state, params })
    }

    /// Encodes planes of this chroma subsampling; `source` has the quantization tables to use for [`JpegQuality::Keep`].
    ///
    /// # Safety
    /// The planes must stay valid and unwritten until the stream is through.
    pub(super) unsafe fn encode(
        &mut self,
        planes: &[Plane],
        sampling: Sampling,
        quality: JpegQuality,
        source: &Header,
        stream: &Stream,
    ) -> Result<()> {
        let (functions, params, on) = (self.functions, self.params.handle, stream.0.cast());
        let luma = planes.first().expect("a picture has luma");
        let (image, sampling) = (image(planes), number(sampling));
        // SAFETY: parameters, state and header are of the same library; the rest is guaranteed by the caller.
        unsafe {
            check(
                "set these quantization tables",
                match quality {
                    JpegQuality::Keep => (functions.params_tables)(params, source.stream.handle, on),
                    JpegQuality::Value(quality) => (functions.params_quality)(params, quality.into(), on),
                },
            )?;
            check("set this chroma subsampling", (functions.params_sampling)(params, sampling, on))?;
            check(
                "encode",
                (functions.encode)(
                    self.main,
                    self.state.handle,
                    params,
                    &raw const image,
                    sampling,
                    luma.width as c_int,
                    luma.height as c_int,
                    on,
                ),
            )
        }
    }

    /// Returns the size of the encoded picture in bytes, once the stream is through.
    pub(super) fn length(&mut self, stream: &Stream) -> Result<usize> {
        let mut length = 0;
        // SAFETY: without a buffer, it writes only the number of bytes.
        let status = unsafe {
            (self.functions.retrieve)(
                self.main,
                self.state.handle,
                ptr::null_mut(),
                &raw mut length,
                stream.0.cast(),
            )
        };
        check("get the encoded size", status).map(|()| length)
    }

    /// Copies the encoded bytes to the host; `to` has exactly their length.
    ///
    /// # Safety
    /// `to` must stay valid and untouched until the stream is through.
    pub(super) unsafe fn retrieve(&mut self, to: &mut [u8], stream: &Stream) -> Result<()> {
        let mut length = to.len();
        // SAFETY: it writes no more than the given length; the rest is guaranteed by the caller.
        check("copy the encoded bytes", unsafe {
            (self.functions.retrieve)(
                self.main,
                self.state.handle,
                to.as_mut_ptr(),
                &raw mut length,
                stream.0.cast(),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_for_a_newer_cuda_than_the_driver_is_refused() {
        // No library is as old as CUDA 1. Without any library, the reason says so.
        let reason = version(1000).unwrap_err();
        assert!(reason.contains("was not found") || reason.contains("the driver is older"), "{reason}");
    }
}
