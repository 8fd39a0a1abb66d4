//! A place to run the real binary in: a temporary folder that is its working folder, and expectations of what it did.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// On a machine that does much else, everything that a test waits for happens within so long.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// The binary under test; HISTEQD_BIN names another one, where the tests run without the tree that they were built in.
pub(crate) fn binary() -> String {
    std::env::var("HISTEQD_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_histeqd").to_owned())
}

/// The binary, on the devices that there are.
pub(crate) fn histeqd() -> Command {
    Command::new(binary())
}

/// Says that a test, or a part of it, is not done here. Past libtest, which keeps to itself what a test prints that passes.
pub(crate) fn skipped(why: impl std::fmt::Display) {
    let test = std::thread::current();
    let _ = writeln!(std::io::stderr(), "SKIPPED in {}: {why}", test.name().unwrap_or("a test"));
}

/// Waits for something that has to come true.
pub(crate) fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The folder `name` of a larger collection of pictures than `tests/data`, if there is one: below the folder that `HISTEQD_CORPUS`
/// names, else below `../shared/corpus`.
pub(crate) fn collection(name: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpus");
    let folder = std::env::var_os("HISTEQD_CORPUS").map_or_else(beside, PathBuf::from).join(name);
    if !folder.is_dir() {
        skipped(format_args!("no folder {}; HISTEQD_CORPUS can name another", folder.display()));
        return None;
    }
    Some(folder.canonicalize().unwrap())
}

/// Whether a test has what it needs of a GPU. Where it has not, it is skipped aloud, or fails with `HISTEQD_REQUIRE_CUDA=1`.
pub(crate) fn gpu_or_skip(has: bool, told: &str) -> bool {
    let required = std::env::var_os("HISTEQD_REQUIRE_CUDA").is_some_and(|value| value == "1");
    assert!(has || !required, "HISTEQD_REQUIRE_CUDA=1, but: {told}");
    if !has {
        skipped(format_args!("no GPU: {}", told.trim()));
    }
    has
}

/// What `histeqd devices` prints.
pub(crate) fn devices() -> String {
    let mut command = histeqd();
    command.arg("devices");
    Ran::from(command).stdout()
}

/// How many GPUs can be used here; none skips the test that asks.
pub(crate) fn gpus() -> usize {
    let told = devices();
    let found = told.lines().filter(|line| line.starts_with("gpu")).count();
    gpu_or_skip(found > 0, &told);
    found
}

/// A picture whose four gray levels become 0, 85, 170 and 255.
pub(crate) const DULL: &[u8] = b"P5\n4 1\n255\n\x64\x65\x66\x67";

/// What becomes of [`DULL`].
pub(crate) const BRIGHT: &[u8] = b"P5\n4 1\n255\n\x00\x55\xaa\xff";

/// A folder of its own for one test.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    /// An empty place.
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A place with a dull picture under each of these names.
    pub(crate) fn with(pictures: &[&str]) -> Self {
        let place = Self::new();
        pictures.iter().for_each(|picture| place.file(picture, DULL));
        place
    }

    /// A path in the place.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file, and the folders above it.
    pub(crate) fn file(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Makes a symbolic link; `target` is meant from the link's own folder.
    pub(crate) fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.path(name)).unwrap();
    }

    /// What a file holds.
    pub(crate) fn read(&self, name: impl AsRef<Path>) -> Vec<u8> {
        let path = self.path(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The names of all files below a folder, hidden ones too, sorted; empty where there is no such folder.
    pub(crate) fn tree(&self, folder: &str) -> Vec<String> {
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
    pub(crate) fn histeqd(&self, arguments: &str) -> Command {
        self.command(&binary(), arguments.split_whitespace())
    }

    /// Any program with any arguments, in this place.
    pub(crate) fn command(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("XDG_CONFIG_HOME", self.path("xdg")).env("CUDA_VISIBLE_DEVICES", "");
        command
    }

    /// Runs the binary with these arguments, separated by spaces.
    pub(crate) fn run(&self, arguments: &str) -> Ran {
        Ran::from(self.histeqd(arguments))
    }

    /// Runs the binary as somebody to whom permissions mean something. `None`, aloud, where that cannot be done.
    pub(crate) fn run_without_privileges(&self, arguments: &str) -> Option<Ran> {
        const NOBODY: u32 = 65534;
        let mut command = self.histeqd(arguments);
        if rustix::process::geteuid().is_root() {
            fs::set_permissions(self.folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
            command.uid(NOBODY).gid(NOBODY);
        }
        match command.output() {
            Ok(output) => Some(Ran { output }),
            Err(error) => {
                skipped(format_args!("{} cannot be started as nobody: {error}", binary()));
                None
            }
        }
    }

    /// Runs the binary with a small file system of its own mounted at `out`. `None`, aloud, where that is not allowed.
    pub(crate) fn run_with_mount(&self, options: &str, arguments: &str) -> Option<Ran> {
        fs::create_dir_all(self.path("out")).unwrap();
        let script = format!("mount -t tmpfs -o {options} none out || exit 99; '{}' {arguments}", binary());
        match self.with_mounts(&script).output() {
            Ok(output) if output.status.code() != Some(99) && !denied(&output) => Some(Ran { output }),
            refused => {
                skipped(format_args!("no mounts of our own here: {refused:?}"));
                None
            }
        }
    }

    /// A shell that may mount what nobody else sees, in this place.
    pub(crate) fn with_mounts(&self, script: &str) -> Command {
        let mut flags = vec!["--mount"];
        if !rustix::process::geteuid().is_root() {
            flags.extend(["--user", "--map-root-user"]);
        }
        let mut command = self.command("unshare", flags);
        command.args(["sh", "-c", script]);
        command
    }
}

/// Whether `unshare` itself was refused.
fn denied(output: &Output) -> bool {
    String::from_utf8_lossy(&output.stderr).starts_with("unshare:")
}

/// What a run left: its exit code and its words.
#[derive(Debug)]
pub(crate) struct Ran {
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
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.output.stdout.clone()).unwrap()
    }

    /// Standard error.
    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.output.stderr.clone()).unwrap()
    }

    /// The summary that `--json` printed.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout()).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// Expects this exit code.
    pub(crate) fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.output.status.code(), Some(code), "{self}");
        self
    }

    /// Expects this in standard error.
    pub(crate) fn says(&self, words: &str) -> &Self {
        assert!(self.stderr().contains(words), "not said: {words}\n{self}");
        self
    }

    /// Expects this in standard output.
    pub(crate) fn prints(&self, words: &str) -> &Self {
        assert!(self.stdout().contains(words), "not printed: {words}\n{self}");
        self
    }

    /// Expects nothing in standard error.
    pub(crate) fn is_silent(&self) -> &Self {
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
