//! The command line as a connector: says something as source `cli`, shows what comes back, then acknowledges it.

use crate::exit::Failure;
use cortex_api::{
    AckRequest, Client, ClientError, EventTrace, IngestRequest, LiveEvent, LiveStream, PollRequest,
};
use cortex_types::{Clock, EventId, InboxStatus, OutboxId, OutboxStatus, SystemClock};
use futures::StreamExt;
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;
use ulid::Ulid;

const SOURCE: &str = "cli";
const USER: &str = "cli:owner";
const LEASE_SECONDS: u32 = 30;
const BATCH: u32 = 20;
/// How often to look when the server tells the end of a turn by itself, and when it does not.
const LOOK_WITH_LIVE: Duration = Duration::from_secs(1);
const LOOK_WITHOUT_LIVE: Duration = Duration::from_millis(100);

/// A message that arrived.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Arrival {
    pub(crate) message_id: OutboxId,
    pub(crate) topic_key: String,
    pub(crate) text: String,
    pub(crate) payload: Option<serde_json::Value>,
}

/// What happens while one waits.
pub(crate) enum News<'a> {
    /// A piece of the answer as it is being written.
    Preview(&'a str),
    /// The preview so far is void.
    PreviewVoid,
    /// A reply to this event.
    Reply(&'a Arrival),
    /// A message for another event of this source: somebody must show it, and we are here.
    Other(&'a Arrival),
}

/// How waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Answered,
    /// The event failed; its reply says why.
    Failed,
    /// The assistant chose to say nothing.
    Silent,
    TimedOut,
}

pub(crate) struct Connector<'a> {
    client: &'a Client,
}

impl<'a> Connector<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// Puts a text into the inbox; from then on it is answered, whatever happens to this process.
    pub(crate) async fn say(&self, text: &str, topic: &str) -> Result<EventId, Failure> {
        let id = Ulid::from_parts(u64::try_from(SystemClock::start().now().0).unwrap_or(0), rand::random());
        let event = IngestRequest {
            source: SOURCE.to_owned(),
            external_message_id: id.to_string(),
            idempotency_key: format!("{SOURCE}:{id}"),
            topic_key: topic.to_owned(),
            user_id: USER.to_owned(),
            text: text.to_owned(),
            occurred_at: SystemClock::start().now().to_rfc3339(),
            metadata: None,
        };
        self.client.ingest(&event).await?.event_id.ok_or_else(|| Failure::Coded {
            code: "channel_off",
            message: format!("the channel {SOURCE} is off; `cortex channel mode {SOURCE} live` opens it"),
        })
    }

    /// Waits for the reply to an event and shows everything that arrives meanwhile.
    pub(crate) async fn wait(
        &self,
        event: &EventId,
        patience: Duration,
        show: &mut dyn FnMut(News<'_>) -> Result<(), Failure>,
    ) -> Result<Ended, Failure> {
        let deadline = Instant::now() + patience;
        let mut shown = BTreeSet::new();
        let mut live = self.client.live(event).await.ok();
        loop {
            match self.collect(event, &mut shown, show).await {
                Ok(Some(ended)) => return Ok(ended),
                Ok(None) => {}
                // The event is durable: a server that restarts will still answer it.
                Err(Interrupted::Broken(ClientError::Unreachable { .. } | ClientError::TimedOut { .. })) => {
                    live = None;
                }
                Err(Interrupted::Broken(error)) => return Err(error.into()),
                Err(Interrupted::Failed(failure)) => return Err(failure),
            }
            if Instant::now() >= deadline {
                return Ok(Ended::TimedOut);
            }
            let tick = if live.is_some() { LOOK_WITH_LIVE } else { LOOK_WITHOUT_LIVE };
            let until = deadline.min(Instant::now() + tick);
            match live.take() {
                Some(stream) => live = follow(stream, until, show).await?,
                None => tokio::time::sleep_until(until).await,
            }
        }
    }

    /// One round: show what is there, acknowledge it, and say whether the event is at its end.
    async fn collect(
        &self,
        event: &EventId,
        shown: &mut BTreeSet<OutboxId>,
        show: &mut dyn FnMut(News<'_>) -> Result<(), Failure>,
    ) -> Result<Option<Ended>, Interrupted> {
        let request = PollRequest {
            source: SOURCE.to_owned(),
            max: Some(BATCH),
            lease_seconds: Some(LEASE_SECONDS),
            ordered: true,
        };
        let polled = self.client.poll(&request).await?.messages;
        let trace = self.client.trace(event).await?;
        for message in polled {
            let is_ours = trace.replies.iter().any(|reply| reply.message_id == message.message_id);
            let ack = AckRequest { message_id: message.message_id.clone(), lease_token: message.lease_token };
            let arrival = Arrival {
                message_id: message.message_id,
                topic_key: message.topic_key,
                text: message.text,
                payload: message.payload,
            };
            // Shown before it is acknowledged: a crash here repeats a message, never loses one.
            show(if is_ours { News::Reply(&arrival) } else { News::Other(&arrival) })?;
            shown.insert(arrival.message_id);
            self.acknowledge(&ack).await?;
        }
        end_of(&trace, shown, show)
    }

    /// A lease that was lost meanwhile is no error: the message was shown, and may be shown again.
    async fn acknowledge(&self, ack: &AckRequest) -> Result<(), ClientError> {
        match self.client.ack(ack).await {
            Ok(_) | Err(ClientError::Api { status: 404 | 409, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Why a round ended early.
enum Interrupted {
    Broken(ClientError),
    Failed(Failure),
}

impl From<ClientError> for Interrupted {
    fn from(error: ClientError) -> Self {
        Self::Broken(error)
    }
}

impl From<Failure> for Interrupted {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Whether every reply of the event was shown; one that another `cortex` delivered is shown here, too.
fn end_of(
    trace: &EventTrace,
    shown: &mut BTreeSet<OutboxId>,
    show: &mut dyn FnMut(News<'_>) -> Result<(), Failure>,
) -> Result<Option<Ended>, Interrupted> {
    let failed = match trace.event.status {
        InboxStatus::Done => false,
        InboxStatus::Failed => true,
        InboxStatus::Pending | InboxStatus::Processing | InboxStatus::Waiting => return Ok(None),
    };
    for reply in &trace.replies {
        if shown.contains(&reply.message_id) {
            continue;
        }
        match reply.status {
            OutboxStatus::Pending | OutboxStatus::Leased => return Ok(None),
            OutboxStatus::Delivered
            | OutboxStatus::Dead
            | OutboxStatus::Suppressed
            | OutboxStatus::Discarded => {
                let arrival = Arrival {
                    message_id: reply.message_id.clone(),
                    topic_key: reply.topic_key.clone(),
                    text: reply.text.clone(),
                    payload: reply.payload.clone(),
                };
                show(News::Reply(&arrival))?;
                shown.insert(arrival.message_id);
            }
        }
    }
    Ok(Some(match (failed, trace.replies.is_empty()) {
        (true, _) => Ended::Failed,
        (false, true) => Ended::Silent,
        (false, false) => Ended::Answered,
    }))
}

/// Shows the preview until the turn ends, the stream breaks or it is time to look; gives the stream back if it lives.
async fn follow(
    mut stream: LiveStream,
    until: Instant,
    show: &mut dyn FnMut(News<'_>) -> Result<(), Failure>,
) -> Result<Option<LiveStream>, Failure> {
    loop {
        match tokio::time::timeout_at(until, stream.next()).await {
            Err(_) => return Ok(Some(stream)),
            Ok(Some(Ok(LiveEvent::Delta(delta)))) => show(News::Preview(&delta.text))?,
            Ok(Some(Ok(LiveEvent::Restart))) => show(News::PreviewVoid)?,
            Ok(Some(Ok(LiveEvent::Done(_))) | Some(Err(_)) | None) => return Ok(None),
        }
    }
}
