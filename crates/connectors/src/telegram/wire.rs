//! What the Bot API sends, as far as we look at it.

use cortex_types::JsonText;
use serde::Deserialize;

/// An update whose number is known though the rest may not be readable.
#[derive(Debug)]
pub(super) struct NumberedUpdate {
    pub(super) update_id: i64,
    body: JsonText,
}

impl NumberedUpdate {
    pub(super) fn read(&self) -> Result<Update, serde_json::Error> {
        self.body.read()
    }
}

impl<'de> Deserialize<'de> for NumberedUpdate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Number {
            update_id: i64,
        }
        let body = JsonText::deserialize(deserializer)?;
        let number: Number = body.read().map_err(serde::de::Error::custom)?;
        Ok(Self { update_id: number.update_id, body })
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Update {
    pub(super) update_id: i64,
    pub(super) message: Option<TelegramMessage>,
    pub(super) edited_message: Option<TelegramMessage>,
    pub(super) callback_query: Option<CallbackQuery>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TelegramUser {
    pub(super) id: i64,
    pub(super) username: Option<String>,
    pub(super) first_name: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TelegramChat {
    pub(super) id: i64,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TelegramMessage {
    pub(super) message_id: i64,
    pub(super) message_thread_id: Option<i64>,
    pub(super) is_topic_message: Option<bool>,
    pub(super) from: Option<TelegramUser>,
    pub(super) chat: TelegramChat,
    #[serde(default)]
    pub(super) date: i64,
    pub(super) edit_date: Option<i64>,
    pub(super) text: Option<String>,
    pub(super) caption: Option<String>,
    #[serde(default)]
    pub(super) entities: Vec<Entity>,
    #[serde(default)]
    pub(super) caption_entities: Vec<Entity>,
    pub(super) reply_to_message: Option<Box<TelegramMessage>>,
    /// The passage that was marked in what was replied to.
    pub(super) quote: Option<TextQuote>,
    /// Who said it first, when it was passed on.
    pub(super) forward_origin: Option<MessageOrigin>,
    /// The same from servers that know no origins.
    pub(super) forward_date: Option<serde::de::IgnoredAny>,
    /// What was replied to, in another chat.
    pub(super) external_reply: Option<ExternalReply>,
    /// The program whose words the person chose to send.
    pub(super) via_bot: Option<TelegramUser>,
    pub(super) photo: Option<Vec<TelegramFile>>,
    pub(super) voice: Option<TelegramFile>,
    pub(super) audio: Option<TelegramFile>,
    pub(super) document: Option<TelegramFile>,
    pub(super) video: Option<TelegramFile>,
    pub(super) video_note: Option<TelegramFile>,
    pub(super) animation: Option<TelegramFile>,
    pub(super) sticker: Option<Sticker>,
    pub(super) location: Option<Location>,
    pub(super) contact: Option<Contact>,
    pub(super) migrate_to_chat_id: Option<i64>,
    pub(super) migrate_from_chat_id: Option<i64>,
    pub(super) forum_topic_created: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Entity {
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// In UTF-16 units.
    pub(super) offset: usize,
    pub(super) length: usize,
    pub(super) user: Option<TelegramUser>,
}

/// One of several shapes; each names its author in another field.
#[derive(Debug, Deserialize)]
pub(super) struct MessageOrigin {
    pub(super) sender_user: Option<TelegramUser>,
    /// Of somebody who hides their account.
    pub(super) sender_user_name: Option<String>,
    pub(super) sender_chat: Option<TitledChat>,
    pub(super) chat: Option<TitledChat>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TitledChat {
    pub(super) title: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ExternalReply {
    pub(super) origin: Option<MessageOrigin>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TextQuote {
    pub(super) text: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct TelegramFile {
    pub(super) file_id: String,
    pub(super) file_name: Option<String>,
    pub(super) mime_type: Option<String>,
    pub(super) file_size: Option<u64>,
    /// Of a picture.
    pub(super) width: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Sticker {
    pub(super) emoji: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Location {
    pub(super) latitude: f64,
    pub(super) longitude: f64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Contact {
    pub(super) first_name: Option<String>,
    pub(super) phone_number: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CallbackQuery {
    pub(super) id: String,
    pub(super) from: TelegramUser,
    pub(super) message: Option<TelegramMessage>,
    #[serde(default)]
    pub(super) data: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct SentMessage {
    pub(super) message_id: i64,
}

#[derive(Debug, Deserialize)]
pub(super) struct FileAnswer {
    pub(super) file_path: Option<String>,
    pub(super) file_size: Option<u64>,
}
