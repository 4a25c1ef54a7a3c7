//! Decides, never acts: an event goes in, effects come out. No clock, disk, network or async.

mod approval;
mod context;
mod failure;
mod memory;
mod output;
mod preview;
mod retry;
mod schedule;
mod turn;

pub use approval::{AnswerOutcome, ApprovalAnswer, bind, outcome_line, prompt_text, read_answer};
pub use context::{Floor, HistoryLine, Speaker, TurnContext};
pub use failure::{FailureNotice, notice_text};
pub use memory::{
    EVICT_BELOW_HITS, EVICT_UNACCESSED, Int8Vector, Ranking, VectorIndex, access_count, fuse,
    is_near_duplicate, match_expression, rank_turns, strength,
};
pub use output::{Output, parse_output};
pub use preview::Preview;
pub use retry::backoff;
pub use schedule::{
    Cron, CronError, DueRun, JobView, Overlap, Reminder, Schedule, SlotRange, Tick, When, decide_slots,
    next_fires, parse_reminder, parse_when, slot_event_id, slots_between,
};
pub use turn::{
    CallVerdict, Clearance, Effect, Input, ModelFailure, ReadyCall, ToolResult, Turn, TurnLimits,
};
