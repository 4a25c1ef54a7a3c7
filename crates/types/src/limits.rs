//! The bounds of everything that can grow, in one place.

/// Largest request body.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Largest request body of a chat client, which sends its whole history with every message.
pub const CHAT_BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Deepest JSON accepted in a request.
pub const JSON_DEPTH_MAX: usize = 64;
/// Most memory that the values of a request's JSON may take, beside its text.
pub const JSON_VALUES_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The same for chat clients, whose histories and lists of tokens are long.
pub const CHAT_VALUES_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Largest request head.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;
/// Longest identifier-like field of an event (source, ids, topic, user).
pub const FIELD_CHARS_MAX: usize = 512;
/// Longest name of a connector without a key.
pub const LOCAL_NAME_CHARS_MAX: usize = 128;
/// Longest part of others' words, quoted in somebody's message, that is kept and shown.
pub const QUOTED_CHARS_MAX: usize = 4_000;
/// Most connectors without a key that are remembered; those that were silent longest are forgotten first.
pub const LOCAL_CONNECTORS_MAX: u32 = 256;
/// Most messages one poll hands out.
pub const POLL_BATCH_MAX: u32 = 100;
pub const LEASE_SECONDS_MIN: u32 = 10;
pub const LEASE_SECONDS_MAX: u32 = 300;
/// Longest wait a connector may ask for when it could not deliver a message.
pub const RETRY_AFTER_SECONDS_MAX: u32 = 24 * 60 * 60;
/// Events of one socket whose ends it is told of; send an older one again to learn its end.
pub const RECEIPTS_MAX: usize = 1_024;
/// Most tokens that one model call is believed to have cost; sums of many calls still fit the database.
pub const TOKENS_PER_CALL_MAX: u64 = 1_000_000_000_000;
/// Most that one model call is believed to have cost, in millionths of a US dollar.
pub const COST_MICROS_MAX: u64 = 1_000_000_000_000;
/// Longest that one model call is believed to have taken.
pub const LATENCY_MS_MAX: u64 = 1_000_000_000_000;
/// Largest model answer kept; more is cut with a mark.
pub const REPLY_BYTES_MAX: usize = 512 * 1024;
/// Most questions that one turn has open at a time; its other calls wait for the next free place.
pub const OPEN_QUESTIONS_MAX: usize = 4;
/// Most open questions of all programs without a key together, however many names they have; one of them has as many as a
/// turn has.
pub const STRANGERS_QUESTIONS_MAX: usize = 16;
/// Most tool calls of one model answer that are looked at.
pub const TOOL_CALLS_MAX: usize = 32;
/// Most tool calls of one turn that run at the same time; the others wait for their turn.
pub const TOOL_CALLS_AT_ONCE_MAX: usize = 4;
/// Most bytes of pages and answers that all tools together hold while they read them.
pub const FETCHED_BYTES_MAX: usize = 48 * 1024 * 1024;
/// Largest body of an import of memory.
pub const IMPORT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Most rows one listing answers with.
pub const LIST_ROWS_MAX: u32 = 500;
/// Most bytes of one page of a listing: it ends earlier when its rows are large.
pub const LIST_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Events that the owner's terminal, his programs, and answers to questions may each have waiting beyond maxQueuedEvents.
pub const RESERVED_QUEUED_EVENTS: u64 = 1_000;
/// How far the owner's own messages may go beyond maxDatabaseMiB; answers to questions may go half as far.
pub const RESERVED_DATABASE_BYTES: u64 = 64 * 1024 * 1024;
/// Most facts in a prompt.
pub const KNOWN_FACTS_MAX: usize = 50;
/// Most pinned facts: every prompt has them all.
pub const PINNED_FACTS_MAX: usize = KNOWN_FACTS_MAX;
/// Most channels that a prompt has a line for.
pub const BACKGROUND_LINES_MAX: usize = 32;
/// Longest line that other channels see of a conversation.
pub const BACKGROUND_CHARS_MAX: usize = 200;
/// Longest stored error text.
pub const ERROR_CHARS_MAX: usize = 1_000;
/// Longest result of an op that is kept; more is cut with a mark.
pub const OP_RESULT_CHARS_MAX: usize = 64 * 1024;
/// Most ops that one prompt shows.
pub const OPS_SHOWN_MAX: u32 = 20;
/// Most files one backup holds.
pub const BACKUP_FILES_MAX: usize = 100_000;
/// Largest table of contents of a backup: enough for a terabyte.
pub const BACKUP_MANIFEST_BYTES_MAX: u64 = 96 * 1024 * 1024;
/// Deepest folder below a home that a backup goes into.
pub const BACKUP_DEPTH_MAX: usize = 16;
/// Longest line of a trace: the arguments of a call, or what it gave.
pub const TRACE_LINE_CHARS_MAX: usize = 4_000;
/// Longest description or schema of a tool that is shown before it is trusted; what is cut off is counted.
pub const UNTRUSTED_TEXT_CHARS_MAX: usize = 4_000;
/// Most such text of one skill or MCP server together; behind it tools are named and their texts counted.
pub const UNTRUSTED_TEXTS_CHARS_MAX: usize = 128 * 1024;
/// Largest input schema of a tool.
pub const SCHEMA_BYTES_MAX: usize = 64 * 1024;
/// Deepest nesting of a tool's input schema, and of the arguments of a call.
pub const SCHEMA_DEPTH_MAX: usize = 64;
/// Most schemas inside one input schema.
pub const SCHEMA_NODES_MAX: usize = 4_096;
/// Most `$ref`s of one input schema.
pub const SCHEMA_REFS_MAX: usize = 256;
/// Most schemas that apply to one value through each other, such as a `$ref` to a `$ref`.
pub const SCHEMA_CHAIN_MAX: usize = 32;
/// Most patterns of one input schema.
pub const SCHEMA_PATTERNS_MAX: usize = 64;
/// Longest pattern of an input schema.
pub const SCHEMA_PATTERN_CHARS_MAX: usize = 512;
/// Largest arguments of one tool call.
pub const ARGUMENT_BYTES_MAX: usize = 256 * 1024;
/// Most steps that checking one call's arguments may take.
pub const CHECK_STEPS_MAX: u64 = 2_000_000;
/// What each process of an MCP server may have of memory to write to, in MiB, where its entry does not say.
pub const MCP_MEMORY_MIB_DEFAULT: u64 = 4_096;
/// What an entry may say: an interpreter needs some to start.
pub const MCP_MEMORY_MIB: std::ops::RangeInclusive<u64> = 64..=1_048_576;
/// Processes and threads that an MCP server may start where its entry does not say; a browser has some three hundred.
pub const MCP_PROCESSES_DEFAULT: u64 = 512;
/// What an entry may say.
pub const MCP_PROCESSES: std::ops::RangeInclusive<u64> = 1..=100_000;

/// Notes about one event. What a program does again and again leaves no more; what happened first tells the most.
pub const TRACE_NOTES_MAX: u32 = 1_000;
/// Notes beyond those that say how a try went, and beyond these that say how a message ended.
pub const TRACE_NOTES_KEPT: u32 = 100;
