//! A server of health, metrics and status over HTTP, at an address or at a Unix socket.
//!
//! Every connection gets one answer, a thread of its own and a few seconds, so a client that does not read the answer, or connects and
//! sends nothing, is in nobody's way. Where there are too many, the one that has kept its place longest without a request goes.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, SocketFlags, accept_with, shutdown};
use tracing::{debug, info};

use super::answers::{Answers, Caller};
use super::connection::Connection;

/// How often the server checks whether it is to end, and whether there is room for another connection.
const PAUSE: Duration = Duration::from_millis(200);
/// The most connections at once.
const READERS: usize = 64;
/// The most threads at once: those of connections that have been closed may take a moment to end.
const THREADS: usize = 4 * READERS;

/// A server that answers until it is dropped.
#[derive(Debug)]
pub(super) struct Server {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic was reported where it happened, and only ended this server.
            let _ = thread.join();
        }
    }
}

/// Starts a server at `address`. The error is a sentence for the user.
pub(super) fn start(address: SocketAddr, answers: &Arc<Answers>) -> Result<Server, String> {
    let cannot = |error: std::io::Error| format!("--listen {address} cannot be used: {error}");
    let listener = TcpListener::bind(address).map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let server = serve(listener.into(), Caller::Anybody, answers).map_err(|error| error.to_string())?;
    info!("serving /metrics, /healthz, /readyz and /status at http://{address}");
    Ok(server)
}

/// Starts a server at a socket that listens. `caller` says who may connect to it.
pub(super) fn serve(listener: OwnedFd, caller: Caller, answers: &Arc<Answers>) -> std::io::Result<Server> {
    // So that accepting does not block if the client has gone away again.
    rustix::io::ioctl_fionbio(&listener, true)?;
    let end = Arc::new(AtomicBool::new(false));
    let (ended, answers) = (Arc::clone(&end), Arc::clone(answers));
    let readers = Arc::new(Readers::default());
    let thread = thread::Builder::new().name("http".into()).spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            readers.accept(&listener, caller, &answers);
        }
    })?;
    Ok(Server { end, thread: Some(thread) })
}

/// The open connections, by the order in which they came.
#[derive(Default)]
struct Readers {
    open: Mutex<BTreeMap<u64, Reader>>,
}

struct Reader {
    socket: Arc<OwnedFd>,
    /// Whether its request is there.
    has_asked: bool,
}

impl Readers {
    /// Accepts the next connection, if there is one within [`PAUSE`], and answers it on a thread of its own.
    fn accept(self: &Arc<Self>, listener: &OwnedFd, caller: Caller, answers: &Arc<Answers>) {
        // Every thread holds a reference of its own.
        if Arc::strong_count(self) > THREADS {
            return thread::sleep(PAUSE);
        }
        let Some(socket) = accept(listener) else { return };
        let socket = Arc::new(socket);
        let number = self.admit(&socket);
        let (this, answers) = (Arc::clone(self), Arc::clone(answers));
        let answer = move || {
            if let Err(error) = this.answer(number, &socket, caller, &answers) {
                debug!("a reader of health or metrics went away: {error}");
            }
            this.lock().remove(&number);
        };
        // Never joined. If no thread can be created, there is no answer.
        if thread::Builder::new().name("http".into()).spawn(answer).is_err() {
            self.lock().remove(&number);
        }
    }

    /// Enters a connection, and closes another if there are too many. Returns its number.
    fn admit(&self, socket: &Arc<OwnedFd>) -> u64 {
        let mut open = self.lock();
        if open.len() >= READERS {
            let idlest = open.iter().min_by_key(|(number, reader)| (reader.has_asked, **number));
            if let Some(reader) = idlest.map(|(number, _)| *number).and_then(|number| open.remove(&number)) {
                // Its thread then finds it closed. An error says that the client has gone away.
                let _ = shutdown(&reader.socket, Shutdown::Both);
            }
        }
        let number = open.last_key_value().map_or(0, |(last, _)| last + 1);
        open.insert(number, Reader { socket: Arc::clone(socket), has_asked: false });
        number
    }

    fn answer(
        &self,
        number: u64,
        socket: &Arc<OwnedFd>,
        caller: Caller,
        answers: &Answers,
    ) -> std::io::Result<()> {
        let mut connection = Connection::new(Arc::clone(socket));
        let question = connection.question()?;
        if let Some(reader) = self.lock().get_mut(&number) {
            reader.has_asked = true;
        }
        let is_head = question.as_ref().is_some_and(|question| question.method == "HEAD");
        connection.answer(&answers.to(question.as_ref(), caller, socket), is_head)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Reader>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Accepts the next connection, if there is one within [`PAUSE`].
fn accept(listener: &OwnedFd) -> Option<OwnedFd> {
    let pause = Timespec::try_from(PAUSE).expect("it is short");
    let is_there =
        poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&pause)).is_ok_and(|count| count > 0);
    match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
        Ok(socket) => Some(socket),
        Err(error) => {
            // If file descriptors have run out, the connection stays pending, and `poll` returns at once.
            if is_there {
                debug!("a reader of health or metrics is not let in: {error}");
                thread::sleep(PAUSE);
            }
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Instant;

    fn serving() -> (SocketAddr, Server) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answers = Arc::new(Answers::for_tests());
        (address, serve(listener.into(), Caller::Anybody, &answers).unwrap())
    }

    fn ask(address: SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn who_asks_is_not_kept_waiting_by_those_who_say_nothing() {
        let (address, _server) = serving();
        let silent: Vec<_> = (0..3 * READERS).map(|_| TcpStream::connect(address).unwrap()).collect();
        let begun = Instant::now();
        assert!(ask(address).starts_with("HTTP/1.1 200"));
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        drop(silent);
    }

    #[test]
    fn the_one_that_has_waited_longest_without_a_request_goes_first() {
        let readers = Readers::default();
        let socket = || {
            let (_, server) = std::os::unix::net::UnixStream::pair().unwrap();
            Arc::new(OwnedFd::from(server))
        };
        let numbers: Vec<u64> = (0..READERS).map(|_| readers.admit(&socket())).collect();
        readers.lock().get_mut(&numbers[0]).unwrap().has_asked = true;
        readers.admit(&socket());
        let open: Vec<u64> = readers.lock().keys().copied().collect();
        assert!(open.contains(&numbers[0]) && !open.contains(&numbers[1]) && open.len() == READERS);
    }
}
