//! The methods that have one LUT for a plane: counts, LUTs that follow from them, and pictures sent through LUTs.
#![allow(unsafe_code)]

use cuda::{Address, Launch, Result, arguments};
use equalize::{Colour, Depth, Method, Operation, Pixel};
use histeqd_kernels::{BATCH_GLOBAL8, BATCH_GLOBAL16};

use crate::batch::{Batch, Mask};
use crate::gpu::{Error, Stream};
use crate::kernels::{blocks, kind, threads};
use crate::resident;
use crate::rule::{Rule, colours};
use crate::workspace::{Pieces, Workspace};

/// Bytes of a workspace that a call may take for a part of a batch; it needs some per picture.
const MOST: u64 = 256 << 20;

/// The most pictures of a launch: a grid has at most 65,535 rows, and some kernels take one for each plane.
const MOST_PICTURES: u64 = 65_535 / 3;

/// The size of 65536 16-bit LUT entries or counters, in bytes.
const LEVELS16_BYTES: u32 = 128 << 10;

/// Pixels per block that holds such a table: enough to make filling it worthwhile.
const PIXELS_A_TABLE: u64 = 5 << 16;

/// Which planes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planes {
    /// Each channel, alpha included.
    Channels,
    /// Those that are equalized.
    Equalized {
        /// Whether each channel is one.
        per_channel: bool,
    },
}

impl Planes {
    /// Returns how many there are.
    pub const fn number(self, pixel: Pixel) -> usize {
        match self {
            Self::Channels => pixel.channels(),
            Self::Equalized { per_channel } => colours(pixel, per_channel),
        }
    }
}

impl Stream {
    /// Enhances the contrast of pictures by any method. `reference`: for [`Method::Match`], the pictures whose counts are those of the reference.
    /// `mask` is not for CLAHE.
    ///
    /// # Errors
    /// If there is too little memory, the operation has fewer levels, or the driver fails.
    ///
    /// # Safety
    /// The memory must be as described, in this GPU, and for this stream alone until all that is enqueued is done.
    pub unsafe fn equalize(
        &self,
        batch: &Batch,
        operation: &Operation,
        reference: Option<&Batch>,
        mask: Option<Mask>,
    ) -> std::result::Result<(), Error> {
        if batch.number == 0 {
            return Ok(());
        }
        if operation.levels.are_fewer(batch.layout.depth) {
            return Err(Error::FewerLevels);
        }
        if matches!(operation.colour, Colour::Hue | Colour::Lab) && batch.layout.pixel.colour_channels() > 1 {
            return Err(Error::Colour);
        }
        // SAFETY: guaranteed by the caller.
        unsafe {
            if let Method::Clahe(clahe) = operation.method {
                return Ok(self.clahe(batch, &clahe, operation)?);
            }
            let planes = colours(batch.layout.pixel, operation.is_per_channel());
            let (depth, levels) = (batch.layout.depth, batch.layout.depth.levels());
            let mut pieces = Pieces::default();
            let total = pieces.add((planes * levels * 8) as u64);
            let running = pieces.add((planes * levels * 8) as u64);
            let held = match reference {
                Some(reference) => {
                    let held = Workspace::new(self, &pieces, 0)?;
                    self.total(reference, operation.is_per_channel(), held.at(total))?;
                    self.run_up(held.at(total), planes, depth, held.at(running))?;
                    Some(held)
                }
                None => None,
            };
            let reference = held.as_ref().map_or(0, |held| held.at(running));
            let rule = Rule::new(operation.method, operation.strength, reference);
            if depth == Depth::Eight
                && mask.is_none()
                && let Some(plan) = resident::Plan::new(&self.gpu.kernels, batch, operation.is_per_channel())
            {
                return Ok(self.equalize_resident(batch, operation.is_per_channel(), rule, &plan)?);
            }
            Ok(self.equalize_in_steps(batch, operation.is_per_channel(), rule, mask)?)
        }
    }

    /// Counts, makes LUTs, and applies them.
    ///
    /// # Safety
    /// As [`Stream::equalize`].
    unsafe fn equalize_in_steps(
        &self,
        batch: &Batch,
        per_channel: bool,
        rule: Rule,
        mask: Option<Mask>,
    ) -> Result<()> {
        let planes = colours(batch.layout.pixel, per_channel);
        let depth = batch.layout.depth;
        let entries = (planes * depth.levels()) as u64;
        let each = entries * (4 + 2 + if depth == Depth::Sixteen { 8 } else { 0 });
        for (first, batch) in batch.parts((MOST / each).min(MOST_PICTURES)) {
            let number = u64::from(batch.number);
            let mut pieces = Pieces::default();
            let counts = pieces.add(number * entries * 4);
            let luts = pieces.add(number * entries * depth.bytes() as u64);
            let held = Workspace::new(self, &pieces, number * entries * 4)?;
            let mask = mask.map(|mask| mask.skip(first));
            // SAFETY: guaranteed by the caller; the workspace has room for what is made.
            unsafe {
                self.count(&batch, Planes::Equalized { per_channel }, mask, held.at(counts))?;
                let all = planes * batch.number as usize;
                self.make_luts((held.at(counts), false), all, planes, depth, rule, held.at(luts))?;
                self.map(&batch, per_channel, held.at(luts), entries as u32)?;
            }
        }
        Ok(())
    }

    /// Counts planes of pictures: number, plane, level (or bin, of which there are `bins`), in 64 bits each.
    ///
    /// # Errors
    /// If there is too little memory, or the driver fails.
    ///
    /// # Safety
    /// As [`Stream::equalize`]; `to` must have room for the counts.
    pub unsafe fn histograms(
        &self,
        batch: &Batch,
        planes: Planes,
        mask: Option<Mask>,
        bins: u32,
        to: Address,
    ) -> std::result::Result<(), Error> {
        let levels = batch.layout.depth.levels() as u32;
        let number_of_planes = planes.number(batch.layout.pixel) as u64;
        let each = number_of_planes * u64::from(levels) * 4;
        for (first, batch) in batch.parts((MOST / each).min(MOST_PICTURES / 2)) {
            let mut pieces = Pieces::default();
            let counts = pieces.add(u64::from(batch.number) * each);
            let held = Workspace::new(self, &pieces, u64::from(batch.number) * each)?;
            let to = to + u64::from(first) * number_of_planes * u64::from(bins) * 8;
            let grid = (bins.div_ceil(256), batch.number * number_of_planes as u32, 1);
            let launch = Launch { grid, block: (256, 1, 1), shared: 0 };
            let (counts, name) = (held.at(counts), ("batch_bins", ""));
            // SAFETY: the arguments match the parameters of batch_bins; the rest is guaranteed by the caller.
            unsafe {
                self.count(&batch, planes, mask.map(|mask| mask.skip(first)), counts)?;
                let arguments = arguments![counts, levels, bins, to];
                self.gpu.kernels.loaded.launch(self, (&BATCH_GLOBAL16, name), launch, arguments)?;
            }
        }
        Ok(())
    }

    /// Makes the LUTs of `planes` planes with these counts, 64 bits each, and as many of a reference if the method has one.
    ///
    /// # Errors
    /// If there is too little memory, or the driver fails.
    ///
    /// # Safety
    /// As [`Stream::equalize`]; `to` must have room for the LUTs.
    pub unsafe fn luts(
        &self,
        counts: Address,
        planes: usize,
        depth: Depth,
        operation: &Operation,
        reference: Option<Address>,
        to: Address,
    ) -> std::result::Result<(), Error> {
        let entries = depth.levels() as u64;
        let most = MOST_PICTURES as usize;
        for first in (0..planes).step_by(most) {
            let number = most.min(planes - first);
            let skipped = first as u64 * entries;
            let mut pieces = Pieces::default();
            let running = pieces.add(number as u64 * entries * 8);
            let held = Workspace::new(self, &pieces, 0)?;
            // SAFETY: guaranteed by the caller; the workspace has room for what is made.
            unsafe {
                if let Some(reference) = reference {
                    self.run_up(reference + skipped * 8, number, depth, held.at(running))?;
                }
                let rule = Rule::new(operation.method, operation.strength, held.at(running));
                let to = to + skipped * depth.bytes() as u64;
                self.make_luts((counts + skipped * 8, true), number, number, depth, rule, to)?;
            }
        }
        Ok(())
    }

    /// Sends pictures through the same LUTs: one for each plane that is equalized, or, if there `is_one`, the same for all.
    ///
    /// # Errors
    /// If there is too little memory, or the driver fails.
    ///
    /// # Safety
    /// As [`Stream::equalize`]; `luts` must have an entry for each level.
    pub unsafe fn apply(
        &self,
        batch: &Batch,
        per_channel: bool,
        luts: Address,
        is_one: bool,
    ) -> std::result::Result<(), Error> {
        let bytes = (batch.layout.depth.levels() * batch.layout.depth.bytes()) as u64;
        let planes = colours(batch.layout.pixel, per_channel) as u64;
        let mut pieces = Pieces::default();
        let copies = pieces.add(planes * bytes);
        let held = if is_one && planes > 1 { Some(Workspace::new(self, &pieces, 0)?) } else { None };
        let luts = match &held {
            Some(held) => {
                for plane in 0..planes {
                    // SAFETY: guaranteed by the caller; the workspace has room for all planes.
                    unsafe { self.copy(luts, held.at(copies) + plane * bytes, bytes)? };
                }
                held.at(copies)
            }
            None => luts,
        };
        for (_, batch) in batch.parts(MOST_PICTURES) {
            // SAFETY: guaranteed by the caller.
            unsafe { self.map(&batch, per_channel, luts, 0)? };
        }
        Ok(())
    }

    /// Adds up the counts of all pictures, in 64 bits.
    ///
    /// # Safety
    /// As [`Stream::equalize`].
    unsafe fn total(&self, batch: &Batch, per_channel: bool, to: Address) -> Result<()> {
        let planes = Planes::Equalized { per_channel };
        let size = (planes.number(batch.layout.pixel) * batch.layout.depth.levels()) as u32;
        let (number, bytes) = (batch.number, u64::from(batch.number) * u64::from(size) * 4);
        let mut pieces = Pieces::default();
        let counts = pieces.add(bytes);
        let held = Workspace::new(self, &pieces, bytes)?;
        let counts = held.at(counts);
        let launch = Launch { grid: (size.div_ceil(256), 1, 1), block: (256, 1, 1), shared: 0 };
        // SAFETY: the arguments match the parameters of batch_total; the rest is guaranteed by the caller.
        unsafe {
            for (first, part) in batch.parts(MOST_PICTURES) {
                self.count(&part, planes, None, counts + u64::from(first) * u64::from(size) * 4)?;
            }
            let arguments = arguments![counts, number, size, to];
            self.gpu.kernels.loaded.launch(self, (&BATCH_GLOBAL16, ("batch_total", "")), launch, arguments)
        }
    }

    /// Adds to the counts of each picture's planes, 32 bits each, which follow one another.
    ///
    /// # Safety
    /// As [`Stream::equalize`].
    unsafe fn count(&self, batch: &Batch, planes: Planes, mask: Option<Mask>, counts: Address) -> Result<()> {
        let (layout, kernels) = (&batch.layout, &self.gpu.kernels);
        let (mask_at, mask_pitch) = mask.map_or((0, 0), |mask| (mask.at, mask.pitch));
        let pictures = Batch { to: batch.from, ..*batch }.argument();
        let stride = (planes.number(layout.pixel) * layout.depth.levels()) as u32;
        let per_channel = match planes {
            Planes::Channels => true,
            Planes::Equalized { per_channel } => per_channel,
        };
        let kind = kind(layout.pixel, per_channel);
        let (pixels, threads) = (layout.pixels(), threads(layout.pixel));
        // SAFETY: the arguments match the parameters of batch_count*; the rest is guaranteed by the caller.
        unsafe {
            match layout.depth {
                Depth::Eight => {
                    // A few packs for each thread at least.
                    let grid = kernels.spread(pixels, batch.number, 1 << 16, blocks(layout.pixel));
                    let launch = Launch { grid, block: (threads, 1, 1), shared: 0 };
                    let arguments = arguments![pictures, mask_at, mask_pitch, counts, stride];
                    kernels.loaded.launch(
                        self,
                        (&BATCH_GLOBAL8, ("batch_count8", kind)),
                        launch,
                        arguments,
                    )?;
                }
                Depth::Sixteen => {
                    let taken = if layout.pixel == Pixel::Rgb { 24 << 10 } else { 1 << 10 };
                    let range = kernels.range16(taken);
                    let planes = colours(layout.pixel, per_channel) as u32;
                    let (x, ..) = kernels.spread(pixels, batch.number * planes, PIXELS_A_TABLE, 1);
                    let launch = Launch {
                        grid: (x, 65_536 / range, batch.number * planes),
                        block: (threads, 1, 1),
                        shared: range * 2,
                    };
                    let arguments = arguments![pictures, mask_at, mask_pitch, counts, stride, range];
                    kernels.loaded.launch(
                        self,
                        (&BATCH_GLOBAL16, ("batch_count16", kind)),
                        launch,
                        arguments,
                    )?;
                }
            }
            if planes != Planes::Channels || !layout.pixel.has_alpha() {
                return Ok(());
            }
            let channels = layout.pixel.channels() as u32;
            let counts = counts + u64::from(channels - 1) * layout.depth.levels() as u64 * 4;
            let grid = kernels.spread(pixels, batch.number, 1 << 14, 2);
            let launch = Launch { grid, block: (1024, 1, 1), shared: 0 };
            let arguments = arguments![pictures, channels, mask_at, mask_pitch, counts, stride];
            let kernel = match layout.depth {
                Depth::Eight => (&BATCH_GLOBAL8, ("batch_count_alpha8", "")),
                Depth::Sixteen => (&BATCH_GLOBAL16, ("batch_count_alpha16", "")),
            };
            kernels.loaded.launch(self, kernel, launch, arguments)
        }
    }

    /// Makes the LUTs of `all` planes, of which `planes` follow one another in a picture. `counts`: and whether they have 64 bits.
    ///
    /// # Safety
    /// As [`Stream::equalize`].
    unsafe fn make_luts(
        &self,
        (counts, wide): (Address, bool),
        all: usize,
        planes: usize,
        depth: Depth,
        rule: Rule,
        luts: Address,
    ) -> Result<()> {
        let (kernels, planes) = (&self.gpu.kernels, planes as u32);
        if depth == Depth::Eight {
            let launch = Launch { grid: (all as u32, 1, 1), block: (256, 1, 1), shared: 0 };
            let name = (if wide { "batch_luts_of_sums8" } else { "batch_luts8" }, "");
            let arguments = arguments![counts, rule, planes, luts];
            // SAFETY: the arguments match the parameters of batch_luts8; the rest is guaranteed by the caller.
            return unsafe { kernels.loaded.launch(self, (&BATCH_GLOBAL8, name), launch, arguments) };
        }
        let launch = Launch { grid: (16, all as u32, 1), block: (1024, 1, 1), shared: 0 };
        let name = (if wide { "luts16_of_sums" } else { "luts16_of_counts" }, "");
        let arguments = arguments![counts, rule, planes, luts];
        // SAFETY: the arguments match the parameters of luts16; the rest is guaranteed by the caller.
        unsafe { kernels.loaded.launch(self, (&BATCH_GLOBAL16, name), launch, arguments) }
    }

    /// Makes the running sums of the counts of planes, 64 bits each.
    ///
    /// # Safety
    /// As [`Stream::equalize`].
    unsafe fn run_up(&self, counts: Address, planes: usize, depth: Depth, running: Address) -> Result<()> {
        let kernels = &self.gpu.kernels;
        if depth == Depth::Eight {
            let launch = Launch { grid: (planes as u32, 1, 1), block: (256, 1, 1), shared: 0 };
            let name = ("batch_running8", "");
            // SAFETY: the arguments match the parameters of batch_running8; the rest is guaranteed by the caller.
            return unsafe {
                kernels.loaded.launch(self, (&BATCH_GLOBAL16, name), launch, arguments![counts, running])
            };
        }
        let mut pieces = Pieces::default();
        let sums = pieces.add(planes as u64 * 64 * 8);
        let held = Workspace::new(self, &pieces, 0)?;
        let sums = held.at(sums);
        let launch = Launch { grid: (64, planes as u32, 1), block: (1024, 1, 1), shared: 0 };
        let run = |name, arguments: &mut [*mut std::ffi::c_void]| {
            // SAFETY: the arguments match the parameters of these kernels; the rest is guaranteed by the caller.
            unsafe { kernels.loaded.launch(self, (&BATCH_GLOBAL16, (name, "")), launch, arguments) }
        };
        run("batch_sums", arguments![counts, sums])?;
        run("batch_running", arguments![counts, sums, running])
    }

    /// Sends pictures through LUTs; those of two pictures are `stride` entries apart.
    ///
    /// # Safety
    /// As [`Stream::equalize`].
    unsafe fn map(&self, batch: &Batch, per_channel: bool, luts: Address, stride: u32) -> Result<()> {
        let (layout, kernels) = (&batch.layout, &self.gpu.kernels);
        let pictures = batch.argument();
        let (pixels, threads) = (layout.pixels(), threads(layout.pixel));
        let kind = kind(layout.pixel, per_channel);
        let taken = if layout.pixel == Pixel::Rgb { 24 << 10 } else { 0 };
        let fits = kernels.shared >= LEVELS16_BYTES + taken && colours(layout.pixel, per_channel) == 1;
        let arguments = arguments![pictures, luts, stride];
        let (kernel, grid, shared) = match layout.depth {
            Depth::Eight => {
                let grid = kernels.spread(pixels, batch.number, 1 << 14, blocks(layout.pixel));
                ((&BATCH_GLOBAL8, ("batch_map8", kind)), grid, 0)
            }
            Depth::Sixteen if fits && pixels > PIXELS_A_TABLE => {
                let grid = kernels.spread(pixels, batch.number, PIXELS_A_TABLE, 1);
                ((&BATCH_GLOBAL16, ("batch_map16_shared", kind)), grid, LEVELS16_BYTES)
            }
            Depth::Sixteen => {
                let grid = kernels.spread(pixels, batch.number, 1 << 13, blocks(layout.pixel));
                ((&BATCH_GLOBAL16, ("batch_map16", kind)), grid, 0)
            }
        };
        // SAFETY: the arguments match the parameters of batch_map*; the rest is guaranteed by the caller.
        unsafe {
            kernels.loaded.launch(self, kernel, Launch { grid, block: (threads, 1, 1), shared }, arguments)
        }
    }
}
