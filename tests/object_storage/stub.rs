//! A server with one bucket, `s3://b`, in memory: for names that no program can put into a real
//! one, and for answers that a correct server never gives.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use crate::harness::{Place, Ran, binary, project};

/// An object: its content, and the media type that it was written with.
type Stored = (Vec<u8>, Option<String>);

/// The server, which ends with the process.
pub(super) struct Stub {
    port: u16,
    objects: Arc<Mutex<BTreeMap<String, Stored>>>,
}

/// The answers to listings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Listings {
    /// One page.
    Whole,
    /// Pages without end: each announces another, by the same token.
    Endless,
}

impl Stub {
    pub(super) fn start(listings: Listings) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let objects = Arc::<Mutex<BTreeMap<String, Stored>>>::default();
        let shared = Arc::clone(&objects);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let objects = Arc::clone(&shared);
                // An error means that the client went away.
                thread::spawn(move || drop(answer(&client, &objects, listings)));
            }
        });
        Self { port, objects }
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Stored>> {
        self.objects.lock().unwrap()
    }

    pub(super) fn put(&self, key: &str, content: impl Into<Vec<u8>>) {
        self.objects().insert(key.to_owned(), (content.into(), None));
    }

    pub(super) fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.objects().get(key).map(|(content, _)| content.clone())
    }

    /// Returns the names of all objects below a folder.
    pub(super) fn keys(&self, folder: &str) -> Vec<String> {
        let prefix = format!("{folder}/");
        self.objects().keys().filter(|key| key.starts_with(&prefix)).cloned().collect()
    }

    pub(super) fn content_type(&self, key: &str) -> Option<String> {
        self.objects().get(key).and_then(|(_, kind)| kind.clone())
    }

    pub(super) fn command(&self, place: &Place, arguments: &str) -> Command {
        let mut command = place.command(&binary(), arguments.split_whitespace());
        command.env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port));
        command.env("AWS_ALLOW_HTTP", "true").env("AWS_REGION", "us-east-1");
        // The client checks certificates against an authority, and the machine may have no such
        // file.
        command.env("SSL_CERT_FILE", project().join("tests/data/authority.pem"));
        command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
        command
    }

    pub(super) fn run(&self, place: &Place, arguments: &str) -> Ran {
        Ran::from(self.command(place, arguments))
    }
}

/// Answers one request.
fn answer(
    mut client: &TcpStream,
    objects: &Mutex<BTreeMap<String, Stored>>,
    listings: Listings,
) -> io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut head = Vec::new();
    for line in reader.by_ref().lines() {
        match line? {
            line if line.is_empty() => break,
            line => head.push(line),
        }
    }
    let header = |name: &str| {
        let found = head.iter().filter_map(|line| line.split_once(": "));
        found.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
    };
    let mut body = vec![0; header("content-length").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body)?;
    let mut words = head.first().map_or("", String::as_str).split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let key = decoded(path).trim_start_matches("/b").trim_start_matches('/').to_owned();
    let mut objects = objects.lock().unwrap();
    let (status, headers, body) = match method {
        "PUT" => {
            objects.insert(key, (body, header("content-type")));
            ("200 OK", "ETag: \"1\"\r\n", Vec::new())
        }
        _ if key.is_empty() => ("200 OK", "", listing(&objects, query, listings).into_bytes()),
        _ => match objects.get(&key) {
            Some((content, _)) => {
                ("200 OK", "ETag: \"1\"\r\nLast-Modified: Thu, 26 Nov 2026 10:00:00 GMT\r\n", content.clone())
            }
            None => ("404 Not Found", "", Vec::new()),
        },
    };
    write!(
        client,
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    if method == "HEAD" { Ok(()) } else { client.write_all(&body) }
}

fn listing(objects: &BTreeMap<String, Stored>, query: &str, listings: Listings) -> String {
    let value = |name: &str| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(own, _)| *own == name).map(|(_, value)| decoded(value)).next()
    };
    let prefix = value("prefix").unwrap_or_default();
    let by_folder = value("delimiter").is_some();
    let (mut text, mut folders) = (String::from("<ListBucketResult>"), BTreeSet::new());
    for (key, (content, _)) in objects.iter().filter(|(key, _)| key.starts_with(&prefix)) {
        match key[prefix.len()..].split_once('/') {
            Some((folder, _)) if by_folder => drop(folders.insert(format!("{prefix}{folder}/"))),
            _ => {
                let _ = write!(
                    text,
                    "<Contents><Key>{}</Key><Size>{}</Size><ETag>&quot;1&quot;</ETag>\
                     <LastModified>2026-11-26T10:00:00.000Z</LastModified></Contents>",
                    escaped(key),
                    content.len()
                );
            }
        }
    }
    for folder in folders {
        let _ = write!(text, "<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", escaped(&folder));
    }
    if listings == Listings::Endless {
        text += "<IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken>";
    }
    text + "</ListBucketResult>"
}

/// Escapes special characters for XML, as references.
fn escaped(text: &str) -> String {
    let is_plain = |character: char| character.is_alphanumeric() || "/._ ".contains(character);
    let written = |character: char| match is_plain(character) {
        true => character.to_string(),
        false => format!("&#{};", u32::from(character)),
    };
    text.chars().map(written).collect()
}

/// Undoes the escapes of a URL.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, others @ ..] = rest {
        match (first, others) {
            (b'%', [high, low, behind @ ..]) => {
                let digits = [*high, *low];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
                rest = behind;
            }
            _ => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}
