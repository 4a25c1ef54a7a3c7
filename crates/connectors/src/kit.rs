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
mod listen;
mod notebook;
mod notice;
mod pace;
mod pages;
mod pairing;
mod place;
mod platform;
mod run;
mod said;
mod split;
mod typing;

pub use admission::GroupPolicy;
pub(crate) use backoff::Backoff;
pub use button::Button;
pub use dialect::Dialect;
pub(crate) use hand_in::{HandedIn, hand_in};
pub(crate) use run::{Stopped, pause};

pub use notebook::{Notebook, NotebookError};
pub use pace::{PaceRules, Rate};
pub use pairing::PairingCode;
pub use place::ChatPlace;
pub use platform::{
    Click, Ear, Happening, Inbound, OutgoingPart, PartBody, Platform, PlatformError, PlatformRules, Quote,
    RemoteFile, Said,
};
pub use run::{Connector, ConnectorFailure, ConnectorSettings};
