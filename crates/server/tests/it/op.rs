//! Ops over the wire, with the test as the Router that does the work.

use cortex_testkit::{RunningTestServer, ServerSetup};
use serde_json::{Value, json};

fn work() -> Value {
    json!({"type": "router_job", "description": "find flights", "source": "webchat", "topicKey": "trip", "userId": "ada"})
}

async fn taken_on(server: &RunningTestServer, body: &Value) -> String {
    let answer = server.post("/api/v2/ops", body).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["opId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_router_reports_a_result_once_and_the_user_is_told() {
    let server = ServerSetup::echoing().start().await;
    let op = taken_on(&server, &work()).await;
    let pending = server.get("/api/v2/ops?status=pending").await.json();
    assert_eq!(pending["items"][0]["opId"], json!(op));
    let done = server.post(&format!("/api/v2/ops/{op}/complete"), &json!({"result": "LH 400"})).await;
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!((&done.json()["status"], &done.json()["result"]), (&json!("completed"), &json!("LH 400")));
    let late = server.post(&format!("/api/v2/ops/{op}/fail"), &json!({"error": "no network"})).await;
    assert_eq!(late.seen(), (409, json!({"error": "conflict", "details": [format!("{op} is completed")]})));
    let told = cortex_testkit::eventually("the reply".to_owned(), || async {
        let messages = server.poll(&json!({"source": "webchat"})).await;
        messages.into_iter().next()
    })
    .await;
    assert_eq!(told["topicKey"], "trip");
    assert!(told["text"].as_str().unwrap().ends_with("Its result:\nLH 400"), "{told}");
}

#[tokio::test]
async fn a_cancelled_op_has_failed_and_a_late_result_is_refused() {
    let server = ServerSetup::echoing().start().await;
    let op = taken_on(&server, &work()).await;
    let cancelled = server.post(&format!("/api/v2/ops/{op}/cancel"), &json!({})).await.json();
    assert_eq!(
        (&cancelled["status"], &cancelled["result"]),
        (&json!("failed"), &json!("Error: cancelled by the owner"))
    );
    let late = server.post(&format!("/api/v2/ops/{op}/complete"), &json!({"result": "LH 400"})).await;
    assert_eq!(late.status, 409);
    assert_eq!(server.get(&format!("/api/v2/ops/{op}")).await.json()["result"], cancelled["result"]);
}

#[tokio::test]
async fn an_op_that_a_run_owns_outlives_a_restart() {
    let mut server = ServerSetup::echoing().start().await;
    let orphan = taken_on(&server, &work()).await;
    let mut owned = work();
    owned["runId"] = json!("run_1");
    let owned = taken_on(&server, &owned).await;
    server.restart().await;
    let status = |id: String| {
        let asking = server.request("GET", &format!("/api/v2/ops/{id}"));
        async move { asking.send().await.json() }
    };
    assert_eq!(status(owned).await["status"], "pending");
    assert_eq!(status(orphan).await["result"], json!("Error: orphaned from prior session (startup cleanup)"));
}

#[tokio::test]
async fn a_bad_op_names_every_bad_field_and_an_unknown_one_is_not_found() {
    let server = ServerSetup::echoing().start().await;
    let answer = server.post("/api/v2/ops", &json!({"type": "", "userId": 3})).await;
    assert_eq!(
        answer.seen(),
        (
            400,
            json!({"error": "invalid_request", "details": [
                "type must be a non-empty string", "description is required", "source is required",
                "topicKey is required", "userId must be a non-empty string",
            ]})
        )
    );
    for id in ["op_01J00000000000000000000000", "nonsense"] {
        let body = json!({"result": "x", "error": "x"});
        for action in ["complete", "fail", "cancel"] {
            assert_eq!(server.post(&format!("/api/v2/ops/{id}/{action}"), &body).await.status, 404);
        }
        assert_eq!(server.get(&format!("/api/v2/ops/{id}")).await.status, 404);
    }
    assert_eq!(server.get("/api/v2/ops?status=lost").await.status, 400);
}
