//! The settings that decide how outputs look, resolved.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::layers::key;
use super::outputs::{AUTO_BY_LEVELS, HUE_OF_DARK_PIXELS};
use super::{
    DepthChoice, Folder, FramesChoice, InputFile, MethodName, NoData, OrAuto, OrNone, OverviewsChoice,
    Together, TogetherChoice, Written, levels, method,
};
use crate::fs::input::InputRoots;
use crate::fs::paths::Shown;
use crate::picture::counts::Counts;
use crate::picture::luts::Luts;
use crate::picture::mask::Masks;
use crate::picture::recipe::Recipe;
use crate::picture::record::Digest;
use crate::picture::reference::Reference;
use crate::picture::unused::Unused;
use codec::{LevelCount, Limits, Target};
use equalize::{Clahe, ClipLimit, Colour, Levels, Method, Operation};

/// The settings that decide how the outputs of pictures look. Pictures of one run may have
/// different ones.
#[derive(Clone, Debug)]
pub struct PictureSettings {
    /// The operation on the samples.
    pub operation: Operation,
    /// The groups of pages or files with one histogram.
    pub together: Together,
    /// Whether each channel of an image that is a folder may have one histogram.
    joins_channels: bool,
    /// The LUTs of all pictures, if they are not made from the pictures.
    pub luts: Option<Arc<Luts>>,
    /// Masks of the pixels that count, if not all do.
    pub masks: Option<Masks>,
    /// The reference of a method that needs one.
    pub reference: Option<Arc<Reference>>,
    /// The form of outputs: their format, quality and channels.
    pub target: Target,
    /// Whether the pages of a file with several go into files of their own.
    splits_several: bool,
    /// The folder below which `--together all` counts, if that is not all of the run.
    pub together_in: PathBuf,
    /// Whether any of the settings come from files of folders.
    pub is_of_folder: bool,
    /// The flags that only have an effect on some pictures.
    pub(crate) conditional: Vec<Unused>,
    /// The digest of the counts that the LUTs were made from.
    counts: Option<Digest>,
    /// The keys that differ from their defaults, as a configuration file.
    keys: String,
    /// The same and more: see [`PictureSettings::of_outputs`].
    text: String,
    /// The digest of `text`.
    digest: Digest,
}

impl PictureSettings {
    /// Resolves these keys, each of which has a value.
    ///
    /// A reference is read within the limits and the memory. It and counts are only read below
    /// `roots`.
    ///
    /// # Errors
    /// A sentence for the user, about choices that exclude each other, or an unusable file.
    pub(super) fn resolve(
        resolved: &Written,
        limits: &Limits,
        memory: u64,
        roots: &InputRoots,
    ) -> Result<Self, String> {
        let (color, together) = (key(resolved.color), Together::resolve(resolved)?);
        let colour = color.equalized();
        // Where one sample of chroma covers several pixels, those that stay cannot be kept apart.
        let has_pixels_that_stay = key(resolved.mask_keep) || key(resolved.no_data.clone()) != OrNone::None;
        let keeps_hue = colour == Colour::Hue && !has_pixels_that_stay;
        let is_by_itself = together.is_optional() && key(resolved.tiles).z.is_none();
        let target = Target {
            format: key(resolved.format).into(),
            jpeg_quality: key(resolved.quality),
            png_level: key(resolved.png_level).into(),
            eight_bit: key(resolved.depth) == DepthChoice::Eight,
            gray: color.gray(),
            needs_rgb: colour != Colour::Luma && !keeps_hue,
            keeps_hue,
            range: match key(resolved.range) {
                OrAuto::Auto => None,
                OrAuto::Fixed(range) => Some(range),
            },
            window: key(resolved.window.clone()).into(),
            levels: levels::count(key(resolved.levels), key(resolved.shift), is_by_itself)?,
            no_data: Option::from(key(resolved.no_data.clone())).map(|NoData(value)| value),
            adds_colours: key(resolved.method) == MethodName::Clahe,
            splits: key(resolved.frames) == FramesChoice::Split,
            overviews: key(resolved.overviews) == OverviewsChoice::Keep,
            in_planes: false,
            segmentations: key(resolved.segmentations),
            derivation: None,
        };
        if target.window.is_some() && target.range.is_some() {
            return Err("--window and --range both set the range of values; leave one of them out".to_owned());
        }
        let operation = Operation {
            method: method::method(resolved)?,
            colour,
            exposure: method::exposure(resolved)?,
            strength: key(resolved.strength),
            levels: Levels::All,
        };
        if operation.colour == Colour::Linked && matches!(operation.method, Method::Clahe(_)) {
            return Err("--color linked has one LUT for red, green and blue, but --method clahe makes one per tile; use --color hue"
                .to_owned());
        }
        let reference = reference(resolved, &target, limits, memory, roots)?.map(Arc::new);
        let counts = counts(resolved, roots)?;
        let is_by_itself = together == Together::PAGE && reference.is_none() && counts.is_none();
        if operation.colour == Colour::Lab && !(is_by_itself && target.levels == LevelCount::Full) {
            return Err(
                "--color lab does not work with --levels, --together, --lut and --reference; use --color hue"
                    .to_owned(),
            );
        }
        let luts = counts.as_ref().map(|counts| Arc::new(Luts::of(counts, &operation, reference.as_deref())));
        let counts = counts.map(|counts| Digest::of(counts.to_json().as_bytes()));
        let (masks, keys, text) = (masks(resolved)?, String::new(), String::new());
        let digest = Digest::of(b"");
        let (together_in, is_of_folder) = (PathBuf::new(), false);
        let unspelled = Self {
            operation,
            together,
            joins_channels: matches!(resolved.together, Some(TogetherChoice::Auto | TogetherChoice::Stack)),
            luts,
            masks,
            reference,
            target,
            splits_several: key(resolved.frames) == FramesChoice::Auto,
            together_in,
            is_of_folder,
            conditional: resolved.conditional(),
            counts,
            keys,
            text,
            digest,
        };
        Ok(unspelled.spelled(resolved))
    }

    /// Returns the same for the pictures of a folder.
    ///
    /// `together_in` is the folder that has `--together` in its file, if any does.
    #[must_use]
    pub(crate) fn of_folder(self, together_in: PathBuf) -> Self {
        Self { together_in, is_of_folder: true, ..self }
    }

    /// Returns the same for an image that is a folder.
    ///
    /// Each of its channels has one histogram, unless the user chose otherwise, or the operation
    /// takes a table from elsewhere or several.
    #[must_use]
    pub(crate) fn of_image_folder(&self) -> Self {
        let is_adaptive = matches!(self.operation.method, Method::Clahe(_));
        let has_one = !is_adaptive && self.luts.is_none() && self.operation.colour != Colour::Lab;
        let of_channels = self.joins_channels && self.together.is_optional() && has_one;
        let together = if of_channels { Together::CHANNEL } else { self.together.clone() };
        let in_planes = together == Together::PAGE || self.operation.method.has_boxes();
        let levels = self.target.levels;
        let levels = if of_channels { levels.of_several() } else { levels };
        Self { together, target: Target { in_planes, levels, ..self.target }, ..self.clone() }
    }

    /// Returns whether the name of a file's output depends on the file having several pages.
    pub(crate) const fn split_several(&self) -> bool {
        self.splits_several
    }

    /// Returns the same for a file.
    ///
    /// `has_several` is only called where it matters whether the file has several pages or frames.
    #[must_use]
    pub(crate) fn of_file(self: Arc<Self>, has_several: impl FnOnce() -> bool) -> Arc<Self> {
        if !self.splits_several || !has_several() {
            return self;
        }
        Arc::new(self.splitting())
    }

    /// Returns the same for a file with each page in an output file of its own.
    #[must_use]
    pub(crate) fn splitting(&self) -> Self {
        Self { target: Target { splits: true, ..self.target }, ..self.clone() }
    }

    /// Returns the same with the keys spelled as here: paths may have several spellings.
    #[must_use]
    pub(crate) fn spelled(self, written: &Written) -> Self {
        // The content of these files counts, whatever their names.
        let digests = [self.reference.as_ref().map(|reference| reference.digest()), self.counts];
        let lines = digests.into_iter().flatten().map(|digest| format!("# {digest}\n"));
        let lines = lines.chain(self.goes_by_levels().then(|| AUTO_BY_LEVELS.to_owned()));
        let keeps_hue = self.operation.colour == Colour::Hue;
        let lines = lines.chain(keeps_hue.then(|| HUE_OF_DARK_PIXELS.to_owned()));
        let keys = written.of_outputs();
        let text = keys.clone() + &lines.collect::<String>();
        let digest = Digest::of(text.as_bytes());
        let derivation = Some(method::derivation(&self.operation.method, digest));
        let target = Target { derivation, ..self.target };
        Self { target, digest, keys, text, ..self }
    }

    /// Returns whether a clip limit depends on the levels that occur, where these are no more than
    /// a file or the user states.
    fn goes_by_levels(&self) -> bool {
        let is_auto = |clahe: &Clahe| clahe.clip_limit == ClipLimit::Auto;
        let goes_by = matches!(&self.operation.method, Method::Clahe(clahe) if is_auto(clahe));
        goes_by && self.target.levels != LevelCount::Full
    }

    /// Returns a text to compare, of all that decides whether and how a picture with this mask
    /// ([`PictureSettings::mask_state`]) is written. A version that spells it differently costs
    /// only rework.
    pub fn fingerprint(&self, mask: Option<Digest>, limits: &Limits) -> String {
        match mask {
            None => format!("{} {limits:?}", self.text),
            // The ledger keeps each text once. Each mask has one of its own, so it is short.
            Some(_) => format!("masked {} {limits:?}", self.digest.with(mask)),
        }
    }

    /// Returns a text to compare, of all that decides how an output looks.
    ///
    /// It is the same in every version: a key that is left at its default is not in it.
    pub fn of_outputs(&self) -> &str {
        &self.text
    }

    /// Returns the text of settings in a [`PictureSettings::fingerprint`], unless that only has
    /// their digest.
    pub(crate) fn of_fingerprint(fingerprint: &str) -> Option<&str> {
        let (settings, _) = fingerprint.rsplit_once(" Limits {")?;
        (!settings.starts_with("masked ")).then_some(settings)
    }

    /// Returns the recipe for people to read on an output of a picture with this mask
    /// ([`PictureSettings::mask_state`]).
    pub(crate) fn recipe(&self, mask: Option<Digest>) -> Recipe {
        Recipe::new(&self.text, mask)
    }

    /// Returns whether they name files, which are private to this machine.
    pub(crate) fn name_files(&self) -> bool {
        self.reference.is_some() || self.counts.is_some() || self.masks.is_some()
    }

    /// Returns the keys that differ from their defaults, as a configuration file.
    pub fn keys(&self) -> &str {
        &self.keys
    }

    /// Returns an identifier of the state of an input's mask, if it has one ([`Masks::state_of`]).
    pub fn mask_state(&self, inputs: &[PathBuf], input: &Path) -> Option<Digest> {
        self.masks.as_ref()?.state_of(inputs, input)
    }

    /// Returns the digest of [`PictureSettings::of_outputs`].
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

#[cfg(test)]
impl Default for PictureSettings {
    fn default() -> Self {
        let limits = Limits { max_pixels: 1 << 30, max_bytes: 1 << 30 };
        Self::resolve(&Written::defaults(), &limits, 1 << 30, &InputRoots::default()).unwrap()
    }
}

/// Returns the place of the masks, if pictures have any.
fn masks(resolved: &Written) -> Result<Option<Masks>, String> {
    let OrNone::Some(Folder(folder)) = key(resolved.mask.clone()) else { return Ok(None) };
    if resolved.method == Some(MethodName::Clahe) {
        return Err(
            "--mask leaves pixels out of the count of a whole picture, but --method clahe counts tiles, like OpenCV's, \
             with all of their pixels"
                .to_owned(),
        );
    }
    if !folder.is_dir() {
        return Err(format!("--mask {} is no folder", Shown(&folder)));
    }
    Ok(Some(Masks { folder, keeps: key(resolved.mask_keep) }))
}

/// Reads the counts to make the LUTs from, if they are not the pictures' own.
fn counts(resolved: &Written, roots: &InputRoots) -> Result<Option<Counts>, String> {
    let files = key(resolved.lut.clone());
    if files.is_empty() {
        return Ok(None);
    }
    if resolved.method == Some(MethodName::Clahe) {
        return Err("--lut is one table of levels, but --method clahe makes one per tile".to_owned());
    }
    if Together::resolve(resolved)? != Together::PAGE {
        return Err(
            "--lut takes the LUT from a file, so --together has no effect; leave one of them out".to_owned()
        );
    }
    let mut all = Counts::default();
    for file in files {
        all.merge(&Counts::read(&file, roots).map_err(|error| error.to_string())?);
    }
    Ok(Some(all))
}

/// Reads the reference, if the method has one.
fn reference(
    resolved: &Written,
    target: &Target,
    limits: &Limits,
    memory: u64,
    roots: &InputRoots,
) -> Result<Option<Reference>, String> {
    match key(resolved.reference.clone()) {
        _ if key(resolved.method) != MethodName::Match => Ok(None),
        OrNone::None => {
            Err("--method match needs --reference FILE, the picture whose levels others get".to_owned())
        }
        OrNone::Some(InputFile(path)) => {
            Reference::read(&path, target, limits, memory, roots).map(Some).map_err(|error| error.to_string())
        }
    }
}
