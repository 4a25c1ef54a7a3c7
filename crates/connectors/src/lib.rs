//! Telegram and its kin: processes that know only the wire.

mod check;
mod kit;
mod stdio;
mod telegram;

pub use check::{ConformanceCheck, Finding, Promise, PromiseState};
pub use kit::{
    Button, ChatPlace, Click, Connector, ConnectorFailure, ConnectorSettings, Dialect, Ear, GroupPolicy,
    Happening, Inbound, Notebook, NotebookError, OutgoingPart, PaceRules, PairingCode, PartBody, Platform,
    PlatformError, PlatformRules, Quote, Rate, RemoteFile, Said,
};
pub use stdio::{Stdio, StdioFailure};
pub use telegram::{Telegram, TelegramEar, TelegramSettings};
