//! Facts as readers of the database see them: the tables of seed 001, hot and cold, with vectors that sqlite-vec reads.

use cortex_store::{Eviction, FactToKeep, Keep, StoredVector};
use cortex_testkit::TempStore;
use cortex_types::{FactId, FactScope, FactSource, FactSourceKind, Millis, NewFact};
use rusqlite::Connection;
use ulid::Ulid;

const DIMS: u32 = 4;

pub(crate) fn told(number: u128, text: &str) -> FactToKeep {
    let fact = NewFact {
        id: FactId::from_ulid(Ulid::from_parts(1, number)),
        text: text.to_owned(),
        category: None,
        scope: FactScope::Global,
        source: FactSource { kind: FactSourceKind::Person, reference: "ada".to_owned() },
        metadata_json: None,
        idempotency_key: None,
        unreviewed_in: None,
    };
    let bytes: Vec<u8> = [0.5_f32; DIMS as usize].into_iter().flat_map(f32::to_le_bytes).collect();
    let vector = StoredVector { model: "test".to_owned(), dims: DIMS, bytes };
    FactToKeep { fact, keep: Keep::Once, near_duplicate: None, vector: Some(vector) }
}

fn rows(store: &TempStore, sql: &str) -> Vec<(i64, String)> {
    let connection = Connection::open(store.path()).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn a_fact_is_in_the_hot_or_in_the_cold_tables_and_never_in_both() {
    let store = TempStore::create();
    let old = store.facts().keep(told(1, "the old fact"), Millis(10)).await.unwrap();
    let new = store.facts().keep(told(2, "the new fact"), Millis(1_000)).await.unwrap();
    let which = Eviction { unaccessed_since: Millis(500), hits_below: 3 };
    assert_eq!(store.facts().evict(which, 100, Millis(2_000)).await, Ok(1));
    let hot = "SELECT id, fact_text FROM cortex_hot_memory";
    let cold = "SELECT rowid, fact_text FROM cortex_cold_memory";
    let vectors = "SELECT rowid, (length(embedding) / 4) || ' dims' FROM cortex_cold_memory_vec";
    assert_eq!(rows(&store, hot), [(new.seq, "the new fact".to_owned())]);
    assert_eq!(rows(&store, cold), [(old.seq, "the old fact".to_owned())]);
    assert_eq!(rows(&store, vectors), [], "no model is in use yet");
    store.memory_index().use_model("another".to_owned(), Millis(2_000)).await.unwrap();
    assert_eq!(rows(&store, vectors), [], "nor is the one that made them");
    store.memory_index().use_model("test".to_owned(), Millis(2_001)).await.unwrap();
    assert_eq!(rows(&store, vectors), [(old.seq, "4 dims".to_owned())]);
    store.facts().touch(vec![old.seq], Millis(3_000)).await.unwrap();
    assert_eq!(rows(&store, hot).len(), 2);
    assert_eq!((rows(&store, cold), rows(&store, vectors)), (Vec::new(), Vec::new()));
}
