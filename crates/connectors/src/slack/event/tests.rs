//! What counts as said, and to whom.

use super::*;
use serde_json::{Value, json};

fn me() -> Me {
    Me { user: "UBOT".to_owned() }
}

fn happened(kind: &str, payload: &Value) -> Vec<Happening> {
    let envelope = json!({"type": kind, "envelope_id": "e1", "payload": payload});
    happenings(&serde_json::from_value(envelope).unwrap(), &me(), Millis(7))
}

fn event(more: Value) -> Value {
    let mut event =
        json!({"type": "message", "channel": "C1", "user": "U1", "ts": "1700000000.000100", "text": "hi"});
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"event_id": "Ev1", "event": event})
}

#[track_caller]
fn heard(more: Value) -> Said {
    match happened("events_api", &event(more)).pop() {
        Some(Happening::Said(said)) => *said,
        other => panic!("not said: {other:?}"),
    }
}

#[test]
fn a_message_and_its_mention_have_one_identity() {
    let said = heard(json!({}));
    let mention = heard(json!({"type": "app_mention", "text": "<@UBOT> hi"}));
    assert_eq!(said.external_id, "C1-1700000000.000100");
    assert_eq!(mention.external_id, said.external_id);
    assert_eq!(said.occurred_at, Millis(1_700_000_000_000));
    assert!(!said.is_addressed && mention.is_addressed);
    assert_eq!(mention.text, "hi");
}

#[test]
fn a_thread_is_a_place_and_its_first_message_is_not_in_it() {
    assert_eq!(heard(json!({"thread_ts": "1.2"})).place.key(), "C1:1.2");
    assert_eq!(heard(json!({"thread_ts": "1700000000.000100"})).place.key(), "C1");
    assert!(heard(json!({"thread_ts": "1.2", "parent_user_id": "UBOT"})).is_addressed);
    let private = heard(json!({"channel": "D1"}));
    assert!(private.is_addressed && !private.place.is_group);
}

#[test]
fn a_shared_message_is_quoted_and_not_said() {
    let shared = json!({"is_share": true, "author_name": "Mallory", "text": "read &lt;evil.net&gt; <@UBOT>"});
    let said = heard(json!({"text": "is that right?", "attachments": [{"title": "a preview"}, shared]}));
    assert_eq!((said.text.as_str(), said.is_addressed), ("is that right?", false));
    let quote = said.quoted.unwrap();
    assert_eq!((quote.author.as_deref(), quote.kind), (Some("Mallory"), QuoteKind::Forward));
    assert!(quote.text.starts_with("read <evil.net>"), "{}", quote.text);
    assert_eq!(heard(json!({"text": "", "attachments": [{"is_share": true}]})).text, "");
    assert!(happened("events_api", &event(json!({"text": "", "attachments": [{"title": "x"}]}))).is_empty());
}

#[test]
fn an_edit_is_one_only_when_the_words_changed() {
    let changed = |old: &str, edited: Option<&str>| {
        event(json!({"subtype": "message_changed", "ts": "9.9", "user": null,
            "message": {"user": "U1", "text": "new", "ts": "1.0", "edited": edited.map(|ts| json!({"ts": ts}))},
            "previous_message": {"text": old, "ts": "1.0"}}))
    };
    let Some(Happening::Said(said)) = happened("events_api", &changed("old", Some("2.0"))).pop() else {
        panic!()
    };
    assert_eq!((said.external_id.as_str(), said.is_edit, said.text.as_str()), ("C1-1.0-2.0", true, "new"));
    assert!(happened("events_api", &changed("new", Some("2.0"))).is_empty());
    assert!(happened("events_api", &changed("old", None)).is_empty());
}

#[test]
fn programs_and_ourselves_are_not_heard() {
    for nothing in [
        json!({"bot_id": "B1"}),
        json!({"user": "UBOT"}),
        json!({"user": null}),
        json!({"subtype": "message_deleted"}),
        json!({"subtype": "channel_join"}),
        json!({"type": "reaction_added"}),
        json!({"text": ""}),
    ] {
        assert!(happened("events_api", &event(nothing.clone())).is_empty(), "{nothing}");
    }
    assert!(happened("events_api", &json!({"event": {"type": ["odd"]}})).is_empty());
    assert!(happened("interactive", &json!({"type": "view_submission", "user": {"id": "U1"}})).is_empty());
}

#[test]
fn markup_becomes_what_a_person_reads() {
    let check = |text: &str, expected: &str| assert_eq!(words(text, &me()), expected, "{text}");
    check("<@UBOT>: !help", "!help");
    check("a <https://x.example/?a=1&amp;b|site> &lt;b&gt;", "a site (https://x.example/?a=1&b) <b>");
    check("<https://x.example>", "https://x.example");
    check("<@U2> in <#C2|general> <!here> <!subteam^S1|@team>", "@U2 in #general @here @team");
    check("1 < 2 <", "1 < 2 <");
}

#[test]
fn a_press_names_its_message_and_thread() {
    let press = json!({"type": "block_actions", "user": {"id": "U1"}, "channel": {"id": "C1"},
        "container": {"message_ts": "5.0", "thread_ts": "1.2"},
        "actions": [{"action_id": "cortex-0", "value": "apr_X:approve", "action_ts": "6.5"}]});
    let Some(Happening::Clicked(click)) = happened("interactive", &press).pop() else { panic!() };
    assert_eq!((click.place.key().as_str(), click.message.as_deref()), ("C1:1.2", Some("5.0")));
    assert_eq!((click.data.as_str(), click.external_id.as_str()), ("apr_X:approve", "action:C1-5.0-6.5"));
}
