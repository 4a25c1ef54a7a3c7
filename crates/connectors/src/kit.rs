//! The shared half of every connector: what comes in becomes durable once, what goes out arrives in order and in parts.

mod admission;
mod backoff;
mod button;
mod click;
mod command;
mod compose;
mod delivery;
mod dialect;
mod file;
mod hand_in;
mod http;
mod invite;
mod listen;
mod notebook;
mod notice;
mod odd_json;
mod pace;
mod pages;
mod pairing;
mod place;
mod platform;
mod run;
mod said;
mod socket;
mod split;
mod typing;

pub use admission::GroupPolicy;
pub use button::Button;
pub(crate) use button::approval_word;
pub use compose::Verbatim;
pub use dialect::Dialect;
pub use notebook::{Notebook, NotebookError};
pub use pace::{PaceRules, Rate};
pub use pages::Refusals;
pub use pairing::PairingCode;
pub use place::ChatPlace;
pub use platform::{
    Click, ClickAnswer, Ear, Happening, Inbound, OutgoingPart, PartBody, Platform, PlatformError,
    PlatformRules, Quote, QuoteKind, Reaction, RemoteFile, Said, Sign,
};
pub use run::{Connector, ConnectorFailure, ConnectorSettings};

pub(crate) use backoff::Backoff;
pub(crate) use hand_in::{HandedIn, WhenNotLetIn, hand_in, is_lasting};
pub(crate) use http::{Answer, Http, check_token, encoded, query_of, seconds_up};
pub(crate) use odd_json::read_platform;
pub(crate) use run::{Stopped, pause};
pub(crate) use socket::{Heard, Socket};
