//! The two streams of a queue.

use std::error::Error as _;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_nats::Client;
use async_nats::jetstream::consumer::pull::Config as ConsumerConfig;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer};
use async_nats::jetstream::context::{
    CreateStreamError, CreateStreamErrorKind, GetStreamError, PublishError, PublishErrorKind, RequestError,
    RequestErrorKind,
};
use async_nats::jetstream::message::{PublishMessage, StreamMessage};
use async_nats::jetstream::stream::{
    Config, ConsumerError, DiscardPolicy, RawMessageErrorKind, RetentionPolicy, Stream,
};
use async_nats::jetstream::{self, Context, ErrorCode};

use futures_util::StreamExt;

use crate::error::QueueError;
use crate::place::Place;

/// The prefix of the name of the consumer that all workers share.
///
/// The name ends in the time when it was made: the queue's name may be used again, with messages
/// numbered anew, and an acknowledgement from a worker of the queue that vanished must not be taken
/// for one of those.
const CONSUMER: &str = "workers";

/// The description of a request, for people.
const CREATING: &str = "creating the queue";

/// The attempts at creating a queue that others create too, and the pause: two seconds in all.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// The largest size of a new queue, and the longest silence of a worker.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most messages in the work; more are refused until there is room.
    pub messages: u32,
    /// The time after a worker's last word at which its messages are delivered to others.
    pub lease: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { messages: 1_000_000, lease: Duration::from_secs(30) }
    }
}

/// The result of adding a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// It was added.
    Added,
    /// There is one of its name already.
    Already,
    /// There is no room.
    Full,
}

/// The numbers of a queue's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// In the work, and with no worker.
    pub waiting: u64,
    /// With a worker.
    pub in_progress: u64,
    /// Dead letters.
    pub dead: u64,
}

/// A message that must not be worked on any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its name.
    pub name: String,
    /// Its content.
    pub payload: Vec<u8>,
    pub(crate) sequence: u64,
}

/// The consumer that hands out the messages of the work.
#[derive(Clone)]
pub(crate) struct Consumer {
    pub(crate) name: Arc<str>,
    pub(crate) lease: Duration,
}

/// The streams, by way of one connection.
#[derive(Clone)]
pub(crate) struct Streams {
    place: Arc<Place>,
    context: Context,
    /// The consumer, once it is known.
    consumer: Arc<Mutex<Option<Consumer>>>,
}

impl Streams {
    pub(crate) fn new(place: &Place, context: Context) -> Self {
        Self { place: Arc::new(place.clone()), context, consumer: Arc::default() }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn client(&self) -> Client {
        self.context.client()
    }

    pub(crate) async fn create(&self, limits: &Limits) -> Result<(), QueueError> {
        let work = Config {
            name: self.place.work(),
            subjects: vec![self.place.work_subject("*")],
            retention: RetentionPolicy::WorkQueue,
            discard: DiscardPolicy::New,
            max_messages: limits.messages.into(),
            ..Config::default()
        };
        let dead = Config {
            name: self.place.dead(),
            subjects: vec![self.place.dead_subject("*")],
            max_messages_per_subject: 1,
            ..Config::default()
        };
        self.get_or_create(dead).await?;
        let work = self.get_or_create(work).await?;
        let mut tries = 1..TRIES;
        loop {
            if name_of_consumer(&work).await?.is_some() {
                return Ok(());
            }
            match (create_consumer(&work, limits).await, tries.next()) {
                (Ok(()), _) => return Ok(()),
                // The stream has room for one: another process may be creating it, and the server
                // does not list it yet.
                (Err(_), Some(_)) => tokio::time::sleep(PAUSE).await,
                (Err(why), None) => return Err(QueueError::failed(CREATING, &why)),
            }
        }
    }

    /// Returns a stream, and creates it if it does not exist, even if others do at the same time.
    async fn get_or_create(&self, config: Config) -> Result<Stream, QueueError> {
        let mut tries = 1..TRIES;
        loop {
            match self.context.get_or_create_stream(&config).await {
                Ok(stream) => return Ok(stream),
                // Its own subjects: the server knows them before it knows the stream.
                Err(why) if is_taken(&why) && tries.next().is_some() => tokio::time::sleep(PAUSE).await,
                Err(why) => return Err(not_created(&why)),
            }
        }
    }

    async fn stream(&self, name: String) -> Result<Stream, QueueError> {
        use jetstream::context::GetStreamErrorKind::{JetStream, Request};
        self.context.get_stream(name).await.map_err(|why| match why.kind() {
            JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                QueueError::Missing(self.place.name().to_owned())
            }
            JetStream(error) if is_without_jetstream(&error) => QueueError::NoJetStream,
            Request if is_unheard(&why) => QueueError::NoJetStream,
            _ => QueueError::failed("looking for the queue", &why),
        })
    }

    /// Returns the consumer.
    pub(crate) async fn consumer(&self) -> Result<Consumer, QueueError> {
        let known = || self.consumer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(consumer) = known().clone() {
            return Ok(consumer);
        }
        let stream = self.stream(self.place.work()).await?;
        let name = self.name_of_consumer(&stream).await?;
        let consumer: PullConsumer = stream.get_consumer(&name).await.map_err(|why| unknown(&why))?;
        let found = Consumer { name: name.into(), lease: consumer.cached_info().config.ack_wait };
        *known() = Some(found.clone());
        Ok(found)
    }

    async fn name_of_consumer(&self, stream: &Stream) -> Result<String, QueueError> {
        let missing = || QueueError::Missing(self.place.name().to_owned());
        name_of_consumer(stream).await?.ok_or_else(missing)
    }

    /// Makes the next call look for the consumer again: it may have been deleted.
    pub(crate) fn forget_consumer(&self) {
        *self.consumer.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(crate) async fn publish(&self, name: &str, payload: Vec<u8>) -> Result<Published, QueueError> {
        // By the last message of its name rather than by Nats-Msg-Id, which the server remembers
        // for a time: a message that is done and is to be done again has to be added, and one that
        // still waits after that time has not.
        let message = PublishMessage::build().payload(payload.into()).expected_last_subject_sequence(0);
        let sent = match self.context.send_publish(self.place.work_subject(name), message).await {
            Ok(sent) => sent.await,
            Err(why) => Err(why),
        };
        match sent {
            Ok(_) => Ok(Published::Added),
            Err(why) if why.kind() == PublishErrorKind::WrongLastSequence => Ok(Published::Already),
            Err(why) if is_full(&why) => Ok(Published::Full),
            Err(why) => Err(self.unpublished(&why)),
        }
    }

    /// Adds a dead letter, in the place of one of its name.
    pub(crate) async fn add_dead(&self, name: &str, payload: Vec<u8>) -> Result<(), QueueError> {
        let sent = self.context.publish(self.place.dead_subject(name), payload.into()).await;
        match sent {
            Ok(sent) => sent.await.map(drop).map_err(|why| self.unpublished(&why)),
            Err(why) => Err(self.unpublished(&why)),
        }
    }

    fn unpublished(&self, why: &PublishError) -> QueueError {
        match why.kind() {
            PublishErrorKind::TimedOut => QueueError::Silent,
            PublishErrorKind::StreamNotFound => QueueError::Missing(self.place.name().to_owned()),
            _ => QueueError::failed("adding to the queue", why),
        }
    }

    pub(crate) async fn stats(&self) -> Result<Stats, QueueError> {
        let work = self.stream(self.place.work()).await?;
        let name = self.name_of_consumer(&work).await?;
        let workers = work.consumer_info(name).await.map_err(|why| unknown(&why))?;
        let dead = self.stream(self.place.dead()).await?;
        // After a crash the server may count messages as in progress that are gone. The number of
        // messages, asked for later, includes all of them.
        let there = self.stream(self.place.work()).await?.cached_info().state.messages;
        let in_progress = there.saturating_sub(workers.num_pending).min(workers.num_ack_pending as u64);
        let dead = dead.cached_info().state.messages;
        Ok(Stats { waiting: workers.num_pending, in_progress, dead })
    }

    pub(crate) async fn dead(&self) -> Result<Vec<DeadLetter>, QueueError> {
        let (before, mut letters) = (self.place.dead_subject(""), Vec::new());
        let add = |message: StreamMessage| {
            letters.push(DeadLetter {
                name: message.subject.strip_prefix(&before).unwrap_or_default().to_owned(),
                payload: message.payload.to_vec(),
                sequence: message.sequence,
            });
        };
        self.read(self.place.dead(), &self.place.dead_subject("*"), add).await?;
        Ok(letters)
    }

    /// Hands over the content of each message of the work, those included that a worker has.
    pub(crate) async fn work(&self, mut each: impl FnMut(&[u8])) -> Result<(), QueueError> {
        let all = self.place.work_subject("*");
        self.read(self.place.work(), &all, |message| each(&message.payload)).await
    }

    /// Reads the messages of a stream, oldest first.
    async fn read(
        &self,
        name: String,
        subject: &str,
        mut each: impl FnMut(StreamMessage),
    ) -> Result<(), QueueError> {
        let stream = self.stream(name).await?;
        let mut next = stream.cached_info().state.first_sequence.max(1);
        loop {
            let asked = stream.raw_message_builder().sequence(next).next_by_subject(subject).send();
            match asked.await {
                Ok(message) => {
                    next = message.sequence + 1;
                    each(message);
                }
                Err(why) if why.kind() == RawMessageErrorKind::NoMessageFound => return Ok(()),
                Err(why) => return Err(QueueError::failed("reading the queue", &why)),
            }
        }
    }

    pub(crate) async fn forget_dead(&self, sequence: u64) -> Result<(), QueueError> {
        let stream = self.stream(self.place.dead()).await?;
        stream.delete_message(sequence).await.map(drop).or_else(|why| match why.kind() {
            // Another process did, or there is a later one of its name.
            async_nats::jetstream::stream::DeleteMessageErrorKind::JetStream(error)
                if error.code() == 404
                    || [ErrorCode::SEQUENCE_NOT_FOUND, ErrorCode::STREAM_MESSAGE_DELETE_FAILED]
                        .contains(&error.error_code()) =>
            {
                Ok(())
            }
            _ => Err(QueueError::failed("taking out a dead letter", &why)),
        })
    }
}

async fn create_consumer(work: &Stream, limits: &Limits) -> Result<(), ConsumerError> {
    let workers = ConsumerConfig {
        durable_name: Some(format!("{CONSUMER}-{:x}", now())),
        ack_policy: AckPolicy::Explicit,
        ack_wait: limits.lease,
        // As many as there are workers.
        max_ack_pending: -1,
        // The workers count deliveries.
        max_deliver: -1,
        max_waiting: 100_000,
        ..ConsumerConfig::default()
    };
    work.create_consumer(workers).await.map(drop)
}

async fn name_of_consumer(stream: &Stream) -> Result<Option<String>, QueueError> {
    let mut names = stream.consumer_names();
    while let Some(name) = names.next().await {
        let name = name.map_err(|why| unknown(&why))?;
        if name.starts_with(CONSUMER) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Returns the meaning of an error of creating a stream.
fn not_created(why: &CreateStreamError) -> QueueError {
    match why.kind() {
        CreateStreamErrorKind::JetStreamUnavailable => QueueError::NoJetStream,
        CreateStreamErrorKind::JetStream(error) if is_without_jetstream(&error) => QueueError::NoJetStream,
        _ => QueueError::failed(CREATING, why),
    }
}

/// Returns whether the error is that there is such a stream, or one with these subjects.
fn is_taken(why: &CreateStreamError) -> bool {
    let taken = [ErrorCode::STREAM_NAME_EXIST, ErrorCode::STREAM_SUBJECT_OVERLAP];
    matches!(why.kind(), CreateStreamErrorKind::JetStream(error) if taken.contains(&error.error_code()))
}

/// Returns whether the error is that the server, or this account on it, has no JetStream.
fn is_without_jetstream(error: &jetstream::Error) -> bool {
    [ErrorCode::JETSTREAM_NOT_ENABLED, ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT]
        .contains(&error.error_code())
}

/// Returns whether the server has no listener for requests to JetStream.
fn is_unheard(why: &GetStreamError) -> bool {
    let request = why.source().and_then(|source| source.downcast_ref::<RequestError>());
    request.is_some_and(|request| request.kind() == RequestErrorKind::NoResponders)
}

fn unknown(why: &(impl Display + ?Sized)) -> QueueError {
    QueueError::failed("looking for the queue's consumer", why)
}

/// Returns the time in nanoseconds since 1970.
fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

/// Returns whether a message was refused because the stream, or its account's room, is full.
fn is_full(why: &PublishError) -> bool {
    let told = why.source().and_then(|source| source.downcast_ref::<jetstream::Error>());
    told.is_some_and(|error| {
        let code = error.error_code();
        [
            ErrorCode::STREAM_STORE_FAILED,
            ErrorCode::INSUFFICIENT_RESOURCES,
            ErrorCode::STORAGE_RESOURCES_EXCEEDED,
        ]
        .contains(&code)
    })
}
