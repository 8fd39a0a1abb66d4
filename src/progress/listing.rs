//! The pictures of a run one by one, up to the number that a page shows.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::Event;
use crate::picture::preview::Sides;
use crate::source::Plan;

/// The most pictures in the list.
const MOST: usize = 10_000;

/// A picture that is done.
#[derive(Clone, Debug)]
pub(crate) struct ListedPicture {
    pub(crate) input: PathBuf,
    pub(crate) output: PathBuf,
    /// How this run processed it; `None` if an earlier one did.
    pub(crate) how: Option<How>,
    /// Small versions of it, if they were made meanwhile.
    pub(crate) sides: Sides,
}

/// How a picture was done.
#[derive(Clone, Debug)]
pub(crate) struct How {
    pub(crate) pixels: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) device: Arc<str>,
}

/// The first pictures that were done, and the remarks about them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listing {
    pub(crate) pictures: Vec<ListedPicture>,
    pub(crate) remarks: HashMap<PathBuf, Vec<String>>,
    /// The first that were done already.
    pub(crate) done_before: Vec<ListedPicture>,
}

/// Returns the first pictures that a plan leaves out because they are done already.
pub(crate) fn done_before(plan: &Plan) -> Vec<ListedPicture> {
    let done = plan.skipped.iter().filter_map(|skipped| {
        let (input, output) = (skipped.input.clone(), skipped.output.clone()?);
        Some(ListedPicture { input, output, how: None, sides: Sides::default() })
    });
    done.take(MOST).collect()
}

impl Listing {
    pub(super) fn hear(&mut self, event: &Event) {
        if self.pictures.len() >= MOST {
            return;
        }
        match event {
            Event::Done { input, output, pixels, bytes_in, bytes_out, device, sides, .. } => {
                let device = Arc::clone(device);
                let how = How { pixels: *pixels, bytes_in: *bytes_in, bytes_out: *bytes_out, device };
                self.pictures.push(ListedPicture {
                    input: input.clone(),
                    output: output.clone(),
                    how: Some(how),
                    sides: sides.clone(),
                });
            }
            Event::Remarked { input, remark, range } if remark.is_about_one() => {
                self.remarks.entry(input.clone()).or_default().push(remark.of_one_with(*range));
            }
            _ => {}
        }
    }
}
