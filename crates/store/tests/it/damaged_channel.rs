//! What names a channel is damaged on disk: nothing leaves that may not, and no other message or channel waits for it.

use crate::mode::set_modes;
use crate::outbox::{poll, poll_of, send, send_all, texts};
use crate::recovery::{claim_one, damage};
use cortex_testkit::{TempStore, new_event, new_reply, topic};
use cortex_types::{ChannelMode, Millis, OutboxId, OutboxStatus};

const NOW: Millis = Millis(1_000);
/// When the lease of a message that was polled at `NOW` has ended.
const LATER: i64 = 20_000;

const ELSEWHERE: &[(&str, ChannelMode)] = &[("elsewhere", ChannelMode::Off)];

/// Damages of an event after which nobody can say on which channel it came.
const OF_THE_EVENT: [&str; 3] = [
    "UPDATE inbox_messages SET channel = CAST(x'ff' AS TEXT) WHERE seq = 1",
    "UPDATE inbox_messages SET source = CAST(x'ff' AS TEXT) WHERE seq = 1",
    "UPDATE outbox_messages SET event_seq = 99 WHERE seq = 1",
];

async fn status(store: &TempStore, id: &OutboxId) -> OutboxStatus {
    store.outbox().find(id.clone()).await.unwrap().unwrap().status
}

#[tokio::test]
async fn a_message_whose_channel_cannot_be_read_ends_and_those_beside_it_leave() {
    for change in OF_THE_EVENT {
        let store = TempStore::create();
        for text in ["damaged", "whole"] {
            send(&store, &topic("b", text), &[text], NOW).await;
        }
        assert_eq!(poll(&store, &poll_of("b"), NOW.0).await.len(), 2);
        set_modes(&store, ELSEWHERE).await;
        damage(&store, change);
        assert_eq!(texts(&poll(&store, &poll_of("b"), LATER).await), ["whole"], "{change}");
        assert_eq!(store.outbox().counts().await.unwrap().suppressed, 1, "{change}");
    }
}

#[tokio::test]
async fn modes_change_whatever_is_damaged_about_what_waits() {
    let of_the_message = [
        "UPDATE outbox_messages SET source = CAST(x'ff' AS TEXT) WHERE seq = 1",
        "UPDATE outbox_messages SET event_seq = 'none' WHERE seq = 1",
    ];
    for change in OF_THE_EVENT.into_iter().chain(of_the_message) {
        let store = TempStore::create();
        send_all(&store, &topic("a", "t"), vec![new_reply(&topic("b", "damaged"), "damaged")], NOW).await;
        let held_back =
            send_all(&store, &topic("off", "t"), vec![new_reply(&topic("b", "t"), "held back")], NOW).await;
        send(&store, &topic("b", "whole"), &["whole"], NOW).await;
        damage(&store, change);
        set_modes(&store, &[("off", ChannelMode::Off)]).await;
        assert_eq!(status(&store, &held_back[0]).await, OutboxStatus::Suppressed, "{change}");
        assert_eq!(texts(&poll(&store, &poll_of("b"), LATER).await), ["whole"], "{change}");
    }
}

#[tokio::test]
async fn a_damaged_mode_is_replaced_by_the_next_settings() {
    for change in ["mode = CAST(x'ff' AS TEXT)", "mode = 'lime'", "channel = CAST(x'ff' AS TEXT)"] {
        let store = TempStore::create();
        set_modes(&store, &[("a", ChannelMode::Off)]).await;
        store.inbox().accept(new_event(&topic("a", "t"), "waits"), NOW).await.unwrap();
        damage(&store, &format!("UPDATE channel_modes SET {change} WHERE channel = 'a'"));
        store.inbox().accept(new_event(&topic("a", "u"), "is kept"), NOW).await.unwrap();
        set_modes(&store, &[("a", ChannelMode::Live)]).await;
        assert_eq!(store.inbox().claim_next(10, NOW).await.unwrap().whole.len(), 2, "{change}");
    }
}

#[tokio::test]
async fn what_waits_for_a_source_whose_channel_cannot_be_read_stays_until_it_is_learned_anew() {
    for mode in [ChannelMode::Live, ChannelMode::Shadow] {
        let store = TempStore::create();
        for source in ["damaged", "whole"] {
            let named = store.channels().learn_source(source.to_owned(), format!("{source} chat")).await;
            named.unwrap().unwrap();
        }
        for (source, text) in [("damaged", "waits"), ("whole", "leaves")] {
            send(&store, &topic(source, "t"), &[text], NOW).await;
        }
        for (source, text) in [("damaged", "waits"), ("whole", "leaves")] {
            store.inbox().accept(new_event(&topic(source, "t"), text), NOW).await.unwrap();
        }
        damage(&store, "UPDATE channel_sources SET channel = CAST(x'ff' AS TEXT) WHERE source = 'damaged'");
        let sources = store.channels().sources().await.unwrap();
        assert_eq!(sources.into_keys().collect::<Vec<_>>(), ["whole"]);
        set_modes(&store, &[("elsewhere", ChannelMode::Off), ("damaged chat", mode)]).await;
        assert_eq!(texts(&poll(&store, &poll_of("whole"), LATER).await), ["leaves"]);
        assert_eq!(store.outbox().counts().await.unwrap().suppressed, 0);
        assert_eq!(claim_one(&store, NOW).await.event.text, "leaves");
        store.inbox().accept(new_event(&topic("damaged", "u"), "is kept"), NOW).await.unwrap();

        let named = store.channels().learn_source("damaged".to_owned(), "damaged chat".to_owned()).await;
        named.unwrap().unwrap();
        assert_eq!(store.inbox().claim_next(10, NOW).await.unwrap().whole.len(), 2);
        let left = poll(&store, &poll_of("damaged"), LATER).await;
        assert_eq!(left.len(), usize::from(mode == ChannelMode::Live), "{mode}");
    }
}

#[tokio::test]
async fn a_source_whose_channel_cannot_be_read_is_forgotten_like_any_other() {
    let store = TempStore::create();
    store.channels().learn_source("a".to_owned(), "chat".to_owned()).await.unwrap().unwrap();
    damage(&store, "UPDATE channel_sources SET channel = CAST(x'ff' AS TEXT)");
    assert!(store.channels().forget_source("a".to_owned(), NOW).await.unwrap().is_some());
    assert_eq!(store.channels().forget_source("a".to_owned(), NOW).await, Ok(None));
}
