//! Answers to questions: from events, from the owner, and from the clock.

use crate::effect::ask_approval::token_sha256;
use crate::mint;
use crate::runtime::Parts;
use cortex_brain::{AnswerOutcome, ApprovalAnswer, outcome_line};
use cortex_store::{Answerer, ApprovalKey, Grant, Resolved, StoreError, TurnEnd};
use cortex_types::{Approval, ApprovalId, Decision, Event, GrantId, Millis, NewReply, TopicRef};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often open questions are looked through for those nobody answered.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// The owner's desk for approvals and grants.
#[derive(Clone)]
pub struct ApprovalDesk(pub(crate) Arc<Parts>);

impl ApprovalDesk {
    /// The owner decides at the command line or the API.
    pub async fn decide(&self, id: ApprovalId, decision: Decision) -> Result<Resolved, StoreError> {
        let now = self.0.clock.now();
        let resolved = self
            .0
            .store
            .approvals()
            .resolve(ApprovalKey::Id(id), decision, Answerer::Owner, now, move |resolved| told(resolved, now))
            .await?;
        self.0.arrived.notify_one();
        Ok(resolved)
    }

    pub async fn grant(&self, of: ApprovalId, lasting: Duration) -> Result<Option<GrantId>, StoreError> {
        let now = self.0.clock.now();
        let id = GrantId::from_ulid(mint::ulid_at(now));
        self.0.store.approvals().grant(id, of, lasting, now).await
    }

    pub async fn revoke(&self, id: GrantId) -> Result<bool, StoreError> {
        self.0.store.approvals().revoke(id, self.0.clock.now()).await
    }

    pub async fn list(&self, only_open: bool, limit: u32) -> Result<Vec<Approval>, StoreError> {
        self.0.store.approvals().list(only_open, limit).await
    }

    pub async fn find(&self, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
        self.0.store.approvals().find(id).await
    }

    pub async fn grants(&self, limit: u32) -> Result<Vec<Grant>, StoreError> {
        self.0.store.approvals().grants(limit).await
    }
}

/// An event that is an answer: it resolves its question and never reaches the model.
pub(crate) async fn answer_event(
    parts: &Parts,
    event: &Event,
    answer: &ApprovalAnswer,
) -> Result<TurnEnd, StoreError> {
    let now = parts.clock.now();
    let say = |outcome| {
        let reply = line(&event.topic, outcome_line("it", outcome), now);
        TurnEnd::Handled { replies: vec![reply] }
    };
    let Some(decision) = answer.decision else { return Ok(say(AnswerOutcome::NotADecision)) };
    let by = Answerer::Person {
        topic: event.topic.clone(),
        user_id: event.user_id.clone(),
        is_approver: parts.config.approvers.contains(&event.user_id),
    };
    let key = ApprovalKey::TokenSha256(token_sha256(&answer.token));
    let resolved =
        parts.store.approvals().resolve(key, decision, by, now, move |resolved| told(resolved, now)).await?;
    Ok(match resolved {
        Resolved::NotYours => say(AnswerOutcome::NotYours),
        Resolved::Unknown => say(AnswerOutcome::UnknownToken),
        Resolved::Decided(_) | Resolved::Already(_) | Resolved::Expired(_) => {
            TurnEnd::Handled { replies: Vec::new() }
        }
    })
}

/// Expires questions until `stop`.
pub(crate) async fn sweep(parts: Arc<Parts>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(SWEEP_EVERY) => {}
        }
        let now = parts.clock.now();
        match parts.store.approvals().expire_due(now, move |resolved| told(resolved, now)).await {
            Ok(0) => {}
            Ok(expired) => {
                tracing::info!(expired, "Questions that nobody answered have expired");
                parts.arrived.notify_one();
            }
            Err(error) => tracing::warn!(%error, "Open questions cannot be looked through now"),
        }
    }
}

/// The line for whoever was asked.
fn told(resolved: &Resolved, now: Millis) -> Option<NewReply> {
    let (approval, outcome) = match resolved {
        Resolved::Decided(approval) => (approval, AnswerOutcome::Decided(decision_of(approval)?)),
        Resolved::Already(approval) => (approval, AnswerOutcome::AlreadyResolved(approval.status)),
        Resolved::Expired(approval) => (approval, AnswerOutcome::Expired),
        Resolved::NotYours | Resolved::Unknown => return None,
    };
    Some(line(&approval.topic, outcome_line(&approval.tool_name, outcome), now))
}

fn decision_of(approval: &Approval) -> Option<Decision> {
    use cortex_types::ApprovalStatus;
    match approval.status {
        ApprovalStatus::Approved => Some(Decision::Approved),
        ApprovalStatus::Denied => Some(Decision::Denied),
        ApprovalStatus::Expired => Some(Decision::Expired),
        ApprovalStatus::Pending => None,
    }
}

fn line(topic: &TopicRef, text: String, now: Millis) -> NewReply {
    NewReply { id: mint::outbox_id(now), topic: topic.clone(), text, payload_json: None }
}
