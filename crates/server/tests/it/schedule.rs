//! `/api/v2/schedules`: the owner makes, sees, changes and fires jobs without a model.

use cortex_runtime::RuntimeConfig;
use cortex_testkit::{FrozenTime, RunningTestServer, ServerSetup};
use serde_json::{Value, json};

async fn text(server: &RunningTestServer, path: &str, body: &Value, wanted: u16) -> String {
    let answer = server.post(path, body).await;
    assert_eq!(answer.status, wanted, "{path}: {}", answer.text());
    answer.json()["text"].as_str().unwrap().to_owned()
}

async fn one(server: &RunningTestServer) -> Value {
    let answer = server.get("/api/v2/schedules/1").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[tokio::test(start_paused = true)]
async fn a_job_is_made_in_words_listed_changed_paused_resumed_and_deleted() {
    let time = FrozenTime::hold();
    let in_berlin = |flow: &mut RuntimeConfig| flow.scheduler_timezone = "Europe/Berlin".to_owned();
    let server = ServerSetup::echoing().at(&time).flow(in_berlin).start().await;
    let body = json!({ "when": "every weekday at 9", "what": "stretch" });
    let made = text(&server, "/api/v2/schedules", &body, 201).await;
    assert!(made.starts_with("created schedule 1; 0 9 * * 1-5 Europe/Berlin"), "{made}");
    let row = json!({
        "id": 1,
        "description": "stretch",
        "cron": "0 9 * * 1-5",
        "runAt": null,
        "timezone": "Europe/Berlin",
        "catchUp": "once",
        "source": "cli",
        "topicKey": "main",
        "enabled": true,
        "lastRunAt": null,
        "nextFires": ["2027-01-18T08:00:00.000Z", "2027-01-19T08:00:00.000Z", "2027-01-20T08:00:00.000Z"],
        "slots": [],
    });
    assert_eq!(one(&server).await, row);
    let second = json!({ "cron": "0 8 * * *", "what": "water" });
    let second = server.post("/api/v2/schedules", &second).await.json();
    assert_eq!((&second["id"], &second["schedule"]["id"]), (&json!(2), &json!(2)), "{second}");
    assert_eq!(second["schedule"]["description"], "water");
    let preview = server.post("/api/v2/schedules/preview", &json!({ "cron": "0 8 * * *" })).await.json();
    assert_eq!(preview.as_object().unwrap().len(), 1, "nothing was made: {preview}");
    let deleted = server.post("/api/v2/schedules/2/delete", &json!({})).await.json();
    assert_eq!((&deleted["id"], deleted.get("schedule")), (&json!(2), None), "{deleted}");
    assert_eq!(server.get("/api/v2/schedules").await.seen(), (200, json!({ "items": [row] })));

    let changed = text(&server, "/api/v2/schedules/1", &json!({ "cron": "0 10 * * *" }), 200).await;
    assert!(changed.starts_with("changed schedule 1; 0 10 * * * Europe/Berlin"), "{changed}");
    let now = one(&server).await;
    assert_eq!((&now["cron"], &now["description"]), (&json!("0 10 * * *"), &json!("stretch")));

    assert_eq!(
        text(&server, "/api/v2/schedules/1/pause", &json!({}), 200).await,
        "paused schedule 1: stretch"
    );
    let paused = one(&server).await;
    assert_eq!((&paused["enabled"], &paused["nextFires"]), (&json!(false), &json!([])));
    assert_eq!(
        text(&server, "/api/v2/schedules/1/resume", &json!({}), 200).await,
        "resumed schedule 1: stretch"
    );
    assert_eq!(one(&server).await["nextFires"][0], "2027-01-15T09:00:00.000Z");

    assert_eq!(
        text(&server, "/api/v2/schedules/1/delete", &json!({}), 200).await,
        "deleted schedule 1: stretch"
    );
    assert_eq!(server.get("/api/v2/schedules").await.json(), json!({ "items": [] }));
    assert_eq!(server.get("/api/v2/schedules/1").await.seen(), (404, json!({ "error": "not_found" })));
}

#[tokio::test(start_paused = true)]
async fn a_preview_says_when_and_makes_nothing() {
    let time = FrozenTime::hold();
    let server = ServerSetup::echoing().at(&time).start().await;
    let body = json!({ "when": "every weekday at 9", "what": "stretch", "timezone": "Europe/Berlin" });
    let shown = text(&server, "/api/v2/schedules/preview", &body, 200).await;
    let fires = "next: Mon 2027-01-18 09:00, Tue 2027-01-19 09:00, Wed 2027-01-20 09:00";
    assert_eq!(shown, format!("cron 0 9 * * 1-5 in Europe/Berlin\n{fires}"));
    assert_eq!(server.get("/api/v2/schedules").await.json(), json!({ "items": [] }));
}

#[tokio::test(start_paused = true)]
async fn a_job_fired_by_hand_is_an_event_of_its_target() {
    let time = FrozenTime::hold();
    let server = ServerSetup::echoing().at(&time).start().await;
    let body = json!({
        "runAt": "2027-02-01T00:00:00Z", "what": "breathe", "source": "telegram", "topicKey": "chat-1", "userId": "ada",
    });
    text(&server, "/api/v2/schedules", &body, 201).await;
    let fired = server.post("/api/v2/schedules/1/run", &json!({})).await;
    assert_eq!(fired.status, 202, "{}", fired.text());
    let event = fired.json()["eventId"].as_str().unwrap().to_owned();
    let row = server.ended(&event).await;
    let place = (&row["source"], &row["topicKey"], &row["userId"], &row["text"]);
    assert_eq!(place, (&json!("telegram"), &json!("chat-1"), &json!("ada"), &json!("breathe")));
    let said = server.poll(&json!({ "source": "telegram" })).await;
    assert_eq!(said[0]["text"], "You said: breathe");
    assert_eq!(one(&server).await["slots"], json!([]), "its slots stay as they are");
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_job_is_said() {
    let time = FrozenTime::hold();
    let server = ServerSetup::echoing().at(&time).start().await;
    text(&server, "/api/v2/schedules", &json!({ "cron": "0 9 * * *", "what": "stretch" }), 201).await;
    for (body, words) in [
        (json!({ "cron": "0 9 * * *" }), "what is missing"),
        (json!({ "cron": "0 9 * * *", "what": " " }), "what is missing"),
        (json!({ "what": "stretch" }), "when is missing"),
        (json!({ "what": "stretch", "cron": "61 9 * * *" }), "61"),
        (json!({ "what": "stretch", "cron": 9 }), "string"),
        (json!({ "what": "stretch", "runAt": "tomorrow" }), "runAt must be RFC 3339"),
        (json!({ "what": "stretch", "runAt": "2020-01-01T00:00:00Z" }), "that time has passed"),
        (json!({ "what": "stretch", "when": "now and then" }), "is not understood"),
        (
            json!({ "what": "x", "cron": "0 9 * * *", "timezone": "Mars/Base" }),
            "there is no time zone \"Mars/Base\"",
        ),
        (json!({ "what": "x", "cron": "0 9 * * *", "catchUp": "twice" }), "twice"),
        (json!({ "what": "x", "cron": "0 9 * * *", "source": 5 }), "source must be a non-empty string"),
        (json!({ "what": "x", "cron": "0 9 * * *", "topicKey": "" }), "topicKey must be a non-empty string"),
    ] {
        let (status, answer) = server.post("/api/v2/schedules", &body).await.seen();
        assert_eq!((status, &answer["error"]), (400, &json!("invalid_request")), "{body}");
        let detail = answer["details"][0].as_str().unwrap();
        assert!(detail.contains(words) && !detail.starts_with("not run"), "{body}: {detail}");
    }
    for path in ["/api/v2/schedules/preview", "/api/v2/schedules/1"] {
        let (status, answer) = server.post(path, &json!({ "cron": "x" })).await.seen();
        assert_eq!((status, &answer["error"]), (400, &json!("invalid_request")), "{path}");
    }
    let broken = server.request("POST", "/api/v2/schedules").body("[]").send().await;
    let details = json!(["Request body must be a JSON object"]);
    assert_eq!(broken.seen(), (400, json!({ "error": "invalid_request", "details": details })));
    assert_eq!(server.get("/api/v2/schedules").await.json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_job_that_is_not_there_is_404_on_every_route() {
    let server = ServerSetup::echoing().start().await;
    let not_found = (404, json!({ "error": "not_found" }));
    for id in ["7", "-1", "x", "99999999999999999999"] {
        assert_eq!(server.get(&format!("/api/v2/schedules/{id}")).await.seen(), not_found, "{id}");
        for verb in ["", "/pause", "/resume", "/delete", "/run"] {
            let path = format!("/api/v2/schedules/{id}{verb}");
            assert_eq!(server.post(&path, &json!({ "cron": "0 9 * * *" })).await.seen(), not_found, "{path}");
        }
    }
}
