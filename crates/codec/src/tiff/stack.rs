//! Files of several pages: where each is, and how they are written, each as soon as it is there, from any number of threads.
//!
//! The pixels of the pages lie in the order of the pages, whatever the order in which they come, and all directories lie behind them. A page
//! whose place depends on the length of one that has not come yet goes to another file (`spill`) meanwhile.
//!
//! Channels that are no colours are pages too, whether they lie in planes or are interleaved. If they are, each goes to the spill as it is, and
//! whoever brings the last one of a directory interleaves them.
//!
//! ImageJ and tifffile store large stacks with a directory for the first page alone: the others lie behind it, and the description tells how
//! many they are. They are written back the same way, with the directory before the pages, because it has to lie within 4 GiB.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::iter;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::foreign::EACH_CHANNEL;
use super::super::ifd::{self, Directory, Form, Value};
use super::super::{CodecError, Decoded, Format};
use super::channels::Channels;
use super::dimensions::Order;
use super::header::Header;
use super::method::Method;
use super::pages::Pictures;
use super::strips::STRIP;
use super::values::FirstPage;
use super::write::{Interleaved, Samples, Written};
use super::{Parts, arrangement, imagej, malformed, pages, tags, volume};
use crate::cores::Cores;
use crate::reader::Reader;

/// The header of a BigTIFF. That of a TIFF is shorter.
const HEADER: u64 = 16;

/// Room for the tags that are written besides those that a page had.
const DESCRIBED: u64 = 4 << 10;

/// Where a page is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(super) directory: u64,
    pub(super) part: Part,
    /// Which of the directory's channels it is.
    pub(super) channel: usize,
    pub(super) channels: Channels,
    pub(super) first_page: FirstPage,
}

/// What of that which begins with a page that has a directory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// The page.
    Page,
    /// One of those that lie behind each other: how many lie before it, of which the first has the directory.
    Behind(u64),
    /// These rows of the page.
    Rows { first: u32, count: u32 },
}

impl Place {
    /// Refuses a page that has other channels than the first one, which decide about the number of pages.
    pub(super) fn check(&self, header: &Header) -> Result<(), CodecError> {
        if header.channels == self.channels {
            return Ok(());
        }
        Err(CodecError::unsupported(
            "a TIFF whose pages differ in their channels that are no colours",
            EACH_CHANNEL,
        ))
    }

    /// Has a directory and what was read of it tell of this place alone.
    pub(super) fn narrow(&self, directory: &mut Directory, header: &mut Header) {
        match self.part {
            Part::Page => {}
            Part::Behind(pages) => {
                let start =
                    directory.numbers(tags::STRIP_OFFSETS).and_then(|offsets| offsets.get(0)).unwrap_or(0);
                let bytes = page_bytes(header);
                join_strips(directory, header, start.saturating_add(pages.saturating_mul(bytes)));
            }
            Part::Rows { first, count } => header.narrow(first, count),
        }
    }
}

/// The pages of a file.
#[derive(Debug)]
pub(crate) struct Stack {
    /// The offsets of their directories.
    directories: Vec<u64>,
    /// How many pages the only directory stands for; 1 if each has its own.
    joined: u64,
    /// The channels of each directory that are no colours.
    channels: Channels,
    /// Of which channel the pages are, as the first directory tells.
    order: Order,
    big: bool,
    /// The bytes of the first directory.
    directory_bytes: u64,
    /// Whether the pages are the slices of one volume.
    is_volume: bool,
    first_page: FirstPage,
}

impl Stack {
    /// Returns the pages of a file of these pictures, if there are several. This directory is of the first.
    pub(super) fn new(
        file: &Reader<'_>,
        (header, first_page): (&Header, FirstPage),
        directory: &mut Directory,
        Pictures { places, numbers, .. }: Pictures,
    ) -> Result<Option<Self>, CodecError> {
        let told = if places.len() == 1 { told_pictures(directory) } else { 1 };
        let channels = header.channels;
        if told > 1 && channels != Channels::ONE {
            let what = format!("a TIFF of {told} pictures of {} channels in one page", channels.count);
            return Err(CodecError::unsupported(what, EACH_CHANNEL));
        }
        let joined = if told > 1 { joined_pages(file, header, directory, places[0], told)? } else { 1 };
        if joined > 1 {
            let start =
                directory.numbers(tags::STRIP_OFFSETS).and_then(|offsets| offsets.get(0)).unwrap_or(0);
            join_strips(directory, header, start);
        }
        let big = header.form.big;
        let directory_bytes = ifd::written_bytes(&directory.borrowed(), Form::written(big));
        let description = directory.bytes(tags::DESCRIPTION).unwrap_or_default();
        let is_volume = volume::is_one(description) && channels == Channels::ONE;
        let pages = (places.len() as u64).saturating_mul(joined);
        pages::check_count(pages.saturating_mul(channels.count as u64))?;
        if pages == 1 && channels == Channels::ONE {
            return Ok(None);
        }
        let order = Order::new(description, &numbers, pages, channels.count);
        Ok(Some(Self {
            directories: places,
            joined,
            channels,
            order,
            big,
            directory_bytes,
            is_volume,
            first_page,
        }))
    }

    /// Returns the number of pages.
    pub(crate) fn count(&self) -> usize {
        self.directories.len() * self.joined as usize * self.channels.count
    }

    /// Returns of which channel a page is; `None` if that is not told.
    pub(crate) fn channel(&self, index: usize) -> Option<usize> {
        let count = self.channels.count;
        let of_directory = self.order.channel(index / count)? as usize;
        Some(of_directory * count + index % count)
    }

    /// Returns whether the pages are the slices of one volume, as far as the file tells.
    pub(crate) const fn is_volume(&self) -> bool {
        self.is_volume
    }

    /// Returns where a page is.
    pub(crate) fn place(&self, index: usize) -> Place {
        let channels = self.channels;
        let (page, channel) = (index / channels.count, index % channels.count);
        let (directory, part) = match self.joined {
            ..=1 => (self.directories[page], Part::Page),
            _ => (self.directories[0], Part::Behind(page as u64)),
        };
        Place { directory, part, channel, channels, first_page: self.first_page }
    }

    /// Returns what writes the pages back.
    pub(crate) fn writer(&self) -> Writer {
        let joined = self.joined > 1;
        let room = if joined { (self.directory_bytes + DESCRIBED).next_multiple_of(4096) } else { 0 };
        Writer { big: self.big, joined, ..Writer::behind(HEADER + room, self.count(), self.channels) }
    }
}

/// Returns the number of pages that lie behind each other, if the description tells of `told` and the pixels can lie so; otherwise 1.
fn joined_pages(
    file: &Reader<'_>,
    header: &Header,
    directory: &Directory,
    at: u64,
    told: u64,
) -> Result<u64, CodecError> {
    let parts = Parts::new(file, header, directory)?;
    let bytes = page_bytes(header);
    if header.method != Method::Stored || header.planar || header.tiled || !parts.is_contiguous(bytes) {
        return Ok(1);
    }
    let room = file.file_bytes().saturating_sub(parts.start()) / bytes.max(1);
    if room >= told {
        pages::check_count(told)?;
        return Ok(told);
    }
    // Whoever takes a page out of a stack may keep its description, but not the place of its directory.
    if room < 2 && at > parts.start() {
        return Ok(1);
    }
    Err(malformed(format!(
        "its description tells of {told} pictures, but there is room for {room}; it may be truncated"
    )))
}

/// Returns the bytes of the stored samples of a page.
fn page_bytes(header: &Header) -> u64 {
    (header.row_bytes(header.layout.width) as u64).saturating_mul(header.layout.height.into())
}

/// Has a directory describe one strip at `start`.
fn join_strips(directory: &mut Directory, header: &Header, start: u64) {
    let rows = header.part.1;
    let strip = (header.row_bytes(header.layout.width) as u64).saturating_mul(rows.into());
    let count = u64::from(header.layout.height.div_ceil(rows));
    let total = page_bytes(header);
    let offsets: Vec<u64> = (0..count).map(|number| start.saturating_add(number * strip)).collect();
    let lengths: Vec<u64> = (0..count).map(|number| strip.min(total - number * strip)).collect();
    directory.set(tags::STRIP_OFFSETS, Value::longs(&offsets));
    directory.set(tags::STRIP_BYTE_COUNTS, Value::longs(&lengths));
}

/// Writes the pages of a file.
#[derive(Debug)]
pub(crate) struct Writer {
    big: bool,
    /// Whether only the first page has a directory.
    joined: bool,
    /// Whether the pages are bands of one picture.
    are_bands: bool,
    /// How many pages are written one by one: those whose channels are interleaved are one.
    count: usize,
    channels: Channels,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Where the pages begin that have been announced, as far as that is known before they are written.
    starts: Vec<Option<u64>>,
    /// Where the next one to be announced begins.
    announced_end: Option<u64>,
    /// The first page that is not in its place yet.
    next: usize,
    /// Where it begins.
    end: u64,
    /// Bytes of the spill.
    spilled: u64,
    /// The pages that are written, be it to the spill.
    pages: Vec<Option<Page>>,
    /// How many channels have been announced.
    announced: usize,
    /// Of pages whose channels are interleaved, where those that have come are in the spill.
    waiting: HashMap<usize, Vec<(usize, u64)>>,
}

/// A page whose pixels are written.
#[derive(Debug)]
struct Page {
    written: Written,
    is_spilled: bool,
}

impl Writer {
    /// Returns what writes pages that did not come from a TIFF.
    pub(crate) fn new(count: usize) -> Self {
        Self::behind(HEADER, count, Channels::ONE)
    }

    /// Returns what writes pages from the offset `first` on.
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
        Self { big: false, joined: false, are_bands: false, count, channels, state: Mutex::new(state) }
    }

    /// Returns what writes bands of one picture.
    pub(super) fn of_bands(count: usize, big: bool) -> Self {
        Self { big, are_bands: true, ..Self::new(count) }
    }

    /// Tells that the next page will be written, with how many bytes of pixels if that is known. Pages are announced in their order.
    pub(crate) fn announce(&self, bytes: Option<u64>) {
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

    /// Writes a page that has been announced. Returns the bytes of the file once it is complete.
    pub(crate) fn write(
        &self,
        index: usize,
        decoded: &Decoded,
        slot: &mut [u8],
        cores: &Cores,
        out: &File,
        spill: &File,
    ) -> Result<Option<u64>, CodecError> {
        let samples = Samples::new(decoded, slot);
        let interleaved = self.channels.stride();
        if interleaved == 1 {
            return self.write_page(index, decoded, &samples, cores, (out, spill));
        }
        let start = self.lock().take_of_spill(samples.all_bytes());
        let mut at = start;
        samples.write_plain(cores, &mut |bytes| write_at(spill, bytes, &mut at))?;
        let (page, channel) = (index / interleaved, index % interleaved);
        let Some(starts) = self.lock().add_channel(page, (channel, start), interleaved) else {
            return Ok(None);
        };
        let whole = samples.interleaved(Interleaved { spill, starts: &starts });
        self.write_page(page, decoded, &whole, cores, (out, spill))
    }

    /// Writes a page to its place, or to the spill if that is not known yet.
    fn write_page(
        &self,
        index: usize,
        decoded: &Decoded,
        samples: &Samples<'_>,
        cores: &Cores,
        (out, spill): (&File, &File),
    ) -> Result<Option<u64>, CodecError> {
        let place = {
            let state = self.lock();
            state.starts[index].or_else(|| (state.next == index).then_some(state.end))
        };
        let strips = match place {
            Some(mut at) => samples.write(cores, &mut |bytes| write_at(out, bytes, &mut at)),
            None => samples.write(cores, &mut |bytes| {
                let mut at = self.lock().take_of_spill(bytes.len() as u64);
                write_at(spill, bytes, &mut at)
            }),
        }?;
        let page = Page { written: samples.written(decoded, strips), is_spilled: place.is_none() };
        let mut state = self.lock();
        state.add(index, page);
        state.settle(out, spill)?;
        if state.next < self.count { Ok(None) } else { self.finish(&mut state, out).map(Some) }
    }

    /// Writes the directories, and the header that leads to them. Returns the bytes of the file.
    fn finish(&self, state: &mut State, out: &File) -> Result<u64, CodecError> {
        let end = state.end;
        let mut pages: Vec<_> = state.pages.drain(..).flatten().map(|page| page.written).collect();
        if self.are_bands {
            pages = Written::joined(pages).into_iter().collect();
        }
        if self.joined {
            pages.truncate(1);
        }
        if self.channels.planar {
            pages = in_planes(pages, self.channels.count);
        }
        let described: Vec<Directory> = pages.iter().map(Written::describe).collect();
        let entries = || pages.iter().zip(&described).map(|(page, described)| page.entries(described));
        let [small, large] = [false, true].map(|big| {
            let lengths = entries().map(|entries| ifd::written_bytes(&entries, Form::written(big)));
            lengths.collect::<Vec<_>>()
        });
        let room = state.starts[0].map_or(0, |start| start - HEADER);
        let is_before = self.joined && !self.big && small[0] <= room;
        let behind = end.next_multiple_of(2);
        let big = self.big || !is_before && behind + small.iter().sum::<u64>() > u32::MAX.into();
        let lengths = if big { large } else { small };
        let first = if is_before { HEADER } else { behind };
        let (mut at, mut length) = (first, end);
        let mut to = BufWriter::new(At { file: out, at: first });
        for (entries, bytes) in entries().zip(&lengths) {
            let is_last = at - first + bytes == lengths.iter().sum::<u64>();
            let next = if is_last { 0 } else { at + bytes };
            ifd::write_to(&mut to, &entries, big, at, next)?;
            at += bytes;
            length = length.max(at);
        }
        to.flush()?;
        drop(to);
        let header = if big {
            [&b"II+\0\x08\0\0\0"[..], &first.to_le_bytes()].concat()
        } else {
            [&b"II*\0"[..], &(first as u32).to_le_bytes()].concat()
        };
        out.write_all_at(&header, 0)?;
        Ok(length)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take_of_spill(&mut self, bytes: u64) -> u64 {
        self.spilled += bytes;
        self.spilled - bytes
    }

    /// Adds where a channel of a page is in the spill. Returns where all of them are once there are so many.
    fn add_channel(&mut self, page: usize, channel: (usize, u64), count: usize) -> Option<Vec<u64>> {
        let waiting = self.waiting.entry(page).or_default();
        waiting.push(channel);
        if waiting.len() < count {
            return None;
        }
        let mut all = self.waiting.remove(&page)?;
        all.sort_unstable();
        Some(all.into_iter().map(|(_, start)| start).collect())
    }

    fn add(&mut self, index: usize, mut page: Page) {
        // Most pages of a stack have the same tags.
        let before = index.checked_sub(1).and_then(|before| self.pages[before].as_ref());
        if let Some(before) = before {
            page.written.share_kept(&before.written);
        }
        self.pages[index] = Some(page);
    }

    /// Has pages take their places behind those that have, as far as they are written.
    fn settle(&mut self, out: &File, spill: &File) -> Result<(), CodecError> {
        while let Some(Some(page)) = self.pages.get_mut(self.next) {
            if page.is_spilled {
                page.written
                    .strips
                    .move_to(self.end, |from, to, length| copy(spill, from, out, to, length))?;
                page.is_spilled = false;
            }
            self.end = page.written.strips.end;
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

/// Writes bytes at an offset, which moves on behind them. Returns where they are.
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

/// A file that is written from an offset on.
struct At<'f> {
    file: &'f File,
    at: u64,
}

impl Write for At<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write_at(bytes, self.at)?;
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns how many pictures lie behind each other, beginning with the only one that has a directory: ImageJ and tifffile store large stacks
/// so, and tell their number in the description. 1 if it tells of no others.
fn told_pictures(directory: &Directory) -> u64 {
    let description = directory.bytes(tags::DESCRIPTION).unwrap_or_default();
    let told = imagej::images(description).or_else(|| {
        let series = arrangement::series(description).filter(|series| series.truncated)?;
        let page = [tags::WIDTH, tags::HEIGHT, tags::SAMPLES_PER_PIXEL];
        let samples = product(&page.map(|tag| directory.number(tag).unwrap_or(1))).max(1);
        Some(product(&series.shape) / samples)
    });
    told.unwrap_or(1).max(1)
}

fn product(factors: &[u64]) -> u64 {
    factors.iter().fold(1, |product, &factor| product.saturating_mul(factor))
}
