//! What a platform must be able to do, and what it tells. Each platform is one implementation of this.

use super::button::Button;
use super::compose::Verbatim;
use super::dialect::Dialect;
use super::pace::PaceRules;
use super::place::ChatPlace;
use cortex_types::Millis;
use std::time::Duration;

/// A messaging platform as the kit drives it.
pub trait Platform: Send + Sync + 'static {
    type Ear: Ear;

    /// The source of its events, and the name of its connector.
    fn source(&self) -> &'static str;

    /// The account's name in Cortex, such as `tg:42` for 42.
    fn user_id(&self, user: &str) -> String;

    fn rules(&self) -> &PlatformRules;

    /// The place that `ChatPlace::key` named; `None` when it is none of this platform.
    fn place_of(&self, key: &str) -> Option<ChatPlace>;

    fn ear(&self) -> Self::Ear;

    /// Sends one part and gives the platform's name of the sent message, if it has one.
    fn send(
        &self,
        part: &OutgoingPart<'_>,
    ) -> impl Future<Output = Result<Option<String>, PlatformError>> + Send;

    /// Shows for a few seconds that an answer is being written.
    fn show_typing(&self, place: &ChatPlace) -> impl Future<Output = Result<(), PlatformError>> + Send;

    /// Tells the person who clicked that the click arrived.
    fn answer_click(
        &self,
        click: &Click,
        answer: ClickAnswer,
    ) -> impl Future<Output = Result<(), PlatformError>> + Send;

    /// Takes the buttons off a message that was sent.
    fn clear_buttons(
        &self,
        place: &ChatPlace,
        message: &str,
    ) -> impl Future<Output = Result<(), PlatformError>> + Send;

    /// Enters a chat that we were asked into; only where a platform asks.
    fn join(&self, chat: &str) -> impl Future<Output = Result<(), PlatformError>> + Send {
        let reason = format!("nobody is asked into {chat} here");
        async { Err(PlatformError::Permanent(reason)) }
    }

    /// The bytes of a file, or `TooBig` once there are more than `bytes_max`.
    fn fetch(
        &self,
        file: &RemoteFile,
        bytes_max: u64,
    ) -> impl Future<Output = Result<Vec<u8>, PlatformError>> + Send;
}

/// The listening end of a platform.
pub trait Ear: Send {
    /// Waits for what happens after `cursor`. It is called again only when everything it gave before is durable, so
    /// that is the moment to tell the platform to forget it. Dropping the future must lose nothing. While it fails with
    /// `Transient` nothing is delivered, so after a failure it should answer as soon as the platform does.
    fn next(
        &mut self,
        cursor: Option<&str>,
    ) -> impl Future<Output = Result<Vec<Inbound>, PlatformError>> + Send;
}

/// What differs between platforms and is not code.
#[derive(Debug, Clone)]
pub struct PlatformRules {
    /// Longest part in UTF-16 units, counted as the dialect counts.
    pub part_units_max: usize,
    pub dialect: Dialect,
    /// Longest data of a button in bytes.
    pub button_data_bytes_max: usize,
    /// Largest file that is fetched.
    pub file_bytes_max: u64,
    /// What a command begins with.
    pub command_mark: char,
    pub pace: PaceRules,
    /// How long the platform shows that somebody writes.
    pub typing_lasts: Duration,
}

/// Something that happened, and the cursor behind it.
#[derive(Debug, Clone)]
pub struct Inbound {
    /// Stored once what happened is durable; `None` leaves the cursor where it is.
    pub cursor: Option<String>,
    pub what: Happening,
}

#[derive(Debug, Clone)]
pub enum Happening {
    Said(Box<Said>),
    Clicked(Click),
    Reacted(Reaction),
    /// Somebody said something that is encrypted, and we have no keys.
    Unreadable {
        user: String,
        place: ChatPlace,
    },
    /// Somebody asks us into a chat.
    Invited {
        user: String,
        chat: String,
    },
    /// The platform gave a chat another id.
    Moved {
        from: String,
        to: String,
    },
    /// Nothing for us, but the cursor moves.
    Nothing,
}

/// Somebody said something.
#[derive(Debug, Clone)]
pub struct Said {
    /// The identity of the event; the same for the same thing, whenever it is heard.
    pub external_id: String,
    pub place: ChatPlace,
    /// The platform's id of the person.
    pub user: String,
    /// What the person is called, for quotes and groups.
    pub user_name: Option<String>,
    /// Their own words, and nobody else's.
    pub text: String,
    pub occurred_at: Millis,
    /// In a group: whether it was meant for the assistant.
    pub is_addressed: bool,
    /// It replaces something said before.
    pub is_edit: bool,
    /// Somebody's words that came with theirs.
    pub quoted: Option<Quote>,
    pub files: Vec<RemoteFile>,
    /// The platform's own name of the message.
    pub message: Option<String>,
}

/// Words that the person did not say themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    pub author: Option<String>,
    pub text: String,
    pub kind: QuoteKind,
}

/// How words came to stand in somebody else's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuoteKind {
    /// They were replied to.
    Reply,
    /// They were replied to, and the platform says that the assistant itself had said them.
    ReplyToAssistant,
    /// They were passed on from elsewhere.
    Forward,
}

/// A file that lies at the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFile {
    pub id: String,
    pub name: String,
    /// Its media type, as far as the platform knows.
    pub kind: String,
    pub bytes: Option<u64>,
}

/// Somebody pressed a button.
#[derive(Debug, Clone)]
pub struct Click {
    pub external_id: String,
    /// What the platform wants to hear when the click is answered.
    pub answer_id: String,
    pub place: ChatPlace,
    pub user: String,
    pub data: String,
    /// The message that has the button.
    pub message: Option<String>,
    pub occurred_at: Millis,
}

/// How a press is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClickAnswer {
    PassedOn,
    NotForYou,
}

impl ClickAnswer {
    pub fn words(self) -> &'static str {
        match self {
            Self::PassedOn => "Passed on.",
            Self::NotForYou => "This is not for you.",
        }
    }
}

/// Somebody put a sign under a message that asks something: on platforms without buttons that is the press.
#[derive(Debug, Clone)]
pub struct Reaction {
    pub external_id: String,
    pub place: ChatPlace,
    pub user: String,
    /// The message under which it is.
    pub message: String,
    pub sign: Sign,
    pub occurred_at: Millis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    Yes,
    No,
}

/// One part of a message on its way out.
#[derive(Debug, Clone, Copy)]
pub struct OutgoingPart<'a> {
    pub place: &'a ChatPlace,
    pub body: PartBody<'a>,
    /// The part as it was written, for platforms that want it beside the formatted one.
    pub plain: &'a str,
    /// Only on platforms whose dialect has no form for it: a text that must be shown as it is, below the body.
    pub verbatim: Option<&'a Verbatim>,
    /// Only the last part has any.
    pub buttons: &'a [Button],
    /// The same for the same part, however often it is sent: for platforms that drop a repetition by themselves.
    pub once: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartBody<'a> {
    /// In the platform's dialect.
    Formatted(&'a str),
    Plain(&'a str),
}

/// Why the platform did not do it; the kit decides by this alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlatformError {
    /// It may work later.
    #[error("{0}")]
    Transient(String),
    #[error("told to wait {seconds} s")]
    RetryAfter { seconds: u32 },
    /// No retry can help.
    #[error("{0}")]
    Permanent(String),
    /// It did not take the formatting.
    #[error("the formatting was refused: {0}")]
    CannotFormat(String),
    /// The chat has another id now.
    #[error("the chat is now {to}")]
    Moved { to: String },
    #[error("the file is too big")]
    TooBig,
    /// Somebody else listens with the same account.
    #[error("{0}")]
    Conflict(String),
    /// The settings are wrong; only a person can help.
    #[error("{0}")]
    Misconfigured(String),
}

impl PlatformError {
    /// A refusal for good of a call that must work means that these settings are wrong.
    pub(crate) fn blaming(self, settings: &str) -> Self {
        let Self::Permanent(reason) = self else { return self };
        Self::Misconfigured(format!("{reason}; check {settings}"))
    }
}
