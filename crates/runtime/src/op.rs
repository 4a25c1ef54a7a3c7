//! The desk for ops: work elsewhere that a conversation waits for, and the event that brings its end back.

use crate::mint;
use crate::runtime::Parts;
use cortex_brain::{ORPHANED, ShownOps, bounded, ending_text, show_ops};
use cortex_store::{Page, PageRequest, Settled, StoreError};
use cortex_types::{
    Millis, NewEvent, NewOp, Op, OpEnding, OpId, OpStatus, Priority, Relationship, Standing, TopicRef,
};
use metrics::counter;
use serde::Serialize;
use std::sync::Arc;

/// Work that was handed to somebody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatch {
    /// Such as `router_job`.
    pub kind: String,
    pub description: String,
    /// The conversation that asks.
    pub topic: TopicRef,
    pub user_id: String,
    pub event: Option<cortex_types::EventId>,
    pub expected_channel: Option<String>,
    /// The durable run that owns it; without one it does not outlive this process.
    pub run_id: Option<String>,
}

/// Everything that can be done with ops.
#[derive(Clone)]
pub struct OpDesk(pub(crate) Arc<Parts>);

impl OpDesk {
    /// Tracks work that is about to be handed over.
    pub async fn add(&self, dispatch: Dispatch) -> Result<OpId, StoreError> {
        let now = self.0.clock.now();
        let id = OpId::from_ulid(mint::ulid_at(now));
        let op = NewOp {
            id: id.clone(),
            kind: dispatch.kind,
            description: dispatch.description,
            topic: dispatch.topic,
            user_id: dispatch.user_id,
            event: dispatch.event,
            expected_channel: dispatch.expected_channel,
            run_id: dispatch.run_id,
        };
        self.0.store.ops().add(op, now).await?;
        Ok(id)
    }

    pub async fn complete(&self, id: OpId, result: String) -> Result<Settled, StoreError> {
        self.settle(id, OpEnding::Completed { result }).await
    }

    pub async fn fail(&self, id: OpId, error: String) -> Result<Settled, StoreError> {
        self.settle(id, OpEnding::Failed { error }).await
    }

    /// What a prompt of these users shows; the ends among it are acknowledged by the turn's end.
    pub async fn shown(&self, users: Option<Vec<String>>) -> Result<ShownOps, StoreError> {
        shown(&self.0, users).await
    }

    pub async fn find(&self, id: OpId) -> Result<Option<Op>, StoreError> {
        self.0.store.ops().find(id).await
    }

    pub async fn list(&self, status: Option<OpStatus>, page: PageRequest) -> Result<Page<Op>, StoreError> {
        self.0.store.ops().list(status, page).await
    }

    async fn settle(&self, id: OpId, ending: OpEnding) -> Result<Settled, StoreError> {
        let now = self.0.clock.now();
        let settled =
            self.0.store.ops().settle(id, bounded(ending), now, move |op| event_of(op, now)).await?;
        if let Settled::Now(op) = &settled {
            counter!("cortex_ops_settled_total", "status" => op.status.as_str()).increment(1);
            self.0.arrived.notify_one();
        }
        Ok(settled)
    }
}

pub(crate) async fn shown(parts: &Parts, users: Option<Vec<String>>) -> Result<ShownOps, StoreError> {
    Ok(show_ops(&parts.store.ops().shown(users).await?))
}

/// At the start: nobody is left who would end these.
pub(crate) async fn fail_orphans(parts: &Parts) -> Result<usize, StoreError> {
    let now = parts.clock.now();
    parts.store.ops().fail_orphans(ORPHANED, now, move |op| event_of(op, now)).await
}

/// The channel of events that ops make (D18).
const ROUTER: &str = "router";

/// What the event says of itself.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OpMetadata<'a> {
    channel: &'static str,
    op_id: &'a OpId,
    status: OpStatus,
}

/// The end as an event of the conversation that asked; its id lets one op have one such event.
fn event_of(op: &Op, now: Millis) -> NewEvent {
    let metadata = OpMetadata { channel: ROUTER, op_id: &op.id, status: op.status };
    let external_id = format!("op:{}", op.id);
    NewEvent {
        id: mint::event_id(now),
        source: op.topic.source.clone(),
        external_message_id: external_id.clone(),
        idempotency_key: external_id,
        topic_key: op.topic.topic_key.clone(),
        user_id: op.user_id.clone(),
        text: ending_text(op),
        occurred_at: now,
        metadata_json: serde_json::to_string(&metadata).ok(),
        priority: Priority::Normal,
        channel: Some(ROUTER.to_owned()),
        relationship: Some(Relationship::System.as_str().to_owned()),
        standing: Standing::Inside,
        answer: None,
    }
}
