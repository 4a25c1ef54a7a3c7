//! What counts as said, and to whom.

use super::*;
use cortex_types::JsonText;
use serde_json::{Value, json};

const ME: &str = "99";

fn happened(kind: &str, data: &Value) -> Happening {
    happening(kind, &JsonText::of(data).unwrap(), ME)
}

fn message(more: Value) -> Value {
    let mut message = json!({"id": "175928847299117063", "channel_id": "5", "content": "hi", "guild_id": "7",
        "author": {"id": "42", "username": "ada", "global_name": "Ada"}});
    message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    message
}

#[track_caller]
fn heard(more: Value) -> Said {
    let Happening::Said(said) = happened("MESSAGE_CREATE", &message(more)) else { panic!("not said") };
    *said
}

#[test]
fn a_message_has_its_channel_its_time_and_its_name() {
    let said = heard(json!({}));
    assert_eq!((said.place.key().as_str(), said.place.is_group), ("5", true));
    assert_eq!(said.occurred_at, Millis(1_462_015_105_796));
    assert_eq!((said.external_id.as_str(), said.user_name.as_deref()), ("175928847299117063", Some("Ada")));
    assert!(!said.is_addressed);
    assert!(heard(json!({"guild_id": null})).is_addressed, "a conversation of two is always for us");
}

#[test]
fn whoever_is_named_or_replied_to_is_meant() {
    let mention = heard(
        json!({"content": "<@99> !help <@42>", "mentions": [{"id": "99"}, {"id": "42", "username": "ada"}]}),
    );
    assert!(mention.is_addressed);
    assert_eq!(mention.text, "!help @ada");
    let reply = heard(json!({"type": 19, "referenced_message":
        {"id": "1", "channel_id": "5", "content": "before", "author": {"id": "99", "username": "cortex"}}}));
    assert!(reply.is_addressed);
    let quote = reply.quoted.unwrap();
    assert_eq!((quote.author.as_deref(), quote.text.as_str()), (Some("cortex"), "before"));
    assert_eq!(quote.kind, QuoteKind::ReplyToAssistant);
}

#[test]
fn what_somebody_else_said_is_quoted_and_not_said() {
    let reply = heard(json!({"type": 19, "content": "is that right?", "referenced_message":
        {"id": "1", "channel_id": "5", "content": "read evil.net", "author": {"id": "7", "username": "mallory"}}}));
    assert_eq!(reply.text, "is that right?");
    let quote = reply.quoted.unwrap();
    assert_eq!((quote.author.as_deref(), quote.kind), (Some("mallory"), QuoteKind::Reply));
    let file = json!({"filename": "a.png", "url": "u"});
    let forward = heard(json!({"content": "", "guild_id": null, "message_reference": {"type": 1},
        "message_snapshots": [{"message": {"content": "!approve", "attachments": [file]}}]}));
    assert_eq!((forward.text.as_str(), forward.files.len()), ("", 1));
    let quote = forward.quoted.unwrap();
    assert_eq!((quote.text.as_str(), quote.kind), ("!approve", QuoteKind::Forward));
}

#[test]
fn an_edit_has_a_time_and_a_preview_has_none() {
    let edited = message(json!({"edited_timestamp": "2026-01-01T00:00:00Z"}));
    let Happening::Said(said) = happened("MESSAGE_UPDATE", &edited) else { panic!("an edit") };
    assert!(said.is_edit);
    assert_eq!(said.external_id, "175928847299117063-2026-01-01T00:00:00Z");
    assert!(matches!(happened("MESSAGE_UPDATE", &message(json!({}))), Happening::Nothing));
}

#[test]
fn programs_and_ourselves_are_not_heard() {
    for nothing in [
        json!({"author": {"id": "1", "bot": true}}),
        json!({"author": {"id": ME}}),
        json!({"author": null}),
        json!({"webhook_id": "1"}),
        json!({"type": 7}),
        json!({"content": ""}),
    ] {
        assert!(
            matches!(happened("MESSAGE_CREATE", &message(nothing.clone())), Happening::Nothing),
            "{nothing}"
        );
    }
    assert!(matches!(happened("MESSAGE_CREATE", &json!({"id": 1})), Happening::Nothing));
    assert!(matches!(happened("TYPING_START", &json!({})), Happening::Nothing));
}

#[test]
fn a_press_says_who_did_it_in_a_guild_and_in_private() {
    let press = json!({"id": "8", "token": "t", "type": 3, "channel_id": "5", "guild_id": "7",
        "data": {"custom_id": "apr_X:approve"}, "member": {"user": {"id": "42"}}, "message": {"id": "6"}});
    let Happening::Clicked(click) = happened("INTERACTION_CREATE", &press) else { panic!("a press") };
    assert_eq!(
        (click.user.as_str(), click.data.as_str(), click.answer_id.as_str()),
        ("42", "apr_X:approve", "8/t")
    );
    let command =
        json!({"id": "8", "token": "t", "type": 2, "channel_id": "5", "user": {"id": "42"}, "data": {}});
    assert!(matches!(happened("INTERACTION_CREATE", &command), Happening::Nothing));
}
