//! `/api/v2/usage`: what the models were asked and what it cost.

use crate::sample::{event, saying};
use cortex_testkit::{FrozenTime, ServerSetup};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn calls_are_summed_by_model_day_and_provider() {
    let time = FrozenTime::hold();
    let script = json!({
        "model": "script-1",
        "answers": [{ "when": { "equals": "bad" }, "error": { "kind": "rejected" } }],
        "otherwise": { "say": "Yes." },
    });
    // A day has hours at which the gardener asks the model, too.
    let setup = ServerSetup::scripted(script).at(&time).flow(|flow| flow.memory_enabled = false);
    let server = setup.start().await;
    server.answered(&saying("1", "good")).await;
    time.advance(Duration::from_secs(24 * 3_600)).await;
    server.answered(&saying("2", "bad")).await;
    let keys = async |query: &str| -> Vec<(Value, Value, Value)> {
        let report = server.get(&format!("/api/v2/usage{query}")).await.json();
        let rows = report["rows"].as_array().unwrap().iter();
        rows.map(|row| (row["key"].clone(), row["calls"].clone(), row["failed"].clone())).collect()
    };
    let both = (json!(2), json!(1));
    assert_eq!(keys("").await, [(json!("script-1"), both.0.clone(), both.1.clone())]);
    assert_eq!(keys("?by=provider").await, [(json!("scripted"), both.0, both.1)]);
    let days = [(json!("2027-01-16"), json!(1), json!(1)), (json!("2027-01-15"), json!(1), json!(0))];
    assert_eq!(keys("?by=day").await, days);
    assert_eq!(keys("?by=day&since=2027-01-16T00:00:00Z").await, days[..1]);
}

#[tokio::test]
async fn a_report_has_a_total_and_says_what_it_covers() {
    let server = ServerSetup::echoing().start().await;
    let empty = server.get("/api/v2/usage").await.json();
    let nothing = json!({
        "calls": 0, "failed": 0, "inputTokens": 0, "outputTokens": 0, "cachedTokens": 0, "costMicros": 0, "latencyMs": 0,
    });
    assert_eq!(empty, json!({ "by": "model", "since": null, "rows": [], "total": nothing }));
    server.answered(&event("1")).await;
    let report = server.get("/api/v2/usage?since=2020-01-01T00:00:00Z").await.json();
    assert_eq!(
        (&report["since"], &report["total"]["calls"]),
        (&json!("2020-01-01T00:00:00.000Z"), &json!(1))
    );
    assert!(report["total"]["inputTokens"].as_u64().unwrap() > 0, "{report}");
}

#[tokio::test]
async fn a_bad_query_is_refused() {
    let server = ServerSetup::echoing().start().await;
    for query in ["by=week", "since=yesterday"] {
        let (status, body) = server.get(&format!("/api/v2/usage?{query}")).await.seen();
        assert_eq!((status, &body["error"]), (400, &json!("invalid_request")), "{query}");
    }
}
