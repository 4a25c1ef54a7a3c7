//! `cortex doctor` about how full a home is while no server runs.

use crate::cortex::Cortex;
use crate::doctor::{check_found, found};
use serde_json::json;

#[test]
fn a_database_over_its_limit_is_told_without_a_server() {
    let cortex = Cortex::scripted(&json!({"otherwise": {"say": "ok"}})).started();
    let long = "many words ".repeat(60_000);
    for number in 0..8 {
        let id = format!("m{number}");
        let event = json!({"source": "load", "externalMessageId": id, "idempotencyKey": id, "topicKey": id,
            "userId": "ada", "text": long, "occurredAt": "2026-01-01T00:00:00Z"});
        cortex.post("/ingest", &event);
    }
    assert_eq!(cortex.run(&["stop"]).code, Some(0));
    let (state, message) = found(&cortex, "storage");
    assert_eq!(state, "ok", "{message}");
    let (_, used) = message.split_once("MiB of the database: ").unwrap();
    let used: u64 = used.split(' ').next().unwrap().parse().unwrap();
    assert!((8..100).contains(&used), "{message}");
    assert!(
        message.starts_with("events that wait: ") && message.contains(" of 8192 (maxDatabaseMiB)"),
        "{message}"
    );
    let cortex = cortex.with("CORTEX_MAX_DATABASE_MIB", &(used + 1).to_string());
    check_found(&cortex, "storage", "warning", "raise the limit before new events are refused");
    let cortex = cortex.with("CORTEX_MAX_DATABASE_MIB", &(used - 1).to_string());
    let told =
        format!("MiB of the database: {used} of {} (maxDatabaseMiB); new events are refused", used - 1);
    check_found(&cortex, "storage", "problem", &told);
    let cortex = cortex.with("CORTEX_MAX_DATABASE_MIB", "0");
    check_found(&cortex, "storage", "ok", &format!("MiB of the database: {used} (maxDatabaseMiB)"));
}
