//! Ids, envelopes, states and limits shared by every crate; no IO.

mod approval;
mod channel;
mod chat;
mod clock;
mod event;
mod fact;
mod gardener;
mod id;
mod json_text;
pub mod limits;
mod op;
mod outbox;
mod schedule;
mod secret;
mod speaker;
mod status;
mod step;
mod token;
mod turn;
mod usage;

pub use approval::{
    Approval, ApprovalStatus, DENIED_RESULT, Decision, EXPIRED_RESULT, GivenAnswer, NewApproval,
    PromptButton, PromptPayload, asked_line, was_shown_before,
};
pub use channel::{
    Accounts, ChannelLayer, ChannelMode, ChannelSetting, ChannelSettings, HOOK_CHANNEL_START, ModeTable,
    NameRefusal, Relationship, is_machine_channel,
};
pub use chat::{
    ATTACHMENTS_MARK, ChatMessage, ChatReply, ChatRequest, DOCUMENTS_MARK, FinishReason, OWN_QUOTE_MARK,
    QUOTE_LINE, QUOTED_MARK, SILENCE_MARK, Sampling, ToolCall, ToolSpec,
};
pub use clock::{Clock, JumpingClock, ManualClock, Millis, SystemClock};
pub use event::{AcceptedEvent, Event, NewEvent, Priority, TopicRef};
pub use fact::{Fact, FactOrigin, FactScope, FactSource, FactSourceKind, FactTier, NewFact};
pub use gardener::GardenerTask;
pub use id::{ApprovalId, EventId, FactId, GrantId, IdError, KeyId, LeaseToken, OpId, OutboxId};
pub use json_text::JsonText;
pub use op::{NewOp, Op, OpEnding, OpStatus};
pub use outbox::{Delivery, NewReply};
pub use schedule::{CatchUp, SlotOutcome, SlotRecord};
pub use secret::{SECRET_BYTES_MIN, SECRET_MASK, names_a_secret, without_known, without_secrets};
pub use speaker::{
    Audience, CHAT_TYPE, CLI_SOURCE, LOCAL_START, OPENAI_SOURCE, Sight, Speaker, Standing, is_local,
    is_owners_source, is_reserved_source, names_its_source,
};
pub use status::{InboxStatus, OutboxStatus, UnknownStatus};
pub use step::{Step, StepBody, ToolEnding};
pub use token::blank_tokens;
pub use turn::TurnPlace;
pub use usage::{CallOutcome, ModelCall, TokenUsage};
