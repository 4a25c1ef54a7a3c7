//! The wire shapes of every endpoint, one noun per file, and the typed client.

mod approval;
mod channel;
mod client;
mod cloud_event;
mod connector;
mod context;
mod engram;
mod error;
mod gardener;
mod health;
mod inbox;
mod ingest;
mod key;
mod live;
mod memory;
mod op;
mod openai;
mod outbox;
mod schedule;
mod schema;
mod shadow;
mod status;
mod time;
mod tool;
mod trace;
mod usage;
mod webhook;

pub use approval::{
    ApprovalList, ApprovalQuery, ApprovalRow, GrantAnswer, GrantList, GrantQuery, GrantRequest, GrantRow,
};
pub use channel::{ChannelInfo, ChannelList};
pub use client::{Client, ClientError, LiveStream};
pub use cloud_event::{
    ACCEPTED_TYPE, ACK_TYPE, AcceptedData, CLOSE_GOING_AWAY, CLOSE_POLICY, CLOSE_SESSION, CLOSE_TOO_BIG,
    CLOSE_TRY_LATER, CloudEvent, DELTA_TYPE, DeltaData, ERROR_TYPE, ErrorData, FrameErrorCode, INBOUND_TYPE,
    NACK_TYPE, OUTBOUND_TYPE, OutboundData, SERVER_SOURCE, SETTLED_TYPE, SUBPROTOCOL, SettledData,
    SettledOutcome, named_message, outbound_uuid, random_uuid, uuid_text,
};
pub use connector::{
    ConnectorList, ConnectorRow, ConnectorState, LocalConnectorRow, TrustRequest, UnbindAnswer,
    UnbindRequest, UntrustRequest,
};
pub use context::{ContextCompacted, ContextQuery, ContextSection, ContextShown, ContextUndone};
pub use engram::{
    EngramCapabilities, EngramContext, EngramFeatures, EngramForget, EngramForgotten, EngramHealth,
    EngramImported, EngramKept, EngramRecall, EngramRecalled, EngramRefused, EngramRemember,
    EngramRemembered, EngramRow, EngramStats, EngramWell,
};
pub use error::{ErrorBody, ErrorCode};
pub use gardener::{GardenerReport, GardenerRow, GardenerRunAnswer, GardenerThinks};
pub use health::{Health, HealthStatus};
pub use inbox::{InboxList, InboxQuery, InboxRow};
pub use ingest::{IngestAnswer, IngestRequest, IngestStatus};
pub use key::{KeyChoice, KeyInfo, KeyList, KeyRequest, NewKey};
pub use live::{LiveDelta, LiveDone, LiveError, LiveEvent};
pub use memory::{
    EmbedderState, FactChange, FactList, FactNumbers, FactQuery, FactRow, FactSourceRow, ImportAnswer,
    MemoryHit, MemoryHitKind, MemoryHits, MemoryQuery, MemoryState, ReembeddingState, TurnNumbers,
    VectorNumbers,
};
pub use op::{OpFailure, OpList, OpQuery, OpRequest, OpResult, OpRow};
pub use openai::{
    ChatChoice, ChatChoiceMessage, ChatChunkChoice, ChatChunkDelta, ChatCompletion, ChatCompletionChunk,
    ChatCompletionRequest, ChatUsage, CortexApproval, CortexNote, EmbeddingRow, EmbeddingVector,
    EmbeddingsList, EmbeddingsRequest, EmbeddingsUsage, ModelCard, ModelCardList, OpenAiError, OpenAiRefused,
    ResponsesRequest,
};
pub use outbox::{
    AckAnswer, AckRequest, AckStatus, NackAnswer, NackRequest, NackStatus, OutboxList, OutboxQuery,
    OutboxRow, PollAnswer, PollRequest, PolledMessage, ReleaseAnswer, ReleaseRequest,
};
pub use schedule::{RunNowAnswer, ScheduleAnswer, ScheduleList, ScheduleRequest, ScheduleRow, SlotRow};
pub use shadow::{ShadowQuery, ShadowReport, ShadowRow};
pub use status::{ModelStatus, ServerStatus, StorageStatus, WatchdogStatus};
pub use time::WireTime;
pub use tool::{
    AwaitingTrust, CutText, ToolEffect, ToolList, ToolRow, ToolTrustRequest, UntrustedCode, UntrustedTool,
};
pub use trace::{EventTrace, TraceEntry, TraceWhat};
pub use usage::{UsageBy, UsageCounts, UsageQuery, UsageReport, UsageRow};
pub use webhook::WebhookMessage;
