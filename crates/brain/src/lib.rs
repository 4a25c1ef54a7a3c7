//! Decides, never acts: an event goes in, effects come out. No clock, disk, network or async.

mod approval;
mod compaction;
mod context;
mod envelope;
mod extract;
mod failure;
mod memory;
mod op;
mod output;
mod preview;
mod retry;
mod schedule;
mod trust;
mod turn;
mod visible;

pub use approval::{
    AnswerOutcome, ApprovalAnswer, Asking, Question, bare_decision, bare_word_note, bind,
    damaged_question_note, is_approver, outcome_line, read_answer,
};
pub use compaction::{CompactLine, foldable, summary_request, summary_without_model};
pub use context::{
    BackgroundLine, ContextInput, ContextLimits, Floor, HistoryLine, KnownFact, SaidBy, Section, SectionName,
    TurnContext, UntrustedParts, background_words, count_tokens, last_words, summary_line, text_of_tokens,
    window_of,
};
pub use envelope::{
    came_with, forward_apart, heard, holds_documents, holds_others, is_piece_of, quote_of_another,
    quoted_as_own, told_relationship,
};
pub use extract::{
    ExtractedFact, FACTS_MAX, FactCategory, extract_by_rules, extraction_request, harvest_by_rules,
    harvest_request, likeliest_line, read_extraction,
};
pub use failure::{FailureNotice, notice_text};
pub use memory::{
    EVICT_BELOW_HITS, EVICT_UNACCESSED, Int8Vector, Ranking, VectorIndex, access_count, fuse,
    is_near_duplicate, match_expression, rank_turns, strength, without_told,
};
pub use op::{ORPHANED, ShownOps, bounded, ending_text, show_ops};
pub use output::{Output, Routed, Targets, Unsent, WithoutTags, history_line, parse_output, unsent_notice};
pub use preview::Preview;
pub use retry::backoff;
pub use schedule::{
    Cron, CronError, DueRun, JobView, Overlap, Reminder, Schedule, SlotRange, Tick, When, decide_slots,
    next_fires, parse_reminder, parse_when, slot_event_id, slots_between,
};
pub use trust::{
    MarkedCall, MemoryHome, SEND_TOOL, ToolMaker, UNTRUSTED_START, approved_target, asks_when_marked,
    is_untrusted_output, reachable_hosts, send_arguments, send_call, send_channel, untrusted_channel,
};
pub use turn::{
    ApprovedSend, CallVerdict, Clearance, Effect, Input, ModelFailure, ReadyCall, SendVerdicts, ToolResult,
    Turn, TurnLimits,
};
pub use visible::{deceives, hides, visible, visible_line};
