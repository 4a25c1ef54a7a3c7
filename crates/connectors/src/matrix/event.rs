//! From an event of a room to what happened.

use super::homeserver::Me;
use super::wire::{Content, RoomEvent};
use crate::kit::{ChatPlace, Happening, Quote, QuoteKind, Reaction, RemoteFile, Said, Sign};
use cortex_types::Millis;

/// The other event that must be known to understand this one: what it replaces, or what it replies to.
pub(super) fn wants(event: &RoomEvent, me: &Me) -> Option<String> {
    let is_said = event.kind == "m.room.message" && event.sender != me.id;
    let other = event.replaces().or_else(|| event.replies_to());
    other.filter(|_| is_said).map(str::to_owned)
}

/// What happened in a room, seen with the event that `wants` named.
pub(super) fn happening(
    event: RoomEvent,
    other: Option<&RoomEvent>,
    room: &str,
    is_group: bool,
    me: &Me,
) -> Happening {
    if event.sender == me.id {
        return Happening::Nothing;
    }
    let original = event.replaces().and(other).unwrap_or(&event);
    let place =
        ChatPlace { chat: room.to_owned(), thread: original.thread_root().map(str::to_owned), is_group };
    match event.kind.as_str() {
        "m.room.message" => said(event, other, place, me),
        "m.room.encrypted" => Happening::Unreadable { user: event.sender, place },
        "m.reaction" => reaction(&event, place),
        _ => Happening::Nothing,
    }
}

struct Words {
    text: String,
    files: Vec<RemoteFile>,
    is_edit: bool,
    is_addressed: bool,
    quote: Option<Quote>,
}

fn said(event: RoomEvent, other: Option<&RoomEvent>, place: ChatPlace, me: &Me) -> Happening {
    let is_edit = event.replaces().is_some();
    let content = match &event.content.new_content {
        Some(new) if is_edit => new,
        Some(_) | None => &event.content,
    };
    // What was taken back has no type any more; a notice comes from another program.
    let (text, files) = match content.msgtype.as_deref() {
        Some("m.text") => (content.body.clone().unwrap_or_default(), Vec::new()),
        Some("m.emote") => (format!("* {}", content.body.as_deref().unwrap_or_default()), Vec::new()),
        Some("m.image" | "m.file" | "m.audio" | "m.video") => (caption(content), vec![file(content)]),
        Some(_) | None => return Happening::Nothing,
    };
    let replied = other.filter(|_| !is_edit);
    // Some clients repeat it in an edit as well.
    let is_edited_reply = is_edit && other.is_some_and(|original| original.replies_to().is_some());
    let is_reply = event.replies_to().is_some() || is_edited_reply;
    let text = if is_reply { without_fallback(&text).to_owned() } else { text };
    let is_reply_to_us = replied.is_some_and(|replied| replied.sender == me.id);
    let is_addressed = is_reply_to_us || mentions(content, &text, me);
    let quote = replied.and_then(|replied| quote(replied, is_reply_to_us));
    said_as(event, Words { text, files, is_edit, is_addressed, quote }, place)
}

fn said_as(event: RoomEvent, words: Words, place: ChatPlace) -> Happening {
    Happening::Said(Box::new(Said {
        external_id: event.event_id.clone(),
        is_addressed: words.is_addressed || !place.is_group,
        place,
        user_name: None,
        user: event.sender,
        text: words.text,
        occurred_at: Millis(event.origin_server_ts.max(0)),
        is_edit: words.is_edit,
        quoted: words.quote,
        files: words.files,
        message: Some(event.event_id),
    }))
}

fn reaction(event: &RoomEvent, place: ChatPlace) -> Happening {
    let key = event.content.relates_to.as_ref().and_then(|relation| relation.key.as_deref());
    match (event.annotates(), key.and_then(sign)) {
        (Some(message), Some(sign)) => Happening::Reacted(Reaction {
            external_id: event.event_id.clone(),
            place,
            user: event.sender.clone(),
            message: message.to_owned(),
            sign,
            occurred_at: Millis(event.origin_server_ts.max(0)),
        }),
        (None | Some(_), _) => Happening::Nothing,
    }
}

/// The answer that an emoji gives, in whichever colour.
fn sign(key: &str) -> Option<Sign> {
    let is_colour = |letter: &char| matches!(letter, '\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}');
    match key.chars().filter(|letter| !is_colour(letter)).collect::<String>().as_str() {
        "👍" | "✅" | "✔" => Some(Sign::Yes),
        "👎" | "❌" | "✖" => Some(Sign::No),
        _ => None,
    }
}

/// The text without the lines that repeat what it replies to.
fn without_fallback(body: &str) -> &str {
    let mut rest = body;
    while let Some(line) = rest.split_inclusive('\n').next().filter(|line| line.starts_with('>')) {
        rest = &rest[line.len()..];
    }
    if rest.len() == body.len() { body } else { rest.strip_prefix('\n').unwrap_or(rest) }
}

/// Clients that name whom they mean are believed; of others the text is read.
fn mentions(content: &Content, text: &str, me: &Me) -> bool {
    match &content.mentions {
        Some(mentions) => mentions.user_ids.contains(&me.id),
        None => text.contains(&me.id) || me.name.as_deref().is_some_and(|name| has_word(text, name)),
    }
}

fn has_word(text: &str, name: &str) -> bool {
    let (text, name) = (text.to_lowercase(), name.to_lowercase());
    text.match_indices(&name).any(|(at, found)| {
        let before = text[..at].chars().next_back();
        let after = text[at + found.len()..].chars().next();
        ![before, after].into_iter().flatten().any(char::is_alphanumeric)
    })
}

fn quote(replied: &RoomEvent, is_ours: bool) -> Option<Quote> {
    let body = replied.content.body.as_deref()?;
    let text = if replied.replies_to().is_some() { without_fallback(body) } else { body };
    let kind = if is_ours { QuoteKind::ReplyToAssistant } else { QuoteKind::Reply };
    Some(Quote { author: Some(replied.sender.clone()), text: text.to_owned(), kind })
}

fn caption(content: &Content) -> String {
    let body = content.body.clone().unwrap_or_default();
    match &content.filename {
        Some(name) if *name != body => body,
        Some(_) | None => String::new(),
    }
}

fn file(content: &Content) -> RemoteFile {
    let name = content.filename.as_ref().or(content.body.as_ref());
    let info = content.info.as_ref();
    RemoteFile {
        // An encrypted file has no address that we could read; fetching it says so.
        id: content.url.clone().unwrap_or_default(),
        name: name.cloned().unwrap_or_else(|| "file".to_owned()),
        kind: info
            .and_then(|info| info.mimetype.clone())
            .unwrap_or_else(|| "application/octet-stream".to_owned()),
        bytes: info.and_then(|info| info.size),
    }
}

#[cfg(test)]
mod tests;
