//! Settings: flags override the configuration file, which overrides the preset, which overrides the
//! defaults. They are resolved before anything starts.
//!
//! [`Written`] is the single list of keys. The flags and the file are read into the same type, so
//! that a key has the same name, the same spelling of its values and the same default wherever it
//! is written.

#[cfg(feature = "queue")]
mod carried;
mod choice;
mod devices;
mod effects;
mod file;
pub(crate) mod folder_file;
#[doc(hidden)]
pub mod fuzzing;
mod group_pattern;
mod keys;
mod layers;
mod levels;
mod local;
mod machine;
mod method;
pub(crate) mod outputs;
mod parameters;
mod picture;
mod preset;
mod quantity;
mod service;
mod service_keys;
mod shard;
mod storage;
mod text;
mod together;
mod written;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use choice::{
    Color, DeflateChoice, DepthChoice, Durability, FormatName, FramesChoice, InputFile, JpegChoice,
    LinksChoice, MethodName, OverviewsChoice, Permissions, PngLevelName, Preset, SidecarsChoice, Times,
    TogetherChoice,
};
pub use devices::{DeviceChoice, DeviceName};
pub use effects::RunKind;
pub(crate) use file::nearest;
pub use file::{ConfigError, default_path, read};
pub use folder_file::FolderError;
pub use group_pattern::GroupPattern;
pub use levels::{LevelsChoice, NoData, Shift};
pub(crate) use local::refuse_url;
pub use parameters::{ClipLimit, Exposure, Grid, Noise, Percent, Plateau, TileSize};
pub use picture::PictureSettings;
pub(crate) use preset::PRESETS;
pub use quantity::{Bytes, Count, Memory, OrAuto, Pixels, Rest, Wait};
pub use service::{After, Folder, Listen, Notify, OnCollision, OrNone, Service};
pub use shard::{Shard, ShardChoice};
pub use together::Together;
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
    /// A list of files to take from these folders instead of searching them.
    pub files_from: Option<PathBuf>,
    /// The part of the pictures that this run handles, if not all.
    pub shard: Option<Shard>,
    /// Whether a folder in object storage may be empty.
    pub allow_empty: bool,
    /// The folder that receives the outputs; empty if they go elsewhere.
    pub out: PathBuf,
    /// How outputs are named.
    pub naming: Naming,
    /// Whether the outputs of each input folder lie in a folder of their own.
    pub prefix_folder: bool,
    /// How the outputs of pictures look.
    pub picture: Arc<PictureSettings>,
    /// The largest picture that is decoded.
    pub limits: Limits,
    /// Threads that may compute at the same time, at least 1.
    pub threads: usize,
    /// Bytes of memory that pictures may take at once.
    pub memory: u64,
    /// The object storage that inputs and outputs may be in, with its own part of the memory.
    pub storage: Storage,
    /// The devices that equalize.
    pub devices: DeviceChoice,
    /// Whether the CPU, GPUs or both decode and encode JPEGs.
    pub jpeg: JpegChoice,
    /// Whether the CPU or GPUs compress by deflate.
    pub deflate: DeflateChoice,
    /// Whether the channels of a picture go to different devices.
    pub split_channels: bool,
    /// How long a device may take for one picture.
    pub device_timeout: Duration,
    /// The time without work after which a service releases its GPUs, if it does.
    pub gpu_idle: Option<Duration>,
    /// The treatment of outputs that already exist.
    pub existing: Existing,
    /// The selection of files in the input folders.
    pub selection: Selection,
    /// The folders that files must be in to be read.
    pub roots: InputRoots,
    /// Whether the pictures are published to a queue, for other machines to process.
    pub is_published: bool,
    /// Whether to report the planned work and write no files.
    pub dry_run: bool,
    /// When an output counts as written.
    pub durability: Durability,
    /// The modification time of outputs.
    pub times: Times,
    /// The permissions of outputs.
    pub permissions: Permissions,
    /// The treatment of files beside pictures that belong to them.
    pub sidecars: SidecarsChoice,
    /// Kind and amount of reporting to the user.
    pub report: Report,
    /// The file of the report page, if one is wanted.
    pub report_page: Option<PathBuf>,
    /// Whether the run goes on until the user stops it: a failure may then pass by itself.
    pub never_ends: bool,
    /// Whether a batch run consults the ledger and adds to it.
    pub resume: bool,
    /// How the folders are watched, and where the ledger is.
    pub service: Service,
    /// The configuration file that was read, if any.
    pub config_file: Option<PathBuf>,
    /// Notes about the settings for the user, as sentences.
    pub notes: Vec<String>,
    /// Whether folders of pictures may have settings of their own.
    pub folder_settings: bool,
    /// The keys that were given as flags, which folders do not change.
    pub flags: Written,
    /// The keys that the settings were resolved from. A reload compares them to find the changed
    /// ones.
    pub written: Written,
}

/// How the output of a picture is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// The input's path below its input folder, taken below the output folder.
    #[default]
    Mirror,
    /// A pattern, in which `{}` stands for the input's path below its input folder.
    Pattern(String),
    /// This file: there is only one picture.
    File(PathBuf),
    /// The output of the only picture goes to standard output.
    StandardOutput,
    /// Pictures have no outputs of their own.
    Nothing,
}

impl Naming {
    /// Returns the folder that the user named and that names made from inputs lie below, given the
    /// output folder; `None` if there is no such folder.
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

    /// Returns whether the user named the only output directly.
    pub fn is_single(&self) -> bool {
        matches!(self, Self::File(_) | Self::StandardOutput)
    }
}

/// The treatment of outputs that already exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// An output is left alone if it was made from its input's present state with the same
    /// settings.
    Skip,
    /// Every output is written anew.
    Overwrite,
}

/// Kind and amount of reporting to the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How much is written to standard error during the run.
    pub style: Style,
    /// Whether the summary is one JSON object on standard output.
    pub json: bool,
    /// Whether the summary shows where the time went.
    pub timings: bool,
    /// Whether the summary lists the pictures, for a report page.
    pub lists: bool,
}

impl Report {
    /// Returns whether each failure is reported when it happens, because no text at the end sums
    /// them up by reason.
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

/// The parts of an invocation that are not keys of [`Written`].
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Files and folders to read.
    pub inputs: Vec<PathBuf>,
    /// The folders that files must be in to be read, including files that the settings name, if
    /// someone else chose the inputs.
    pub roots: Option<InputRoots>,
    /// A list of files to take from these folders instead of searching them.
    pub files_from: Option<PathBuf>,
    /// The part of the pictures that this run handles, if not all.
    pub shard: Option<Shard>,
    /// Whether a folder in object storage may be empty.
    pub allow_empty: bool,
    /// The folder that receives the outputs.
    pub out: PathBuf,
    /// How outputs are named.
    pub naming: Naming,
    /// The keys that were given as flags, which folders do not change.
    pub flags: Written,
    /// Whether the channels of a picture go to different devices.
    pub split_channels: bool,
    /// Whether the pictures are published to a queue, for other machines to process.
    pub is_published: bool,
    /// Whether to report the planned work and write no files.
    pub dry_run: bool,
    /// Kind and amount of reporting to the user.
    pub report: Report,
    /// The file of the report page, if one is wanted.
    pub report_page: Option<PathBuf>,
    /// Whether to watch the inputs, which are folders.
    pub watch: bool,
    /// Whether a batch run consults the ledger and adds to it.
    pub resume: bool,
    /// The configuration file that was read, if any.
    pub config_file: Option<PathBuf>,
    /// Notes about the settings for the user, as sentences.
    pub notes: Vec<String>,
}

impl Settings {
    /// Resolves the written keys, with defaults for the others.
    ///
    /// # Errors
    /// A sentence for the user, about an invalid glob, choices that exclude each other, or an
    /// unusable reference.
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
        let Written { durability, times, permissions, .. } = &request.flags;
        let for_files = [
            ("durability", durability.is_some()),
            ("times", times.is_some()),
            ("permissions", permissions.is_some()),
        ];
        let set = for_files.iter().find(|(_, is_set)| *is_set && request.naming == Naming::StandardOutput);
        if let Some((flag, _)) = set {
            return Err(format!("--{flag} has no effect on standard output; leave it out"));
        }
        let has_folder = request.naming != Naming::StandardOutput && !store::is_url(&request.out);
        if written.sidecars == Some(SidecarsChoice::Copy) && (!has_folder || request.watch) {
            return Err(
                "--sidecars copy is for runs that end, with outputs in a folder of this machine; leave it out"
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
        together::check(&written, &kind).map_err(|why| as_written.naming_preset(why))?;
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
        let picture = PictureSettings::resolve(&written, &limits, memory, &named);
        Ok(Self {
            picture: Arc::new(picture.map_err(|why| as_written.naming_preset(why))?),
            limits,
            threads: threads.0.get(),
            memory,
            storage: Storage::new(for_objects),
            devices: key(written.devices),
            jpeg: key(written.jpeg),
            deflate: key(written.deflate),
            device_timeout: key(written.device_timeout).0,
            gpu_idle: Option::from(key(written.gpu_idle)).map(|Wait(time)| time),
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
            sidecars: key(written.sidecars),
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
            report_page: request.report_page,
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

    /// Returns the output as the user knows it: a file, or the folder of all; an empty path if it
    /// is neither.
    pub fn named_output(&self) -> &Path {
        match &self.naming {
            Naming::File(file) => file,
            _ => &self.out,
        }
    }

    /// Returns the keys that hold below a folder, given the merged settings files of it and the
    /// folders above it.
    pub(crate) fn written_below(&self, folders: &Written) -> Written {
        self.layers_below(folders).over(folder_file::beyond_folders(&self.written)).resolved()
    }

    fn layers_below(&self, folders: &Written) -> Written {
        self.flags.clone().over(folders.clone()).over(self.written.clone())
    }

    /// Resolves the settings of the pictures below such a folder.
    ///
    /// # Errors
    /// A sentence for the user, about choices that exclude each other.
    pub(crate) fn below(&self, folders: &Written) -> Result<PictureSettings, String> {
        self.resolve_below(folders).map_err(|why| self.layers_below(folders).naming_preset(why))
    }

    fn resolve_below(&self, folders: &Written) -> Result<PictureSettings, String> {
        let written = self.written_below(folders);
        let &Self { never_ends: watch, resume, shard, split_channels, is_published, .. } = self;
        let is_streamed = self.naming == Naming::StandardOutput;
        let has_objects = self.inputs.iter().any(|input| store::is_url(input));
        let kind = Kind { watch, resume, shard, split_channels, is_published, is_streamed, has_objects };
        together::check(&written, &kind)?;
        if split_channels && written.color != Some(Color::PerChannel) {
            return Err("--split-channels needs --color per-channel".to_owned());
        }
        // A folder's settings cannot name other files, so no root is needed.
        PictureSettings::resolve(&written, &self.limits, self.memory, &InputRoots::default())
    }

    /// Summarizes the keys with the most influence on outputs, in a few words.
    pub fn in_brief(&self) -> String {
        self.written.in_brief()
    }
}

#[cfg(test)]
mod tests;
