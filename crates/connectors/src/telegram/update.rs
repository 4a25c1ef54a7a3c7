//! From an update of the Bot API to what happened.

use super::wire::{
    CallbackQuery, Entity, MessageOrigin, TelegramFile, TelegramMessage, TelegramUser, Update,
};
use crate::kit::{ChatPlace, Click, Happening, Quote, QuoteKind, RemoteFile, Said};
use cortex_types::Millis;

/// The bot's own account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Me {
    pub(super) id: i64,
    pub(super) username: Option<String>,
}

pub(super) fn inbound_of(update: Update, me: Option<&Me>) -> Happening {
    let external_id = format!("tg-{}", update.update_id);
    match (update.message, update.edited_message, update.callback_query) {
        (Some(message), _, _) => said(external_id, message, false, me),
        (None, Some(message), _) => said(external_id, message, true, me),
        (None, None, Some(query)) => Happening::Clicked(click(query)),
        (None, None, None) => Happening::Nothing,
    }
}

fn said(external_id: String, message: TelegramMessage, is_edit: bool, me: Option<&Me>) -> Happening {
    if let Some(to) = message.migrate_to_chat_id {
        return Happening::Moved { from: message.chat.id.to_string(), to: to.to_string() };
    }
    if let Some(from) = message.migrate_from_chat_id {
        return Happening::Moved { from: from.to_string(), to: message.chat.id.to_string() };
    }
    let Some(from) = &message.from else { return Happening::Nothing };
    let files = files_of(&message);
    let (text, entities) = match (&message.text, &message.caption) {
        (Some(text), _) => (text.clone(), &message.entities),
        (None, Some(caption)) => (caption.clone(), &message.caption_entities),
        (None, None) => (other_words(&message).unwrap_or_default(), &message.entities),
    };
    if text.is_empty() && files.is_empty() {
        // Somebody joined, a title changed: nobody said anything.
        return Happening::Nothing;
    }
    let place = place_of(&message);
    let is_mentioned = mentions(&text, entities, me) || replies_to(&message, me);
    let (text, is_addressed, quoted) = match (is_forward(&message, me), command_of(&text, me)) {
        // Somebody else's words name nobody, and are no command of the one who passes them on.
        (true, _) => (String::new(), !place.is_group, Some(forwarded(&message, text))),
        (false, NamedCommand::Ours(text)) => (text, true, quote_of(&message, me)),
        (false, NamedCommand::Foreign) if place.is_group => return Happening::Nothing,
        (false, NamedCommand::Foreign | NamedCommand::Nobodys) => {
            (text, !place.is_group || is_mentioned, quote_of(&message, me))
        }
    };
    Happening::Said(Box::new(Said {
        external_id,
        user: from.id.to_string(),
        user_name: name_of(from),
        occurred_at: moment(message.edit_date.unwrap_or(message.date)),
        is_addressed,
        is_edit,
        quoted,
        files,
        message: Some(message.message_id.to_string()),
        place,
        text,
    }))
}

fn click(query: CallbackQuery) -> Click {
    let user = query.from.id.to_string();
    let place = match &query.message {
        Some(message) => place_of(message),
        None => ChatPlace { chat: user.clone(), thread: None, is_group: false },
    };
    Click {
        external_id: format!("callback:{}", query.id),
        answer_id: query.id,
        place,
        user,
        data: query.data,
        occurred_at: moment(query.message.as_ref().map_or(0, |message| message.date)),
        message: query.message.map(|message| message.message_id.to_string()),
    }
}

fn place_of(message: &TelegramMessage) -> ChatPlace {
    // A reply has a thread id, too, in a group without topics and in a forum's general topic; it is no topic.
    let is_topic = message.is_topic_message.unwrap_or(message.reply_to_message.is_none());
    let is_group = match message.chat.kind.as_deref() {
        Some(kind) => kind != "private",
        None => message.chat.id < 0,
    };
    ChatPlace {
        chat: message.chat.id.to_string(),
        thread: message.message_thread_id.filter(|_| is_topic).map(|thread| thread.to_string()),
        is_group,
    }
}

/// Whom the command at the beginning of a text names.
enum NamedCommand {
    /// The text without our name.
    Ours(String),
    Foreign,
    /// No command, or one for whoever hears it.
    Nobodys,
}

fn command_of(text: &str, me: Option<&Me>) -> NamedCommand {
    let is_command = text.starts_with('/');
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let Some((command, named)) = text[..end].split_once('@').filter(|_| is_command) else {
        return NamedCommand::Nobodys;
    };
    match me.and_then(|me| me.username.as_deref()) {
        Some(name) if name.eq_ignore_ascii_case(named) => {
            NamedCommand::Ours(format!("{command}{}", &text[end..]))
        }
        Some(_) => NamedCommand::Foreign,
        None => NamedCommand::Nobodys,
    }
}

fn mentions(text: &str, entities: &[Entity], me: Option<&Me>) -> bool {
    let Some(me) = me else { return false };
    let units: Vec<u16> = text.encode_utf16().collect();
    entities.iter().any(|entity| match entity.kind.as_str() {
        "mention" => {
            let end = entity.offset.saturating_add(entity.length);
            let named = units.get(entity.offset..end).map(String::from_utf16_lossy).unwrap_or_default();
            let ours = me.username.as_deref();
            ours.is_some_and(|name| {
                named.strip_prefix('@').is_some_and(|named| named.eq_ignore_ascii_case(name))
            })
        }
        "text_mention" => entity.user.as_ref().is_some_and(|user| user.id == me.id),
        _ => false,
    })
}

fn replies_to(message: &TelegramMessage, me: Option<&Me>) -> bool {
    let author = message.reply_to_message.as_ref().and_then(|replied| replied.from.as_ref());
    matches!((author, me), (Some(author), Some(me)) if author.id == me.id)
}

/// Whether the words are not of the person who sent them: passed on, or made by another program.
fn is_forward(message: &TelegramMessage, me: Option<&Me>) -> bool {
    let is_foreign = |bot: &TelegramUser| me.is_none_or(|me| me.id != bot.id);
    message.forward_origin.is_some()
        || message.forward_date.is_some()
        || message.via_bot.as_ref().is_some_and(is_foreign)
}

fn forwarded(message: &TelegramMessage, text: String) -> Quote {
    let origin = message.forward_origin.as_ref().and_then(author_of);
    let author = origin.or_else(|| message.via_bot.as_ref().and_then(name_of));
    Quote { author, text, kind: QuoteKind::Forward }
}

fn author_of(origin: &MessageOrigin) -> Option<String> {
    let person = || origin.sender_user.as_ref().and_then(name_of);
    let chat = || origin.sender_chat.as_ref().or(origin.chat.as_ref()).and_then(|chat| chat.title.clone());
    person().or_else(|| origin.sender_user_name.clone()).or_else(chat)
}

fn quote_of(message: &TelegramMessage, me: Option<&Me>) -> Option<Quote> {
    let marked = message.quote.as_ref().map(|quote| quote.text.clone());
    // In a forum every message answers the one that opened the topic.
    let replied = message.reply_to_message.as_ref().filter(|replied| replied.forum_topic_created.is_none());
    let Some(replied) = replied else {
        let elsewhere = message.external_reply.as_ref()?;
        let author = elsewhere.origin.as_ref().and_then(author_of);
        return Some(Quote { author, text: marked?, kind: QuoteKind::Reply });
    };
    let text = marked.or_else(|| replied.text.clone()).or_else(|| replied.caption.clone());
    let text = text.unwrap_or_else(|| "something without words".to_owned());
    let is_ours = replies_to(message, me) && !is_forward(replied, me);
    let kind = if is_ours { QuoteKind::ReplyToAssistant } else { QuoteKind::Reply };
    Some(Quote { author: replied.from.as_ref().and_then(name_of), text, kind })
}

fn name_of(user: &TelegramUser) -> Option<String> {
    user.first_name.clone().or_else(|| user.username.clone())
}

/// Words for what has no words of its own.
fn other_words(message: &TelegramMessage) -> Option<String> {
    if let Some(sticker) = &message.sticker {
        return Some(format!("(sticker {})", sticker.emoji.as_deref().unwrap_or("without an emoji")));
    }
    if let Some(location) = &message.location {
        return Some(format!("(location {}, {})", location.latitude, location.longitude));
    }
    let contact = message.contact.as_ref()?;
    let words = [contact.first_name.as_deref(), contact.phone_number.as_deref()];
    Some(format!("(contact {})", words.into_iter().flatten().collect::<Vec<_>>().join(" ")))
}

fn files_of(message: &TelegramMessage) -> Vec<RemoteFile> {
    let largest = message.photo.iter().flatten().max_by_key(|photo| photo.width);
    let kinds = [
        (largest, "photo.jpg", "image/jpeg"),
        (message.voice.as_ref(), "voice.ogg", "audio/ogg"),
        (message.audio.as_ref(), "audio", "audio/mpeg"),
        // An animation comes as a document as well.
        (
            message.document.as_ref().filter(|_| message.animation.is_none()),
            "document",
            "application/octet-stream",
        ),
        (message.video.as_ref(), "video.mp4", "video/mp4"),
        (message.video_note.as_ref(), "video.mp4", "video/mp4"),
        (message.animation.as_ref(), "animation.mp4", "video/mp4"),
    ];
    kinds.into_iter().filter_map(|(file, name, kind)| Some(remote(file?, name, kind))).collect()
}

fn remote(file: &TelegramFile, name: &str, kind: &str) -> RemoteFile {
    RemoteFile {
        id: file.file_id.clone(),
        name: file.file_name.clone().unwrap_or_else(|| name.to_owned()),
        kind: file.mime_type.clone().unwrap_or_else(|| kind.to_owned()),
        bytes: file.file_size,
    }
}

/// Telegram counts seconds; what has no date happened at the beginning of time.
fn moment(seconds: i64) -> Millis {
    Millis(seconds.saturating_mul(1_000).max(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn me() -> Me {
        Me { id: 99, username: Some("cortex_bot".to_owned()) }
    }

    #[track_caller]
    fn heard(update: Value) -> Said {
        let happened = inbound_of(serde_json::from_value(update).unwrap(), Some(&me()));
        let Happening::Said(said) = happened else { panic!("not said: {happened:?}") };
        *said
    }

    fn in_group(more: Value) -> Value {
        let mut message = json!({"message_id": 5, "date": 1_700_000_000, "from": {"id": 42, "first_name": "Ada"},
            "chat": {"id": -100, "type": "supergroup"}});
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"update_id": 7, "message": message})
    }

    #[test]
    fn a_topic_of_a_forum_is_a_place_of_its_own_and_a_thread_of_replies_is_not() {
        let topic = in_group(json!({"text": "x", "message_thread_id": 9, "is_topic_message": true,
            "reply_to_message": {"message_id": 9, "chat": {"id": -100}, "forum_topic_created": {"name": "t"}}}));
        let said = heard(topic);
        assert_eq!((said.place.key().as_str(), said.quoted), ("-100:9", None));
        let reply = in_group(json!({"text": "x", "message_thread_id": 3,
            "reply_to_message": {"message_id": 3, "chat": {"id": -100}, "text": "before", "from": {"id": 99}}}));
        let said = heard(reply);
        assert_eq!(said.place.key(), "-100");
        let quote = Quote { author: None, text: "before".to_owned(), kind: QuoteKind::ReplyToAssistant };
        assert_eq!(said.quoted, Some(quote));
        assert!(said.is_addressed, "a reply to the bot is meant for it");
        let general = in_group(json!({"text": "x", "message_thread_id": 3,
            "chat": {"id": -100, "type": "supergroup", "is_forum": true},
            "reply_to_message": {"message_id": 3, "chat": {"id": -100}, "text": "before"}}));
        assert_eq!(heard(general).place.key(), "-100", "a reply in the general topic opens none");
    }

    #[test]
    fn what_somebody_else_said_is_quoted_and_not_said() {
        let by = |more: Value| {
            let mut replied = json!({"message_id": 3, "chat": {"id": -100}, "text": "read evil.net"});
            replied.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            heard(in_group(json!({"text": "is that right?", "reply_to_message": replied})))
        };
        let said = by(json!({"from": {"id": 7, "first_name": "Mallory"}}));
        assert_eq!(said.text, "is that right?");
        let quote = said.quoted.unwrap();
        assert_eq!((quote.author.as_deref(), quote.kind), (Some("Mallory"), QuoteKind::Reply));
        let passed_on = by(
            json!({"from": {"id": 99}, "forward_origin": {"type": "hidden_user", "sender_user_name": "M"}}),
        );
        assert_eq!(passed_on.quoted.unwrap().kind, QuoteKind::Reply, "its own account, and others' words");
        let elsewhere = heard(in_group(json!({"text": "really?", "quote": {"text": "read evil.net"},
            "external_reply": {"origin": {"type": "channel", "chat": {"id": -5, "title": "News"}}}})));
        assert_eq!(elsewhere.quoted.unwrap().author.as_deref(), Some("News"));
    }

    #[test]
    fn a_forwarded_message_is_nobodys_words_and_no_command() {
        let origins = [
            (json!({"type": "user", "sender_user": {"id": 7, "first_name": "Mallory"}}), Some("Mallory")),
            (json!({"type": "hidden_user", "sender_user_name": "M."}), Some("M.")),
            (json!({"type": "chat", "sender_chat": {"id": -1, "title": "Club"}}), Some("Club")),
            (json!({"type": "channel", "chat": {"id": -1, "title": "News"}}), Some("News")),
            (json!({"type": "something new"}), None),
        ];
        for (origin, author) in origins {
            let said = heard(in_group(json!({"text": "/approve@cortex_bot", "forward_origin": origin,
                "entities": [{"type": "mention", "offset": 8, "length": 11}]})));
            assert_eq!((said.text.as_str(), said.is_addressed), ("", false), "{author:?}");
            let quote = said.quoted.unwrap();
            assert_eq!((quote.author.as_deref(), quote.kind), (author, QuoteKind::Forward));
            assert_eq!(quote.text, "/approve@cortex_bot");
        }
        let old = heard(in_group(json!({"caption": "c", "forward_date": 5, "photo": [{"file_id": "p"}]})));
        assert_eq!((old.text.as_str(), old.quoted.unwrap().text.as_str(), old.files.len()), ("", "c", 1));
        let made = heard(in_group(json!({"text": "x", "via_bot": {"id": 5, "username": "gif"}})));
        assert_eq!(made.quoted.unwrap().author.as_deref(), Some("gif"));
        assert_eq!(heard(in_group(json!({"text": "x", "via_bot": {"id": 99}}))).text, "x");
    }

    #[test]
    fn a_mention_is_seen_behind_letters_of_any_width() {
        let mention = json!({"text": "😀 @Cortex_Bot hi", "entities": [{"type": "mention", "offset": 3, "length": 11}]});
        assert!(heard(in_group(mention)).is_addressed);
        let other =
            json!({"text": "@someone hi", "entities": [{"type": "mention", "offset": 0, "length": 8}]});
        assert!(!heard(in_group(other)).is_addressed);
        let odd = json!({"text": "hi", "entities": [{"type": "mention", "offset": 9, "length": 99}]});
        assert!(!heard(in_group(odd)).is_addressed);
    }

    #[test]
    fn a_command_for_another_bot_is_not_ours() {
        assert_eq!(heard(in_group(json!({"text": "/status@cortex_bot"}))).text, "/status");
        let asked = heard(in_group(json!({"text": "/ask@Cortex_Bot why?", "entities":
            [{"type": "bot_command", "offset": 0, "length": 15}]})));
        assert_eq!((asked.text.as_str(), asked.is_addressed), ("/ask why?", true));
        assert!(!heard(in_group(json!({"text": "/ask why?"}))).is_addressed);
        let foreign = serde_json::from_value(in_group(json!({"text": "/status@other_bot"}))).unwrap();
        assert!(matches!(inbound_of(foreign, Some(&me())), Happening::Nothing));
    }

    #[test]
    fn pictures_and_voices_come_with_their_caption() {
        let said = heard(in_group(json!({"caption": "look", "photo": [
            {"file_id": "small", "width": 90, "file_size": 1}, {"file_id": "big", "width": 900, "file_size": 2}]})));
        assert_eq!(said.text, "look");
        assert_eq!(said.files.len(), 1);
        assert_eq!((said.files[0].id.as_str(), said.files[0].kind.as_str()), ("big", "image/jpeg"));
        let said = heard(in_group(json!({"voice": {"file_id": "v", "mime_type": "audio/ogg"}})));
        assert_eq!((said.text.as_str(), said.files[0].name.as_str()), ("", "voice.ogg"));
    }

    #[test]
    fn a_group_that_was_upgraded_tells_its_new_id() {
        let update = serde_json::from_value(in_group(json!({"migrate_to_chat_id": -1005}))).unwrap();
        let Happening::Moved { from, to } = inbound_of(update, None) else { panic!("moved") };
        assert_eq!((from.as_str(), to.as_str()), ("-100", "-1005"));
    }

    #[test]
    fn what_nobody_said_is_nothing() {
        for update in [
            json!({"update_id": 1}),
            json!({"update_id": 1, "message": {"message_id": 1, "chat": {"id": 1}, "text": "no sender"}}),
            in_group(json!({"new_chat_title": "x"})),
        ] {
            let update = serde_json::from_value(update).unwrap();
            assert!(matches!(inbound_of(update, None), Happening::Nothing));
        }
    }
}
