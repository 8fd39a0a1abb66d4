//! A place to run the real binary in: a temporary folder that is its working folder, and expectations of what it did.

#![allow(dead_code, unreachable_pub, reason = "each test crate uses its own part")]
#![allow(clippy::unwrap_used, reason = "in a test it is an assertion")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// The binary under test; HISTEQD_BIN names another one, where the tests run without the tree that they were built in.
pub fn binary() -> String {
    std::env::var("HISTEQD_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_histeqd").to_owned())
}

/// A picture whose four gray levels become 0, 85, 170 and 255.
pub const DULL: &[u8] = b"P5\n4 1\n255\n\x64\x65\x66\x67";

/// What becomes of [`DULL`].
pub const BRIGHT: &[u8] = b"P5\n4 1\n255\n\x00\x55\xaa\xff";

/// A folder of its own for one test.
pub struct Place {
    folder: TempDir,
}

impl Place {
    /// An empty place.
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A place with a dull picture under each of these names.
    pub fn with(pictures: &[&str]) -> Self {
        let place = Self::new();
        pictures.iter().for_each(|picture| place.file(picture, DULL));
        place
    }

    /// A path in the place.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file, and the folders above it.
    pub fn file(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Makes a symbolic link; `target` is meant from the link's own folder.
    pub fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.path(name)).unwrap();
    }

    /// What a file holds.
    pub fn read(&self, name: impl AsRef<Path>) -> Vec<u8> {
        let path = self.path(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The names of all files below a folder, hidden ones too, sorted; empty where there is no such folder.
    pub fn tree(&self, folder: &str) -> Vec<String> {
        let root = self.path(folder);
        let mut names = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    folders.push(path);
                } else {
                    names.push(path.strip_prefix(&root).unwrap().to_string_lossy().into_owned());
                }
            }
        }
        names.sort();
        names
    }

    /// The binary with these arguments, separated by spaces, in this place, out of reach of the user's configuration.
    pub fn histeqd(&self, arguments: &str) -> Command {
        self.command(&binary(), arguments.split_whitespace())
    }

    /// Any program with any arguments, in this place.
    pub fn command(&self, program: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("XDG_CONFIG_HOME", self.path("xdg")).env("CUDA_VISIBLE_DEVICES", "");
        command
    }

    /// Runs the binary with these arguments, separated by spaces.
    pub fn run(&self, arguments: &str) -> Ran {
        Ran::from(self.histeqd(arguments))
    }

    /// Runs the binary as somebody to whom permissions mean something. `None`, aloud, where that cannot be done.
    pub fn run_without_privileges(&self, arguments: &str) -> Option<Ran> {
        const NOBODY: u32 = 65534;
        let mut command = self.histeqd(arguments);
        if rustix::process::geteuid().is_root() {
            fs::set_permissions(self.folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
            command.uid(NOBODY).gid(NOBODY);
        }
        match command.output() {
            Ok(output) => Some(Ran { output }),
            Err(error) => {
                eprintln!("SKIPPED: {} cannot be started as nobody: {error}", binary());
                None
            }
        }
    }

    /// Runs the binary with a small file system of its own mounted at `out`. `None`, aloud, where that is not allowed.
    pub fn run_with_mount(&self, options: &str, arguments: &str) -> Option<Ran> {
        fs::create_dir_all(self.path("out")).unwrap();
        let script = format!("mount -t tmpfs -o {options} none out || exit 99; '{}' {arguments}", binary());
        let mut flags = vec!["--mount"];
        if !rustix::process::geteuid().is_root() {
            flags.extend(["--user", "--map-root-user"]);
        }
        let mut command = self.command("unshare", flags);
        command.args(["sh", "-c", &script]);
        match command.output() {
            Ok(output) if output.status.code() != Some(99) && !denied(&output) => Some(Ran { output }),
            refused => {
                eprintln!("SKIPPED: no mounts of our own here: {refused:?}");
                None
            }
        }
    }
}

/// Whether `unshare` itself was refused.
fn denied(output: &Output) -> bool {
    String::from_utf8_lossy(&output.stderr).starts_with("unshare:")
}

/// What a run left: its exit code and its words.
#[derive(Debug)]
pub struct Ran {
    output: Output,
}

impl From<Command> for Ran {
    fn from(mut command: Command) -> Self {
        Self { output: command.output().unwrap() }
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self { output }
    }
}

impl Ran {
    /// Standard output.
    pub fn stdout(&self) -> String {
        String::from_utf8(self.output.stdout.clone()).unwrap()
    }

    /// Standard error.
    pub fn stderr(&self) -> String {
        String::from_utf8(self.output.stderr.clone()).unwrap()
    }

    /// The summary that `--json` printed.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout()).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// Expects this exit code.
    pub fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.output.status.code(), Some(code), "{self}");
        self
    }

    /// Expects this in standard error.
    pub fn says(&self, words: &str) -> &Self {
        assert!(self.stderr().contains(words), "not said: {words}\n{self}");
        self
    }

    /// Expects this in standard output.
    pub fn prints(&self, words: &str) -> &Self {
        assert!(self.stdout().contains(words), "not printed: {words}\n{self}");
        self
    }

    /// Expects nothing in standard error.
    pub fn is_silent(&self) -> &Self {
        assert!(self.stderr().is_empty(), "{self}");
        self
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (stdout, stderr) =
            (String::from_utf8_lossy(&self.output.stdout), String::from_utf8_lossy(&self.output.stderr));
        write!(f, "{}\n---- stdout\n{stdout}---- stderr\n{stderr}", self.output.status)
    }
}
