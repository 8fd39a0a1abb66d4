//! GDAL's metadata (<https://gdal.org/en/stable/drivers/raster/gtiff.html#metadata>): XML with one item for each fact.

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

#[cfg(test)]
mod tests {
    use super::*;

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
