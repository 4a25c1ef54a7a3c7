//! The prompt of an event, put together from the store; and the owner's look at it, with compaction and its undoing.

use crate::memory::{facts_to_read, known_facts};
use crate::runtime::Parts;
use crate::turn::offered;
use cortex_brain::{
    BackgroundLine, CompactLine, ContextInput, ContextLimits, HistoryLine, SaidBy, Section, TurnContext,
    UntrustedParts, count_tokens, foldable, heard, holds_others, show_ops, summary_request,
    summary_without_model,
};
use cortex_models::{Delta, DeltaSink, ModelError, Models};
use cortex_store::{HistoryRow, NewSummary, OpsInPrompt, SessionQuery, StoreError, TurnSummary};
use cortex_types::limits::BACKGROUND_LINES_MAX;
use cortex_types::{
    Accounts, Audience, Event, EventId, InboxStatus, Millis, ModelCall, OpId, Priority, Relationship, Sight,
    Standing, ToolSpec, TopicRef, is_machine_channel,
};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

/// A channel that was silent for longer is left out while memory is on; the brain draws the exact line.
const BACKGROUND_MS: i64 = 25 * 60 * 60 * 1_000;
/// Most lines that one compaction folds.
const FOLDED_MAX: u32 = 400;
/// Newest exchanges that a compaction leaves as they are.
const KEPT_GROUPS: usize = 2;

/// A prompt, and the ops whose end stands in it.
pub(crate) struct EventContext {
    pub(crate) context: TurnContext,
    pub(crate) ended_ops: Vec<OpId>,
}

/// What the model sees of this event.
pub(crate) async fn of_event(
    parts: &Parts,
    event: &Event,
    tools: &[ToolSpec],
) -> Result<EventContext, StoreError> {
    let config = &parts.config;
    let now = parts.clock.now();
    let sight = event.sight();
    let accounts = parts.channels.borrow().accounts_of(&event.user_id);
    let people = sight.people(accounts.clone());
    // A group is a user's line and what answered it, which may be more than one line.
    let lines = config.active_window_size.saturating_mul(2).saturating_add(EXTRA_LINES);
    let query = SessionQuery {
        topic: event.topic.clone(),
        // A turn that goes on sees its own words last, not in the history.
        but_event: event.seq,
        lines,
        accounts: people.clone(),
        background_since: if config.memory_enabled { Millis(now.0 - BACKGROUND_MS) } else { Millis(0) },
        background_lines: if sight == Sight::Everything { BACKGROUND_LINES_MAX } else { 0 },
        facts: facts_to_read(parts, event, &people),
        ops: match (sight, accounts) {
            (Sight::Place, _) => OpsInPrompt::OfTopic,
            (Sight::Everything, Accounts::Everyone) => OpsInPrompt::Everybodys,
            (Sight::Nothing, Accounts::Everyone) => OpsInPrompt::OfUsers(vec![event.user_id.clone()]),
            (Sight::Everything | Sight::Nothing, Accounts::Only(users)) => OpsInPrompt::OfUsers(users),
        },
    };
    let session = parts.store.session(query).await?;
    let floor = parts.floor.read().await;
    let ops = show_ops(&session.ops);
    let limits = ContextLimits {
        window: parts.window.get().copied().unwrap_or(UNKNOWN_WINDOW),
        groups: config.active_window_size,
        memory: config.memory_enabled,
    };
    let context = TurnContext::assemble(ContextInput {
        floor: if is_stranger(parts, event) { floor.for_strangers() } else { floor },
        facts: known_facts(parts, event, &people, session.facts).await,
        ops: ops.lines,
        untrusted: UntrustedParts {
            ops: !ops.ended.is_empty(),
            summary: session.summary.as_ref().is_some_and(|summary| summary.untrusted),
        },
        summary: session.summary.map(|summary| summary.content),
        history: whole_groups(session.history, lines),
        background: session.background.into_iter().map(background).collect(),
        event: event.clone(),
        now: parts.clock.wall(),
        limits,
        tool_tokens: tools.iter().map(tool_tokens).sum(),
    });
    Ok(EventContext { context, ended_ops: ops.ended })
}

/// Whether the files about the owner are none of this person's business: no source vouches for them, others read along,
/// or the settings name people and they are not among them.
fn is_stranger(parts: &Parts, event: &Event) -> bool {
    let is_unknown = || parts.channels.borrow().relationship_of(&event.user_id) == Relationship::Unknown;
    event.sight() != Sight::Everything || (!is_machine_channel(&event.channel) && is_unknown())
}

/// Lines beyond two for each group, so that an exchange with more of them is not cut.
const EXTRA_LINES: u32 = 10;
/// While no model is chosen.
const UNKNOWN_WINDOW: u32 = 32_768;

/// The lines without the end of a group whose beginning was not read.
fn whole_groups(rows: Vec<HistoryRow>, limit: u32) -> Vec<HistoryLine> {
    let is_cut = rows.len() >= limit as usize;
    let lines = rows.into_iter().map(line);
    lines.skip_while(|line| is_cut && line.speaker == SaidBy::Assistant).collect()
}

fn line(row: HistoryRow) -> HistoryLine {
    let speaker = if row.role == "user" { SaidBy::User } else { SaidBy::Assistant };
    let untrusted = holds_others(row.untrusted, row.attachments.as_deref());
    let content = heard(row.attachments.as_deref(), row.content);
    HistoryLine { speaker, content, tokens: row.tokens, untrusted }
}

fn background(line: cortex_store::ChannelLine) -> BackgroundLine {
    let cortex_store::ChannelLine { channel, summary, last_message_at } = line;
    BackgroundLine { channel, summary, last_message_at }
}

fn tool_tokens(tool: &ToolSpec) -> u32 {
    count_tokens(&tool.description) + count_tokens(&tool.input_schema_json)
}

/// The owner's desk for prompts.
#[derive(Clone)]
pub struct ContextDesk(pub(crate) Arc<Parts>);

/// A prompt as the model would see it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownContext {
    pub topic: TopicRef,
    pub sections: Vec<Section>,
    /// Tokens the model takes, its answer included.
    pub window: u32,
    pub tool_tokens: u32,
}

/// Why a topic was not shown or changed.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    #[error("there is no topic {0}; `cortex inbox list` shows the topics there are")]
    NoTopic(String),
    #[error("several sources have a topic {topic}: {}; say which with --source", sources.join(", "))]
    Ambiguous { topic: String, sources: Vec<String> },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a compaction did.
#[derive(Debug, Clone, PartialEq)]
pub struct Compacted {
    pub outcome: Compaction,
    /// What asking a model cost.
    pub calls: Vec<ModelCall>,
}

/// What became of a topic that was to be compacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compaction {
    /// There was too little to fold.
    Unchanged,
    /// The model was not let finish; everything is as it was.
    Interrupted,
    /// A new summary stands for so many lines.
    Summarised { covered: usize, summary: String, by: SummaryBy, untrusted: bool },
}

/// Who wrote a summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SummaryBy {
    Model,
    Rules,
    /// The rules, because the model failed.
    RulesInstead {
        reason: String,
    },
}

impl ContextDesk {
    /// The topic of this key; `source` is needed only when several have one.
    pub async fn topic(&self, key: &str, source: Option<&str>) -> Result<TopicRef, ContextError> {
        let mut found = self.0.store.topics_with_key(key.to_owned()).await?;
        found.retain(|topic| source.is_none_or(|source| topic.source == source));
        match found.len() {
            0 => Err(ContextError::NoTopic(key.to_owned())),
            1 => Ok(found.remove(0)),
            _ => Err(ContextError::Ambiguous {
                topic: key.to_owned(),
                sources: found.into_iter().map(|topic| topic.source).collect(),
            }),
        }
    }

    /// What the model would see if something were said in this topic now.
    pub async fn show(&self, topic: TopicRef) -> Result<ShownContext, StoreError> {
        let parts = &self.0;
        let user_id = parts.store.last_user(topic.clone()).await?.unwrap_or_default();
        let audience = parts.store.audience_of(topic.clone()).await?;
        let next = next_event(topic.clone(), audience, user_id, parts.clock.now());
        let tools = offered(parts, next.sight());
        let EventContext { context, .. } = of_event(parts, &next, &tools).await?;
        Ok(ShownContext {
            topic,
            sections: context.sections().to_vec(),
            window: parts.window.get().copied().unwrap_or(UNKNOWN_WINDOW),
            tool_tokens: tools.iter().map(tool_tokens).sum(),
        })
    }

    /// Takes the newest summary of a topic back; its turns are seen again as they were.
    pub async fn undo(&self, topic: TopicRef) -> Result<Option<TurnSummary>, StoreError> {
        self.0.store.summaries().undo(topic, self.0.clock.now()).await
    }

    /// Lets a summary stand for all but the newest exchanges of a topic. The turns stay. The model writes it when there
    /// is one and it answers; otherwise it is made of the first words of each line. Cancelled, it changes nothing.
    pub async fn compact(
        &self,
        topic: TopicRef,
        model: Option<&Models>,
        cancel: &CancellationToken,
    ) -> Result<Compacted, StoreError> {
        let summaries = self.0.store.summaries();
        let uncovered = summaries.uncovered(topic.clone(), FOLDED_MAX).await?;
        let others =
            uncovered.lines.iter().filter(|row| holds_others(row.untrusted, row.attachments.as_deref()));
        let untrusted_turns: Vec<i64> = others.map(|row| row.id).collect();
        let lines: Vec<CompactLine> = uncovered
            .lines
            .into_iter()
            .map(|row| CompactLine {
                turn: row.id,
                is_user: row.role == "user",
                content: heard(row.attachments.as_deref(), row.content),
            })
            .collect();
        let folded = foldable(&lines, KEPT_GROUPS);
        let (Some(first), Some(last)) = (folded.first(), folded.last()) else {
            return Ok(Compacted { outcome: Compaction::Unchanged, calls: Vec::new() });
        };
        let before = uncovered.summary.as_ref();
        let words = before.map(|summary| summary.content.as_str());
        let untrusted = before.is_some_and(|summary| summary.untrusted)
            || folded.iter().any(|line| untrusted_turns.contains(&line.turn));
        let (written, calls) = match model {
            Some(models) => written_by(models, words, folded, cancel).await,
            None => (Some((summary_without_model(words, folded), SummaryBy::Rules)), Vec::new()),
        };
        let Some((content, by)) = written else {
            return Ok(Compacted { outcome: Compaction::Interrupted, calls });
        };
        let new = NewSummary {
            first_turn: before.map_or(first.turn, |summary| summary.first_turn),
            last_turn: last.turn,
            tokens: count_tokens(&content),
            content: content.clone(),
            untrusted,
        };
        let outcome = match summaries.add(topic, new, self.0.clock.now()).await? {
            true => Compaction::Summarised { covered: folded.len(), summary: content, by, untrusted },
            false => Compaction::Unchanged,
        };
        Ok(Compacted { outcome, calls })
    }
}

/// `None` when the model was cancelled: that says nothing about it, and the next run asks again.
async fn written_by(
    models: &Models,
    before: Option<&str>,
    lines: &[CompactLine],
    cancel: &CancellationToken,
) -> (Option<(String, SummaryBy)>, Vec<ModelCall>) {
    let answered = models.answer(&summary_request(before, lines), &Unheard, cancel).await;
    let failure = match answered.outcome {
        Ok(reply) if !reply.text.trim().is_empty() => {
            return (Some((reply.text.trim().to_owned(), SummaryBy::Model)), answered.calls);
        }
        Ok(_) => "it said nothing".to_owned(),
        Err(ModelError::Cancelled) => return (None, answered.calls),
        Err(ModelError::Transient { message, .. } | ModelError::Permanent { message }) => message,
    };
    let by = SummaryBy::RulesInstead { reason: failure };
    (Some((summary_without_model(before, lines), by)), answered.calls)
}

/// Nobody watches a summary grow.
struct Unheard;

impl DeltaSink for Unheard {
    fn push(&self, _delta: Delta) {}
}

/// An event that has not come: what would be answered if it did.
fn next_event(topic: TopicRef, audience: Audience, user_id: String, now: Millis) -> Event {
    let standing = Standing::of_source(&topic.source);
    Event {
        seq: 0,
        id: EventId::from_ulid(Ulid::nil()),
        channel: topic.source.clone(),
        topic,
        external_message_id: String::new(),
        idempotency_key: String::new(),
        user_id,
        text: String::new(),
        occurred_at: now,
        metadata_json: None,
        priority: Priority::Normal,
        status: InboxStatus::Pending,
        attempts: 0,
        error: None,
        created_at: now,
        updated_at: now,
        standing,
        audience,
        answer: None,
    }
}
