//! An HTTP server, at an address or at a Unix socket, on a thread of its own.
//!
//! Every connection gets one answer and a few seconds: a client that does not read the answer, or
//! connects and sends no request, is in no other's way. When there are too many, the one that has
//! been connected longest without a request is closed.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tower::ServiceExt;
use tracing::{debug, info};

use super::access::Caller;

/// How long a client may take to send the head of its request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection may take in all: the loop has ten seconds to answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// The most connections at once.
const CONNECTIONS: usize = 64;
/// The pause after a connection could not be accepted: while file descriptors have run out, it
/// stays pending.
const PAUSE: Duration = Duration::from_millis(200);

/// A server that answers until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic was reported where it happened, and only ended this server.
            let _ = thread.join();
        }
    }
}

/// Starts a server at `address`, and returns it with the address that it got. The error is a
/// sentence for the user.
pub(crate) fn start(address: SocketAddr, routes: Router) -> Result<(Server, SocketAddr), String> {
    let cannot = |error: io::Error| format!("--listen {address} cannot be used: {error}");
    let listener = TcpListener::bind(address).map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let server = serve(Bound::Tcp(listener), routes).map_err(|error| error.to_string())?;
    info!("serving a page, /metrics, /healthz, /readyz and /status at http://{address}");
    Ok((server, address))
}

/// Starts a server at a Unix socket that listens.
pub(crate) fn start_at_socket(listener: OwnedFd, routes: Router) -> io::Result<Server> {
    serve(Bound::Unix(listener.into()), routes)
}

/// A listening socket, which the runtime does not know yet.
enum Bound {
    Tcp(TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

enum Listener {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Bound {
    /// Registers the socket with the runtime that this thread is in.
    fn enter(self) -> io::Result<Listener> {
        match self {
            Self::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                tokio::net::TcpListener::from_std(listener).map(Listener::Tcp)
            }
            Self::Unix(listener) => {
                listener.set_nonblocking(true)?;
                tokio::net::UnixListener::from_std(listener).map(Listener::Unix)
            }
        }
    }
}

impl Listener {
    async fn accept(&self) -> io::Result<(Box<dyn Stream>, Caller)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                let port = stream.local_addr()?.port();
                Ok((Box::new(stream), Caller::Network { port }))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let user = stream.peer_cred().ok().map(|peer| peer.uid());
                Ok((Box::new(stream), Caller::Socket { user }))
            }
        }
    }
}

fn serve(bound: Bound, routes: Router) -> io::Result<Server> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().thread_name("http").build()?;
    let listener = {
        let _entered = runtime.enter();
        bound.enter()?
    };
    let (end, ended) = oneshot::channel();
    let thread = thread::Builder::new().name("http".into()).spawn(move || {
        run(&runtime, &listener, &routes, ended);
        // An answer that is still reading the ledger is abandoned.
        runtime.shutdown_background();
    })?;
    Ok(Server { end: Some(end), thread: Some(thread) })
}

fn run(runtime: &Runtime, listener: &Listener, routes: &Router, mut ended: oneshot::Receiver<()>) {
    runtime.block_on(async {
        let connections = Arc::new(Connections::default());
        loop {
            let accepted = tokio::select! {
                // The sender was dropped.
                _ = &mut ended => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, caller)) => connections.answer(stream, caller, routes.clone()),
                Err(error) => {
                    debug!("an HTTP client was refused: {error}");
                    sleep(PAUSE).await;
                }
            }
        }
    });
}

/// Answers the request of a connection, and calls `asked` when it has come.
pub(crate) async fn answer_one(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    caller: Caller,
    routes: Router,
    asked: impl Fn(),
) -> hyper::Result<()> {
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        asked();
        let mut request: Request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(caller);
        routes.clone().oneshot(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).keep_alive(false);
    http.serve_connection(TokioIo::new(stream), service).await
}

/// The open connections, by the order in which they came.
#[derive(Default)]
struct Connections {
    open: Mutex<BTreeMap<u64, Connection>>,
}

struct Connection {
    task: AbortHandle,
    /// Whether its request has arrived.
    has_asked: bool,
}

impl Connections {
    /// Answers one request from a connection, in a task of its own. Ends another connection if
    /// there are too many.
    fn answer(self: &Arc<Self>, stream: Box<dyn Stream>, caller: Caller, routes: Router) {
        let number = self.make_room();
        let this = Arc::clone(self);
        let task = tokio::spawn(async move {
            let asked = Arc::clone(&this);
            let connection = answer_one(stream, caller, routes, move || asked.note_request(number));
            match timeout(CONNECTION_TIMEOUT, connection).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => debug!("an HTTP client went away: {error}"),
                Err(_) => debug!("an HTTP client took too long"),
            }
            this.lock().remove(&number);
        });
        // The task has not begun: this thread is the only one of the runtime.
        self.lock().insert(number, Connection { task: task.abort_handle(), has_asked: false });
    }

    /// Ends a connection if there are too many, and returns the number of the next.
    fn make_room(&self) -> u64 {
        let mut open = self.lock();
        if open.len() >= CONNECTIONS {
            let idlest = open.iter().min_by_key(|(number, connection)| (connection.has_asked, **number));
            let idlest = idlest.map(|(number, _)| *number);
            if let Some(connection) = idlest.and_then(|number| open.remove(&number)) {
                connection.task.abort();
            }
        }
        open.last_key_value().map_or(0, |(last, _)| last + 1)
    }

    fn note_request(&self, number: u64) {
        if let Some(connection) = self.lock().get_mut(&number) {
            connection.has_asked = true;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Connection>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Instant;

    fn serving() -> (SocketAddr, Server) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Router::new().route("/healthz", get(|| async { "ok\n" }));
        (address, serve(Bound::Tcp(listener), routes).unwrap())
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
        let silent: Vec<_> = (0..3 * CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
        let begun = Instant::now();
        assert!(ask(address).starts_with("HTTP/1.1 200"));
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        drop(silent);
    }

    #[test]
    fn the_one_that_has_waited_longest_without_a_request_goes_first() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let connections = Connections::default();
        let admit = || {
            let number = connections.make_room();
            let task = runtime.spawn(std::future::pending::<()>()).abort_handle();
            connections.lock().insert(number, Connection { task, has_asked: false });
            number
        };
        let numbers: Vec<u64> = (0..CONNECTIONS).map(|_| admit()).collect();
        connections.note_request(numbers[0]);
        admit();
        let open: Vec<u64> = connections.lock().keys().copied().collect();
        assert!(open.contains(&numbers[0]) && !open.contains(&numbers[1]) && open.len() == CONNECTIONS);
    }

    #[test]
    fn a_server_that_is_dropped_answers_no_longer() {
        let (address, server) = serving();
        let _silent = TcpStream::connect(address).unwrap();
        assert!(ask(address).ends_with("ok\n"));
        drop(server);
        assert!(TcpStream::connect(address).is_err());
    }
}
