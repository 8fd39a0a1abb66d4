//! Layers of keys: flags go over the configuration file, which goes over the defaults.

use std::time::Duration;

use super::written::table;
use super::{
    After, Bytes, Color, DepthChoice, DeviceChoice, Durability, FormatName, FramesChoice, Grid, JpegChoice,
    LevelsChoice, LinksChoice, MethodName, OnCollision, OrAuto, OrNone, Percent, Permissions, Pixels,
    PngLevelName, Rest, TileSize, Times, TogetherChoice, Wait, Written, machine,
};
use codec::JpegQuality;
use equalize::Strength;

impl Written {
    /// Returns every key of `self`, or of `below` if it was not written in `self`. A number of tiles in `self` also overrides a tile size
    /// in `below`.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            method: self.method.or(below.method),
            strength: self.strength.or(below.strength),
            clip_low: self.clip_low.or(below.clip_low),
            clip_high: self.clip_high.or(below.clip_high),
            reference: self.reference.or(below.reference),
            clip_limit: self.clip_limit.or(below.clip_limit),
            tiles: self.tiles.or(below.tiles),
            tile_size: self.tile_size.or(self.tiles.map(|_| TileSize::Off)).or(below.tile_size),
            color: self.color.or(below.color),
            together: self.together.or(below.together),
            lut: self.lut.or(below.lut),
            range: self.range.or(below.range),
            window: self.window.or(below.window),
            levels: self.levels.or(below.levels),
            mask: self.mask.or(below.mask),
            mask_keep: self.mask_keep.or(below.mask_keep),
            no_data: self.no_data.or(below.no_data),
            segmentations: self.segmentations.or(below.segmentations),
            format: self.format.or(below.format),
            frames: self.frames.or(below.frames),
            depth: self.depth.or(below.depth),
            quality: self.quality.or(below.quality),
            png_level: self.png_level.or(below.png_level),
            overwrite: self.overwrite.or(below.overwrite),
            prefix_folder: self.prefix_folder.or(below.prefix_folder),
            durability: self.durability.or(below.durability),
            times: self.times.or(below.times),
            permissions: self.permissions.or(below.permissions),
            include: self.include.or(below.include),
            exclude: self.exclude.or(below.exclude),
            links: self.links.or(below.links),
            follow: None,
            folder_settings: self.folder_settings.or(below.folder_settings),
            max_pixels: self.max_pixels.or(below.max_pixels),
            max_bytes: self.max_bytes.or(below.max_bytes),
            threads: self.threads.or(below.threads),
            memory: self.memory.or(below.memory),
            devices: self.devices.or(below.devices),
            jpeg: self.jpeg.or(below.jpeg),
            device_timeout: self.device_timeout.or(below.device_timeout),
            gpu_idle: self.gpu_idle.or(below.gpu_idle),
            settle: self.settle.or(below.settle),
            rescan: self.rescan.or(below.rescan),
            poll: self.poll.or(below.poll),
            after: self.after.or(below.after),
            on_collision: self.on_collision.or(below.on_collision),
            failed: self.failed.or(below.failed),
            state: self.state.or(below.state),
            listen: self.listen.or(below.listen),
            listen_name: self.listen_name.or(below.listen_name),
            token_file: self.token_file.or(below.token_file),
            notify: self.notify.or(below.notify),
            notify_quiet: self.notify_quiet.or(below.notify_quiet),
        }
    }

    /// Returns every key with its default value.
    pub fn defaults() -> Self {
        Self {
            method: Some(MethodName::Global),
            strength: Some(Strength::FULL),
            clip_low: Some(Percent(1_750)),
            clip_high: Some(Percent(1_750)),
            reference: Some(OrNone::None),
            clip_limit: Some(OrAuto::Auto),
            tiles: Some(Grid { x: 8, y: 8 }),
            tile_size: Some(TileSize::Off),
            color: Some(Color::Luma),
            together: Some(TogetherChoice::Page),
            lut: Some(Vec::new()),
            range: Some(OrAuto::Auto),
            window: Some(OrNone::None),
            levels: Some(LevelsChoice::Full),
            mask: Some(OrNone::None),
            mask_keep: Some(false),
            no_data: Some(OrNone::None),
            segmentations: Some(false),
            format: Some(FormatName::Keep),
            frames: Some(FramesChoice::Keep),
            depth: Some(DepthChoice::Keep),
            quality: Some(JpegQuality::Keep),
            png_level: Some(PngLevelName::Fast),
            overwrite: Some(false),
            prefix_folder: Some(false),
            durability: Some(Durability::Full),
            times: Some(Times::Now),
            permissions: Some(Permissions::New),
            include: Some(Vec::new()),
            exclude: Some(Vec::new()),
            links: Some(LinksChoice::Auto),
            follow: None,
            folder_settings: Some(true),
            max_pixels: Some(Pixels(2_000_000_000)),
            max_bytes: Some(Bytes(2 << 30)),
            threads: Some(OrAuto::Auto),
            memory: Some(OrAuto::Auto),
            devices: Some(DeviceChoice::Auto),
            jpeg: Some(JpegChoice::Auto),
            device_timeout: Some(Wait(Duration::from_secs(30))),
            gpu_idle: Some(OrNone::None),
            settle: Some(Rest(Duration::from_millis(500))),
            rescan: Some(Wait(Duration::from_secs(600))),
            poll: Some(OrAuto::Auto),
            after: Some(After::Keep),
            on_collision: Some(OnCollision::Number),
            failed: Some(OrNone::None),
            state: Some(OrAuto::Auto),
            listen: Some(OrNone::None),
            listen_name: Some(Vec::new()),
            token_file: Some(OrNone::None),
            notify: Some(OrNone::None),
            notify_quiet: Some(Wait(Duration::from_secs(600))),
        }
    }

    /// Returns every key with a value: the default if it was not written, and for threads and memory this machine's number instead of
    /// `auto`.
    #[must_use]
    pub fn resolved(self) -> Self {
        let mut all = self.over(Self::defaults());
        let threads = machine::threads(all.threads.unwrap_or(OrAuto::Auto));
        all.threads = Some(OrAuto::Fixed(threads));
        all.memory = all.memory.map(|wanted| OrAuto::Fixed(machine::memory(wanted, threads)));
        all
    }

    /// Returns all keys as a configuration file: what was written, and defaults for the rest. `auto` stays `auto`, so that the file is
    /// right on other machines too; its value on this machine is in a comment.
    pub fn explained(self) -> String {
        let all = self.over(Self::defaults());
        let (file, here) = (all.to_toml(), all.resolved().to_toml());
        let line = |(line, here): (&str, &str)| match here.split_once(" = ") {
            Some((_, value)) if here != line => format!("{line}  # here: {value}\n"),
            _ => format!("{line}\n"),
        };
        file.lines().zip(here.lines()).map(line).collect()
    }

    /// Returns the names of the keys that have another value in `other`.
    pub fn differing(&self, other: &Self) -> Vec<String> {
        let [these, those] = [self, other].map(|written| table(&written.clone().over(Self::defaults())));
        these.into_iter().filter(|(key, value)| those.get(key) != Some(value)).map(|(key, _)| key).collect()
    }
}

/// Returns the value of a key of [`Written::resolved`], where every key has one.
pub(super) fn key<T>(value: Option<T>) -> T {
    value.expect("resolved keys all have a value")
}
