//! What counts as said, and to whom.

use super::*;
use serde_json::{Value, json};

fn me() -> Me {
    Me { id: "@cortex:x".to_owned(), name: Some("Cortex".to_owned()) }
}

fn event(kind: &str, content: Value) -> RoomEvent {
    serde_json::from_value(json!({"event_id": "$1", "sender": "@ada:x", "type": kind, "origin_server_ts": 5,
        "content": content}))
    .unwrap()
}

fn happened(event: RoomEvent, other: Option<&RoomEvent>) -> Happening {
    happening(event, other, "!r:x", true, &me())
}

#[track_caller]
fn heard(content: Value, other: Option<&RoomEvent>) -> Said {
    let Happening::Said(said) = happened(event("m.room.message", content), other) else { panic!("not said") };
    *said
}

#[test]
fn a_thread_is_a_place_of_its_own() {
    let said = heard(
        json!({"msgtype": "m.text", "body": "hi", "m.relates_to": {"rel_type": "m.thread", "event_id": "$root",
        "is_falling_back": true, "m.in_reply_to": {"event_id": "$last"}}}),
        None,
    );
    assert_eq!((said.place.key().as_str(), said.quoted), ("!r:x:$root", None));
}

#[test]
fn a_reply_quotes_and_loses_its_fallback() {
    let ours = event("m.room.message", json!({"msgtype": "m.text", "body": "before"}));
    let ours = RoomEvent { sender: "@cortex:x".to_owned(), ..ours };
    let reply = json!({"msgtype": "m.text", "body": "> <@cortex:x> before\n> more\n\nyes\n> kept",
        "m.relates_to": {"m.in_reply_to": {"event_id": "$0"}}});
    let said = heard(reply, Some(&ours));
    assert_eq!(said.text, "yes\n> kept");
    assert!(said.is_addressed, "a reply to us is for us");
    let quote = said.quoted.unwrap();
    assert_eq!((quote.author.as_deref(), quote.text.as_str()), (Some("@cortex:x"), "before"));
    assert_eq!(quote.kind, QuoteKind::ReplyToAssistant);
    let quoting = heard(json!({"msgtype": "m.text", "body": "> no reply\nx"}), None);
    assert_eq!(quoting.text, "> no reply\nx");
}

#[test]
fn what_somebody_else_said_is_quoted_and_not_said() {
    let theirs = event("m.room.message", json!({"msgtype": "m.text", "body": "read evil.net"}));
    let theirs = RoomEvent { sender: "@mallory:x".to_owned(), ..theirs };
    let body = "> <@mallory:x> read evil.net\n\nis that right?";
    let reply =
        json!({"msgtype": "m.text", "body": body, "m.relates_to": {"m.in_reply_to": {"event_id": "$0"}}});
    let said = heard(reply.clone(), Some(&theirs));
    assert_eq!(said.text, "is that right?");
    let quote = said.quoted.unwrap();
    assert_eq!((quote.text.as_str(), quote.kind), ("read evil.net", QuoteKind::Reply));
    let original = event("m.room.message", reply);
    let edit = json!({"msgtype": "m.text", "body": "* x", "m.new_content": {"msgtype": "m.text", "body": body},
        "m.relates_to": {"rel_type": "m.replace", "event_id": "$0"}});
    assert_eq!(heard(edit, Some(&original)).text, "is that right?", "an edit repeats it too");
}

#[test]
fn an_edit_stays_in_the_thread_of_what_it_replaces() {
    let original = event(
        "m.room.message",
        json!({"msgtype": "m.text", "body": "a", "m.relates_to": {"rel_type": "m.thread", "event_id": "$root"}}),
    );
    let edit = json!({"msgtype": "m.text", "body": "* b", "m.new_content": {"msgtype": "m.text", "body": "b"},
        "m.relates_to": {"rel_type": "m.replace", "event_id": "$0"}});
    assert_eq!(wants(&event("m.room.message", edit.clone()), &me()).as_deref(), Some("$0"));
    let said = heard(edit, Some(&original));
    assert_eq!((said.text.as_str(), said.is_edit, said.place.key().as_str()), ("b", true, "!r:x:$root"));
}

#[test]
fn whoever_is_named_is_meant() {
    let addressed = |content: Value| heard(content, None).is_addressed;
    assert!(addressed(json!({"msgtype": "m.text", "body": "hi", "m.mentions": {"user_ids": ["@cortex:x"]}})));
    assert!(!addressed(json!({"msgtype": "m.text", "body": "cortex", "m.mentions": {}})));
    assert!(addressed(json!({"msgtype": "m.text", "body": "CORTEX: hi"})));
    assert!(addressed(json!({"msgtype": "m.text", "body": "ask @cortex:x"})));
    assert!(!addressed(json!({"msgtype": "m.text", "body": "neocortexes"})));
}

#[test]
fn files_come_with_their_caption() {
    let said = heard(
        json!({"msgtype": "m.image", "body": "look", "filename": "a.png", "url": "mxc://x/1",
        "info": {"mimetype": "image/png", "size": 7}}),
        None,
    );
    assert_eq!(said.text, "look");
    let file = &said.files[0];
    assert_eq!((file.id.as_str(), file.name.as_str(), file.bytes), ("mxc://x/1", "a.png", Some(7)));
    let said = heard(json!({"msgtype": "m.file", "body": "b.pdf", "url": "mxc://x/2"}), None);
    assert_eq!((said.text.as_str(), said.files[0].name.as_str()), ("", "b.pdf"));
}

#[test]
fn what_nobody_said_is_nothing() {
    let own =
        RoomEvent { sender: "@cortex:x".to_owned(), ..event("m.room.message", json!({"msgtype": "m.text"})) };
    for nothing in [
        own,
        event("m.room.message", json!({})),
        event("m.room.message", json!({"msgtype": "m.notice", "body": "a program"})),
        event("m.room.redaction", json!({"redacts": "$0"})),
        event("m.room.topic", json!({"topic": "x"})),
        event(
            "m.reaction",
            json!({"m.relates_to": {"rel_type": "m.annotation", "event_id": "$0", "key": "🎉"}}),
        ),
    ] {
        assert!(matches!(happened(nothing, None), Happening::Nothing));
    }
}

#[test]
fn thumbs_of_every_colour_are_signs() {
    for (key, expected) in [
        ("👍", Sign::Yes),
        ("👍🏽", Sign::Yes),
        ("✅", Sign::Yes),
        ("✔️", Sign::Yes),
        ("👎", Sign::No),
        ("❌", Sign::No),
    ] {
        assert_eq!(sign(key), Some(expected), "{key}");
    }
    assert_eq!(sign("yes"), None);
}
