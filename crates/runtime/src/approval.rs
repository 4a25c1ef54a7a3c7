//! Answers to questions: from events, from the owner, and from the clock.

use crate::effect::ask_approval::token_sha256;
use crate::mint;
use crate::runtime::Parts;
use crate::timer::wait_for;
use crate::token::stored_payload;
use cortex_brain::{
    AnswerOutcome, Asking, Question, bare_decision, bare_word_note, damaged_question_note, is_approver,
    outcome_line, read_answer,
};
use cortex_store::{
    Answerer, ApprovalKey, Grant, Granted, OpenQuestion, Page, PageRequest, Resolved, StoreError, TurnEnd,
};
use cortex_tools::Registry;
use cortex_types::{
    Approval, ApprovalId, Decision, Event, GivenAnswer, GrantId, Millis, NewReply, TopicRef,
    is_machine_channel, was_shown_before,
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
            .resolve(ApprovalKey::Id(id), decision, Answerer::Owner, now, teller(&self.0, now))
            .await?;
        self.0.arrived.notify_one();
        Ok(resolved)
    }

    pub async fn grant(&self, of: ApprovalId, lasting: Duration) -> Result<Granted, StoreError> {
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
        let resolved = approvals.resolve(key, decision, by, now, teller(&self.0, now)).await?;
        self.0.arrived.notify_one();
        Ok(resolved)
    }

    /// The question as the person who was asked got it.
    pub fn question(&self, asked: &Approval) -> Question {
        question_of(asked)
    }

    pub async fn grants(&self, page: PageRequest) -> Result<Page<Grant>, StoreError> {
        self.0.store.approvals().grants(page).await
    }
}

/// What would run is read off what is stored, which is what runs.
fn question_of(asked: &Approval) -> Question {
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
    let resolved = parts.store.approvals().resolve(key, decision, by, now, teller(parts, now)).await?;
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
            say(outcome_line(&approval.tool_name, outcome(&resolved, &parts.tools)))
        }
        Resolved::NotYours | Resolved::Unknown => say(outcome_line("", outcome(&resolved, &parts.tools))),
    }
}

/// Most open questions that one plain word leads to being shown again.
const REPEATED_MAX: u32 = 5;

/// A plain yes or no while questions of this person are open here: it decides the only one, where that is set; otherwise
/// they are shown again. `None` is an ordinary message.
pub(crate) async fn bare_answer(parts: &Parts, event: &Event) -> Result<Option<TurnEnd>, StoreError> {
    let Some(decision) = bare_decision(&event.text).filter(|_| !is_machine_channel(&event.channel)) else {
        return Ok(None);
    };
    let now = parts.clock.now();
    let (topic, user_id) = (event.topic.clone(), event.user_id.clone());
    let open = parts.store.approvals().open_for(topic, user_id, now, REPEATED_MAX).await?;
    if !open.is_damaged && !open.readable.iter().any(|asked| was_before(asked, event)) {
        return Ok(None);
    }
    // What cannot be read may be what was meant.
    if let ([asked], true, false) = (open.readable.as_slice(), parts.config.bare_words, open.is_damaged) {
        return decide_by(parts, event, ApprovalKey::Id(asked.approval.id.clone()), decision).await.map(Some);
    }
    let note = bare_word_note(open.count());
    let mut replies: Vec<NewReply> =
        open.readable.iter().map(|asked| shown_again(&asked.approval, &note, now)).collect();
    if open.unreadable > 0 {
        replies.push(line(&event.topic, damaged_question_note(open.unreadable), now));
    }
    Ok(Some(TurnEnd::Handled { replies }))
}

/// Whether the person had the question before them when they said this. Both times count: when it was said, by the platform's
/// clock, and when it arrived here.
fn was_before(asked: &OpenQuestion, event: &Event) -> bool {
    let has_arrived_later = asked.shown_at.is_some_and(|shown_at| shown_at <= event.created_at);
    has_arrived_later && was_shown_before(asked.shown_at, event.occurred_at)
}

/// The question once more, with its buttons: whoever shows it says how to answer there.
fn shown_again(asked: &Approval, note: &str, now: Millis) -> NewReply {
    let question = question_of(asked);
    let question = Question { words: format!("{note}\n{}", question.words), ..question };
    let payload = stored_payload(asked.id.clone(), &question);
    NewReply {
        payload_json: serde_json::to_string(&payload).ok(),
        ..line(&asked.topic, question.text(), now)
    }
}

/// Expires questions until `stop`.
pub(crate) async fn sweep(parts: Arc<Parts>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = wait_for(&*parts.clock, SWEEP_EVERY) => {}
        }
        let now = parts.clock.now();
        match parts.store.approvals().expire_due(now, teller(&parts, now)).await {
            Ok(0) => {}
            Ok(expired) => {
                tracing::info!(expired, "Questions that nobody answered have expired");
                parts.arrived.notify_one();
            }
            Err(error) => tracing::warn!(%error, "Open questions cannot be looked through now"),
        }
    }
}

/// Writes the line for whoever was asked. He hears of his question's end once; a late answer concerns only who gave it.
fn teller(parts: &Parts, now: Millis) -> impl Fn(&Resolved) -> Option<NewReply> + Send + 'static + use<> {
    let tools = Arc::clone(&parts.tools);
    move |resolved| match resolved {
        Resolved::Decided { approval, .. } | Resolved::Expired(approval) => {
            let text = outcome_line(&approval.tool_name, outcome(resolved, &tools));
            Some(line(&approval.topic, text, now))
        }
        Resolved::Already(_) | Resolved::NotYours | Resolved::Unknown => None,
    }
}

fn outcome(resolved: &Resolved, tools: &Registry) -> AnswerOutcome {
    match resolved {
        Resolved::Decided { approval, decision: Decision::Approved, .. } => {
            match tools.would_wait(&approval.tool_name) {
                Some(longest) => AnswerOutcome::ApprovedToWait(longest),
                None => AnswerOutcome::Decided(Decision::Approved),
            }
        }
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
