//! Matrix: long polling of a homeserver, rooms and threads, and signs under a question instead of buttons.

mod event;
mod homeserver;
mod sync;
mod wire;

use crate::kit::{
    Button, ChatPlace, Click, ClickAnswer, Dialect, OutgoingPart, PaceRules, PartBody, Platform,
    PlatformError, PlatformRules, Rate, RemoteFile, approval_word, encoded,
};
use homeserver::Homeserver;
use secrecy::SecretString;
use serde::Serialize;
use std::time::Duration;
pub use sync::MatrixEar;
use tokio::time::Instant;
use wire::SentEvent;

const SOURCE: &str = "matrix";
const API_URL: &str = "https://matrix-client.matrix.org";
const POLL: Duration = Duration::from_secs(30);
/// How long a message may wait for the homeserver's pace before it is given back; its lease lasts longer.
const PATIENCE: Duration = Duration::from_secs(120);
const TYPING: Duration = Duration::from_secs(6);
const FILE_BYTES_MAX: u64 = 20_000_000;
/// An event may have 65,536 bytes, and the text is in it twice: as it was written, and as HTML.
const PART_UNITS_MAX: usize = 6_000;

/// How to reach the account.
#[derive(Debug, Clone)]
pub struct MatrixSettings {
    /// An access token.
    pub token: SecretString,
    /// The homeserver.
    pub api_url: String,
    /// How long one poll waits for something to happen.
    pub poll: Duration,
    pub file_bytes_max: u64,
    pub pace: PaceRules,
}

impl MatrixSettings {
    /// The homeserver matrix.org and what servers let through by default.
    pub fn new(token: SecretString) -> Self {
        let some = Rate { count: 10, per: Duration::from_secs(10) };
        Self {
            token,
            api_url: API_URL.to_owned(),
            poll: POLL,
            file_bytes_max: FILE_BYTES_MAX,
            pace: PaceRules { chat: some, group: some, overall: some },
        }
    }
}

/// An account on a homeserver.
#[derive(Debug, Clone)]
pub struct Matrix {
    server: Homeserver,
    rules: PlatformRules,
    poll: Duration,
}

impl Matrix {
    /// Needs a rustls provider installed in the process.
    pub fn new(settings: MatrixSettings) -> Result<Self, PlatformError> {
        let rules = PlatformRules {
            part_units_max: PART_UNITS_MAX,
            dialect: Dialect::MatrixHtml,
            button_data_bytes_max: 256,
            file_bytes_max: settings.file_bytes_max,
            // Clients keep what begins with a slash to themselves.
            command_mark: '!',
            pace: settings.pace,
            typing_lasts: TYPING,
        };
        let server = Homeserver::new(&settings.api_url, settings.token)?;
        Ok(Self { server, rules, poll: settings.poll })
    }
}

impl Matrix {
    /// Whether the homeserver wants to hear from us again before the lease of a message is in danger.
    fn ends_soon(&self, started: Instant) -> bool {
        self.server.quiet_until().is_none_or(|until| until.duration_since(started) < PATIENCE)
    }
}

impl Platform for Matrix {
    type Ear = MatrixEar;

    fn source(&self) -> &'static str {
        SOURCE
    }

    fn user_id(&self, user: &str) -> String {
        format!("matrix:{user}")
    }

    fn rules(&self) -> &PlatformRules {
        &self.rules
    }

    fn place_of(&self, key: &str) -> Option<ChatPlace> {
        room_of(key)
    }

    fn ear(&self) -> MatrixEar {
        MatrixEar::new(self.server.clone(), self.poll)
    }

    async fn send(&self, part: &OutgoingPart<'_>) -> Result<Option<String>, PlatformError> {
        let room = encoded(&part.place.chat);
        // The server answers a second call with the same name as it answered the first, and sends nothing.
        let path = format!("/v3/rooms/{room}/send/m.room.message/{}", encoded(part.once));
        let content = RoomMessage::of(part);
        let started = Instant::now();
        loop {
            match self.server.ask::<SentEvent>(self.server.put(&path, &content)).await {
                Ok(sent) => return Ok(Some(sent.event_id)),
                // The next call waits as long as it was told to; a message that is given back would cost an attempt.
                Err(PlatformError::RetryAfter { .. }) if self.ends_soon(started) => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn show_typing(&self, place: &ChatPlace) -> Result<(), PlatformError> {
        // Nobody is shown writing while the homeserver wants to hear nothing.
        if self.server.quiet_until().is_some() {
            return Ok(());
        }
        let me = self.server.me().await?;
        let path = format!("/v3/rooms/{}/typing/{}", encoded(&place.chat), encoded(&me.id));
        let body = Typing { typing: true, timeout: TYPING.as_millis() };
        self.server.ask::<serde::de::IgnoredAny>(self.server.put(&path, &body)).await.map(drop)
    }

    /// There are no buttons, and a sign needs no answer.
    async fn answer_click(&self, _: &Click, _: ClickAnswer) -> Result<(), PlatformError> {
        Ok(())
    }

    async fn clear_buttons(&self, _: &ChatPlace, _: &str) -> Result<(), PlatformError> {
        Ok(())
    }

    async fn join(&self, chat: &str) -> Result<(), PlatformError> {
        let request = self.server.post(&format!("/v3/join/{}", encoded(chat)));
        self.server.ask::<serde::de::IgnoredAny>(request).await.map(drop)
    }

    async fn fetch(&self, file: &RemoteFile, bytes_max: u64) -> Result<Vec<u8>, PlatformError> {
        let place = file.id.strip_prefix("mxc://").and_then(|rest| rest.split_once('/'));
        let Some((server, media)) = place.filter(|(server, media)| !server.is_empty() && !media.is_empty())
        else {
            return Err(PlatformError::Permanent("the file is encrypted or nowhere".to_owned()));
        };
        let path = format!("/v1/media/download/{}/{}", encoded(server), encoded(media));
        self.server.download(self.server.get(&path), bytes_max).await
    }
}

/// The place that a topic names.
fn room_of(key: &str) -> Option<ChatPlace> {
    // A room's id has colons of its own; an event's id begins with a dollar sign.
    let (chat, thread) = match key.split_once(":$") {
        Some((chat, thread)) => (chat, Some(format!("${thread}"))),
        None => (key, None),
    };
    let is_room = chat.len() > 1 && chat.starts_with('!');
    is_room.then(|| ChatPlace { chat: chat.to_owned(), thread, is_group: true })
}

#[derive(Serialize)]
struct Typing {
    typing: bool,
    timeout: u128,
}

#[derive(Serialize)]
struct RoomMessage<'a> {
    msgtype: &'static str,
    body: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    formatted_body: Option<String>,
    /// Nobody is called by what the assistant writes.
    #[serde(rename = "m.mentions")]
    mentions: NoMentions,
    #[serde(rename = "m.relates_to", skip_serializing_if = "Option::is_none")]
    relates_to: Option<InThread<'a>>,
}

#[derive(Serialize)]
struct NoMentions {}

#[derive(Serialize)]
struct InThread<'a> {
    rel_type: &'static str,
    event_id: &'a str,
    is_falling_back: bool,
    #[serde(rename = "m.in_reply_to")]
    in_reply_to: ReplyTo<'a>,
}

#[derive(Serialize)]
struct ReplyTo<'a> {
    event_id: &'a str,
}

impl<'a> RoomMessage<'a> {
    fn of(part: &OutgoingPart<'a>) -> Self {
        let choices: Vec<Choice> = part.buttons.iter().map(Choice::of).collect();
        let lines = |written: fn(&Choice) -> String| choices.iter().map(written).collect::<Vec<_>>();
        let mut body = part.plain.to_owned();
        if !choices.is_empty() {
            body.push_str(&format!("\n\n{}", lines(Choice::plain).join("\n")));
        }
        let formatted_body = match part.body {
            PartBody::Formatted(html) if choices.is_empty() => Some(html.to_owned()),
            PartBody::Formatted(html) => {
                Some(format!("{html}\n<p>{}</p>", lines(Choice::html).join("<br />")))
            }
            PartBody::Plain(_) => None,
        };
        let relates_to = part.place.thread.as_deref().map(|root| InThread {
            rel_type: "m.thread",
            event_id: root,
            is_falling_back: true,
            in_reply_to: ReplyTo { event_id: root },
        });
        Self {
            msgtype: "m.text",
            body,
            format: formatted_body.as_ref().map(|_| "org.matrix.custom.html"),
            formatted_body,
            mentions: NoMentions {},
            relates_to,
        }
    }
}

/// A button as words: what to send instead of pressing it, and which sign stands for it.
struct Choice {
    label: String,
    data: String,
    sign: &'static str,
}

impl Choice {
    fn of(button: &Button) -> Self {
        let sign = match approval_word(&button.data) {
            Some("approve") => "react with 👍, or ",
            Some("deny") => "react with 👎, or ",
            Some(_) | None => "",
        };
        Self { label: button.label.clone(), data: button.data.clone(), sign }
    }

    fn plain(&self) -> String {
        format!("{}: {}send {}", self.label, self.sign, self.data)
    }

    fn html(&self) -> String {
        let escaped = |text: &str| Dialect::MatrixHtml.escape(text);
        format!("{}: {}send <code>{}</code>", escaped(&self.label), self.sign, escaped(&self.data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_names_a_room_and_perhaps_a_thread_in_it() {
        for key in ["!a:x.example", "!a:localhost:8448", "!a:x:$root", "!hash:$root:x"] {
            assert_eq!(room_of(key).unwrap().key(), key);
        }
        assert_eq!(room_of("!a:localhost:8448:$r:x").unwrap().chat, "!a:localhost:8448");
        for key in ["", "!", "-100:7", "$root"] {
            assert_eq!(room_of(key), None, "{key}");
        }
    }
}
