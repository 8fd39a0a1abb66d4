//! The table of histograms as text: a CSV row or a JSON object for every channel of every stage of
//! every picture.

use std::os::unix::ffi::OsStrExt;

use clap::ValueEnum;
use serde::Serialize;

use super::Histograms;
use crate::fs::paths;
use equalize::histogram::rebin;

/// How the table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// Rows of comma-separated values (RFC 4180), the first with the columns' names.
    Csv,
    /// One JSON array of objects.
    Json,
}

/// The names of the columns before the bins.
const COLUMNS: [&str; 7] = ["picture", "width", "height", "bits", "stage", "channel", "pixels"];

/// The row or JSON object of one channel.
#[derive(Serialize)]
struct Object<'a> {
    #[serde(serialize_with = "paths::as_json")]
    picture: &'a std::path::Path,
    width: u32,
    height: u32,
    bits: usize,
    stage: &'static str,
    channel: &'static str,
    pixels: u64,
    counts: Vec<u64>,
}

impl TableFormat {
    /// Returns the text before the first picture.
    pub(super) fn begin(self, bins: usize) -> Vec<u8> {
        match self {
            Self::Csv => {
                let numbers = (0..bins).map(|bin| bin.to_string());
                csv_row(COLUMNS.iter().map(ToString::to_string).chain(numbers).map(String::into_bytes))
            }
            Self::Json => b"[\n".to_vec(),
        }
    }

    /// Returns the text between two pictures.
    pub(super) const fn between(self) -> &'static [u8] {
        match self {
            Self::Csv => b"",
            Self::Json => b",\n",
        }
    }

    /// Returns the text after the last picture.
    pub(super) const fn end(self) -> &'static [u8] {
        match self {
            Self::Csv => b"",
            Self::Json => b"\n]\n",
        }
    }

    /// Returns the rows or objects of one picture.
    pub(super) fn picture(self, histograms: &Histograms<'_>, bins: usize) -> Vec<u8> {
        let objects = objects(histograms, bins);
        match self {
            Self::Csv => objects.flat_map(|object| csv_row(object.fields())).collect(),
            Self::Json => objects.map(|object| object.json()).collect::<Vec<_>>().join(self.between()),
        }
    }
}

fn objects<'a>(histograms: &'a Histograms<'a>, bins: usize) -> impl Iterator<Item = Object<'a>> {
    let layout = histograms.layout;
    histograms.stages().flat_map(move |(stage, counts)| {
        histograms.channels(counts).map(move |(channel, counts)| Object {
            picture: histograms.input,
            width: layout.width,
            height: layout.height,
            bits: layout.depth.bytes() * 8,
            stage: stage.name(),
            channel: channel.name(),
            pixels: counts.iter().sum(),
            counts: rebin(counts, bins),
        })
    })
}

impl Object<'_> {
    fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("every key is text")
    }

    fn fields(&self) -> impl Iterator<Item = Vec<u8>> {
        let numbers = [u64::from(self.width), u64::from(self.height), self.bits as u64];
        let first = [self.picture.as_os_str().as_bytes().to_vec()].into_iter().chain(numbers.map(text));
        let names = [self.stage, self.channel].map(|name| name.as_bytes().to_vec());
        first.chain(names).chain([text(self.pixels)]).chain(self.counts.iter().copied().map(text))
    }
}

fn text(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

fn csv_row(fields: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(fields).expect("a row in memory");
    writer.into_inner().expect("a row in memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use equalize::{Depth, Layout, Pixel};
    use std::path::Path;

    fn table(format: TableFormat, input: &str) -> String {
        let layout = Layout { width: 2, height: 1, pixel: Pixel::Gray, depth: Depth::Eight };
        let mut counts = [0; 512];
        (counts[3], counts[200], counts[256], counts[511]) = (1, 1, 1, 1);
        let histograms = Histograms { input: Path::new(input), layout, levels: 256, counts: &counts };
        let picture = format.picture(&histograms, 2);
        String::from_utf8([&format.begin(2), &picture[..], format.end()].concat()).unwrap()
    }

    #[test]
    fn a_row_has_the_picture_the_channel_and_the_bins() {
        assert_eq!(
            table(TableFormat::Csv, "a, b.png"),
            "picture,width,height,bits,stage,channel,pixels,0,1\n\
             \"a, b.png\",2,1,8,original,gray,2,1,1\n\"a, b.png\",2,1,8,equalized,gray,2,1,1\n"
        );
    }

    #[test]
    fn an_object_has_the_same() {
        let parsed: serde_json::Value = serde_json::from_str(&table(TableFormat::Json, "a.png")).unwrap();
        let object = serde_json::json!({ "picture": "a.png", "width": 2, "height": 1, "bits": 8,
            "stage": "original", "channel": "gray", "pixels": 2, "counts": [1, 1] });
        assert_eq!(parsed[0], object);
        assert_eq!((&parsed[1]["stage"], parsed.as_array().unwrap().len()), (&"equalized".into(), 2));
    }
}
