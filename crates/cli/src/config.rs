//! The server's settings: one table of keys, from which come the loader, the listing, the schema and the reference page.

mod blocks;
mod channels;
mod connectors;
mod diagnostic;
mod document;
mod edit;
mod effective;
mod expand;
mod exposure;
mod file;
mod hooks;
mod kind;
mod list;
mod mask;
mod providers;
mod schema;
mod settings;
mod table;

pub(crate) use connectors::{KNOWN_CONNECTORS, PlatformBlock};
pub(crate) use diagnostic::{ConfigError, Origin};
pub(crate) use document::document;
pub(crate) use edit::{EditError, set_channel_mode};
pub(crate) use effective::{Effective, Flags, Source, load, load_handed};
pub(crate) use exposure::{check_exposure, host_address};
pub(crate) use list::{listed, listed_json};
pub(crate) use mask::masked;
pub(crate) use schema::schema;
pub(crate) use settings::{Isolation, Settings, Undeclared};
