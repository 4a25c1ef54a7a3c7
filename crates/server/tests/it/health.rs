//! `/health` and its kin: they answer anybody, and tell nobody anything else. `/metrics` needs the key.

use crate::sample::event;
use cortex_testkit::ServerSetup;

#[tokio::test]
async fn health_answers_anybody_with_one_word() {
    let server = ServerSetup::echoing().start().await;
    for path in ["/health", "/healthz", "/readyz"] {
        let answer = server.request("GET", path).without_key().send().await;
        assert_eq!((answer.status, answer.text()), (200, "{\"status\":\"healthy\"}".to_owned()), "{path}");
    }
}

#[tokio::test]
async fn health_discloses_neither_version_nor_path_nor_count() {
    let server = ServerSetup::echoing().start().await;
    server.answered(&event("1")).await;
    for path in ["/health", "/healthz", "/readyz"] {
        let answer = server.request("GET", path).without_key().send().await;
        let mut names: Vec<&str> = answer.headers.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["connection", "content-length", "content-type", "date"], "{path}");
        assert_eq!(answer.text(), "{\"status\":\"healthy\"}");
    }
}

#[tokio::test]
async fn metrics_show_the_queues_and_the_counters() {
    let server = ServerSetup::echoing().start().await;
    server.answered(&event("1")).await;
    let answer = server.get("/metrics").await;
    assert_eq!(answer.status, 200);
    let text = answer.text();
    for line in [
        "cortex_inbox_events{status=\"done\"} 1",
        "cortex_inbox_events{status=\"pending\"} 0",
        "cortex_outbox_messages{status=\"pending\"} 1",
        "cortex_outbox_messages{status=\"dead\"} 0",
        "cortex_events_accepted_total ",
        "cortex_turns_total{outcome=\"answered\"} ",
        "cortex_model_calls_total{",
    ] {
        assert!(text.lines().any(|found| found.starts_with(line)), "no {line:?} in\n{text}");
    }
    assert!(!text.contains("Remind me"), "no message reaches the metrics");
}
