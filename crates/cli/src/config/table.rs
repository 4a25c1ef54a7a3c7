//! The table of keys: name, kind, default and help of every server setting. Nothing else knows a key.

use super::channels;
use super::kind::Kind;
use serde_json::{Value, json};

/// One setting of `server.json`.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: Fallback,
    pub(crate) help: &'static str,
}

/// The value of a key that nobody set.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fallback {
    Unset,
    Text(&'static str),
    Integer(i64),
    Flag(bool),
    EmptyList,
    EmptyObject,
}

impl Key {
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// `outboxMaxAttempts` → `CORTEX_OUTBOX_MAX_ATTEMPTS`.
    pub(crate) fn variable(&self) -> String {
        let mut variable = String::from("CORTEX_");
        for letter in self.name.replace("MiB", "Mib").chars() {
            if letter.is_ascii_uppercase() {
                variable.push('_');
            }
            variable.push(letter.to_ascii_uppercase());
        }
        variable
    }

    pub(crate) fn default_value(&self) -> Value {
        match self.default {
            Fallback::Unset => Value::Null,
            Fallback::Text(text) => json!(text),
            Fallback::Integer(number) => json!(number),
            Fallback::Flag(flag) => json!(flag),
            Fallback::EmptyList => json!([]),
            Fallback::EmptyObject => json!({}),
        }
    }
}

const fn key(name: &'static str, kind: Kind, default: Fallback, help: &'static str) -> Key {
    Key { name, kind, default, help }
}

const fn count(name: &'static str, min: i64, max: i64, default: i64, help: &'static str) -> Key {
    Key { name, kind: Kind::Integer { min, max }, default: Fallback::Integer(default), help }
}

const HOUR_MS: i64 = 3_600_000;
const TOKENS_MAX: i64 = 1_000_000_000_000;

pub(crate) const KEYS: &[Key] = &[
    key(
        "host",
        Kind::Host,
        Fallback::Text("127.0.0.1"),
        "The address to listen on. Anything but loopback also needs allowRemote and an ingestApiKey of at least 32 bytes.",
    ),
    count("port", 0, 65_535, 7751, "The port to listen on; 0 takes a free one."),
    key("allowRemote", Kind::Flag, Fallback::Flag(false), "Allow a host that other machines can reach."),
    key(
        "allowedHosts",
        Kind::TextList,
        Fallback::EmptyList,
        "More names that a request's Host header may carry; loopback names always may.",
    ),
    key(
        "allowedOrigins",
        Kind::TextList,
        Fallback::EmptyList,
        "Origins of web pages that may call this server.",
    ),
    key(
        "ingestApiKey",
        Kind::Secret,
        Fallback::Unset,
        "The owner's key for every route. Without one the first start makes one; `cortex key show ingest` prints it.",
    ),
    key(
        "synapseUrl",
        Kind::Url,
        Fallback::Text("http://localhost:7750"),
        "An OpenAI-compatible server. Used always when set; the default only when a Synapse answers there; \"off\" never.",
    ),
    key(
        "engramUrl",
        Kind::Url,
        Fallback::Text("http://localhost:7749"),
        "The Engram memory service. Used always when set; the default only when it answers; \"off\" never.",
    ),
    key(
        "engram",
        Kind::AllowLocal,
        Fallback::EmptyObject,
        "{\"allowLocal\": true} lets programs that you run on this machine use /engram without a key; it holds personal facts, so they need one by default.",
    ),
    key(
        "connector",
        Kind::AllowLocal,
        Fallback::EmptyObject,
        "{\"allowLocal\": false} asks connectors that you run on this machine for a key at /connector, as all others are asked.",
    ),
    count(
        "maxRequestsPerKey",
        16,
        100_000,
        1_024,
        "Requests that one key may have running at once; half of them may be polls that wait.",
    ),
    count(
        "ownerRequestsPerMinute",
        0,
        60_000_000,
        6_000_000,
        "Requests that the owner's keys may make in a minute; 0 is no limit.",
    ),
    count(
        "keyRequestsPerMinute",
        0,
        60_000_000,
        600_000,
        "Requests that each connector's key may make in a minute; 0 is no limit.",
    ),
    count(
        "openRequestsPerMinute",
        0,
        60_000_000,
        60_000,
        "Requests that each address may make in a minute on routes that need no key; 0 is no limit.",
    ),
    key(
        "ollamaUrl",
        Kind::Url,
        Fallback::Text("http://localhost:11434"),
        "Where to look for an Ollama when nothing else is configured; \"off\" does not look.",
    ),
    key(
        "model",
        Kind::Text,
        Fallback::Unset,
        "The model to ask for; without one each provider's own default. \"stub\" answers everything with silence.",
    ),
    key("extractionModel", Kind::Text, Fallback::Unset, "The model that extracts facts; without one, model."),
    key(
        "providers",
        Kind::Providers,
        Fallback::Unset,
        "Model providers: {\"profiles\": [{name, kind, baseUrl, apiKey, authToken, models}], \"contexts\": {…}}, asked in the order of profiles.",
    ),
    key(
        "embedding",
        Kind::Embedding,
        Fallback::Unset,
        "An embedding model behind OpenAI's /v1/embeddings: {baseUrl, apiKey, model, dims}; without it, the table in the program.",
    ),
    key(
        "scriptedModel",
        Kind::Path,
        Fallback::Unset,
        "A file of scripted answers that replaces every model; for tests.",
    ),
    key(
        "priceFile",
        Kind::Path,
        Fallback::Unset,
        "A JSON file of model prices, laid over the built-in table.",
    ),
    count("modelTimeoutMs", 1, HOUR_MS, 120_000, "Longest model call as a whole."),
    count("modelIdleTimeoutMs", 1, HOUR_MS, 60_000, "Longest silence of a model while it answers."),
    count("maxTokensPerEvent", 0, TOKENS_MAX, 200_000, "Most tokens one event may cost; 0 is no limit."),
    count(
        "maxTokensPerDay",
        0,
        TOKENS_MAX,
        0,
        "Most tokens all events of a day (UTC) may cost; 0 is no limit.",
    ),
    key(
        "enabled",
        Kind::Flag,
        Fallback::Flag(true),
        "Whether events are answered; false lets them queue up. Read again on SIGHUP, as channels and identities are.",
    ),
    key(
        "defaultMode",
        Kind::Choice(channels::MODES),
        Fallback::Unset,
        "The mode of channels that are not listed: off is not tracked, shadow is processed and recorded and nothing leaves, live is everything. Without one it is off when channels is set, else live.",
    ),
    key(
        "channels",
        Kind::Channels,
        Fallback::Unset,
        "The mode of each channel: {\"<channel>\": \"live\"} or {\"<channel>\": {mode, topic}}; topic is where an answer goes that another channel sends there. `cortex channel mode` writes it.",
    ),
    key(
        "identities",
        Kind::Identities,
        Fallback::EmptyObject,
        "Whose accounts belong together: {\"<name>\": [\"<source>/<userId>\", …]}. A user id alone counts where it begins with its source, as slack:U1 and tg:1 do, or comes with your own key. With none, all users are one owner.",
    ),
    key(
        "connectors",
        Kind::Connectors,
        Fallback::EmptyObject,
        "Connectors: {\"telegram\": {enabled, token, apiUrl, allow, groups, maxFileBytes}}, and matrix, discord and slack (which has an appToken, too); the server runs those that are enabled. allow lists the user ids that are heard, none means nobody; groups is mention, all or off.",
    ),
    key(
        "hippocampus",
        Kind::Hippocampus,
        Fallback::Unset,
        "Memory: {\"enabled\": true}, which is the default. With it the prompt has known facts, at most 20 messages or 4000 tokens of its topic, and no channel that was idle for more than a day.",
    ),
    key("hippocampusEnabled", Kind::Flag, Fallback::Unset, "The same as hippocampus.enabled, which wins."),
    count(
        "contextTokens",
        0,
        10_000_000,
        0,
        "Tokens that the model takes, its answer included; 0 goes by the model's name.",
    ),
    count("activeWindowSize", 1, 1_000, 10, "How many exchanges of a topic the model sees."),
    count("extractionInterval", 1, 1_000, 3, "Messages of people between two extractions of facts."),
    count(
        "turnTtlDays",
        0,
        36_500,
        30,
        "Days until old history is dropped, while memory is on not before it was extracted; 0 keeps it for ever.",
    ),
    count(
        "gardenerTokensPerDay",
        0,
        TOKENS_MAX,
        200_000,
        "Most tokens the gardener's models may cost a day (UTC), extraction included; 0 is no limit.",
    ),
    count("schedulerTickSeconds", 1, 3_600, 30, "Seconds between two looks at the schedule."),
    key("schedulerTimezone", Kind::TimeZone, Fallback::Text("UTC"), "The time zone of every schedule."),
    key(
        "outboxPollDefaultBatch",
        Kind::Clamped { min: 1, max: 100 },
        Fallback::Integer(20),
        "Messages a poll hands out when it does not say.",
    ),
    key(
        "outboxLeaseSeconds",
        Kind::Clamped { min: 10, max: 300 },
        Fallback::Integer(60),
        "Lease of a polled message when the poll does not say.",
    ),
    count("outboxMaxAttempts", 1, 1_000, 10, "Claims of a message before it is a dead letter."),
    count("inboxMaxAttempts", 1, 1_000, 5, "Attempts at an event before it fails and the user is told."),
    count(
        "inboxMaxRestarts",
        1,
        1_000,
        20,
        "Restarts an event may live through without progress before it fails.",
    ),
    count(
        "maxParallelTopics",
        1,
        256,
        4,
        "Topics that are answered at the same time; inside a topic always one event. One of them is kept for \
         `cli`, your terminal; connectors without a key have at most half. With `1` nothing is kept.",
    ),
    count(
        "maxQueuedEvents",
        1,
        100_000_000,
        100_000,
        "Events that may wait for an answer. Beyond it new ones are refused with queue_full. One source may have half of it, and all connectors without a key together a tenth; `cli`, `openai` and answers to questions each have a reserve.",
    ),
    count(
        "maxDatabaseMiB",
        0,
        100_000_000,
        8_192,
        "Size of the database in MiB. Beyond it new events are refused with storage_full; what was accepted is still answered. Connectors without a key may fill a tenth of it together. 0 is no limit.",
    ),
    count("maxToolRounds", 1, 64, 8, "Tool rounds of one turn before the model must answer."),
    key(
        "skillDirs",
        Kind::TextList,
        Fallback::EmptyList,
        "Trusted folders of skills; each folder in one of them is a skill. Relative to the home, or in the variable to where the server is started.",
    ),
    key(
        "skillConfig",
        Kind::SkillConfig,
        Fallback::EmptyObject,
        "What each skill finds in ctx.config, by the skill's id.",
    ),
    count("skillHeapMiB", 4, 4_096, 32, "Most memory of one skill."),
    key(
        "skillIsolation",
        Kind::Choice(&["thread", "process"]),
        Fallback::Text("process"),
        "Where a skill runs: in a process of its own that can be killed and reaches only its database, or on a thread of the server.",
    ),
    key(
        "undeclaredTools",
        Kind::Choice(&["run", "ask"]),
        Fallback::Text("run"),
        "Whether a skill's tool that does not say if it changes anything runs or asks first.",
    ),
    key(
        "mcpServers",
        Kind::McpServers,
        Fallback::EmptyObject,
        "MCP servers whose tools may be called: {\"<name>\": {command, args, env} or {url, headers}}.",
    ),
    count(
        "mcpStartSeconds",
        0,
        120,
        5,
        "How long messages that arrive right after the start wait for the tools of MCP servers.",
    ),
    count(
        "mcpCallWaitSeconds",
        0,
        600,
        30,
        "How long a call waits for an MCP server that is starting or restarting before it is reported as not run.",
    ),
    key(
        "hooks",
        Kind::Hooks,
        Fallback::EmptyObject,
        "Webhooks that come in at /hooks/<name>: {\"<name>\": {key, hmac, secret, text, topic, user, id, when, to}}; docs/webhooks.md.",
    ),
    key(
        "webhooks",
        Kind::Webhooks,
        Fallback::EmptyObject,
        "Where the messages of a source are posted: {\"<name>\": {source, url, secret, timeoutMs, headers}}; docs/webhooks.md.",
    ),
    key(
        "egressAllow",
        Kind::HostPorts,
        Fallback::EmptyList,
        "Hosts with ports that tools may reach although they are not public, such as \"127.0.0.1:9000\".",
    ),
    key(
        "calendars",
        Kind::Calendars,
        Fallback::EmptyObject,
        "Calendars to read: {\"<name>\": \"<file.ics or address>\"}; files relative as skillDirs are.",
    ),
    count("approvalTtlMinutes", 1, 10_080, 15, "Minutes until a question that nobody answered expires."),
    key(
        "approvals",
        Kind::Approvals,
        Fallback::EmptyObject,
        "How questions are answered: {\"bareWords\": true} lets a plain yes or no decide while exactly one question of that person is open in the topic and was shown to them before; otherwise open questions are shown again.",
    ),
    key("approvers", Kind::TextList, Fallback::EmptyList, "User ids that may answer any question."),
    count("toolTimeoutMs", 1, HOUR_MS, 20_000, "Longest run of one tool."),
    count("drainSeconds", 0, 3_600, 30, "How long a stop waits for running turns."),
    key(
        "logLevel",
        Kind::Choice(&["error", "warn", "info", "debug", "trace"]),
        Fallback::Text("info"),
        "How much the log says.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_variable_is_the_key_in_upper_snake_case() {
        let key = Key::find("outboxMaxAttempts").unwrap();
        assert_eq!(key.variable(), "CORTEX_OUTBOX_MAX_ATTEMPTS");
    }

    #[test]
    fn no_two_keys_share_a_variable_and_every_default_is_valid() {
        let variables: BTreeSet<String> = KEYS.iter().map(Key::variable).collect();
        assert_eq!(variables.len(), KEYS.len());
        for key in KEYS {
            let default = key.default_value();
            if !default.is_null() {
                assert_eq!(key.kind.check(&default), Ok(default), "{}", key.name);
            }
        }
    }
}
