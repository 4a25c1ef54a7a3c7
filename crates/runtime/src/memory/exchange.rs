//! Export and import: one line of JSON a fact, with its sources, so that a second import changes nothing.

use super::{MemoryDesk, MemoryError, checked_text, to_the_end};
use crate::mint;
use cortex_brain::access_count;
use cortex_store::{FactFilter, KeptAs, PageRequest, VectorsOf};
use cortex_types::limits::LIST_ROWS_MAX;
use cortex_types::{
    Fact, FactId, FactOrigin, FactScope, FactSource, FactSourceKind, FactTier, JsonText, Millis,
};
use jiff::Timestamp;
use jiff::civil::DateTime;
use serde::{Deserialize, Serialize};

/// What an import did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Imported {
    pub created: u64,
    /// Further sources of facts that said the same.
    pub merged: u64,
    /// Were here already.
    pub known: u64,
    /// Were pinned where they come from; here as many as fit are pinned already.
    pub unpinned: u64,
}

/// A fact as it travels. Only the content must be there: other memory services write less.
#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(alias = "text")]
    content: String,
    #[serde(default)]
    category: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<FactScope>,
    /// The name that another service gives a scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope_id: Option<String>,
    #[serde(default)]
    pinned: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tier: Option<FactTier>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    strength: Option<f64>,
    #[serde(default)]
    access_count: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_at: Option<Moment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    updated_at: Option<Moment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_accessed_at: Option<Moment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    archived_at: Option<Moment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<JsonText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    idempotency_keys: Vec<String>,
    /// The topic of a fact that no person has looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unreviewed_in: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sources: Vec<LineSource>,
}

#[derive(Serialize, Deserialize)]
struct LineSource {
    #[serde(flatten)]
    source: FactSource,
    text: String,
    at: Moment,
}

/// A moment in RFC 3339; one without a zone, as some services write it, is in UTC.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Moment(Millis);

impl TryFrom<String> for Moment {
    type Error = jiff::Error;

    fn try_from(text: String) -> Result<Self, jiff::Error> {
        let zoned = text.parse::<Timestamp>();
        let moment = zoned.or_else(|_| text.parse::<DateTime>()?.in_tz("UTC").map(|at| at.timestamp()))?;
        Ok(Self(Millis(moment.as_millisecond())))
    }
}

impl From<Moment> for String {
    fn from(moment: Moment) -> String {
        moment.0.to_rfc3339()
    }
}

impl MemoryDesk {
    /// Every fact of these scopes, a line each, newest first. `None` is every scope.
    pub async fn export(&self, scopes: Option<Vec<FactScope>>) -> Result<Vec<String>, MemoryError> {
        let filter = FactFilter { scopes, ..FactFilter::default() };
        let mut lines = Vec::new();
        let mut page = PageRequest::newest(LIST_ROWS_MAX);
        loop {
            let found = self.list(filter.clone(), page).await?;
            lines.extend(found.rows.iter().filter_map(|fact| serde_json::to_string(&line(fact)).ok()));
            match found.next_before {
                Some(before) => page.before = Some(before),
                None => return Ok(lines),
            }
        }
    }

    /// Takes the lines of an export, `from` being a name for where they come from. All lines are read before the
    /// first fact is kept, so that a bad one changes nothing.
    pub async fn import(&self, lines: &str, from: &str) -> Result<Imported, MemoryError> {
        let now = self.0.clock.now();
        let filled = lines.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let facts: Vec<Fact> = filled
            .map(|(number, text)| {
                let bad = |reason: String| MemoryError::BadLine { line: number + 1, reason };
                let line: Line = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
                fact(line, from, now).map_err(|error| bad(error.to_string()))
            })
            .collect::<Result<_, _>>()?;
        let mut imported = Imported::default();
        for fact in facts {
            let (id, is_pinned) = (fact.id.clone(), fact.pinned);
            match self.restore(fact).await? {
                KeptAs::Created => {
                    imported.created += 1;
                    let lost_its_pin = is_pinned && self.find(id).await?.is_some_and(|fact| !fact.pinned);
                    imported.unpinned += u64::from(lost_its_pin);
                }
                KeptAs::Merged => imported.merged += 1,
                KeptAs::Updated | KeptAs::Replayed | KeptAs::Forgotten => imported.known += 1,
            }
        }
        Ok(imported)
    }

    async fn restore(&self, fact: Fact) -> Result<KeptAs, MemoryError> {
        let desk = self.clone();
        to_the_end(async move {
            let _turn = desk.0.changes.lock().await;
            let vector = desk.vector_of(&fact.text).await;
            let near_duplicate = desk.near_duplicate(&fact.text, &fact.scope, vector.as_ref()).await?;
            let scope = fact.scope.clone();
            let stored = vector.as_ref().map(|vector| desk.stored(VectorsOf::Facts, vector));
            let kept = desk.0.store.facts().restore(fact, near_duplicate, stored).await?;
            if kept.outcome == KeptAs::Created {
                desk.put(kept.seq, &scope, vector.as_ref()).await;
            }
            Ok(kept.outcome)
        })
        .await
    }
}

fn line(fact: &Fact) -> Line {
    let sources = fact.origins.iter().map(|origin| LineSource {
        source: origin.source.clone(),
        text: origin.text.clone(),
        at: Moment(origin.at),
    });
    Line {
        id: Some(fact.id.as_str().to_owned()),
        content: fact.text.clone(),
        category: fact.category.clone(),
        scope: Some(fact.scope.clone()),
        scope_id: None,
        pinned: fact.pinned,
        tier: Some(fact.tier),
        strength: Some(fact.strength),
        access_count: access_count(fact.hit_count),
        created_at: Some(Moment(fact.created_at)),
        updated_at: Some(Moment(fact.updated_at)),
        last_accessed_at: Some(Moment(fact.last_accessed_at)),
        archived_at: fact.archived_at.map(Moment),
        metadata: fact.metadata_json.as_deref().and_then(|json| serde_json::from_str(json).ok()),
        idempotency_key: None,
        idempotency_keys: fact.idempotency_keys.clone(),
        unreviewed_in: fact.unreviewed_in.clone(),
        sources: sources.collect(),
    }
}

fn fact(line: Line, from: &str, now: Millis) -> Result<Fact, MemoryError> {
    let text = checked_text(&line.content)?;
    let own_id: Option<FactId> = line.id.as_deref().and_then(|id| id.parse().ok());
    let mut idempotency_keys = line.idempotency_keys;
    idempotency_keys.extend(line.idempotency_key);
    if let (None, Some(foreign)) = (&own_id, &line.id) {
        // An id of another service cannot be ours; as a key it still makes the second import change nothing.
        idempotency_keys.push(format!("import:{foreign}"));
    }
    let created_at = line.created_at.map_or(now, |at| at.0);
    let origins = line.sources.into_iter().map(|said| FactOrigin {
        source: said.source,
        text: said.text,
        at: said.at.0,
    });
    let imported = FactSource { kind: FactSourceKind::Import, reference: from.to_owned() };
    let imported = FactOrigin { source: imported, text: text.clone(), at: now };
    Ok(Fact {
        seq: 0,
        id: own_id.unwrap_or_else(|| FactId::from_ulid(mint::ulid_at(now))),
        text,
        category: line.category,
        scope: line.scope.or(line.scope_id.map(FactScope::Topic)).unwrap_or(FactScope::Global),
        tier: line.tier.unwrap_or(FactTier::Hot),
        pinned: line.pinned,
        strength: line.strength.unwrap_or(1.0).clamp(0.0, 1.0),
        hit_count: line.access_count.saturating_sub(1),
        created_at,
        updated_at: line.updated_at.map_or(created_at, |at| at.0),
        last_accessed_at: line.last_accessed_at.map_or(created_at, |at| at.0),
        archived_at: line.archived_at.map(|at| at.0),
        metadata_json: line.metadata.map(|json| json.as_str().to_owned()),
        idempotency_keys,
        unreviewed_in: line.unreviewed_in,
        origins: origins.chain([imported]).collect(),
    })
}
