//! The server and what it leans on: the memory service, vectors.

use super::Check;
use crate::config::{Effective, Settings, Source};
use crate::context::Context;
use crate::exit::Failure;
use crate::home::Home;
use crate::{assemble, connect, daemon};
use cortex_api::{MemoryState, ServerStatus, StorageStatus, WatchdogStatus};
use cortex_models::{Timeouts, stranger_at};
use cortex_runtime::{EngramClient, EngramSetting};
use cortex_store::{HomeCounts, VectorCounts};

/// What the server said, if it runs.
pub(super) struct Server {
    pub(super) check: Check,
    pub(super) status: Option<ServerStatus>,
    pub(super) memory: Option<MemoryState>,
}

pub(super) async fn server(home: &Home, context: &Context) -> Server {
    let silent = |check| Server { check, status: None, memory: None };
    let Some(pid) = daemon::holder(home) else {
        return silent(match connect::client(context) {
            Err(failure @ Failure::Coded { code: connect::FOREIGN_SERVER, .. }) => {
                Check::problem("server", format!("it does not run; {failure}"))
            }
            Ok(_) | Err(_) => Check::warning("server", "it does not run; `cortex start` starts it"),
        });
    };
    match asked(context).await {
        Ok((status, memory)) => {
            let check = match &status.degraded {
                None => Check::ok("server", format!("runs and is well, pid {}", status.pid)),
                Some(reason) => Check::problem("server", format!("{reason}; see `cortex logs`")),
            };
            Server { check, status: Some(status), memory: Some(memory) }
        }
        Err(Failure::Unreachable { .. }) => {
            silent(Check::problem("server", daemon::not_answering(pid).to_string()))
        }
        Err(failure) => silent(Check::problem("server", format!("pid {pid}: {failure}"))),
    }
}

/// Events that would have waited for ever, if the watchdog found any.
pub(super) fn watchdog(status: &ServerStatus) -> Option<Check> {
    let found = status.watchdog;
    (found != WatchdogStatus::default()).then(|| {
        let message = format!(
            "{} events were put back and {} failed because no task worked on them, {} are stranded now; \
             `cortex logs` shows which, please report it",
            found.requeued, found.failed, found.stranded
        );
        Check::warning("watchdog", message)
    })
}

/// How much of its limits the next server would use, from what lies in the database.
pub(super) fn storage_at_rest(counts: &HomeCounts, settings: &Settings) -> Check {
    let limits = assemble::store_limits(settings);
    let limit = |max: u64| (max != u64::MAX).then_some(max);
    storage(StorageStatus {
        queued_events: counts.queued_events,
        queued_events_max: limit(limits.queued_events_max),
        database_bytes: counts.database_bytes,
        database_bytes_max: limit(limits.database_bytes_max),
        strangers_bytes: counts.strangers_bytes,
        strangers_bytes_max: limit(limits.strangers_bytes_max()),
    })
}

/// How much of its limits a server uses.
pub(super) fn storage(used: StorageStatus) -> Check {
    let mib = |bytes: u64| bytes.div_ceil(1024 * 1024);
    let of = |used: u64, max: Option<u64>| match max {
        Some(max) => format!("{used} of {max}"),
        None => format!("{used}"),
    };
    let line = format!(
        "events that wait: {} (maxQueuedEvents), MiB of the database: {} (maxDatabaseMiB)",
        of(used.queued_events, used.queued_events_max),
        of(mib(used.database_bytes), used.database_bytes_max.map(mib)),
    );
    let is_beyond = |part: u64, used: u64, max: Option<u64>| max.is_some_and(|max| used >= max / 10 * part);
    let is_any = |part| {
        is_beyond(part, used.queued_events, used.queued_events_max)
            || is_beyond(part, used.database_bytes, used.database_bytes_max)
    };
    let (theirs, theirs_max) = (used.strangers_bytes, used.strangers_bytes_max);
    let strangers =
        format!("{line}; connectors without a key filled {} MiB", of(mib(theirs), theirs_max.map(mib)));
    if is_any(10) {
        Check::problem("storage", format!("{line}; new events are refused: raise the limit and restart"))
    } else if is_beyond(10, theirs, theirs_max) {
        let help = "theirs are refused: give yours a key, or raise maxDatabaseMiB and restart";
        Check::warning("storage", format!("{strangers}; {help}"))
    } else if is_beyond(8, theirs, theirs_max) {
        let help = "give yours a key, or raise maxDatabaseMiB, before theirs are refused";
        Check::warning("storage", format!("{strangers}; {help}"))
    } else if is_any(8) {
        Check::warning("storage", format!("{line}; raise the limit before new events are refused"))
    } else {
        Check::ok("storage", line)
    }
}

async fn asked(context: &Context) -> Result<(ServerStatus, MemoryState), Failure> {
    let client = connect::client(context)?;
    Ok((client.status().await?, client.memory_state().await?))
}

/// Who keeps the memory, and whether he answers (D25).
pub(super) async fn engram(settings: &Settings, effective: &Effective) -> Check {
    let setting = assemble::engram(settings, effective);
    let client = match assemble::client_with(&Timeouts::default(), effective) {
        Ok(client) => client,
        Err(error) => return Check::problem("memory", error.to_string()),
    };
    let found = match EngramClient::find(&setting, client).await {
        Ok(found) => found,
        Err(error) => return Check::problem("memory", format!("{error}; give an address, or \"off\"")),
    };
    match (setting, found) {
        (_, None) => Check::ok("memory", "kept in this home"),
        (EngramSetting::Probe(_), Some(_)) => {
            Check::ok("memory", "kept by the Engram service on this machine")
        }
        (EngramSetting::Off | EngramSetting::Explicit(_), Some(service)) => match service.check().await {
            Ok(()) => Check::ok("memory", "kept by the Engram service at engramUrl, which answers"),
            Err(error) => {
                let message = format!(
                    "{error}: nothing is recalled until it does; start it, or set engramUrl to \"off\""
                );
                Check::problem("memory", message)
            }
        },
    }
}

/// Default addresses where another user of this machine listens: their service is not used (D25).
pub(super) fn strangers(settings: &Settings, effective: &Effective) -> Vec<Check> {
    let defaults = [
        ("engramUrl", &settings.engram_url, "engram"),
        ("synapseUrl", &settings.synapse_url, "synapse"),
        ("ollamaUrl", &settings.ollama_url, "ollama"),
    ];
    let probed = defaults.into_iter().filter(|(key, _, _)| effective.source(key) == Source::Default);
    let told = probed.filter_map(|(key, url, service)| {
        let user = stranger_at(url, service)?;
        let message = format!(
            "another user of this machine (uid {user}) listens at {url}, so it is not used; if that is the {service} you \
             mean, set {key} to this address, else to \"off\""
        );
        Some(Check::warning("services", message))
    });
    told.collect()
}

/// Whether every text has a vector of the model in use.
pub(super) fn vectors(counts: VectorCounts, embedder: &str, memory: Option<&MemoryState>) -> Check {
    let VectorCounts { texts, embedded } = counts;
    let of = format!("{embedded} of {texts} texts have a vector of {embedder}");
    if embedded >= texts {
        return Check::ok("vectors", of);
    }
    let next = match memory.map(|memory| &memory.reembedding) {
        None => "the rest is made while the server runs".to_owned(),
        Some(reembedding) => match &reembedding.last_error {
            Some(error) => format!("the rest waits: {error}"),
            None => "the rest is being made; `cortex memory status` shows how far".to_owned(),
        },
    };
    Check::warning("vectors", format!("{of}; {next}"))
}
