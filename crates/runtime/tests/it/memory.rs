//! Memory over its desk: kept once with every source, found hot and cold, strong again when it was of use.

use cortex_runtime::{MemoryDesk, MemoryError, NewMemory, Recall, Recalled, RecalledItem};
use cortex_store::{FactFilter, Keep, KeptAs, PageRequest, PromptScopes};
use cortex_testkit::{FrozenTime, RuntimeSetup, TestRuntime, topic};
use cortex_types::{Accounts, Fact, FactScope, FactSource, FactSourceKind, FactTier, InboxStatus};
use serde_json::json;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn start(time: &FrozenTime) -> TestRuntime {
    RuntimeSetup::scripted(json!({ "otherwise": { "say": "I see." } }), time).start().await
}

fn told(text: &str, by: &str) -> NewMemory {
    NewMemory {
        text: text.to_owned(),
        category: Some("fact".to_owned()),
        scope: FactScope::Global,
        source: FactSource { kind: FactSourceKind::Person, reference: by.to_owned() },
        metadata_json: None,
        idempotency_key: None,
        unreviewed_in: None,
        keep: Keep::Once,
    }
}

fn keyed(text: &str, key: &str) -> NewMemory {
    NewMemory { idempotency_key: Some(key.to_owned()), ..told(text, "ada") }
}

fn everywhere() -> PromptScopes {
    PromptScopes { places: vec![FactScope::Global], people: Accounts::Everyone, topic: String::new() }
}

async fn all(memory: &MemoryDesk) -> Vec<Fact> {
    memory.list(FactFilter::default(), PageRequest::newest(500)).await.unwrap().rows
}

fn facts(hits: &[Recalled]) -> Vec<(&Fact, f64)> {
    hits.iter()
        .filter_map(|hit| match &hit.item {
            RecalledItem::Fact { fact, strength } => Some((&**fact, *strength)),
            RecalledItem::Turn(_) => None,
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn what_says_the_same_is_one_fact_with_both_sources() {
    let time = FrozenTime::hold();
    let flow = start(&time).await;
    let memory = flow.runtime.memory();
    let first = memory.remember(told("Ada lives in Berlin with her two cats", "ada")).await.unwrap();
    assert_eq!(first.outcome, KeptAs::Created);
    let again = memory.remember(told("In Berlin Ada lives with her two cats.", "bob")).await.unwrap();
    assert_eq!((again.outcome, &again.id), (KeptAs::Merged, &first.id));
    for other in ["Ada lives in Berlin with her three cats", "Ada never lives in Berlin with her two cats"] {
        assert_eq!(memory.remember(told(other, "ada")).await.unwrap().outcome, KeptAs::Created, "{other}");
    }
    let elsewhere = NewMemory {
        scope: FactScope::Topic("test:a".to_owned()),
        ..told("Ada lives in Berlin with her two cats", "ada")
    };
    assert_eq!(memory.remember(elsewhere).await.unwrap().outcome, KeptAs::Created);
    let kept = memory.find(first.id).await.unwrap().unwrap();
    let said: Vec<(&str, &str)> =
        kept.origins.iter().map(|said| (said.source.reference.as_str(), said.text.as_str())).collect();
    assert_eq!(
        said,
        [("ada", "Ada lives in Berlin with her two cats"), ("bob", "In Berlin Ada lives with her two cats.")]
    );
    assert_eq!(all(&memory).await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn two_that_say_the_same_at_once_are_one_fact() {
    let time = FrozenTime::hold();
    let flow = start(&time).await;
    let memory = flow.runtime.memory();
    let both = futures::join!(
        memory.remember(told("The rent is due on the third of the month", "ada")),
        memory.remember(told("The rent is due on the third of the month", "bob")),
    );
    assert_eq!(both.0.unwrap().id, both.1.unwrap().id);
    assert_eq!(all(&memory).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_replayed_and_an_upsert_replaces_what_it_said() {
    let time = FrozenTime::hold();
    let flow = start(&time).await;
    let memory = flow.runtime.memory();
    let first = memory.remember(keyed("The office is in Ghent", "office")).await.unwrap();
    memory.recall(Recall::of("office", 3)).await.unwrap();
    let replay = memory.remember(keyed("The office is in Bruges", "office")).await.unwrap();
    assert_eq!((replay.outcome, &replay.id), (KeptAs::Replayed, &first.id));
    assert_eq!(memory.find(first.id.clone()).await.unwrap().unwrap().text, "The office is in Ghent");
    let upsert = NewMemory { keep: Keep::Upsert, ..keyed("The office is in Bruges", "office") };
    let updated = memory.remember(upsert.clone()).await.unwrap();
    assert_eq!((updated.outcome, &updated.id), (KeptAs::Updated, &first.id));
    let now = memory.find(first.id.clone()).await.unwrap().unwrap();
    assert_eq!((now.text.as_str(), now.hit_count), ("The office is in Bruges", 1));
    let found = memory.recall(Recall::of("Bruges", 3)).await.unwrap();
    assert_eq!(facts(&found)[0].0.id, first.id);
    let in_scope = NewMemory { scope: FactScope::User("bob".to_owned()), ..upsert };
    assert_ne!(memory.remember(in_scope).await.unwrap().id, first.id, "a key holds in its scope");
    // A key that was merged away still leads to the fact.
    let merged = memory.remember(keyed("The office is in Bruges.", "bureau")).await.unwrap();
    assert_eq!((merged.outcome, &merged.id), (KeptAs::Merged, &first.id));
    let replay = memory.remember(keyed("Something else", "bureau")).await.unwrap();
    assert_eq!((replay.outcome, &replay.id), (KeptAs::Replayed, &first.id));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_remembered_is_refused() {
    let time = FrozenTime::hold();
    let flow = start(&time).await;
    let memory = flow.runtime.memory();
    let refused = |new: NewMemory| {
        let memory = memory.clone();
        async move { memory.remember(new).await.unwrap_err().to_string() }
    };
    assert_eq!(refused(told(" \n", "ada")).await, "content is required");
    let without_key = NewMemory { keep: Keep::Upsert, ..told("a fact", "ada") };
    assert_eq!(refused(without_key).await, "upsert requires idempotency_key");
    assert!(matches!(memory.remember(told(&"x".repeat(40_000), "ada")).await, Err(MemoryError::TooLong)));
}

#[tokio::test(start_paused = true)]
async fn a_recalled_fact_shows_its_faded_strength_and_is_strong_again() {
    let time = FrozenTime::hold();
    let flow = start(&time).await;
    let memory = flow.runtime.memory();
    memory.remember(told("Ada's sister is called Grace", "ada")).await.unwrap();
    time.advance(DAY * 20).await;
    let faded = 0.95_f64.powi(20);
    let weak = Recall { min_strength: 0.5, ..Recall::of("sister", 3) };
    assert_eq!(memory.recall(weak).await.unwrap(), Vec::new());
    let hits = memory.recall(Recall::of("What is the name of the sister of Ada?", 3)).await.unwrap();
    let (fact, strength) = facts(&hits)[0];
    assert!((strength - faded).abs() < 1e-9, "{strength} {faded}");
    assert_eq!(fact.hit_count, 0);
    let hits = memory.recall(Recall::of("sister", 3)).await.unwrap();
    let (fact, strength) = facts(&hits)[0];
    assert_eq!((fact.hit_count, strength), (1, 1.0));
}

#[tokio::test(start_paused = true)]
async fn facts_go_cold_and_a_recall_brings_them_back_without_a_copy() {
    let time = FrozenTime::hold();
    let flow = start(&time).await;
    let memory = flow.runtime.memory();
    let cold = memory.remember(told("The spare key is under the blue pot", "ada")).await.unwrap().id;
    let pinned = memory.remember(told("Ada is allergic to peanuts", "ada")).await.unwrap().id;
    let used = memory.remember(told("The train to work leaves at 7:42", "ada")).await.unwrap().id;
    memory.pin(pinned.clone()).await.unwrap();
    for _ in 0..3 {
        memory.recall(Recall::of("train to work", 1)).await.unwrap();
    }
    time.advance(DAY * 14).await;
    assert_eq!(memory.evict(time.now()).await.unwrap(), 0, "exactly 14 days is not more");
    time.advance(Duration::from_millis(1)).await;
    assert_eq!(memory.evict(time.now()).await.unwrap(), 1);
    let tier = |fact: Option<Fact>| fact.unwrap().tier;
    assert_eq!(tier(memory.find(cold.clone()).await.unwrap()), FactTier::Cold);
    assert_eq!(tier(memory.find(pinned.clone()).await.unwrap()), FactTier::Hot);
    assert_eq!(tier(memory.find(used).await.unwrap()), FactTier::Hot);
    let hot = flow.store.facts().hot(everywhere(), 50).await.unwrap();
    assert_eq!(hot.iter().map(|fact| &fact.id).collect::<Vec<_>>()[0], &pinned, "pinned ones come first");
    assert_eq!(hot.len(), 2);
    let hits = memory.recall(Recall::of("Where is the spare key?", 1)).await.unwrap();
    assert_eq!(facts(&hits)[0].0.id, cold);
    assert_eq!(tier(memory.find(cold).await.unwrap()), FactTier::Hot);
    assert_eq!(
        (memory.count(FactTier::Hot).await.unwrap(), memory.count(FactTier::Cold).await.unwrap()),
        (3, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_fact_is_gone_from_every_place_that_is_searched() {
    let time = FrozenTime::hold();
    let flow = start(&time).await;
    let memory = flow.runtime.memory();
    let id = memory.remember(keyed("The safe opens with 1815", "safe")).await.unwrap().id;
    assert!(memory.forget(id.clone()).await.unwrap());
    assert!(!memory.forget(id.clone()).await.unwrap());
    for query in ["safe", "1815", "How is the safe opened?", ""] {
        assert_eq!(memory.recall(Recall::of(query, 5)).await.unwrap(), Vec::new(), "{query:?}");
    }
    let again = memory.remember(keyed("The safe opens with 1815", "safe")).await.unwrap();
    assert_eq!(again.outcome, KeptAs::Created);
    assert_ne!(again.id, id);
}

#[tokio::test(start_paused = true)]
async fn a_scope_sees_its_own_facts_and_a_category_those_of_it() {
    let time = FrozenTime::hold();
    let flow = start(&time).await;
    let memory = flow.runtime.memory();
    let scope = |name: &str| FactScope::Topic(name.to_owned());
    for (text, scope, category) in [
        ("the garden party is on Sunday", FactScope::Global, "fact"),
        ("the garden party needs a tent", scope("one"), "decision"),
        ("the garden party has no music", scope("two"), "fact"),
    ] {
        let new = NewMemory { scope, category: Some(category.to_owned()), ..told(text, "ada") };
        memory.remember(new).await.unwrap();
    }
    let texts = |hits: Vec<Recalled>| {
        let mut texts: Vec<String> = facts(&hits).iter().map(|(fact, _)| fact.text.clone()).collect();
        texts.sort();
        texts
    };
    let one = Recall { scopes: Some(vec![FactScope::Global, scope("one")]), ..Recall::of("garden party", 9) };
    assert_eq!(
        texts(memory.recall(one.clone()).await.unwrap()),
        ["the garden party is on Sunday", "the garden party needs a tent"]
    );
    let decided = Recall { category: Some("decision".to_owned()), ..one };
    assert_eq!(texts(memory.recall(decided).await.unwrap()), ["the garden party needs a tent"]);
    assert_eq!(memory.recall(Recall::of("garden party", 9)).await.unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_blank_question_gets_the_strongest_first() {
    let time = FrozenTime::hold();
    let flow = start(&time).await;
    let memory = flow.runtime.memory();
    memory.remember(told("the oldest fact", "ada")).await.unwrap();
    time.advance(DAY * 10).await;
    memory.remember(told("a newer thing entirely", "ada")).await.unwrap();
    time.advance(DAY * 10).await;
    let hits = memory.recall(Recall::of("  ", 5)).await.unwrap();
    let texts: Vec<&str> = facts(&hits).iter().map(|(fact, _)| fact.text.as_str()).collect();
    assert_eq!(texts, ["a newer thing entirely", "the oldest fact"]);
    assert!(hits[0].score > hits[1].score);
}

#[tokio::test(start_paused = true)]
async fn what_was_just_said_is_found() {
    let time = FrozenTime::hold();
    let flow = start(&time).await;
    let memory = flow.runtime.memory();
    let id = flow.say("a", "My bicycle was stolen in front of the library").await;
    flow.reaches(&id, InboxStatus::Done).await;
    let hits = memory.recall(Recall::of("Where was the bike stolen?", 3)).await.unwrap();
    let RecalledItem::Turn(turn) = &hits[0].item else { panic!("a turn was expected: {hits:?}") };
    assert_eq!((turn.event.clone(), turn.speaker()), (id, "ada"));
    assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score));
    let others = Recall { people: Some(vec!["bob".to_owned()]), ..Recall::of("bicycle", 3) };
    assert_eq!(memory.recall(others).await.unwrap(), Vec::new());
    let only_facts = Recall { include_turns: false, ..Recall::of("bicycle", 3) };
    assert_eq!(memory.recall(only_facts).await.unwrap(), Vec::new());
}

#[tokio::test(start_paused = true)]
async fn an_export_comes_back_whole_and_a_second_import_changes_nothing() {
    let time = FrozenTime::hold();
    let (here, there) = (start(&time).await, start(&time).await);
    let (memory, other) = (here.runtime.memory(), there.runtime.memory());
    let new = NewMemory {
        metadata_json: Some(r#"{"a":[1]}"#.to_owned()),
        ..keyed("The cat is called Curie", "cat")
    };
    let id = memory.remember(new).await.unwrap().id;
    memory.remember(told("The cat is called Curie!", "bob")).await.unwrap();
    let scope = FactScope::User("ada".to_owned());
    memory.remember(NewMemory { scope, ..told("Ada prefers tea", "ada") }).await.unwrap();
    memory.pin(id.clone()).await.unwrap();
    let lines = memory.export(None).await.unwrap().join("\n");
    let first = other.import(&lines, "backup").await.unwrap();
    assert_eq!((first.created, first.merged, first.known), (2, 0, 0));
    let before = other.export(None).await.unwrap();
    let second = other.import(&lines, "backup").await.unwrap();
    assert_eq!((second.created, second.merged, second.known), (0, 0, 2));
    assert_eq!(other.export(None).await.unwrap(), before);
    let cat = other.find(id.clone()).await.unwrap().unwrap();
    let original = memory.find(id).await.unwrap().unwrap();
    assert!(cat.pinned);
    assert_eq!(
        (&cat.metadata_json, &cat.idempotency_keys),
        (&original.metadata_json, &original.idempotency_keys)
    );
    let (imported, said) = cat.origins.split_last().unwrap();
    assert_eq!(said, original.origins);
    assert_eq!(imported.source.kind, FactSourceKind::Import);
}

#[tokio::test(start_paused = true)]
async fn a_line_of_another_service_is_taken_once_and_a_bad_one_changes_nothing() {
    let time = FrozenTime::hold();
    let flow = start(&time).await;
    let memory = flow.runtime.memory();
    let foreign = r#"{"id":"4f1c","content":"The dog is called Ampère","category":null,"strength":0.5,"access_count":3,"created_at":"2026-01-02T03:04:05","scope_id":"chat"}"#;
    assert_eq!(memory.import(foreign, "engram").await.unwrap().created, 1);
    assert_eq!(memory.import(foreign, "engram").await.unwrap().known, 1);
    let fact = all(&memory).await.remove(0);
    assert_eq!((fact.hit_count, fact.strength, fact.scope), (2, 0.5, FactScope::Topic("chat".to_owned())));
    assert_eq!(fact.created_at.to_rfc3339(), "2026-01-02T03:04:05.000Z");
    let bad = "{\"content\":\"a good line\"}\n\n{\"content\":\"\"}";
    assert_eq!(memory.import(bad, "file").await.unwrap_err().to_string(), "line 3: content is required");
    assert_eq!(all(&memory).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_fact_leaves_the_summaries_that_told_it() {
    let time = FrozenTime::hold();
    let flow = start(&time).await;
    for text in ["The garden gate squeaks", "The safe opens with 1815", "It rains", "It still rains"] {
        let id = flow.say("a", text).await;
        flow.reaches(&id, InboxStatus::Done).await;
    }
    let place = topic("test", "a");
    flow.runtime.context().compact(place.clone(), None, &CancellationToken::new()).await.unwrap();
    let id = flow.runtime.memory().remember(told("The safe opens with 1815", "ada")).await.unwrap().id;
    let summary = || async {
        let sections = flow.runtime.context().show(place.clone()).await.unwrap().sections;
        sections.into_iter().find(|section| section.name.as_str() == "summary").unwrap().text
    };
    assert!(summary().await.contains("1815"), "{}", summary().await);
    flow.runtime.memory().forget(id).await.unwrap();
    let after = summary().await;
    assert!(!after.contains("1815") && after.contains("gate squeaks"), "{after}");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_joined_a_fact_of_others_gets_one_of_its_own_when_it_says_something_else() {
    let time = FrozenTime::hold();
    let flow = RuntimeSetup::scripted(json!({}), &time).start().await;
    let memory = flow.runtime.memory();
    let first = memory.remember(keyed("The office is in Ghent", "a")).await.unwrap();
    let joined = memory.remember(keyed("The office is in Ghent.", "b")).await.unwrap();
    assert_eq!((joined.outcome, &joined.id), (KeptAs::Merged, &first.id));
    let other = NewMemory { keep: Keep::Upsert, ..keyed("Lunch is at noon", "b") };
    let own = memory.remember(other).await.unwrap();
    assert_eq!(own.outcome, KeptAs::Created);
    let text = |fact: Option<Fact>| fact.unwrap().text;
    assert_eq!(text(memory.find(first.id).await.unwrap()), "The office is in Ghent", "what a said stays");
    assert_eq!(text(memory.find(own.id.clone()).await.unwrap()), "Lunch is at noon");
    let again = NewMemory { keep: Keep::Upsert, ..keyed("Lunch is at one", "b") };
    assert_eq!(memory.remember(again).await.unwrap().id, own.id, "from now on it is its own");
}

#[tokio::test(start_paused = true)]
async fn what_was_forgotten_is_not_learned_again_and_a_persons_change_stays() {
    let time = FrozenTime::hold();
    let flow = RuntimeSetup::scripted(json!({}), &time).start().await;
    let memory = flow.runtime.memory();
    let learned = |text: &str, key: &str| NewMemory { keep: Keep::Learned, ..keyed(text, key) };
    let gone = memory.remember(learned("The user likes tea", "1")).await.unwrap().id;
    let changed = memory.remember(learned("The user lives in Bonn", "2")).await.unwrap().id;
    assert!(memory.forget(gone).await.unwrap());
    memory.edit(changed.clone(), Some("The user lives in Ghent".to_owned()), None, "ada").await.unwrap();
    let again = memory.remember(learned("the user likes tea.", "3")).await.unwrap();
    assert_eq!(again.outcome, KeptAs::Forgotten);
    let again = memory.remember(learned("The user lives in Bonn", "2")).await.unwrap();
    assert_eq!(again.outcome, KeptAs::Replayed);
    assert_eq!(memory.find(changed).await.unwrap().unwrap().text, "The user lives in Ghent");
    assert_eq!(memory.count(FactTier::Hot).await.unwrap(), 1);
    memory.remember(told("The user likes tea", "ada")).await.unwrap();
    assert_eq!(
        memory.remember(learned("The user likes tea", "3")).await.unwrap().outcome,
        KeptAs::Merged,
        "a person said it again"
    );
}

#[tokio::test(start_paused = true)]
async fn many_facts_do_not_hide_what_was_said() {
    let time = FrozenTime::hold();
    let flow = RuntimeSetup::scripted(json!({ "otherwise": { "say": "I see." } }), &time).start().await;
    let memory = flow.runtime.memory();
    for place in ["Ghent", "Bruges", "Ypres", "Liege", "Namur", "Mons", "Aalst", "Genk", "Hasselt", "Tournai"]
    {
        memory.remember(told(&format!("The harbour museum of {place} shows ships"), "ada")).await.unwrap();
    }
    let said = "The harbour museum of Ostend shows lamps and closes on Tuesdays";
    let id = flow.say("a", said).await;
    flow.reaches(&id, InboxStatus::Done).await;
    let hits = memory.recall(Recall::of("When does the harbour museum of Ostend close?", 10)).await.unwrap();
    let is_there =
        hits.iter().any(|hit| matches!(&hit.item, RecalledItem::Turn(turn) if turn.content == said));
    assert!(is_there, "{hits:#?}");
}
