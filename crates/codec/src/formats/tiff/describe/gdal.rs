//! GDAL's additions to TIFF: metadata in XML, an item for each fact, and the no-data value.
//!
//! The no-data value also fills the gaps of a sparse file.
//!
//! Source: <https://gdal.org/en/stable/drivers/raster/gtiff.html>.

use crate::metadata::ifd::Value;

/// The marks of statistics of the samples, and of the line from samples to physical values.
///
/// A new contrast makes both wrong.
const FALSE: [&str; 3] = ["name=\"STATISTICS_", "role=\"scale\"", "role=\"offset\""];

const START: &str = "<Item ";
const END: &str = "</Item>";

/// Returns the metadata without the items that have become false.
pub(crate) fn metadata(xml: Vec<u8>) -> Vec<u8> {
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

/// Reads the no-data value, a number as text.
pub(crate) fn no_data(text: &[u8]) -> Option<f64> {
    str::from_utf8(text.split(|&byte| byte == 0).next()?).ok()?.trim().parse().ok()
}

/// Returns the no-data value as it is written.
pub(crate) fn no_data_text(value: f64) -> Value {
    Value::Data { kind: 2, bytes: format!("{value}\0").into_bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_no_data_value_is_a_number() {
        for (text, value) in [
            (&b"255\0"[..], Some(255.0)),
            (b" 7.0 ", Some(7.0)),
            (b"-9999\0\0", Some(-9999.0)),
            (b"-3.4028234663852886e+38\0", Some(f64::from(f32::MIN))),
            (b"\xff", None),
            (b"", None),
        ] {
            assert_eq!(no_data(text), value, "{text:?}");
        }
        assert!(no_data(b"nan").is_some_and(f64::is_nan));
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
