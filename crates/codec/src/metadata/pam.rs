//! GDAL's metadata of a picture in a file beside it (`.aux.xml`), without statements that new
//! pixels make wrong.
//!
//! These are statistics, histograms, and the line from samples to physical values. Everything else
//! stays byte for byte.
//!
//! Source: <https://gdal.org/en/stable/user/raster_data_model.html>.

use std::ops::Range;

use roxmltree::{Document, Error, Node, ParsingOptions};

/// More nodes than such a file has, but for tables of attributes.
const MAX_NODES: u32 = 1 << 20;

/// More levels of elements than such a file has. Deeper ones stay, so that no file overflows the
/// stack.
const DEEPEST: u32 = 64;

/// Elements of a band that are about its pixels.
const FALSE: [&str; 7] = ["Histograms", "Minimum", "Maximum", "Mean", "StandardDeviation", "Scale", "Offset"];

/// The first word of the keys of statistics.
const STATISTICS: &str = "STATISTICS_";

/// Returns the metadata for a picture with other pixels; `None` if none would be left.
///
/// # Errors
/// When the text is no XML.
pub fn pam_of_new_pixels(xml: &str) -> Result<Option<String>, Error> {
    let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(xml, options)?;
    let root = document.root_element();
    let mut cuts = Vec::new();
    if !has_rest(root, 0, &mut cuts) {
        return Ok(None);
    }
    let (mut kept, mut end) = (String::with_capacity(xml.len()), 0);
    for cut in cuts {
        // The line of an element goes with it.
        kept.push_str(xml[end..cut.start].trim_end_matches([' ', '\t', '\n', '\r']));
        end = cut.end;
    }
    kept.push_str(&xml[end..]);
    Ok(Some(kept))
}

/// Returns whether an element has anything left, and adds the places of its parts to cut out, or
/// its own, in their order.
fn has_rest(element: Node<'_, '_>, depth: u32, cuts: &mut Vec<Range<usize>>) -> bool {
    if depth > DEEPEST {
        return true;
    }
    let before = cuts.len();
    let mut parts = element.children().filter(Node::is_element).peekable();
    let is_leaf = parts.peek().is_none();
    let rests = parts.filter(|part| has_rest(*part, depth + 1, cuts)).count();
    let is_left = !is_false(element) && (is_leaf || rests > 0);
    if !is_left {
        cuts.truncate(before);
        cuts.push(element.range());
    }
    is_left
}

fn is_false(element: Node<'_, '_>) -> bool {
    let of_band = || element.parent().is_some_and(|parent| parent.has_tag_name("PAMRasterBand"));
    let name = element.tag_name().name();
    FALSE.contains(&name) && of_band()
        || name == "MDI" && element.attribute("key").is_some_and(|key| key.starts_with(STATISTICS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_statements_about_the_old_pixels_go() {
        let xml = "<PAMDataset>\n  <SRS>LOCAL_CS[\"a\"]</SRS>\n  <Metadata domain=\"RPC\">\n    \
                   <MDI key=\"LINE_OFF\">5</MDI>\n  </Metadata>\n  <PAMRasterBand band=\"1\">\n    \
                   <Description>red</Description>\n    <NoDataValue>0</NoDataValue>\n    \
                   <Scale>0.1</Scale>\n    <Histograms>\n      <HistItem><HistMin>0</HistMin></HistItem>\n    \
                   </Histograms>\n    <Metadata>\n      <MDI key=\"STATISTICS_MEAN\">7</MDI>\n    \
                   </Metadata>\n  </PAMRasterBand>\n  <PAMRasterBand band=\"2\">\n    \
                   <Metadata>\n      <MDI key=\"WAVE\">8</MDI>\n      <MDI key=\"STATISTICS_MEAN\">7</MDI>\n    \
                   </Metadata>\n  </PAMRasterBand>\n</PAMDataset>\n";
        let left = "<PAMDataset>\n  <SRS>LOCAL_CS[\"a\"]</SRS>\n  <Metadata domain=\"RPC\">\n    \
                    <MDI key=\"LINE_OFF\">5</MDI>\n  </Metadata>\n  <PAMRasterBand band=\"1\">\n    \
                    <Description>red</Description>\n    <NoDataValue>0</NoDataValue>\n  </PAMRasterBand>\n  \
                    <PAMRasterBand band=\"2\">\n    <Metadata>\n      <MDI key=\"WAVE\">8</MDI>\n    \
                    </Metadata>\n  </PAMRasterBand>\n</PAMDataset>\n";
        assert_eq!(pam_of_new_pixels(xml).unwrap().as_deref(), Some(left));
        assert_eq!(pam_of_new_pixels(left).unwrap().as_deref(), Some(left));
        let only = "<PAMDataset><PAMRasterBand band=\"1\"><Metadata><MDI key=\"STATISTICS_MEAN\">7</MDI>\
                    </Metadata></PAMRasterBand></PAMDataset>";
        assert_eq!(pam_of_new_pixels(only).unwrap(), None);
        assert!(pam_of_new_pixels("<PAMDataset>").is_err());
    }

    #[test]
    fn elements_within_each_other_do_not_overflow_the_stack() {
        let deep = format!("<PAMDataset>{}{}</PAMDataset>", "<a>".repeat(200_000), "</a>".repeat(200_000));
        assert_eq!(pam_of_new_pixels(&deep).unwrap(), Some(deep));
    }
}
