//! Telegram: long polling of the Bot API, and what its messages look like.

mod bot;
mod classify;
mod update;
mod wire;

use crate::kit::{
    Button, ChatPlace, Click, Dialect, Ear, Happening, Inbound, OutgoingPart, PaceRules, PartBody, Platform,
    PlatformError, PlatformRules, Rate, RemoteFile,
};
use bot::Bot;
use secrecy::SecretString;
use serde::Serialize;
use std::time::Duration;
use update::{Me, inbound_of};
use wire::{FileAnswer, NumberedUpdate, SentMessage, TelegramUser};

const SOURCE: &str = "telegram";
/// Where the Bot API is, unless the owner runs one of his own.
const API_URL: &str = "https://api.telegram.org";
const POLL: Duration = Duration::from_secs(50);
/// The connection outlives the poll that it carries.
const BEYOND_POLL: Duration = Duration::from_secs(15);
const UPDATES_MAX: u32 = 100;
/// What the Bot API lets a bot download.
const FILE_BYTES_MAX: u64 = 20_000_000;
const BUTTONS_IN_ROW: usize = 3;

/// How to reach the bot.
#[derive(Debug, Clone)]
pub struct TelegramSettings {
    pub token: SecretString,
    pub api_url: String,
    /// How long one poll waits for something to happen.
    pub poll: Duration,
    pub file_bytes_max: u64,
    pub pace: PaceRules,
}

impl TelegramSettings {
    /// The public Bot API and its limits.
    pub fn new(token: SecretString) -> Self {
        let second = Duration::from_secs(1);
        Self {
            token,
            api_url: API_URL.to_owned(),
            poll: POLL,
            file_bytes_max: FILE_BYTES_MAX,
            pace: PaceRules {
                chat: Rate { count: 1, per: second },
                group: Rate { count: 20, per: 60 * second },
                overall: Rate { count: 30, per: second },
            },
        }
    }
}

/// A bot.
#[derive(Debug, Clone)]
pub struct Telegram {
    bot: Bot,
    rules: PlatformRules,
    poll: Duration,
}

impl Telegram {
    /// Needs a rustls provider installed in the process.
    pub fn new(settings: TelegramSettings) -> Result<Self, PlatformError> {
        let rules = PlatformRules {
            part_units_max: 4096,
            dialect: Dialect::TelegramHtml,
            button_data_bytes_max: 64,
            file_bytes_max: settings.file_bytes_max,
            command_mark: '/',
            pace: settings.pace,
            typing_lasts: Duration::from_secs(5),
        };
        Ok(Self { bot: Bot::new(&settings.api_url, settings.token)?, rules, poll: settings.poll })
    }
}

/// The listening end: it polls, and knows whom a mention means.
#[derive(Debug)]
pub struct TelegramEar {
    bot: Bot,
    poll: Duration,
    me: Option<Me>,
    /// The last poll failed.
    is_cut_off: bool,
}

impl Ear for TelegramEar {
    async fn next(&mut self, cursor: Option<&str>) -> Result<Vec<Inbound>, PlatformError> {
        if self.me.is_none() {
            self.me = self.who_am_i().await?;
        }
        let request = GetUpdates {
            offset: cursor.and_then(|cursor| cursor.parse().ok()),
            limit: UPDATES_MAX,
            // After a failure at once: whoever waits to send must not wait for somebody to say something.
            timeout: if self.is_cut_off { 0 } else { self.poll.as_secs() },
            allowed_updates: ["message", "edited_message", "callback_query"],
        };
        let polled =
            self.bot.call::<Vec<NumberedUpdate>>("getUpdates", &request, self.poll + BEYOND_POLL).await;
        self.is_cut_off = polled.is_err();
        let updates = polled.map_err(for_the_token)?;
        Ok(updates.into_iter().map(|update| heard(update, self.me.as_ref())).collect())
    }
}

impl TelegramEar {
    /// Without an answer we still listen, only names are not known as ours.
    async fn who_am_i(&self) -> Result<Option<Me>, PlatformError> {
        match self.bot.ask::<TelegramUser>("getMe", &NoFields {}).await {
            Ok(user) => Ok(Some(Me { id: user.id, username: user.username })),
            Err(PlatformError::Permanent(reason)) => {
                tracing::warn!(reason, "the bot's own name is not known; mentions of it are not seen");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// An address where even polling is unknown belongs to no bot: that is how a mistyped token shows.
fn for_the_token(error: PlatformError) -> PlatformError {
    let PlatformError::Permanent(reason) = error else { return error };
    PlatformError::Misconfigured(format!(
        "Telegram does not let this bot poll ({reason}); check connectors.telegram.token and apiUrl"
    ))
}

/// An update that cannot be read must not hold up those behind it.
fn heard(update: NumberedUpdate, me: Option<&Me>) -> Inbound {
    let cursor = Some(update.update_id.saturating_add(1).to_string());
    let what = match update.read() {
        Ok(update) => inbound_of(update, me),
        Err(error) => {
            tracing::warn!(update = update.update_id, %error, "an update of an unknown shape is passed over");
            Happening::Nothing
        }
    };
    Inbound { cursor, what }
}

impl Platform for Telegram {
    type Ear = TelegramEar;

    fn source(&self) -> &'static str {
        SOURCE
    }

    fn user_id(&self, user: &str) -> String {
        format!("tg:{user}")
    }

    fn rules(&self) -> &PlatformRules {
        &self.rules
    }

    fn place_of(&self, key: &str) -> Option<ChatPlace> {
        let (chat, thread) = match key.split_once(':') {
            Some((chat, thread)) => (chat, Some(thread.parse::<i64>().ok()?.to_string())),
            None => (key, None),
        };
        let number: i64 = chat.parse().ok()?;
        Some(ChatPlace { chat: number.to_string(), thread, is_group: number < 0 })
    }

    fn ear(&self) -> TelegramEar {
        TelegramEar { bot: self.bot.clone(), poll: self.poll, me: None, is_cut_off: false }
    }

    async fn send(&self, part: &OutgoingPart<'_>) -> Result<Option<String>, PlatformError> {
        let (text, parse_mode) = match part.body {
            PartBody::Formatted(text) => (text, Some("HTML")),
            PartBody::Plain(text) => (text, None),
        };
        let request = SendMessage {
            to: Address::of(part.place)?,
            text,
            parse_mode,
            reply_markup: (!part.buttons.is_empty()).then(|| Keyboard::of(part.buttons)),
            link_preview_options: LinkPreview { is_disabled: true },
        };
        let sent: SentMessage = self.bot.ask("sendMessage", &request).await?;
        Ok(Some(sent.message_id.to_string()))
    }

    async fn show_typing(&self, place: &ChatPlace) -> Result<(), PlatformError> {
        let request = ChatAction { to: Address::of(place)?, action: "typing" };
        self.bot.ask::<bool>("sendChatAction", &request).await.map(drop)
    }

    async fn answer_click(&self, click: &Click, words: &str) -> Result<(), PlatformError> {
        let request = AnswerClick { callback_query_id: &click.answer_id, text: words };
        self.bot.ask::<bool>("answerCallbackQuery", &request).await.map(drop)
    }

    async fn clear_buttons(&self, place: &ChatPlace, message: &str) -> Result<(), PlatformError> {
        let message_id = message.parse().map_err(|_| PlatformError::Permanent("no message".to_owned()))?;
        let request = ClearButtons {
            chat_id: Address::of(place)?.chat_id,
            message_id,
            reply_markup: Keyboard { inline_keyboard: Vec::new() },
        };
        self.bot.ask::<serde::de::IgnoredAny>("editMessageReplyMarkup", &request).await.map(drop)
    }

    async fn fetch(&self, file: &RemoteFile, bytes_max: u64) -> Result<Vec<u8>, PlatformError> {
        let found: FileAnswer = self.bot.ask("getFile", &GetFile { file_id: &file.id }).await?;
        match found.file_path {
            _ if found.file_size.is_some_and(|bytes| bytes > bytes_max) => Err(PlatformError::TooBig),
            Some(path) => self.bot.download(&path, bytes_max).await,
            None => Err(PlatformError::Permanent("Telegram does not say where the file is".to_owned())),
        }
    }
}

#[derive(Serialize)]
struct NoFields {}

#[derive(Serialize)]
struct GetUpdates {
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<i64>,
    limit: u32,
    timeout: u64,
    allowed_updates: [&'static str; 3],
}

/// Where something goes: a chat, and the topic in a forum.
#[derive(Serialize)]
struct Address {
    chat_id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_thread_id: Option<i64>,
}

impl Address {
    fn of(place: &ChatPlace) -> Result<Self, PlatformError> {
        let number = |text: &str| {
            text.parse().map_err(|_| PlatformError::Permanent(format!("{text:?} is no chat of Telegram")))
        };
        Ok(Self {
            chat_id: number(&place.chat)?,
            message_thread_id: place.thread.as_deref().map(number).transpose()?,
        })
    }
}

#[derive(Serialize)]
struct SendMessage<'a> {
    #[serde(flatten)]
    to: Address,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parse_mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_markup: Option<Keyboard<'a>>,
    link_preview_options: LinkPreview,
}

#[derive(Serialize)]
struct LinkPreview {
    is_disabled: bool,
}

#[derive(Serialize)]
struct Keyboard<'a> {
    inline_keyboard: Vec<Vec<Key<'a>>>,
}

#[derive(Serialize)]
struct Key<'a> {
    text: &'a str,
    callback_data: &'a str,
}

impl<'a> Keyboard<'a> {
    fn of(buttons: &'a [Button]) -> Self {
        let keys = |row: &'a [Button]| {
            row.iter().map(|button| Key { text: &button.label, callback_data: &button.data }).collect()
        };
        Self { inline_keyboard: buttons.chunks(BUTTONS_IN_ROW).map(keys).collect() }
    }
}

#[derive(Serialize)]
struct ChatAction {
    #[serde(flatten)]
    to: Address,
    action: &'static str,
}

#[derive(Serialize)]
struct AnswerClick<'a> {
    callback_query_id: &'a str,
    text: &'a str,
}

#[derive(Serialize)]
struct ClearButtons<'a> {
    chat_id: i64,
    message_id: i64,
    reply_markup: Keyboard<'a>,
}

#[derive(Serialize)]
struct GetFile<'a> {
    file_id: &'a str,
}
