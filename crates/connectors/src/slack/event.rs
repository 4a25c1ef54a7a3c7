//! From what comes over the socket to what happened.

use super::wire::{Envelope, EventPayload, Interaction, SlackEvent, SlackFile, SlackMessage, SlashCommand};
use crate::kit::{ChatPlace, Click, Happening, Quote, QuoteKind, RemoteFile, Said};
use cortex_types::Millis;
use serde::Deserialize;

/// Our own account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Me {
    pub(super) user: String,
}

/// What an envelope holds; nothing when it is none of our business.
pub(super) fn happenings(envelope: &Envelope, me: &Me, now: Millis) -> Vec<Happening> {
    let read = match envelope.kind.as_str() {
        "events_api" => {
            payload::<EventPayload>(envelope).map(|read| said(read.event, me).into_iter().collect())
        }
        "interactive" => payload::<Interaction>(envelope).map(clicks),
        "slash_commands" => payload::<SlashCommand>(envelope).map(|command| vec![commanded(command, now)]),
        _ => return Vec::new(),
    };
    read.unwrap_or_else(|error| {
        // One that cannot be read must not hold up those behind it.
        tracing::warn!(%error, "an envelope of an unknown shape is passed over");
        Vec::new()
    })
}

fn payload<'a, T: Deserialize<'a>>(envelope: &'a Envelope) -> Result<T, serde_json::Error> {
    serde_json::from_str(envelope.payload.as_ref().map_or("null", |raw| raw.as_str()))
}

/// A channel, or a thread in it: the message that begins a thread stands in the channel.
pub(super) fn place(channel: &str, thread_ts: Option<&str>, ts: &str) -> ChatPlace {
    ChatPlace {
        chat: channel.to_owned(),
        thread: thread_ts.filter(|thread| *thread != ts).map(str::to_owned),
        is_group: !channel.starts_with('D'),
    }
}

fn said(event: SlackEvent, me: &Me) -> Option<Happening> {
    let channel = event.channel?;
    let is_edit = event.subtype.as_deref() == Some("message_changed");
    let message = match (event.kind.as_str(), event.subtype.as_deref()) {
        ("app_mention", _) | ("message", None | Some("file_share" | "thread_broadcast" | "me_message")) => {
            event.message
        }
        // A preview that Slack added changes the message and not its words.
        ("message", Some("message_changed")) => event.changed.filter(|now| {
            now.edited.is_some() && event.previous_message.is_none_or(|old| old.text != now.text)
        })?,
        _ => return None,
    };
    let user = message.user.clone().filter(|user| message.bot_id.is_none() && *user != me.user)?;
    let place = place(&channel, message.thread_ts.as_deref(), &message.ts);
    let files: Vec<RemoteFile> = message.files.iter().map(remote).collect();
    let text = words(&message.text, me);
    let shared = message.attachments.iter().find(|attachment| attachment.is_share);
    if text.is_empty() && files.is_empty() && shared.is_none() {
        return None;
    }
    let quoted = shared.map(|shared| Quote {
        author: shared.author_name.clone(),
        text: words(shared.text.as_deref().unwrap_or_default(), me),
        kind: QuoteKind::Forward,
    });
    Some(Happening::Said(Box::new(Said {
        external_id: identity(&channel, &message, is_edit),
        is_addressed: !place.is_group || is_addressed(&message, me),
        place,
        user,
        user_name: None,
        text,
        occurred_at: moment(message.edited.as_ref().map_or(&message.ts, |edited| &edited.ts)),
        is_edit,
        quoted,
        files,
        message: Some(message.ts),
    })))
}

/// The same message comes as a message and as a mention, each with an id of its own: its place names it.
fn identity(channel: &str, message: &SlackMessage, is_edit: bool) -> String {
    match &message.edited {
        Some(edited) if is_edit => format!("{channel}-{}-{}", message.ts, edited.ts),
        Some(_) | None => format!("{channel}-{}", message.ts),
    }
}

fn is_addressed(message: &SlackMessage, me: &Me) -> bool {
    message.text.contains(&format!("<@{}", me.user))
        || message.parent_user_id.as_deref() == Some(me.user.as_str())
}

fn clicks(interaction: Interaction) -> Vec<Happening> {
    let (Some(channel), Some(container)) = (interaction.channel, interaction.container) else {
        return Vec::new();
    };
    if interaction.kind != "block_actions" {
        return Vec::new();
    }
    let message = container.message_ts.unwrap_or_default();
    let place = place(&channel.id, container.thread_ts.as_deref(), &message);
    let click = |action: super::wire::Action| {
        Happening::Clicked(Click {
            external_id: format!("action:{}-{message}-{}", channel.id, action.action_ts),
            answer_id: String::new(),
            place: place.clone(),
            user: interaction.user.id.clone(),
            data: action.value,
            message: Some(message.clone()),
            occurred_at: moment(&action.action_ts),
        })
    };
    interaction.actions.into_iter().filter(|action| !action.value.is_empty()).map(click).collect()
}

fn commanded(command: SlashCommand, now: Millis) -> Happening {
    Happening::Said(Box::new(Said {
        external_id: format!("command:{}", command.trigger_id),
        place: place(&command.channel_id, None, ""),
        user: command.user_id,
        user_name: None,
        text: command.text,
        occurred_at: now,
        is_addressed: true,
        is_edit: false,
        quoted: None,
        files: Vec::new(),
        message: None,
    }))
}

fn remote(file: &SlackFile) -> RemoteFile {
    RemoteFile {
        // A file of another workspace has no address for us; fetching it says so.
        id: file.url_private.clone().unwrap_or_default(),
        name: file.name.clone().unwrap_or_else(|| "file".to_owned()),
        kind: file.mimetype.clone().unwrap_or_else(|| "application/octet-stream".to_owned()),
        bytes: file.size,
    }
}

/// `1700000000.000100` is seconds and a number that tells apart.
fn moment(ts: &str) -> Millis {
    let (seconds, rest) = ts.split_once('.').unwrap_or((ts, ""));
    let seconds: i64 = seconds.parse().unwrap_or(0);
    let millis: i64 = rest.get(..3).and_then(|digits| digits.parse().ok()).unwrap_or(0);
    Millis(seconds.saturating_mul(1_000).saturating_add(millis).max(0))
}

/// What a person reads of Slack's markup; our own name in front is dropped, so that a command is one.
fn words(text: &str, me: &Me) -> String {
    let own = format!("<@{}>", me.user);
    let mut rest = text.trim_start();
    while let Some(behind) = rest.strip_prefix(&own) {
        rest = behind.trim_start_matches([' ', ':', ',']);
    }
    let mut plain = String::new();
    while let Some((before, marked)) = rest.split_once('<') {
        plain.push_str(before);
        match marked.split_once('>') {
            Some((inside, behind)) => {
                plain.push_str(&shown(inside));
                rest = behind;
            }
            None => {
                plain.push('<');
                rest = marked;
            }
        }
    }
    plain.push_str(rest);
    plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// `@U1`, `#C1|name`, `!here`, `https://…|name`.
fn shown(inside: &str) -> String {
    let (target, name) = match inside.split_once('|') {
        Some((target, name)) => (target, Some(name).filter(|name| !name.is_empty())),
        None => (inside, None),
    };
    match (target.chars().next(), name) {
        (Some('@'), Some(name)) => format!("@{name}"),
        (Some('#'), Some(name)) => format!("#{name}"),
        (Some('@' | '#'), None) => target.to_owned(),
        (Some('!'), name) => format!("@{}", name.unwrap_or(&target[1..]).trim_start_matches('@')),
        (_, Some(name)) if name != target => format!("{name} ({target})"),
        (_, _) => target.to_owned(),
    }
}

#[cfg(test)]
mod tests;
