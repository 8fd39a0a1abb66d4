//! Writing an image: the pages of its largest array, then smaller arrays, and all other files.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::array::{Level, Output};
use super::blocks::{BlockPage, Blocks};
use super::folder::{copy_all, folder_of, store_of};
use super::region::{Region, copy};
use super::written::Written;
use super::{Image, omero, reduce, size};
use crate::io::cores::Cores;
use crate::io::image_store::MediumRef;
use crate::io::reader::resize;
use crate::parts::pages::{PageOutput, PageSink};
use crate::samples::pixels_of;
use crate::samples::size::Size;
use crate::{CodecError, Decoded, Format};

/// The most bytes for a chunk of a smaller array and its source, of each of several threads.
const MOST_FOR_HELPERS: u64 = 16 << 20;

/// Writes the pages of an image, in any order.
#[derive(Debug)]
pub(crate) struct Writer {
    image: Arc<Image>,
    blocks: Arc<Blocks>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of pages that have been written, by an earlier process too.
    written: usize,
    /// The blocks that an earlier process had written before it was killed.
    kept: HashSet<usize>,
    /// The blocks with some of several pages in the spill, and the number of these.
    waiting: HashMap<usize, usize>,
    /// The largest array, once a page is to be written.
    output: Option<Arc<Output>>,
}

/// Returns the bytes of heap that writing a page of an image takes at most.
pub(super) fn heap_bytes(image: &Image, blocks: &Blocks) -> u64 {
    let base = image.base();
    let (_, several) = blocks.most_samples();
    let of_block = base.heap_bytes().saturating_add(several.saturating_mul(base.kind.bytes() as u64));
    let of_levels = image.levels.windows(2).map(|pair| reduced_bytes(image, &pair[0], &pair[1]));
    of_levels.fold(of_block, u64::max)
}

/// Returns the bytes of heap that making a chunk of a smaller array takes.
fn reduced_bytes(image: &Image, larger: &Level, smaller: &Level) -> u64 {
    let factor: u64 = image.factors(larger, smaller).unwrap_or_default().iter().product();
    let source = smaller.chunk_bytes().saturating_mul(factor);
    source.saturating_add(larger.heap_bytes()).saturating_add(smaller.heap_bytes())
}

impl Writer {
    pub(super) fn new(image: Arc<Image>, blocks: Arc<Blocks>) -> Self {
        Self { image, blocks, state: Mutex::default() }
    }

    /// Returns the largest array, as it is written into a store.
    fn output(&self, out: MediumRef<'_>) -> Result<Arc<Output>, CodecError> {
        let mut state = self.lock();
        if let Some(output) = &state.output {
            return Ok(Arc::clone(output));
        }
        let base = self.image.base();
        let output = Arc::new(base.in_store(&store_of(out)?, folder_of(out)?.as_ref())?);
        // The first block is done again: the thread with the last page completes the image.
        let further = 1..self.blocks.count();
        state.kept = further.filter(|&block| output.has(base, &self.blocks.region(block))).collect();
        state.written = state.kept.iter().map(|&block| self.blocks.pages_of(block)).sum();
        state.output = Some(Arc::clone(&output));
        Ok(output)
    }

    /// Keeps a page of a block of several; writes the block if that was its last.
    fn spill(
        &self,
        page: &BlockPage,
        samples: &[u8],
        output: &Output,
        spill: &File,
    ) -> Result<(), CodecError> {
        let first = self.blocks.first_page(page.block);
        spill.write_all_at(samples, self.place_in_spill(first + page.number))?;
        let pages = self.blocks.pages_of(page.block);
        {
            let mut state = self.lock();
            let waiting = state.waiting.entry(page.block).or_default();
            *waiting += 1;
            if *waiting < pages {
                return Ok(());
            }
            state.waiting.remove(&page.block);
        }
        let (base, region) = (self.image.base(), self.blocks.region(page.block));
        let sample = base.kind.bytes();
        let (mut block, mut one) = (Vec::new(), Vec::new());
        resize(&mut block, region.samples() as usize * sample)?;
        for index in first..first + pages {
            let page = self.blocks.page(index).region;
            resize(&mut one, page.samples() as usize * sample)?;
            spill.read_exact_at(&mut one, self.place_in_spill(index))?;
            copy(&one, &page, &mut block, &region, sample);
        }
        output.write(base, &region, &block)
    }

    /// Returns the offset of a page in the spill.
    fn place_in_spill(&self, index: usize) -> u64 {
        let (page, _) = self.blocks.most_samples();
        index as u64 * page * self.image.base().kind.bytes() as u64
    }

    /// Writes all but the largest array. Returns the bytes that were written.
    fn finish(&self, base: &Output, out: MediumRef<'_>, cores: &Cores) -> Result<u64, CodecError> {
        let (image, to, folder) = (&*self.image, store_of(out)?, folder_of(out)?);
        let mut bytes = base.written();
        let mut made = None;
        for pair in image.levels.windows(2) {
            let [larger, smaller] = pair else { continue };
            let output = smaller.in_store(&to, folder.as_ref())?;
            let source = made.as_ref().unwrap_or(base);
            reduce_all(image, larger, source, smaller, &output, cores)?;
            bytes += output.written();
            made = Some(output);
        }
        let smallest = image.levels.last().unwrap_or(image.base());
        let shown = omero::documents(image, smallest, made.as_ref().unwrap_or(base))?;
        let is_shown = |path: &str| shown.iter().any(|(key, _)| *key == path);
        bytes += copy_all(&*image.store, &*to, &|path| image.is_made_again(path) || is_shown(path))?;
        for (key, text) in &shown {
            to.write(key, text)?;
            bytes += text.len() as u64;
        }
        if let Some(folder) = &folder {
            image.levels.iter().try_for_each(|level| Written::forget(folder, &level.path))?;
        }
        Ok(bytes)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PageSink for Writer {
    fn kept(&self, index: usize, out: &File) -> Result<Option<u64>, CodecError> {
        self.output(out.into())?;
        let page = self.blocks.page(index);
        Ok(self.lock().kept.contains(&page.block).then(|| page.region.samples()))
    }

    /// Writes a page into the store `out`, or to `spill` if other pages have samples in its chunks.
    fn write(
        &self,
        index: usize,
        decoded: &Decoded,
        slot: &mut [u8],
        to: PageOutput<'_>,
    ) -> Result<Option<u64>, CodecError> {
        let (cores, out, spill) = (to.help.cores, to.out, to.spill);
        let page = self.blocks.page(index);
        let samples = samples_of(decoded, slot);
        let bytes = page.region.samples() * self.image.base().kind.bytes() as u64;
        if samples.len() as u64 != bytes || size(&page.region) != Size::of(&decoded.layout) {
            return Err(CodecError::encoder(Format::Zarr, "a page is not of the samples of its array"));
        }
        let output = self.output(out)?;
        if self.blocks.pages_of(page.block) == 1 {
            output.write(self.image.base(), &page.region, &samples)?;
        } else {
            self.spill(&page, &samples, &output, spill)?;
        }
        let mut state = self.lock();
        state.written += 1;
        if state.written < self.blocks.pages() {
            return Ok(None);
        }
        drop(state);
        self.finish(&output, out, cores).map(Some)
    }
}

/// Makes an array of the one before, chunk by chunk, with the help of idle cores.
fn reduce_all(
    image: &Image,
    larger: &Level,
    from: &Output,
    smaller: &Level,
    to: &Output,
    cores: &Cores,
) -> Result<(), CodecError> {
    let factors = image.factors(larger, smaller).unwrap_or_default();
    let alone = Cores::none();
    let cores = if reduced_bytes(image, larger, smaller) > MOST_FOR_HELPERS { &alone } else { cores };
    let all = Region { start: vec![0; smaller.shape.len()], shape: smaller.shape.clone() };
    cores.in_order(
        all.cells(&smaller.chunk),
        || Ok(()),
        |made, numbers| {
            let region = Region::of_cell(&numbers, &smaller.chunk, &smaller.shape);
            *made = reduce_one(larger, from, smaller, to, &region, &factors);
        },
        |made| std::mem::replace(made, Ok(())),
    )
}

/// Makes a chunk of an array of the one before, unless an earlier process has.
fn reduce_one(
    larger: &Level,
    from: &Output,
    smaller: &Level,
    to: &Output,
    region: &Region,
    factors: &[u64],
) -> Result<(), CodecError> {
    if to.has(smaller, region) {
        return Ok(());
    }
    let source = reduce::source_of(region, factors, &larger.shape);
    let mut samples = Vec::new();
    resize(&mut samples, source.samples() as usize * larger.kind.bytes())?;
    from.read(larger, &source, &mut samples)?;
    to.write(smaller, region, &reduce::means(larger.kind, &samples, &source, region, factors))
}

/// Returns the samples of a page.
fn samples_of<'s>(decoded: &Decoded, slot: &'s mut [u8]) -> Cow<'s, [u8]> {
    let layout = decoded.layout;
    let pixels = pixels_of(&layout, slot);
    let Some(mapped) = decoded.restored() else { return Cow::Borrowed(pixels) };
    let mut samples = Vec::new();
    for piece in mapped.pieces(&layout, pixels, layout.height as usize) {
        piece.make_samples(&mut samples);
    }
    Cow::Owned(samples)
}
