//! A fact whose row cannot be read: what is told again is kept beside it, and a person can still have it forgotten.

use crate::fact::told;
use crate::recovery::damage;
use cortex_store::{FactEdit, FactToKeep, Keep, KeptAs, PromptScopes, StoreError};
use cortex_testkit::TempStore;
use cortex_types::{Accounts, FactScope, Millis, NewFact};
use rusqlite::Connection;

const NOW: Millis = Millis(1_000);
const TEXT: &str = "I live in Ghent.";
/// The words are whole in each.
const UNREADABLE: [&str; 4] =
    ["checksum = checksum + 1", "created_at = 5", "tier = 'warm'", "category = CAST(x'ff' AS TEXT)"];

fn again(number: u128, key: Option<&str>, keep: Keep) -> FactToKeep {
    let new = told(number, TEXT);
    FactToKeep { fact: NewFact { idempotency_key: key.map(str::to_owned), ..new.fact }, keep, ..new }
}

async fn in_prompts(store: &TempStore) -> Vec<String> {
    let scopes =
        PromptScopes { places: vec![FactScope::Global], people: Accounts::Everyone, topic: String::new() };
    store.facts().hot(scopes, 10).await.unwrap().into_iter().map(|fact| fact.text).collect()
}

fn count(store: &TempStore, table: &str) -> i64 {
    let look = Connection::open(store.path()).unwrap();
    look.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn words_that_only_a_damaged_fact_has_are_kept_anew() {
    for change in UNREADABLE {
        for (key, keep) in [
            (None, Keep::Once),
            (None, Keep::Learned),
            (Some("home"), Keep::Once),
            (Some("home"), Keep::Learned),
            (Some("home"), Keep::Upsert),
        ] {
            let store = TempStore::create();
            store.facts().keep(again(1, key, Keep::Once), NOW).await.unwrap();
            damage(&store, &format!("UPDATE facts SET {change} WHERE seq = 1"));
            let near = Some(told(1, TEXT).fact.id);
            let new = FactToKeep { near_duplicate: near, ..again(2, key, keep) };
            let kept = store.facts().keep(new, NOW).await.unwrap();
            assert_eq!((kept.outcome, kept.seq), (KeptAs::Created, 2), "{change} {key:?} {keep:?}");
            assert_eq!(in_prompts(&store).await, [TEXT], "{change} {key:?} {keep:?}");
            // From then on the new one stands for them.
            let kept = store.facts().keep(again(3, key, Keep::Once), NOW).await.unwrap();
            assert_eq!(kept.seq, 2, "{change} {key:?} {keep:?}");
            assert_eq!(count(&store, "facts"), 2, "{change}: the old one is left aside");
        }
    }
}

#[tokio::test]
async fn a_fact_from_another_home_is_kept_beside_a_damaged_one_and_mends_its_own_copy() {
    for number in [1, 2] {
        let store = TempStore::create();
        let other = TempStore::create();
        store.facts().keep(again(1, Some("home"), Keep::Once), NOW).await.unwrap();
        other.facts().keep(again(number, Some("home"), Keep::Once), NOW).await.unwrap();
        let whole = other.facts().find(told(number, "").fact.id).await.unwrap().unwrap();
        damage(&store, "UPDATE facts SET checksum = checksum + 1 WHERE seq = 1");
        let kept = store.facts().restore(whole, None, None).await.unwrap();
        assert_eq!(kept.outcome, KeptAs::Created, "{number}");
        assert_eq!(in_prompts(&store).await, [TEXT], "{number}");
    }
}

#[tokio::test]
async fn a_damaged_fact_is_forgotten_by_its_id_with_every_row_of_it() {
    let text_too = ["text = CAST(x'ff' AS TEXT)", "scope = 'moon'"];
    for change in UNREADABLE.into_iter().chain(text_too) {
        let store = TempStore::create();
        store.facts().keep(again(1, Some("home"), Keep::Once), NOW).await.unwrap();
        damage(&store, &format!("UPDATE facts SET {change} WHERE seq = 1"));
        let id = told(1, "").fact.id;
        let edit = FactEdit { text: Some("I live in Bruges.".to_owned()), ..FactEdit::default() };
        let edited = store.facts().edit(id.clone(), edit, NOW).await;
        assert!(matches!(edited, Err(StoreError::Damaged(_))), "{change}: {edited:?}");
        let found = store.facts().find(id.clone()).await;
        assert!(matches!(found, Err(StoreError::Damaged(_))), "{change}: {found:?}");
        assert_eq!(store.facts().forget(id.clone(), NOW, |_, _| None).await, Ok(Some(1)), "{change}");
        for table in ["facts", "fact_sources", "fact_keys", "fact_vectors"] {
            assert_eq!(count(&store, table), 0, "{change}: {table}");
        }
        assert_eq!(store.facts().forget(id, NOW, |_, _| None).await, Ok(None), "{change}");
        if change != "scope = 'moon'" {
            // What its source said is whole and is not learned again.
            let learned = store.facts().keep(again(2, None, Keep::Learned), NOW).await.unwrap();
            assert_eq!(learned.outcome, KeptAs::Forgotten, "{change}");
        }
    }
}
