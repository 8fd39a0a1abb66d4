//! Settings: flags override the configuration file, which overrides the defaults. They are resolved before anything starts.
//!
//! [`Written`] is the single list of keys. The flags and the file are read into the same type, so that a key has the same name, the same
//! spelling of its values and the same default wherever it is written.

#[cfg(feature = "queue")]
mod carried;
mod choice;
mod effects;
mod file;
pub(crate) mod folder_file;
#[doc(hidden)]
pub mod fuzzing;
mod layers;
mod levels;
mod local;
mod machine;
mod method;
mod outputs;
mod picture;
mod quantity;
mod service;
mod service_keys;
mod shard;
mod storage;
mod together;
mod written;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use choice::{
    ClipLimit, Color, DepthChoice, DeviceChoice, DeviceName, Durability, FormatName, FramesChoice, Grid,
    InputFile, JpegChoice, LinksChoice, MethodName, Percent, Permissions, PngLevelName, TileSize, Times,
    TogetherChoice,
};
pub use effects::RunKind;
pub(crate) use file::nearest;
pub use file::{ConfigError, default_path, read};
pub use folder_file::FolderError;
pub use levels::{LevelsChoice, NoData};
pub(crate) use local::refuse_url;
pub use picture::PictureSettings;
pub use quantity::{Bytes, Count, Memory, OrAuto, Pixels, Rest, Wait};
pub use service::{After, Folder, Listen, Notify, OnCollision, OrNone, Service};
pub use shard::{Shard, ShardChoice};
pub use written::Written;

use layers::key;
use store::Storage;
use together::Kind;

use crate::fs::input::InputRoots;
use crate::selection::{Links, Selection};
use codec::Limits;

/// Everything that a run depends on, resolved and checked. The pipeline sees nothing else.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Files and folders to read.
    pub inputs: Vec<PathBuf>,
    /// The list of the files to take of these folders, if they are not searched.
    pub files_from: Option<PathBuf>,
    /// The part of the pictures that this run is for, if it is not for all.
    pub shard: Option<Shard>,
    /// Whether there may be nothing below a folder in object storage.
    pub allow_empty: bool,
    /// The folder that receives the outputs; empty if they go elsewhere.
    pub out: PathBuf,
    /// How outputs are named.
    pub naming: Naming,
    /// Whether the outputs of each input folder lie in a folder of their own.
    pub prefix_folder: bool,
    /// What the outputs of pictures look like.
    pub picture: Arc<PictureSettings>,
    /// The largest picture that is decoded.
    pub limits: Limits,
    /// Threads that may compute at the same time, at least 1.
    pub threads: usize,
    /// Bytes of memory that pictures may take at once.
    pub memory: u64,
    /// The object storage that inputs and outputs may be in, with its own part of the memory.
    pub storage: Storage,
    /// Which devices equalize.
    pub devices: DeviceChoice,
    /// Whether the CPU, GPUs or both decode and encode JPEGs.
    pub jpeg: JpegChoice,
    /// Whether the channels of a picture go to different devices.
    pub split_channels: bool,
    /// How long a device may take for one picture.
    pub device_timeout: Duration,
    /// What happens to outputs that already exist.
    pub existing: Existing,
    /// Which files of the input folders are taken.
    pub selection: Selection,
    /// Where the files that are read have to lie.
    pub roots: InputRoots,
    /// Whether the pictures are published to a queue, and others do them.
    pub is_published: bool,
    /// Whether to say what would be done, and write nothing.
    pub dry_run: bool,
    /// When an output counts as written.
    pub durability: Durability,
    /// The modification time of outputs.
    pub times: Times,
    /// The permissions of outputs.
    pub permissions: Permissions,
    /// What is reported to the user.
    pub report: Report,
    /// Whether the run goes on until the user stops it, so that what fails may pass meanwhile.
    pub never_ends: bool,
    /// Whether a batch run goes by the ledger of what was done.
    pub resume: bool,
    /// How the folders are watched, and where the ledger is.
    pub service: Service,
    /// The configuration file that was read, if any.
    pub config_file: Option<PathBuf>,
    /// What the user should know about them, as sentences.
    pub notes: Vec<String>,
    /// Whether the folders of pictures may have settings of their own.
    pub folder_settings: bool,
    /// The keys that were typed as flags, which folders do not change.
    pub flags: Written,
    /// The keys that the settings were resolved from, to tell which of them changed when they are read again.
    pub written: Written,
}

/// How the output of a picture is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// The input's path below its input folder, taken below the output folder.
    #[default]
    Mirror,
    /// This text, in which `{}` stands for the input's path below its input folder.
    Pattern(String),
    /// This file: there is only one picture.
    File(PathBuf),
    /// The output of the only picture goes to standard output.
    StandardOutput,
    /// Pictures have no outputs of their own.
    Nothing,
}

impl Naming {
    /// Returns the folder that the user named and below which names come from inputs, given the output folder; `None` if there is none.
    pub fn root<'a>(&'a self, out: &'a Path) -> Option<&'a Path> {
        match self {
            Self::Mirror => Some(out),
            Self::Pattern(pattern) => {
                let (before, _) = pattern.split_once("{}")?;
                Some(Path::new(before.rfind('/').map_or("", |end| &before[..=end])))
            }
            Self::File(_) | Self::StandardOutput | Self::Nothing => None,
        }
    }

    /// Returns whether the user named the only output itself.
    pub fn is_single(&self) -> bool {
        matches!(self, Self::File(_) | Self::StandardOutput)
    }
}

/// What happens to outputs that already exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// An output that was made from its input, as it is, with the same settings is left as it is.
    Skip,
    /// Every output is written anew.
    Overwrite,
}

/// What is reported to the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How much is written to standard error during the run.
    pub style: Style,
    /// Whether the summary is one JSON object on standard output.
    pub json: bool,
    /// Whether the summary says where the time went.
    pub timings: bool,
}

impl Report {
    /// Returns whether each failure is reported when it happens, because no text at the end sums them up by reason.
    pub fn names_failures_at_once(self) -> bool {
        self.json || self.style != Style::Normal
    }
}

/// How much is reported during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Only failures.
    Quiet,
    /// Progress, failures, and a summary.
    #[default]
    Normal,
    /// Also a line per picture.
    Verbose,
}

impl Style {
    /// Returns the style that `--quiet` and `--verbose` ask for.
    pub const fn of(quiet: bool, verbose: bool) -> Self {
        match (quiet, verbose) {
            (true, _) => Self::Quiet,
            (_, true) => Self::Verbose,
            _ => Self::Normal,
        }
    }
}

/// What one invocation specifies besides the keys of [`Written`].
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Files and folders to read.
    pub inputs: Vec<PathBuf>,
    /// Where the files that are read have to lie, those that the settings name too, if others say that.
    pub roots: Option<InputRoots>,
    /// The list of the files to take of these folders, if they are not searched.
    pub files_from: Option<PathBuf>,
    /// The part of the pictures that this run is for, if it is not for all.
    pub shard: Option<Shard>,
    /// Whether there may be nothing below a folder in object storage.
    pub allow_empty: bool,
    /// The folder that receives the outputs.
    pub out: PathBuf,
    /// How outputs are named.
    pub naming: Naming,
    /// The keys that were typed as flags, which folders do not change.
    pub flags: Written,
    /// Whether the channels of a picture go to different devices.
    pub split_channels: bool,
    /// Whether the pictures are published to a queue, and others do them.
    pub is_published: bool,
    /// Whether to say what would be done, and write nothing.
    pub dry_run: bool,
    /// What is reported to the user.
    pub report: Report,
    /// Whether to watch the inputs, which are folders.
    pub watch: bool,
    /// Whether a batch run goes by the ledger of what was done.
    pub resume: bool,
    /// The configuration file that was read, if any.
    pub config_file: Option<PathBuf>,
    /// What the user should know about the settings, as sentences.
    pub notes: Vec<String>,
}

impl Settings {
    /// Resolves the keys that were written, with defaults for the others.
    ///
    /// # Errors
    /// A sentence for the user, about an invalid glob, choices that exclude each other, or a reference that cannot be used.
    pub fn resolve(written: Written, request: Request) -> Result<Self, String> {
        let (as_written, written) = (written.clone(), written.resolved());
        if written.jpeg == Some(JpegChoice::Gpu) && written.devices == Some(DeviceChoice::Cpu) {
            return Err("--jpeg gpu needs a GPU, and --devices cpu uses none".to_owned());
        }
        let keeps = written.times == Some(Times::Keep) || written.permissions == Some(Permissions::Keep);
        if keeps && store::is_url(&request.out) {
            return Err(
                "objects have no times and permissions of their own; leave out --times and --permissions"
                    .to_owned(),
            );
        }
        let service = service_keys::service(&written);
        storage::check(&request, &service)?;
        if request.watch {
            service.check_out(&request.out)?;
        }
        let kind = Kind {
            watch: request.watch,
            resume: request.resume,
            shard: request.shard,
            split_channels: request.split_channels,
            is_published: request.is_published,
            is_streamed: request.naming == Naming::StandardOutput,
            has_objects: request.inputs.iter().any(|input| store::is_url(input)),
        };
        together::check(&written, &kind)?;
        let threads = machine::threads(key(written.threads));
        let limits = Limits { max_pixels: key(written.max_pixels).0, max_bytes: key(written.max_bytes).0 };
        let memory = machine::memory(key(written.memory), threads).0;
        let links = key(written.links).resolve(request.watch);
        let roots = match (&request.roots, links) {
            (Some(roots), _) => roots.clone(),
            (None, Links::Follow) => InputRoots::default(),
            (None, Links::Inside | Links::Never) => InputRoots::within(request.inputs.clone()),
        };
        let named = request.roots.clone().unwrap_or_default();
        let for_objects = if storage::is_named(&request) { memory / storage::SHARE } else { 0 };
        let memory = memory - for_objects;
        Ok(Self {
            picture: Arc::new(PictureSettings::resolve(&written, &limits, memory, &named)?),
            limits,
            threads: threads.0.get(),
            memory,
            storage: Storage::new(for_objects),
            devices: key(written.devices),
            jpeg: key(written.jpeg),
            device_timeout: key(written.device_timeout).0,
            existing: if key(written.overwrite) || request.resume || request.naming.is_single() {
                Existing::Overwrite
            } else {
                Existing::Skip
            },
            selection: Selection::new(&key(written.include), &key(written.exclude), links)?,
            roots,
            durability: key(written.durability),
            times: key(written.times),
            permissions: key(written.permissions),
            inputs: request.inputs,
            files_from: request.files_from,
            shard: request.shard,
            allow_empty: request.allow_empty || request.watch,
            out: request.out,
            naming: request.naming,
            prefix_folder: key(written.prefix_folder),
            split_channels: request.split_channels,
            is_published: request.is_published,
            dry_run: request.dry_run,
            report: request.report,
            never_ends: request.watch,
            resume: request.resume,
            service,
            config_file: request.config_file,
            notes: request.notes,
            folder_settings: key(written.folder_settings),
            flags: request.flags,
            written: as_written,
        })
    }

    /// Returns what the user knows as the output: a file, or the folder of all; an empty path if it is neither.
    pub fn told_out(&self) -> &Path {
        match &self.naming {
            Naming::File(file) => file,
            _ => &self.out,
        }
    }

    /// Returns the keys that hold below a folder whose files, and those of the folders above it, say this.
    pub(crate) fn written_below(&self, folders: &Written) -> Written {
        self.flags.clone().over(folders.clone()).over(self.written.clone()).resolved()
    }

    /// Returns what holds for the pictures below such a folder.
    ///
    /// # Errors
    /// A sentence for the user, about choices that exclude each other.
    pub(crate) fn below(&self, folders: &Written) -> Result<PictureSettings, String> {
        let written = self.written_below(folders);
        let &Self { never_ends: watch, resume, shard, split_channels, is_published, .. } = self;
        let is_streamed = self.naming == Naming::StandardOutput;
        let has_objects = self.inputs.iter().any(|input| store::is_url(input));
        let kind = Kind { watch, resume, shard, split_channels, is_published, is_streamed, has_objects };
        together::check(&written, &kind)?;
        if split_channels && written.color != Some(Color::PerChannel) {
            return Err("--split-channels needs --color per-channel".to_owned());
        }
        // Files of folders name no others.
        PictureSettings::resolve(&written, &self.limits, self.memory, &InputRoots::default())
    }

    /// Returns what matters most of what decides what outputs look like, in a few words for people.
    pub fn in_brief(&self) -> String {
        self.written.in_brief()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::PngLevel;
    use equalize::{Clahe, Colour, Method, Tiles};

    const COMMITTED: &str = include_str!("../config.toml");

    fn parse(text: &str) -> Written {
        file::parse(Path::new("config.toml"), text).unwrap()
    }

    #[test]
    fn the_committed_file_is_the_defaults_and_misses_no_key() {
        assert_eq!(parse(COMMITTED), Written::defaults());
        let table: toml::Table = COMMITTED.parse().unwrap();
        let written: Vec<_> = table.keys().cloned().collect();
        assert_eq!(written, written::keys());
    }

    #[test]
    fn every_key_of_the_committed_file_has_a_comment() {
        let mut above = "";
        for line in COMMITTED.lines() {
            assert!(line.is_empty() || line.starts_with('#') || above.starts_with('#'), "{line}");
            above = line;
        }
    }

    #[test]
    fn flags_go_over_the_file_and_the_file_over_defaults() {
        let file = parse("threads = 3\nmemory = '1GiB'\noverwrite = true\ninclude = ['*.png']");
        let flags = Written { memory: "2GiB".parse().ok(), overwrite: Some(false), ..Written::default() };
        let settings = Settings::resolve(flags.over(file), Request::default()).unwrap();
        assert_eq!((settings.threads, settings.memory), (3, 2 << 30));
        assert_eq!(settings.existing, Existing::Skip);
        assert_eq!(settings.picture.target.png_level, PngLevel::Fast);
        assert!(!settings.selection.takes_file(Path::new("a.jpg")));
    }

    #[test]
    fn what_is_printed_is_read_back_the_same() {
        let text = "method = 'clahe'\nstrength = 0.75\nclip-low = 0.25\nclip-high = 1\nreference = 'a b.tif'\nclip-limit = 2.5\ntiles = '4x2'\ntile-size = 32\ncolor = 'gray'\nrange = '-1000..3000.5'\nlevels = 4096\nmask = '/masks'\nmask-keep = true\nno-data = -9999.5\nsegmentations = true\nformat = 'webp'\ndepth = '8'\nquality = 92\npng-level = 'small'\n\
                    overwrite = true\nprefix-folder = true\ndurability = 'fast'\ninclude = ['a \"b\"', '*.png']\nexclude = ['x/']\n\
                    links = 'inside'\nmax-pixels = 12345\nmax-bytes = '3MiB'\nthreads = 7\nmemory = '1.5GiB'\n\
                    devices = '0,GPU-6a1b'\njpeg = 'gpu'\ndevice-timeout = '1500ms'\n\
                    settle = '1s'\nrescan = '1min'\npoll = '2s'\nafter = 'move:/kept'\non-collision = 'wait'\nfailed = '/failed'\nstate = '/s'\n\
                    listen = '[::1]:9464'";
        let written = parse(text).resolved();
        assert_eq!(parse(&written.to_toml()), written);
        let machine = Written::default().resolved();
        assert_eq!(parse(&machine.to_toml()), machine);
        for line in
            ["quality = 92\n", "clip-limit = 2.5\n", "strength = 0.75\n", "devices = \"0,GPU-6a1b\"\n"]
        {
            assert!(written.to_toml().contains(line), "{}", written.to_toml());
        }
    }

    #[test]
    fn tiles_come_from_the_layer_that_names_them() {
        let tiles = |flags: &str, file: &str| {
            let clahe = "method = 'clahe'\n";
            let written = parse(&format!("{clahe}{flags}")).over(parse(file));
            match Settings::resolve(written, Request::default()).unwrap().picture.operation.method {
                Method::Clahe(Clahe { clip_limit: equalize::ClipLimit::Auto, tiles }) => tiles,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(tiles("", ""), Tiles::Grid { x: 8, y: 8 });
        assert_eq!(tiles("", "tile-size = 32"), Tiles::Pixels(32));
        assert_eq!(tiles("tiles = '4x2'", "tile-size = 32"), Tiles::Grid { x: 4, y: 2 });
        assert_eq!(tiles("tile-size = 32", "tiles = '4x2'"), Tiles::Pixels(32));
        assert_eq!(tiles("tile-size = 'off'", "tile-size = 32"), Tiles::Grid { x: 8, y: 8 });
    }

    #[test]
    fn what_changes_outputs_changes_the_fingerprint_and_nothing_else_does() {
        let of = |text: &str| {
            let settings = Settings::resolve(parse(text), Request::default()).unwrap();
            settings.picture.fingerprint(None, &settings.limits)
        };
        let usual = of("");
        for text in [
            "method = 'clahe'",
            "color = 'gray'",
            "color = 'per-channel'",
            "color = 'hue'",
            "range = '0..1'",
            "window = '40,400'",
            "segmentations = true",
            "frames = 'split'",
            "levels = 'auto'",
            "levels = 4096",
            "mask = '.'",
            "mask-keep = true",
            "no-data = -9999",
            "format = 'png'",
            "strength = 0.5",
            "depth = 8",
            "quality = 92",
            "png-level = 'small'",
            "max-pixels = 12345",
            "max-bytes = '3MiB'",
            "jpeg = 'cpu'",
        ] {
            assert_ne!(of(text), usual, "with {text}, a ledger knows nothing of what was done without");
        }
        assert_ne!(of("method = 'clahe'"), of("method = 'clahe'\nclip-limit = 2"));
        for text in ["threads = 3", "memory = '1GiB'", "durability = 'fast'", "device-timeout = '5s'"] {
            assert_eq!(of(text), usual, "{text} must not cost any rework");
        }
    }

    #[test]
    fn what_a_record_says_of_the_settings_is_the_same_in_every_version() {
        let of = |text: &str| {
            let settings = Settings::resolve(parse(text), Request::default()).unwrap();
            settings.picture.of_outputs().to_owned()
        };
        assert_eq!(of(COMMITTED), "", "a key that a later version adds is not there either");
        assert_eq!(of("max-pixels = 12345\nmax-bytes = '3MiB'"), "", "a limit changes no output");
        let others = "clip-limit = 3\ntiles = '4x2'\nclip-low = 3\nreference = 'a.png'";
        assert_eq!(of(others), "", "it has no effect");
        assert_eq!(
            of("method = 'stretch'\nclip-high = 0\nclip-limit = 3"),
            "method = \"stretch\"\nclip-high = 0\n"
        );
        assert_eq!(
            of("quality = 92\njpeg = 'cpu'\ntiles = '4x2'\nclip-limit = 3\nmethod = 'clahe'"),
            "method = \"clahe\"\nclip-limit = 3\ntiles = \"4x2\"\nquality = 92\njpeg = \"cpu\"\n"
        );
    }

    #[test]
    fn the_brief_names_the_method_and_what_has_an_effect() {
        let of = |text: &str| Settings::resolve(parse(text), Request::default()).unwrap().in_brief();
        assert_eq!(of("tiles = '4x2'"), "method global, strength 1, color luma, format keep, depth keep");
        assert_eq!(
            of("method = 'clahe'\nclip-limit = 3\nstrength = 0.5\nquality = 92\nthreads = 3"),
            "method clahe, strength 0.5, clip-limit 3, tiles 8x8, color luma, format keep, depth keep, quality 92"
        );
        assert_eq!(
            of("method = 'stretch'\nclip-low = 1"),
            "method stretch, strength 1, clip-low 1, clip-high 0.175, color luma, format keep, depth keep"
        );
        assert_eq!(
            of("method = 'clahe'\ntile-size = 32\ncolor = 'gray'\nformat = 'png'\ndepth = '8'"),
            "method clahe, strength 1, clip-limit auto, tile-size 32, color gray, format png, depth 8"
        );
    }

    #[test]
    fn colour_decides_what_is_decoded_and_what_is_equalized() {
        for (color, gray, needs_rgb, colour) in [
            ("luma", false, false, Colour::Luma),
            ("hue", false, true, Colour::Hue),
            ("gray", true, false, Colour::Luma),
            ("per-channel", false, true, Colour::PerChannel),
        ] {
            let settings =
                Settings::resolve(parse(&format!("color = '{color}'")), Request::default()).unwrap();
            assert_eq!((settings.picture.target.gray, settings.picture.target.needs_rgb), (gray, needs_rgb));
            assert_eq!(settings.picture.operation.colour, colour);
        }
    }
}
