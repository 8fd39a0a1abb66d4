//! The pictures of a run one by one, as far as a page will name them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::Event;

/// The most pictures that are named.
const MOST: usize = 10_000;

/// A picture that was done.
#[derive(Clone, Debug)]
pub(crate) struct ListedPicture {
    pub(crate) input: PathBuf,
    pub(crate) output: PathBuf,
    pub(crate) pixels: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) device: Arc<str>,
}

/// The first pictures that were done, and what there was to remark about them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listing {
    pub(crate) pictures: Vec<ListedPicture>,
    pub(crate) remarks: HashMap<PathBuf, Vec<String>>,
}

impl Listing {
    pub(super) fn hear(&mut self, event: &Event) {
        if self.pictures.len() >= MOST {
            return;
        }
        match event {
            Event::Done { input, output, pixels, bytes_in, bytes_out, device, .. } => {
                self.pictures.push(ListedPicture {
                    input: input.clone(),
                    output: output.clone(),
                    pixels: *pixels,
                    bytes_in: *bytes_in,
                    bytes_out: *bytes_out,
                    device: Arc::clone(device),
                });
            }
            Event::Remarked { input, remark, range } if remark.names_pictures() => {
                self.remarks.entry(input.clone()).or_default().push(remark.of_one_with(*range));
            }
            _ => {}
        }
    }
}
