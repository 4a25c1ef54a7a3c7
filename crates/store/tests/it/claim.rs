//! Which event runs next: priority, then arrival, one in flight a topic (D7).

use cortex_store::{Claimed, Places, TurnEnd};
use cortex_testkit::{TempStore, answered, new_event, topic};
use cortex_types::{InboxStatus, Millis, NewEvent, Priority, TopicRef};

const NOW: Millis = Millis(1_000);

/// Puts texts into topics; a text names itself in what is claimed.
async fn accept(store: &TempStore, topic: &TopicRef, text: &str, priority: Priority) {
    let event = NewEvent { priority, ..new_event(topic, text) };
    store.inbox().accept(event, NOW).await.unwrap();
}

async fn claim(store: &TempStore, limit: u32, now: Millis) -> Vec<Claimed> {
    store.inbox().claim_next(limit, now).await.unwrap().whole
}

async fn claim_texts(store: &TempStore, limit: u32, now: Millis) -> Vec<String> {
    claim(store, limit, now).await.into_iter().map(|claimed| claimed.event.text).collect()
}

async fn end(store: &TempStore, claimed: &Claimed, end: TurnEnd) {
    store.turns().finish_turn(&claimed.event, end, Vec::new(), NOW).await.unwrap();
}

fn retry_at(due_at: i64) -> TurnEnd {
    TurnEnd::RetryAt { due_at: Millis(due_at), reason: "busy".to_owned() }
}

#[tokio::test]
async fn the_urgent_go_first_and_arrival_decides_among_equals() {
    let store = TempStore::create();
    let arrivals = [
        ("background 1", Priority::Background),
        ("normal 1", Priority::Normal),
        ("urgent 1", Priority::Urgent),
        ("normal 2", Priority::Normal),
        ("urgent 2", Priority::Urgent),
    ];
    for (text, priority) in arrivals {
        accept(&store, &topic("telegram", text), text, priority).await;
    }
    assert_eq!(claim_texts(&store, 2, NOW).await, ["urgent 1", "urgent 2"]);
    assert_eq!(claim_texts(&store, 10, NOW).await, ["normal 1", "normal 2", "background 1"]);
    assert_eq!(claim_texts(&store, 10, NOW).await, [""; 0]);
}

#[tokio::test]
async fn a_source_that_calls_everything_urgent_keeps_no_other_waiting() {
    let store = TempStore::create();
    for number in 0..100 {
        let text = format!("urgent {number}");
        accept(&store, &topic("loud", &text), &text, Priority::Urgent).await;
    }
    let flying = claim(&store, 4, NOW).await;
    assert_eq!(flying.len(), 4);
    for text in ["quiet 1", "quiet 2"] {
        accept(&store, &topic("quiet", text), text, Priority::Normal).await;
    }
    accept(&store, &topic("third", "idle"), "idle", Priority::Background).await;
    end(&store, &flying[0], answered("done", Vec::new())).await;
    assert_eq!(claim_texts(&store, 1, NOW).await, ["quiet 1"], "the loud source has three turns already");
    end(&store, &flying[1], answered("done", Vec::new())).await;
    assert_eq!(claim_texts(&store, 1, NOW).await, ["quiet 2"]);
    assert_eq!(claim_texts(&store, 1, NOW).await, ["urgent 4"], "what is in the background still waits");
}

#[tokio::test]
async fn three_hundred_names_without_a_key_have_one_share_of_the_turns() {
    let store = TempStore::create();
    for number in 0..300 {
        let text = format!("stranger {number}");
        accept(&store, &topic(&format!("local:{number:03}"), "chat"), &text, Priority::Normal).await;
    }
    let flying = claim(&store, 2, NOW).await;
    assert_eq!(flying.len(), 2);
    for text in ["mine 1", "mine 2"] {
        accept(&store, &topic("telegram", text), text, Priority::Normal).await;
    }
    let next = claim_texts(&store, 3, NOW).await;
    assert_eq!(next[..2], ["mine 1", "mine 2"], "strangers have two turns already");
    assert!(next[2].starts_with("stranger"), "{next:?}");
}

#[tokio::test]
async fn one_place_is_the_owners_and_strangers_have_half() {
    let store = TempStore::create();
    for number in 0..8 {
        for source in ["local:x", "telegram"] {
            let text = format!("{source} {number}");
            accept(&store, &topic(source, &text), &text, Priority::Urgent).await;
        }
    }
    let flying = store.inbox().claim_next(Places::of(8, 8), NOW).await.unwrap().whole;
    let of = |source: &str| flying.iter().filter(|claimed| claimed.event.topic.source == source).count();
    assert_eq!((of("local:x"), of("telegram")), (4, 3), "the eighth is kept");
    for number in 0..3 {
        accept(&store, &topic("cli", &number.to_string()), "mine", Priority::Normal).await;
    }
    assert_eq!(store.inbox().claim_next(Places::of(8, 1), NOW).await.unwrap().whole.len(), 1);
    end(&store, &flying[0], answered("done", Vec::new())).await;
    end(&store, &flying[1], answered("done", Vec::new())).await;
    let next = store.inbox().claim_next(Places::of(8, 2), NOW).await.unwrap().whole;
    assert_eq!(next.len(), 2, "his other two go with all the rest");
    assert_eq!(Places::of(1, 1), Places { free: 1, others: 1, strangers: 1 }, "a single one is everybody's");
}

#[tokio::test]
async fn the_terminal_keeps_its_place_however_many_sources_sort_before_it() {
    let store = TempStore::create();
    for number in 0..300 {
        let text = format!("other {number}");
        accept(&store, &topic(&format!("bot {number:03}"), "chat"), &text, Priority::Urgent).await;
    }
    let flying = store.inbox().claim_next(Places::of(8, 8), NOW).await.unwrap().whole;
    assert_eq!(flying.len(), 7, "the eighth is kept");
    accept(&store, &topic("cli", "main"), "mine", Priority::Normal).await;
    let next = store.inbox().claim_next(Places::of(8, 1), NOW).await.unwrap().whole;
    assert_eq!(next.iter().map(|claimed| claimed.event.text.as_str()).collect::<Vec<_>>(), ["mine"]);
}

#[tokio::test]
async fn the_owners_programs_have_every_place_but_the_one_of_his_terminal() {
    let store = TempStore::create();
    for number in 0..8 {
        accept(&store, &topic("openai", &number.to_string()), "slow", Priority::Urgent).await;
    }
    let flying = store.inbox().claim_next(Places::of(4, 4), NOW).await.unwrap().whole;
    assert_eq!(flying.len(), 3, "the fourth is the terminal's");
    assert_eq!(store.inbox().claim_next(Places::of(4, 1), NOW).await.unwrap().whole, []);
    accept(&store, &topic("cli", "main"), "mine", Priority::Normal).await;
    let mine = store.inbox().claim_next(Places::of(4, 1), NOW).await.unwrap().whole;
    assert_eq!(mine.iter().map(|claimed| claimed.event.text.as_str()).collect::<Vec<_>>(), ["mine"]);
    end(&store, &flying[0], answered("done", Vec::new())).await;
    let next = store.inbox().claim_next(Places::of(4, 1), NOW).await.unwrap().whole;
    assert_eq!(next.len(), 1, "openai is no stranger: it has more than half");
}

#[tokio::test]
async fn a_topic_has_one_event_in_flight_and_goes_in_order_of_arrival() {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    for text in ["first", "second", "third"] {
        accept(&store, &chat, text, Priority::Normal).await;
    }
    for text in ["first", "second", "third"] {
        let claimed = claim(&store, 10, NOW).await;
        assert_eq!(claimed.len(), 1, "{claimed:?}");
        assert_eq!(claimed[0].event.text, text);
        assert_eq!((claimed[0].event.status, claimed[0].event.attempts), (InboxStatus::Processing, 1));
        assert_eq!(claim_texts(&store, 10, NOW).await, [""; 0]);
        end(&store, &claimed[0], answered("ok", Vec::new())).await;
    }
    assert_eq!(claim_texts(&store, 10, NOW).await, [""; 0]);
}

#[tokio::test]
async fn one_key_of_two_sources_is_two_topics() {
    let store = TempStore::create();
    accept(&store, &topic("telegram", "chat"), "from telegram", Priority::Normal).await;
    accept(&store, &topic("slack", "chat"), "from slack", Priority::Normal).await;
    assert_eq!(claim_texts(&store, 10, NOW).await, ["from telegram", "from slack"]);
}

#[tokio::test]
async fn a_retrying_head_holds_its_topic_until_it_is_due() {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    for text in ["first", "second"] {
        accept(&store, &chat, text, Priority::Normal).await;
    }
    accept(&store, &topic("telegram", "other"), "elsewhere", Priority::Normal).await;
    let first = claim(&store, 1, NOW).await.remove(0);
    end(&store, &first, retry_at(5_000)).await;

    assert_eq!(store.inbox().next_due().await, Ok(Some(Millis(5_000))));
    assert_eq!(claim_texts(&store, 10, Millis(4_999)).await, ["elsewhere"]);
    let again = claim(&store, 10, Millis(5_000)).await.remove(0);
    assert_eq!((again.event.text.as_str(), again.event.attempts), ("first", 2));
    assert_eq!(again.event.error.as_deref(), Some("busy"));
    end(&store, &again, answered("ok", Vec::new())).await;
    assert_eq!(claim_texts(&store, 10, Millis(5_000)).await, ["second"]);
    assert_eq!(store.inbox().next_due().await, Ok(None));
}

#[tokio::test]
async fn an_urgent_event_overtakes_a_retrying_head_which_keeps_its_due_time() {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    accept(&store, &chat, "first", Priority::Normal).await;
    let first = claim(&store, 1, NOW).await.remove(0);
    end(&store, &first, retry_at(5_000)).await;
    accept(&store, &chat, "second", Priority::Normal).await;
    assert_eq!(claim_texts(&store, 10, NOW).await, [""; 0]);

    accept(&store, &chat, "urgent", Priority::Urgent).await;
    let urgent = claim(&store, 10, NOW).await.remove(0);
    assert_eq!(urgent.event.text, "urgent");
    end(&store, &urgent, answered("ok", Vec::new())).await;
    assert_eq!(claim_texts(&store, 10, Millis(4_999)).await, [""; 0]);
    assert_eq!(claim_texts(&store, 10, Millis(5_000)).await, ["first"]);
}

#[tokio::test]
async fn an_urgent_event_does_not_interrupt_the_turn_that_runs() {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    for text in ["running", "waiting"] {
        accept(&store, &chat, text, Priority::Normal).await;
    }
    let running = claim(&store, 1, NOW).await.remove(0);
    accept(&store, &chat, "urgent", Priority::Urgent).await;
    assert_eq!(claim_texts(&store, 10, NOW).await, [""; 0]);
    end(&store, &running, answered("ok", Vec::new())).await;
    assert_eq!(claim_texts(&store, 10, NOW).await, ["urgent"]);
}

#[tokio::test]
async fn a_failed_event_lets_the_rest_of_its_topic_go_on() {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    for text in ["poison", "next"] {
        accept(&store, &chat, text, Priority::Normal).await;
    }
    let poison = claim(&store, 1, NOW).await.remove(0);
    end(&store, &poison, TurnEnd::Failed { reason: "poison".to_owned(), replies: Vec::new() }).await;
    assert_eq!(claim_texts(&store, 10, NOW).await, ["next"]);
    // The retried one is older than what waits, so it goes first again.
    accept(&store, &chat, "last", Priority::Normal).await;
    store.inbox().retry_failed(poison.event.id.clone(), NOW).await.unwrap().unwrap();
    assert_eq!(claim_texts(&store, 10, NOW).await, [""; 0]);
}

#[tokio::test]
async fn a_retried_event_goes_before_younger_ones_of_its_topic() {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    accept(&store, &chat, "first", Priority::Normal).await;
    let first = claim(&store, 1, NOW).await.remove(0);
    end(&store, &first, TurnEnd::Failed { reason: "no model".to_owned(), replies: Vec::new() }).await;
    accept(&store, &chat, "second", Priority::Normal).await;
    store.inbox().retry_failed(first.event.id.clone(), NOW).await.unwrap().unwrap();
    assert_eq!(claim_texts(&store, 10, NOW).await, ["first"]);
}

#[tokio::test]
async fn a_blocked_topic_with_a_long_backlog_delays_no_other() {
    let store = TempStore::create();
    let blocked = topic("telegram", "blocked");
    let mut posts = tokio::task::JoinSet::new();
    for number in 0..10_000 {
        let (store, event) = (store.clone(), new_event(&blocked, &number.to_string()));
        posts.spawn(async move { store.inbox().accept(event, NOW).await.unwrap() });
        if posts.len() == 1_000 {
            while posts.join_next().await.is_some() {}
        }
    }
    posts.join_all().await;
    let running = claim(&store, 10, NOW).await;
    assert_eq!(running.len(), 1);
    accept(&store, &topic("telegram", "free"), "free", Priority::Background).await;
    assert_eq!(claim_texts(&store, 10, NOW).await, ["free"]);
    assert_eq!(store.inbox().counts().await.unwrap().pending, 9_999);
}
