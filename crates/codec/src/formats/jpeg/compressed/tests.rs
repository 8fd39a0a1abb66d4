use super::super::libjpeg::{self, Frame, Space, Tables};
use super::super::markers::{Density, Factors};
use super::*;
use crate::picture::decode::Decode;

const SAMPLINGS: [&[(u8, u8)]; 6] = [
    &[(1, 1)],
    &[(1, 1), (1, 1), (1, 1)],
    &[(2, 1), (1, 1), (1, 1)],
    &[(1, 2), (1, 1), (1, 1)],
    &[(2, 2), (1, 1), (1, 1)],
    &[(4, 1), (1, 1), (1, 1)],
];

/// Encodes noise on a ramp with libjpeg.
fn jpeg(
    (width, height): (u32, u32),
    factors: &[(u8, u8)],
    change: impl FnOnce(&mut Frame<'_>),
    segments: &[(u8, &[u8])],
) -> Vec<u8> {
    let component = |&(horizontal, vertical): &(u8, u8)| Factors { horizontal, vertical };
    let components: Vec<Factors> = factors.iter().map(component).collect();
    let space = if components.len() == 1 { Space::Gray } else { Space::Rgb };
    let mut frame = Frame {
        width,
        height,
        space: if components.len() == 1 { Space::Gray } else { Space::YCbCr },
        components: &components,
        tables: Tables::Quality(92),
        progressive: false,
        restart_interval: 0,
        density: Some(Density { unit: 1, x: 72, y: 72 }),
        segments: segments.iter().map(|&(marker, content)| Segment { marker, content }).collect(),
    };
    change(&mut frame);
    let samples = width as usize * height as usize * space.components();
    let mut state = 7_u32;
    let mut sample = |at: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (at / 40) as u8 ^ (state >> 27) as u8
    };
    let samples: Vec<u8> = (0..samples).map(&mut sample).collect();
    let mut out = Vec::new();
    libjpeg::write(&mut out, &frame, space, &samples).unwrap();
    out
}

fn describe(jpeg: &[u8]) -> Option<CompressedJpeg> {
    let described = Header::read(jpeg)?.describe(jpeg.len(), Pixel::Gray, JpegQuality::Keep);
    assert_eq!(described.is_some(), has_scan(jpeg, JpegQuality::Keep));
    described
}

fn is_whole(jpeg: &[u8]) -> bool {
    BaselinePicture::read(jpeg).is_some_and(|picture| picture.coefficients().is_some())
}

#[test]
fn usual_pictures_are_taken_and_found_whole() {
    for factors in SAMPLINGS {
        for size in [(1, 1), (8, 8), (17, 9), (33, 64), (641, 479)] {
            let file = jpeg(size, factors, |_| (), &[]);
            let found = describe(&file).unwrap();
            assert_eq!(found.bytes, file.len() as u64);
            assert_eq!((found.layout.width, found.layout.height), size);
            assert!(is_whole(&file), "{factors:?} {size:?}");
            let zeros_behind = [&file[..], &[0; 100]].concat();
            assert!(is_whole(&zeros_behind), "padding behind the picture is none of it");
        }
    }
    for name in ["grayscale_long.jpg", "jpg-srgb-icc.jpg"] {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/codec/");
        let file = std::fs::read(format!("{folder}{name}")).unwrap();
        assert!(describe(&file).is_some() && is_whole(&file), "{name}");
    }
}

#[test]
fn what_no_gpu_writes_back_as_it_was_is_left_to_the_processor() {
    let (colour, size) = (SAMPLINGS[4], (64, 48));
    let with = |change: &dyn Fn(&mut Frame<'_>)| describe(&jpeg(size, colour, change, &[]));
    assert!(with(&|frame| frame.progressive = true).is_none());
    assert!(with(&|frame| frame.tables = Tables::Own(&[[3; 64], [5; 64], [300; 64]])).is_none(), "16 bits");
    assert!(with(&|frame| frame.tables = Tables::Own(&[[3; 64], [5; 64], [6; 64]])).is_some());
    let odd = jpeg(size, &[(2, 2), (2, 1), (1, 1)], |_| (), &[]);
    assert_eq!(Header::read(&odd).unwrap().describe(99, Pixel::Gray, JpegQuality::Keep), None);
    assert!(with(&|frame| frame.restart_interval = 3).is_some());
    let file = jpeg(size, colour, |frame| frame.restart_interval = 3, &[]);
    let stated_twice = |again: [u8; 6]| {
        let at = position(&file, SOS);
        Header::read(&[&file[..at], &again, &file[at..]].concat()).is_some()
    };
    assert!(stated_twice([0xff, DRI, 0, 4, 0, 3]));
    assert!(!stated_twice([0xff, DRI, 0, 4, 0, 4]), "readers disagree on which of them counts");
}

#[test]
fn damage_is_seen() {
    for factors in SAMPLINGS {
        let file = jpeg((400, 300), factors, |_| (), &[]);
        let scan = file.windows(2).position(|pair| pair == [0xff, SOS]).unwrap() + 20;
        let middle = (scan + file.len()) / 2;
        let cut = [&file[..middle], &[0xff, EOI]].concat();
        assert!(!is_whole(&cut), "{factors:?}: cut short");
        // (The loss of a small piece can go unnoticed: the misread codes after it may look like
        // just as many blocks as are missing.)
        let hole = [&file[..middle], &file[middle + (file.len() - middle) / 2..]].concat();
        assert!(!is_whole(&hole), "{factors:?}: a piece is missing");
        let mut zeros = file.clone();
        let end = zeros.len() - 2;
        zeros[middle..end].fill(0);
        assert!(!is_whole(&zeros), "{factors:?}: the rest is zeros");
        let mut marker = file.clone();
        marker[middle..middle + 2].copy_from_slice(&[0xff, 0xd3]);
        assert!(!is_whole(&marker), "{factors:?}: a marker inside");
        let more = [&file[..end], &[0x55; 9], &file[end..]].concat();
        assert!(!is_whole(&more), "{factors:?}: more than its blocks");
    }
}

/// Returns the markers of a JPEG up to its scan, each with the length of its content.
fn markers(file: &[u8]) -> Vec<(u8, usize)> {
    let (mut rest, mut found) = (&file[2..], Vec::new());
    loop {
        let (marker, behind) = next_marker(rest).unwrap();
        let (segment, behind) = segment(marker, behind).unwrap();
        found.push((marker, segment.content.len()));
        rest = behind;
        if marker == SOS {
            return found;
        }
    }
}

#[test]
fn the_result_has_the_sources_segments_and_the_gpus_tables_and_scan() {
    let segments: [(u8, &[u8]); 3] =
        [(0xe1, b"Exif\0\0MM\0*"), (0xe2, b"ICC_PROFILE\0\x01\x01abc"), (COM, b"hello")];
    let source = jpeg((45, 31), SAMPLINGS[4], |_| (), &segments);
    let made = jpeg(
        (45, 31),
        SAMPLINGS[4],
        |frame| frame.density = Some(Density { unit: 0, x: 1, y: 1 }),
        &[(0xe5, b"a GPU's")],
    );
    let (native, layout) = opened(&source);
    let mut out = tempfile::tempfile().unwrap();
    let length = write(&native, &layout, &made, &mut out).unwrap();
    let mut written = Vec::new();
    std::io::Seek::rewind(&mut out).unwrap();
    std::io::Read::read_to_end(&mut out, &mut written).unwrap();
    assert_eq!(length, written.len() as u64);
    let is_application = |marker: u8| matches!(marker, APP0..=APP15 | COM);
    let of_source: Vec<_> = markers(&source).into_iter().filter(|(m, _)| is_application(*m)).collect();
    let of_made: Vec<_> = markers(&made).into_iter().filter(|(m, _)| !is_application(*m)).collect();
    assert_eq!(markers(&written), [of_source, of_made].concat());
    // The JFIF density is the source's.
    assert_eq!(written[..20], source[..20]);
    let scan = |file: &[u8]| file[file.windows(2).position(|pair| pair == [0xff, SOS]).unwrap()..].to_vec();
    assert_eq!(scan(&written), scan(&made));
}

#[test]
fn nonsense_from_a_gpu_is_an_error_of_the_encoder() {
    let of = |size, sampling: usize| jpeg(size, SAMPLINGS[sampling], |_| (), &[]);
    let source = of((40, 24), 4);
    let (native, layout) = opened(&source);
    let cut = source.len() - 1;
    for (stream, reason) in [
        (&source[..0], "it is empty"),
        (&source[..30], ""),
        (&source[..cut], "it does not end"),
        (&of((24, 40), 4), "it is another picture"),
        (&of((40, 24), 1), "it is another picture"),
        (&of((40, 24), 0), "it is another picture"),
    ] {
        let error = write(&native, &layout, stream, &mut tempfile::tempfile().unwrap()).unwrap_err();
        assert!(matches!(error, CodecError::Encoder { .. }) && error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn quantization_that_no_decoder_takes_is_the_processors() {
    let file = jpeg((16, 16), SAMPLINGS[4], |_| (), &[]);
    let (frame, tables) = (position(&file, SOF0), position(&file, DQT));
    let with = |changes: &[(usize, u8)]| {
        let mut file = file.clone();
        changes.iter().for_each(|&(at, value)| file[at] = value);
        file
    };
    // A component in the frame header has an id, factors and a table number; the first one begins
    // 10 bytes from the marker.
    let [luma, blue, red] = [0, 1, 2].map(|part| frame + 10 + 3 * part + 2);
    assert!(describe(&with(&[])).is_some());
    assert_eq!(describe(&with(&[(luma, 0x84)])), None, "no such table");
    assert_eq!(
        Header::read(&with(&[(tables + 5, 0)])).unwrap().describe(99, Pixel::Gray, JpegQuality::Keep),
        None
    );
    assert!(describe(&with(&[(luma, 1), (blue, 0), (red, 0)])).is_some(), "any numbers");
}

#[test]
fn a_gray_picture_with_factors_is_the_processors() {
    let mut file = jpeg((16, 16), SAMPLINGS[0], |_| (), &[]);
    let frame = position(&file, SOF0);
    file[frame + 11] = 0x22;
    assert_eq!(Header::read(&file).unwrap().describe(99, Pixel::Gray, JpegQuality::Keep), None);
}

/// Returns the offset of a marker.
fn position(file: &[u8], marker: u8) -> usize {
    file.windows(2).position(|pair| pair == [0xff, marker]).unwrap()
}

/// Returns a picture's layout and the data for writing it back.
fn opened(file: &[u8]) -> (Native, Layout) {
    let target = super::super::Target::AS_STORED;
    let source = super::super::Source::open(
        file,
        crate::formats::jpeg::markers::Markers::scan(file).unwrap(),
        &target,
    )
    .unwrap();
    let layout = source.facts().layout;
    (source.native(Vec::new(), None, None), layout)
}
