//! A writer of the pages of a file, each as soon as it is there, from any number of threads.
//!
//! The pixels of the pages lie in the order of the pages, whatever the order in which they come,
//! and all directories lie after them. A page whose place depends on the length of one that has not
//! come yet goes to another file (`spill`) meanwhile.
//!
//! Channels that are not colours are pages too, whether they lie in planes or are interleaved. If
//! they are, each goes to the spill as it is, and the thread with the last one of a directory
//! interleaves them.
//!
//! The bands of pictures are written like pages, and those of each are put together in the end.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::iter;
use std::mem;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::coding::streams::Help;
use crate::formats::tiff::outside::Outside;
use crate::formats::tiff::pyramid::Pyramid;
use crate::formats::tiff::read::channels::Channels;
use crate::formats::tiff::strips::{Put, STRIP};
use crate::formats::tiff::write::directories::{self, HEADER, PixelsAt};
use crate::formats::tiff::write::overviews::{self, OfBands};
use crate::formats::tiff::write::packed::Page;
use crate::formats::tiff::write::written::Written;
use crate::formats::tiff::write::{Interleaved, Samples};
use crate::parts::bands::BandRows;
use crate::parts::pages::{PageOutput, PageSink};
use crate::{CodecError, Decoded, Format};

/// Writes the pages of a file.
#[derive(Debug)]
pub(crate) struct Writer {
    big: bool,
    /// Whether only the first page has a directory.
    joined: bool,
    /// For each picture, the overviews that are made of its bands, if the pages are bands.
    of_bands: Vec<OfBands>,
    /// The number of pages that make a picture.
    each: usize,
    /// Whether all pages wait in the spill until overviews lie before them (COG).
    are_last: bool,
    /// The number of pages that are written one by one; interleaved channels are one.
    count: usize,
    channels: Channels,
    /// The metadata between the header and the pixels.
    outside: Option<Outside>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The offsets of the announced pages, as far as they are known before these are written.
    starts: Vec<Option<u64>>,
    /// The offset of the next one to be announced.
    announced_end: Option<u64>,
    /// The first page that is not in its place yet.
    next: usize,
    /// Its offset.
    end: u64,
    /// Bytes of the spill.
    spilled: u64,
    /// The pages that are written, be it to the spill.
    pages: Vec<Option<Page>>,
    /// The number of channels that have been announced.
    announced: usize,
    /// For pages of interleaved channels, the offsets in the spill of those that have come.
    waiting: HashMap<usize, Vec<(usize, u64)>>,
}

impl Writer {
    /// Returns a writer of pages that did not come from a TIFF.
    pub(crate) fn new(count: usize) -> Self {
        Self::behind(HEADER, count, Channels::ONE)
    }

    /// Returns a writer of pages from the offset `first` on.
    fn behind(first: u64, pages: usize, channels: Channels) -> Self {
        let count = pages / channels.stride();
        let state = State {
            starts: Vec::new(),
            announced_end: Some(first),
            next: 0,
            end: first,
            spilled: 0,
            pages: Vec::new(),
            announced: 0,
            waiting: HashMap::new(),
        };
        let state = Mutex::new(state);
        let (of_bands, each) = (Vec::new(), 1);
        let outside = None;
        Self { big: false, joined: false, of_bands, each, are_last: false, count, channels, outside, state }
    }

    /// Returns a writer of pages.
    ///
    /// `joined` is the room before them for the directory of the first, if that is to be the only
    /// one.
    pub(crate) fn of_pages(pages: usize, channels: Channels, joined: Option<u64>, big: bool) -> Self {
        let first = HEADER + joined.map_or(0, |room| room.next_multiple_of(4096));
        Self { big, joined: joined.is_some(), ..Self::behind(first, pages, channels) }
    }

    /// Returns the writer of the same pages after metadata outside of directories.
    pub(crate) fn with_outside(self, outside: Option<Outside>) -> Self {
        let Some(outside) = outside else { return self };
        let pages = self.count * self.channels.stride();
        let behind = Self::behind(outside.end(), pages, self.channels);
        Self { big: self.big, outside: Some(outside), ..behind }
    }

    /// Returns a writer of the channels of one picture, with `room` for all directories before it.
    pub(crate) fn of_cog(channels: Channels, room: u64, big: bool) -> Self {
        let first = HEADER + room.next_multiple_of(16);
        Self { big, are_last: true, ..Self::behind(first, channels.count, channels) }
    }

    /// Returns a writer of the bands of a picture that did not come from a TIFF.
    pub(crate) fn of_plain_bands(rows: BandRows) -> Self {
        Self::of_bands(rows, 1, &Pyramid::default(), false)
    }

    /// Returns a writer of the bands of so many pictures; the first has this pyramid.
    pub(crate) fn of_bands(rows: BandRows, pictures: usize, pyramid: &Pyramid, big: bool) -> Self {
        // The directories of several pictures do not lie before all pixels.
        let room = pyramid.room.filter(|_| pictures == 1);
        let first = HEADER + room.map_or(0, |room| room.next_multiple_of(16));
        let are_last = room.is_some() && !pyramid.overviews.is_empty();
        let of_bands = (0..pictures).map(|_| OfBands::new(rows.height(), rows.rows(0))).collect();
        let each = rows.count();
        Self { big, of_bands, each, are_last, ..Self::behind(first, pictures * each, Channels::ONE) }
    }

    /// Writes a page to its place, or to the spill if that is not known yet.
    fn write_page(
        &self,
        index: usize,
        decoded: &Decoded,
        samples: &Samples<'_>,
        help: Help<'_>,
        out: &File,
        spill: &File,
    ) -> Result<Option<u64>, CodecError> {
        let pyramid = samples.pyramid();
        let of_bands = self.of_bands.get(index / self.each);
        if let Some(of_bands) = of_bands.filter(|_| !pyramid.overviews.is_empty()) {
            let band = index % self.each;
            of_bands.add(band, pyramid, samples, help, spill, &mut |bytes| self.put(spill, bytes))?;
        }
        let place = {
            let state = self.lock();
            let place = state.starts[index].or_else(|| (state.next == index).then_some(state.end));
            place.filter(|_| !self.are_last)
        };
        let written = match place {
            Some(mut at) => {
                self.write_whole(decoded, samples, help, &mut |bytes| write_at(out, bytes, &mut at))
            }
            None => self.write_whole(decoded, samples, help, &mut |bytes| self.put(spill, bytes)),
        }?;
        let mut state = self.lock();
        state.add(index, written, place.is_none());
        state.settle(out, spill, self)?;
        if state.next < self.count { Ok(None) } else { self.finish(&mut state, out, spill).map(Some) }
    }

    /// Writes a page with its own overviews; bands have no overviews of their own.
    fn write_whole(
        &self,
        decoded: &Decoded,
        samples: &Samples<'_>,
        help: Help<'_>,
        put: &mut Put<'_>,
    ) -> Result<Written, CodecError> {
        let strips = samples.write(help, put)?;
        let written = samples.written(decoded, strips);
        if !self.of_bands.is_empty() {
            return Ok(written);
        }
        let overviews = overviews::make(samples.pyramid(), samples, help, put)?;
        let masks = samples.pyramid().write_masks(put)?;
        Ok(written.with_masks(masks).with_overviews(overviews))
    }

    /// Writes bytes to the spill.
    fn put(&self, spill: &File, bytes: &[u8]) -> io::Result<u64> {
        let mut at = self.lock().take_of_spill(bytes.len() as u64);
        write_at(spill, bytes, &mut at)
    }

    /// Writes the directories, and the header that leads to them. Returns the bytes of the file.
    fn finish(&self, state: &mut State, out: &File, spill: &File) -> Result<u64, CodecError> {
        let mut end = state.end;
        let room = state.starts[0].filter(|_| self.outside.is_none()).map_or(0, |start| start - HEADER);
        let pixels = |end| PixelsAt { room, end, joined: self.joined };
        let pages = mem::take(&mut state.pages);
        if self.are_packed() {
            let pages: Vec<_> = pages.into_iter().flatten().collect();
            let written = pages[..if self.joined { 1 } else { pages.len() }].iter().map(Page::written);
            self.write_outside(written.clone(), end, out)?;
            return Ok(directories::finish(written, &pixels(end), self.big, out, 0)?);
        }
        let mut pages: Vec<_> = pages.into_iter().flatten().map(Page::into_written).collect();
        if !self.of_bands.is_empty() {
            let mut bands = pages.into_iter();
            let pictures = iter::from_fn(|| Written::joined(bands.by_ref().take(self.each).collect()));
            pages = pictures.collect();
            for (whole, of_bands) in pages.iter_mut().zip(&self.of_bands) {
                let masks = whole.pyramid.write_masks(&mut |bytes| write_at(out, bytes, &mut end))?;
                *whole = whole.clone().with_masks(masks);
                let strips = of_bands.take(&whole.pyramid);
                end = whole.place_overviews(strips, self.are_last, end, &mut |from, to, length| {
                    copy(spill, from, out, to, length)
                })?;
            }
        }
        if self.channels.planar {
            pages = in_planes(pages, self.channels.count);
        }
        if self.are_last && self.of_bands.is_empty() {
            for page in &mut pages {
                end = page
                    .move_behind_overviews(end, &mut |from, to, length| copy(spill, from, out, to, length))?;
            }
        }
        self.write_outside(pages.iter().map(Cow::Borrowed), end, out)?;
        Ok(directories::finish(pages.iter().map(Cow::Borrowed), &pixels(end), self.big, out, 0)?)
    }

    /// Writes the metadata outside of directories; these follow the pixels.
    fn write_outside<'p>(
        &self,
        pages: impl Iterator<Item = Cow<'p, Written>>,
        end: u64,
        out: &File,
    ) -> io::Result<()> {
        match &self.outside {
            Some(outside) => outside.write(out, &directories::offsets_behind(pages, end, self.big)),
            None => Ok(()),
        }
    }

    /// Returns whether pages are packed once they are in their places: each is a picture by itself.
    fn are_packed(&self) -> bool {
        self.of_bands.is_empty() && !self.channels.planar && !self.are_last
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PageSink for Writer {
    fn announce(&self, bytes: Option<u64>) {
        let mut state = self.lock();
        let interleaved = self.channels.stride();
        state.announced += 1;
        if !(state.announced - 1).is_multiple_of(interleaved) {
            // All channels of a page have the same length, and the first was counted for all.
            return;
        }
        let start = state.announced_end;
        let bytes = bytes.and_then(|bytes| bytes.checked_mul(interleaved as u64));
        state.starts.push(start);
        state.pages.push(None);
        state.announced_end = start.zip(bytes).and_then(|(start, bytes)| start.checked_add(bytes));
    }

    fn write(
        &self,
        index: usize,
        decoded: &Decoded,
        slot: &mut [u8],
        to: PageOutput<'_>,
    ) -> Result<Option<u64>, CodecError> {
        let (help, out, spill) = (to.help, to.file(decoded)?, to.spill);
        let samples = Samples::new(decoded, slot);
        let interleaved = self.channels.stride();
        if interleaved == 1 {
            return self.write_page(index, decoded, &samples, help, out, spill);
        }
        let start = self.lock().take_of_spill(samples.plain_bytes());
        let mut at = start;
        samples.write_plain(help.cores, &mut |bytes| write_at(spill, bytes, &mut at))?;
        let (page, channel) = (index / interleaved, index % interleaved);
        let Some(starts) = self.lock().add_channel(page, channel, start, interleaved) else {
            return Ok(None);
        };
        let whole = samples.interleaved(Interleaved { spill, starts: &starts });
        self.write_page(page, decoded, &whole, help, out, spill)
    }
}

impl State {
    fn take_of_spill(&mut self, bytes: u64) -> u64 {
        self.spilled += bytes;
        self.spilled - bytes
    }

    /// Adds the offset of a page's channel in the spill.
    ///
    /// Returns the offsets of all of them once there are `count`.
    fn add_channel(&mut self, page: usize, channel: usize, start: u64, count: usize) -> Option<Vec<u64>> {
        let waiting = self.waiting.entry(page).or_default();
        waiting.push((channel, start));
        if waiting.len() < count {
            return None;
        }
        let mut all = self.waiting.remove(&page)?;
        all.sort_unstable();
        Some(all.into_iter().map(|(_, start)| start).collect())
    }

    fn add(&mut self, index: usize, mut written: Written, is_spilled: bool) {
        // Most pages of a stack have the same tags.
        let before = index.checked_sub(1).and_then(|before| self.pages[before].as_ref());
        if let Some(before) = before {
            written.share_kept(before.about());
        }
        self.pages[index] = Some(Page::new(written, is_spilled));
    }

    /// Moves written pages to their places, as far as all pages before them have theirs.
    ///
    /// If they are last, all wait in the spill until overviews lie before them.
    fn settle(&mut self, out: &File, spill: &File, of: &Writer) -> Result<(), CodecError> {
        while let Some(Some(Page::Loose(page))) = self.pages.get_mut(self.next) {
            if of.are_last {
                self.next += 1;
                continue;
            }
            if page.is_spilled {
                page.written.move_to(self.end, &mut |from, to, length| copy(spill, from, out, to, length))?;
                page.is_spilled = false;
            }
            self.end = page.written.end();
            if of.are_packed() {
                let (before, page) = self.pages.split_at_mut(self.next);
                let before = before.last().and_then(Option::as_ref);
                page[0] = page[0].take().map(|page| page.packed(before));
            }
            self.next += 1;
            if self.starts.get(self.next).is_some_and(|start| start.is_some_and(|start| start != self.end)) {
                return Err(CodecError::encoder(Format::Tiff, "a page is longer or shorter than expected"));
            }
        }
        Ok(())
    }
}

/// Returns pages of so many planes each, which have been written one by one.
fn in_planes(planes: Vec<Written>, count: usize) -> Vec<Written> {
    let mut planes = planes.into_iter();
    let pages = iter::from_fn(|| {
        let first = planes.next()?;
        Some(planes.by_ref().take(count - 1).fold(first, Written::with_plane))
    });
    pages.collect()
}

/// Writes bytes at an offset, and moves it to their end. Returns their own offset.
fn write_at(file: &File, bytes: &[u8], at: &mut u64) -> io::Result<u64> {
    file.write_all_at(bytes, *at)?;
    *at += bytes.len() as u64;
    Ok(*at - bytes.len() as u64)
}

/// Copies bytes from one place to another.
fn copy(from: &File, mut at: u64, to: &File, mut place: u64, mut length: u64) -> io::Result<()> {
    let mut buffer = vec![0; length.min(STRIP as u64) as usize];
    while length > 0 {
        let part = &mut buffer[..length.min(STRIP as u64) as usize];
        from.read_exact_at(part, at)?;
        to.write_all_at(part, place)?;
        let bytes = part.len() as u64;
        (at, place, length) = (at + bytes, place + bytes, length - bytes);
    }
    Ok(())
}
