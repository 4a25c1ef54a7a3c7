//! Slack: Socket Mode in, the Web API out.

mod ear;
mod event;
mod web;
mod wire;

use crate::kit::{
    Button, ChatPlace, Click, ClickAnswer, Dialect, OutgoingPart, PaceRules, PartBody, Platform,
    PlatformError, PlatformRules, Rate, RemoteFile,
};
pub use ear::SlackEar;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::time::Duration;
use web::Web;

const SOURCE: &str = "slack";
const API_URL: &str = "https://slack.com/api";
const FILE_BYTES_MAX: u64 = 20_000_000;
/// What a section with buttons below it may have; a message without may have 40,000.
const PART_UNITS_MAX: usize = 3_000;
const LABEL_CHARS_MAX: usize = 75;
const BUTTONS_MAX: usize = 25;

/// How to reach the app.
#[derive(Debug, Clone)]
pub struct SlackSettings {
    /// `xoxb-…`, for what goes out.
    pub bot_token: SecretString,
    /// `xapp-…`, for the socket.
    pub app_token: SecretString,
    pub api_url: String,
    pub file_bytes_max: u64,
    pub pace: PaceRules,
}

impl SlackSettings {
    /// Slack itself and its limits.
    pub fn new(bot_token: SecretString, app_token: SecretString) -> Self {
        let each_second = Rate { count: 1, per: Duration::from_secs(1) };
        Self {
            bot_token,
            app_token,
            api_url: API_URL.to_owned(),
            file_bytes_max: FILE_BYTES_MAX,
            pace: PaceRules {
                chat: each_second,
                group: each_second,
                overall: Rate { count: 5, per: Duration::from_secs(1) },
            },
        }
    }
}

/// An app in a workspace.
#[derive(Debug, Clone)]
pub struct Slack {
    web: Web,
    rules: PlatformRules,
}

impl Slack {
    /// Needs a rustls provider installed in the process.
    pub fn new(settings: SlackSettings) -> Result<Self, PlatformError> {
        let rules = PlatformRules {
            part_units_max: PART_UNITS_MAX,
            dialect: Dialect::SlackMrkdwn,
            button_data_bytes_max: 2_000,
            file_bytes_max: settings.file_bytes_max,
            // Slack keeps what begins with a slash to itself.
            command_mark: '!',
            pace: settings.pace,
            typing_lasts: Duration::from_secs(60),
        };
        Ok(Self { web: Web::new(&settings.api_url, settings.bot_token, settings.app_token)?, rules })
    }
}

impl Platform for Slack {
    type Ear = SlackEar;

    fn source(&self) -> &'static str {
        SOURCE
    }

    fn user_id(&self, user: &str) -> String {
        format!("slack:{user}")
    }

    fn rules(&self) -> &PlatformRules {
        &self.rules
    }

    fn place_of(&self, key: &str) -> Option<ChatPlace> {
        channel_of(key)
    }

    fn ear(&self) -> SlackEar {
        SlackEar::new(self.web.clone())
    }

    async fn send(&self, part: &OutgoingPart<'_>) -> Result<Option<String>, PlatformError> {
        #[derive(Deserialize)]
        struct Posted {
            ts: String,
        }
        let escaped = self.rules.dialect.escape(part.plain);
        let (text, is_formatted) = match part.body {
            PartBody::Formatted(text) => (text, true),
            // Even plain text calls people when it is not escaped.
            PartBody::Plain(_) => (escaped.as_str(), false),
        };
        let request = PostMessage {
            channel: &part.place.chat,
            thread_ts: part.place.thread.as_deref(),
            text,
            mrkdwn: is_formatted,
            blocks: (!part.buttons.is_empty() || part.verbatim.is_some())
                .then(|| Block::of(part, is_formatted)),
            unfurl_links: false,
            unfurl_media: false,
            client_msg_id: uuid_of(part.once),
        };
        let posted: Posted = self.web.call("chat.postMessage", &request).await?;
        Ok(Some(posted.ts))
    }

    /// Slack shows nobody writing who is a program.
    async fn show_typing(&self, _: &ChatPlace) -> Result<(), PlatformError> {
        Ok(())
    }

    async fn answer_click(&self, click: &Click, answer: ClickAnswer) -> Result<(), PlatformError> {
        match answer {
            // The acknowledgement of the envelope is the answer.
            ClickAnswer::PassedOn => Ok(()),
            ClickAnswer::NotForYou => {
                let request = PostEphemeral {
                    channel: &click.place.chat,
                    thread_ts: click.place.thread.as_deref(),
                    user: &click.user,
                    text: answer.words(),
                };
                self.web.call::<serde::de::IgnoredAny>("chat.postEphemeral", &request).await.map(drop)
            }
        }
    }

    async fn clear_buttons(&self, place: &ChatPlace, message: &str) -> Result<(), PlatformError> {
        let mut query = vec![
            ("channel", place.chat.as_str()),
            ("oldest", message),
            ("latest", message),
            ("inclusive", "true"),
            ("limit", "10"),
        ];
        let method = match &place.thread {
            Some(thread) => {
                query.push(("ts", thread));
                "conversations.replies"
            }
            None => "conversations.history",
        };
        let found: History = self.web.look(method, &query).await?;
        let Some(found) = found.messages.into_iter().find(|found| found.ts == message) else {
            return Err(PlatformError::Permanent("the message is gone".to_owned()));
        };
        let blocks = found.blocks.into_iter().filter(|block| block["type"] != "actions").collect();
        let request = Update { channel: &place.chat, ts: message, text: &found.text, blocks };
        self.web.call::<serde::de::IgnoredAny>("chat.update", &request).await.map(drop)
    }

    async fn fetch(&self, file: &RemoteFile, bytes_max: u64) -> Result<Vec<u8>, PlatformError> {
        self.web.download(&file.id, bytes_max).await
    }
}

/// The place that a topic names.
fn channel_of(key: &str) -> Option<ChatPlace> {
    let (channel, thread) = match key.split_once(':') {
        Some((channel, thread)) => (channel, Some(thread)),
        None => (key, None),
    };
    let is_channel =
        channel.starts_with(['C', 'D', 'G']) && channel.chars().all(|letter| letter.is_ascii_alphanumeric());
    let is_thread =
        |ts: &str| !ts.is_empty() && ts.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
    (is_channel && thread.is_none_or(is_thread)).then(|| event::place(channel, thread, ""))
}

/// The name under which Slack knows a message again: the same for the same part.
fn uuid_of(once: &str) -> String {
    let digest = Sha256::digest(once.as_bytes());
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..32])
}

#[derive(Serialize)]
struct PostMessage<'a> {
    channel: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_ts: Option<&'a str>,
    text: &'a str,
    mrkdwn: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<Vec<Block<'a>>>,
    unfurl_links: bool,
    unfurl_media: bool,
    client_msg_id: String,
}

#[derive(Serialize)]
struct PostEphemeral<'a> {
    channel: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_ts: Option<&'a str>,
    user: &'a str,
    text: &'a str,
}

#[derive(Deserialize)]
struct History {
    #[serde(default)]
    messages: Vec<PostedMessage>,
}

#[derive(Deserialize)]
struct PostedMessage {
    ts: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    blocks: Vec<serde_json::Value>,
}

#[derive(Serialize)]
struct Update<'a> {
    channel: &'a str,
    ts: &'a str,
    text: &'a str,
    blocks: Vec<serde_json::Value>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Section { text: BlockText<'a> },
    RichText { elements: [RichElement<'a>; 1] },
    Actions { elements: Vec<BlockButton<'a>> },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BlockText<'a> {
    Mrkdwn { text: &'a str },
    PlainText { text: String },
}

/// A place where nothing is rendered.
#[derive(Serialize)]
struct RichElement<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    elements: [RichPiece<'a>; 1],
}

#[derive(Serialize)]
struct RichPiece<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
struct BlockButton<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    action_id: String,
    text: BlockText<'a>,
    value: &'a str,
}

impl<'a> Block<'a> {
    fn of(part: &OutgoingPart<'a>, is_formatted: bool) -> Vec<Self> {
        let text = match part.body {
            PartBody::Formatted(text) if is_formatted => BlockText::Mrkdwn { text },
            PartBody::Formatted(_) | PartBody::Plain(_) => {
                BlockText::PlainText { text: part.plain.chars().take(PART_UNITS_MAX).collect() }
            }
        };
        let button = |(index, button): (usize, &'a Button)| BlockButton {
            kind: "button",
            action_id: format!("cortex-{index}"),
            text: BlockText::PlainText { text: button.label.chars().take(LABEL_CHARS_MAX).collect() },
            value: &button.data,
        };
        let elements: Vec<_> = part.buttons.iter().take(BUTTONS_MAX).enumerate().map(button).collect();
        let mut blocks = vec![Self::Section { text }];
        // The plain text has it already.
        if let Some(verbatim) = part.verbatim.filter(|_| is_formatted) {
            let piece = RichPiece { kind: "text", text: &verbatim.text };
            blocks.push(Self::RichText {
                elements: [RichElement { kind: "rich_text_preformatted", elements: [piece] }],
            });
            let note = verbatim.note.clone().map(|text| BlockText::PlainText { text });
            blocks.extend(note.map(|text| Self::Section { text }));
        }
        if !elements.is_empty() {
            blocks.push(Self::Actions { elements });
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_names_a_channel_and_perhaps_a_thread_in_it() {
        for (key, is_group) in [("C1", true), ("D0123", false), ("G1:1700000000.000100", true)] {
            let place = channel_of(key).unwrap();
            assert_eq!((place.key().as_str(), place.is_group), (key, is_group));
        }
        for key in ["", "general", "C1:", "C1:x", "C-1", "!r:x"] {
            assert_eq!(channel_of(key), None, "{key}");
        }
    }

    #[test]
    fn the_same_part_has_the_same_uuid() {
        let uuid = uuid_of("out_1-0");
        assert_eq!(uuid, uuid_of("out_1-0"));
        assert_ne!(uuid, uuid_of("out_1-1"));
        let parts: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
    }
}
