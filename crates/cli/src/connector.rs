//! The command line as a connector: says something as source `cli`, shows what comes back, then acknowledges it.

mod presence;

pub(crate) use self::presence::forget_gone;

use self::presence::Presence;
use crate::escape::one_line;
use crate::exit::Failure;
use crate::home::Home;
use crate::question::{Press, Question};
use cortex_api::{
    AckRequest, ApprovalQuery, Client, ClientError, EventTrace, IngestRequest, LiveEvent, LiveStream,
    OutboxRow, PollRequest, PolledMessage, TraceWhat,
};
use cortex_types::limits::LIST_ROWS_MAX;
use cortex_types::{Clock, EventId, InboxStatus, OutboxId, OutboxStatus, SystemClock};
use futures::StreamExt;
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;
use ulid::Ulid;

/// The source of what is said at the command line, and where its replies go.
pub(crate) const SOURCE: &str = "cli";
/// The conversation that is meant when none is named.
pub(crate) const TOPIC: &str = "main";
/// The person at the command line.
pub(crate) const USER: &str = "cli:owner";
const LEASE_SECONDS: u32 = 30;
const BATCH: u32 = 20;
/// How often to look when the server tells the end of a turn by itself, and when it does not.
const LOOK_WITH_LIVE: Duration = Duration::from_secs(1);
const LOOK_WITHOUT_LIVE: Duration = Duration::from_millis(100);
/// How long one waits in silence before being told what for.
const SILENCE: Duration = Duration::from_secs(5);

/// A message that arrived.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Arrival {
    pub(crate) message_id: OutboxId,
    pub(crate) topic_key: String,
    pub(crate) text: String,
    pub(crate) payload: Option<serde_json::Value>,
}

impl Arrival {
    /// What it asks, if it asks something.
    pub(crate) fn question(&self) -> Option<Question> {
        Question::of(self.payload.as_ref())
    }

    /// What a person reads of it.
    pub(crate) fn shown(&self) -> String {
        self.question().and_then(|question| question.shown()).unwrap_or_else(|| self.text.clone())
    }
}

/// What happens while one waits.
pub(crate) enum News<'a> {
    /// A piece of the answer as it is being written.
    Preview(&'a str),
    /// The preview so far is void.
    PreviewVoid,
    /// It takes a while, and what for.
    Waiting(&'a WaitingFor),
    /// A reply to this event.
    Reply(&'a Arrival),
    /// A message for another event of this source, or for none: somebody must show it, and we are here.
    Other(&'a Arrival),
    /// The answer, or a copy of it, went to another channel; its words are for whoever is there.
    Elsewhere(&'a Elsewhere),
    /// Something was said and nothing of it leaves, because of a channel's mode.
    Held { reason: &'a str },
}

/// What an event that has not ended waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WaitingFor {
    Turn,
    Model,
    Tool(String),
    Retry(String),
    Server,
}

impl WaitingFor {
    fn of(trace: &EventTrace) -> Self {
        let last = trace.entries.iter().rev().find(|entry| entry.what != TraceWhat::Claimed);
        match (trace.event.status, last) {
            (InboxStatus::Pending, Some(last)) if last.what == TraceWhat::Retry => {
                Self::Retry(one_line(&last.detail, 200))
            }
            (InboxStatus::Pending, _) => Self::Turn,
            (_, Some(last)) if last.what == TraceWhat::Step => match last.detail.strip_suffix(" started") {
                Some(tool) => Self::Tool(tool.to_owned()),
                None => Self::Model,
            },
            (_, Some(_) | None) => Self::Model,
        }
    }
}

/// The line about what one waits for.
pub(crate) fn waiting_line(why: &WaitingFor) -> String {
    match why {
        WaitingFor::Turn => "(waiting: the message is in the queue, behind others)".to_owned(),
        WaitingFor::Model => "(waiting for the model's answer)".to_owned(),
        WaitingFor::Tool(tool) => format!("(waiting for {tool})"),
        WaitingFor::Retry(reason) => format!("(waiting: an attempt failed and will be repeated: {reason})"),
        WaitingFor::Server => "(waiting: the server does not answer; it may be restarting)".to_owned(),
    }
}

/// What went to another channel.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Elsewhere {
    pub(crate) message_id: OutboxId,
    pub(crate) channel: String,
    pub(crate) status: OutboxStatus,
}

impl Elsewhere {
    /// The line for a person.
    pub(crate) fn line(&self) -> String {
        let how = match self.status {
            OutboxStatus::Pending | OutboxStatus::Leased => "queued",
            OutboxStatus::Delivered => "delivered",
            OutboxStatus::Dead => "it could not be delivered",
            OutboxStatus::Suppressed | OutboxStatus::Discarded => "given up",
        };
        format!("(sent to channel {}: {how})", self.channel)
    }
}

/// The line about what a mode held back.
pub(crate) fn held_line(reason: &str) -> String {
    format!("(nothing was sent: {reason}; `cortex shadow report` shows what would have been)")
}

/// How waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Answered,
    /// The turn asked a person something and waits.
    Asked,
    /// The event failed; its reply says why.
    Failed,
    /// The assistant chose to say nothing.
    Silent,
    TimedOut,
}

pub(crate) struct Connector<'a> {
    client: &'a Client,
    home: Home,
    /// What this process waits for; others leave the replies to it.
    presences: Vec<Presence>,
    /// What was shown already; a reply that others delivered is shown here, too, but nothing is shown twice.
    shown: BTreeSet<OutboxId>,
}

/// An open question and the event that waits for its answer.
pub(crate) struct OpenQuestion {
    event: EventId,
    /// The id that the event was posted with.
    external_id: String,
    question: Question,
}

impl<'a> Connector<'a> {
    pub(crate) fn new(client: &'a Client, home: &Home) -> Self {
        Self { client, home: home.clone(), presences: Vec::new(), shown: BTreeSet::new() }
    }

    /// Puts a text into the inbox; from then on it is answered, whatever happens to this process.
    pub(crate) async fn say(&mut self, text: &str, topic: &str) -> Result<EventId, Failure> {
        let id = fresh_id();
        self.attend(&id);
        self.post(id, text, topic).await
    }

    /// As `say`, without staying for the reply.
    pub(crate) async fn leave(&self, text: &str, topic: &str) -> Result<EventId, Failure> {
        self.post(fresh_id(), text, topic).await
    }

    /// From now on the replies to an event are shown here and by nobody else; those to earlier ones are anybody's again.
    fn attend(&mut self, external_id: &str) {
        // Announced a second time it would be taken for somebody else's, and lost.
        if self.presences.iter().any(|presence| presence.is_for(external_id)) {
            return;
        }
        self.presences = Presence::announce(&self.home, external_id).into_iter().collect();
    }

    /// The newest question that is open in a conversation.
    pub(crate) async fn open_question(&mut self, topic: &str) -> Result<Option<OpenQuestion>, Failure> {
        let mut query = ApprovalQuery { all: false, limit: Some(LIST_ROWS_MAX), before: None };
        let approval = loop {
            let page = self.client.approvals(&query).await?;
            let mut open = page.items.into_iter();
            if let Some(approval) = open.find(|row| row.source == SOURCE && row.topic_key == topic) {
                break approval;
            }
            if page.next_cursor.is_none() {
                return Ok(None);
            }
            query.before = page.next_cursor;
        };
        // The buttons lie with the message that asks, whoever was shown it.
        let trace = self.client.trace(&approval.event_id).await?;
        let asked = trace.replies.iter().filter_map(|reply| Question::of(reply.payload.as_ref()));
        let question = asked.into_iter().find(|question| question.approval_id == approval.approval_id);
        self.shown.extend(trace.replies.into_iter().map(|reply| reply.message_id));
        let external_id = trace.event.external_message_id;
        Ok(question.map(|question| OpenQuestion { event: approval.event_id, external_id, question }))
    }

    /// Presses a button and shows everything up to the end of the event that waited for it.
    pub(crate) async fn answer(
        &mut self,
        open: &OpenQuestion,
        press: Press,
        patience: Duration,
        show: &mut dyn FnMut(News<'_>) -> Result<(), Failure>,
    ) -> Result<Ended, Failure> {
        self.attend(&open.external_id);
        // By its id: the buttons' words are for who was asked, and no listing shows them.
        match press {
            Press::Approve => self.client.approve(&open.question.approval_id).await?,
            Press::Deny => self.client.deny(&open.question.approval_id).await?,
        };
        self.wait(&open.event, patience, show).await
    }

    async fn post(&self, id: String, text: &str, topic: &str) -> Result<EventId, Failure> {
        let event = IngestRequest {
            source: SOURCE.to_owned(),
            idempotency_key: format!("{SOURCE}:{id}"),
            external_message_id: id,
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

    /// What was said about an event so far is not shown again.
    pub(crate) async fn skip_said(&mut self, event: &EventId) -> Result<(), Failure> {
        let trace = self.client.trace(event).await?;
        self.attend(&trace.event.external_message_id);
        self.shown.extend(trace.replies.into_iter().map(|reply| reply.message_id));
        Ok(())
    }

    /// Shows what has arrived and waits for nothing. A server that is away now says so when it is next spoken to.
    pub(crate) async fn look(
        &mut self,
        show: &mut dyn FnMut(News<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Ok(polled) = self.poll().await else { return Ok(()) };
        for message in polled {
            match self.deliver(message, &[], show).await {
                Ok(()) | Err(Interrupted::Broken(_)) => {}
                Err(Interrupted::Failed(failure)) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Waits for the reply to an event and shows everything that arrives meanwhile.
    pub(crate) async fn wait(
        &mut self,
        event: &EventId,
        patience: Duration,
        show: &mut dyn FnMut(News<'_>) -> Result<(), Failure>,
    ) -> Result<Ended, Failure> {
        let started = Instant::now();
        let deadline = started + patience;
        let mut live = self.client.live(event).await.ok();
        let mut told = None;
        loop {
            let waiting = match self.collect(event, show).await {
                Ok(Progress::Ended(ended)) => return Ok(ended),
                Ok(Progress::Waiting(waiting)) => waiting,
                // The event is durable: a server that restarts will still answer it.
                Err(Interrupted::Broken(ClientError::Unreachable { .. } | ClientError::TimedOut { .. })) => {
                    live = None;
                    WaitingFor::Server
                }
                Err(Interrupted::Broken(error)) => return Err(error.into()),
                Err(Interrupted::Failed(failure)) => return Err(failure),
            };
            if Instant::now() >= deadline {
                return Ok(Ended::TimedOut);
            }
            if started.elapsed() >= SILENCE && told.as_ref() != Some(&waiting) {
                show(News::Waiting(&waiting))?;
                told = Some(waiting);
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
        &mut self,
        event: &EventId,
        show: &mut dyn FnMut(News<'_>) -> Result<(), Failure>,
    ) -> Result<Progress, Interrupted> {
        let polled = self.poll().await?;
        let trace = self.client.trace(event).await?;
        for message in polled {
            self.deliver(message, &trace.replies, show).await?;
        }
        Ok(match end_of(&trace, &mut self.shown, show)? {
            Some(ended) => Progress::Ended(ended),
            None => Progress::Waiting(WaitingFor::of(&trace)),
        })
    }

    async fn poll(&self) -> Result<Vec<PolledMessage>, ClientError> {
        let request = PollRequest {
            source: SOURCE.to_owned(),
            max: Some(BATCH),
            lease_seconds: Some(LEASE_SECONDS),
            ordered: true,
            wait_seconds: None,
            holder: None,
            topic_key: None,
        };
        Ok(self.client.poll(&request).await?.messages)
    }

    async fn deliver(
        &mut self,
        message: PolledMessage,
        replies: &[OutboxRow],
        show: &mut dyn FnMut(News<'_>) -> Result<(), Failure>,
    ) -> Result<(), Interrupted> {
        let is_ours = replies.iter().any(|reply| reply.message_id == message.message_id);
        let is_anothers = !is_ours && self.is_waited_for_elsewhere(&message.message_id).await?;
        let ack = AckRequest { message_id: message.message_id.clone(), lease_token: message.lease_token };
        let arrival = Arrival {
            message_id: message.message_id,
            topic_key: message.topic_key,
            text: message.text,
            payload: message.payload,
        };
        // Whoever waits for it sees in the trace that it was delivered, and shows it.
        if is_anothers {
            return Ok(self.acknowledge(&ack).await?);
        }
        // Shown before it is acknowledged: a crash here repeats a message, never loses one.
        show(if is_ours { News::Reply(&arrival) } else { News::Other(&arrival) })?;
        self.shown.insert(arrival.message_id);
        Ok(self.acknowledge(&ack).await?)
    }

    async fn is_waited_for_elsewhere(&self, message: &OutboxId) -> Result<bool, ClientError> {
        let Some(event) = self.client.outbox_row(message).await?.event_id else { return Ok(false) };
        let event = self.client.inbox_row(&event).await?;
        let id = &event.external_message_id;
        let is_here = self.presences.iter().any(|presence| presence.is_for(id));
        Ok(event.source == SOURCE && !is_here && Presence::is_held(&self.home, id))
    }

    /// A lease that was lost meanwhile is no error: the message was shown, and may be shown again.
    async fn acknowledge(&self, ack: &AckRequest) -> Result<(), ClientError> {
        match self.client.ack(ack).await {
            Ok(_) | Err(ClientError::Api { status: 404 | 409, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// A new id for what is said.
fn fresh_id() -> String {
    let now = u64::try_from(SystemClock::start().now().0).unwrap_or(0);
    Ulid::from_parts(now, rand::random()).to_string()
}

/// How far an event is.
enum Progress {
    Ended(Ended),
    Waiting(WaitingFor),
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
    let ended = match trace.event.status {
        InboxStatus::Done if trace.replies.is_empty() => Ended::Silent,
        InboxStatus::Done => Ended::Answered,
        InboxStatus::Failed => Ended::Failed,
        InboxStatus::Waiting => Ended::Asked,
        InboxStatus::Pending | InboxStatus::Processing => return Ok(None),
    };
    let unseen: Vec<&OutboxRow> =
        trace.replies.iter().filter(|reply| !shown.contains(&reply.message_id)).collect();
    // Nobody waits for another channel's connector.
    let is_coming = |reply: &&OutboxRow| {
        reply.source == SOURCE && matches!(reply.status, OutboxStatus::Pending | OutboxStatus::Leased)
    };
    if unseen.iter().any(is_coming) {
        return Ok(None);
    }
    let mut reasons = BTreeSet::new();
    for reply in unseen {
        shown.insert(reply.message_id.clone());
        match reply.status {
            OutboxStatus::Suppressed => {
                let reason = reply.last_error.as_deref().unwrap_or("a channel is not live");
                if reasons.insert(reason) {
                    show(News::Held { reason })?;
                }
            }
            status if reply.source != SOURCE => {
                let (message_id, channel) = (reply.message_id.clone(), reply.source.clone());
                show(News::Elsewhere(&Elsewhere { message_id, channel, status }))?;
            }
            OutboxStatus::Pending
            | OutboxStatus::Leased
            | OutboxStatus::Delivered
            | OutboxStatus::Dead
            | OutboxStatus::Discarded => {
                let arrival = Arrival {
                    message_id: reply.message_id.clone(),
                    topic_key: reply.topic_key.clone(),
                    text: reply.text.clone(),
                    payload: reply.payload.clone(),
                };
                show(News::Reply(&arrival))?;
            }
        }
    }
    Ok(Some(ended))
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
