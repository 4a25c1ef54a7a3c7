//! `POST /outbox/poll|ack|nack|release`: messages go out under a lease.

use crate::auth::Caller;
use crate::body::JsonBody;
use crate::fields::Fields;
use crate::json::Json;
use crate::load::Load;
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::extract::State;
use cortex_api::{
    AckAnswer, AckRequest, AckStatus, ErrorBody, ErrorCode, NackAnswer, NackRequest, NackStatus, PollAnswer,
    PollRequest, PolledMessage, ReleaseAnswer, ReleaseRequest,
};
use cortex_runtime::wait_until;
use cortex_store::{Acked, LeaseRefused, Nack, Nacked, OutboxListener, Ring};
use cortex_types::limits::{LEASE_SECONDS_MAX, LEASE_SECONDS_MIN, POLL_BATCH_MAX, RETRY_AFTER_SECONDS_MAX};
use cortex_types::{Delivery, LeaseToken, OutboxId, TopicRef};
use fail::fail_point;
use std::time::Duration;
use tokio::time::Instant;
use ulid::Ulid;

/// Longest time a poll may wait for a message.
const WAIT_SECONDS_MAX: u32 = 60;

/// Claim outbound messages for one connector source.
#[utoipa::path(post, path = "/outbox/poll", tag = "connector", request_body = PollRequest, responses(
    (status = 200, body = PollAnswer), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody),
    (status = 403, body = ErrorBody, description = "The key belongs to another source"),
    (status = 429, body = ErrorBody, description = "Too many requests, or too many polls of this key that wait"),
    (status = 503, body = ErrorBody, description = "Other callers use what this one needs; try again"),
))]
pub(crate) async fn poll(
    State(app): State<AppState>,
    caller: Caller,
    load: Load,
    JsonBody(body): JsonBody,
) -> Result<Json<PollAnswer>, Refusal> {
    let mut fields = Fields::of(&body);
    let source = fields.name("source");
    let max = fields.number("max", 1, POLL_BATCH_MAX);
    let lease = fields.number("leaseSeconds", LEASE_SECONDS_MIN, LEASE_SECONDS_MAX);
    let ordered = fields.flag("ordered");
    let patience = fields.number("waitSeconds", 0, WAIT_SECONDS_MAX).unwrap_or_default();
    let topic_key = fields.optional("topicKey").map(|_| fields.name("topicKey"));
    let holder = fields.optional("holder").is_some().then(|| fields.name("holder"));
    fields.finish()?;
    caller.may_use(&source)?;
    let _waiting = if patience > 0 { load.wait()? } else { None };
    let lease = lease.map(|seconds| Duration::from_secs(u64::from(seconds)));
    let poll = async || match &topic_key {
        None => app.outbox.poll(source.clone(), max, lease, ordered, holder.clone()).await,
        Some(key) => {
            let topic = TopicRef { source: source.clone(), topic_key: key.clone() };
            app.outbox.poll_topic(topic, max, lease, ordered, holder.clone()).await
        }
    };
    let wanted = Wanted { source: &source, topic_key: topic_key.as_deref() };
    // Listen before looking: what is queued in between then rings.
    let mut bell = app.store.outbox().listen();
    let mut deliveries = poll().await?;
    let deadline = Instant::now() + Duration::from_secs(u64::from(patience));
    while deliveries.is_empty() {
        let is_worth_it = tokio::select! {
            biased;
            () = app.keys.revoked(&caller) => return Err(Refusal::new(ErrorCode::Unauthorized)),
            look = worth_another_look(&app, &wanted, &mut bell, deadline) => look?,
        };
        if !is_worth_it {
            break;
        }
        deliveries = poll().await?;
    }
    fail_point!("outbox.poll.before_response");
    Ok(Json(PollAnswer { messages: deliveries.into_iter().map(polled).collect() }))
}

/// Acknowledge a delivery.
#[utoipa::path(post, path = "/outbox/ack", tag = "connector", request_body = AckRequest, responses(
    (status = 200, body = AckAnswer), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody),
    (status = 404, body = ErrorBody, description = "Not there, or not yours"),
    (status = 409, body = ErrorBody, description = "The lease ended or is another's"),
))]
pub(crate) async fn ack(
    State(app): State<AppState>,
    caller: Caller,
    JsonBody(body): JsonBody,
) -> Result<Json<AckAnswer>, Refusal> {
    let mut fields = Fields::of(&body);
    let (id, lease) = read_lease(&mut fields);
    fields.finish()?;
    let id = known(id)?;
    owned(&app, &caller, &id).await?;
    let acked = app.outbox.ack(id, lease).await?.map_err(refused)?;
    fail_point!("outbox.ack.before_response");
    let status = match acked {
        Acked::Delivered => AckStatus::Delivered,
        Acked::AlreadyDelivered => AckStatus::AlreadyDelivered,
    };
    Ok(Json(AckAnswer { ok: true, status }))
}

/// Report a failed delivery.
#[utoipa::path(post, path = "/outbox/nack", tag = "connector", request_body = NackRequest, responses(
    (status = 200, body = NackAnswer), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody),
    (status = 404, body = ErrorBody, description = "Not there, or not yours"),
    (status = 409, body = ErrorBody, description = "The lease ended or is another's"),
))]
pub(crate) async fn nack(
    State(app): State<AppState>,
    caller: Caller,
    JsonBody(body): JsonBody,
) -> Result<Json<NackAnswer>, Refusal> {
    let mut fields = Fields::of(&body);
    let (id, lease) = read_lease(&mut fields);
    let undelivered = read_undelivered(&mut fields);
    fields.finish()?;
    let id = known(id)?;
    owned(&app, &caller, &id).await?;
    let nack = undelivered.nack(id, lease);
    let status = match app.outbox.nack(nack).await?.map_err(refused)? {
        Nacked::Pending { .. } => NackStatus::Pending,
        Nacked::Dead => NackStatus::Dead,
        Nacked::Suppressed => NackStatus::Suppressed,
    };
    Ok(Json(NackAnswer { ok: true, status }))
}

/// Give back what an earlier life of this connector held.
#[utoipa::path(post, path = "/outbox/release", tag = "connector", request_body = ReleaseRequest, responses(
    (status = 200, body = ReleaseAnswer), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody),
    (status = 403, body = ErrorBody, description = "The key belongs to another source"),
))]
pub(crate) async fn release(
    State(app): State<AppState>,
    caller: Caller,
    JsonBody(body): JsonBody,
) -> Result<Json<ReleaseAnswer>, Refusal> {
    let mut fields = Fields::of(&body);
    let (source, holder) = (fields.name("source"), fields.name("holder"));
    fields.finish()?;
    caller.may_use(&source)?;
    let released = app.outbox.release(source, holder).await?;
    Ok(Json(ReleaseAnswer { ok: true, released }))
}

/// What a poll waits for: anything of a source, or of one topic of it.
struct Wanted<'a> {
    source: &'a str,
    topic_key: Option<&'a str>,
}

impl Wanted<'_> {
    fn is(&self, topic: &TopicRef) -> bool {
        self.source == topic.source && self.topic_key.is_none_or(|key| key == topic.topic_key)
    }
}

/// Waits until there may be something; false once the patience is over or the server stops.
async fn worth_another_look(
    app: &AppState,
    wanted: &Wanted<'_>,
    bell: &mut OutboxListener,
    deadline: Instant,
) -> Result<bool, Refusal> {
    if Instant::now() >= deadline {
        return Ok(false);
    }
    // What is due already and was not handed out waits behind another message of its topic, whose end rings.
    let (outbox, source, now) = (app.store.outbox(), wanted.source.to_owned(), app.clock.now());
    let due = match wanted.topic_key {
        None => outbox.next_due(source, now).await?,
        Some(key) => outbox.next_due_in(TopicRef { source, topic_key: key.to_owned() }, now).await?,
    };
    let becomes_due = async {
        match due {
            Some(due) => wait_until(&*app.clock, due).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(becomes_due);
    loop {
        tokio::select! {
            () = app.stopping.cancelled() => return Ok(false),
            () = &mut becomes_due => return Ok(true),
            () = tokio::time::sleep_until(deadline) => return Ok(false),
            ring = bell.next() => match ring {
                Ring::For(topic) if !wanted.is(&topic) => {}
                Ring::For(_) | Ring::ForAnybody => return Ok(true),
                Ring::Over => return Ok(false),
            },
        }
    }
}

/// A connector settles only what is of its own source.
async fn owned(app: &AppState, caller: &Caller, id: &OutboxId) -> Result<(), Refusal> {
    if caller.key_id().is_none() {
        return Ok(());
    }
    match app.store.outbox().find(id.clone()).await? {
        Some(message) => caller.may_see(&message.topic.source),
        None => Err(Refusal::new(ErrorCode::NotFound)),
    }
}

/// Why a message could not be delivered, and what may come of it.
pub(crate) struct Undelivered {
    error: Option<String>,
    retry_after: Option<Duration>,
    permanent: bool,
}

impl Undelivered {
    pub(crate) fn nack(self, id: OutboxId, lease: LeaseToken) -> Nack {
        let Self { error, retry_after, permanent } = self;
        Nack { id, lease, error, retry_after, permanent }
    }
}

/// The same fields in a request and in a frame.
pub(crate) fn read_undelivered(fields: &mut Fields<'_>) -> Undelivered {
    let error = fields.optional("error").map(|error| match error.as_str() {
        Some(text) => text.replace('\0', " "),
        None => error.to_string(),
    });
    let retry_after = fields.number("retryAfterSeconds", 0, RETRY_AFTER_SECONDS_MAX);
    let permanent = fields.flag("permanent");
    let retry_after = retry_after.map(|seconds| Duration::from_secs(u64::from(seconds)));
    Undelivered { error, retry_after, permanent }
}

fn read_lease(fields: &mut Fields<'_>) -> (Option<OutboxId>, LeaseToken) {
    let id = fields.name("messageId").parse().ok();
    // A token that is none matches no lease, which is what the connector is then told.
    let lease = fields.name("leaseToken").parse().unwrap_or_else(|_| LeaseToken::from_ulid(Ulid::nil()));
    (id, lease)
}

fn known(id: Option<OutboxId>) -> Result<OutboxId, Refusal> {
    id.ok_or_else(|| Refusal::new(ErrorCode::NotFound))
}

fn refused(refused: LeaseRefused) -> Refusal {
    match refused {
        LeaseRefused::NotFound => Refusal::new(ErrorCode::NotFound),
        LeaseRefused::Conflict => Refusal::new(ErrorCode::LeaseConflict),
    }
}

fn polled(delivery: Delivery) -> PolledMessage {
    PolledMessage {
        message_id: delivery.id,
        lease_token: delivery.lease,
        topic_key: delivery.topic.topic_key,
        text: delivery.text,
        payload: delivery.payload_json.and_then(|payload| serde_json::from_str(&payload).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_for_a_topic_is_woken_by_that_topic_alone() {
        let topic =
            |source: &str, key: &str| TopicRef { source: source.to_owned(), topic_key: key.to_owned() };
        let garden = Wanted { source: "m", topic_key: Some("garden") };
        assert!(garden.is(&topic("m", "garden")));
        assert!(!garden.is(&topic("m", "shed")) && !garden.is(&topic("n", "garden")));
        let any = Wanted { source: "m", topic_key: None };
        assert!(any.is(&topic("m", "shed")) && !any.is(&topic("n", "shed")));
    }
}
