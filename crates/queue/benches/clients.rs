//! The queue alone: many light clients on one server, like as many workers without pictures.
//!
//! ```text
//! cargo bench --package histeqd-queue --bench clients -- [--server nats-server] \
//!     [--clients 1000] [--messages 200000] [--bytes 7000] [--rate 0]
//! ```
//!
//! Prints messages a second, and the share of a core that the server took, for publishing and for
//! working: each client has a connection of its own, asks for one message at a time, and has each
//! acknowledged twice, as a worker does. With `--rate`, a client waits in between, to do at most so
//! many messages a second.

use std::error::Error;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use histeqd_queue::{Access, Fate, Limits, Place, Queue};

/// The number of threads that publish at once.
const PUBLISHERS: usize = 8;
/// Clock ticks of a second in `/proc` (proc_pid_stat(5)).
const TICKS: f64 = 100.0;

type Failure = Box<dyn Error + Send + Sync>;

struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(program: &str, folder: &Path) -> Result<Self, Failure> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new(program);
        command.arg("-js").arg("-sd").arg(folder).args(["-a", "127.0.0.1", "-p", &port.to_string()]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            thread::sleep(Duration::from_millis(10));
        }
        Ok(Self { child, port })
    }

    fn connect(&self) -> Result<Queue, Failure> {
        let place: Place = format!("nats://127.0.0.1:{}/bench", self.port).parse()?;
        Ok(Queue::connect(&place, &Access::default())?)
    }

    /// Returns the seconds of processor time that it has used.
    fn cpu(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let ticks = fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
        ticks.sum::<f64>() / TICKS
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the value of a flag.
fn flag<T: std::str::FromStr>(name: &str, usual: T) -> T {
    let mut words = std::env::args().skip_while(|word| word.trim_start_matches('-') != name);
    words.nth(1).and_then(|value| value.parse().ok()).unwrap_or(usual)
}

/// Prints the costs of a stage.
fn tell(what: &str, count: usize, server: &Server, (begun, cpu): (Instant, f64)) {
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{what}: {:.0} messages a second, {:.0} us of the server's processors each, {:.0} % of a core",
        count as f64 / seconds,
        (server.cpu() - cpu) * 1e6 / count as f64,
        (server.cpu() - cpu) * 100.0 / seconds
    );
}

fn publish(server: &Server, count: usize, bytes: usize) -> Result<(), Failure> {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let publisher = || {
            let queue = server.connect()?;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Ok(());
                }
                queue.publish(&format!("{number:032x}"), vec![b' '; bytes])?;
            }
        };
        let publishing: Vec<_> = (0..PUBLISHERS).map(|_| scope.spawn(publisher)).collect();
        publishing.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("a panic".into())))
    })
}

fn work(server: &Server, clients: usize, count: usize, rate: f64) -> Result<(), Failure> {
    let (done, start, failed) = (AtomicUsize::new(0), Barrier::new(clients + 1), Mutex::new(None));
    let pause = if rate > 0.0 { Duration::from_secs_f64(1.0 / rate) } else { Duration::ZERO };
    let client = || -> Result<(), Failure> {
        let queue = server.connect();
        start.wait();
        let queue = queue?;
        while done.load(Ordering::Relaxed) < count {
            let begun = Instant::now();
            if let Some(delivery) = queue.pull(Duration::from_secs(2))? {
                delivery.settle(Vec::new(), Fate::Done);
                done.fetch_add(1, Ordering::Relaxed);
            }
            thread::sleep(pause.saturating_sub(begun.elapsed()));
        }
        queue.finish(Duration::from_secs(10));
        Ok(())
    };
    thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                if let Err(why) = client() {
                    failed.lock().map(|mut failed| *failed = Some(why)).ok();
                }
            });
        }
        start.wait();
        let begun = (Instant::now(), server.cpu());
        while done.load(Ordering::Relaxed) < count && failed.lock().is_ok_and(|failed| failed.is_none()) {
            thread::sleep(Duration::from_millis(10));
        }
        tell(&format!("{clients} clients"), done.load(Ordering::Relaxed), server, begun);
    });
    failed.into_inner().ok().flatten().map_or(Ok(()), Err)
}

fn main() -> Result<(), Failure> {
    let (clients, count, bytes) = (flag("clients", 1000), flag("messages", 200_000), flag("bytes", 7000));
    let folder = std::env::temp_dir().join(format!("histeqd-clients-{}", std::process::id()));
    let server = Server::start(&flag("server", "nats-server".to_owned()), &folder)?;
    server.connect()?.create(&Limits::default())?;
    let begun = (Instant::now(), server.cpu());
    publish(&server, count, bytes)?;
    tell(&format!("{PUBLISHERS} publishers, {bytes} bytes"), count, &server, begun);
    let done = work(&server, clients, count, flag("rate", 0.0));
    drop(server);
    let _ = fs::remove_dir_all(folder);
    done
}
