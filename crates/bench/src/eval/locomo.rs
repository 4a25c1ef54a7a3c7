//! Retrieval on conversations of the LoCoMo format: which of the turns that hold an answer recall brings back.
//!
//! Every turn goes into a store of its own conversation the way a message does, and every question through the
//! recall that `memory.query` uses. No model and no judge: the data names the turns that hold the answer.

use crate::BenchError;
use cortex_bus::Bus;
use cortex_runtime::{MemoryDesk, Recall, RecallBy, RecalledItem, Runtime, RuntimeConfig};
use cortex_store::{FinishedTurn, Store, StoreConfig, TurnEnd, TurnTokens, UntrustedLines};
use cortex_tools::Registry;
use cortex_types::{EventId, Millis, NewEvent, Priority, SILENCE_MARK, Standing, SystemClock};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use ulid::Ulid;

const DEPTHS: [usize; 3] = [5, 10, 20];
/// Questions without an answer in the conversation.
const UNANSWERABLE: u32 = 5;
const HOUR_MS: i64 = 60 * 60 * 1_000;

/// What one way to rank reached, over all questions.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RetrievalScore {
    pub ranked_by: &'static str,
    pub questions: usize,
    /// The share of the turns with the answer among the first 5, 10 and 20.
    pub recall_at: [f64; 3],
    /// The mean of 1 / place of the first of them.
    pub mean_reciprocal_rank: f64,
}

#[derive(Deserialize)]
struct Conversation {
    qa: Vec<Question>,
    #[serde(flatten)]
    sessions: BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct Question {
    question: String,
    #[serde(default)]
    evidence: Vec<String>,
    category: u32,
}

#[derive(Deserialize)]
struct Said {
    speaker: String,
    dia_id: String,
    text: String,
    /// What a shared picture shows.
    #[serde(default)]
    blip_caption: Option<String>,
}

/// Asks every question of every conversation in `data`, ranked by words, by meaning and by both.
pub fn eval_locomo(data: &Path, folder: &Path) -> Result<Vec<RetrievalScore>, BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let ways = [("lexical", RecallBy::Words), ("vector", RecallBy::Meaning), ("hybrid", RecallBy::Both)];
    let mut sums = ways.map(|(ranked_by, _)| RetrievalScore {
        ranked_by,
        questions: 0,
        recall_at: [0.0; 3],
        mean_reciprocal_rank: 0.0,
    });
    let mut files: Vec<_> = std::fs::read_dir(data)?.collect::<Result<Vec<_>, _>>()?;
    files.sort_by_key(std::fs::DirEntry::path);
    for file in files.iter().filter(|file| file.path().extension().is_some_and(|end| end == "json")) {
        let broken =
            |error: serde_json::Error| BenchError::Broken(format!("{}: {error}", file.path().display()));
        let conversation: Conversation =
            serde_json::from_slice(&std::fs::read(file.path())?).map_err(broken)?;
        let home = tempfile::Builder::new().prefix("cortex-eval-").tempdir_in(folder)?;
        let (store, thread) = Store::open(StoreConfig::at(home.path().join("cortex.db")))?;
        let asked = runtime.block_on(async {
            let (memory, places) = tell(&conversation, &store, home.path()).await?;
            for ((_, by), sum) in ways.iter().zip(&mut sums) {
                ask(&conversation, &memory, &places, *by, sum).await?;
            }
            Ok::<_, BenchError>(())
        });
        drop(store);
        thread.close();
        asked?;
    }
    for sum in &mut sums {
        let questions = sum.questions.max(1) as f64;
        sum.recall_at = sum.recall_at.map(|total| total / questions);
        sum.mean_reciprocal_rank /= questions;
    }
    Ok(sums.into())
}

/// Puts what was said into the store, in order; the answer says which event is which turn.
async fn tell(
    conversation: &Conversation,
    store: &Store,
    home: &Path,
) -> Result<(MemoryDesk, HashMap<EventId, String>), BenchError> {
    let clock = Arc::new(SystemClock::start());
    let config = RuntimeConfig::for_workspace(home.join("workspace"));
    let flow = Runtime::new(config, store.clone(), Bus::default(), clock, Registry::builder());
    let flow = flow.map_err(|error| BenchError::Broken(error.to_string()))?;
    let mut places = HashMap::new();
    for (number, (session, said)) in said_in_order(conversation)?.into_iter().enumerate() {
        let at = Millis(session * HOUR_MS + i64::try_from(number).unwrap_or(0) * 1_000);
        let id = EventId::from_ulid(Ulid::from_parts(number as u64, 0));
        store.inbox().accept(event(&id, &said, at), at).await?;
        let claimed = store.inbox().claim_next(1, at).await?.whole.pop();
        let claimed = claimed.ok_or_else(|| BenchError::Broken("a message cannot be claimed".to_owned()))?;
        let silent = FinishedTurn {
            last_step: None,
            content: SILENCE_MARK.to_owned(),
            replies: Vec::new(),
            acknowledged: Vec::new(),
            attachments: None,
            tokens: TurnTokens::default(),
            summary: String::new(),
            untrusted: UntrustedLines::default(),
        };
        store
            .turns()
            .finish_turn(&claimed.event, TurnEnd::Answered(Box::new(silent)), Vec::new(), at)
            .await?;
        places.insert(id, said.dia_id);
    }
    Ok((flow.memory(), places))
}

fn event(id: &EventId, said: &Said, at: Millis) -> NewEvent {
    NewEvent {
        id: id.clone(),
        source: "eval".to_owned(),
        external_message_id: said.dia_id.clone(),
        idempotency_key: said.dia_id.clone(),
        topic_key: "conversation".to_owned(),
        user_id: said.speaker.clone(),
        text: match &said.blip_caption {
            Some(caption) => format!("{} [{caption}]", said.text),
            None => said.text.clone(),
        },
        occurred_at: at,
        metadata_json: None,
        priority: Priority::Normal,
        channel: None,
        relationship: None,
        standing: Standing::Owner,
        answer: None,
    }
}

/// `session_1`, `session_2`, … with the number of each.
fn said_in_order(conversation: &Conversation) -> Result<Vec<(i64, Said)>, BenchError> {
    let number = |name: &str| name.strip_prefix("session_").and_then(|number| number.parse::<i64>().ok());
    let mut sessions: Vec<_> =
        conversation.sessions.iter().filter_map(|(name, lines)| Some((number(name)?, lines))).collect();
    sessions.sort_by_key(|(number, _)| *number);
    let mut all = Vec::new();
    for (number, lines) in sessions {
        let lines: Vec<Said> = serde_json::from_value(lines.clone())
            .map_err(|error| BenchError::Broken(format!("session_{number}: {error}")))?;
        all.extend(lines.into_iter().map(|said| (number, said)));
    }
    Ok(all)
}

async fn ask(
    conversation: &Conversation,
    memory: &MemoryDesk,
    places: &HashMap<EventId, String>,
    by: RecallBy,
    sum: &mut RetrievalScore,
) -> Result<(), BenchError> {
    let known: BTreeSet<&str> = places.values().map(String::as_str).collect();
    for question in conversation.qa.iter().filter(|question| question.category != UNANSWERABLE) {
        // Some entries name several turns in one text.
        let named = question.evidence.iter().flat_map(|entry| entry.split([';', ',', ' ']));
        let evidence: BTreeSet<&str> = named.filter(|turn| known.contains(turn)).collect();
        if evidence.is_empty() {
            continue;
        }
        let asked = Recall { by, ..Recall::of(&question.question, DEPTHS[2]) };
        let hits = memory.recall(asked).await.map_err(|error| BenchError::Broken(error.to_string()))?;
        let found: Vec<bool> = hits
            .iter()
            .map(|hit| match &hit.item {
                RecalledItem::Turn(turn) => {
                    places.get(&turn.event).is_some_and(|turn| evidence.contains(turn.as_str()))
                }
                RecalledItem::Fact { .. } => false,
            })
            .collect();
        sum.questions += 1;
        for (depth, total) in DEPTHS.iter().zip(&mut sum.recall_at) {
            let right = found.iter().take(*depth).filter(|is_evidence| **is_evidence).count();
            *total += right as f64 / evidence.len() as f64;
        }
        if let Some(place) = found.iter().position(|is_evidence| *is_evidence) {
            sum.mean_reciprocal_rank += 1.0 / (place as f64 + 1.0);
        }
    }
    Ok(())
}
