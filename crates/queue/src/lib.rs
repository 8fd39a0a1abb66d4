//! A work queue over NATS JetStream, for programs without an async runtime.
//!
//! Calls to the server block; leases are kept and messages are acknowledged in the background.
//!
//! A queue is two streams of a NATS server: one of the work, from which a message is deleted once
//! it is acknowledged, and one of dead letters, which are kept until they are taken out. A message
//! has a name, and the stream of work never has two messages of one name. It is delivered at least
//! once: again, when the lease on it ends without a word from the process that has it.
//!
//! ```no_run
//! use std::time::Duration;
//! use histeqd_queue::{Access, Fate, Limits, Place, Queue};
//!
//! let place: Place = "nats://127.0.0.1/scans".parse()?;
//! let queue = Queue::connect(&place, &Access::from_env()?)?;
//! queue.create(&Limits::default())?;
//! queue.publish("a", b"to do".to_vec())?;
//! while let Some(delivery) = queue.pull(Duration::from_secs(1))? {
//!     println!("{:?}", delivery.payload());
//!     delivery.settle(Vec::new(), Fate::Done);
//! }
//! queue.finish(Duration::from_secs(10));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod delivery;
mod error;
mod place;
mod requests;
mod streams;
mod tls;

use std::future::Future;
use std::time::Duration;

use async_nats::jetstream;
use futures_util::StreamExt;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::TaskTracker;

pub use access::Access;
pub use delivery::{Delivery, Fate, Letter};
pub use error::QueueError;
pub use place::Place;
use requests::{Answer, Requests};
use streams::{Consumer, Streams};
pub use streams::{DeadLetter, Limits, Published, Stats};

/// The server's time for one answer.
const ANSWER: Duration = Duration::from_secs(5);

/// The most by which the server's answer of no work may be late.
const SLACK: Duration = Duration::from_secs(1);

/// A connection to a queue. Shared by all threads.
pub struct Queue {
    runtime: Runtime,
    streams: Streams,
    requests: Mutex<Requests>,
    /// The tasks that acknowledge messages, and answer questions.
    tasks: TaskTracker,
}

impl Queue {
    /// Connects to the server.
    ///
    /// A connection that is lost later is made anew in the background, for as long as that takes.
    ///
    /// # Errors
    /// When the server cannot be reached, or refuses.
    pub fn connect(place: &Place, access: &Access) -> Result<Self, QueueError> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("queue").enable_all().build();
        let runtime = runtime.map_err(QueueError::Thread)?;
        let context = runtime.block_on(async {
            let options = access.options(place)?;
            let connected = options.connect(place.servers()).await;
            let client = connected.map_err(|why| {
                let server = place.server();
                QueueError::Unreachable { server, why: tls::fault(&why).unwrap_or_else(|| why.to_string()) }
            })?;
            let mut context = jetstream::new(client);
            context.set_timeout(ANSWER);
            Ok(context)
        })?;
        let requests = Mutex::new(Requests::new(context.clone()));
        Ok(Self { streams: Streams::new(place, context), requests, runtime, tasks: TaskTracker::new() })
    }

    /// Creates the queue if it does not exist. An existing one is left as it is.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub fn create(&self, limits: &Limits) -> Result<(), QueueError> {
        self.wait(self.streams.create(limits))
    }

    /// Adds a message to the work, unless there is one of its name.
    ///
    /// # Errors
    /// When the server does not answer, or refuses for another reason than that the queue is full.
    pub fn publish(&self, name: &str, payload: Vec<u8>) -> Result<Published, QueueError> {
        self.wait(self.streams.publish(name, payload))
    }

    /// Returns the next message, for which it waits for a while.
    ///
    /// The lease on it is kept until it is settled or dropped.
    ///
    /// # Errors
    /// When the server does not answer, or there is no queue any more.
    pub fn pull(&self, patience: Duration) -> Result<Option<Delivery>, QueueError> {
        self.wait(async {
            let Consumer { name, lease } = self.streams.consumer().await?;
            let stream = self.streams.place().work();
            match self.requests.lock().await.ask(&stream, &name, patience, SLACK).await {
                Ok(Answer::Message(message)) => {
                    Delivery::new(*message, lease, self.streams.clone(), self.tasks.clone()).map(Some)
                }
                Ok(Answer::Nothing) => Ok(None),
                Ok(Answer::Silence) => {
                    // A server answers in time that there is no work, unless it was started anew
                    // and has forgotten the question, or there is no such queue any more.
                    self.streams.forget_consumer();
                    Ok(None)
                }
                Err(why) => {
                    self.streams.forget_consumer();
                    Err(why)
                }
            }
        })
    }

    /// Returns the numbers of messages.
    ///
    /// # Errors
    /// When the server does not answer, or there is no queue.
    pub fn stats(&self) -> Result<Stats, QueueError> {
        self.wait(self.streams.stats())
    }

    /// Hands over the content of each message of the work, those included that a worker has.
    ///
    /// # Errors
    /// When the server does not answer, or there is no queue.
    pub fn work(&self, each: impl FnMut(&[u8])) -> Result<(), QueueError> {
        self.wait(self.streams.work(each))
    }

    /// Returns the dead letters, oldest first.
    ///
    /// # Errors
    /// When the server does not answer, or there is no queue.
    pub fn dead(&self) -> Result<Vec<DeadLetter>, QueueError> {
        self.wait(self.streams.dead())
    }

    /// Takes a dead letter out.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn forget_dead(&self, letter: &DeadLetter) -> Result<(), QueueError> {
        self.wait(self.streams.forget_dead(letter.sequence))
    }

    /// Answers questions for the workers of the queue from here on.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub fn answer(&self, answer: impl Fn() -> Vec<u8> + Send + 'static) -> Result<(), QueueError> {
        let client = self.streams.client();
        let asked = self.wait(async {
            let asked = client.subscribe(self.streams.place().question()).await;
            asked.map_err(|why| QueueError::failed("listening", &why))
        })?;
        let answering = async move {
            let mut asked = asked;
            while let Some(question) = asked.next().await {
                if let Some(reply) = question.reply {
                    // The asking process asks again, or has gone.
                    let _ = client.publish(reply, answer().into()).await;
                }
            }
        };
        // It ends with the runtime.
        self.runtime.spawn(answering);
        Ok(())
    }

    /// Asks for the workers of the queue, and returns the answers that come within a while.
    ///
    /// # Errors
    /// When the server cannot be asked.
    pub fn ask(&self, patience: Duration) -> Result<Vec<Vec<u8>>, QueueError> {
        let client = self.streams.client();
        self.wait(async {
            let inbox = client.new_inbox();
            let failed = |why: &dyn std::fmt::Display| QueueError::failed("asking the workers", why);
            let mut answers = client.subscribe(inbox.clone()).await.map_err(|why| failed(&why))?;
            let question = self.streams.place().question();
            client.publish_with_reply(question, inbox, "".into()).await.map_err(|why| failed(&why))?;
            let (end, mut told) = (Instant::now() + patience, Vec::new());
            while let Ok(Some(answer)) = timeout_at(end, answers.next()).await {
                // Without a worker the server itself answers that there are no listeners.
                if answer.status.is_none() {
                    told.push(answer.payload.to_vec());
                }
            }
            Ok(told)
        })
    }

    /// Waits at most `patience` for the acknowledgement of all settled messages.
    ///
    /// Returns whether they are acknowledged.
    pub fn finish(&self, patience: Duration) -> bool {
        self.wait(async { self.requests.lock().await.give_back_late().await });
        self.tasks.close();
        let done = self.runtime.block_on(async { timeout(patience, self.tasks.wait()).await.is_ok() });
        self.tasks.reopen();
        let client = self.streams.client();
        done && self
            .runtime
            .block_on(async { timeout(ANSWER, client.flush()).await.is_ok_and(|sent| sent.is_ok()) })
    }

    fn wait<T>(&self, what: impl Future<Output = T>) -> T {
        self.runtime.block_on(what)
    }
}
