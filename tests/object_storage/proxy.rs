//! A proxy before the server that makes requests fail.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The fate of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// The request is answered.
    None,
    /// The connection ends before the server sees it.
    Reset,
    /// The server carries the request out, and the answer is lost.
    AnswerLost,
    /// The connection ends in the middle of the answer.
    HalfAnswer,
    /// The proxy answers, and the request does not reach the server.
    Status500,
    /// The proxy answers that there is no such bucket.
    NoBucket,
    /// The answer is this late.
    Late(Duration),
}

const NO_BUCKET: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 41\r\nConnection: close\r\n\r\n\
                           <Error><Code>NoSuchBucket</Code></Error>\n";

/// The requests that the proxy has seen.
#[derive(Default)]
pub(super) struct Seen {
    /// The first line of each request.
    pub(super) requests: Mutex<Vec<String>>,
    fetches: AtomicUsize,
    /// The most requests to fetch that were under way at once.
    pub(super) most_fetches: AtomicUsize,
}

impl Seen {
    /// Returns the number of requests that began like this.
    pub(super) fn count(&self, method: &str) -> usize {
        self.requests.lock().unwrap().iter().filter(|line| line.starts_with(method)).count()
    }
}

/// Starts a proxy before a server, and returns its URL. `fault` chooses the fault of each request
/// by its first line and the number of requests before it.
pub(super) fn start(
    endpoint: &str,
    fault: impl Fn(&str, usize) -> Fault + Send + Sync + 'static,
) -> (String, Arc<Seen>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = endpoint.trim_start_matches("http://").to_owned();
    let (seen, fault) = (Arc::new(Seen::default()), Arc::new(fault));
    let told = Arc::clone(&seen);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let (server, seen, fault) = (server.clone(), Arc::clone(&told), Arc::clone(&fault));
            // An error means that the client went away.
            thread::spawn(move || drop(carry(&client, &server, &seen, &*fault)));
        }
    });
    (url, seen)
}

/// Carries one request, with its fault; the connection ends with it.
fn carry(
    mut client: &TcpStream,
    server: &str,
    seen: &Seen,
    fault: &dyn Fn(&str, usize) -> Fault,
) -> io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let (mut head, mut line, mut length) = (String::new(), String::new(), 0);
    while reader.read_line(&mut line)? > 0 && line != "\r\n" {
        if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = bytes.trim().parse().unwrap();
        }
        head.push_str(&line);
        line.clear();
    }
    let first = head.lines().next().unwrap_or_default().to_owned();
    if first.is_empty() {
        return Ok(());
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let number = {
        let mut requests = seen.requests.lock().unwrap();
        requests.push(first.clone());
        requests.len() - 1
    };
    let is_fetch = first.starts_with("GET ") && !first.contains('?');
    if is_fetch {
        let now = seen.fetches.fetch_add(1, Ordering::SeqCst) + 1;
        seen.most_fetches.fetch_max(now, Ordering::SeqCst);
    }
    let fault = fault(&first, number);
    let done = match fault {
        Fault::Reset => client.shutdown(Shutdown::Both),
        Fault::Status500 => client.write_all(
            b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        ),
        Fault::NoBucket => client.write_all(NO_BUCKET),
        Fault::None | Fault::AnswerLost | Fault::HalfAnswer | Fault::Late(_) => {
            let mut answer = Vec::new();
            let mut upstream = TcpStream::connect(server)?;
            upstream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes())?;
            upstream.write_all(&body)?;
            upstream.read_to_end(&mut answer)?;
            match fault {
                Fault::AnswerLost => client.shutdown(Shutdown::Both),
                Fault::HalfAnswer => client.write_all(&answer[..answer.len() / 2]),
                Fault::Late(time) => {
                    thread::sleep(time);
                    client.write_all(&answer)
                }
                _ => client.write_all(&answer),
            }
        }
    };
    if is_fetch {
        seen.fetches.fetch_sub(1, Ordering::SeqCst);
    }
    done
}
