//! Drives the flow of an event: intake, pump, turn, effects, outbox.

mod approval;
mod channel;
mod config;
mod context;
mod effect;
mod engram;
mod floor;
mod gardener;
mod intake;
mod memory;
mod mint;
mod op;
mod outbox;
mod pump;
mod runtime;
mod schedule;
mod scheduler;
mod timer;
mod token;
mod tool;
mod turn;
mod watchdog;

pub use approval::ApprovalDesk;
pub use channel::{ChannelDesk, ChannelRow};
pub use config::RuntimeConfig;
pub use context::{Compacted, Compaction, ContextDesk, ContextError, ShownContext, SummaryBy};
pub use cortex_brain::{Question, WithoutTags, access_count, strength, text_of_tokens};
pub use engram::{EngramClient, EngramError, EngramHit, EngramMemory, EngramSetting};
pub use gardener::{Gardener, GardenerAnswer, GardenerMind, GardenerStatus, GardenerTaskStatus};
pub use intake::{IncomingEvent, Intake};
pub use memory::{
    EmbeddingProgress, Imported, MemoryDesk, MemoryError, MemoryStatus, NewMemory, Recall, RecallBy,
    Recalled, RecalledItem, Reembedding, Remembered, Unreviewed, VectorStatus,
};
pub use op::{Dispatch, OpDesk};
pub use outbox::OutboxDesk;
pub use pump::Pump;
pub use runtime::{BootReport, Runtime};
pub use schedule::{ScheduleDesk, ScheduleError};
pub use timer::{wait_for, wait_until};
pub use token::TokenKey;
pub use watchdog::WatchdogReport;
