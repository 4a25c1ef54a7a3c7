//! Answers to questions: from events, from the owner, and from the clock.

use crate::effect::ask_approval::token_sha256;
use crate::mint;
use crate::runtime::Parts;
use crate::timer::wait_for;
use cortex_brain::{
    AnswerOutcome, Asking, Question, bare_decision, bare_word_line, is_approver, outcome_line, read_answer,
};
use cortex_store::{Answerer, ApprovalKey, Grant, Page, PageRequest, Resolved, StoreError, TurnEnd};
use cortex_types::{
    Approval, ApprovalId, Decision, Event, GivenAnswer, GrantId, Millis, NewReply, TopicRef,
    is_machine_channel,
};
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

    pub async fn list(&self, only_open: bool, page: PageRequest) -> Result<Page<Approval>, StoreError> {
        self.0.store.approvals().list(only_open, page).await
    }

    pub async fn find(&self, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
        self.0.store.approvals().find(id).await
    }

    /// The question that a token was made for.
    pub async fn of_token(&self, token: &str) -> Result<Option<Approval>, StoreError> {
        self.0.store.approvals().find_by_token(token_sha256(token)).await
    }

    /// The question that a text answers, when it is an answer.
    pub async fn answered_by(&self, text: &str) -> Result<Option<Approval>, StoreError> {
        match read_answer(text, None) {
            Some(answer) => self.of_token(&answer.token).await,
            None => Ok(None),
        }
    }

    /// Who holds the token answers as the person who was asked.
    pub async fn decide_by_token(&self, token: &str, decision: Decision) -> Result<Resolved, StoreError> {
        let Some(asked) = self.of_token(token).await? else { return Ok(Resolved::Unknown) };
        let now = self.0.clock.now();
        let key = ApprovalKey::TokenSha256(token_sha256(token));
        let by = Answerer::Person { topic: asked.topic, user_id: asked.user_id, is_approver: false };
        let approvals = self.0.store.approvals();
        let resolved = approvals.resolve(key, decision, by, now, move |resolved| told(resolved, now)).await?;
        self.0.arrived.notify_one();
        Ok(resolved)
    }

    /// The question as the person who was asked got it. What would run is read off what is stored, which is what runs.
    pub fn question(&self, asked: &Approval) -> Question {
        let shown = Question::of(&Asking {
            tool: &asked.tool_name,
            is_built_in: false,
            arguments_json: &asked.tool_arguments_json,
            preview: asked.preview.as_deref(),
            user: &asked.user_id,
            expires_at: asked.expires_at,
            now: asked.created_at,
        });
        Question { words: asked.question.clone().unwrap_or(shown.words), ..shown }
    }

    pub async fn grants(&self, page: PageRequest) -> Result<Page<Grant>, StoreError> {
        self.0.store.approvals().grants(page).await
    }
}

/// An event that is an answer: it resolves its question and never reaches the model.
pub(crate) async fn answer_event(
    parts: &Parts,
    event: &Event,
    answer: &GivenAnswer,
) -> Result<TurnEnd, StoreError> {
    let now = parts.clock.now();
    let say = |text| Ok(TurnEnd::Handled { replies: vec![line(&event.topic, text, now)] });
    let Some(decision) = answer.decision else {
        return say(outcome_line("", AnswerOutcome::NotADecision));
    };
    decide_by(parts, event, ApprovalKey::TokenSha256(answer.token_sha256), decision).await
}

/// Decides a question as the person who sent this event.
async fn decide_by(
    parts: &Parts,
    event: &Event,
    key: ApprovalKey,
    decision: Decision,
) -> Result<TurnEnd, StoreError> {
    let now = parts.clock.now();
    let say = |text| Ok(TurnEnd::Handled { replies: vec![line(&event.topic, text, now)] });
    let (topic, user_id) = (event.topic.clone(), event.user_id.clone());
    let by = if event.standing.vouches_for_people() {
        let is_approver = is_approver(&parts.config.approvers, event);
        Answerer::Person { topic, user_id, is_approver }
    } else {
        Answerer::Unproven { topic, user_id }
    };
    let resolved =
        parts.store.approvals().resolve(key, decision, by, now, move |resolved| told(resolved, now)).await?;
    match &resolved {
        // Whether there is such a question is nobody's business whom no source vouches for.
        Resolved::Unknown if !event.standing.vouches_for_people() => {
            say(outcome_line("", AnswerOutcome::NotYours))
        }
        // Who was asked is told with the decision itself; an approver elsewhere is told where he answered.
        Resolved::Decided { approval, .. } | Resolved::Expired(approval) if approval.topic == event.topic => {
            Ok(TurnEnd::Handled { replies: Vec::new() })
        }
        Resolved::Decided { approval, .. } | Resolved::Expired(approval) | Resolved::Already(approval) => {
            say(outcome_line(&approval.tool_name, outcome(&resolved)))
        }
        Resolved::NotYours | Resolved::Unknown => say(outcome_line("", outcome(&resolved))),
    }
}

/// A plain yes or no while exactly one question of this person is open here: it decides, where that is set, or they are
/// told how to decide. `None` is an ordinary message.
pub(crate) async fn bare_answer(parts: &Parts, event: &Event) -> Result<Option<TurnEnd>, StoreError> {
    let Some(decision) = bare_decision(&event.text).filter(|_| !is_machine_channel(&event.channel)) else {
        return Ok(None);
    };
    let now = parts.clock.now();
    let open = parts.store.approvals().open_for(event.topic.clone(), event.user_id.clone(), now, 2).await?;
    let [asked] = open.as_slice() else { return Ok(None) };
    // Words that were sent before the question was asked do not answer it.
    if asked.created_at > event.created_at {
        return Ok(None);
    }
    if parts.config.bare_words {
        return decide_by(parts, event, ApprovalKey::Id(asked.id.clone()), decision).await.map(Some);
    }
    let text = bare_word_line(asked);
    Ok(Some(TurnEnd::Handled { replies: vec![line(&event.topic, text, now)] }))
}

/// Expires questions until `stop`.
pub(crate) async fn sweep(parts: Arc<Parts>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = wait_for(&*parts.clock, SWEEP_EVERY) => {}
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

/// The line for whoever was asked. He hears of his question's end once; a late answer concerns only who gave it.
fn told(resolved: &Resolved, now: Millis) -> Option<NewReply> {
    match resolved {
        Resolved::Decided { approval, .. } | Resolved::Expired(approval) => {
            Some(line(&approval.topic, outcome_line(&approval.tool_name, outcome(resolved)), now))
        }
        Resolved::Already(_) | Resolved::NotYours | Resolved::Unknown => None,
    }
}

fn outcome(resolved: &Resolved) -> AnswerOutcome {
    match resolved {
        Resolved::Decided { decision, .. } => AnswerOutcome::Decided(*decision),
        Resolved::Already(approval) => AnswerOutcome::AlreadyResolved(approval.status),
        Resolved::Expired(_) => AnswerOutcome::Expired,
        Resolved::NotYours => AnswerOutcome::NotYours,
        Resolved::Unknown => AnswerOutcome::UnknownToken,
    }
}

fn line(topic: &TopicRef, text: String, now: Millis) -> NewReply {
    NewReply { id: mint::outbox_id(now), topic: topic.clone(), text, payload_json: None }
}
