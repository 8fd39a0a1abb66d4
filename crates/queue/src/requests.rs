//! Requests for messages, by way of one subscription for all answers.
//!
//! One for each question would cost the server and the client more than the question.

use std::time::Duration;

use async_nats::jetstream::{AckKind, Context, Message};
use async_nats::{Client, StatusCode, Subscriber};
use futures_util::{FutureExt, StreamExt};
use tokio::time::{Instant, timeout_at};

use crate::error::QueueError;

/// An answer of the server.
pub(crate) enum Answer {
    /// A message.
    Message(Box<Message>),
    /// No message at present.
    Nothing,
    /// It gave no answer in time.
    Silence,
}

/// The questions of one connection.
pub(crate) struct Requests {
    context: Context,
    /// The beginning of the subjects of answers. Each question has its own subject.
    inbox: String,
    answers: Option<Subscriber>,
    asked: u64,
}

impl Requests {
    pub(crate) fn new(context: Context) -> Self {
        Self { inbox: context.client().new_inbox(), context, answers: None, asked: 0 }
    }

    fn client(&self) -> Client {
        self.context.client()
    }

    /// Asks a consumer for a message.
    ///
    /// The server waits for `patience`, and this client for `slack` more. A message that comes
    /// later than that answers the next question.
    pub(crate) async fn ask(
        &mut self,
        stream: &str,
        consumer: &str,
        patience: Duration,
        slack: Duration,
    ) -> Result<Answer, QueueError> {
        let failed = |why: &dyn std::fmt::Display| QueueError::failed("asking for work", why);
        let client = self.client();
        let mut answers = match self.answers.take() {
            Some(answers) => answers,
            None => client.subscribe(format!("{}.*", self.inbox)).await.map_err(|why| failed(&why))?,
        };
        self.asked += 1;
        let reply = format!("{}.{}", self.inbox, self.asked);
        let question = format!("{{\"batch\":1,\"expires\":{}}}", patience.as_nanos());
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
        let asked = client.publish_with_reply(subject, reply.clone(), question.into()).await;
        asked.map_err(|why| failed(&why))?;
        let end = Instant::now() + patience + slack;
        let answer = loop {
            let Ok(Some(message)) = timeout_at(end, answers.next()).await else { break Ok(Answer::Silence) };
            match message.status {
                None | Some(StatusCode::OK) => {
                    let context = self.context.clone();
                    break Ok(Answer::Message(Box::new(Message { message, context })));
                }
                // The answer to a question that was given up.
                Some(_) if *message.subject != *reply => {}
                Some(StatusCode::NOT_FOUND | StatusCode::TIMEOUT) => break Ok(Answer::Nothing),
                Some(StatusCode::IDLE_HEARTBEAT) => {}
                Some(status) => {
                    let why = message.description.as_deref().unwrap_or("no reason given");
                    break Err(failed(&format_args!("{why} ({status})")));
                }
            }
        };
        self.answers = Some(answers);
        answer
    }

    /// Gives back the messages that came too late for any question.
    pub(crate) async fn give_back_late(&mut self) {
        while let Some(Some(Some(message))) =
            self.answers.as_mut().map(|answers| answers.next().now_or_never())
        {
            if message.status.is_none() {
                let message = Message { message, context: self.context.clone() };
                // A message that is not given back is delivered again once the lease ends.
                let _ = message.ack_with(AckKind::Nak(None)).await;
            }
        }
    }
}
