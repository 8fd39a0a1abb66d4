//! Files to pixels and back: the only place that knows picture formats.
//!
//! [`open`] reads a file's header and checks it against the limits and the output format; [`Opened::decode`] puts the pixels at the
//! front of a slot; [`encode`] writes what then stands in the slot. What a format has to carry besides (a JPEG's chroma) is in
//! [`Decoded`], and nobody else's business; for a device that encodes, [`Opened::decode_planes`] puts it behind the pixels.
//!
//! What could not be written back whole is refused here, by name: several pages, animations, float or signed samples, CMYK.

use std::any::Any;
use std::cell::Cell;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::{Deserialize, Serialize};

use crate::cores::Cores;
use crate::equalize::colour::to_gray;
use crate::picture::{Depth, Layout, Pixel};

mod bmp;
mod deflate;
mod error;
mod format;
mod ifd;
mod input;
mod jpeg;
mod metadata;
mod output;
mod png;
mod pnm;
mod remark;
mod samples;
mod tiff;
mod webp;

pub use error::CodecError;
pub use format::Format;
pub(crate) use jpeg::CanonicalCode;
pub use jpeg::{BaselineScan, CHROMA_PADDING, CompressedJpeg, Sampling};
pub use metadata::{Metadata, Resolution};
pub use remark::Remark;

/// Bytes of a line of the cache.
const LINE: usize = 64;

/// What a picture may cost. Checked from its header, before any memory is taken for its pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Width times height (`--max-pixels`).
    pub max_pixels: u64,
    /// Bytes of the file, and bytes of its decoded pixels (`--max-bytes`).
    pub max_bytes: u64,
}

/// How a JPEG is quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JpegQuality {
    /// By the source's own tables. For a source that is no JPEG, [`JpegQuality::DEFAULT`].
    Keep,
    /// By the standard's example tables, scaled as libjpeg does: 1 to 100.
    Value(u8),
}

impl JpegQuality {
    /// The quality of a JPEG whose source is none.
    pub const DEFAULT: u8 = 90;
}

/// How hard a PNG is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PngLevel {
    /// Paeth's filter, Huffman codes made for every strip, and matches where nearly nothing happens.
    Fast,
    /// Filters chosen row by row, and matches where they pay.
    Balanced,
    /// As small as zlib's kind of compression gets.
    Small,
}

/// What is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The output format; `None` is the source's.
    pub format: Option<Format>,
    /// Quality of JPEG output.
    pub jpeg_quality: JpegQuality,
    /// Effort of PNG output.
    pub png_level: PngLevel,
    /// Whether the picture becomes gray: its luma.
    pub gray: bool,
    /// Whether every channel is equalized by itself, so that a JPEG is needed as RGB.
    pub per_channel: bool,
}

impl Target {
    fn format_for(&self, source: Format) -> Format {
        self.format.unwrap_or(source)
    }
}

/// Memory to decode in, which is quicker to get when another picture has used it before.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkspaceNeeds {
    /// Bytes, a part of [`Opened::heap_bytes`].
    pub bytes: u64,
    /// Bytes at most that a decoder who has it needs beyond those.
    pub beside: u64,
}

/// A picture whose header has been read and found acceptable.
#[derive(Debug)]
pub struct Opened<'a> {
    format: Format,
    gray: bool,
    source: Source<'a>,
    /// How much of the file is in memory.
    file_bytes: u64,
}

#[derive(Debug)]
enum Source<'a> {
    Png(png::Source<'a>),
    Jpeg(Box<jpeg::Source<'a>>),
    Pnm(pnm::Source<'a>),
    Tiff(tiff::Source<'a>),
    Bmp(bmp::Source<'a>),
    WebP(webp::Source<'a>),
}

/// What stays with a picture outside its slot: how its pixels lie there, and what its encoder needs besides them.
#[derive(Debug)]
pub struct Decoded {
    /// The pixels at the front of the slot.
    pub layout: Layout,
    /// What the source is.
    pub format: Format,
    /// What travels with the pixels.
    pub metadata: Metadata,
    native: Native,
    /// How much of its file was in memory.
    file_bytes: u64,
}

impl Decoded {
    /// Bytes of heap until it is encoded, and by the encoder, beyond small change: a JPEG's coefficients, and an output about as long
    /// as the input; some rows of a PNG or TIFF, which can be as long as the picture.
    pub fn heap_bytes(&self, target: &Target) -> u64 {
        match (&self.native, target.format_for(self.format)) {
            (Native::Jpeg(native), Format::Jpeg) => native.heap_bytes() + self.file_bytes,
            (_, Format::Png) => png::heap_bytes(&self.layout),
            (_, Format::Tiff) => tiff::heap_bytes(&self.layout),
            _ => 0,
        }
    }
}

/// What only the source's own format can say about a picture.
#[derive(Debug)]
enum Native {
    Png(png::Native),
    Jpeg(Box<jpeg::Native>),
    Pnm(pnm::Native),
    Tiff(Box<tiff::Native>),
    Bmp(bmp::Native),
    WebP(webp::Native),
}

/// What a format's decoder hands over beside the pixels.
#[derive(Debug)]
struct Payload {
    layout: Layout,
    metadata: Metadata,
    native: Native,
}

/// Opens a picture: tells what it is by its content, reads its header, and checks that it is within the limits and that the target
/// can represent it. No memory is taken for pixels. `file` stands at its start; `buffer` is scratch that is worth reusing.
///
/// # Errors
/// Every [`CodecError`] but [`CodecError::Encoder`].
pub fn open<'a>(
    file: &'a mut File,
    buffer: &'a mut Vec<u8>,
    limits: &Limits,
    target: &Target,
) -> Result<Opened<'a>, CodecError> {
    input::read_head(file, buffer, limits)?;
    let format = Format::sniff(buffer).ok_or_else(|| no_format(buffer))?;
    let (source, file_bytes) = guard(
        format,
        |reason| CodecError::malformed(format, reason),
        move || match format {
            Format::Pnm => Ok((Source::Pnm(pnm::Source::open(file, buffer, limits)?), 0)),
            Format::Tiff => Ok((Source::Tiff(tiff::Source::open(file, buffer, limits)?), 0)),
            Format::Png => whole(file, buffer, limits, |bytes| png::Source::open(bytes).map(Source::Png)),
            Format::Jpeg => whole(file, buffer, limits, |bytes| {
                jpeg::Source::open(bytes, target).map(|jpeg| Source::Jpeg(Box::new(jpeg)))
            }),
            Format::Bmp => whole(file, buffer, limits, |bytes| bmp::Source::open(bytes).map(Source::Bmp)),
            Format::WebP => whole(file, buffer, limits, |bytes| webp::Source::open(bytes).map(Source::WebP)),
        },
    )?;
    let gray = target.gray || matches!(&source, Source::Bmp(bmp) if bmp.is_gray());
    let opened = Opened { format, gray, source, file_bytes };
    opened.check_limits(limits)?;
    target.format_for(format).check(&opened.layout())?;
    Ok(opened)
}

/// Opens a picture whose decoder wants the whole file in memory; returns its length too.
fn whole<'a>(
    file: &mut File,
    buffer: &'a mut Vec<u8>,
    limits: &Limits,
    open: impl FnOnce(&'a [u8]) -> Result<Source<'a>, CodecError>,
) -> Result<(Source<'a>, u64), CodecError> {
    let bytes = input::read_rest(file, buffer, limits)?;
    Ok((open(bytes)?, bytes.len() as u64))
}

/// Why a file that begins so is of none of the formats.
fn no_format(head: &[u8]) -> CodecError {
    match format::foreign(head) {
        Some(name) => CodecError::unsupported(name, "convert it to PNG or TIFF first"),
        None if head.is_empty() => CodecError::Empty,
        None => CodecError::NotAPicture,
    }
}

impl Opened<'_> {
    /// What the file is.
    pub fn format(&self) -> Format {
        self.format
    }

    /// How the pixels will lie in the slot.
    pub fn layout(&self) -> Layout {
        let layout = self.source_layout();
        match (self.gray, layout.pixel) {
            (true, Pixel::Rgb) => Layout { pixel: Pixel::Gray, ..layout },
            (true, Pixel::Rgba) => Layout { pixel: Pixel::GrayAlpha, ..layout },
            _ => layout,
        }
    }

    /// Bytes of slot that [`Opened::decode`] needs: the pixels as the file has them.
    pub fn slot_bytes(&self) -> usize {
        usize::try_from(self.source_layout().bytes()).expect("within the limits, so it has an address")
    }

    /// Bytes of slot that pixels and chroma take.
    pub fn planes_bytes(&self) -> usize {
        self.slot_bytes() + self.chroma_bytes() as usize
    }

    /// Where the pixels' address should stand beyond a multiple of a cache line's 64 bytes: as far as in the file, so that whole
    /// lines can be copied between the two.
    pub fn lead(&self) -> usize {
        match &self.source {
            Source::Pnm(pnm) => pnm.lead() % LINE,
            Source::Tiff(tiff) => tiff.lead(),
            _ => 0,
        }
    }

    /// Bytes of heap that decoding takes beyond small change: the file's, and a JPEG's coefficients and the like.
    pub fn heap_bytes(&self) -> u64 {
        let decoder = match &self.source {
            Source::Jpeg(jpeg) => jpeg.heap_bytes(),
            Source::Tiff(tiff) => tiff.heap_bytes(),
            Source::WebP(webp) => webp.heap_bytes(),
            Source::Png(png) => png::heap_bytes(&png.layout()),
            Source::Pnm(_) | Source::Bmp(_) => 0,
        };
        decoder + self.file_bytes
    }

    /// The workspace that makes decoding quicker.
    pub fn workspace(&self) -> WorkspaceNeeds {
        if let Source::Jpeg(jpeg) = &self.source { jpeg.workspace() } else { WorkspaceNeeds::default() }
    }

    /// Decodes into the front of `slot`, of which at least [`Opened::slot_bytes`] must be there. What it holds after an error is
    /// anything. `workspace` is [`Opened::workspace`]'s, all zero; where it is shorter, the decoder takes memory of its own. It is
    /// dropped as soon as it is no longer needed. Idle `cores` may help.
    ///
    /// # Errors
    /// [`CodecError::Malformed`] above all: also a file that ends too early is one, never half a picture.
    pub fn decode(
        self,
        slot: &mut [u8],
        workspace: impl AsMut<[u8]>,
        cores: &Cores,
    ) -> Result<Decoded, CodecError> {
        let needed = self.slot_bytes();
        self.decode_as(false, &mut slot[..needed], workspace, cores)
    }

    /// As [`Opened::decode`], for a device that encodes the picture, an [`Opened::compressed`] one: behind its pixels lie those of its
    /// chroma, [`Opened::planes_bytes`] together, and behind them its file, all of which must fit into `slot`.
    ///
    /// # Errors
    /// As [`Opened::decode`].
    pub fn decode_planes(self, slot: &mut [u8], workspace: impl AsMut<[u8]>) -> Result<Decoded, CodecError> {
        let needed = self.planes_bytes() + self.file_bytes as usize;
        self.decode_as(true, &mut slot[..needed], workspace, &Cores::none())
    }

    fn decode_as(
        self,
        planes: bool,
        slot: &mut [u8],
        workspace: impl AsMut<[u8]>,
        cores: &Cores,
    ) -> Result<Decoded, CodecError> {
        let (format, gray) = (self.format, self.gray);
        let payload = guard(
            format,
            |reason| CodecError::malformed(format, reason),
            || match self.source {
                Source::Png(png) => png.decode(slot),
                Source::Jpeg(jpeg) if planes => jpeg.decode_planes(slot, workspace),
                Source::Jpeg(jpeg) => jpeg.decode(slot, workspace),
                Source::Pnm(pnm) => pnm.decode(slot),
                Source::Tiff(tiff) => tiff.decode(slot, cores),
                Source::Bmp(bmp) => bmp.decode(slot),
                Source::WebP(webp) => webp.decode(slot),
            },
        )?;
        let layout = if gray { to_gray(slot, &payload.layout) } else { payload.layout };
        Ok(Decoded {
            layout,
            format,
            metadata: payload.metadata,
            native: payload.native,
            file_bytes: self.file_bytes,
        })
    }

    /// What a GPU has to know to decode, equalize and encode it alone, if one can and the target lets it.
    pub fn compressed(&self, target: &Target) -> Option<CompressedJpeg> {
        if let Source::Jpeg(jpeg) = &self.source { jpeg.compressed(target) } else { None }
    }

    /// Copies the file as it is into the front of `slot`, which has room for it, for a GPU that decodes it. Gives itself back if
    /// it is no [`Opened::compressed`] picture, or a GPU need not see it: codes that are none, data that do not end.
    ///
    /// # Errors
    /// Itself.
    pub fn pass_on(self, slot: &mut [u8]) -> Result<Decoded, Box<Self>> {
        let Self { format, gray, source, file_bytes } = self;
        match source {
            Source::Jpeg(jpeg) if jpeg.has_scan() => {
                let Payload { layout, metadata, native } = jpeg.pass_on(slot);
                Ok(Decoded { layout, format, metadata, native, file_bytes })
            }
            source => Err(Box::new(Self { format, gray, source, file_bytes })),
        }
    }

    /// The layout as the format's decoder delivers it.
    fn source_layout(&self) -> Layout {
        match &self.source {
            Source::Png(png) => png.layout(),
            Source::Jpeg(jpeg) => jpeg.layout(),
            Source::Pnm(pnm) => pnm.layout(),
            Source::Tiff(tiff) => tiff.layout(),
            Source::Bmp(bmp) => bmp.layout(),
            Source::WebP(webp) => webp.layout(),
        }
    }

    fn chroma_bytes(&self) -> u64 {
        if let Source::Jpeg(jpeg) = &self.source { jpeg.chroma_bytes() } else { 0 }
    }

    fn check_limits(&self, limits: &Limits) -> Result<(), CodecError> {
        let layout = self.source_layout();
        if layout.pixels() > limits.max_pixels {
            return Err(CodecError::TooLarge {
                what: format!("{}x{} pixels", layout.width, layout.height),
                limit: format!("{} pixels", limits.max_pixels),
                flag: "--max-pixels",
            });
        }
        let bytes = layout.bytes().saturating_add(self.chroma_bytes());
        if bytes > limits.max_bytes || usize::try_from(bytes).is_err() {
            return Err(CodecError::TooLarge {
                what: format!("{}x{} pixels in {bytes} bytes", layout.width, layout.height),
                limit: format!("{} bytes", limits.max_bytes),
                flag: "--max-bytes",
            });
        }
        Ok(())
    }
}

/// Encodes what stands in the slot, and writes it to `out` from its current position on. Returns how many bytes that is. The slot is
/// working space of the encoder: its content is lost. `scratch` is worth reusing. Idle `cores` may help.
///
/// # Errors
/// [`CodecError::Io`], [`CodecError::CannotRepresent`] if the metadata has no room in the format, or [`CodecError::Encoder`].
pub fn encode(
    decoded: &Decoded,
    slot: &mut [u8],
    target: &Target,
    scratch: &mut Vec<u8>,
    cores: &Cores,
    out: &mut File,
) -> Result<u64, CodecError> {
    let format = target.format_for(decoded.format);
    format.check(&decoded.layout)?;
    guard(
        format,
        |reason| CodecError::encoder(format, reason),
        || match format {
            Format::Png => png::encode(decoded, slot, target.png_level, cores, out),
            Format::Jpeg => jpeg::encode(decoded, slot, target.jpeg_quality, scratch, cores, out),
            Format::Pnm => pnm::encode(decoded, slot, out),
            Format::Tiff => tiff::encode(decoded, slot, cores, out),
            Format::Bmp => bmp::encode(decoded, slot, scratch, out),
            Format::WebP => webp::encode(decoded, slot, scratch, out),
        },
    )
}

/// Writes a JPEG that a GPU encoded, with what travels with the picture, to `out` from its current position on. Returns how many
/// bytes that is.
///
/// # Errors
/// [`CodecError::Io`], or [`CodecError::Encoder`] if the stream makes no sense.
pub fn write_encoded(decoded: &Decoded, stream: &[u8], out: &mut File) -> Result<u64, CodecError> {
    jpeg::write_encoded(decoded, stream, out)
}

/// The bytes of the pixels at the front of a slot.
fn pixels_of<'s>(layout: &Layout, slot: &'s mut [u8]) -> &'s mut [u8] {
    let bytes = usize::try_from(layout.bytes()).expect("pixels in memory have an address");
    &mut slot[..bytes]
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Lets panics that become an error of a codec, whose text tells of them, pass without the usual report on standard error.
pub fn keep_quiet_about_contained_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !GUARDED.get() {
            usual(panic);
        }
    }));
}

/// Runs a codec, and turns a panic in it (other people's decoders have them, on files made to find them) into an error.
fn guard<T>(
    format: Format,
    error: impl FnOnce(String) -> CodecError,
    codec: impl FnOnce() -> Result<T, CodecError>,
) -> Result<T, CodecError> {
    let before = GUARDED.replace(true);
    // Nothing outlives a panic half changed: the slot's content is void after an error, and the buffers are cleared before use.
    let result = catch_unwind(AssertUnwindSafe(codec));
    GUARDED.set(before);
    result
        .unwrap_or_else(|panic| Err(error(format!("the {format} codec gave up: {}", panic_message(&*panic)))))
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_a_codec_is_an_error_with_its_text() {
        let error = |text| CodecError::malformed(Format::Png, text);
        let outcome = guard::<()>(Format::Png, error, || {
            assert!(GUARDED.get(), "its report would be written");
            panic!("index {}", 7)
        });
        let text = outcome.expect_err("a panic is no success").to_string();
        assert!(text.ends_with("the PNG codec gave up: index 7"), "{text}");
        assert!(!GUARDED.get(), "other panics are to be reported");
    }
}
