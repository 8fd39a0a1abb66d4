//! Small versions of the latest pictures and their histograms, before and after, made when somebody looks.
//!
//! One thread of the lowest priority makes them, with memory that pictures in progress do not need at the moment, so that they slow nothing down.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use codec::{Budget, CodecError, Cores, Format, Limits, PngLevel, Target};
use crossbeam_channel::{Receiver, Sender, bounded};
use equalize::{Depth, Layout, Pixel, Scratch, count};
use serde::Serialize;
use tokio::sync::oneshot;

use crate::config::Settings;
use crate::device::machine::Machine;
use crate::fs::beneath::Folder;
use crate::fs::input::InputRoots;
use crate::service::told::account::Account;
use crate::service::told::activity::DonePicture;
use crate::slot::{Held, SlotPool};

/// The longest side of a preview, in pixels.
const SIDE: u32 = 480;
/// The bins of its histogram.
const BINS: usize = 64;
/// Requests that may wait.
const WAITING: usize = 64;
/// Bytes of previews that are kept.
const KEPT: usize = 8 << 20;
/// Added to the niceness of the thread: the least priority there is.
const NICENESS: i32 = 19;

/// Which version of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The input.
    Before,
    /// The output.
    After,
}

/// A small version of a picture.
#[derive(Debug)]
pub(crate) struct Preview {
    /// As a PNG of 8 bits.
    pub(crate) png: Vec<u8>,
    pub(crate) facts: Facts,
}

/// What is told of a preview.
#[derive(Debug, Serialize)]
pub(crate) struct Facts {
    /// How many pixels have a brightness in each bin, from dark to light.
    histogram: Vec<u64>,
    /// The pages of the file, of which the first is shown.
    pages: usize,
    /// The frames of the animation, of which the first is shown.
    frames: usize,
}

/// Why there is no preview, as a sentence.
type Answer = Result<Arc<Preview>, String>;

struct Request {
    number: u64,
    side: Side,
    answer: oneshot::Sender<Answer>,
}

/// Those who ask for previews.
#[derive(Clone)]
pub(crate) struct Previews(Sender<Request>);

impl Previews {
    /// Starts the thread that makes them, of pictures within the limits of these settings, read from where they allow.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(crate) fn start(
        machine: Arc<Machine>,
        account: Arc<Account>,
        settings: &Settings,
    ) -> io::Result<Self> {
        let (requests, to_do) = bounded(WAITING);
        let (max_pixels, roots) = (settings.limits.max_pixels, settings.roots.clone());
        let maker = Maker { machine, account, max_pixels, roots, kept: Kept::default() };
        thread::Builder::new().name("preview".into()).spawn(move || maker.run(&to_do))?;
        Ok(Self(requests))
    }

    /// Makes the preview of one of the latest pictures, or returns that which was made before. The error is a sentence for the one who asked.
    pub(crate) async fn get(&self, number: u64, side: Side) -> Answer {
        let (answer, answered) = oneshot::channel();
        let busy = || "too many previews are asked for; try again".to_owned();
        self.0.try_send(Request { number, side, answer }).map_err(|_| busy())?;
        answered.await.unwrap_or_else(|_| Err(busy()))
    }
}

struct Maker {
    machine: Arc<Machine>,
    account: Arc<Account>,
    max_pixels: u64,
    roots: InputRoots,
    kept: Kept,
}

impl Maker {
    /// Makes previews until nobody can ask for any.
    fn run(mut self, requests: &Receiver<Request>) {
        // On Linux every thread has a niceness of its own. If the call is refused, only the courtesy is lost.
        let _ = rustix::process::nice(NICENESS);
        for Request { number, side, answer } in requests {
            // Nobody may be waiting any more.
            if !answer.is_closed() {
                let _ = answer.send(self.get(number, side));
            }
        }
    }

    fn get(&mut self, number: u64, side: Side) -> Answer {
        if let Some(preview) = self.kept.get(number, side) {
            return Ok(preview);
        }
        let picture = self.account.picture(number).ok_or("it is not among the latest pictures any more")?;
        let bytes = match side {
            Side::Before => picture.bytes_in,
            Side::After => picture.bytes_out,
        };
        let file = open(&picture, side, self.account.out(), &self.roots);
        let file = file.map_err(|error| format!("it cannot be read any more: {error}"))?;
        let limits = Limits { max_pixels: self.max_pixels, max_bytes: u64::MAX };
        let preview = Arc::new(make(file, bytes, &limits, &self.machine.pool)?);
        self.kept.add(number, side, Arc::clone(&preview));
        Ok(preview)
    }
}

/// The previews that were made last.
#[derive(Default)]
struct Kept(VecDeque<(u64, Side, Arc<Preview>)>);

impl Kept {
    fn get(&self, number: u64, side: Side) -> Option<Arc<Preview>> {
        let kept = self.0.iter().find(|(own, of, _)| (*own, *of) == (number, side));
        kept.map(|(_, _, preview)| Arc::clone(preview))
    }

    fn add(&mut self, number: u64, side: Side, preview: Arc<Preview>) {
        self.0.push_back((number, side, preview));
        let mut bytes: usize = self.0.iter().map(|(_, _, preview)| preview.png.len()).sum();
        while bytes > KEPT
            && let Some((_, _, oldest)) = self.0.pop_front()
        {
            bytes -= oldest.png.len();
        }
    }
}

/// Memory that no picture in progress needs now.
struct Spare(Held);

impl Budget for Spare {
    fn hold(&mut self, bytes: u64) -> Result<(), u64> {
        if self.0.try_hold(bytes) { Ok(()) } else { Err(0) }
    }
}

/// Opens a version of a picture. Below the output folder, `out`, and the folder that inputs are moved to, no link is followed, and from an
/// inbox none out of the `roots`.
fn open(picture: &DonePicture, side: Side, out: &Path, roots: &InputRoots) -> io::Result<File> {
    let beneath =
        |root: &Path, path: &Path| Folder::of(root, path).and_then(|(folder, name)| folder.read(name));
    match (side, &picture.moved_below) {
        (Side::After, _) => beneath(out, &picture.output),
        (Side::Before, Some(root)) => beneath(root, &picture.input),
        (Side::Before, None) => roots.open(&picture.input),
    }
}

/// Makes the preview of a file that has so many bytes, unless it is another by now.
fn make(mut file: File, bytes: u64, limits: &Limits, pool: &Arc<SlotPool>) -> Result<Preview, String> {
    if !file.metadata().is_ok_and(|now| now.is_file() && now.len() == bytes) {
        return Err("it has changed since".into());
    }
    let cannot = |error: CodecError| match error {
        CodecError::LargerThanMemory { .. } => no_memory(),
        error => error.to_string(),
    };
    let mut spare = Spare(Held::nothing(pool));
    let mut buffer = Vec::new();
    let target = Target { format: Some(Format::Tiff), png_level: PngLevel::Fast, ..Target::AS_STORED };
    let mut opened =
        codec::open_within(&mut spare, &mut file, &mut buffer, limits, &target).map_err(cannot)?;
    let pages = opened.take_pages().map_or(1, |pages| pages.len());
    let (layout, slot_bytes) = (opened.layout(), opened.slot_bytes());
    let counts_bytes = count::length(&layout) * size_of::<u64>();
    let needed = slot_bytes as u64 + opened.heap_bytes() + opened.workspace().beside + counts_bytes as u64;
    if !spare.0.try_hold(needed) {
        return Err(no_memory());
    }
    // Words, so that samples of 16 bits lie where they may.
    let mut words = vec![0_u64; slot_bytes.div_ceil(size_of::<u64>())];
    let pixels = &mut bytemuck::cast_slice_mut(&mut words)[..slot_bytes];
    let mut decoded = opened.decode(pixels, Vec::new(), &Cores::none()).map_err(cannot)?;
    decoded.reduce_depth(pixels, &target);
    // Only the decoder knows whether pixels are hidden, so the layout may be another than was expected.
    let layout = decoded.layout;
    // The frames of an animation lie below each other; the first stands for all.
    let frames = decoded.frames().max(1);
    let first = Layout { height: layout.height / frames as u32, ..layout };
    let pixels = &pixels[..first.bytes() as usize];
    let facts = Facts { histogram: histogram(pixels, &first).to_vec(), pages, frames };
    Ok(Preview { png: small(pixels, &first)?, facts })
}

fn no_memory() -> String {
    "pictures in progress need the memory; try again".into()
}

fn histogram(pixels: &[u8], layout: &Layout) -> [u64; BINS] {
    let mut counts = vec![0; count::length(layout)];
    count::count(pixels, layout, &mut counts, &mut Scratch::default());
    let levels = layout.depth.levels();
    let brightness = count::of_equalized(&counts, layout, false);
    let mut bins = [0; BINS];
    brightness.iter().enumerate().for_each(|(level, count)| bins[level * BINS / levels] += count);
    bins
}

/// Returns a small version as a PNG. Samples of 16 bits are spread from the least to the greatest, as viewers do.
fn small(pixels: &[u8], layout: &Layout) -> Result<Vec<u8>, String> {
    let channels = layout.pixel.channels();
    let step = layout.width.max(layout.height).div_ceil(SIDE).max(1);
    let (width, height) = (layout.width.div_ceil(step), layout.height.div_ceil(step));
    let means = match layout.depth {
        Depth::Eight => means(pixels, layout, step),
        Depth::Sixteen => means::<u16>(bytemuck::cast_slice(pixels), layout, step),
    };
    let samples: Vec<u8> = match layout.depth {
        Depth::Eight => means.iter().map(|&mean| mean as u8).collect(),
        Depth::Sixteen => spread(&means, layout.pixel),
    };
    debug_assert_eq!(samples.len(), width as usize * height as usize * channels);
    let mut png = Vec::new();
    let mut encoder = png::Encoder::new(&mut png, width, height);
    encoder.set_color(match layout.pixel {
        Pixel::Gray => png::ColorType::Grayscale,
        Pixel::GrayAlpha => png::ColorType::GrayscaleAlpha,
        Pixel::Rgb => png::ColorType::Rgb,
        Pixel::Rgba => png::ColorType::Rgba,
    });
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&samples));
    written.map_err(|error| error.to_string())?;
    Ok(png)
}

/// Returns the means of squares of `step` pixels, channel by channel.
fn means<S: Copy + Into<u64>>(samples: &[S], layout: &Layout, step: u32) -> Vec<u16> {
    let (channels, width, step) = (layout.pixel.channels(), layout.width as usize, step as usize);
    let row = width * channels;
    let mut means = Vec::new();
    for rows in samples.chunks(row * step) {
        let mut sums = vec![0_u64; width.div_ceil(step) * channels];
        let mut counts = vec![0_u64; width.div_ceil(step)];
        for pixels in rows.chunks_exact(row) {
            for (x, pixel) in pixels.chunks_exact(channels).enumerate() {
                counts[x / step] += 1;
                let sums = &mut sums[x / step * channels..][..channels];
                sums.iter_mut().zip(pixel).for_each(|(sum, &sample)| *sum += sample.into());
            }
        }
        means.extend(sums.iter().enumerate().map(|(at, sum)| (sum / counts[at / channels]) as u16));
    }
    means
}

/// Spreads colours over 8 bits, from the least to the greatest. Alpha stays what it is.
fn spread(means: &[u16], pixel: Pixel) -> Vec<u8> {
    let channels = pixel.channels();
    let is_alpha = |at: usize| pixel.has_alpha() && at % channels == channels - 1;
    let colours = || means.iter().enumerate().filter(|(at, _)| !is_alpha(*at)).map(|(_, &mean)| mean);
    let (least, greatest) = (colours().min().unwrap_or(0), colours().max().unwrap_or(0));
    let range = u32::from(greatest - least).max(1);
    let spread = means.iter().enumerate().map(|(at, &mean)| match is_alpha(at) {
        true => (mean >> 8) as u8,
        false => (u32::from(mean - least) * 255 / range) as u8,
    });
    spread.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const LIMITS: Limits = Limits { max_pixels: 1 << 20, max_bytes: 1 << 30 };

    fn made(bytes: &[u8], memory: u64) -> Result<Preview, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, bytes).unwrap();
        make(File::open(&path).unwrap(), bytes.len() as u64, &LIMITS, &Arc::new(SlotPool::new(memory)))
    }

    fn decoded(preview: &Preview) -> (u32, u32, Vec<u8>) {
        let mut reader = png::Decoder::new(io::Cursor::new(&preview.png)).read_info().unwrap();
        let mut samples = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut samples).unwrap();
        samples.truncate(info.buffer_size());
        (info.width, info.height, samples)
    }

    #[test]
    fn a_preview_has_the_means_of_squares_and_the_counts_of_all_pixels() {
        let (width, height) = (1000, 3);
        let mut file = format!("P5 {width} {height} 255\n").into_bytes();
        file.extend((0..width * height).map(|at| if at % 3 == 0 { 250 } else { 10 }));
        let preview = made(&file, 1 << 24).unwrap();
        let (small_width, small_height, samples) = decoded(&preview);
        assert_eq!((small_width, small_height), (334, 1));
        assert_eq!(samples[..333], [90; 333]);
        assert_eq!((preview.facts.histogram[62], preview.facts.histogram[2]), (1000, 2000));
    }

    #[test]
    fn sixteen_bits_are_spread_over_eight() {
        let preview = made(b"P5 2 1 65535 \x10\x00\x10\x08", 1 << 24).unwrap();
        assert_eq!(decoded(&preview).2, [0, 255]);
        assert_eq!(preview.facts.histogram[4], 2);
        assert_eq!((preview.facts.pages, preview.facts.frames), (1, 1));
    }

    #[test]
    fn samples_that_are_no_levels_are_shown_as_the_levels_that_they_become() {
        let floats = |samples: [f32; 3]| {
            let samples = samples.into_iter().flat_map(f32::to_le_bytes);
            made(&b"Pf 3 1 -1.0\n".iter().copied().chain(samples).collect::<Vec<u8>>(), 1 << 24).unwrap()
        };
        let preview = floats([0.5, 0.75, 1.0]);
        assert_eq!(
            (decoded(&preview).2.as_slice(), preview.facts.histogram[BINS - 1]),
            (&[0, 127, 255][..], 1)
        );
        // What is no number is transparent.
        let (width, _, samples) = decoded(&floats([0.5, f32::NAN, 1.0]));
        assert_eq!((width, samples.len(), samples[3]), (3, 6, 0));
        assert_eq!([samples[0], samples[1], samples[4], samples[5]], [0, 255, 255, 255]);
    }

    #[test]
    fn what_cannot_be_shown_is_said() {
        assert_eq!(made(b"P5 2 1 255 ab", 64).unwrap_err(), no_memory());
        assert!(made(b"P5 2000 2000 255 ab", 1 << 24).unwrap_err().contains("pixels"));
    }

    #[test]
    fn no_link_is_followed_below_the_output_folder_or_to_what_was_moved() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        ["out", "kept", "in"].into_iter().for_each(|name| fs::create_dir(at(name)).unwrap());
        fs::write(at("secret"), "another's").unwrap();
        for name in ["out/a.png", "kept/a.png", "in/a.png"] {
            std::os::unix::fs::symlink("../secret", at(name)).unwrap();
        }
        let picture =
            DonePicture { input: at("in/a.png"), output: at("out/a.png"), ..DonePicture::for_tests(9) };
        let moved = DonePicture { input: at("kept/a.png"), moved_below: Some(at("kept")), ..picture.clone() };
        let anywhere = InputRoots::default();
        let opens = |picture, side| open(picture, side, &at("out"), &anywhere).is_ok();
        assert!(!opens(&picture, Side::After) && !opens(&moved, Side::Before));
        assert!(opens(&picture, Side::Before), "an input may be a link");
        let inbox = InputRoots::within(vec![at("in")]);
        assert!(open(&picture, Side::Before, &at("out"), &inbox).is_err(), "that leads out of the inbox");
    }
}
