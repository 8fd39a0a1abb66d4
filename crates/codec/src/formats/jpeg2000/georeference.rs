//! A JPEG 2000's place on a map: GeoJP2 (a GeoTIFF in a box) or GMLJP2 (GML, OGC 05-047r3).

use roxmltree::{Document, Node, ParsingOptions};

use super::boxes::boxes;
use crate::metadata::Georeference;
use crate::metadata::geotiff::{GeoTags, has_georeference};

/// The UUID of GeoJP2's box: a GeoTIFF of one pixel.
const GEOJP2: [u8; 16] = *b"\xb1\x4b\xf8\xbd\x08\x3d\x4b\x43\xa5\xae\x8c\xd7\xd5\xa6\xce\x03";

/// The type and the start of the content of the first box in those of GMLJP2.
const GMLJP2: &[u8] = b"lbl gml.data";

/// The longest GML that is read, and the most nodes.
const MAX_GML: usize = 1 << 20;
const MAX_NODES: u32 = 1 << 14;

/// The most boxes of associations within each other.
const MAX_DEPTH: u32 = 4;

/// Returns the place on a map that a file states, as tags of GeoTIFF where that is possible.
pub(super) fn read(bytes: &[u8]) -> Option<Georeference> {
    let contents = |wanted: &'static [u8; 4]| {
        boxes(bytes).filter(move |(kind, _)| kind == wanted).map(|(_, place)| &bytes[place])
    };
    let geojp2 = contents(b"uuid").find_map(|content| content.strip_prefix(&GEOJP2));
    if let Some(tags) = geojp2.filter(|tags| has_georeference(tags)) {
        return Some(Georeference::Tags(tags.to_vec()));
    }
    let is_gml = |content: &&[u8]| content.get(4..).is_some_and(|label| label.starts_with(GMLJP2));
    let gml = contents(b"asoc").find(is_gml)?;
    let tags = xml(gml, MAX_DEPTH).and_then(|text| tags_of_gml(text.trim_matches(['\0', ' ', '\n'])));
    Some(tags.map_or(Georeference::Gml, Georeference::Tags))
}

/// Returns the first XML in a box of associations, and in those within it.
fn xml(content: &[u8], depth: u32) -> Option<&str> {
    boxes(content).find_map(|(kind, place)| match &kind {
        b"xml " => str::from_utf8(&content[place]).ok(),
        b"asoc" if depth > 0 => xml(&content[place], depth - 1),
        _ => None,
    })
}

/// Returns GeoTIFF's tags for the grid of a GML, in a TIFF structure.
///
/// `None` if it has not one grid, or if the grid is turned or is not in a coordinate system that
/// [`is_projected`].
fn tags_of_gml(text: &str) -> Option<Vec<u8>> {
    if text.len() > MAX_GML {
        return None;
    }
    let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).ok()?;
    let mut grids = document.descendants().filter(|node| node.tag_name().name() == "RectifiedGrid");
    let grid = grids.next().filter(|_| grids.next().is_none())?;
    let named = |name: &'static str| grid.descendants().filter(move |node| node.tag_name().name() == name);
    let origin = named("pos").next()?;
    let mut offsets = named("offsetVector");
    let (right, down) = (offsets.next()?, offsets.next()?);
    let point = named("Point").next()?;
    let code = epsg(point.attribute("srsName").or_else(|| right.attribute("srsName"))?)?;
    let ([x, y], [width, turned], [skewed, height]) = (pair(origin)?, pair(right)?, pair(down)?);
    let is_upright = width > 0.0 && turned == 0.0 && skewed == 0.0 && height < 0.0;
    if !is_projected(code) || !is_upright || offsets.next().is_some() {
        return None;
    }
    // GML's origin is the centre of the first pixel, GeoTIFF's its corner.
    let tags =
        GeoTags { scale: [width, -height], corner: [x - width / 2.0, y - height / 2.0], projected: code };
    Some(tags.write())
}

/// Returns the two numbers of an element's text.
fn pair(node: Node<'_, '_>) -> Option<[f64; 2]> {
    let numbers = node.text()?.split_ascii_whitespace().map(|number| number.parse().ok());
    let numbers: Vec<f64> = numbers.collect::<Option<_>>()?;
    <[f64; 2]>::try_from(numbers).ok().filter(|pair| pair.iter().all(|number| number.is_finite()))
}

/// Returns the code of a coordinate system of EPSG, as in `urn:ogc:def:crs:EPSG::32633`.
fn epsg(name: &str) -> Option<u16> {
    let (_, code) = name.split_once("EPSG")?;
    code.rsplit([':', '/']).next()?.parse().ok()
}

/// Returns whether a code of EPSG is known to be of metres east and north, in this order.
///
/// UTM zones of WGS 84, ETRS89 and NAD83, and web Mercator. GML's axes of other systems may be in
/// another order.
fn is_projected(code: u16) -> bool {
    matches!(code, 3857 | 25828..=25838 | 26901..=26923 | 32601..=32660 | 32701..=32760)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GML: &str = r#"<gml:RectifiedGrid xmlns:gml="http://www.opengis.net/gml" dimension="2">
        <gml:origin><gml:Point srsName="urn:ogc:def:crs:EPSG::32633">
        <gml:pos>505005 5396995</gml:pos></gml:Point></gml:origin>
        <gml:offsetVector>10 0</gml:offsetVector><gml:offsetVector>0 -20</gml:offsetVector>
        </gml:RectifiedGrid>"#;

    fn boxed(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
        [&(8 + content.len() as u32).to_be_bytes(), &kind[..], content].concat()
    }

    fn gmljp2(text: &str) -> Vec<u8> {
        let instance = [boxed(b"lbl ", b"gml.root-instance"), boxed(b"xml ", text.as_bytes())].concat();
        boxed(b"asoc", &[boxed(b"lbl ", b"gml.data"), boxed(b"asoc", &instance)].concat())
    }

    #[test]
    fn an_upright_grid_in_a_known_system_becomes_tags() {
        let tags = GeoTags { scale: [10.0, 20.0], corner: [505_000.0, 5_397_005.0], projected: 32633 };
        assert_eq!(read(&gmljp2(GML)), Some(Georeference::Tags(tags.write())));
    }

    #[test]
    fn other_grids_are_known_to_be_lost() {
        for (from, to) in [
            ("EPSG::32633", "EPSG::4326"),
            ("EPSG::32633", "OGC:1.3:CRS84"),
            (">10 0<", ">10 1<"),
            (">0 -20<", ">0 20<"),
            ("505005 ", "NaN "),
            ("RectifiedGrid", "Grid"),
            ("</gml:RectifiedGrid>", ""),
        ] {
            assert_eq!(read(&gmljp2(&GML.replace(from, to))), Some(Georeference::Gml), "{to}");
        }
        assert_eq!(read(&boxed(b"asoc", &boxed(b"lbl ", b"other"))), None);
        assert_eq!(read(b""), None);
    }
}
