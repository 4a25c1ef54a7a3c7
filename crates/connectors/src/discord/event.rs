//! From what the gateway sends to what happened.

use super::wire::{DiscordFile, DiscordInteraction, DiscordMessage, DiscordUser};
use crate::kit::{ChatPlace, Click, Happening, Quote, QuoteKind, RemoteFile, Said};
use cortex_types::{JsonText, Millis};

/// The first moment of Discord's ids.
const EPOCH_MS: u64 = 1_420_070_400_000;
const DEFAULT: u8 = 0;
const REPLY: u8 = 19;
const COMPONENT: u8 = 3;

/// What a dispatch means; nothing when it is none of our business.
pub(super) fn happening(kind: &str, data: &JsonText, me: &str) -> Happening {
    let read = match kind {
        "MESSAGE_CREATE" => data.read().map(|message| {
            let message: DiscordMessage = message;
            let is_group = message.guild_id.is_some();
            said(message, is_group, me)
        }),
        "MESSAGE_UPDATE" => data.read().map(|message: DiscordMessage| {
            let is_group = message.guild_id.is_some();
            // Discord adds a preview by an update as well; a person's edit has a time.
            if message.edited_timestamp.is_some() { said(message, is_group, me) } else { Happening::Nothing }
        }),
        "INTERACTION_CREATE" => data.read().map(click),
        _ => return Happening::Nothing,
    };
    read.unwrap_or_else(|error| {
        // One that cannot be read must not hold up those behind it.
        tracing::warn!(%error, kind, "something of an unknown shape is passed over");
        Happening::Nothing
    })
}

pub(super) fn said(message: DiscordMessage, is_group: bool, me: &str) -> Happening {
    let is_words = matches!(message.kind, DEFAULT | REPLY) && message.webhook_id.is_none();
    let Some(author) = message.author.as_ref().filter(|author| is_words && !author.bot && author.id != me)
    else {
        return Happening::Nothing;
    };
    let text = words(&message, me);
    let snapshot = message.message_snapshots.first().map(|snapshot| &snapshot.message);
    let passed_on = snapshot.iter().flat_map(|snapshot| &snapshot.attachments);
    let files: Vec<RemoteFile> = message.attachments.iter().chain(passed_on).map(remote).collect();
    if text.is_empty() && files.is_empty() && snapshot.is_none() {
        return Happening::Nothing;
    }
    let forwarded = snapshot.map(|snapshot| Quote {
        author: None,
        text: snapshot.content.clone(),
        kind: QuoteKind::Forward,
    });
    let replied = message.referenced_message.as_deref();
    let is_reply_to_us = replied.and_then(|replied| replied.author.as_ref()).is_some_and(|by| by.id == me);
    let external_id = match &message.edited_timestamp {
        Some(edited) => format!("{}-{edited}", message.id),
        None => message.id.clone(),
    };
    Happening::Said(Box::new(Said {
        external_id,
        place: ChatPlace { chat: message.channel_id, thread: None, is_group },
        user: author.id.clone(),
        user_name: Some(name_of(author)),
        text,
        occurred_at: moment(&message.id),
        is_addressed: !is_group || is_reply_to_us || message.mentions.iter().any(|user| user.id == me),
        is_edit: message.edited_timestamp.is_some(),
        quoted: forwarded.or_else(|| replied.map(|replied| quote(replied, is_reply_to_us))),
        files,
        message: Some(message.id),
    }))
}

fn click(interaction: DiscordInteraction) -> Happening {
    let user = interaction.member.map(|member| member.user).or(interaction.user);
    let (Some(user), Some(channel), Some(data)) = (user, interaction.channel_id, interaction.data) else {
        return Happening::Nothing;
    };
    if interaction.kind != COMPONENT {
        return Happening::Nothing;
    }
    Happening::Clicked(Click {
        external_id: format!("click:{}", interaction.id),
        answer_id: format!("{}/{}", interaction.id, interaction.token),
        place: ChatPlace { chat: channel, thread: None, is_group: interaction.guild_id.is_some() },
        user: user.id,
        data: data.custom_id,
        message: interaction.message.map(|message| message.id),
        occurred_at: moment(&interaction.id),
    })
}

fn quote(replied: &DiscordMessage, is_ours: bool) -> Quote {
    let passed_on = replied.message_snapshots.first().map(|snapshot| snapshot.message.content.as_str());
    let words = [passed_on.unwrap_or_default(), replied.content.as_str(), "something without words"];
    let text = words.into_iter().find(|words| !words.is_empty()).unwrap_or_default().to_owned();
    let kind = if is_ours { QuoteKind::ReplyToAssistant } else { QuoteKind::Reply };
    Quote { author: replied.author.as_ref().map(name_of), text, kind }
}

fn name_of(user: &DiscordUser) -> String {
    user.global_name.clone().unwrap_or_else(|| user.username.clone())
}

/// What a person reads; our own name in front is dropped, so that a command is one.
fn words(message: &DiscordMessage, me: &str) -> String {
    let own = [format!("<@{me}>"), format!("<@!{me}>")];
    let mut rest = message.content.trim();
    while let Some(behind) = own.iter().find_map(|name| rest.strip_prefix(name.as_str())) {
        rest = behind.trim_start_matches([' ', ':', ',']);
    }
    let mut text = rest.to_owned();
    for user in &message.mentions {
        let name = format!("@{}", name_of(user));
        text = text.replace(&format!("<@{}>", user.id), &name).replace(&format!("<@!{}>", user.id), &name);
    }
    let stickers = message.sticker_items.iter().map(|sticker| format!("(sticker {})", sticker.name));
    let parts = Some(text).filter(|text| !text.is_empty()).into_iter().chain(stickers);
    parts.collect::<Vec<_>>().join("\n")
}

fn remote(file: &DiscordFile) -> RemoteFile {
    RemoteFile {
        id: file.url.clone(),
        name: file.filename.clone(),
        kind: file.content_type.clone().unwrap_or_else(|| "application/octet-stream".to_owned()),
        bytes: file.size,
    }
}

/// Discord's ids begin with the time.
fn moment(id: &str) -> Millis {
    let number: u64 = id.parse().unwrap_or(0);
    Millis(i64::try_from((number >> 22) + EPOCH_MS).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
