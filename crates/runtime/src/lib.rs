//! Drives the flow of an event: intake, pump, turn, effects, outbox.

mod approval;
mod channel;
mod config;
mod context;
mod effect;
mod floor;
mod intake;
mod mint;
mod outbox;
mod pump;
mod runtime;
mod schedule;
mod scheduler;
mod tool;
mod turn;

pub use approval::ApprovalDesk;
pub use channel::{ChannelDesk, ChannelRow};
pub use config::RuntimeConfig;
pub use context::{Compacted, ContextDesk, ContextError, ShownContext};
pub use intake::{IncomingEvent, Intake};
pub use outbox::OutboxDesk;
pub use pump::Pump;
pub use runtime::{BootReport, Runtime};
pub use schedule::{ScheduleDesk, ScheduleError};
