//! What GDAL adds to TIFF (<https://gdal.org/en/stable/drivers/raster/gtiff.html>): metadata in XML, with one item for each fact; and the
//! no-data value, which also stands where a sparse file has nothing.

use crate::mapped::Kind;

/// What names a statistic of the samples, or the line from samples to physical values. A new contrast makes both wrong.
const FALSE: [&str; 3] = ["name=\"STATISTICS_", "role=\"scale\"", "role=\"offset\""];

const START: &str = "<Item ";
const END: &str = "</Item>";

/// Returns the metadata without the items that have become false.
pub(super) fn metadata(xml: Vec<u8>) -> Vec<u8> {
    let Ok(mut rest) = str::from_utf8(&xml) else { return xml };
    let mut kept = String::with_capacity(rest.len());
    while let Some((before, item)) = rest.find(START).map(|at| rest.split_at(at)) {
        let Some(length) = item.find(END).map(|at| at + END.len()) else { break };
        let (item, behind) = item.split_at(length);
        let head = item.split('>').next().unwrap_or_default();
        if FALSE.iter().any(|mark| head.contains(mark)) {
            // The indentation of the item and the line end of the one before remain together.
            kept.push_str(before.trim_end_matches([' ', '\n', '\r']));
        } else {
            kept.push_str(before);
            kept.push_str(item);
        }
        rest = behind;
    }
    kept.push_str(rest);
    kept.into_bytes()
}

/// Reads the no-data value, a number as text. `None` if no sample of this many bits has it.
pub(super) fn no_data(text: &[u8], bits: u32) -> Option<u16> {
    let value = number(text)?;
    let most = f64::from((1u32 << bits) - 1);
    (value.fract() == 0.0 && (0.0..=most).contains(&value)).then_some(value as u16)
}

/// Reads the no-data value as that of a sample of this type. `None` if no sample has it.
pub(super) fn no_data_of(text: &[u8], kind: Kind) -> Option<f64> {
    let sample = kind.sample(number(text)?)?;
    Some(kind.value(&sample))
}

fn number(text: &[u8]) -> Option<f64> {
    str::from_utf8(text.split(|&byte| byte == 0).next()?).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_no_data_value_is_a_sample_or_none() {
        for (text, bits, value) in [
            (&b"255\0"[..], 8, Some(255)),
            (b" 7.0 ", 8, Some(7)),
            (b"256", 8, None),
            (b"4095\0", 12, Some(4095)),
            (b"65535", 16, Some(u16::MAX)),
            (b"-9999", 16, None),
            (b"1.5", 16, None),
            (b"nan", 16, None),
            (b"\xff", 8, None),
            (b"", 8, None),
        ] {
            assert_eq!(no_data(text, bits), value, "{text:?}");
        }
    }

    #[test]
    fn only_items_that_became_false_go() {
        let xml = "<GDALMetadata>\n  <Item name=\"STATISTICS_MAXIMUM\" sample=\"0\">4000</Item>\n  \
                   <Item name=\"SENSOR\">OLI</Item>\n  \
                   <Item name=\"OFFSET\" sample=\"0\" role=\"offset\">-273</Item>\n</GDALMetadata>\n\0";
        let left = "<GDALMetadata>\n  <Item name=\"SENSOR\">OLI</Item>\n</GDALMetadata>\n\0";
        assert_eq!(metadata(xml.into()), left.as_bytes());
        for unchanged in [left.as_bytes(), b"", b"<Item name=\"STATISTICS_MEAN\">1", b"\xff<Item </Item>"] {
            assert_eq!(metadata(unchanged.to_vec()), unchanged);
        }
    }
}
