//! From the question to the end of its turn: accepted once, then watched.

use super::ask::Asked;
use super::followed::Claim;
use super::refusal::{ErrorKind, OpenAiRefusal};
use crate::live::{Reader, Waiting, watch};
use crate::state::AppState;
use cortex_api::LiveEvent;
use cortex_runtime::IncomingEvent;
use cortex_store::{RepliesOf, StoreError};
use cortex_types::{
    AcceptedEvent, ChannelMode, Event, EventId, InboxStatus, OutboxStatus, Priority, Speaker, TopicRef,
    blank_tokens,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use http::StatusCode;
use std::time::Duration;
use ulid::Ulid;

/// How long after an event a client's library may still be sending it again.
const RETRIED_WITHIN: Duration = Duration::from_secs(10 * 60);
/// How long after its delivery an answer may have been missed.
const MISSED_WITHIN: Duration = Duration::from_secs(60);

/// A question that was taken in, and where its answer goes.
pub(crate) struct OpenQuestion {
    pub(crate) app: AppState,
    pub(crate) event: EventId,
    pub(crate) topic: TopicRef,
    pub(crate) host: String,
    /// Whose replies are shown at the end.
    pub(crate) replies_of: Vec<RepliesOf>,
}

/// A turn that is on its way, as whoever waits for it sees it.
pub(crate) struct Following {
    pub(crate) question: OpenQuestion,
    watched: BoxStream<'static, LiveEvent>,
    /// The turn that went on because this event answered its question.
    resumed: Option<EventId>,
    /// What these events lead to is for this follower: its own, and the one that went on.
    claim: Claim,
    _of_resumed: Option<Claim>,
}

/// What a follower hears.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    Text(String),
    /// What was heard so far is no part of the answer.
    Restarted,
    Ended(InboxStatus),
}

impl Following {
    /// Takes the question in, unless it is here already.
    pub(crate) async fn begin(app: &AppState, asked: Asked) -> Result<Self, OpenAiRefusal> {
        let question = app.runtime.approvals().answered_by(&asked.text).await?;
        let question = question.filter(|asks| asks.topic == asked.topic && asks.user_id == asked.user_id);
        let (topic, host) = (asked.topic.clone(), asked.host.clone());
        let mut of_resumed = None;
        if let Some(asks) = &question
            && let Some(resumed) = app.store.inbox().find(asks.event.clone()).await?
        {
            of_resumed = Some(app.followed.claim(&resumed.topic.source, &resumed.external_message_id));
        }
        let (event, claim) = match sent_before(app, &asked).await? {
            Some(event) => {
                let claim = app.followed.claim(&event.topic.source, &event.external_message_id);
                (event, claim)
            }
            None => accept(app, asked).await?,
        };
        let mut replies_of = vec![RepliesOf { event: event.id.clone(), since: event.created_at }];
        let resumed = question.map(|asks| asks.event);
        // Of that turn only what followed the answer; the rest was seen before.
        replies_of
            .extend(resumed.clone().map(|resumed| RepliesOf { event: resumed, since: event.created_at }));
        let watched = watched(app, event.id.clone()).await?;
        let question = OpenQuestion { app: app.clone(), event: event.id, topic, host, replies_of };
        Ok(Self { question, watched, resumed, claim, _of_resumed: of_resumed })
    }

    /// The reader stopped the stream: once the turn has ended, its words are given up, so that they do not come before
    /// his next answer. A server that stops meanwhile leaves them for the next request. However often he comes back for one
    /// event and leaves again, one follower of it waits.
    pub(crate) async fn stopped(mut self) {
        if !self.claim.stop() {
            return;
        }
        let ended = loop {
            match self.next().await {
                Ok(Some(News::Text(_) | News::Restarted)) => {}
                ended => break ended,
            }
        };
        let app = &self.question.app;
        if app.stopping.is_cancelled() {
            return;
        }
        if let Err(error) = ended {
            tracing::warn!(%error, "The turn of a stopped stream could not be followed; its words come later");
            return;
        }
        for replies in self.question.replies_of.clone() {
            if let Err(error) = app.outbox.stop(replies).await {
                tracing::warn!(%error, "The words of a stopped stream could not be given up; they come later");
            }
        }
    }

    /// `None` when the server stops.
    pub(crate) async fn next(&mut self) -> Result<Option<News>, StoreError> {
        loop {
            let Some(event) = self.watched.next().await else { return Ok(None) };
            return Ok(Some(match event {
                LiveEvent::Delta(delta) => News::Text(delta.text),
                LiveEvent::Restart => News::Restarted,
                LiveEvent::Done(done) => match self.resumed.take() {
                    Some(resumed) => {
                        self.watched = watched(&self.question.app, resumed).await?;
                        continue;
                    }
                    None => News::Ended(done.status),
                },
            }));
        }
    }
}

async fn watched(app: &AppState, event: EventId) -> Result<BoxStream<'static, LiveEvent>, StoreError> {
    let Some(watched) = watch(&app.store, &app.bus, event, Reader::OpenAi, Waiting::IsAnEnd).await? else {
        return Ok(futures::stream::empty().boxed());
    };
    let stopping = app.stopping.clone();
    Ok(watched.take_until(async move { stopping.cancelled().await }).boxed())
}

/// A library that got no answer asks again by itself: the model must not run twice for that.
async fn sent_before(app: &AppState, asked: &Asked) -> Result<Option<Event>, StoreError> {
    let is_off = app.runtime.channels().settings().mode_of(&asked.topic.source) == ChannelMode::Off;
    if !asked.is_retry || is_off {
        return Ok(None);
    }
    let within = i64::try_from(RETRIED_WITHIN.as_millis()).unwrap_or(i64::MAX);
    let since = cortex_types::Millis(app.clock.now().0 - within);
    let newest = app.store.inbox().newest_said(asked.topic.clone(), since).await?;
    let said = blank_tokens(&asked.text);
    let Some(event) = newest.filter(|event| event.text == *said && event.user_id == asked.user_id) else {
        return Ok(None);
    };
    Ok(may_have_missed(app, &event).await?.then_some(event))
}

/// Whether a client can still be without the answer: people say the same words again, and mean it.
async fn may_have_missed(app: &AppState, event: &Event) -> Result<bool, StoreError> {
    let lately = app.clock.now().before(MISSED_WITHIN);
    let is_ended = matches!(event.status, InboxStatus::Done | InboxStatus::Failed);
    if !is_ended || event.updated_at >= lately {
        return Ok(true);
    }
    let Some((_, replies)) = app.store.outbox().replies_to(event.id.clone()).await? else { return Ok(false) };
    Ok(replies.iter().any(|reply| match reply.status {
        OutboxStatus::Pending | OutboxStatus::Leased => true,
        OutboxStatus::Delivered => reply.delivered_at.is_some_and(|at| at >= lately),
        OutboxStatus::Dead | OutboxStatus::Suppressed | OutboxStatus::Discarded => false,
    }))
}

async fn accept(app: &AppState, asked: Asked) -> Result<(Event, Claim), OpenAiRefusal> {
    let now = app.clock.now();
    let minted = || format!("request-{}", Ulid::generate());
    let external_message_id = asked.external_id.unwrap_or_else(minted);
    // Before it is taken in: its turn may be over before this goes on.
    let claim = app.followed.claim(&asked.topic.source, &external_message_id);
    // Only the owner's key opens this door.
    let speaker = Speaker::owner(asked.topic.source);
    let draft = IncomingEvent {
        idempotency_key: format!("{}:{external_message_id}", speaker.source()),
        external_message_id,
        topic_key: asked.topic.topic_key,
        user_id: asked.user_id,
        text: asked.text,
        occurred_at: now,
        metadata_json: asked.metadata_json,
        priority: Priority::default(),
    };
    let id = match app.intake.accept(&speaker, draft).await? {
        AcceptedEvent::Queued(id) | AcceptedEvent::Duplicate { first: id, same_body: true } => id,
        AcceptedEvent::Duplicate { first, same_body: false } => {
            let message = format!("this Idempotency-Key came before, with another message ({first})");
            let refusal =
                OpenAiRefusal::new(StatusCode::UNPROCESSABLE_ENTITY, ErrorKind::InvalidRequest, message);
            return Err(refusal.param("Idempotency-Key").code("idempotency_key_reused"));
        }
        AcceptedEvent::ChannelOff => {
            let message = "the channel openai is off; set channels.openai to live to use this door";
            let refusal = OpenAiRefusal::new(StatusCode::FORBIDDEN, ErrorKind::InvalidRequest, message);
            return Err(refusal.code("channel_off"));
        }
        AcceptedEvent::NameRefused(why) => {
            let refusal =
                OpenAiRefusal::new(StatusCode::FORBIDDEN, ErrorKind::InvalidRequest, why.to_string());
            return Err(refusal.code("forbidden"));
        }
    };
    let gone = || {
        let message = format!("event {id} is not there any more");
        OpenAiRefusal::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorKind::Server, message)
    };
    let event = app.store.inbox().find(id.clone()).await?.ok_or_else(gone)?;
    Ok((event, claim))
}
