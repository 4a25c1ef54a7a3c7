//! Telegram and its kin: processes that know only the wire.

mod check;
mod discord;
mod kit;
mod matrix;
mod slack;
mod stdio;
mod telegram;

pub use check::{ConformanceCheck, Finding, Promise, PromiseState};
pub use discord::{Discord, DiscordEar, DiscordSettings};
pub use kit::{
    Button, ChatPlace, Click, ClickAnswer, Connector, ConnectorFailure, ConnectorSettings, Dialect, Ear,
    GroupPolicy, Happening, Inbound, Notebook, NotebookError, OutgoingPart, PaceRules, PairingCode, PartBody,
    Platform, PlatformError, PlatformRules, Quote, QuoteKind, Rate, Reaction, Refusals, RemoteFile, Said,
    Sign, Verbatim,
};
pub use matrix::{Matrix, MatrixEar, MatrixSettings};
pub use slack::{Slack, SlackEar, SlackSettings};
pub use stdio::{Stdio, StdioFailure};
pub use telegram::{Telegram, TelegramEar, TelegramSettings};
