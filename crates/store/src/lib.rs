//! The only SQL: durable transitions of inbox, turns, outbox and their kin, one file per noun.
//!
//! Every function is one transition that is all or nothing, takes `now` as an argument and returns after the
//! change is on disk. Nothing of SQLite shows in the signatures.

mod door;
mod engine;
mod error;
mod flow;
mod mind;
mod store;
mod work;

pub use door::connector::{
    ConnectorBinding, ConnectorSession, Connectors, LocalConnector, SessionOpener, Trusted,
};
pub use door::key::{ConnectorKey, KeyRow, Keys, NameTaken};
pub use engine::audit::AuditRow;
pub use engine::backup::{CopyProgress, check_copy, check_whole, copy_database, fold_log};
pub use engine::capacity::{Full, StoreLimits, StoreUse};
pub use engine::checkup::{Checkup, HomeCounts, check_up};
pub use engine::health::StoreHealth;
pub use engine::home_lock::{HomeHolder, HomeLock, HomeUse, LockError};
pub use engine::listing::{Page, PageRequest};
pub use engine::migrate::MigrateError;
pub use engine::open::{Durability, OpenError, StoreConfig};
pub use error::StoreError;
pub use flow::approval::{
    Answerer, ApprovalKey, Approvals, AskedApproval, Grant, Granted, OpenQuestion, OpenQuestions, Resolved,
    Suspended, Suspension,
};
pub use flow::channel::{ChannelLine, ChannelState, Channels, Forgotten, IdleTopic};
pub use flow::inbox::{Claimed, Claims, Inbox, InboxCounts, Recovered, RetryRefused};
pub use flow::outbox::{
    Acked, DiscardOutcome, EndedEvent, HandOver, HandedOver, LeaseRefused, MessageCause, Nack, Nacked,
    Outbox, OutboxCounts, OutboxListener, OutboxMessage, OutboxPoll, RepliesOf, RequeueOutcome,
    ReturnedLease, Ring,
};
pub use flow::session::{FactsInPrompt, OpsInPrompt, SessionQuery, SessionView};
pub use flow::shadow::ShadowedEvent;
pub use flow::topic::Places;
pub use flow::trace::{NoteKind, TraceNote, TracedEvent};
pub use flow::turn::{FinishedTurn, HistoryRow, TurnEnd, TurnTokens, Turns, UntrustedLines};
pub use flow::watchdog::{Rescued, Stranded, Watchdog};
pub use mind::fact::{
    Eviction, FactEdit, FactFilter, FactToKeep, Facts, HotFact, Keep, KeptAs, KeptFact, PinOutcome,
    PromptScopes,
};
pub use mind::gardener::{EvictTurns, GardenerDiary, GardenerRun, Learned, Unextracted};
pub use mind::history::{History, HistoryFilter, SaidTurn};
pub use mind::index::{
    FactVector, IndexedTurn, MemoryIndex, StoredVector, TextToEmbed, TurnCounts, TurnVector, VectorCounts,
    VectorsOf,
};
pub use mind::summary::{NewSummary, Summaries, SummaryText, TurnSummary, Uncovered};
pub use store::{Store, StoreThread};
pub use work::op::{Ops, Settled};
pub use work::schedule::{DueJobs, JobChange, NewJob, ScheduledJob, Schedules, Timing, UnreadableJob};
pub use work::skill_db::{SkillDb, SkillDbChange, SkillDbError, SkillDbRows, SkillDbValue};
pub use work::tool_pin::{ToolPins, look_at_pins};
pub use work::usage::{LastCall, UsageGroup, UsageSum, UsageTotals, last_calls};
