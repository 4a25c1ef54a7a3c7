//! The wire shapes of every endpoint, one noun per file, and the typed client.

mod client;
mod error;
mod health;
mod inbox;
mod ingest;
mod live;
mod outbox;
mod schema;
mod status;
mod time;
mod trace;
mod usage;

pub use client::{Client, ClientError, LiveStream};
pub use error::{ErrorBody, ErrorCode};
pub use health::{Health, HealthStatus};
pub use inbox::{InboxList, InboxQuery, InboxRow};
pub use ingest::{IngestAnswer, IngestRequest, IngestStatus};
pub use live::{LiveDelta, LiveDone, LiveError, LiveEvent};
pub use outbox::{
    AckAnswer, AckRequest, AckStatus, NackAnswer, NackRequest, NackStatus, OutboxList, OutboxQuery,
    OutboxRow, PollAnswer, PollRequest, PolledMessage,
};
pub use status::{ModelStatus, ServerStatus};
pub use time::WireTime;
pub use trace::{EventTrace, TraceEntry, TraceWhat};
pub use usage::{UsageBy, UsageCounts, UsageQuery, UsageReport, UsageRow};
