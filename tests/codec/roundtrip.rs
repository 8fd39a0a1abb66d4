//! Every layout through every format that can hold it.

use std::io::Write;

use histeqd::codec::{Format, Target};
use histeqd::picture::{Depth, Layout, Pixel};

use crate::{TARGET, decode, encode, pixels};

const PIXELS: [Pixel; 4] = [Pixel::Gray, Pixel::GrayAlpha, Pixel::Rgb, Pixel::Rgba];

/// A PAM file with pseudo-random samples, and those samples in the machine's byte order.
fn pam(layout: &Layout) -> (Vec<u8>, Vec<u8>) {
    let kind = match layout.pixel {
        Pixel::Gray => "GRAYSCALE",
        Pixel::GrayAlpha => "GRAYSCALE_ALPHA",
        Pixel::Rgb => "RGB",
        Pixel::Rgba => "RGB_ALPHA",
    };
    let mut file = Vec::new();
    let (width, height, depth) = (layout.width, layout.height, layout.pixel.channels());
    let maxval = layout.depth.levels() - 1;
    writeln!(
        file,
        "P7\nWIDTH {width}\nHEIGHT {height}\nDEPTH {depth}\nMAXVAL {maxval}\nTUPLTYPE {kind}\nENDHDR"
    )
    .unwrap();
    let mut state = 1u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as u16
    };
    let mut native = Vec::new();
    for _ in 0..layout.pixels() as usize * depth {
        let sample = noise();
        match layout.depth {
            Depth::Eight => {
                file.push(sample as u8);
                native.push(sample as u8);
            }
            Depth::Sixteen => {
                file.extend(sample.to_be_bytes());
                native.extend(sample.to_ne_bytes());
            }
        }
    }
    (file, native)
}

fn layouts() -> impl Iterator<Item = Layout> {
    PIXELS.into_iter().flat_map(|pixel| {
        [Depth::Eight, Depth::Sixteen].into_iter().flat_map(move |depth| {
            [(1, 1), (7, 3), (64, 33)].map(|(width, height)| Layout { width, height, pixel, depth })
        })
    })
}

#[test]
fn lossless_formats_keep_every_pixel() {
    for format in [Format::Pnm, Format::Png, Format::Tiff] {
        for layout in layouts() {
            let target = Target { format: Some(format), ..TARGET };
            let (file, native) = pam(&layout);
            let (decoded, slot) = decode(&file, &target).unwrap();
            assert_eq!(decoded.layout, layout);
            assert_eq!(slot, native);
            let written = encode(&decoded, slot, &target).unwrap();
            let (again, slot) = decode(&written, &TARGET).unwrap();
            assert_eq!((again.format, again.layout), (format, layout));
            assert!(pixels(&again, &slot) == native, "{format} changed {layout:?}");
        }
    }
}
