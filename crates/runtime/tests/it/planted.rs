//! Facts planted in a long conversation that is compacted again and again: what is pinned is never missing, the rest is found.

use cortex_runtime::{Compaction, NewMemory, Recall, RecalledItem};
use cortex_store::Keep;
use cortex_testkit::{FrozenTime, RuntimeSetup, TestRuntime, topic};
use cortex_types::{FactScope, FactSource, FactSourceKind, InboxStatus};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Each leaves two turns.
const EXCHANGES: usize = 1_000;
const FACTS: usize = 200;
const PINNED: usize = 20;
const COMPACTIONS: usize = 20;

const PEOPLE: &str = "Agnes Boris Celia Dmitri Elena Fergus Gudrun Hassan Imogen Jasper Kirsten Lorenzo Marta Nikolai \
    Oriana Pedro Rashid Sabine Tobias Ursula";

/// What is told of each person, what is asked, and the answers in turn.
const KINDS: [(&str, &str, &str); 10] = [
    (
        "{p}'s favourite colour is {v}.",
        "Which colour does {p} like best?",
        "turquoise crimson ochre lavender",
    ),
    ("{p} works as a {v} these days.", "What is the job of {p}?", "plumber lawyer nurse beekeeper"),
    ("Did I tell you that {p} moved to {v}?", "Where does {p} live?", "Bergen Porto Graz Leeds"),
    (
        "{p} is allergic to {v}, so be careful.",
        "What must {p} not eat because of an allergy?",
        "peanuts shellfish celery lupins",
    ),
    ("The dog of {p} is called {v}.", "What is the name of the dog {p} has?", "Bruno Pixel Waffle Comet"),
    ("{p} plays the {v} in an orchestra.", "Which instrument does {p} play?", "oboe cello bassoon harp"),
    ("{p} drives an old {v}.", "What car does {p} drive?", "Volvo Trabant Beetle Saab"),
    ("{p} was born in {v}.", "In which month was {p} born?", "January April August November"),
    (
        "{p} is learning {v} at night school.",
        "Which language is {p} learning?",
        "Finnish Korean Swahili Welsh",
    ),
    ("{p} is afraid of {v}.", "What is {p} afraid of?", "spiders heights lightning elevators"),
];

const CHATTER: [&str; 9] = [
    "The weather is rather grey today, is it not?",
    "I had soup for lunch and it was fine.",
    "Remind me what we said about the invoice for the printer.",
    "The train was late again, and crowded.",
    "I am thinking about painting the kitchen this spring.",
    "There was a good film on television last night.",
    "My back hurts from sitting all day.",
    "The neighbours are having a party, so it is loud here.",
    "Work was busy: three meetings and a long report.",
];

struct Planted {
    person: &'static str,
    told: String,
    question: String,
    answer: &'static str,
}

fn planted() -> Vec<Planted> {
    let people: Vec<&str> = PEOPLE.split_whitespace().collect();
    (0..FACTS)
        .map(|number| {
            let (person, kind) = (people[number % people.len()], KINDS[number / people.len()]);
            let answers: Vec<&str> = kind.2.split_whitespace().collect();
            let answer = answers[number % answers.len()];
            let fill = |text: &str| text.replace("{p}", person).replace("{v}", answer);
            Planted { person, told: fill(kind.0), question: fill(kind.1), answer }
        })
        .collect()
}

async fn said(flow: &TestRuntime, text: &str) {
    let id = flow.say("a", text).await;
    flow.reaches(&id, InboxStatus::Done).await;
}

async fn compact(flow: &TestRuntime) {
    let desk = flow.runtime.context();
    assert!(
        desk.compact(topic("test", "a"), None, &CancellationToken::new()).await.unwrap().outcome
            != Compaction::Unchanged
    );
}

async fn pin(flow: &TestRuntime, fact: &Planted) {
    let memory = flow.runtime.memory();
    let source = FactSource { kind: FactSourceKind::Person, reference: "ada".to_owned() };
    let new = NewMemory {
        text: fact.told.clone(),
        category: Some("fact".to_owned()),
        scope: FactScope::Global,
        source,
        metadata_json: None,
        idempotency_key: None,
        unreviewed_in: None,
        keep: Keep::Once,
    };
    let id = memory.remember(new).await.unwrap().id;
    assert!(memory.pin(id).await.unwrap());
}

/// Whether the first ten hits have the answer, beside its person.
async fn is_found(flow: &TestRuntime, fact: &Planted) -> bool {
    let hits = flow.runtime.memory().recall(Recall::of(&fact.question, 10)).await.unwrap();
    hits.iter().any(|hit| {
        let text = match &hit.item {
            RecalledItem::Fact { fact, .. } => &fact.text,
            RecalledItem::Turn(turn) => &turn.content,
        };
        text.contains(fact.answer) && text.contains(fact.person)
    })
}

#[tokio::test(start_paused = true)]
async fn planted_facts_survive_twenty_compactions() {
    let time = FrozenTime::hold();
    let flow = RuntimeSetup::scripted(json!({ "otherwise": { "say": "I see." } }), &time).start().await;
    let facts = planted();
    for exchange in 0..EXCHANGES {
        let (fact, is_fact) = (exchange / (EXCHANGES / FACTS), exchange % (EXCHANGES / FACTS) == 2);
        let chatter = format!("{} ({exchange})", CHATTER[exchange % CHATTER.len()]);
        said(&flow, if is_fact { &facts[fact].told } else { &chatter }).await;
        if is_fact && fact % (FACTS / PINNED) == 0 {
            pin(&flow, &facts[fact]).await;
        }
        if (exchange + 1) % (EXCHANGES / COMPACTIONS) == 0 {
            compact(&flow).await;
        }
    }
    let shown = flow.runtime.context().show(topic("test", "a")).await.unwrap();
    let prompt: String = shown.sections.iter().map(|section| section.text.as_str()).collect();
    let (mut pinned, mut found) = (0, 0);
    for (number, fact) in facts.iter().enumerate() {
        let is_pinned = number % (FACTS / PINNED) == 0;
        let is_here = is_found(&flow, fact).await;
        if is_pinned {
            assert!(is_here && prompt.contains(&fact.told), "pinned and missing: {}", fact.told);
            pinned += 1;
        }
        found += usize::from(is_here && !is_pinned);
    }
    println!("planted facts: {pinned} of {PINNED} pinned, {found} of {} others found", FACTS - PINNED);
    assert_eq!(pinned, PINNED);
    assert!(found * 10 >= (FACTS - PINNED) * 9, "{found} of {} found", FACTS - PINNED);
}
