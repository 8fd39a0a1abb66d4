//! The output of a baseline picture, described for a coder on a GPU.
//!
//! Its bytes are those of [`write`](super::write()) without application data and comments.

use super::baseline::BaselinePicture;
use super::dct::Quantizer;
use super::header::write_header;
use super::natural;
use super::sample::{self, Codes, codes_of_sample};
use super::write_sequential::write_codes;
use crate::JpegQuality;
use crate::formats::jpeg::libjpeg::{Frame, MAX_QUANT, QuantTable, Space, Tables};
use crate::formats::jpeg::markers::Factors;
use crate::samples::size::Size;

/// The output of a picture.
#[derive(Debug)]
pub struct BaselineOutput {
    /// The divisors of each component.
    pub divisors: Vec<Divisors>,
    /// Symbols are counted in one of this many rows of blocks, from the first row on.
    pub sample_step: usize,
    /// The bytes before the codes.
    header: Vec<u8>,
}

/// Numbers to divide by the divisors of a component.
///
/// All are in zigzag order.
#[derive(Debug)]
pub struct Divisors {
    /// Added to the eightfold absolute value.
    pub correction: [u16; 64],
    /// Multiplied with the sum; 16 bits are dropped.
    pub reciprocal: [u16; 64],
    /// Multiplied with the rest; 16 more bits are dropped.
    pub scale: [u16; 64],
    /// Whether they differ from the source's divisors, which requantizes coefficients.
    pub are_new: bool,
}

/// The codes of a picture: for DC and for AC, in the first component and in the others.
///
/// Each symbol has its code, and from bit 16 on the code's length.
pub type Codebook = [[[u32; 256]; 2]; 2];

impl BaselineOutput {
    /// Plans the output of a picture in this quality.
    ///
    /// It has new samples of the first component and the coefficients of the others. `None` if the
    /// picture is for the CPU.
    pub fn new(picture: &BaselinePicture<'_>, quality: JpegQuality) -> Option<Self> {
        let (luma, others) = picture.components.split_first()?;
        // The reader only keeps coefficients that come row by row.
        let is_usual = others.iter().all(|other| other.in_mcu.1 == 1 && other.in_mcu.0 <= luma.in_mcu.0);
        let from = || picture.components.iter().map(|component| natural(&component.divisors));
        if !is_usual || from().flatten().any(|divisor| !(1..=MAX_QUANT).contains(&divisor)) {
            return None;
        }
        let own: Vec<QuantTable> = from().collect();
        let to = match quality {
            JpegQuality::Value(quality) => Tables::Quality(quality).of(own.len()).ok()?,
            JpegQuality::Keep => own.clone(),
        };
        // A frame header for divisors of 16 bits is not that of a baseline picture.
        if to.iter().flatten().any(|&divisor| divisor > 255) {
            return None;
        }
        let divisors = own.iter().zip(&to).map(|(from, to)| {
            let [correction, reciprocal, scale] = Quantizer::new(to).parts();
            Divisors { correction, reciprocal, scale, are_new: from != to }
        });
        let divisors = divisors.collect();
        let Size { width, height } = picture.size;
        let factors: Vec<Factors> = match &picture.components[..] {
            [_] => vec![Factors::FULL],
            components => components.iter().map(|component| component.factors).collect(),
        };
        let frame = Frame {
            width,
            height,
            space: if factors.len() == 1 { Space::Gray } else { Space::YCbCr },
            components: &factors,
            tables: Tables::Own(&to),
            progressive: false,
            restart_interval: picture.stated_interval,
            density: None,
            segments: Vec::new(),
        };
        let mut header = Vec::new();
        write_header(&mut header, &frame, &to);
        Some(Self { divisors, sample_step: sample::step(height), header })
    }

    /// Makes codes from the counts of the sample.
    ///
    /// They are for DC and for AC coefficients, in the first component and in the others. Returns
    /// them, and all bytes before the entropy-coded data.
    pub fn codes(&self, counted: &Codebook) -> (Codebook, Vec<u8>) {
        let codes = codes_of_sample(counted);
        let entry = |(code, length): (u32, u32)| length << 16 | code;
        let table = |code: &dyn Fn(u8) -> (u32, u32)| std::array::from_fn(|symbol| entry(code(symbol as u8)));
        let of_dc = codes.each_ref().map(|Codes { dc, .. }| table(&|symbol| dc.code(symbol)));
        let of_ac = codes.each_ref().map(|Codes { ac, .. }| table(&|symbol| ac.code(symbol)));
        let mut head = self.header.clone();
        write_codes(&mut head, self.divisors.len(), &codes);
        ([of_dc, of_ac], head)
    }
}
