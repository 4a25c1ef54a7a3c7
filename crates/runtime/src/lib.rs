//! Drives the flow of an event: intake, pump, turn, effects, outbox.

mod config;
mod effect;
mod floor;
mod intake;
mod mint;
mod outbox;
mod pump;
mod runtime;
mod turn;

pub use config::RuntimeConfig;
pub use intake::{IncomingEvent, Intake};
pub use outbox::OutboxDesk;
pub use pump::Pump;
pub use runtime::{BootReport, Runtime};
