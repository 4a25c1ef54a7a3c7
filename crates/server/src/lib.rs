//! The HTTP server: one port, one guard, one file per resource; it puts the parts together.

mod auth;
mod board;
mod body;
mod config;
mod connector;
mod fields;
mod guard;
mod hook;
mod listener;
mod live;
mod metrics;
mod moment;
mod openai;
mod path_id;
mod prompt;
mod refusal;
mod routes;
mod setting_block;
mod signature;
mod start;
mod state;
mod webhook;

pub use auth::OwnerKey;
pub use board::ConnectorBoard;
pub use body::JsonBody;
pub use config::{ReadChannels, ServeConfig};
pub use guard::LocalClients;
pub use hook::Hooks;
pub use refusal::Refusal;
pub use routes::ingest::read_event;
pub use routes::{CONNECTOR_ROUTES, ConnectorRoute, OPEN_ROUTES, OpenRoute, OpenTo, openapi};
pub use start::{RunningServer, StartError, start, start_with_clock};
pub use webhook::Webhooks;
