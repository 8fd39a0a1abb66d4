//! The keys of the configuration file and the flags.

use std::path::PathBuf;

use clap::Arg;
use clap::builder::{NonEmptyStringValueParser, TypedValueParser};
use merge::Merge;
use serde::{Deserialize, Serialize};

use super::group_pattern::GroupPattern;
use super::quantity::{Bytes, Count, Memory, OrAuto, Pixels, Rest, Wait};
use super::service::{After, AfterParser, Folder, Listen, Notify, OnCollision, OrNone};
use super::text::{as_name, as_text};
use super::{
    ClipLimit, Color, DeflateChoice, DepthChoice, DeviceChoice, Durability, Exposure, FormatName,
    FramesChoice, Grid, InputFile, JpegChoice, LevelsChoice, LinksChoice, MethodName, NoData, Noise,
    OverviewsChoice, Percent, Permissions, Plateau, PngLevelName, Preset, Shift, SidecarsChoice, TileSize,
    Times, TogetherChoice,
};
use codec::{JpegQuality, Range, Window};
use equalize::Strength;

/// The keys that were written in the configuration file or as flags; a key that was not written is
/// `None`.
///
/// A field describes its key's flag and its value in files: its doc comment is the help text. The
/// default is in the `config.toml` that comes with the program, commented out, and the key's role
/// and conditions are in `keys.rs`.
#[derive(Clone, Debug, Default, PartialEq, clap::Args, Serialize, Deserialize, Merge)]
#[command(mut_args = in_words)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[merge(strategy = merge::option::overwrite_none)]
pub struct Written {
    /// Settings for a kind of picture, such as photo or scan [default: none]
    ///
    /// One of photo, scan (documents and old photographs), xray (x-rays, slices of CT and MR),
    /// dicom (DICOM as pictures to look at), microscopy, satellite, thermal (thermal cameras),
    /// training (training sets) and none. `histeqd presets` prints the keys that each one sets.
    /// Flags, histeqd.toml files and the configuration file override them.
    #[arg(long, value_name = "NAME", help_heading = "Picture")]
    #[serde(with = "as_name")]
    pub preset: Option<Preset>,

    /// Contrast method: global, stretch, match, clahe [default: global]
    ///
    /// "global" is histogram equalization: one LUT per picture, from the histogram of the whole
    /// picture. "stretch" spreads the levels linearly over the range and clips both ends by
    /// --clip-low and --clip-high. "match" matches the histogram to that of --reference. "clahe" is
    /// contrast-limited adaptive histogram equalization: one LUT per tile, with limited contrast,
    /// interpolated between tiles; with a number as --clip-limit its results are OpenCV's. "global"
    /// makes most photographs harsh; use --preset photo for them.
    #[arg(long, value_name = "METHOD", help_heading = "Picture")]
    #[serde(with = "as_name")]
    pub method: Option<MethodName>,

    /// Brighten dark pictures first, highlights up to this share of the range [default: 0]
    ///
    /// 0 to 1, with at most three decimals; 0 turns it off. Nothing becomes more than three times
    /// as bright, and a picture that reaches further keeps its bright end. --clip-low and
    /// --clip-high set the share of samples that is ignored at each end.
    #[arg(long, value_name = "SHARE", help_heading = "Picture", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub exposure: Option<Exposure>,

    /// Strength of the enhancement: 0 (off) to 1 (full) [default: 1]
    ///
    /// With at most three decimals. 0.5 is halfway between the picture and the method's result; 0
    /// changes nothing. With --exposure, 0 is the brightened picture.
    #[arg(long, value_name = "NUMBER", help_heading = "Picture", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub strength: Option<Strength>,

    /// With stretch: percentage of samples clipped to the darkest level [default: 0.175]
    ///
    /// Below 100, with at most four decimals. At most this percentage of the samples is darker than
    /// the level that becomes the darkest; 0 clips nothing. --exposure ignores as many.
    #[arg(long, value_name = "PERCENT", help_heading = "Picture", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub clip_low: Option<Percent>,

    /// With stretch: percentage of samples clipped to the brightest level [default: 0.175]
    #[arg(long, value_name = "PERCENT", help_heading = "Picture", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub clip_high: Option<Percent>,

    /// With global: limit of a level's count in percent of the samples, or off [default: off]
    ///
    /// Above 0 and below 100, with at most four decimals. Counts above the limit are cut, so large
    /// flat areas take no more of the range than small ones with as many levels: a hot object keeps
    /// its detail in a cold scene, and so does the background of a page or of nuclei.
    #[arg(long, value_name = "PERCENT", help_heading = "Picture", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub plateau: Option<Plateau>,

    /// With match: reference picture, or a file of counts [default: none]
    ///
    /// A picture in any format that is read; all of its pages and frames are counted. Or a file
    /// that `histeqd histogram --counts FILE` wrote, with the histogram of many pictures. Its depth
    /// must be that of the pictures, and with --color per-channel it must be in colour if they are.
    #[arg(long, value_name = "FILE", help_heading = "Picture")]
    #[serde(with = "as_text")]
    pub reference: Option<OrNone<InputFile>>,

    /// With clahe: contrast limit: auto, or a number; 0 for no limit [default: auto]
    ///
    /// Maximum height of a peak in a tile's histogram, as a multiple of the mean: 0 to 1000000. A
    /// number is OpenCV's clipLimit, which counts 65536 levels for 16-bit pictures and leaves those
    /// that use few levels dark. "auto" is 2 for up to 256 levels; for more, it is the same
    /// relative to the levels that occur, whatever --levels is.
    #[arg(long, value_name = "NUMBER", help_heading = "Picture", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub clip_limit: Option<OrAuto<ClipLimit>>,

    /// With clahe: number of tiles across and down; XxYxZ for volumes [default: 8x8]
    ///
    /// Each from 1 to 1024. With three numbers, such as 8x8x4, tiles are boxes of a volume, and
    /// their LUTs are also interpolated between slices. A volume is the pages of a file (a z-stack
    /// as TIFF, a multi-frame DICOM; one for each channel and time), or the files that --together
    /// folder or series puts together.
    #[arg(long, value_name = "XxY[xZ]", help_heading = "Picture", conflicts_with = "tile_size")]
    #[serde(with = "as_text")]
    pub tiles: Option<Grid>,

    /// With clahe: tile size in pixels, instead of a number of tiles [default: off]
    ///
    /// Approximate width and height, at least 4. Enhances pictures of different sizes alike. With
    /// "off", --tiles applies.
    #[arg(long, value_name = "PIXELS", help_heading = "Picture", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub tile_size: Option<TileSize>,

    /// With clahe: range of levels, out of 256, for full contrast: 0 to 255 [default: 0]
    ///
    /// A tile with a smaller range, such as sky, skin or a soft background, gains proportionally
    /// less contrast, which keeps its grain down. The range is that of the middle four fifths of
    /// its samples. 0 treats all tiles alike, as OpenCV does.
    #[arg(long, value_name = "LEVELS", help_heading = "Picture", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub noise: Option<Noise>,

    /// Equalized part of a colour picture, such as luma or hue [default: luma]
    ///
    /// "luma": the brightness; red, green and blue change by the same amount. "hue": the
    /// brightness, with the hues kept; colours scale with it, and none clips. "lab": L of L*a*b*,
    /// as OpenCV converts 8 bits. "per-channel": red, green and blue independently, which shifts
    /// colours. "linked": all three with one LUT, from the sum of their histograms, which keeps
    /// their balance. "gray": the brightness, written as gray. "red", "green", "blue": that
    /// channel, written as gray, as for fundus pictures.
    #[arg(long, value_name = "WHAT", help_heading = "Picture")]
    #[serde(with = "as_name")]
    pub color: Option<Color>,

    /// Pictures with a common histogram, such as file or folder [default: auto]
    ///
    /// "auto": each page alone, in an OME-Zarr image each channel. "page": each page alone. "file":
    /// the pages of a file, which keeps their brightness comparable. "channel": the pages of each
    /// channel of a stack. "stack": the same if the file allows it, else each page alone. "folder":
    /// the pictures in each folder. "series": the files of a DICOM series. "all": all pictures of
    /// the run, so that changes from frame to frame stay visible. Every picture is read twice
    /// unless it fits into --memory. Not with clahe, except with --tiles of three numbers, where
    /// "folder" and "series" make volumes whose slices are files.
    #[arg(long, value_name = "WHAT", help_heading = "Picture")]
    #[serde(with = "as_name")]
    pub together: Option<TogetherChoice>,

    /// Common histogram by a regular expression on the path [default: none]
    ///
    /// The expression is searched for in the path below the input folder: '_w([0-9])' for folders
    /// with one file per channel. Pictures in the same folder for which its groups, in parentheses,
    /// capture the same text have one histogram. A picture whose path does not match fails.
    /// Replaces --together.
    #[arg(long, value_name = "REGEX", help_heading = "Picture", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub together_by: Option<OrNone<GroupPattern>>,

    /// Counts that the LUT is made from, instead of the picture's own (repeatable)
    ///
    /// Files that `histeqd histogram --counts FILE` wrote, here or on other machines; several are
    /// added up. Flags replace the list of the configuration file. Not with clahe.
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Picture",
        num_args = 1,
        value_parser = NonEmptyStringValueParser::new().map(PathBuf::from)
    )]
    pub lut: Option<Vec<PathBuf>>,

    /// With floats and integers above 16 bits: value range, auto or LOW..HIGH [default: auto]
    ///
    /// Such as 0..1 or -1000..3000, for TIFFs of floats or of more than 16 bits, PFMs, and gray
    /// DICOMs of more than 8 bits. Values outside are clipped to the nearer end. Values of DICOM
    /// are the stored ones; a suffix on both numbers changes that: "hu" for Hounsfield units of
    /// computed tomography (-1000hu..400hu), "bqml" for activities of positron emission, "rescaled"
    /// for values of any modality by RescaleSlope and RescaleIntercept (0..4095rescaled). "auto" is
    /// each picture's own minimum and maximum, which a single outlier can pull far apart.
    #[arg(long, value_name = "LOW..HIGH", help_heading = "Picture", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub range: Option<OrAuto<Range>>,

    /// With gray DICOMs: display window: auto, a number, or CENTER,WIDTH [default: none]
    ///
    /// Values are rescaled and mapped to black to white by a window or a table before they are
    /// counted: "auto" takes the file's first table or window (a picture without one stays as it
    /// is), a number one of its windows, CENTER,WIDTH that window, in rescaled values. Outputs hold
    /// these display levels, not stored values.
    #[arg(long, value_name = "WINDOW", help_heading = "Picture", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub window: Option<OrNone<Window>>,

    /// Number of levels of the samples: full, auto, or a number [default: full]
    ///
    /// "full" is 256 or 65536, and samples of fewer bits are spread over it. "auto" is the number
    /// that the file states: DICOM's BitsStored, PNG's sBIT, PNM's maxval, TIFF's bits,
    /// MaxSampleValue or OME-XML, the bits of JPEG XL, JPEG 2000 and 12-bit JPEGs; if it states
    /// none, low bits that are 0 in all 16-bit samples count as unused (see --shift). A number,
    /// such as 4096 for 12-bit data in 16-bit files, applies to pictures with room for more levels.
    /// The methods count and write that many levels; a sample outside is an error. Not for floats
    /// and integers above 16 bits.
    #[arg(long, value_name = "N", help_heading = "Picture", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub levels: Option<LevelsChoice>,

    /// Unused low bits of 16-bit samples: 0 to 15 [default: 0]
    ///
    /// 4 for 12-bit data in the upper bits of 16, as many cameras write it. The bits above are
    /// equalized, with the number of levels of --levels or all that fit, and written back to the
    /// same place. A sample whose unused bits are not 0 is an error. Not for 8 bits, floats and
    /// integers above 16 bits.
    #[arg(long, value_name = "BITS", help_heading = "Picture", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub shift: Option<Shift>,

    /// Folder of masks: pixels that are black in a mask are not counted [default: none]
    ///
    /// It has the tree of the input folder. A mask has the name of its picture, or that with the
    /// extension png, tif, pgm or bmp; it is gray, with 8 or 16 bits, and as large as its picture.
    /// Pixels where it is not 0 are counted. The LUT applies to all pixels, unless --mask-keep is
    /// given. Not with clahe.
    #[arg(long, value_name = "FOLDER", help_heading = "Picture")]
    #[serde(with = "as_text")]
    pub mask: Option<OrNone<Folder>>,

    /// Leave masked pixels unchanged
    ///
    /// "--mask-keep=false" overrides the configuration file.
    #[arg(long, value_name = "BOOL", help_heading = "Picture", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub mask_keep: Option<bool>,

    /// No-data value, whose pixels are neither counted nor changed [default: none]
    ///
    /// As in the file, such as 0 or -9999. A no-data pixel has it in all of its colours, and no
    /// other pixel becomes it. Without this flag the value that the file declares applies: GDAL's
    /// tag of a TIFF, or the padding value of a DICOM. "clahe" counts these pixels nevertheless.
    #[arg(long, value_name = "LEVEL", help_heading = "Picture", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub no_data: Option<OrNone<NoData>>,

    /// Read DICOM segmentations, as pictures of their labels
    ///
    /// Labels are enhanced like other levels. Without this flag segmentations are left out, as
    /// reports, plans, doses, parametric maps, presentation states and waveforms always are. Not
    /// with DICOM as output. "--segmentations=false" overrides the configuration file.
    #[arg(long, value_name = "BOOL", help_heading = "Picture", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub segmentations: Option<bool>,

    /// Output format, such as png, jpeg or tiff [default: keep]
    ///
    /// One of keep, png, jpeg, tiff, pnm, bmp, webp, gif and dicom. "keep" leaves format, depth and
    /// name as they are. Any other format replaces the file name's extension. DICOM is written from
    /// DICOM only.
    #[arg(long, value_name = "FORMAT", help_heading = "Output")]
    #[serde(with = "as_name")]
    pub format: Option<FormatName>,

    /// Frames and pages of a file: keep (in one file), auto, split [default: keep]
    ///
    /// For DICOM, animations and TIFF. "split" writes each frame or page to its own file, in a
    /// folder with the name of the output without its extension: scan/scan-00001.png. "auto" does
    /// so only if there are several, and writes a single one as scan.png. In any format but DICOM,
    /// for example for training sets. Not through a queue.
    #[arg(long, value_name = "WHAT", help_heading = "Output")]
    #[serde(with = "as_name")]
    pub frames: Option<FramesChoice>,

    /// Overviews (smaller versions) of a TIFF: keep, drop [default: keep]
    ///
    /// "keep" makes each again from the output, with the same size and tiles: a pyramid stays a
    /// pyramid, and a COG a COG.
    #[arg(long, value_name = "WHAT", help_heading = "Output")]
    #[serde(with = "as_name")]
    pub overviews: Option<OverviewsChoice>,

    /// Output depth: keep, or 8 for 8 bit [default: keep]
    ///
    /// With "8", 16-bit pictures are enhanced in 16 bit and then rounded to 8, for example x-rays
    /// to look at as JPEG. Gray DICOMs are rounded to 8 before, as is usual.
    #[arg(long, value_name = "BITS", help_heading = "Output")]
    #[serde(with = "as_text")]
    pub depth: Option<DepthChoice>,

    /// JPEG quality: keep, or 1 to 100 [default: keep]
    ///
    /// "keep" uses the quantization tables of the input JPEG, to lose as little as possible; for
    /// other inputs it is 90.
    #[arg(long, value_name = "QUALITY", help_heading = "Output", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub quality: Option<JpegQuality>,

    /// PNG compression: fast, balanced, small [default: fast]
    ///
    /// "balanced" takes 1.5 times the work for files 5 % smaller (graphics often 50 %), "small" 5
    /// times the work for 10 %.
    #[arg(long, value_name = "LEVEL", help_heading = "Output")]
    #[serde(with = "as_name")]
    pub png_level: Option<PngLevelName>,

    /// Process pictures again even if their outputs are up to date
    ///
    /// Without it a picture is skipped if its output was made from its present state with the same
    /// settings. "--overwrite=false" overrides the configuration file.
    #[arg(long, value_name = "BOOL", help_heading = "Output", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub overwrite: Option<bool>,

    /// Give each input folder a subfolder of its own in the output folder
    ///
    /// It has the input folder's name: "scans/a/ scans/b/ --out done/" writes done/a/x.png and
    /// done/b/x.png. In a service this also applies to the folders of --after move:DIR and
    /// --failed. Files that are given by name go directly into the output folder. Two input folders
    /// of the same name are refused. "--prefix-folder=false" overrides the configuration file.
    #[arg(long, value_name = "BOOL", help_heading = "Output", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub prefix_folder: Option<bool>,

    /// When an output counts as done: full, fast [default: full]
    ///
    /// "full": once the output and its folder's entry are on the disk, so that not even a power
    /// failure leaves a partial picture. "fast": as soon as the operating system has it. Either way
    /// an output appears whole, by a rename.
    #[arg(long, value_name = "HOW", help_heading = "Output")]
    #[serde(with = "as_name")]
    pub durability: Option<Durability>,

    /// Modification time of outputs: now, or keep that of the input [default: now]
    #[arg(long, value_name = "WHICH", help_heading = "Output")]
    #[serde(with = "as_name")]
    pub times: Option<Times>,

    /// Permissions of outputs: new (by the umask), or keep those of the input [default: new]
    #[arg(long, value_name = "WHICH", help_heading = "Output")]
    #[serde(with = "as_name")]
    pub permissions: Option<Permissions>,

    /// Files that belong to pictures, such as .tfw and .xmp: copy, leave [default: leave]
    ///
    /// "copy" puts them beside the outputs, under the outputs' names: world files (.tfw, .jgw,
    /// .wld), .prj, .aux.xml without statistics, _RPC.TXT, .xmp and masks (.msk), never in the
    /// place of a file that histeqd did not write. "leave" names those that stay. Not for pages and
    /// frames with files of their own, and not with --watch, object storage or standard output.
    #[arg(long, value_name = "HOW", help_heading = "Output")]
    #[serde(with = "as_name")]
    pub sidecars: Option<SidecarsChoice>,

    /// Process only files that match this glob (repeatable)
    ///
    /// A glob without a slash is matched against the file name in any folder: "*.png". One with a
    /// slash is matched against the path below the input folder: "2024/**/raw-*". Case is ignored.
    /// Files that are given by name are always processed. Reserved names of systems and programs
    /// ("@eaDir", "#recycle", "*~", "*.part") are included only by a glob that spells them. Flags
    /// replace the list of the configuration file.
    #[arg(long, value_name = "GLOB", help_heading = "Selection", num_args = 1)]
    pub include: Option<Vec<String>>,

    /// Skip files and folders that match this glob (repeatable)
    ///
    /// Matched like --include, and takes precedence over it. A folder that matches is not entered.
    #[arg(long, value_name = "GLOB", help_heading = "Selection", num_args = 1)]
    pub exclude: Option<Vec<String>>,

    /// Symbolic links to follow in input folders: auto, follow, inside, never [default: auto]
    ///
    /// Links to files and to folders. "inside" follows links to targets in one of the input
    /// folders, "follow" all, except a link that leads back into itself. "auto" is "inside" in a
    /// service and "follow" in a single run. --after and --failed move an input that is a link as a
    /// link; only with "follow" do they copy its target.
    #[arg(long, value_name = "WHICH", help_heading = "Selection")]
    #[serde(with = "as_name")]
    pub links: Option<LinksChoice>,

    /// An older spelling of `links = "follow"` in files: read, and never written.
    #[arg(skip)]
    #[serde(skip_serializing)]
    #[merge(skip)]
    pub follow: Option<bool>,

    /// Read settings of folders from their histeqd.toml files [default: true]
    ///
    /// A histeqd.toml in an input folder, or in a folder below it, sets keys for the pictures
    /// below: those for the look of outputs that name no other place (method, clip-limit, format,
    /// together and so on). An inner file overrides an outer one, both override the configuration
    /// file, and flags override all. "--folder-settings=false" ignores these files.
    #[arg(long, value_name = "BOOL", help_heading = "Selection", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub folder_settings: Option<bool>,

    /// Refuse pictures with more pixels than this [default: 2GP]
    ///
    /// Checked against the header before memory is allocated, so a small file that claims to be a
    /// giant picture does no harm.
    #[arg(long, value_name = "PIXELS", help_heading = "Selection", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub max_pixels: Option<Pixels>,

    /// Refuse pictures that take more memory when decoded, and longer files [default: 2GiB]
    #[arg(long, value_name = "SIZE", help_heading = "Selection", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub max_bytes: Option<Bytes>,

    /// Number of CPU threads [default: auto]
    ///
    /// A number from 1 to 1024. "auto" is one per core that the process may run on. Reduced if the
    /// limit on open files (ulimit -n) is low.
    #[arg(long, short = 'j', value_name = "N", help_heading = "Resources", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub threads: Option<OrAuto<Count>>,

    /// Memory limit for all pictures in progress [default: auto]
    ///
    /// At least 1MiB, such as 512MiB or 4GiB. "auto" is 4GiB, or 256MiB per thread if that is more,
    /// but at most half of the memory of the machine or its control group, and of the address space
    /// (ulimit -v).
    #[arg(long, value_name = "SIZE", help_heading = "Resources", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub memory: Option<OrAuto<Memory>>,

    /// Devices that equalize: auto, cpu, all, or a list of GPUs [default: auto]
    ///
    /// "auto" uses the CPU, and the working GPUs where they pay off: for JPEGs that they can
    /// decode, and where equalizing is a good part of the work, if that lasts longer than GPUs take
    /// to start. A service always starts its GPUs. "cpu" uses no GPU. "all" uses the CPU and every
    /// GPU, and fails if one cannot be used. A list of numbers or UUIDs from `histeqd devices`,
    /// such as "0,2" or "GPU-6a1b...", leaves equalizing to those GPUs. Every device writes the
    /// same bytes, except for TIFFs compressed by deflate: see --deflate.
    #[arg(long, value_name = "WHICH", help_heading = "Resources")]
    #[serde(with = "as_text")]
    pub devices: Option<DeviceChoice>,

    /// Devices that decode and encode JPEGs: auto, cpu, gpu [default: auto]
    ///
    /// GPUs take baseline JPEGs that are written as JPEG; progressive, unusual and damaged ones are
    /// left to the CPU. "auto" lets both take pictures from one queue. "gpu" sends
    /// everything that GPUs accept to them, and fails without a GPU. The bytes are the same either
    /// way.
    #[arg(long, value_name = "WHICH", help_heading = "Resources")]
    #[serde(with = "as_name")]
    pub jpeg: Option<JpegChoice>,

    /// Devices that compress TIFFs by deflate: auto, cpu [default: auto]
    ///
    /// A GPU uses NVIDIA's nvCOMP, if it is installed, for pictures of at least eight strips or
    /// tiles that do not gain from repetitions; its output is some percent longer than the CPU's.
    /// "auto" has GPUs compress while they have room, so the compressed bytes depend on which
    /// device was free; the samples do not. "cpu" or --deterministic writes the same bytes
    /// everywhere.
    #[arg(long, value_name = "WHICH", help_heading = "Resources")]
    #[serde(with = "as_name")]
    pub deflate: Option<DeflateChoice>,

    /// Time limit per picture, after which a GPU counts as failed [default: 30s]
    ///
    /// Another device then processes its pictures, and the GPU is restarted.
    #[arg(long, value_name = "TIME", help_heading = "Resources", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub device_timeout: Option<Wait>,

    /// Time without work after which GPUs are released, or none [default: none]
    ///
    /// With --watch. Idle workers hold memory of their GPUs; starting them again takes a second or
    /// more.
    #[arg(long, value_name = "TIME", help_heading = "Resources", allow_hyphen_values = true)]
    #[serde(with = "as_text", skip_serializing_if = "Option::is_none")]
    pub gpu_idle: Option<OrNone<Wait>>,

    /// Time a file must stay unchanged before it is processed [default: 500ms]
    ///
    /// A file that its writer has closed, or that was moved into the watched folder, is processed
    /// at once. Otherwise its size and modification time must stay the same for this long.
    #[arg(long, value_name = "TIME", help_heading = "Watching", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub settle: Option<Rest>,

    /// Interval for listing the watched folders, as a safety net [default: 10min]
    ///
    /// They are also listed at the start, and whenever the kernel reports lost events.
    #[arg(long, value_name = "TIME", help_heading = "Watching", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub rescan: Option<Wait>,

    /// Polling interval, instead of kernel notifications [default: auto]
    ///
    /// "auto" polls every 5s on network file systems, where other machines write, every 30s in
    /// object storage, and not elsewhere.
    #[arg(long, value_name = "TIME", help_heading = "Watching", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub poll: Option<OrAuto<Wait>>,

    /// Action on inputs once their outputs are on disk: keep, delete, move:DIR [default: keep]
    ///
    /// "move:DIR" mirrors the input tree below DIR; if a name is taken there, the input gets a
    /// number: cat.2.png.
    #[arg(long, value_name = "WHAT", help_heading = "Watching", value_parser = AfterParser)]
    #[serde(with = "as_text")]
    pub after: Option<After>,

    /// With --after delete or move: taken output name: number, replace, wait [default: number]
    ///
    /// A name is taken, for example, if a new input has the name of an earlier one that is done and
    /// gone. "number" keeps both outputs and numbers the new one: cat.2.png. "replace" replaces the
    /// existing output. "wait" retries the input until the existing output is removed. With --after
    /// keep, an input that changes has its own output made again.
    #[arg(long, value_name = "HOW", help_heading = "Watching")]
    #[serde(with = "as_name")]
    pub on_collision: Option<OnCollision>,

    /// Folder for failed inputs, each with its reason in a text file [default: none]
    ///
    /// Only for faults of the picture itself. Transient errors are retried, with growing pauses.
    #[arg(long, value_name = "DIR", help_heading = "Watching")]
    #[serde(with = "as_text")]
    pub failed: Option<OrNone<Folder>>,

    /// Folder of the ledger, the record of finished pictures [default: auto]
    ///
    /// "auto" is the folder .histeqd in the output folder. The ledger may be deleted; pictures are
    /// then processed again.
    #[arg(long, value_name = "DIR", help_heading = "Watching")]
    #[serde(with = "as_text")]
    pub state: Option<OrAuto<Folder>>,

    /// Address of the web page, /metrics, /healthz, /readyz and /status [default: none]
    ///
    /// An IP address or localhost, and a port, such as 127.0.0.1:9464. The page shows arrivals,
    /// work in progress, failures and the latest pictures.
    #[arg(long, value_name = "ADDR", help_heading = "Watching")]
    #[serde(with = "as_text")]
    pub listen: Option<OrNone<Listen>>,

    /// Host name to accept at --listen (repeatable)
    ///
    /// For example scans.example.org, the name of a reverse proxy, or the name that Prometheus
    /// reads /metrics by. Requests for any other host name but localhost are refused, against DNS
    /// rebinding. IP addresses are always accepted. Flags replace the list of the configuration
    /// file.
    #[arg(long, value_name = "NAME", help_heading = "Watching", num_args = 1)]
    pub listen_name: Option<Vec<String>>,

    /// File with the token for retry, pause and resume over the network [default: none]
    ///
    /// One word of at least 16 characters. Without it the service makes a token at its start and
    /// logs it, with a link that signs in the first browser that opens it.
    #[arg(long, value_name = "FILE", help_heading = "Watching")]
    #[serde(with = "as_text")]
    pub token_file: Option<OrNone<InputFile>>,

    /// URL or command to notify when failures begin and end [default: none]
    ///
    /// An http or https URL gets a JSON object by POST; a command gets it on standard input. Sent
    /// once when pictures begin to fail for good, outputs cannot be written or an inbox is
    /// missing, and once when there has been no such failure for the time of --notify-quiet.
    #[arg(long, value_name = "URL|COMMAND", help_heading = "Watching")]
    #[serde(with = "as_text")]
    pub notify: Option<OrNone<Notify>>,

    /// Time without failures after which they have ended [default: 10min]
    #[arg(long, value_name = "TIME", help_heading = "Watching")]
    #[serde(with = "as_text")]
    pub notify_quiet: Option<Wait>,
}

impl Written {
    /// Returns the keys as a configuration file that can be read back.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("every key is text, a number, a truth value or a list of texts")
    }
}

/// Makes a flag with a choice of values ignore their case. Its help names them in a sentence.
fn in_words(flag: Arg) -> Arg {
    if flag.get_action().takes_values() && !flag.get_possible_values().is_empty() {
        return flag.ignore_case(true).hide_possible_values(true);
    }
    flag
}

pub(super) fn table(written: &Written) -> toml::Table {
    toml::Table::try_from(written).expect("keys and values are a table")
}

/// Returns the names of all keys.
pub(super) fn keys() -> Vec<String> {
    table(&Written::defaults()).keys().cloned().collect()
}

/// Returns the default of a key as written in a file.
pub(super) fn default(key: &str) -> Option<toml::Value> {
    table(&Written::defaults()).remove(key)
}

/// Returns the values of a key as written in a file; empty if they cannot be listed.
pub(super) fn choices(key: &str) -> Vec<String> {
    let flags = <Written as clap::Args>::augment_args(clap::Command::new("keys"));
    let flag = flags.get_arguments().find(|flag| flag.get_long() == Some(key));
    let values = flag.map(clap::Arg::get_possible_values).unwrap_or_default();
    values.iter().map(|value| format!("{:?}", value.get_name())).collect()
}
