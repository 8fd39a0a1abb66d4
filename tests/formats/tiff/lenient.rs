//! Files that bend the rules, but in a way that leaves no doubt about the picture.

use codec::{CodecError, Remark};

use super::{
    Form, HEIGHT, LENGTHS, OFFSETS, PLAIN, TARGET, Tags, WIDTH, compressed, decode, decoded, deflated,
    encode, first, pixels,
};

/// Changes to the lengths of strips: left out, and zeros.
const UNTOLD: [fn(&mut Tags); 2] = [
    |tags| tags.retain(|(tag, _)| *tag != LENGTHS),
    |tags| tags.iter_mut().filter(|(tag, _)| *tag == LENGTHS).for_each(|(_, lengths)| lengths.fill(0)),
];

#[test]
fn strips_of_untold_length_are_read_where_it_can_be_known() {
    for change in UNTOLD {
        for rows_a_strip in [HEIGHT, 50] {
            let form = Form { rows_a_strip, channels: 3, bytes: 2, ..PLAIN };
            let samples = form.samples();
            assert!(decoded(&form.file(&samples, change)).unwrap() == samples, "{form:?}");
        }
        let samples = PLAIN.samples();
        let lzw = weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8).encode(&samples);
        for (compression, data) in [(8, deflated(&samples)), (5, lzw.unwrap())] {
            let file = compressed(PLAIN, &[data], |tags| {
                first(259, |_| compression)(tags);
                change(tags);
            });
            assert!(decoded(&file).unwrap() == samples, "{compression}");
        }
    }
}

#[test]
fn strips_of_untold_length_are_refused_where_it_cannot_be_known() {
    let form = Form { rows_a_strip: 50, ..PLAIN };
    let samples = form.samples();
    for change in UNTOLD {
        let strips: Vec<Vec<u8>> = samples.chunks(50 * WIDTH).map(deflated).collect();
        let several = compressed(form, &strips, |tags| {
            first(259, |_| 8)(tags);
            change(tags);
        });
        let error = decoded(&several).unwrap_err();
        assert!(matches!(error, CodecError::Malformed { .. }), "{error:?}");
        assert!(error.to_string().contains("a strip or tile has no length"), "{error}");
        let end = 8 + samples.len() / 2;
        let outside = form.file(&samples, |tags| {
            first(OFFSETS, |_| 1 << 30)(tags);
            change(tags);
        });
        assert!(decoded(&outside).is_err() && decoded(&outside[..end]).is_err());
    }
}

#[test]
fn strips_that_were_never_written_are_zero_or_the_no_data_value() {
    const NO_DATA: u16 = 42113;
    let (rows_a_strip, row) = (50, |form: Form| WIDTH * form.channels * form.bytes);
    let forms = [
        (PLAIN, "", vec![0]),
        (PLAIN, "200", vec![200]),
        (PLAIN, "-9999", vec![0]),
        (Form { channels: 3, big_endian: true, ..PLAIN }, "7", vec![7]),
        (Form { bytes: 2, big_endian: true, ..PLAIN }, "4660", 0x1234_u16.to_ne_bytes().to_vec()),
    ];
    for (form, no_data, sample) in forms {
        let form = Form { rows_a_strip, ..form };
        let never_written = |tags: &mut Tags| {
            // The second strip of four.
            for (_, numbers) in tags.iter_mut().filter(|(tag, _)| [OFFSETS, LENGTHS].contains(tag)) {
                numbers[1] = 0;
            }
            if !no_data.is_empty() {
                tags.push((NO_DATA, no_data.bytes().chain([0]).map(u32::from).collect()));
            }
        };
        let mut expected = form.samples();
        let missing = &mut expected[rows_a_strip * row(form)..2 * rows_a_strip * row(form)];
        missing
            .chunks_exact_mut(form.bytes)
            .for_each(|to| to.copy_from_slice(&sample.repeat(2)[..form.bytes]));
        let (picture, slot) = decode(&form.file(&form.samples(), never_written), &TARGET).unwrap();
        assert!(pixels(&picture, &slot) == expected, "{form:?}, {no_data}");
        assert_eq!(picture.remarks(&TARGET), [Remark::Sparse]);
        let (again, slot) = decode(&encode(&picture, slot, &TARGET).unwrap(), &TARGET).unwrap();
        assert!(pixels(&again, &slot) == expected && again.remarks(&TARGET).is_empty(), "{form:?}");
    }
}

#[test]
fn a_strip_at_offset_0_needs_a_length_of_0_to_count_as_never_written() {
    let file = PLAIN.file(&PLAIN.samples(), |tags| {
        first(OFFSETS, |_| 0)(tags);
        tags.retain(|(tag, _)| *tag != LENGTHS);
    });
    assert!(decoded(&file).unwrap_err().to_string().contains("a strip or tile has no length"));
}

#[test]
fn a_palette_may_have_more_colours_than_indices() {
    const COLOUR_MAP: u16 = 320;
    let samples = PLAIN.samples();
    let with = |colours: u32| {
        decoded(&PLAIN.file(&samples, |tags| {
            first(262, |_| 3)(tags);
            let channel = |channel: u32| (0..colours).map(move |i| (i * 50 + channel * 17) << 8 & 0xffff);
            tags.push((COLOUR_MAP, (0..3).flat_map(channel).collect()));
            tags.sort();
        }))
    };
    let expected = with(256).unwrap();
    assert_eq!(expected[..3], [0, 17, 34].map(|level: u8| level.wrapping_add(samples[0].wrapping_mul(50))));
    assert!(with(300).unwrap() == expected);
    assert!(with(255).unwrap_err().to_string().contains("its palette is missing or has the wrong length"));
}

#[test]
fn a_palette_may_have_8_bit_colours() {
    const COLOUR_MAP: u16 = 320;
    let samples = PLAIN.samples();
    let with = |scale: u32| {
        decoded(&PLAIN.file(&samples, |tags| {
            first(262, |_| 3)(tags);
            tags.push((COLOUR_MAP, (0..768).map(|i| i % 251 * scale).collect()));
            tags.sort();
        }))
    };
    let expected = with(256).unwrap();
    assert_eq!(expected[..3], [0, 1, 2].map(|third| ((third * 256 + usize::from(samples[0])) % 251) as u8));
    assert!(with(1).unwrap() == expected);
}

#[test]
fn what_is_stated_of_more_samples_than_there_are_says_nothing() {
    const SAMPLE_FORMAT: u16 = 339;
    let form = Form { channels: 3, ..PLAIN };
    let file = form.file(&form.samples(), |tags| {
        tags.iter_mut().filter(|(tag, _)| *tag == 258).for_each(|(_, bits)| bits.push(1));
        tags.push((SAMPLE_FORMAT, vec![1, 1, 1, 3]));
    });
    assert!(decoded(&file).unwrap() == form.samples());
    let file = form.file(&form.samples(), first(258, |_| 1));
    assert!(decoded(&file).unwrap_err().to_string().contains("samples have different depths"));
}
