//! The answer as a whole: what waited in the conversation, the replies of its turn, and the questions to a person.

use super::ask::Asked;
use super::follow::{Following, News, OpenQuestion};
use super::joined::{Said, joined};
use super::refusal::{ErrorKind, OpenAiRefusal};
use super::written::Leased;
use crate::prompt::Prompt;
use crate::state::AppState;
use cortex_api::{CortexApproval, CortexNote};
use cortex_store::{HandedOver, OutboxMessage, RepliesOf, StoreError};
use cortex_types::{ApprovalId, InboxStatus, OutboxId, OutboxStatus, TokenUsage, TopicRef};
use http::StatusCode;
use std::time::Duration;

/// How long a request without a stream is held; proxies and clients rarely wait longer.
const WAIT_MAX: Duration = Duration::from_secs(10 * 60);
/// What a client is told, and the messages that are delivered with it.
pub(crate) struct Answer {
    /// Oldest first.
    pub(crate) texts: Vec<Said>,
    pub(crate) usage: TokenUsage,
    pub(crate) note: CortexNote,
    pub(crate) leased: Leased,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        joined(&self.texts)
    }
}

/// Asks the assistant and waits for the end of the turn.
pub(crate) async fn whole_answer(app: &AppState, asked: Asked) -> Result<Answer, OpenAiRefusal> {
    let mut following = Following::begin(app, asked).await?;
    let end = async {
        while let Some(news) = following.next().await? {
            match news {
                News::Text(_) | News::Restarted => {}
                News::Ended(status) => return Ok(status),
            }
        }
        Err(stopping())
    };
    match tokio::time::timeout(WAIT_MAX, end).await {
        Ok(status) => gather(&following.question, status?, &[]).await,
        Err(_) => Err(too_long(&following.question)),
    }
}

/// What an answer says when the server stops before it is there.
pub(crate) fn stopping() -> OpenAiRefusal {
    let message = "the server is stopping; the answer comes with the next request";
    OpenAiRefusal::new(StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Server, message)
        .code("shutting_down")
        .retry_after(Some(Duration::from_secs(1)))
}

fn too_long(question: &OpenQuestion) -> OpenAiRefusal {
    let minutes = WAIT_MAX.as_secs() / 60;
    let message = format!(
        "{} is not answered after {minutes} minutes; its answer comes with the next request in this conversation",
        question.event
    );
    OpenAiRefusal::new(StatusCode::GATEWAY_TIMEOUT, ErrorKind::Server, message).code("answer_timeout")
}

/// What waits for one who asks in this conversation: the replies of his own events, and what nobody else follows.
pub(crate) async fn hand_over(
    app: &AppState,
    topic: TopicRef,
    replies_of: Vec<RepliesOf>,
) -> Result<Vec<HandedOver>, StoreError> {
    let followed = app.followed.clone();
    app.outbox.hand_over(topic, replies_of, move |source, name| followed.has(source, name)).await
}

/// Takes what is for this client now; `seen` are messages he already has.
pub(crate) async fn gather(
    question: &OpenQuestion,
    status: InboxStatus,
    seen: &[OutboxId],
) -> Result<Answer, OpenAiRefusal> {
    let app = &question.app;
    let handed = hand_over(app, question.topic.clone(), question.replies_of.clone()).await?;
    let handed: Vec<HandedOver> =
        handed.into_iter().filter(|handed| !seen.contains(&handed.message.id)).collect();
    let leased = leased(app, &handed);
    let mut usage = TokenUsage::default();
    for event in &question.replies_of {
        let spent = app.store.usage_of(event.event.clone()).await?;
        usage.input += spent.input;
        usage.output += spent.output;
        usage.cached += spent.cached;
    }
    let messages: Vec<&OutboxMessage> = handed.iter().map(|handed| &handed.message).collect();
    let questions: Vec<Question> =
        messages.iter().filter_map(|message| Question::of(message, &question.host)).collect();
    let texts = messages.iter().map(|message| said(message, &question.host)).collect();
    let note = CortexNote {
        event_id: question.event.clone(),
        status,
        approvals: questions.into_iter().map(|asks| CortexApproval { id: asks.id, url: asks.url }).collect(),
        note: held_back(question, &messages).await?,
    };
    Ok(Answer { texts, usage, note, leased })
}

/// The leases of these messages.
pub(crate) fn leased(app: &AppState, handed: &[HandedOver]) -> Leased {
    let leases = handed.iter().filter_map(|handed| Some((handed.message.id.clone(), handed.lease.clone()?)));
    Leased::new(app.outbox.clone(), leases.collect())
}

/// A message as this wire can say it: buttons become words.
pub(crate) fn said(message: &OutboxMessage, host: &str) -> Said {
    match Question::of(message, host) {
        None => Said { text: message.text.clone(), is_question: false },
        Some(Question { token, url, .. }) => {
            let answers = format!("reply exactly `{token}:approve` or `{token}:deny`, or open {url}");
            Said { text: format!("{}\n\nTo answer, {answers}", message.text), is_question: true }
        }
    }
}

/// What a mode kept from leaving, so that an empty answer explains itself.
async fn held_back(
    question: &OpenQuestion,
    messages: &[&OutboxMessage],
) -> Result<Option<String>, OpenAiRefusal> {
    if messages.iter().any(|message| message.event.as_ref() == Some(&question.event)) {
        return Ok(None);
    }
    let trace = question.app.store.trace(question.event.clone()).await?;
    let is_held =
        |reply: &OutboxMessage| reply.status == OutboxStatus::Suppressed && reply.topic == question.topic;
    let is_held = trace.is_some_and(|trace| trace.replies.iter().any(is_held));
    Ok(is_held.then(|| "the answer is recorded and not sent: its channel is not live".to_owned()))
}

/// A question to a person, in a prompt that still carries its token.
struct Question {
    id: ApprovalId,
    token: String,
    url: String,
}

impl Question {
    fn of(message: &OutboxMessage, host: &str) -> Option<Self> {
        let Prompt { id, token } = Prompt::of(message.payload_json.as_deref())?;
        let url = format!("http://{host}/approve/{token}");
        Some(Self { id, token, url })
    }
}
