//! Discord: the gateway in, the REST API out.

mod ear;
mod event;
mod gateway;
mod rest;
mod wire;

use crate::kit::{
    Button, ChatPlace, Click, ClickAnswer, Dialect, OutgoingPart, PaceRules, PartBody, Platform,
    PlatformError, PlatformRules, Rate, RemoteFile, approval_word,
};
pub use ear::DiscordEar;
use reqwest::Method;
use rest::Rest;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::time::Duration;

const SOURCE: &str = "discord";
const API_URL: &str = "https://discord.com/api/v10";
const FILE_BYTES_MAX: u64 = 20_000_000;
const LABEL_CHARS_MAX: usize = 80;
const BUTTONS_IN_ROW: usize = 5;
const ROWS_MAX: usize = 5;
/// No previews: they are fetched by Discord, and tell a page that it was named.
const SUPPRESS_EMBEDS: u32 = 1 << 2;
/// Seen by the person alone who pressed.
const EPHEMERAL: u32 = 1 << 6;

/// How to reach the bot.
#[derive(Debug, Clone)]
pub struct DiscordSettings {
    pub token: SecretString,
    pub api_url: String,
    pub file_bytes_max: u64,
    pub pace: PaceRules,
}

impl DiscordSettings {
    /// Discord itself and its limits.
    pub fn new(token: SecretString) -> Self {
        let five = Rate { count: 5, per: Duration::from_secs(5) };
        Self {
            token,
            api_url: API_URL.to_owned(),
            file_bytes_max: FILE_BYTES_MAX,
            pace: PaceRules {
                chat: five,
                group: five,
                overall: Rate { count: 40, per: Duration::from_secs(1) },
            },
        }
    }
}

/// A bot.
#[derive(Debug, Clone)]
pub struct Discord {
    rest: Rest,
    rules: PlatformRules,
}

impl Discord {
    /// Needs a rustls provider installed in the process.
    pub fn new(settings: DiscordSettings) -> Result<Self, PlatformError> {
        let rules = PlatformRules {
            part_units_max: 2_000,
            dialect: Dialect::DiscordMarkdown,
            button_data_bytes_max: 100,
            file_bytes_max: settings.file_bytes_max,
            // Discord keeps what begins with a slash to itself.
            command_mark: '!',
            pace: settings.pace,
            typing_lasts: Duration::from_secs(10),
        };
        Ok(Self { rest: Rest::new(&settings.api_url, settings.token)?, rules })
    }
}

impl Platform for Discord {
    type Ear = DiscordEar;

    fn source(&self) -> &'static str {
        SOURCE
    }

    fn user_id(&self, user: &str) -> String {
        format!("discord:{user}")
    }

    fn rules(&self) -> &PlatformRules {
        &self.rules
    }

    fn place_of(&self, key: &str) -> Option<ChatPlace> {
        // A thread is a channel of its own.
        key.parse::<u64>().ok().map(|id| ChatPlace { chat: id.to_string(), thread: None, is_group: true })
    }

    fn ear(&self) -> DiscordEar {
        DiscordEar::new(self.rest.clone())
    }

    async fn send(&self, part: &OutgoingPart<'_>) -> Result<Option<String>, PlatformError> {
        #[derive(Deserialize)]
        struct Created {
            id: String,
        }
        let (PartBody::Formatted(content) | PartBody::Plain(content)) = part.body;
        let request = CreateMessage {
            content,
            nonce: nonce_of(part.once),
            enforce_nonce: true,
            flags: SUPPRESS_EMBEDS,
            allowed_mentions: AllowedMentions { parse: [] },
            components: rows(part.buttons),
        };
        let path = format!("/channels/{}/messages", part.place.chat);
        let created: Created = self.rest.send(Method::POST, &path, &request).await?.expect("a message")?;
        Ok(Some(created.id))
    }

    async fn show_typing(&self, place: &ChatPlace) -> Result<(), PlatformError> {
        let path = format!("/channels/{}/typing", place.chat);
        self.rest.send(Method::POST, &path, &NoFields {}).await.map(drop)
    }

    async fn answer_click(&self, click: &Click, answer: ClickAnswer) -> Result<(), PlatformError> {
        let callback = match answer {
            ClickAnswer::PassedOn => Callback { kind: 6, data: None },
            ClickAnswer::NotForYou => {
                Callback { kind: 4, data: Some(CallbackData { content: answer.words(), flags: EPHEMERAL }) }
            }
        };
        let path = format!("/interactions/{}/callback", click.answer_id);
        self.rest.send(Method::POST, &path, &callback).await.map(drop)
    }

    async fn clear_buttons(&self, place: &ChatPlace, message: &str) -> Result<(), PlatformError> {
        let path = format!("/channels/{}/messages/{message}", place.chat);
        self.rest.send(Method::PATCH, &path, &ClearButtons { components: [] }).await.map(drop)
    }

    async fn fetch(&self, file: &RemoteFile, bytes_max: u64) -> Result<Vec<u8>, PlatformError> {
        self.rest.download(&file.id, bytes_max).await
    }
}

/// The name under which Discord knows a message again, for a few minutes: the same for the same part.
fn nonce_of(once: &str) -> String {
    let digest = Sha256::digest(once.as_bytes());
    digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

fn rows<'a>(buttons: &'a [Button]) -> Vec<Row<'a>> {
    let component = |button: &'a Button| Component {
        kind: 2,
        style: match approval_word(&button.data) {
            Some("approve") => 3,
            Some("deny") => 4,
            Some(_) | None => 2,
        },
        label: button.label.chars().take(LABEL_CHARS_MAX).collect(),
        custom_id: &button.data,
    };
    let row = |some: &'a [Button]| Row { kind: 1, components: some.iter().map(component).collect() };
    buttons.chunks(BUTTONS_IN_ROW).take(ROWS_MAX).map(row).collect()
}

#[derive(Serialize)]
struct NoFields {}

#[derive(Serialize)]
struct CreateMessage<'a> {
    content: &'a str,
    nonce: String,
    enforce_nonce: bool,
    flags: u32,
    allowed_mentions: AllowedMentions,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    components: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    #[serde(rename = "type")]
    kind: u8,
    components: Vec<Component<'a>>,
}

#[derive(Serialize)]
struct Component<'a> {
    #[serde(rename = "type")]
    kind: u8,
    style: u8,
    label: String,
    custom_id: &'a str,
}

/// Nobody is called by what the assistant writes.
#[derive(Serialize)]
struct AllowedMentions {
    parse: [&'static str; 0],
}

#[derive(Serialize)]
struct Callback {
    #[serde(rename = "type")]
    kind: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<CallbackData>,
}

#[derive(Serialize)]
struct CallbackData {
    content: &'static str,
    flags: u32,
}

#[derive(Serialize)]
struct ClearButtons {
    components: [NoFields; 0],
}
