//! A real NATS server for tests.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::harness::{Place, server_or_skip, wait};

/// A server with its streams in a place; it is killed when dropped.
pub(crate) struct Server {
    program: PathBuf,
    child: Child,
    /// The words before the server's own on its command line.
    prefix: Vec<String>,
    address: &'static str,
    port: u16,
    flags: Vec<String>,
    folder: PathBuf,
    starts: usize,
}

/// Returns the server's program. If there is none, reports a skip, or panics with
/// `HISTEQD_REQUIRE_SERVERS=1`.
fn program() -> Option<PathBuf> {
    let named = std::env::var_os("HISTEQD_NATS_SERVER").map(PathBuf::from);
    let usual = ["nats-server", "/usr/sbin/nats-server", "/usr/local/bin/nats-server"].map(PathBuf::from);
    let runs =
        |program: &PathBuf| Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
    let found = named.into_iter().chain(usual).find(runs);
    server_or_skip(
        found.is_some(),
        "nats-server (apt-get install nats-server), and HISTEQD_NATS_SERVER names none",
    );
    found
}

/// A flag for a server without JetStream.
pub(crate) const WITHOUT_STREAMS: &str = "without streams";

impl Server {
    /// Starts a server in a place, with these further flags, and waits until it answers; `None`
    /// where there is no server.
    pub(crate) fn start(place: &Place, flags: &[&str]) -> Option<Self> {
        Self::start_at(place, Vec::new(), "127.0.0.1", flags)
    }

    /// As [`Server::start`], but by way of another program, such as one that enters a namespace,
    /// and with this address there.
    pub(crate) fn start_at(
        place: &Place,
        prefix: Vec<String>,
        address: &'static str,
        flags: &[&str],
    ) -> Option<Self> {
        let program = program()?;
        // The port is freed at once; another program is most unlikely to take it before the server.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let folder = place.path("");
        let child = spawn(&program, &prefix, address, port, &flags, &folder);
        let server = Self { program, child, prefix, address, port, flags, folder, starts: 1 };
        server.wait();
        Some(server)
    }

    fn wait(&self) {
        let log = || fs::read_to_string(self.folder.join("server.log")).unwrap_or_default();
        wait("the server to listen", || log().matches("Server is ready").count() == self.starts);
    }

    /// Kills the server.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts the server again, with the streams that it had.
    pub(crate) fn restart(&mut self) {
        let Self { program, prefix, address, port, flags, folder, .. } = self;
        self.child = spawn(program, prefix, address, *port, flags, folder);
        self.starts += 1;
        self.wait();
    }

    /// Returns the address of a queue.
    pub(crate) fn queue(&self, name: &str) -> String {
        format!("nats://{}:{}/{name}", self.address, self.port)
    }

    /// Publishes a message, as any authorized program could.
    pub(crate) fn publish(&self, subject: &str, payload: &[u8]) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        assert!(lines.next().unwrap().unwrap().starts_with("INFO "));
        write!(stream, "CONNECT {{\"verbose\":false}}\r\nPUB {subject} {}\r\n", payload.len()).unwrap();
        stream.write_all(payload).unwrap();
        stream.write_all(b"\r\nPING\r\n").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "PONG");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(
    program: &Path,
    prefix: &[String],
    address: &str,
    port: u16,
    flags: &[String],
    folder: &Path,
) -> Child {
    let log = || File::options().create(true).append(true).open(folder.join("server.log")).unwrap();
    let port = port.to_string();
    let mut words = prefix.iter().map(OsStr::new).chain([program.as_os_str()]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).args(["-a", address, "-p", &port]);
    if !flags.iter().any(|flag| flag == WITHOUT_STREAMS) {
        command.args(["-js", "-sd", "streams"]);
    }
    command.args(flags.iter().filter(|flag| *flag != WITHOUT_STREAMS)).current_dir(folder);
    command.stdout(log()).stderr(log()).spawn().unwrap()
}
