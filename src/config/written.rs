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
    OverviewsChoice, Percent, Permissions, Plateau, PngLevelName, Preset, Shift, TileSize, Times,
    TogetherChoice,
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
    /// Settings for a kind of picture: photo, scan, xray, dicom, microscopy, satellite, thermal, training, none [default: none]
    ///
    /// A set of the keys below for what the pictures are of, printed by `histeqd presets`: photographs, documents and old photographs, x-rays
    /// and slices of CT and MR, DICOM as pictures to look at, microscopes' pictures, satellite scenes, or pictures to train on. They hold where no other flag, no
    /// histeqd.toml and no configuration file says otherwise.
    #[arg(long, value_name = "NAME", help_heading = "Picture")]
    #[serde(with = "as_name")]
    pub preset: Option<Preset>,

    /// How contrast is enhanced: global, stretch, match, clahe [default: global]
    ///
    /// "global" is histogram equalization: one table for the whole picture, made from the histogram of the whole
    /// picture. "stretch" spreads the levels over the range without changing how they relate, but for the few that
    /// --clip-low and --clip-high give up. "match" makes the histogram like that of --reference. "clahe" is contrast-limited adaptive histogram equalization: a table for every tile of the picture, with
    /// the contrast limited and the tables blended from tile to tile; with a number as clip limit its results are OpenCV's.
    /// "global" makes most photographs harsh; --preset photo has what suits them.
    #[arg(long, value_name = "METHOD", help_heading = "Picture")]
    #[serde(with = "as_name")]
    pub method: Option<MethodName>,

    /// Lift dark pictures first, so that the brightest samples reach this share of the range: 0 to 1 [default: 0]
    ///
    /// With at most three decimals; 0 leaves pictures as they are. Nothing becomes more than three times as bright, and a picture that reaches
    /// further keeps its bright end. Which samples are passed over as too few to count is said by --clip-low and --clip-high.
    #[arg(long, value_name = "SHARE", help_heading = "Picture", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub exposure: Option<Exposure>,

    /// How far to go from the picture's levels to the enhanced ones: 0 to 1 [default: 1]
    ///
    /// With at most three decimals. 0.5 is half-way between the picture and what the method makes of it; 0 changes nothing. With --exposure
    /// it is the way from the lifted picture.
    #[arg(long, value_name = "NUMBER", help_heading = "Picture", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub strength: Option<Strength>,

    /// With stretch: percent of the samples that become the darkest level [default: 0.175]
    ///
    /// Below 100, with at most four decimals. At most so many are darker than what becomes the darkest level; 0 gives up none. --exposure
    /// passes over as many.
    #[arg(long, value_name = "PERCENT", help_heading = "Picture", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub clip_low: Option<Percent>,

    /// With stretch: percent of the samples that become the brightest level [default: 0.175]
    #[arg(long, value_name = "PERCENT", help_heading = "Picture", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub clip_high: Option<Percent>,

    /// With global: percent of the samples above which the count of a level is cut; or off [default: off]
    ///
    /// Above 0 and below 100, with at most four decimals. Large flat areas then take no more of the range than small ones that use as
    /// many levels: a hot object keeps its detail beside a cold scene, and so does the ground of a page or of nuclei.
    #[arg(long, value_name = "PERCENT", help_heading = "Picture", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub plateau: Option<Plateau>,

    /// With match: the picture whose levels the others get, or a file of counts [default: none]
    ///
    /// In any format that is read. All of its pages and frames are counted. A file that `histeqd histogram --counts FILE` wrote has the levels of
    /// many pictures. Its depth must be that of the pictures, and with
    /// --color per-channel it must have colour if they do.
    #[arg(long, value_name = "FILE", help_heading = "Picture")]
    #[serde(with = "as_text")]
    pub reference: Option<OrNone<InputFile>>,

    /// With clahe: how much contrast a tile may gain: auto, or a number; 0 for no limit [default: auto]
    ///
    /// The height that a peak of a tile's histogram may have, as a multiple of the mean: 0 to 1000000. A number is OpenCV's
    /// clipLimit, which counts in 65536 levels for 16-bit pictures, so that those of few levels stay dark. "auto" is 2 for
    /// up to 256 levels, and of more the same for those that occur, whatever --levels says.
    #[arg(long, value_name = "NUMBER", help_heading = "Picture", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub clip_limit: Option<OrAuto<ClipLimit>>,

    /// With clahe: how many tiles, across and down, and along stacks if they are boxes [default: 8x8]
    ///
    /// Each from 1 to 1024. With three numbers, such as 8x8x4, the pages of a file are the slices of a volume (a z-stack as TIFF, a scan as
    /// DICOM of several frames; one for each channel and time), or with --together folder or series the files are, and tiles are boxes: their
    /// tables are also blended from slice to slice.
    #[arg(long, value_name = "XxY[xZ]", help_heading = "Picture", conflicts_with = "tile_size")]
    #[serde(with = "as_text")]
    pub tiles: Option<Grid>,

    /// With clahe: tiles of about this many pixels a side, instead of a number of tiles [default: off]
    ///
    /// At least 4. Enhances pictures of different sizes alike. With "off", --tiles applies.
    #[arg(long, value_name = "PIXELS", help_heading = "Picture", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub tile_size: Option<TileSize>,

    /// With clahe: how many levels, of 256, a tile has to span to gain all of its contrast: 0 to 255 [default: 0]
    ///
    /// A tile of sky, skin or a soft background that spans fewer gains in proportion less, so that its grain does not come out. The span is that
    /// of the middle four fifths of its samples. 0 treats all tiles alike, as OpenCV does.
    #[arg(long, value_name = "LEVELS", help_heading = "Picture", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub noise: Option<Noise>,

    /// What is equalized in a colour picture: luma, hue, lab, per-channel, linked, gray, red, green, blue [default: luma]
    ///
    /// "luma" equalizes the brightness, with which red, green and blue change by as much. "hue" does so and keeps the hues: colours
    /// grow with the brightness, and none clips. "lab" equalizes L of L*a*b*, as OpenCV converts 8 bits. "per-channel" equalizes red, green and blue independently,
    /// which shifts colours. "linked" sends all three through one table, made of the sum of their counts, which keeps their balance.
    /// "gray" writes only the equalized brightness; "red", "green" and "blue" only that channel, as for pictures of the fundus.
    #[arg(long, value_name = "WHAT", help_heading = "Picture")]
    #[serde(with = "as_name")]
    pub color: Option<Color>,

    /// What has one histogram and one table of levels: auto, page, file, channel, stack, folder, series, all [default: auto]
    ///
    /// "auto" is each page for itself, and of an OME-Zarr image each channel. "file" keeps the brightness of a stack's pages comparable, "channel" that of the pages of each channel of a stack, "stack" the same where nothing has to be refused for it, "folder" that of the pictures in each folder, "series" that of the files of a DICOM series, "all" that of
    /// all pictures of the run, so that changes from frame to frame stay visible. Every picture is read twice unless it fits
    /// into --memory. Not with clahe, but for --tiles of three numbers, where "folder" and "series" make volumes whose slices are files.
    #[arg(long, value_name = "WHAT", help_heading = "Picture")]
    #[serde(with = "as_name")]
    pub together: Option<TogetherChoice>,

    /// One table of levels for the pictures of a folder for which this regular expression captures the same [default: none]
    ///
    /// The expression is looked for in the path below the input folder: '_w([0-9])' for folders of one file a channel. Pictures of the same
    /// folder for which its groups, in parentheses, capture the same have one histogram; one in whose path it is not found fails. It stands
    /// instead of --together.
    #[arg(long, value_name = "REGEX", help_heading = "Picture", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub together_by: Option<OrNone<GroupPattern>>,

    /// Take the table of levels from these counts instead of the pictures' own (can be repeated, and sums are added up)
    ///
    /// Files that "histeqd histogram --counts FILE" wrote, here or on other machines. Flags replace the list of the
    /// configuration file. Not with clahe.
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Picture",
        num_args = 1,
        value_parser = NonEmptyStringValueParser::new().map(PathBuf::from)
    )]
    pub lut: Option<Vec<PathBuf>>,

    /// With floats and long integers: the values between which levels are spread: auto, or LOW..HIGH [default: auto]
    ///
    /// Such as 0..1 or -1000..3000; of TIFFs of floats or of more than 16 bits, PFMs, and gray DICOMs of more than 8 bits. Values outside become the nearer end.
    /// Values of DICOM are the stored ones; with "hu" or "bqml" behind both, as in -1000hu..400hu, they are Hounsfield units of
    /// computed tomography, or activities of positron emission; with "rescaled", as in 0..4095rescaled, those of any modality by
    /// RescaleSlope and RescaleIntercept.
    /// "auto" is each picture's own least and greatest value, which a single outlier can pull far apart.
    #[arg(long, value_name = "LOW..HIGH", help_heading = "Picture", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub range: Option<OrAuto<Range>>,

    /// Of gray DICOMs: equalize them as they are shown: auto, the number of a window, or CENTER,WIDTH [default: none]
    ///
    /// Values are rescaled and brought between black and white by a window or a table before they are counted: with "auto" by the file's first
    /// table or window (the picture stays as it is if it has none), with a number by that of its windows, with two numbers by that window, in
    /// rescaled values. Outputs then have these levels of brightness, and no stored values.
    #[arg(long, value_name = "WINDOW", help_heading = "Picture", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub window: Option<OrNone<Window>>,

    /// How many levels samples have: full, auto, or a number [default: full]
    ///
    /// "full" is 256 or 65536, over which samples of fewer bits are spread. "auto" is what the file says: DICOM's BitsStored, PNG's sBIT,
    /// PNM's maxval, TIFF's bits, MaxSampleValue or OME-XML, the bits of JPEG XL, JPEG 2000 and JPEGs of 12 bits; where it says nothing, lower bits that are 0
    /// in all samples of 16 bits are none of the level (see --shift). A number, such as 4096 for
    /// 12-bit data in 16-bit files, holds for pictures that have room for more. The methods count and write so many levels, and a sample above
    /// them is an error. Not of floats and long integers.
    #[arg(long, value_name = "N", help_heading = "Picture", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub levels: Option<LevelsChoice>,

    /// How many lower bits of 16-bit samples are none of the level, and 0: 0 to 15 [default: 0]
    ///
    /// 4 for 12-bit data in the upper bits of 16, as many cameras write them. The levels above are counted, as many as --levels says or there is
    /// room for, and come back to where they were. A sample with lower bits that are not 0 is an error. Not of 8 bits, floats and long integers.
    #[arg(long, value_name = "BITS", help_heading = "Picture", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub shift: Option<Shift>,

    /// A folder of masks: pixels that a mask has in black do not count [default: none]
    ///
    /// It has the tree of the input folder, and a mask the name of its picture, or that with the extension png, tif, pgm or bmp. A mask is
    /// gray, of 8 or 16 bits, and as large as its picture; whatever is not 0 in it counts. Pixels that do not count go through the table of
    /// levels like all others, unless --mask-keep keeps them. Not with clahe.
    #[arg(long, value_name = "FOLDER", help_heading = "Picture")]
    #[serde(with = "as_text")]
    pub mask: Option<OrNone<Folder>>,

    /// Leave pixels that a mask covers as they are
    ///
    /// "--mask-keep=false" overrides the configuration file.
    #[arg(long, value_name = "BOOL", help_heading = "Picture", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub mask_keep: Option<bool>,

    /// The level of pixels that are none: they do not count, stay as they are, and no other gets it [default: none]
    ///
    /// As it is in the files, such as 0 or -9999. A pixel has it in all of its colours. Without it, GDAL's tag of a TIFF and the padding value of a
    /// DICOM tell. "clahe" counts these pixels nevertheless.
    #[arg(long, value_name = "LEVEL", help_heading = "Picture", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub no_data: Option<OrNone<NoData>>,

    /// Take DICOM's segmentations as pictures of their labels, which are enhanced like other levels
    ///
    /// Without it they are left out, as reports, plans, doses, parametric maps, presentation states and waveforms always are. Not with DICOM as
    /// output. "--segmentations=false" overrides the configuration file.
    #[arg(long, value_name = "BOOL", help_heading = "Picture", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub segmentations: Option<bool>,

    /// Format of the outputs: keep, png, jpeg, tiff, pnm, bmp, webp, gif, dicom [default: keep]
    ///
    /// "keep" leaves format, depth and name as they are. Any other format replaces the file name's extension. DICOM is made of DICOM only.
    #[arg(long, value_name = "FORMAT", help_heading = "Output")]
    #[serde(with = "as_name")]
    pub format: Option<FormatName>,

    /// What becomes of the frames of a DICOM or an animation and the pages of a TIFF: keep, auto, split [default: keep]
    ///
    /// "split" writes each into a file of its own, in a folder that has the name of the output without its extension: scan/scan-00001.png. So it
    /// does with a picture that has one, which "auto" writes as scan.png. In any format but DICOM, as training sets need it. Not through a queue.
    #[arg(long, value_name = "WHAT", help_heading = "Output")]
    #[serde(with = "as_name")]
    pub frames: Option<FramesChoice>,

    /// What becomes of the overviews of a TIFF, the smaller versions of its pictures: keep, drop [default: keep]
    ///
    /// "keep" makes each of them again of the picture that is written, as large and in the same tiles: a pyramid stays a pyramid, and a COG a COG.
    #[arg(long, value_name = "WHAT", help_heading = "Output")]
    #[serde(with = "as_name")]
    pub overviews: Option<OverviewsChoice>,

    /// Depth of the outputs: keep, or 8 for 8 bit [default: keep]
    ///
    /// With "8", 16-bit pictures are enhanced in 16 bit and then rounded to 8, such as x-rays to look at as JPEG. Gray DICOMs are rounded to 8
    /// before, as is usual.
    #[arg(long, value_name = "BITS", help_heading = "Output")]
    #[serde(with = "as_text")]
    pub depth: Option<DepthChoice>,

    /// Quality of the JPEGs written: keep, or 1 to 100 [default: keep]
    ///
    /// "keep" uses the quantization tables of the JPEG that was read, to lose as little as possible; for other inputs it
    /// means 90.
    #[arg(long, value_name = "QUALITY", help_heading = "Output", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub quality: Option<JpegQuality>,

    /// PNG compression: fast, balanced (1.5 times the work, 5 % smaller, graphics often 50 %), small (5 times the work,
    /// 10 % smaller) [default: fast]
    #[arg(long, value_name = "LEVEL", help_heading = "Output")]
    #[serde(with = "as_name")]
    pub png_level: Option<PngLevelName>,

    /// Process pictures again even if their outputs are up to date
    ///
    /// Without it a picture is skipped if its output was made from it, as it is, with the same settings.
    /// "--overwrite=false" overrides the configuration file.
    #[arg(long, value_name = "BOOL", help_heading = "Output", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub overwrite: Option<bool>,

    /// Give the outputs of each input folder a folder of their own in the output folder
    ///
    /// It has the input folder's name: "scans/a/ scans/b/ --out done/" writes done/a/x.png and done/b/x.png. In a service, so
    /// do the inputs below the folders of --after move:DIR and --failed. Files that are given by name go directly into the
    /// output folder. Two input folders of the same name are refused. "--prefix-folder=false" overrides the configuration file.
    #[arg(long, value_name = "BOOL", help_heading = "Output", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub prefix_folder: Option<bool>,

    /// When an output counts as done: full, fast [default: full]
    ///
    /// "full": once the output and its folder's entry are on the disk, so that not even a power failure leaves a partial
    /// picture. "fast": as soon as the operating system has it. Either way an output appears whole, by a rename.
    #[arg(long, value_name = "HOW", help_heading = "Output")]
    #[serde(with = "as_name")]
    pub durability: Option<Durability>,

    /// The modification time of outputs: now, or keep that of the input [default: now]
    #[arg(long, value_name = "WHICH", help_heading = "Output")]
    #[serde(with = "as_name")]
    pub times: Option<Times>,

    /// The permissions of outputs: new, as the umask has it, or keep those of the input [default: new]
    #[arg(long, value_name = "WHICH", help_heading = "Output")]
    #[serde(with = "as_name")]
    pub permissions: Option<Permissions>,

    /// Take only files that match this glob (can be repeated)
    ///
    /// A glob without a slash is matched against the file's name in any folder: "*.png". One with a slash is matched
    /// against the path below the input folder: "2024/**/raw-*". Case is ignored. Files that are given by name are always
    /// taken. Names that systems and programs keep for themselves ("@eaDir", "#recycle", "*~", "*.part") are taken only if
    /// a glob spells them. Flags replace the list of the configuration file.
    #[arg(long, value_name = "GLOB", help_heading = "Selection", num_args = 1)]
    pub include: Option<Vec<String>>,

    /// Leave out files and folders that match this glob (can be repeated)
    ///
    /// Matched like --include, and takes precedence over it. A folder that matches is not entered.
    #[arg(long, value_name = "GLOB", help_heading = "Selection", num_args = 1)]
    pub exclude: Option<Vec<String>>,

    /// Which symbolic links in input folders are followed: auto, follow, inside, never [default: auto]
    ///
    /// Links to files and to folders. "inside" follows those that lead to what lies in one of the input folders, "follow" all, but never one that
    /// leads back into itself. "auto" is "inside" in a service and "follow" in a single run. An input that is a link is moved as a link by
    /// --after and --failed; only with "follow" is what it leads to copied.
    #[arg(long, value_name = "WHICH", help_heading = "Selection")]
    #[serde(with = "as_name")]
    pub links: Option<LinksChoice>,

    /// An older spelling of `links = "follow"` in files: read, and never written.
    #[arg(skip)]
    #[serde(skip_serializing)]
    #[merge(skip)]
    pub follow: Option<bool>,

    /// Take settings of folders from the files histeqd.toml in them [default: true]
    ///
    /// Such a file in an input folder, or in a folder below it, sets keys for the pictures below its folder: those of what outputs look like
    /// that name no other place (method, clip-limit, format, together and so on). That of an inner folder goes over that of an outer one, both
    /// over the configuration file, and flags over all. "--folder-settings=false" takes none.
    #[arg(long, value_name = "BOOL", help_heading = "Selection", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub folder_settings: Option<bool>,

    /// Refuse pictures with more pixels than this [default: 2GP]
    ///
    /// The size is read from the file's header and checked before memory is allocated, so that a small file that claims
    /// to be a giant picture does no harm.
    #[arg(long, value_name = "PIXELS", help_heading = "Selection", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub max_pixels: Option<Pixels>,

    /// Refuse pictures that need more memory than this when decoded, and longer files [default: 2GiB]
    #[arg(long, value_name = "SIZE", help_heading = "Selection", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub max_bytes: Option<Bytes>,

    /// How many CPU threads to use [default: auto]
    ///
    /// A number from 1 to 1024. "auto" uses one for each core that the process may run on. Reduced if the limit
    /// on open files (ulimit -n) is low.
    #[arg(long, short = 'j', value_name = "N", help_heading = "Resources", allow_negative_numbers = true)]
    #[serde(with = "as_text")]
    pub threads: Option<OrAuto<Count>>,

    /// How much memory the pictures in progress may take together [default: auto]
    ///
    /// At least 1MiB, such as 512MiB or 4GiB. "auto" is 4GiB, or 256MiB per thread if that is more, but at most half of
    /// the memory of the machine or its control group, and of the address space (ulimit -v).
    #[arg(long, value_name = "SIZE", help_heading = "Resources", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub memory: Option<OrAuto<Memory>>,

    /// Which devices equalize: auto, cpu, all, or GPUs by number or UUID [default: auto]
    ///
    /// "auto" uses the CPU, and the working GPUs where they pay off: for JPEGs that they can decode, and where equalizing is
    /// a good part of the work, if that lasts longer than GPUs take to start. A service always starts its GPUs. "cpu" uses no
    /// GPU. "all" uses the CPU and every GPU, and fails if one cannot be used. A list such as "0,2" or "GPU-6a1b..." leaves
    /// the equalizing to those, with the numbers that `histeqd devices` shows. Every device writes the same bytes, except
    /// for TIFFs compressed by deflate: see --deflate.
    #[arg(long, value_name = "WHICH", help_heading = "Resources")]
    #[serde(with = "as_text")]
    pub devices: Option<DeviceChoice>,

    /// Which devices decode and encode JPEGs: auto, cpu, gpu [default: auto]
    ///
    /// GPUs take JPEGs that are equalized on luma and written as JPEG; progressive, unusual and damaged ones are left to the
    /// CPU. "auto" lets both take pictures from one queue. "gpu" sends to GPUs everything that they accept, and fails if
    /// there is none. The bytes are the same either way.
    #[arg(long, value_name = "WHICH", help_heading = "Resources")]
    #[serde(with = "as_name")]
    pub jpeg: Option<JpegChoice>,

    /// Which devices compress TIFFs by deflate: auto, cpu [default: auto]
    ///
    /// A GPU uses NVIDIA's nvCOMP, if it is installed, for pictures of eight strips or tiles and more that repetitions make no
    /// shorter; they get some percent longer than the CPU's. "auto" has GPUs compress while they have room, so the compressed
    /// bytes depend on which was free; the samples do not. "cpu" or --deterministic writes the same bytes everywhere.
    #[arg(long, value_name = "WHICH", help_heading = "Resources")]
    #[serde(with = "as_name")]
    pub deflate: Option<DeflateChoice>,

    /// How long a GPU may take for one picture before it counts as failed [default: 30s]
    ///
    /// Its pictures are then processed by another device, and it is restarted.
    #[arg(long, value_name = "TIME", help_heading = "Resources", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub device_timeout: Option<Wait>,

    /// Give GPUs back after this time without work, until there is some: a time, or none [default: none]
    ///
    /// With --watch. Workers that wait hold memory of their GPUs; starting them again takes a second or more.
    #[arg(long, value_name = "TIME", help_heading = "Resources", allow_hyphen_values = true)]
    #[serde(with = "as_text", skip_serializing_if = "Option::is_none")]
    pub gpu_idle: Option<OrNone<Wait>>,

    /// How long a file must stay unchanged before it is processed [default: 500ms]
    ///
    /// A file that its writer has closed, or that was moved into the watched folder, is processed at once. Otherwise its
    /// size and modification time must stay the same for this long.
    #[arg(long, value_name = "TIME", help_heading = "Watching", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub settle: Option<Rest>,

    /// How often the watched folders are listed as a safety net [default: 10min]
    ///
    /// They are also listed at the start, and whenever the kernel reports lost events.
    #[arg(long, value_name = "TIME", help_heading = "Watching", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub rescan: Option<Wait>,

    /// List the watched folders this often, instead of using the kernel's notifications [default: auto]
    ///
    /// "auto" does so every 5s on network file systems, where other machines write, and not elsewhere.
    #[arg(long, value_name = "TIME", help_heading = "Watching", allow_hyphen_values = true)]
    #[serde(with = "as_text")]
    pub poll: Option<OrAuto<Wait>>,

    /// What happens to an input once its output is on the disk: keep, delete, move:DIR [default: keep]
    ///
    /// "move:DIR" mirrors the input tree below DIR; if a name is taken there, the input gets a number: cat.2.png.
    #[arg(long, value_name = "WHAT", help_heading = "Watching", value_parser = AfterParser)]
    #[serde(with = "as_text")]
    pub after: Option<After>,

    /// With --after delete or move: what if an output's name is taken: number, replace, wait [default: number]
    ///
    /// As when a name comes again whose first input is done and gone. "number" keeps both, and gives the new output a number:
    /// cat.2.png. "replace" replaces the output that is there. "wait" tries the input again until somebody takes that output
    /// away. With --after keep, an input that changes has its own output made again.
    #[arg(long, value_name = "HOW", help_heading = "Watching")]
    #[serde(with = "as_name")]
    pub on_collision: Option<OnCollision>,

    /// Move inputs that cannot be processed to this folder, each with the reason in a text file next to it [default: none]
    ///
    /// Only for faults of the picture itself. Transient errors are retried, with growing pauses.
    #[arg(long, value_name = "DIR", help_heading = "Watching")]
    #[serde(with = "as_text")]
    pub failed: Option<OrNone<Folder>>,

    /// The folder for the ledger of what was done [default: auto]
    ///
    /// "auto" is the folder .histeqd in the output folder. The ledger may be deleted; pictures are then processed again.
    #[arg(long, value_name = "DIR", help_heading = "Watching")]
    #[serde(with = "as_text")]
    pub state: Option<OrAuto<Folder>>,

    /// Serve a page, /metrics, /healthz, /readyz and /status at this address [default: none]
    ///
    /// An IP address or localhost, and a port, such as 127.0.0.1:9464. The page shows what arrives, runs and fails, and the latest pictures.
    #[arg(long, value_name = "ADDR", help_heading = "Watching")]
    #[serde(with = "as_text")]
    pub listen: Option<OrNone<Listen>>,

    /// A name that this machine has for those who ask at --listen (can be repeated)
    ///
    /// Such as scans.example.org, that of a reverse proxy, or that by which Prometheus reads /metrics. Requests for any other name but localhost are
    /// refused, so that no web page reads the service by a name that was made to lead to it. Addresses are always known. Flags replace the list of
    /// the configuration file.
    #[arg(long, value_name = "NAME", help_heading = "Watching", num_args = 1)]
    pub listen_name: Option<Vec<String>>,

    /// A file with the token that retry, pause and resume take over the network [default: none]
    ///
    /// One word of at least 16 characters. Without it the service makes a token at its start, and names it in its log, with a link that lets the
    /// browser that opens it first do without.
    #[arg(long, value_name = "FILE", help_heading = "Watching")]
    #[serde(with = "as_text")]
    pub token_file: Option<OrNone<InputFile>>,

    /// Tell this URL or command when failures begin, and when they have ended [default: none]
    ///
    /// An http or https URL gets a JSON object posted; a command gets it on standard input. Once when pictures begin to fail for good, no outputs can be
    /// written or an inbox is missing, and once when that has not been so for the time of --notify-quiet.
    #[arg(long, value_name = "URL|COMMAND", help_heading = "Watching")]
    #[serde(with = "as_text")]
    pub notify: Option<OrNone<Notify>>,

    /// How long there must be no failures until they have ended [default: 10min]
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
