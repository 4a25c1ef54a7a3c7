//! Another embedding model: vectors are made anew batch by batch, a stop or a silent server loses and doubles nothing.

use crate::embedding_side::EmbeddingSide;
use crate::images::take_images;
use cortex_models::{Embedder, EmbeddingSettings};
use cortex_runtime::{EmbeddingProgress, NewMemory, Recall, RecallBy, Reembedding};
use cortex_store::{Keep, KeptAs, VectorCounts};
use cortex_testkit::{FrozenTime, RuntimeSetup, TempStore, TestRuntime, offline_models};
use cortex_types::{FactScope, FactSource, FactSourceKind, InboxStatus, Millis};
use fail::FailScenario;
use rusqlite::Connection;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio_util::sync::CancellationToken;

const FACTS: u64 = 300;

async fn start(time: &FrozenTime, store: TempStore, embedder: Embedder) -> TestRuntime {
    RuntimeSetup::scripted(json!({ "otherwise": { "say": "Noted." } }), time)
        .flow(move |flow| flow.embedder = embedder.clone())
        .start_on(store)
        .await
}

fn remote(side: &EmbeddingSide, time: &FrozenTime) -> Embedder {
    let settings = EmbeddingSettings {
        base_url: side.url.clone(),
        api_key: None,
        model: "letters".to_owned(),
        dims: None,
    };
    Embedder::remote(settings, offline_models().client, time.clock()).unwrap()
}

fn told(text: String) -> NewMemory {
    NewMemory {
        text,
        category: None,
        scope: FactScope::Global,
        source: FactSource { kind: FactSourceKind::Person, reference: "ada".to_owned() },
        metadata_json: None,
        idempotency_key: None,
        unreviewed_in: None,
        keep: Keep::Once,
    }
}

/// A home with facts and a turn, all embedded by the table in the binary.
async fn filled(time: &FrozenTime) -> TempStore {
    let flow = start(time, TempStore::create(), Embedder::built_in()).await;
    let memory = flow.runtime.memory();
    for number in 0..FACTS {
        memory.remember(told(format!("Fact number {number} is of some use"))).await.unwrap();
    }
    let id = flow.say("a", "The lighthouse is open on Sundays").await;
    flow.reaches(&id, InboxStatus::Done).await;
    memory.catch_up().await.unwrap();
    flow.stop().await
}

#[tokio::test(start_paused = true)]
async fn every_vector_is_made_anew_by_the_new_model() {
    let time = FrozenTime::hold();
    let side = EmbeddingSide::listen().await;
    let flow = start(&time, filled(&time).await, remote(&side, &time)).await;
    let memory = flow.runtime.memory();
    let status = memory.vector_status().await.unwrap();
    assert_eq!(
        (status.model.as_str(), status.facts),
        ("letters", VectorCounts { texts: FACTS, embedded: 0 })
    );
    let ended = memory.reembed(&CancellationToken::new()).await.unwrap();
    assert_eq!(ended, Reembedding::Done(FACTS + 2));
    let status = memory.vector_status().await.unwrap();
    assert_eq!(status.facts, VectorCounts { texts: FACTS, embedded: FACTS });
    assert_eq!(status.turns, VectorCounts { texts: 2, embedded: 2 });
    let by_letters = Recall { by: RecallBy::Meaning, ..Recall::of("fact number 7 is of some use", 400) };
    assert_eq!(
        memory.recall(by_letters).await.unwrap().len(),
        100 + 2,
        "what was embedded anew is in the scan"
    );
}

/// How many vectors of each size readers of the cold table see.
fn cold_dims(store: &TempStore) -> Vec<(u32, u64)> {
    let connection = Connection::open(store.path()).unwrap();
    let sql = "SELECT length(embedding) / 4 AS dims, count(*) FROM cortex_cold_memory_vec GROUP BY dims";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[tokio::test(start_paused = true)]
async fn readers_of_the_cold_table_see_vectors_of_the_model_in_use_alone() {
    let time = FrozenTime::hold();
    let side = EmbeddingSide::listen().await;
    let store = filled(&time).await;
    let long_after = Millis(time.now().0 + 30 * 24 * 60 * 60 * 1_000);
    let flow = start(&time, store, Embedder::built_in()).await;
    assert_eq!(flow.runtime.memory().evict(long_after).await.unwrap() as u64, FACTS);
    assert_eq!(cold_dims(&flow.store), [(256, FACTS)]);
    let flow = start(&time, flow.stop().await, remote(&side, &time)).await;
    assert_eq!(cold_dims(&flow.store), [], "what the table made is not compared with the new model's");
    side.answers(1);
    let memory = flow.runtime.memory();
    assert_eq!(memory.reembed(&CancellationToken::new()).await.unwrap(), Reembedding::Interrupted(128));
    let [(dims, 128)] = cold_dims(&flow.store)[..] else { panic!("{:?}", cold_dims(&flow.store)) };
    assert_ne!(dims, 256);
    let status = memory.status().await.unwrap();
    assert_eq!((status.cold, status.dims, status.progress.is_running), (FACTS, Some(dims), false));
    assert!(status.progress.last_error.unwrap().contains("no vector from the embedding model"));
    side.answers(usize::MAX);
    memory.reembed(&CancellationToken::new()).await.unwrap();
    assert_eq!(cold_dims(&flow.store), [(dims, FACTS)]);
    assert_eq!(memory.status().await.unwrap().progress, EmbeddingProgress::default());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_under_way_says_so() {
    let time = FrozenTime::hold();
    let side = EmbeddingSide::listen().await;
    let flow = start(&time, filled(&time).await, remote(&side, &time)).await;
    let memory = flow.runtime.memory();
    let scenario = FailScenario::setup();
    let seen = Arc::new(AtomicBool::new(false));
    let (watched, noted) = (memory.clone(), Arc::clone(&seen));
    fail::cfg_callback("memory_index.vectors.before_commit", move || {
        noted.fetch_or(watched.progress().is_running, std::sync::atomic::Ordering::SeqCst);
    })
    .unwrap();
    memory.reembed(&CancellationToken::new()).await.unwrap();
    scenario.teardown();
    assert!(seen.load(std::sync::atomic::Ordering::SeqCst));
    assert!(!memory.progress().is_running);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_goes_away_halfway_costs_nothing_twice() {
    let time = FrozenTime::hold();
    let side = EmbeddingSide::listen().await;
    let flow = start(&time, filled(&time).await, remote(&side, &time)).await;
    side.answers(1);
    let ended = flow.runtime.memory().reembed(&CancellationToken::new()).await.unwrap();
    assert_eq!(ended, Reembedding::Interrupted(128));
    let store = flow.crash();
    side.answers(usize::MAX);
    let flow = start(&time, store, remote(&side, &time)).await;
    let memory = flow.runtime.memory();
    assert_eq!(memory.vector_status().await.unwrap().facts, VectorCounts { texts: FACTS, embedded: 128 });
    let ended = memory.reembed(&CancellationToken::new()).await.unwrap();
    assert_eq!(ended, Reembedding::Done(FACTS + 2 - 128));
    assert_eq!(side.texts() as u64, FACTS + 2, "no text was embedded twice");
}

#[tokio::test(start_paused = true)]
async fn a_kill_between_two_batches_loses_and_doubles_no_vector() {
    let time = FrozenTime::hold();
    let side = EmbeddingSide::listen().await;
    let flow = start(&time, filled(&time).await, remote(&side, &time)).await;
    let scenario = FailScenario::setup();
    let points = ["memory_index.vectors.before_commit", "store.after_commit"];
    let images = take_images(flow.store.path(), &points, &Arc::new(AtomicBool::new(true)));
    flow.runtime.memory().reembed(&CancellationToken::new()).await.unwrap();
    drop(flow.stop().await);
    scenario.teardown();
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.keys().filter(|(point, _)| *point == points[0]).count() >= 3, "a kill in every batch");
    for ((point, _), image) in images {
        let flow = start(&time, TempStore::open_in(image.files).unwrap(), remote(&side, &time)).await;
        let memory = flow.runtime.memory();
        let before = memory.vector_status().await.unwrap();
        assert_eq!(
            before.facts.embedded % 128,
            if before.facts.embedded == FACTS { FACTS % 128 } else { 0 },
            "{point}"
        );
        let ended = memory.reembed(&CancellationToken::new()).await.unwrap();
        let left = FACTS + 2 - before.facts.embedded - before.turns.embedded;
        assert_eq!(ended, Reembedding::Done(left), "{point}: what was made stays made");
        let after = memory.vector_status().await.unwrap();
        assert_eq!((after.facts.embedded, after.turns.embedded), (FACTS, 2), "{point}");
        flow.store.check_integrity().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_embedding_server_memory_works_by_words_and_the_vector_comes_later() {
    let time = FrozenTime::hold();
    let side = EmbeddingSide::listen().await;
    side.answers(0);
    let flow = start(&time, TempStore::create(), remote(&side, &time)).await;
    let memory = flow.runtime.memory();
    memory.remember(told("The lighthouse is painted red".to_owned())).await.unwrap();
    assert_eq!(memory.recall(Recall::of("lighthouse", 3)).await.unwrap().len(), 1);
    assert_eq!(memory.vector_status().await.unwrap().facts, VectorCounts { texts: 1, embedded: 0 });
    side.answers(usize::MAX);
    assert_eq!(memory.reembed(&CancellationToken::new()).await.unwrap(), Reembedding::Done(1));
    let by_letters = Recall { by: RecallBy::Meaning, ..Recall::of("painted", 3) };
    assert_eq!(memory.recall(by_letters).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_same_words_are_one_fact_while_no_vector_can_be_made() {
    let time = FrozenTime::hold();
    let side = EmbeddingSide::listen().await;
    side.answers(0);
    let flow = start(&time, filled(&time).await, remote(&side, &time)).await;
    let memory = flow.runtime.memory();
    let again = memory.remember(told("Fact number 7 is of some use".to_owned())).await.unwrap();
    assert_eq!(again.outcome, KeptAs::Merged);
    assert_eq!(memory.vector_status().await.unwrap().facts.texts, FACTS);
}

#[tokio::test(start_paused = true)]
async fn a_text_that_the_model_refuses_holds_up_no_other() {
    let time = FrozenTime::hold();
    let side = EmbeddingSide::listen().await;
    side.refuses("number 7 ");
    let flow = start(&time, filled(&time).await, remote(&side, &time)).await;
    let memory = flow.runtime.memory();
    let ended = memory.reembed(&CancellationToken::new()).await.unwrap();
    assert_eq!(ended, Reembedding::Done(FACTS + 2 - 1));
    assert_eq!(
        memory.vector_status().await.unwrap().facts,
        VectorCounts { texts: FACTS, embedded: FACTS - 1 }
    );
}
