//! The only SQL: durable transitions of inbox, turns, outbox and their kin, one file per noun.
//!
//! Every function is one transition that is all or nothing, takes `now` as an argument and returns after the
//! change is on disk. Nothing of SQLite shows in the signatures.

mod approval;
mod audit;
mod backup;
mod capacity;
mod channel;
mod checkpoint;
mod checksum;
mod checkup;
mod connector;
mod error;
mod fact;
mod gardener;
mod health;
mod history;
mod home_lock;
mod inbox;
mod integrity;
mod key;
mod listing;
mod memory_index;
mod migrate;
mod op;
mod open;
mod outbox;
mod reader;
mod row;
mod savepoint;
mod schedule;
mod session;
mod shadow;
mod skill_db;
mod step;
mod store;
mod summary;
mod tool_pin;
mod topic;
mod trace;
mod turn;
mod usage;
mod wal;
mod watchdog;
mod writer;

pub use approval::{
    Answerer, ApprovalKey, Approvals, AskedApproval, Grant, Granted, OpenQuestion, OpenQuestions, Resolved,
    Suspended, Suspension,
};
pub use audit::AuditRow;
pub use backup::{CopyProgress, check_copy, check_whole, copy_database, fold_log};
pub use capacity::{Full, StoreLimits, StoreUse};
pub use channel::{ChannelLine, ChannelState, Channels, Forgotten, IdleTopic};
pub use checkup::{Checkup, HomeCounts, check_up};
pub use connector::{ConnectorBinding, ConnectorSession, Connectors, LocalConnector, SessionOpener, Trusted};
pub use error::StoreError;
pub use fact::{
    Eviction, FactEdit, FactFilter, FactToKeep, Facts, HotFact, Keep, KeptAs, KeptFact, PinOutcome,
    PromptScopes,
};
pub use gardener::{EvictTurns, GardenerDiary, GardenerRun, Learned, Unextracted};
pub use health::StoreHealth;
pub use history::{History, HistoryFilter, SaidTurn};
pub use home_lock::{HomeHolder, HomeLock, HomeUse, LockError};
pub use inbox::{Claimed, Claims, Inbox, InboxCounts, Recovered, RetryRefused};
pub use key::{ConnectorKey, KeyRow, Keys, NameTaken};
pub use listing::{Page, PageRequest};
pub use memory_index::{
    FactVector, IndexedTurn, MemoryIndex, StoredVector, TextToEmbed, TurnCounts, TurnVector, VectorCounts,
    VectorsOf,
};
pub use migrate::MigrateError;
pub use op::{Ops, Settled};
pub use open::{Durability, OpenError, StoreConfig};
pub use outbox::{
    Acked, DiscardOutcome, EndedEvent, HandOver, HandedOver, LeaseRefused, MessageCause, Nack, Nacked,
    Outbox, OutboxCounts, OutboxListener, OutboxMessage, OutboxPoll, RepliesOf, RequeueOutcome,
    ReturnedLease, Ring,
};
pub use schedule::{DueJobs, JobChange, NewJob, ScheduledJob, Schedules, Timing, UnreadableJob};
pub use session::{FactsInPrompt, OpsInPrompt, SessionQuery, SessionView};
pub use shadow::ShadowedEvent;
pub use skill_db::{SkillDb, SkillDbChange, SkillDbError, SkillDbRows, SkillDbValue};
pub use store::{Store, StoreThread};
pub use summary::{NewSummary, Summaries, SummaryText, TurnSummary, Uncovered};
pub use tool_pin::{ToolPins, look_at_pins};
pub use topic::Places;
pub use trace::{NoteKind, TraceNote, TracedEvent};
pub use turn::{FinishedTurn, HistoryRow, TurnEnd, TurnTokens, Turns, UntrustedLines};
pub use usage::{LastCall, UsageGroup, UsageSum, UsageTotals, last_calls};
pub use watchdog::{Rescued, Stranded, Watchdog};
