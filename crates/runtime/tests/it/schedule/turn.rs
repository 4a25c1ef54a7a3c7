//! `schedule.*` through a whole turn: words become a cron before anybody is asked, and the reminder arrives.

use super::DAY;
use cortex_store::PageRequest;
use cortex_testkit::{FrozenTime, RuntimeSetup, TestRuntime, eventually};
use cortex_types::{Approval, Decision, EventId, InboxStatus, Priority, ToolEnding};
use serde_json::{Value, json};
use std::time::Duration;

/// The time stands at Friday 15 January 2027, 09:00 in Berlin.
async fn start(time: &FrozenTime, tool: &str, arguments: Value) -> TestRuntime {
    let script = json!({
        "answers": [
            {"when": {"afterTool": format!("schedule.{tool}")}, "say": "Settled."},
            {"when": {"equals": "do it"}, "toolCalls": [{"name": format!("schedule.{tool}"), "arguments": arguments}]},
        ],
        "otherwise": {"say": "Time to {{user}}!"},
    });
    let flow = RuntimeSetup::scripted(script, time);
    flow.flow(|config| config.scheduler_timezone = "Europe/Berlin".to_owned()).start().await
}

/// What the user sees and decides about, once the turn waits.
async fn question(flow: &TestRuntime, id: &EventId) -> (Approval, String) {
    flow.reaches(id, InboxStatus::Waiting).await;
    let open = flow.runtime.approvals().list(true, PageRequest::newest(10)).await.unwrap().rows;
    let prompt = flow.replies(id).await;
    assert_eq!((open.len(), prompt.len()), (1, 1));
    (open[0].clone(), prompt[0].clone())
}

#[tokio::test(start_paused = true)]
async fn every_weekday_at_nine_is_asked_as_a_cron_with_its_fires_and_then_reminds() {
    let time = FrozenTime::hold();
    let flow = start(&time, "create", json!({"when": "every weekday at 9", "what": "stretch"})).await;
    let asked = flow.say("chat", "do it").await;
    let (approval, prompt) = question(&flow, &asked).await;
    let arguments: Value = serde_json::from_str(&approval.tool_arguments_json).unwrap();
    assert_eq!(arguments, json!({"cron": "0 9 * * 1-5", "timezone": "Europe/Berlin", "what": "stretch"}));
    assert!(
        prompt.contains(
            "cron 0 9 * * 1-5 in Europe/Berlin\n  next: Mon 2027-01-18 09:00, Tue 2027-01-19 09:00, Wed 2027-01-20 09:00\n"
        ),
        "{prompt}"
    );
    flow.runtime.approvals().decide(approval.id, Decision::Approved).await.unwrap();
    flow.reaches(&asked, InboxStatus::Done).await;
    assert_eq!(flow.store.schedules().list().await.unwrap().len(), 1);

    time.advance(Duration::from_millis(u64::try_from(3 * DAY).unwrap())).await;
    let reminder = eventually("the reminder", || async {
        let page = cortex_store::PageRequest::newest(10);
        let events = flow.store.inbox().list(None, page).await.unwrap().rows;
        events.into_iter().find(|event| event.external_message_id.starts_with("schedule:"))
    })
    .await;
    let monday = super::at("2027-01-18T08:00:00Z");
    assert_eq!(reminder.external_message_id, format!("schedule:1:{}", monday.0));
    assert_eq!((reminder.topic, reminder.user_id.as_str()), (flow.event(&asked).await.topic, "ada"));
    let metadata: Value = serde_json::from_str(reminder.metadata_json.as_deref().unwrap()).unwrap();
    assert_eq!((&metadata["channel"], &metadata["jobId"]), (&json!("cron"), &json!(1)));
    assert_eq!(reminder.priority, Priority::Normal);
    flow.reaches(&reminder.id, InboxStatus::Done).await;
    assert_eq!(flow.replies(&reminder.id).await, ["Time to stretch!"]);
}

#[tokio::test(start_paused = true)]
async fn words_with_two_meanings_go_back_to_the_model_as_a_question() {
    let time = FrozenTime::hold();
    let flow = start(&time, "create", json!({"when": "every other day at 9", "what": "stretch"})).await;
    let id = flow.say("chat", "do it").await;
    flow.reaches(&id, InboxStatus::Done).await;
    let (text, ending) = flow.tool_answer(&id).await;
    assert!(text.contains("ask the user: ") && ending == ToolEnding::Refused, "{text} {ending:?}");
    assert_eq!(flow.runtime.approvals().list(false, PageRequest::newest(10)).await.unwrap().rows, []);
    assert_eq!(flow.store.schedules().list().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_could_never_run_is_refused_before_anybody_is_asked() {
    let time = FrozenTime::hold();
    for (tool, arguments, told) in [
        ("create", json!({"what": "stretch"}), "when is missing"),
        ("create", json!({"what": "stretch", "runAt": "2026-01-01T00:00:00Z"}), "that time has passed"),
        ("create", json!({"what": " ", "when": "every hour"}), "what is missing"),
        ("delete", json!({"id": 7}), "there is no schedule 7"),
        ("update", json!({"id": 7, "what": "sit"}), "there is no schedule 7"),
    ] {
        let flow = start(&time, tool, arguments).await;
        let id = flow.say("chat", "do it").await;
        flow.reaches(&id, InboxStatus::Done).await;
        let (text, ending) = flow.tool_answer(&id).await;
        assert!(text.contains(told) && ending == ToolEnding::Refused, "{tool}: {text} {ending:?}");
        flow.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_and_a_deletion_are_asked_with_the_job_they_mean() {
    let time = FrozenTime::hold();
    for (tool, arguments, lines) in [
        (
            "delete",
            json!({"id": 1}),
            ["schedule 1: stretch", "cron 0 9 * * 1-5 in Europe/Berlin", "next: Mon"],
        ),
        (
            "pause",
            json!({"id": 1}),
            ["schedule 1: stretch", "cron 0 9 * * 1-5 in Europe/Berlin", "next: Mon"],
        ),
        (
            "update",
            json!({"id": 1, "timezone": "America/New_York"}),
            ["cron 0 9 * * 1-5 in America/New_York", "next: Fri 2027-01-15 09:00", "timezone"],
        ),
    ] {
        let flow = start(&time, tool, arguments).await;
        let desk = flow.runtime.schedules();
        let wish = json!({"cron": "0 9 * * 1-5", "what": "stretch"}).to_string();
        desk.run_tool("create", &wish, cortex_testkit::topic("test", "chat"), "ada".to_owned())
            .await
            .unwrap();
        let id = flow.say("chat", "do it").await;
        let (approval, prompt) = question(&flow, &id).await;
        assert!(lines.iter().all(|line| prompt.contains(line)), "{tool}: {prompt}");
        flow.runtime.approvals().decide(approval.id, Decision::Approved).await.unwrap();
        flow.reaches(&id, InboxStatus::Done).await;
        assert_eq!(flow.tool_answer(&id).await.1, ToolEnding::Done);
        flow.stop().await;
    }
}
