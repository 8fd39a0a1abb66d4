//! A message that this process has the lease on.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::message::Acker;
use async_nats::jetstream::{AckKind, Message};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use crate::error::QueueError;
use crate::streams::{Published, Streams};

/// The attempts at sending something that the server does not confirm.
///
/// Together with the time that each waits for an answer they take longer than the restart of a
/// server.
const TRIES: u32 = 12;
/// The pause between attempts.
const PAUSE: Duration = Duration::from_secs(1);
/// The time after which a message is delivered again if there was no room to replace it.
const LATER: Duration = Duration::from_secs(5);

/// A message to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Its name.
    pub name: String,
    /// Its content.
    pub payload: Vec<u8>,
}

/// The fate of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is done.
    Done,
    /// It is to be delivered again, after a while.
    Again(Duration),
    /// Others take its place; if there is no room for them, it is delivered again.
    Replaced(Vec<Letter>),
    /// It is never to be delivered again.
    Dead,
}

/// A message with a lease of this process, which is kept until it is settled or dropped.
pub struct Delivery {
    payload: Vec<u8>,
    deliveries: u64,
    acker: Option<Arc<Acker>>,
    streams: Streams,
    tasks: TaskTracker,
    /// The runtime of the tasks.
    runtime: Handle,
    lease: JoinHandle<()>,
}

impl Delivery {
    /// Takes over a message. To be called within the runtime.
    pub(crate) fn new(
        message: Message,
        lease: Duration,
        streams: Streams,
        tasks: TaskTracker,
    ) -> Result<Self, QueueError> {
        let info = message.info().map_err(|why| QueueError::failed("asking for work", &why))?;
        let deliveries = info.delivered.try_into().unwrap_or(1);
        let (message, acker) = message.split();
        let acker = Arc::new(acker);
        let reply = Arc::clone(&acker);
        let keep = async move {
            loop {
                sleep(lease / 3).await;
                // A failed one is made up for after the next pause.
                let _ = reply.ack_with(AckKind::Progress).await;
            }
        };
        let runtime = Handle::current();
        let lease = runtime.spawn(keep);
        Ok(Self {
            payload: message.payload.to_vec(),
            deliveries,
            acker: Some(acker),
            streams,
            tasks,
            runtime,
            lease,
        })
    }

    /// Returns the content of the message.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Returns the number of its deliveries so far, at least 1.
    pub fn deliveries(&self) -> u64 {
        self.deliveries
    }

    /// Sends dead letters and then the message's fate to the queue's server, in the background.
    ///
    /// A message with a fate that does not reach the server is delivered again once the lease ends.
    pub fn settle(mut self, dead: Vec<Letter>, fate: Fate) {
        let Some(acker) = self.acker.take() else { return };
        let (streams, tasks, runtime) = (self.streams.clone(), self.tasks.clone(), self.runtime.clone());
        let settling = async move {
            if publish_dead(&streams, dead).await {
                end(&streams, &acker, fate).await;
            }
            // The lease is kept until here.
            drop(self);
        };
        tasks.spawn_on(settling, &runtime);
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.lease.abort();
    }
}

/// Publishes dead letters. Returns whether the server has all of them.
async fn publish_dead(streams: &Streams, dead: Vec<Letter>) -> bool {
    for Letter { name, payload } in dead {
        let mut tries = 1;
        while streams.add_dead(&name, payload.clone()).await.is_err() {
            if tries == TRIES {
                return false;
            }
            tries += 1;
            sleep(PAUSE).await;
        }
    }
    true
}

async fn end(streams: &Streams, acker: &Acker, fate: Fate) {
    let kind = match fate {
        Fate::Done => AckKind::Ack,
        Fate::Dead => AckKind::Term,
        Fate::Again(pause) => AckKind::Nak(Some(pause)),
        Fate::Replaced(letters) => match replace(streams, letters).await {
            true => AckKind::Ack,
            false => AckKind::Nak(Some(LATER)),
        },
    };
    for _ in 0..TRIES {
        if acker.double_ack_with(kind).await.is_ok() {
            return;
        }
        sleep(PAUSE).await;
    }
}

/// Publishes the letters that take the place of a message. Returns whether there was room.
async fn replace(streams: &Streams, letters: Vec<Letter>) -> bool {
    for Letter { name, payload } in letters {
        let mut tries = 1;
        loop {
            match streams.publish(&name, payload.clone()).await {
                Ok(Published::Added | Published::Already) => break,
                Ok(Published::Full) => return false,
                Err(_) if tries == TRIES => return false,
                Err(_) => {
                    tries += 1;
                    sleep(PAUSE).await;
                }
            }
        }
    }
    true
}
