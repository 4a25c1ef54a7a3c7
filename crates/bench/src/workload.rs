//! The workloads, one file each.

mod context;
mod embed;
mod footprint;
mod growth;
mod ingest;
mod outbox_drain;
mod recall;
mod search_vector;
mod tool_call;
mod turn_throughput;
mod ws_dispatch;

pub(crate) use context::context;
pub(crate) use embed::embed;
pub(crate) use footprint::footprint;
pub(crate) use growth::growth;
pub(crate) use ingest::{ingest_idle_latency, ingest_throughput, ingest_vs_naive};
pub(crate) use outbox_drain::outbox_drain;
pub(crate) use recall::recall;
pub(crate) use search_vector::search_vector;
pub(crate) use tool_call::tool_call;
pub(crate) use turn_throughput::turn_throughput;
pub(crate) use ws_dispatch::ws_dispatch;
