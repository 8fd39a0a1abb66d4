//! The test harness: temporary folders to run the real binary in, and assertions about its results.

mod stuck;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a test waits for anything before it fails: enough on a machine under load.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// Returns the path of the binary under test. HISTEQD_BIN overrides it, for tests that run without
/// the tree they were built in. Runs of it that do not end are killed.
pub(crate) fn binary() -> String {
    let binary =
        std::env::var("HISTEQD_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_histeqd-faulty").to_owned());
    stuck::watch(binary.clone());
    binary
}

/// Returns the project's folder.
pub(crate) fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Returns a command for the binary. Unlike [`Place::histeqd`], it can use the machine's GPUs.
pub(crate) fn histeqd() -> Command {
    Command::new(binary())
}

/// The skipped tests so far.
static SKIPPED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Reports that a test, or a part of it, is skipped: in one list, when all tests have ended.
#[allow(unsafe_code, reason = "libtest tells nobody that all tests have ended")]
pub(crate) fn skipped(why: impl std::fmt::Display) {
    static ONCE: Once = Once::new();
    // SAFETY: the function may be called at any time, also while other threads run: it takes a lock
    // and prints, and does not unwind.
    ONCE.call_once(|| unsafe { assert_eq!(libc::atexit(tell_skipped), 0) });
    let test = std::thread::current();
    let line = format!("{}: {why}", test.name().unwrap_or("a test"));
    SKIPPED.lock().unwrap_or_else(PoisonError::into_inner).insert(line);
}

extern "C" fn tell_skipped() {
    let skipped = SKIPPED.lock().unwrap_or_else(PoisonError::into_inner);
    let lines: String = skipped.iter().map(|line| format!("    {line}\n")).collect();
    let _ = writeln!(std::io::stdout(), "skipped, as a whole or in part:\n{lines}");
}

/// Waits until `is_so` returns true, and panics if it does not within [`LONG`].
pub(crate) fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the folder `name` of a larger collection of pictures than `tests/data`: below the folder
/// that `HISTEQD_CORPUS` names, or else in its default place. Reports a skip and returns `None` if
/// it does not exist.
pub(crate) fn collection(name: &str) -> Option<PathBuf> {
    let beside = || project().join("../shared/corpus");
    let folder = std::env::var_os("HISTEQD_CORPUS").map_or_else(beside, PathBuf::from).join(name);
    if !folder.is_dir() {
        skipped(format_args!("no folder {}; HISTEQD_CORPUS can name another", folder.display()));
        return None;
    }
    Some(folder.canonicalize().unwrap())
}

/// Returns `has`: whether a test has the GPU that it needs. If not, reports a skip, or panics with
/// `HISTEQD_REQUIRE_CUDA=1`.
pub(crate) fn gpu_or_skip(has: bool, told: &str) -> bool {
    let required = std::env::var_os("HISTEQD_REQUIRE_CUDA").is_some_and(|value| value == "1");
    assert!(has || !required, "HISTEQD_REQUIRE_CUDA=1, but: {told}");
    if !has {
        skipped(format_args!("no GPU: {}", told.trim()));
    }
    has
}

/// Returns whether a test has the server or browser `name` that it needs. If not, reports a skip,
/// or panics with `HISTEQD_REQUIRE_SERVERS=1`.
pub(crate) fn server_or_skip(has: bool, name: &str) -> bool {
    let required = std::env::var_os("HISTEQD_REQUIRE_SERVERS").is_some_and(|value| value == "1");
    assert!(has || !required, "HISTEQD_REQUIRE_SERVERS=1, but there is no {name}");
    if !has {
        skipped(format_args!("no {name}"));
    }
    has
}

/// Returns the output of `histeqd devices`.
pub(crate) fn devices() -> String {
    let mut command = histeqd();
    command.arg("devices");
    Ran::from(command).stdout()
}

/// Returns the number of usable GPUs; if there are none, reports a skip or panics (see
/// [`gpu_or_skip`]).
pub(crate) fn gpus() -> usize {
    let told = devices();
    let found = told.lines().filter(|line| line.starts_with("gpu")).count();
    gpu_or_skip(found > 0, &told);
    found
}

/// A picture whose four gray levels become 0, 85, 170 and 255.
pub(crate) const DULL: &[u8] = b"P5\n4 1\n255\n\x64\x65\x66\x67";

/// [`DULL`], equalized.
pub(crate) const BRIGHT: &[u8] = b"P5\n4 1\n255\n\x00\x55\xaa\xff";

/// A temporary folder for one test, in which its commands run.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    /// An empty place.
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A place with [`DULL`] under each of these names.
    pub(crate) fn with(pictures: &[&str]) -> Self {
        let place = Self::new();
        pictures.iter().for_each(|picture| place.file(picture, DULL));
        place
    }

    /// A path in the place.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file, and creates the folders above it.
    pub(crate) fn file(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Creates a symbolic link; `target` is relative to the link's own folder.
    pub(crate) fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.path(name)).unwrap();
    }

    /// Reads a file.
    pub(crate) fn read(&self, name: impl AsRef<Path>) -> Vec<u8> {
        let path = self.path(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Returns the names of all files below a folder, including hidden ones, sorted; empty if there
    /// is no such folder.
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

    /// Returns a command for the binary in this place, with these arguments, separated by spaces.
    pub(crate) fn histeqd(&self, arguments: &str) -> Command {
        self.command(&binary(), arguments.split_whitespace())
    }

    /// Returns a command for any program in this place, out of reach of the user's configuration
    /// and of GPUs.
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

    /// Runs the binary as a user whom file permissions restrict, so not as root. Reports a skip and
    /// returns `None` where that cannot be done.
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

    /// Runs the binary with a tmpfs of its own mounted at `out`. Reports a skip and returns `None`
    /// where that is not allowed.
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

    /// Returns a command for a shell script in this place, in a mount namespace of its own.
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

/// A finished run: its exit code and its output.
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

/// Fails if other readers find a fault: `differential/checks.py`, which checks the program subject
/// by subject. Reports a skip if Python (`HISTEQD_PYTHON`, or else `python3`) or a module of it is
/// missing.
pub(crate) fn other_readers_agree(subject: &str) {
    let python = std::env::var("HISTEQD_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = project().join("tests/differential/checks.py");
    let place = Place::new();
    let ran = match place.command(&python, [script]).arg(subject).env("HISTEQD", binary()).output() {
        Ok(output) => Ran::from(output),
        Err(error) => return skipped(format_args!("{python}: {error}")),
    };
    match ran.stderr().lines().find(|line| line.contains("ModuleNotFoundError")) {
        Some(missing) => skipped(missing),
        None => _ = ran.exits(0).prints(" checks, 0 faults"),
    }
}

impl Ran {
    /// Whether the exit code was 0.
    pub(crate) fn has_succeeded(&self) -> bool {
        self.output.status.success()
    }

    /// Standard output.
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.output.stdout.clone()).unwrap()
    }

    /// Standard error.
    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.output.stderr.clone()).unwrap()
    }

    /// Standard output, parsed as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout()).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// Expects this exit code.
    pub(crate) fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.output.status.code(), Some(code), "{self}");
        self
    }

    /// Expects these words in standard error.
    pub(crate) fn says(&self, words: &str) -> &Self {
        assert!(self.stderr().contains(words), "not said: {words}\n{self}");
        self
    }

    /// Expects these words in standard output.
    pub(crate) fn prints(&self, words: &str) -> &Self {
        assert!(self.stdout().contains(words), "not printed: {words}\n{self}");
        self
    }

    /// Expects an empty standard error.
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
