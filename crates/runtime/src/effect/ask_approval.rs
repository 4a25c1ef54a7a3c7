//! Asks a person about calls and suspends the turn; of the token only a digest is kept.

use crate::effect::check_calls::prepare;
use crate::effect::send::targeted;
use crate::mint;
use crate::runtime::Parts;
use crate::token::{APPROVE, DENY};
use cortex_brain::{Asking, CallVerdict, Question};
use cortex_store::{AskedApproval, StoreError};
use cortex_tools::ToolSource;
use cortex_types::{
    ApprovalId, Event, NewApproval, NewReply, PromptButton, PromptPayload, StepBody, ToolCall,
};
use sha2::{Digest, Sha256};

/// Questions, each with the step that records it.
pub(crate) type Questions = Vec<(StepBody, AskedApproval)>;

/// The questions for these calls, and the steps that record them. When calls are no longer in order nobody is asked
/// yet: the turn learns their verdicts first, since one that waits without a question would wait for ever.
pub(crate) async fn questions(
    parts: &Parts,
    event: &Event,
    calls: &[ToolCall],
) -> Result<Questions, Vec<(String, CallVerdict)>> {
    let mut questions = Vec::with_capacity(calls.len());
    let mut refused = Vec::new();
    for call in calls {
        match prepare(parts, event, &call.name, &call.arguments_json).await {
            Ok(prepared) => {
                questions.push(asked(
                    parts,
                    event,
                    Asked {
                        call_id: &call.id,
                        tool: prepared.call.definition().name.as_str(),
                        arguments: prepared.call.arguments_json(),
                        preview: prepared.preview.as_deref(),
                        is_built_in: prepared.call.definition().source == ToolSource::BuiltIn,
                        binding: prepared.binding,
                    },
                ));
            }
            Err(refusal) => refused.push((call.id.clone(), CallVerdict::Refused(refusal))),
        }
    }
    if refused.is_empty() { Ok(questions) } else { Err(refused) }
}

/// The verdicts on calls that nobody can be asked about now, because too many questions of programs without a key wait.
pub(crate) fn unasked(questions: &[AskedApproval], room: usize) -> Vec<(String, CallVerdict)> {
    let text = "not run: too many questions of programs without a key wait for the owner";
    let refused =
        |asked: &AskedApproval| (asked.approval.call_id.clone(), CallVerdict::Refused(text.to_owned()));
    questions.iter().skip(room).map(refused).collect()
}

/// The same for words that would go to other channels, with the conversation that each of them would reach.
pub(crate) async fn send_questions(
    parts: &Parts,
    event: &Event,
    calls: &[ToolCall],
) -> Result<Result<Questions, Vec<(String, CallVerdict)>>, StoreError> {
    let (mut questions, mut free) = (Vec::with_capacity(calls.len()), Vec::new());
    for call in calls {
        match targeted(parts, event, call).await? {
            Some(send) => {
                let about = Asked {
                    call_id: &send.call.id,
                    tool: &send.call.name,
                    arguments: &send.arguments_json,
                    preview: None,
                    is_built_in: true,
                    binding: send.binding,
                };
                questions.push(asked(parts, event, about));
            }
            None => free.push((call.id.clone(), CallVerdict::Free { mutates: false })),
        }
    }
    Ok(if free.is_empty() { Ok(questions) } else { Err(free) })
}

fn asked(parts: &Parts, event: &Event, about: Asked<'_>) -> (StepBody, AskedApproval) {
    let asked = question(parts, event, &about);
    let approval = asked.approval.id.clone();
    (StepBody::ApprovalAsked { call_id: about.call_id.to_owned(), approval }, asked)
}

/// What a person is asked about.
struct Asked<'a> {
    call_id: &'a str,
    tool: &'a str,
    /// Canonical.
    arguments: &'a str,
    preview: Option<&'a str>,
    is_built_in: bool,
    binding: [u8; 32],
}

fn question(parts: &Parts, event: &Event, about: &Asked<'_>) -> AskedApproval {
    let now = parts.clock.now();
    let expires_at = now.after(parts.config.approval_ttl);
    let question = Question::of(&Asking {
        tool: about.tool,
        is_built_in: about.is_built_in,
        arguments_json: about.arguments,
        preview: about.preview,
        user: &event.user_id,
        expires_at,
        now,
    });
    let id = ApprovalId::from_ulid(mint::ulid_at(now));
    let token = parts.config.token_key.token_of(&id);
    let text = question.text();
    let payload = PromptPayload {
        approval_id: id.clone(),
        question: question.words.clone(),
        verbatim: question.verbatim,
        preview_chars: question.preview_chars,
        buttons: vec![
            PromptButton { label: "Approve".to_owned(), data: APPROVE.to_owned() },
            PromptButton { label: "Deny".to_owned(), data: DENY.to_owned() },
        ],
    };
    let prompt = NewReply {
        id: mint::outbox_id(now),
        topic: event.topic.clone(),
        text,
        payload_json: serde_json::to_string(&payload).ok(),
    };
    let approval = NewApproval {
        id,
        token_sha256: token_sha256(&token),
        call_id: about.call_id.to_owned(),
        tool_name: about.tool.to_owned(),
        tool_arguments_json: about.arguments.to_owned(),
        question: question.words,
        preview: about.preview.map(str::to_owned),
        binding: about.binding,
        expires_at,
    };
    AskedApproval { approval, prompt }
}

pub(crate) fn token_sha256(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
