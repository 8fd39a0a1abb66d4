//! The destination that `--out` names: a folder for all outputs, the file of the only one, or
//! standard output.

use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::Cli;
use crate::config::{FormatName, Naming};
use crate::fs::paths::{Shown, folder_of};
use crate::source::{self, STANDARD_INPUT};
use codec::{Format, names_unwritten};

/// The name for standard output.
const STANDARD_OUTPUT: &str = "-";

/// The destination of the outputs of a run.
pub(super) struct Output {
    /// The folder that receives them; empty for standard output.
    pub(super) folder: PathBuf,
    pub(super) naming: Naming,
    /// The format in the name of an output file.
    pub(super) format: Option<FormatName>,
}

impl Output {
    /// Decides the kind of `--out`.
    ///
    /// It is a file if there is one input, no folder, and the name has the extension of a format
    /// that is written; unless a folder of that name exists.
    ///
    /// # Errors
    /// A sentence for the user, if the inputs cannot go there.
    pub(super) fn of(cli: &Cli) -> Result<Self, String> {
        let out = cli.out.clone().unwrap_or_default();
        let piped = cli.inputs.iter().any(|input| input.as_os_str() == STANDARD_INPUT);
        if let (true, Some(why)) = (piped, without_folder(cli)) {
            return Err(format!("{why}, and `-` is standard input"));
        }
        if piped && cli.inputs.len() > 1 {
            return Err("`-`, standard input, cannot be combined with other inputs".to_owned());
        }
        if out.as_os_str() == STANDARD_OUTPUT {
            return standard_output(cli);
        }
        let format = Format::of_name(&out).filter(|format| format.is_written() && !is_folder(&out));
        match format {
            Some(format) => one_file(cli, out, format),
            None if piped => Err(format!(
                "standard input has no name, so --out has to name a file, such as {}, or `-` for standard output",
                Shown(&out.join("result.png"))
            )),
            None if is_single(cli) && !is_folder(&out) && names_image_folder(&out) => Err(format!(
                "--out {}: OME-Zarr is made of OME-Zarr only; name a file of another format, such as {}, for a program like bioformats2raw; {}",
                Shown(&out),
                Shown(&out.with_extension("tif")),
                folder_instead(&out)
            )),
            None if is_single(cli) && !is_folder(&out) && names_unwritten(&out) => {
                Err(format!("--out {}: that format is not written; {}", Shown(&out), folder_instead(&out)))
            }
            None => Ok(Self { folder: out, naming: Naming::Mirror, format: None }),
        }
    }
}

fn standard_output(cli: &Cli) -> Result<Output, String> {
    if let Some(why) = not_single(cli) {
        return Err(format!(
            "--out - writes one picture to standard output, but {why}; name a folder, such as --out done/"
        ));
    }
    if cli.json {
        return Err("--json writes to standard output, and so does --out -; name a file instead".to_owned());
    }
    if io::stdout().is_terminal() && !cli.dry_run {
        return Err("--out - would write a picture to the terminal; send it to a file or a program, as in \
                    `histeqd photo.jpg --out - > result.jpg`"
            .to_owned());
    }
    Ok(Output { folder: PathBuf::new(), naming: Naming::StandardOutput, format: None })
}

fn one_file(cli: &Cli, out: PathBuf, format: Format) -> Result<Output, String> {
    if let Some(why) = not_single(cli) {
        return Err(format!(
            "--out {} is the name of one picture, but {why}; {}",
            Shown(&out),
            folder_instead(&out)
        ));
    }
    let named = FormatName::from(format);
    if let Some(wanted) = cli.written.format.filter(|wanted| *wanted != named) {
        let otherwise = Option::<Format>::from(wanted).map_or_else(String::new, |wanted| {
            format!(", or name it {}", Shown(&out.with_extension(wanted.extensions()[0])))
        });
        return Err(format!(
            "--out {} is the name of a {format}, but --format is another; leave out --format{otherwise}",
            Shown(&out)
        ));
    }
    Ok(Output { folder: folder_of(&out).to_owned(), naming: Naming::File(out), format: Some(named) })
}

fn folder_instead(out: &Path) -> String {
    let plain = out.with_extension("");
    format!("for a folder, write --out {}/ or --out {}/", Shown(&plain), Shown(out))
}

/// Returns whether a name is that of an image that is a folder.
fn names_image_folder(out: &Path) -> bool {
    let own = out.extension().unwrap_or_default();
    Format::Zarr.extensions().iter().any(|extension| own.eq_ignore_ascii_case(extension))
}

/// Returns whether a name is that of a folder: there is one, or it ends in a slash.
fn is_folder(out: &Path) -> bool {
    out.as_os_str().as_bytes().ends_with(b"/") || out.is_dir()
}

/// Returns whether there is one input, not a folder, and one run for it.
fn is_single(cli: &Cli) -> bool {
    not_single(cli).is_none()
}

/// Returns why there may be several outputs, or they need a folder.
fn not_single(cli: &Cli) -> Option<String> {
    match cli.inputs.as_slice() {
        _ if cli.watch || cli.resume => without_folder(cli).map(str::to_owned),
        [input] if source::is_folder(input) => Some(format!("{} is a folder", Shown(input))),
        [_] => None,
        inputs => Some(format!("there are {} inputs", inputs.len())),
    }
}

/// Returns why a folder is needed, whatever the inputs are.
fn without_folder(cli: &Cli) -> Option<&'static str> {
    match (cli.watch, cli.resume) {
        (true, _) => Some("--watch needs a folder"),
        (_, true) => Some("--resume needs a folder"),
        _ => None,
    }
}
