//! The selection of files in an input folder.

mod names;
mod reserved;

use std::borrow::Cow;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

pub(crate) use names::{first_output, is_first_page, is_hidden, patterned, promises_a_picture};
pub use names::{output_below, page_output};
pub use reserved::{Purpose, Reserved};

/// The name of the file with a folder's settings.
pub(crate) const FOLDER_SETTINGS: &str = "histeqd.toml";

/// Which links in input folders are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// All of them.
    #[default]
    Follow,
    /// Links to a target in an input folder.
    Inside,
    /// No links.
    Never,
}

/// The user's globs, and the rule for links. Globs are matched against paths relative to the input
/// folder, regardless of case.
#[derive(Clone, Debug)]
pub struct Selection {
    /// `None`: every file is included.
    include: Option<GlobSet>,
    /// The globs of `include`, as they are matched.
    spelled: Vec<String>,
    exclude: GlobSet,
    /// Which links are followed.
    pub links: Links,
    /// Whether a glob of `include` looks like a list: it has a comma outside braces.
    pub commas: bool,
}

/// The decision about a file or folder by its own path, without the folders that it lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The file is taken, or the folder entered.
    Taken,
    /// The globs do not select it.
    NotSelected,
    /// Its name is reserved, and no glob spells it.
    LeftOut(&'static Reserved),
}

impl Selection {
    /// Builds the matchers. An empty `include` includes everything.
    ///
    /// # Errors
    /// When a glob is invalid. The error is a sentence that names it.
    pub fn new(include: &[String], exclude: &[String], links: Links) -> Result<Self, String> {
        let included = if include.is_empty() { None } else { Some(globs(include)?) };
        let commas = include.iter().any(|glob| is_list(glob));
        let spelled = include.iter().map(|glob| anchored(glob).to_ascii_lowercase()).collect();
        Ok(Self { include: included, spelled, exclude: globs(exclude)?, links, commas })
    }

    /// Returns whether there are any globs.
    pub fn is_selective(&self) -> bool {
        self.include.is_some() || !self.exclude.is_empty()
    }

    /// Returns whether a file below an input folder is taken.
    pub fn takes_file(&self, below: &Path) -> bool {
        self.file(below) == Choice::Taken
    }

    /// Decides about a file below an input folder.
    pub(crate) fn file(&self, below: &Path) -> Choice {
        let path = folded(below);
        if is_of_folder_settings(below) || self.exclude.is_match(&path) {
            return Choice::NotSelected;
        }
        let Some(include) = &self.include else {
            return reserved::file(below).map_or(Choice::Taken, Choice::LeftOut);
        };
        let matching = include.matches(&path);
        if matching.is_empty() && !self.is_in_included_folder(include, below) {
            return Choice::NotSelected;
        }
        match reserved::file(below) {
            Some(name) if !matching.iter().any(|glob| name.is_spelled_in(&self.spelled[*glob])) => {
                Choice::LeftOut(name)
            }
            _ => Choice::Taken,
        }
    }

    /// Decides about a folder below an input folder.
    pub(crate) fn folder(&self, below: &Path) -> Choice {
        if self.exclude.is_match(folded(below)) {
            return Choice::NotSelected;
        }
        match reserved::folder(below) {
            Some(name) if !self.spelled.iter().any(|glob| name.is_spelled_in(glob)) => Choice::LeftOut(name),
            _ => Choice::Taken,
        }
    }

    /// Returns whether a file lies in a folder of a reserved name that a glob matches: all of the
    /// folder is asked for.
    fn is_in_included_folder(&self, include: &GlobSet, below: &Path) -> bool {
        let mut folders = below.ancestors().skip(1);
        folders.any(|folder| reserved::folder(folder).is_some() && include.is_match(folded(folder)))
    }
}

/// Returns whether a file holds the settings of its folder, and is therefore no picture whatever a
/// glob matches.
pub(crate) fn is_of_folder_settings(below: &Path) -> bool {
    below.file_name().is_some_and(|name| name == FOLDER_SETTINGS)
}

/// Returns a path in lower case, for globs in lower case: the matcher itself ignores only the case
/// of ASCII letters.
fn folded(path: &Path) -> Cow<'_, Path> {
    if path.as_os_str().is_ascii() {
        return Cow::Borrowed(path);
    }
    Cow::Owned(lower(&path.to_string_lossy()).into())
}

/// Returns a text in lower case, letter by letter: [`str::to_lowercase`] gives a sigma another form
/// at the end of a word.
fn lower(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

fn is_list(glob: &str) -> bool {
    let mut depth = 0_i32;
    glob.chars().any(|char| {
        depth += i32::from(char == '{') - i32::from(char == '}');
        char == ',' && depth == 0
    })
}

fn globs(patterns: &[String]) -> Result<GlobSet, String> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let glob =
            GlobBuilder::new(&anchored(pattern)).literal_separator(true).case_insensitive(true).build();
        set.add(glob.map_err(|error| format!("the glob {pattern:?} is invalid: {}", error.kind()))?);
    }
    set.build().map_err(|error| error.to_string())
}

/// Makes a pattern match whole paths: without a slash, it matches names in any folder; a leading
/// slash or `./` ties it to the input folder itself; trailing slashes add no condition.
fn anchored(pattern: &str) -> String {
    let lower = if pattern.is_ascii() { pattern.to_owned() } else { lower(pattern) };
    let inner = lower.trim_end_matches('/');
    match inner.strip_prefix('/').or_else(|| inner.strip_prefix("./")) {
        Some(below) => below.to_owned(),
        None if inner.contains('/') => inner.to_owned(),
        None => format!("**/{inner}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    fn selection(include: &[&str], exclude: &[&str]) -> Selection {
        let owned = |globs: &[&str]| globs.iter().map(ToString::to_string).collect::<Vec<_>>();
        Selection::new(&owned(include), &owned(exclude), Links::Follow).unwrap()
    }

    #[test]
    fn everything_is_taken_without_globs() {
        let all = selection(&[], &[]);
        assert!(all.takes_file(Path::new("a/b.png")) && !all.is_selective());
        assert!(selection(&["*"], &[]).is_selective() && selection(&[], &["*"]).is_selective());
    }

    #[test]
    fn a_glob_without_a_slash_is_about_names_in_any_folder_and_any_case() {
        let png = selection(&["*.png"], &[]);
        for path in ["a.png", "x/y/a.png", "A.PNG", "x/ÉTÉ.png"] {
            assert!(png.takes_file(Path::new(path)), "{path}");
        }
        assert!(!png.takes_file(Path::new("a.jpg")));
        let accented = selection(&["Été*"], &[]);
        assert!(["ÉTÉ.png", "été.png"].iter().all(|path| accented.takes_file(Path::new(path))));
        assert!(accented.takes_file(Path::new(OsStr::from_bytes(b"\xff/\xc3\x89t\xc3\xa9.png"))));
        assert!(selection(&["ΟΔΟΣ*"], &[]).takes_file(Path::new("οδοσα.pgm")));
    }

    #[test]
    fn a_glob_with_a_slash_is_about_the_path_below_the_input() {
        let raw = selection(&["2024/**/raw-*"], &[]);
        assert!(raw.takes_file(Path::new("2024/raw-1.png")));
        assert!(raw.takes_file(Path::new("2024/may/12/raw-1.png")));
        assert!(!raw.takes_file(Path::new("x/2024/raw-1.png")));
        for glob in ["/*.png", "./*.png"] {
            let top = selection(&[glob], &[]);
            assert!(top.takes_file(Path::new("a.png")));
            assert!(!top.takes_file(Path::new("x/a.png")));
        }
    }

    #[test]
    fn exclusion_wins_and_closes_folders() {
        let both = selection(&["*.png"], &["thumb*", "cache/"]);
        assert!(!both.takes_file(Path::new("thumb1.png")));
        assert_eq!(both.folder(Path::new("a/cache")), Choice::NotSelected);
        assert_eq!(both.folder(Path::new("a/caches")), Choice::Taken);
        assert!(both.takes_file(Path::new("a/b.png")));
    }

    #[test]
    fn reserved_names_are_left_out_unless_a_glob_spells_them() {
        let is_left_out = |choice| matches!(choice, Choice::LeftOut(_));
        for include in [&[][..], &["*"], &["*.jpg*", "**/a*"]] {
            let usual = selection(include, &[]);
            assert!(["x/a.jpg~", "a.jpg.part"].iter().all(|name| is_left_out(usual.file(Path::new(name)))));
            assert!(["x/@eaDir", "#recycle"].iter().all(|name| is_left_out(usual.folder(Path::new(name)))));
        }
        let asked = selection(&["*.jpg", "*.PART", "@eaDir", "x/#recycle/**/*.png"], &["*.bak"]);
        for taken in ["a.jpg", "a.gif.part", "x/@eaDir/y/a.gif", "x/#recycle/a.png"] {
            assert_eq!(asked.file(Path::new(taken)), Choice::Taken, "{taken}");
        }
        for folder in ["x/@eaDir", "x/@eaDir/y", "x/#recycle"] {
            assert_eq!(asked.folder(Path::new(folder)), Choice::Taken, "{folder}");
        }
        assert_eq!(asked.file(Path::new("x/#recycle/a.gif")), Choice::NotSelected);
        assert_eq!(asked.file(Path::new("@eaDir/a.bak")), Choice::NotSelected);
        assert!(is_left_out(asked.file(Path::new("@eaDir/a.jpg~"))));
        assert!(is_left_out(asked.folder(Path::new("@Recycle"))));
    }

    #[test]
    fn a_glob_with_commas_looks_like_a_list_but_not_between_braces() {
        for (glob, commas) in
            [("*.png,*.jpg", true), ("*.{png,jpg}", false), ("*.{a,b},c", true), ("*", false)]
        {
            assert_eq!(selection(&[glob], &[]).commas, commas, "{glob}");
        }
        assert!(!selection(&[], &["a,b"]).commas);
    }

    #[test]
    fn a_wrong_glob_is_named() {
        let why = Selection::new(&["a[".into()], &[], Links::Follow).unwrap_err();
        assert!(why.starts_with("the glob \"a[\" is invalid: "), "{why}");
    }
}
