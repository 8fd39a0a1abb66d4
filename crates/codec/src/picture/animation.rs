//! Animations, as one picture: their frames lie below each other in one slot.
//!
//! Each frame is in the slot as it is shown, and all have one histogram, which keeps the brightness
//! from flickering. The outputs show every frame in full.

use crate::samples::size::Size;
use crate::{CodecError, Format};
use equalize::Layout;

/// How the frames of an animation that is refused become pictures of their own.
pub(crate) const FRAMES: &str = "extract the frames first, as in `ffmpeg -i IN OUT-%03d.png`";

/// How an animation is played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Animation {
    /// How long each frame is shown.
    pub(crate) delays: Vec<Delay>,
    /// How often all frames are shown, 0 for ever.
    pub(crate) plays: u32,
}

impl Animation {
    /// Returns the number of frames.
    pub(crate) fn frames(&self) -> usize {
        self.delays.len()
    }

    /// Returns the bytes of heap that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.delays.len() * size_of::<Delay>()) as u64
    }
}

/// How long a frame is shown: a fraction of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delay {
    pub(crate) counter: u16,
    pub(crate) denominator: u16,
}

impl Delay {
    pub(crate) const fn of_hundredths(counter: u16) -> Self {
        Self { counter, denominator: 100 }
    }

    /// Returns the nearest delay that can be represented.
    pub(crate) fn of_milliseconds(milliseconds: u32) -> Self {
        if let Ok(counter) = u16::try_from(milliseconds) {
            return Self { counter, denominator: 1000 };
        }
        match u16::try_from(milliseconds / 10) {
            Ok(counter) => Self::of_hundredths(counter),
            Err(_) => {
                Self { counter: u16::try_from(milliseconds / 1000).unwrap_or(u16::MAX), denominator: 1 }
            }
        }
    }

    pub(crate) fn hundredths(self) -> u16 {
        u16::try_from(self.in_parts(100)).unwrap_or(u16::MAX)
    }

    /// Returns the delay in milliseconds, of 24 bits at most.
    pub(crate) fn milliseconds(self) -> u32 {
        self.in_parts(1000).min(0x00ff_ffff)
    }

    /// Returns the delay in parts of a second. A denominator of 0 stands for 100, as in APNG.
    fn in_parts(self, parts: u32) -> u32 {
        let denominator = if self.denominator == 0 { 100 } else { u32::from(self.denominator) };
        (u32::from(self.counter) * parts + denominator / 2) / denominator
    }
}

/// Returns the layout of frames below each other.
pub(crate) fn stacked(frame: Layout, frames: usize) -> Result<Layout, CodecError> {
    let height = u32::try_from(frames).ok().and_then(|frames| frame.height.checked_mul(frames));
    let height = height.ok_or_else(|| {
        let Layout { width, height, .. } = frame;
        CodecError::unsupported(format!("an animation of {frames} frames of {width}x{height} pixels"), FRAMES)
    })?;
    Ok(Layout { height, ..frame })
}

/// Checks that files in the output format may have this many frames.
pub(crate) fn check(frames: usize, format: Format, output: Format) -> Result<(), CodecError> {
    if frames == 1 || output.has_frames() {
        return Ok(());
    }
    Err(CodecError::cannot_represent(
        output,
        format!("the {frames} frames of a {format}"),
        format!(
            "write it as PNG, WebP or GIF (--format png), or each frame into a file of its own (--frames split), or {FRAMES}"
        ),
    ))
}

/// Where a frame lies on the canvas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) left: usize,
    pub(crate) top: usize,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl Place {
    /// Returns all of a canvas of this size.
    pub(crate) fn of_canvas(canvas: Size) -> Self {
        Self { left: 0, top: 0, width: canvas.width as usize, height: canvas.height as usize }
    }

    /// Returns its width and height.
    pub(crate) fn size(&self) -> Size {
        Size { width: self.width as u32, height: self.height as u32 }
    }

    /// Returns whether it lies within a canvas of this size.
    pub(crate) fn fits(&self, canvas: Size) -> bool {
        self.left + self.width <= canvas.width as usize && self.top + self.height <= canvas.height as usize
    }

    fn contains(&self, column: usize, row: usize) -> bool {
        (self.left..self.left + self.width).contains(&column)
            && (self.top..self.top + self.height).contains(&row)
    }
}

/// The disposal of a frame before the next one is drawn, as in APNG and GIF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposal {
    Keep,
    /// Its place becomes transparent.
    Clear,
    /// Its place becomes what it was before.
    Restore,
}

/// Puts the first pixel over the second, in RGBA.
pub(crate) type Mix = fn([u8; 4], [u8; 4]) -> [u8; 4];

/// Composes frames as they are shown, one below the other.
pub(crate) struct Canvas<'s> {
    /// The frames that are still to be drawn.
    frames: std::slice::ChunksExactMut<'s, u8>,
    /// All of the canvas.
    whole: Place,
    /// The channels of a pixel of the frames: RGB or RGBA.
    channels: usize,
    mix: Mix,
    /// The canvas that the next frame is drawn on, as RGBA.
    base: Vec<u8>,
    /// The part of the canvas that was cleared last: pixels are drawn there as they are.
    blank: Place,
}

impl<'s> Canvas<'s> {
    /// Bytes of heap for each pixel of a frame.
    pub(crate) const HEAP: u64 = 4;

    /// Makes an empty canvas for frames of this layout, RGB or RGBA, in `slot`.
    pub(crate) fn new(frame: &Layout, slot: &'s mut [u8], mix: Mix) -> Result<Self, CodecError> {
        let pixels = frame.pixels() as usize;
        let whole = Place { width: frame.width as usize, height: frame.height as usize, ..Place::default() };
        let mut base = Vec::new();
        base.try_reserve_exact(4 * pixels)
            .map_err(|_| CodecError::OutOfMemory { bytes: Some(4 * pixels as u64) })?;
        base.resize(4 * pixels, 0);
        let channels = frame.pixel.channels();
        let frames = slot.chunks_exact_mut(pixels * channels);
        Ok(Self { frames, whole, channels, mix, base, blank: whole })
    }

    /// Draws a frame from its RGBA `pixels`; returns whether there was room for it.
    ///
    /// Half-transparent pixels are mixed with those below them if `over` is set. Pixels outside the
    /// canvas are left out.
    pub(crate) fn draw(&mut self, place: Place, pixels: &[u8], over: bool, disposal: Disposal) -> bool {
        let Some(frame) = self.frames.next() else { return false };
        let kept = (disposal == Disposal::Restore).then(|| self.base.clone());
        let blank = self.blank;
        for (row, pixels) in pixels.chunks_exact(4 * place.width.max(1)).take(place.height).enumerate() {
            let Some(target) = row_of(&mut self.base, self.whole.width, place, row) else { break };
            for (column, (target, pixel)) in target.iter_mut().zip(pixels.as_chunks::<4>().0).enumerate() {
                let covers = !over || blank.contains(place.left + column, place.top + row);
                *target = if covers { *pixel } else { (self.mix)(*pixel, *target) };
            }
        }
        if self.channels == 4 {
            frame.copy_from_slice(&self.base);
        } else {
            for (to, from) in frame.chunks_exact_mut(3).zip(self.base.as_chunks::<4>().0) {
                to.copy_from_slice(&from[..3]);
            }
        }
        match (disposal, kept) {
            (_, Some(kept)) => self.base = kept,
            (Disposal::Clear, None) => self.clear(place),
            _ => self.blank = Place::default(),
        }
        true
    }

    /// Makes a part transparent.
    fn clear(&mut self, place: Place) {
        for row in 0..place.height {
            let Some(row) = row_of(&mut self.base, self.whole.width, place, row) else { break };
            row.fill([0; 4]);
        }
        // A canvas that was empty before the frame is empty again.
        if self.blank != self.whole {
            self.blank = place;
        }
    }

    /// Returns whether all frames are drawn.
    pub(crate) fn is_full(&self) -> bool {
        self.frames.len() == 0
    }
}

/// Returns the part of a canvas that a row of a frame covers, in RGBA. `None` below the canvas.
fn row_of(canvas: &mut [u8], width: usize, place: Place, row: usize) -> Option<&mut [[u8; 4]]> {
    let (pixels, _) = canvas.as_chunks_mut::<4>();
    let line = pixels.chunks_exact_mut(width).nth(place.top + row)?;
    let left = place.left.min(width);
    let right = left.saturating_add(place.width).min(width);
    Some(&mut line[left..right])
}

/// Puts a pixel over another by APNG's blend operation (specification of PNG, section 13.16).
pub(crate) fn mixed(front: [u8; 4], back: [u8; 4]) -> [u8; 4] {
    let (alpha, below) = (u32::from(front[3]), u32::from(back[3]));
    if alpha == 255 || below == 0 {
        return if alpha == 0 { back } else { front };
    }
    if alpha == 0 {
        return back;
    }
    let (own, other) = (alpha * 255, (255 - alpha) * below);
    let all = own + other;
    let colour =
        |at: usize| ((u32::from(front[at]) * own + u32::from(back[at]) * other + all / 2) / all) as u8;
    [colour(0), colour(1), colour(2), ((all + 127) / 255) as u8]
}

#[cfg(test)]
mod tests {
    use super::*;
    use equalize::{Depth, Pixel};

    const RED: [u8; 4] = [255, 0, 0, 255];
    const BLUE: [u8; 4] = [0, 0, 255, 255];
    const NONE: [u8; 4] = [0; 4];

    #[test]
    fn frames_are_shown_on_what_those_before_leave() {
        let frame = Layout { width: 2, height: 1, pixel: Pixel::Rgba, depth: Depth::Eight };
        let mut slot = vec![7; 4 * 2 * 5];
        let mut canvas = Canvas::new(&frame, &mut slot, mixed).unwrap();
        let whole = Place { left: 0, top: 0, width: 2, height: 1 };
        let right = Place { left: 1, top: 0, width: 1, height: 1 };
        assert!(canvas.draw(whole, &[RED, RED].concat(), false, Disposal::Keep));
        assert!(canvas.draw(right, &BLUE, true, Disposal::Restore));
        assert!(canvas.draw(right, &NONE, true, Disposal::Clear));
        assert!(canvas.draw(Place { left: 2, ..right }, &BLUE, true, Disposal::Keep));
        assert!(!canvas.is_full());
        assert!(canvas.draw(Place { left: 1, width: 9, ..right }, &[BLUE; 9].concat(), true, Disposal::Keep));
        assert!(canvas.is_full() && !canvas.draw(whole, &[RED, RED].concat(), false, Disposal::Keep));
        let shown: Vec<_> =
            slot.as_chunks::<4>().0.chunks(2).map(<[_; 2]>::try_from).map(Result::unwrap).collect();
        assert_eq!(shown, [[RED, RED], [RED, BLUE], [RED, RED], [RED, NONE], [RED, BLUE]]);
    }

    #[test]
    fn half_transparent_pixels_are_mixed() {
        assert_eq!(mixed([200, 0, 0, 128], [0, 100, 0, 255]), [100, 50, 0, 255]);
        assert_eq!(mixed([200, 0, 0, 128], NONE), [200, 0, 0, 128]);
        assert_eq!(mixed([9, 9, 9, 0], RED), RED);
        assert_eq!(mixed([9, 9, 9, 0], NONE), NONE);
    }

    #[test]
    fn delays_stay_as_near_as_the_format_allows() {
        assert_eq!(Delay::of_milliseconds(40), Delay { counter: 40, denominator: 1000 });
        assert_eq!(Delay::of_milliseconds(70_000).milliseconds(), 70_000);
        assert_eq!(Delay::of_milliseconds(700_000).milliseconds(), 700_000);
        assert_eq!(Delay { counter: 1, denominator: 30 }.hundredths(), 3);
        assert_eq!(Delay { counter: 5, denominator: 0 }.milliseconds(), 50);
        assert_eq!(Delay { counter: u16::MAX, denominator: 1 }.hundredths(), u16::MAX);
    }

    #[test]
    fn too_many_rows_are_refused() {
        let frame = Layout { width: 2, height: 70_000, pixel: Pixel::Rgb, depth: Depth::Eight };
        assert_eq!(stacked(frame, 3).unwrap().height, 210_000);
        assert!(stacked(frame, 70_000).is_err());
        assert_eq!(stacked(frame, 3).unwrap().frame(3), frame);
    }
}
