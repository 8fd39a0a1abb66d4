//! The methods with one LUT for a plane.
//!
//! Planes are counted, LUTs follow from the counts, and pictures are sent through the LUTs.
#![allow(unsafe_code)]

use cuda::{Address, Launch, Result, arguments};
use equalize::{Colour, Depth, Method, Operation, Pixel};
use histeqd_kernels::GLOBAL16;

use crate::batch::{Batch, BatchPlanes, Counts, Luts, Mask};
use crate::colours::{Colouring, Relighting};
use crate::gpu::{Error, Stream};
use crate::kernels::Kernels;
use crate::luts::LutSteps;
use crate::rule::{Preparation, Rule, colours};
use crate::tables::Planes;
use crate::workspace::{Pieces, Workspace};

/// Bytes of a workspace that a call may take for a part of a batch; each picture needs some.
const MOST: u64 = 256 << 20;

/// The most pictures of a launch.
///
/// A grid has at most 65,535 rows, and some kernels take one for each plane.
const MOST_PICTURES: u64 = 65_535 / 3;

impl Stream {
    /// Enhances the contrast of pictures by any method.
    ///
    /// For [`Method::Match`], `reference` are the pictures with the counts of the reference. `mask`
    /// is not for CLAHE.
    ///
    /// # Errors
    /// If there is too little memory, the operation has fewer levels, or the driver fails.
    ///
    /// # Safety
    /// The memory must be as described, in this GPU, and for this stream alone until all that is
    /// enqueued is done.
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
        // SAFETY: guaranteed by the caller.
        unsafe {
            if let Method::Clahe(clahe) = operation.method {
                return Ok(self.clahe(batch, &clahe, operation)?);
            }
            let relighting = Relighting::new(self, operation, &batch.layout)?;
            let colouring = relighting.colouring;
            let planes = colours(batch.layout.pixel, colouring.per_channel);
            let (depth, levels) = (batch.layout.depth, batch.layout.depth.levels());
            let mut pieces = Pieces::default();
            // A reference may have colours even if the pictures are gray.
            let total = pieces.add((3 * levels * 8) as u64);
            let running = pieces.add((planes * levels * 8) as u64);
            let prepared = pieces.add((planes * levels * 8) as u64);
            let held = match reference {
                Some(reference) => {
                    let held = Workspace::new(self, &pieces, 0)?;
                    let relighting = Relighting::new(self, operation, &reference.layout)?;
                    let counted = Planes::equalized(relighting.colouring);
                    self.total(reference, counted, held.at(total))?;
                    let own = counted.number(reference.layout.pixel);
                    let counts = match Preparation::of_reference(operation, own, planes) {
                        Some(preparation) => {
                            let from = Counts { at: held.at(total), are_wide: true };
                            let to = held.at(prepared);
                            self.gpu.kernels.prepare(self, from, planes, levels as u32, preparation, to)?;
                            to
                        }
                        None => held.at(total),
                    };
                    self.run_up(counts, planes, depth, held.at(running))?;
                    Some(held)
                }
                None => None,
            };
            let reference = held.as_ref().map_or(0, |held| held.at(running));
            let steps = LutSteps::new(operation, batch.layout.pixel, reference);
            let plain = steps.only_rule().filter(|_| mask.is_none() && colouring.relight.is_none());
            if let Some(rule) = plain.filter(|_| depth == Depth::Eight) {
                return Ok(self.equalize_at_once(batch, operation.is_per_channel(), rule)?);
            }
            if operation.method == Method::Global
                && plain.is_some()
                && self.gpu.kernels.are_made_by_blocks(batch, operation.is_per_channel())
            {
                return Ok(self.equalize_by_blocks(batch, operation)?);
            }
            Ok(self.equalize_in_steps(batch, colouring, &steps, mask)?)
        }
    }

    /// Equalizes pictures of depth 8, by any rule.
    ///
    /// # Safety
    /// As [`Stream::equalize`].
    unsafe fn equalize_at_once(&self, batch: &Batch, per_channel: bool, rule: Rule) -> Result<()> {
        let planes = colours(batch.layout.pixel, per_channel);
        for (_, batch) in batch.parts(MOST / Kernels::equalize8_bytes(1, planes)) {
            let bytes = Kernels::equalize8_bytes(batch.number, planes);
            let mut pieces = Pieces::default();
            let memory = pieces.add(bytes);
            let held = Workspace::new(self, &pieces, bytes)?;
            // SAFETY: guaranteed by the caller; the workspace has room for the counts.
            unsafe { self.gpu.kernels.equalize8(self, &batch, per_channel, rule, held.at(memory))? };
        }
        Ok(())
    }

    /// Equalizes small pictures of depth 16.
    ///
    /// # Safety
    /// As [`Stream::equalize`].
    unsafe fn equalize_by_blocks(&self, batch: &Batch, operation: &Operation) -> Result<()> {
        let each = batch.layout.depth.levels() as u64 * 4;
        for (_, batch) in batch.parts((MOST / each).min(MOST_PICTURES)) {
            let mut pieces = Pieces::default();
            let spill = pieces.add(u64::from(batch.number) * each);
            let held = Workspace::new(self, &pieces, u64::from(batch.number) * each)?;
            // SAFETY: guaranteed by the caller; the workspace has room for the counts.
            unsafe { self.gpu.kernels.equalize16(self, &batch, operation.strength, held.at(spill))? };
        }
        Ok(())
    }

    /// Counts, makes LUTs, and applies them.
    ///
    /// # Safety
    /// As [`Stream::equalize`].
    unsafe fn equalize_in_steps(
        &self,
        batch: &Batch,
        colouring: Colouring,
        steps: &LutSteps,
        mask: Option<Mask>,
    ) -> Result<()> {
        let planes = colours(batch.layout.pixel, colouring.per_channel);
        let depth = batch.layout.depth;
        let entries = (planes * depth.levels()) as u64;
        let each = entries * (4 + depth.bytes() as u64) + planes as u64 * steps.bytes(depth);
        for (first, batch) in batch.parts((MOST / each).min(MOST_PICTURES)) {
            let number = u64::from(batch.number);
            let mut pieces = Pieces::default();
            let counts = pieces.add(number * entries * 4);
            let luts = pieces.add(number * entries * depth.bytes() as u64);
            let room = steps.add_room(number * planes as u64, depth, &mut pieces);
            let held = Workspace::new(self, &pieces, number * entries * 4)?;
            let mask = mask.map(|mask| mask.skip(first));
            // SAFETY: guaranteed by the caller; the workspace has room for counts and LUTs.
            unsafe {
                let (kernels, room) = (&self.gpu.kernels, room.in_memory(held.at(0)));
                let counts = Counts { at: held.at(counts), are_wide: false };
                kernels.count(self, &batch, Planes::equalized(colouring), mask, counts.at)?;
                let planes = BatchPlanes::of(&batch, planes);
                let luts = Luts { at: held.at(luts), stride: entries as u32 };
                kernels.make_luts_in_steps(self, counts, planes, steps, &room, luts.at)?;
                kernels.map(self, &batch, colouring, luts)?;
            }
        }
        Ok(())
    }

    /// Counts planes of pictures, in 64 bits each.
    ///
    /// The order is picture, plane, level (or bin, of which there are `bins`). The planes are the
    /// equalized ones of this `colour`, or each channel, including alpha, if it is `None`.
    ///
    /// # Errors
    /// If there is too little memory, or the driver fails.
    ///
    /// # Safety
    /// As [`Stream::equalize`]; `to` must have room for the counts.
    pub unsafe fn histograms(
        &self,
        batch: &Batch,
        colour: Option<Colour>,
        mask: Option<Mask>,
        bins: u32,
        to: Address,
    ) -> std::result::Result<(), Error> {
        let operation = Operation { colour: colour.unwrap_or_default(), ..Operation::new(Method::Global) };
        let relighting = Relighting::new(self, &operation, &batch.layout)?;
        let planes = colour.map_or(Planes::Channels, |_| Planes::equalized(relighting.colouring));
        let linked = Preparation::sum_of_linked(&operation, batch.layout.pixel);
        let levels = batch.layout.depth.levels() as u32;
        let number_of_planes = planes.number(batch.layout.pixel) as u64;
        let each = number_of_planes * u64::from(levels) * 4;
        for (first, batch) in batch.parts((MOST / each).min(MOST_PICTURES / 2)) {
            let mut pieces = Pieces::default();
            let counts = pieces.add(u64::from(batch.number) * each);
            let of_planes = u64::from(batch.number) * number_of_planes * u64::from(bins) * 8;
            let binned = pieces.add(if linked.is_some() { of_planes } else { 0 });
            let held = Workspace::new(self, &pieces, u64::from(batch.number) * each)?;
            let planes_of_result = linked.map_or(number_of_planes, |linked| u64::from(linked.copies));
            let to = to + u64::from(first) * planes_of_result * u64::from(bins) * 8;
            let binned = if linked.is_some() { held.at(binned) } else { to };
            let grid = (bins.div_ceil(256), batch.number * number_of_planes as u32, 1);
            let launch = Launch { grid, block: (256, 1, 1), shared: 0 };
            let (counts, name) = (held.at(counts), ("bins", ""));
            // SAFETY: the arguments match the parameters of bins; the rest is guaranteed by the
            // caller.
            unsafe {
                self.gpu.kernels.count(self, &batch, planes, mask.map(|mask| mask.skip(first)), counts)?;
                let arguments = arguments![counts, levels, bins, binned];
                self.gpu.kernels.loaded.launch(self, &GLOBAL16, name, launch, arguments)?;
                if let Some(linked) = linked {
                    let (binned, number) = (Counts { at: binned, are_wide: true }, batch.number as usize);
                    self.gpu.kernels.prepare(self, binned, number, bins, linked, to)?;
                }
            }
        }
        Ok(())
    }

    /// Makes the LUTs of `planes` planes with these counts, 64 bits each.
    ///
    /// `reference` are as many counts of a reference, if the method has one.
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
            let steps = |reference| LutSteps::new(operation, Pixel::Gray, reference);
            let room = steps(0).add_room(number as u64, depth, &mut pieces);
            let held = Workspace::new(self, &pieces, 0)?;
            // SAFETY: guaranteed by the caller; the workspace has room for intermediate results.
            unsafe {
                if let Some(reference) = reference {
                    self.run_up(reference + skipped * 8, number, depth, held.at(running))?;
                }
                let (steps, room) = (steps(held.at(running)), room.in_memory(held.at(0)));
                let counts = Counts { at: counts + skipped * 8, are_wide: true };
                let planes = BatchPlanes { number, of_picture: number, depth };
                let to = to + skipped * depth.bytes() as u64;
                self.gpu.kernels.make_luts_in_steps(self, counts, planes, &steps, &room, to)?;
            }
        }
        Ok(())
    }

    /// Sends pictures through the same LUTs.
    ///
    /// There is one for each plane that the operation equalizes, or, if there `is_one`, the same
    /// for all.
    ///
    /// # Errors
    /// If there is too little memory, or the driver fails.
    ///
    /// # Safety
    /// As [`Stream::equalize`]; `luts` must have an entry for each level.
    pub unsafe fn apply(
        &self,
        batch: &Batch,
        operation: &Operation,
        luts: Address,
        is_one: bool,
    ) -> std::result::Result<(), Error> {
        let bytes = (batch.layout.depth.levels() * batch.layout.depth.bytes()) as u64;
        let relighting = Relighting::new(self, operation, &batch.layout)?;
        let colouring = relighting.colouring;
        let planes = colours(batch.layout.pixel, colouring.per_channel) as u64;
        let is_one = is_one || operation.colour == Colour::Linked;
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
            unsafe { self.gpu.kernels.map(self, &batch, colouring, Luts { at: luts, stride: 0 })? };
        }
        Ok(())
    }

    /// Adds up the counts of all pictures, in 64 bits.
    ///
    /// # Safety
    /// As [`Stream::equalize`].
    unsafe fn total(&self, batch: &Batch, planes: Planes, to: Address) -> Result<()> {
        let size = (planes.number(batch.layout.pixel) * batch.layout.depth.levels()) as u32;
        let (number, bytes) = (batch.number, u64::from(batch.number) * u64::from(size) * 4);
        let mut pieces = Pieces::default();
        let counts = pieces.add(bytes);
        let held = Workspace::new(self, &pieces, bytes)?;
        let counts = held.at(counts);
        let launch = Launch { grid: (size.div_ceil(256), 1, 1), block: (256, 1, 1), shared: 0 };
        // SAFETY: the arguments match the parameters of total; the rest is guaranteed by the
        // caller.
        unsafe {
            for (first, part) in batch.parts(MOST_PICTURES) {
                self.gpu.kernels.count(
                    self,
                    &part,
                    planes,
                    None,
                    counts + u64::from(first) * u64::from(size) * 4,
                )?;
            }
            let arguments = arguments![counts, number, size, to];
            self.gpu.kernels.loaded.launch(self, &GLOBAL16, ("total", ""), launch, arguments)
        }
    }

    /// Makes the running sums of the counts of planes, 64 bits each.
    ///
    /// # Safety
    /// As [`Stream::equalize`].
    unsafe fn run_up(&self, counts: Address, planes: usize, depth: Depth, running: Address) -> Result<()> {
        let kernels = &self.gpu.kernels;
        if depth == Depth::Eight {
            let launch = Launch { grid: (planes as u32, 1, 1), block: (256, 1, 1), shared: 0 };
            let name = ("running8", "");
            // SAFETY: the arguments match the parameters of running8; the rest is guaranteed by the
            // caller.
            return unsafe {
                kernels.loaded.launch(self, &GLOBAL16, name, launch, arguments![counts, running])
            };
        }
        let mut pieces = Pieces::default();
        let sums = pieces.add(planes as u64 * 64 * 8);
        let held = Workspace::new(self, &pieces, 0)?;
        let sums = held.at(sums);
        let launch = Launch { grid: (64, planes as u32, 1), block: (1024, 1, 1), shared: 0 };
        // SAFETY: the arguments match the parameters of these kernels; the rest is guaranteed by
        // the caller.
        unsafe {
            kernels.loaded.launch(self, &GLOBAL16, ("sums", ""), launch, arguments![counts, sums])?;
            let arguments = arguments![counts, sums, running];
            kernels.loaded.launch(self, &GLOBAL16, ("running", ""), launch, arguments)
        }
    }
}
