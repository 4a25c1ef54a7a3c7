//! Drives the flow of an event: intake, pump, turn, effects, outbox.

mod approval;
mod config;
mod effect;
mod floor;
mod intake;
mod memory;
mod mint;
mod outbox;
mod pump;
mod runtime;
mod schedule;
mod scheduler;
mod tool;
mod turn;

pub use approval::ApprovalDesk;
pub use config::RuntimeConfig;
pub use intake::{IncomingEvent, Intake};
pub use memory::{
    Imported, MemoryDesk, MemoryError, NewMemory, Recall, RecallBy, Recalled, RecalledItem, Reembedding,
    Remembered, VectorStatus,
};
pub use outbox::OutboxDesk;
pub use pump::Pump;
pub use runtime::{BootReport, Runtime};
pub use schedule::{ScheduleDesk, ScheduleError};
