//! One store and the model of its memory, driven together; the first difference ends the sequence.

use super::model::{DAY_MS, EVICT_DAYS, EVICT_HITS, Model, ModelFact, Told, outcome};
use super::{Change, Operation, Seeded};
use cortex_store::{
    Eviction, FactEdit, FactFilter, FactToKeep, IndexedTurn, Keep, PageRequest, PinOutcome, StoreError,
    StoredVector, VectorsOf,
};
use cortex_testkit::{TempStore, answered, new_event, topic};
use cortex_types::{FactId, FactOrigin, FactScope, FactSource, FactSourceKind, FactTier, Millis, NewFact};
use rusqlite::Connection;
use std::fmt::Debug;
use ulid::Ulid;

/// `Err` names what differs.
type Checked<T = ()> = Result<T, String>;

const MODELS: [&str; 2] = ["static", "remote"];

pub(super) struct World {
    store: TempStore,
    model: Model,
    now: Millis,
    /// Every text has a word of its own, so that each can be asked for.
    next_word: u64,
    seeded: Seeded,
}

impl World {
    pub(super) fn create(seeded: Seeded) -> Self {
        let (store, now) = (TempStore::create(), Millis(1_000_000_000_000));
        Self { store, model: Model::default(), now, next_word: 0, seeded }
    }

    pub(super) async fn run(&mut self, operations: &[Operation]) -> Checked {
        for operation in operations {
            let step = self.step(operation).await;
            step.map_err(|difference| format!("{difference}, after {operation:?}"))?;
        }
        Ok(())
    }

    async fn step(&mut self, operation: &Operation) -> Checked {
        match operation {
            Operation::Do(change) => {
                let change = self.planned(change);
                self.apply(&change).await?;
            }
            Operation::AdvanceDays(days) => self.now = Millis(self.now.0 + days * DAY_MS + 1),
            Operation::Crash => self.store.crash(),
            Operation::CrashDuring(change) => self.crash_during(change).await?,
            Operation::Restart => self.store.restart(),
        }
        self.check().await
    }

    /// What is done is there as a whole or not at all.
    async fn crash_during(&mut self, change: &Change) -> Checked {
        let change = self.planned(change);
        if let Planned::Say(_) = change {
            // Three transactions of the inbox, whose machine kills each of them.
            self.apply(&change).await?;
            self.store.crash();
            return Ok(());
        }
        let before = self.model.clone();
        let image = {
            let doing = perform(&self.store, &change, self.now);
            let (_, image) = tokio::join!(doing, async { self.store.crash_image() });
            image
        };
        self.store = TempStore::open_in(image).map_err(|error| error.to_string())?;
        let mut after = before.clone();
        imagine(&change, &mut after, self.now);
        self.model = after;
        if self.check().await.is_err() {
            self.model = before;
        }
        Ok(())
    }

    async fn apply(&mut self, change: &Planned) -> Checked {
        let expected = imagine(change, &mut self.model, self.now);
        if let (Seeded::CursorAlone, Planned::IndexTurns(_)) = (self.seeded, change) {
            self.spoil("INSERT OR REPLACE INTO memory_cursors SELECT 'turns_indexed', max(id), 0 FROM turns HAVING max(id) > 0");
            return Ok(());
        }
        let seen = perform(&self.store, change, self.now).await.map_err(|error| error.to_string())?;
        if self.seeded == Seeded::SourceForgotten {
            self.spoil("DELETE FROM fact_sources WHERE number > 0");
        }
        same("answer", &seen, &expected)
    }

    fn spoil(&self, sql: &str) {
        Connection::open(self.store.path()).unwrap().execute_batch(sql).unwrap();
    }

    /// The change with its texts and ids.
    fn planned(&mut self, change: &Change) -> Planned {
        self.next_word += 1;
        let text = format!("fact word{} says something", self.next_word);
        let fact = |place: usize| {
            let facts = &self.model.facts;
            (!facts.is_empty()).then(|| facts[place % facts.len()].id.clone())
        };
        match change {
            Change::Remember { key, upsert, like } => Planned::Remember {
                id: FactId::from_ulid(Ulid::from_parts(
                    self.now.0.cast_unsigned(),
                    u128::from(self.next_word),
                )),
                text,
                key: key.map(|key| format!("key {key}")),
                upsert: *upsert && key.is_some(),
                like: like.and_then(fact),
            },
            Change::Edit(place) => Planned::Edit(fact(*place), text),
            Change::Pin(place) => Planned::Pin(fact(*place)),
            Change::Unpin(place) => Planned::Unpin(fact(*place)),
            Change::Forget(place) => Planned::Forget(fact(*place)),
            Change::Touch(place) => Planned::Touch(fact(*place)),
            Change::Evict => Planned::Evict,
            Change::Say => Planned::Say(text),
            Change::IndexTurns(limit) => Planned::IndexTurns(*limit),
            Change::Reembed { turns, model, limit } => Planned::Reembed {
                of: if *turns { VectorsOf::Turns } else { VectorsOf::Facts },
                model: MODELS[usize::from(*model)],
                limit: *limit,
            },
        }
    }

    async fn check(&self) -> Checked {
        let told = |error: StoreError| error.to_string();
        let page = PageRequest::newest(500);
        let rows = self.store.facts().list(FactFilter::default(), page).await.map_err(told)?.rows;
        let mut found: Vec<ModelFact> = rows.iter().map(as_model).collect();
        found.reverse();
        same("facts", &found, &self.model.facts)?;
        for word in 1..=self.next_word {
            let query = format!("\"word{word}\"");
            let names = |text: &str| text.split(' ').any(|part| part == format!("word{word}"));
            let hits = self
                .store
                .facts()
                .search_text(query.clone(), FactFilter::default(), 9)
                .await
                .map_err(told)?;
            let expected: Vec<i64> =
                rows.iter().filter(|fact| names(&fact.text)).map(|fact| fact.seq).collect();
            same("full text of facts", &hits, &expected)?;
            let hits = self.store.memory_index().search_turns(query, None, 9).await.map_err(told)?;
            let indexed = self.model.turns.iter().take(self.model.indexed);
            let expected = indexed.filter(|text| names(text)).count();
            same("full text of turns", &hits.len(), &expected)?;
        }
        for model in MODELS {
            let index = self.store.memory_index();
            let vectors = index.fact_vectors(model.to_owned(), 0, 500).await.map_err(told)?;
            let seqs: Vec<i64> = vectors.iter().map(|vector| vector.seq).collect();
            let has_vector = |id: &FactId| self.model.fact_vectors.get(id).is_some_and(|of| of == model);
            let mut expected: Vec<i64> =
                rows.iter().filter(|fact| has_vector(&fact.id)).map(|fact| fact.seq).collect();
            expected.sort_unstable();
            same("vectors of facts", &seqs, &expected)?;
            let turns = index.turn_vectors(model.to_owned(), 0, 500).await.map_err(told)?.len();
            let expected = self.model.turn_vectors.values().filter(|of| *of == model).count();
            same("vectors of turns", &turns, &expected)?;
        }
        Ok(())
    }
}

/// A change that means the same to the store and to the model.
#[derive(Debug, Clone)]
enum Planned {
    Remember { id: FactId, text: String, key: Option<String>, upsert: bool, like: Option<FactId> },
    Edit(Option<FactId>, String),
    Pin(Option<FactId>),
    Unpin(Option<FactId>),
    Forget(Option<FactId>),
    Touch(Option<FactId>),
    Evict,
    Say(String),
    IndexTurns(u32),
    Reembed { of: VectorsOf, model: &'static str, limit: u32 },
}

fn vector(model: &str) -> StoredVector {
    StoredVector { model: model.to_owned(), dims: 1, bytes: vec![0, 0, 0, 0, 1] }
}

fn person() -> FactSource {
    FactSource { kind: FactSourceKind::Person, reference: "ada".to_owned() }
}

/// Does it to the store; the answer is what the caller was told.
async fn perform(store: &TempStore, change: &Planned, now: Millis) -> Result<String, StoreError> {
    let facts = store.facts();
    Ok(match change {
        Planned::Remember { id, text, key, upsert, like } => {
            let fact = NewFact {
                id: id.clone(),
                text: text.clone(),
                category: None,
                scope: FactScope::Global,
                source: person(),
                metadata_json: None,
                idempotency_key: key.clone(),
                unreviewed_in: None,
            };
            let keep = if *upsert { Keep::Upsert } else { Keep::Once };
            let new =
                FactToKeep { fact, keep, near_duplicate: like.clone(), vector: Some(vector(MODELS[0])) };
            format!("{:?}", outcome(facts.keep(new, now).await?))
        }
        Planned::Edit(Some(id), text) => {
            let origin = FactOrigin { source: person(), text: text.clone(), at: now };
            let (text, vector) = (Some(text.clone()), Some(vector(MODELS[0])));
            let edit = FactEdit { text, vector, category: None, origin: Some(origin) };
            facts.edit(id.clone(), edit, now).await?.is_some().to_string()
        }
        Planned::Pin(Some(id)) => (facts.pin(id.clone(), now).await? == PinOutcome::Pinned).to_string(),
        Planned::Unpin(Some(id)) => facts.unpin(id.clone(), now).await?.to_string(),
        Planned::Forget(Some(id)) => facts.forget(id.clone(), now, |_, _| None).await?.is_some().to_string(),
        Planned::Touch(Some(id)) => {
            let seq = facts.find(id.clone()).await?.map(|fact| fact.seq);
            facts.touch(seq.into_iter().collect(), now).await?;
            String::new()
        }
        Planned::Evict => {
            let which =
                Eviction { unaccessed_since: Millis(now.0 - EVICT_DAYS * DAY_MS), hits_below: EVICT_HITS };
            facts.evict(which, 500, now).await?.to_string()
        }
        Planned::Say(text) => {
            store.inbox().accept(new_event(&topic("test", "a"), text), now).await?;
            let claimed = store.inbox().claim_next(1, now).await?.whole.remove(0);
            store
                .turns()
                .finish_turn(&claimed.event, answered("[silence]", Vec::new()), Vec::new(), now)
                .await?;
            String::new()
        }
        Planned::IndexTurns(limit) => {
            let turns = store.memory_index().turns_to_index(*limit).await?;
            let texts: Vec<String> = turns.iter().map(|turn| turn.content.clone()).collect();
            let batch = turns.into_iter().map(|turn| IndexedTurn { turn, vector: Some(vector(MODELS[0])) });
            store.memory_index().index_turns(batch.collect(), now).await?;
            texts.join("|")
        }
        Planned::Reembed { of, model, limit } => {
            let texts = store.memory_index().to_embed(*of, (*model).to_owned(), 0, *limit).await?;
            let batch = texts.into_iter().map(|text| (text, vector(model))).collect();
            store.memory_index().put_vectors(*of, batch).await?.len().to_string()
        }
        Planned::Edit(None, _)
        | Planned::Pin(None)
        | Planned::Unpin(None)
        | Planned::Forget(None)
        | Planned::Touch(None) => String::new(),
    })
}

/// Does it to the model; the answer is what the caller should be told.
fn imagine(change: &Planned, model: &mut Model, now: Millis) -> String {
    let find = |model: &mut Model, id: &FactId| model.facts.iter().position(|fact| fact.id == *id);
    match change {
        Planned::Remember { id, text, key, upsert, like } => {
            let told = Told {
                id,
                text,
                key: key.as_deref(),
                upsert: *upsert,
                like: like.as_ref(),
                vector_model: MODELS[0],
            };
            format!("{:?}", model.remember(&told, now))
        }
        Planned::Edit(Some(id), text) => {
            let place = find(model, id);
            if let Some(place) = place {
                let fact = &mut model.facts[place];
                fact.text.clone_from(text);
                fact.said.push(text.clone());
                model.fact_vectors.insert(id.clone(), MODELS[0].to_owned());
            }
            place.is_some().to_string()
        }
        Planned::Pin(Some(id)) | Planned::Unpin(Some(id)) => {
            let place = find(model, id);
            if let Some(place) = place {
                let fact = &mut model.facts[place];
                fact.pinned = matches!(change, Planned::Pin(_));
                fact.tier = if fact.pinned { FactTier::Hot } else { fact.tier };
            }
            place.is_some().to_string()
        }
        Planned::Forget(Some(id)) => {
            let place = find(model, id);
            if let Some(place) = place {
                model.facts.remove(place);
                model.fact_vectors.remove(id);
            }
            place.is_some().to_string()
        }
        Planned::Touch(Some(id)) => {
            if let Some(place) = find(model, id) {
                let fact = &mut model.facts[place];
                (fact.hits, fact.tier, fact.accessed) = (fact.hits + 1, FactTier::Hot, now);
            }
            String::new()
        }
        Planned::Evict => model.evict(now).to_string(),
        Planned::Say(text) => {
            model.turns.push(text.clone());
            String::new()
        }
        Planned::IndexTurns(limit) => model.index(*limit as usize, MODELS[0]),
        Planned::Reembed { of: VectorsOf::Facts, model: wanted, limit } => {
            model.reembed_facts(wanted, *limit as usize).to_string()
        }
        Planned::Reembed { of: VectorsOf::Turns, model: wanted, limit } => {
            model.reembed_turns(wanted, *limit as usize).to_string()
        }
        Planned::Edit(None, _)
        | Planned::Pin(None)
        | Planned::Unpin(None)
        | Planned::Forget(None)
        | Planned::Touch(None) => String::new(),
    }
}

fn as_model(fact: &cortex_types::Fact) -> ModelFact {
    ModelFact {
        id: fact.id.clone(),
        text: fact.text.clone(),
        keys: fact.idempotency_keys.clone(),
        said: fact.origins.iter().map(|origin| origin.text.clone()).collect(),
        tier: fact.tier,
        pinned: fact.pinned,
        hits: fact.hit_count,
        accessed: fact.last_accessed_at,
    }
}

fn same<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Checked {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?}, not {expected:?}")) }
}
