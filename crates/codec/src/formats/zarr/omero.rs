//! The windows in which viewers show the channels of an image (`omero`), made true of new levels.
//!
//! A window becomes the range of the channel's new samples in the smallest array.

use std::io;

use serde_json::{Map, Number, Value};

use super::array::{Level, Output};
use super::region::Region;
use super::{DOCUMENTS, Image, LONGEST};
use crate::CodecError;
use crate::io::reader::resize;
use crate::samples::mapped::kind::Value as Sample;
use crate::samples::mapped::with_values;

/// The document of Zarr 2 that repeats those of the group and its arrays.
pub(super) const CONSOLIDATED: &str = ".zmetadata";

/// About the samples read of a channel without a smaller array, in chunks from all over it.
const LOOKED_AT: u64 = 64 << 20;

/// A document of the group under its key.
pub(super) type Document = (&'static str, Vec<u8>);

/// Returns the documents about the display of channels, with windows of the new samples.
///
/// The smallest array has these samples.
///
/// There are no such documents in an image without windows.
pub(super) fn documents(image: &Image, level: &Level, samples: &Output) -> Result<Vec<Document>, CodecError> {
    let (mut ranges, mut documents) = (None, Vec::new());
    for key in DOCUMENTS.into_iter().chain([CONSOLIDATED]) {
        let Some(text) = image.store.read(key, LONGEST)? else { continue };
        let Ok(mut document) = serde_json::from_slice::<Value>(&text) else { continue };
        let windows = windows(key, &mut document);
        if windows.is_empty() {
            continue;
        }
        if ranges.is_none() {
            ranges = Some(ranges_of(image, level, samples)?);
        }
        for (channel, window) in windows {
            if let Some(&Some((low, high))) = ranges.as_ref().and_then(|ranges| ranges.get(channel)) {
                set(window, low, high);
            }
        }
        documents.push((key, serde_json::to_vec_pretty(&document).map_err(io::Error::from)?));
    }
    Ok(documents)
}

/// Returns the windows of a document, each with the number of its channel.
fn windows<'d>(key: &str, document: &'d mut Value) -> Vec<(usize, &'d mut Map<String, Value>)> {
    let attributes = if key == CONSOLIDATED {
        document.pointer_mut("/metadata/.zattrs")
    } else if document.get("zarr_format").is_some() {
        document.pointer_mut("/attributes/ome")
    } else {
        Some(document)
    };
    let channels = attributes.and_then(|attributes| attributes.pointer_mut("/omero/channels"));
    let channels = channels.and_then(Value::as_array_mut).into_iter().flatten().enumerate();
    channels
        .filter_map(|(number, channel)| Some((number, channel.get_mut("window")?.as_object_mut()?)))
        .collect()
}

/// Returns the range of the samples of each channel; `None` for one without samples.
fn ranges_of(image: &Image, level: &Level, samples: &Output) -> Result<Vec<Option<(f64, f64)>>, CodecError> {
    let all = Region { start: vec![0; level.shape.len()], shape: level.shape.clone() };
    let axis = image.about.channels();
    let count = axis.map_or(1, |axis| level.shape[axis]);
    let step = all.samples().div_ceil(count).div_ceil(LOOKED_AT).max(1);
    let (mut ranges, mut buffer) = (Vec::new(), Vec::new());
    for channel in 0..count {
        let mut of_channel = all.clone();
        if let Some(axis) = axis {
            (of_channel.start[axis], of_channel.shape[axis]) = (channel, 1);
        }
        let mut range = None;
        for numbers in of_channel.cells(&level.chunk).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            let region = Region::of_cell(&numbers, &level.chunk, &level.shape).common(&of_channel);
            resize(&mut buffer, region.samples() as usize * level.kind.bytes())?;
            samples.read(level, &region, &mut buffer)?;
            range = with_values!(level.kind, widened(range, &buffer));
        }
        ranges.push(range);
    }
    Ok(ranges)
}

/// Returns a range together with that of samples.
fn widened<S: Sample>(range: Option<(f64, f64)>, samples: &[u8]) -> Option<(f64, f64)> {
    let values =
        samples.chunks_exact(size_of::<S>()).map(|sample| bytemuck::pod_read_unaligned::<S>(sample).value());
    values.filter(|value| value.is_finite()).fold(range, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => Some((low.min(value), high.max(value))),
    })
}

/// Sets a window to a range, which its ends enclose.
fn set(window: &mut Map<String, Value>, low: f64, high: f64) {
    let high = if low < high { high } else { low + 1.0 };
    let said = |window: &Map<String, Value>, key: &str| window.get(key).and_then(Value::as_f64);
    let least = said(window, "min").map_or(low, |min| min.min(low));
    let most = said(window, "max").map_or(high, |max| max.max(high));
    for (key, value) in [("start", low), ("end", high), ("min", least), ("max", most)] {
        window.insert(key.to_owned(), number(value));
    }
}

/// Returns a number as JSON has it, without a fraction if it is whole.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return Value::from(value as i64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn windows_are_found_in_documents_of_both_versions_and_in_that_of_all() {
        let omero = json!({"channels": [{"color": "FF0000"}, {"window": {"start": 3, "end": 9, "min": 0, "max": 4095}}]});
        for (key, mut document) in [
            (".zattrs", json!({"multiscales": [], "omero": omero})),
            ("zarr.json", json!({"zarr_format": 3, "attributes": {"ome": {"omero": omero}}})),
            (".zmetadata", json!({"metadata": {".zattrs": {"omero": omero}, "0/.zarray": {}}})),
        ] {
            let found = windows(key, &mut document);
            let [(1, window)] = &found[..] else { panic!("{key}: {found:?}") };
            assert_eq!(window["end"], 9);
        }
        for mut other in
            [json!({}), json!({"omero": {"channels": 3}}), json!({"omero": {"channels": [{"window": 1}]}})]
        {
            assert!(windows(".zattrs", &mut other).is_empty());
        }
    }

    #[test]
    fn a_window_is_that_of_the_new_range_within_its_ends() {
        let set = |mut window: Value, low, high| {
            set(window.as_object_mut().unwrap(), low, high);
            window
        };
        let old = json!({"start": 110, "end": 800, "min": 0, "max": 4095, "label": "a"});
        assert_eq!(
            set(old, 0.0, 65_535.0),
            json!({"start": 0, "end": 65_535, "min": 0, "max": 65_535, "label": "a"})
        );
        let floats = json!({"start": 0.0, "end": 1.0});
        assert_eq!(set(floats, -0.5, 0.25), json!({"start": -0.5, "end": 0.25, "min": -0.5, "max": 0.25}));
        assert_eq!(set(json!({}), 7.0, 7.0)["end"], 8);
    }

    #[test]
    fn a_range_is_that_of_all_finite_samples() {
        let bytes = |samples: &[f32]| bytemuck::cast_slice(samples).to_vec();
        let range = widened::<f32>(None, &bytes(&[f32::NAN, 2.0, -1.0]));
        assert_eq!(range, Some((-1.0, 2.0)));
        assert_eq!(widened::<f32>(range, &bytes(&[f32::INFINITY, 3.0])), Some((-1.0, 3.0)));
        assert_eq!(widened::<f32>(None, &bytes(&[f32::NAN])), None);
    }
}
