//! The gardener by the clock: each task at its interval, across restarts, within its cap, with and without a model.

use crate::far_side::FarSide;
use cortex_runtime::{Dispatch, GardenerAnswer, GardenerMind, Recall, RecalledItem};
use cortex_store::FactFilter;
use cortex_testkit::{FrozenTime, RuntimeSetup, TestModels, TestRuntime, eventually, topic};
use cortex_types::{Fact, FactSourceKind, GardenerTask, InboxStatus, OpStatus};
use serde_json::json;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

pub(crate) async fn facts(flow: &TestRuntime) -> Vec<Fact> {
    let page = cortex_store::PageRequest::newest(500);
    flow.runtime.memory().list(FactFilter::default(), page).await.unwrap().rows
}

pub(crate) async fn texts(flow: &TestRuntime) -> Vec<String> {
    let mut texts: Vec<String> = facts(flow).await.into_iter().map(|fact| fact.text).collect();
    texts.sort();
    texts
}

/// Says it and waits for the answer.
pub(crate) async fn tell(flow: &TestRuntime, topic: &str, text: &str) {
    let id = flow.say(topic, text).await;
    flow.reaches(&id, InboxStatus::Done).await;
}

fn dispatch(description: &str) -> Dispatch {
    Dispatch {
        kind: "router_job".to_owned(),
        description: description.to_owned(),
        topic: topic("test", "health"),
        user_id: "ada".to_owned(),
        event: None,
        expected_channel: None,
        run_id: None,
    }
}

async fn runs(flow: &TestRuntime) -> Vec<(GardenerTask, u64)> {
    let status = flow.gardener.status().await.unwrap();
    status.tasks.into_iter().map(|task| (task.task, task.last.map_or(0, |run| run.runs))).collect()
}

#[track_caller]
fn reaches(flow: &TestRuntime, expected: [u64; 4]) -> impl Future<Output = ()> {
    let wanted: Vec<_> = GardenerTask::ALL.iter().copied().zip(expected).collect();
    eventually(format!("{wanted:?}"), move || {
        let wanted = wanted.clone();
        async move { (runs(flow).await == wanted).then_some(()) }
    })
}

#[tokio::test(start_paused = true)]
async fn each_task_runs_at_its_interval_and_a_weekly_one_survives_restarts() {
    let time = FrozenTime::hold();
    let setup = RuntimeSetup::new(TestModels::Offline, &time).gardening();
    let mut flow = setup.start().await;
    let begun = |flow: &TestRuntime| {
        let gardener = flow.gardener.clone();
        async move { gardener.status().await.unwrap().tasks[2].next_run_at }
    };
    let due = time.now().after(7 * DAY);
    eventually("the first page of the diary", || async { (begun(&flow).await == due).then_some(()) }).await;
    assert_eq!(runs(&flow).await, GardenerTask::ALL.iter().map(|task| (*task, 0)).collect::<Vec<_>>());
    for hour in 1..=6 {
        time.advance(HOUR).await;
        reaches(&flow, [hour, hour / 6, 0, hour / 6]).await;
    }
    // Six days, a restart each: nothing that is due once a week is due because of a restart.
    for day in 1..=6_u64 {
        let store = flow.stop().await;
        time.advance(DAY).await;
        flow = setup.start_on(store).await;
        reaches(&flow, [6 + day, 1 + day, 0, 1 + day]).await;
    }
    let store = flow.stop().await;
    time.advance(DAY - 6 * HOUR).await;
    let flow = setup.start_on(store).await;
    reaches(&flow, [13, 8, 1, 8]).await;
}

#[tokio::test(start_paused = true)]
async fn what_became_due_while_the_machine_slept_runs_within_a_second_of_its_waking() {
    let time = FrozenTime::hold();
    let flow = RuntimeSetup::new(TestModels::Offline, &time).gardening().start().await;
    let due = time.now().after(7 * DAY);
    eventually("the first page of the diary", || async {
        (flow.gardener.status().await.unwrap().tasks[2].next_run_at == due).then_some(())
    })
    .await;
    // Timers stand still in a sleep, the clock does not.
    time.jump_ms(8 * 3_600_000);
    time.advance(Duration::from_secs(1)).await;
    reaches(&flow, [1, 1, 0, 1]).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_model_the_rules_extract_and_the_status_says_so() {
    let time = FrozenTime::hold();
    let flow = RuntimeSetup::new(TestModels::Offline, &time).start().await;
    tell(&flow, "a", "My name is Ada. I like green tea.").await;
    tell(&flow, "b", "We decided to take Rust").await;
    let answer = flow.gardener.run_task(GardenerTask::Extractor).await.unwrap();
    let report = "3 facts from 2 messages, by rules, because no model is configured".to_owned();
    assert_eq!(answer, GardenerAnswer::Done { report: report.clone() });
    assert_eq!(
        texts(&flow).await,
        ["It was decided to take Rust", "The user likes green tea", "The user's name is Ada"]
    );
    let status = flow.gardener.status().await.unwrap();
    assert_eq!((status.mind, status.tokens_today), (GardenerMind::Rules, 0));
    let extractor = status.tasks.into_iter().find(|task| task.task == GardenerTask::Extractor).unwrap();
    assert_eq!(extractor.last.unwrap().last_report, report);
}

#[tokio::test(start_paused = true)]
async fn every_third_message_is_extracted_with_the_ones_before_and_the_assistant_is_not_listened_to() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let setup = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time)
        .flow(|flow| flow.extraction_interval = 3)
        .gardening();
    let flow = setup.start().await;
    for number in 1..=3 {
        let id = flow.say("a", &format!("message {number}")).await;
        far.question().await.say("I, the assistant, love secrets");
        flow.reaches(&id, InboxStatus::Done).await;
    }
    let question = far.question().await;
    assert_eq!(question.text(), "- message 1\n- message 2\n- message 3");
    question.say("```json\n[{\"content\": \"Ada numbers her messages\", \"category\": \"preference\"}]\n```");
    let fact = eventually("the fact".to_owned(), || async { facts(&flow).await.pop() }).await;
    assert_eq!(fact.text, "Ada numbers her messages");
    assert_eq!(fact.category.as_deref(), Some("preference"));
    assert_eq!(fact.origins[0].source.kind, FactSourceKind::Turn);
    assert!(fact.idempotency_keys[0].starts_with("cortex:extract:"), "{fact:?}");
    assert_eq!(fact.idempotency_keys[0].len(), "cortex:extract:".len() + 16);
    assert!(far.waiting().is_none(), "one question for three messages");
}

#[tokio::test(start_paused = true)]
async fn an_extraction_between_two_runs_is_in_the_diary_and_moves_no_schedule() {
    let time = FrozenTime::hold();
    let setup = RuntimeSetup::scripted(json!({"otherwise": {"say": "[]"}}), &time)
        .flow(|flow| {
            flow.extraction_interval = 2;
            flow.gardener_tokens_per_day = Some(1);
        })
        .gardening();
    let flow = setup.start().await;
    let due = time.now().after(6 * HOUR);
    let extractor = || async { flow.gardener.status().await.unwrap().tasks.swap_remove(1) };
    eventually("the first page of the diary", || async {
        (extractor().await.next_run_at == due).then_some(())
    })
    .await;
    time.advance(HOUR / 2).await;
    let reports = ["0 facts from 2 messages, by the model", "failed: the daily token cap of 1 is reached"];
    for (number, report) in (1..).zip(reports) {
        tell(&flow, "a", "one").await;
        tell(&flow, "a", "two").await;
        let run = eventually(format!("run {number}"), || async {
            extractor().await.last.filter(|run| run.runs == number)
        })
        .await;
        assert_eq!((run.last_report.as_str(), run.last_run_at), (report, time.now()));
        assert_eq!(extractor().await.next_run_at, due, "the six-hourly run is due as before");
        time.advance(Duration::from_secs(1)).await;
    }
    tell(&flow, "a", "three").await;
    time.advance(Duration::from_secs(60)).await;
    tell(&flow, "a", "four").await;
    assert_eq!(extractor().await.last.unwrap().runs, 2, "what failed is not tried again with every message");
    time.advance(Duration::from_secs(4 * 60)).await;
    eventually("another try", || async { extractor().await.last.filter(|run| run.runs == 3) }).await;
}

#[tokio::test(start_paused = true)]
async fn however_much_was_said_every_message_is_looked_at() {
    let time = FrozenTime::hold();
    let flow = RuntimeSetup::new(TestModels::Offline, &time).start().await;
    let things = "apples bread cheese dates eggs figs grapes honey icecream jam kale lemons mangoes";
    let things: Vec<&str> = things.split(' ').collect();
    for thing in &things {
        tell(&flow, "a", &format!("I like {thing}")).await;
    }
    tell(&flow, "b", "My name is Ada").await;
    flow.gardener.run_task(GardenerTask::Extractor).await.unwrap();
    let mut expected: Vec<String> = things.iter().map(|thing| format!("The user likes {thing}")).collect();
    expected.push("The user's name is Ada".to_owned());
    assert_eq!(texts(&flow).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_model_is_asked_for_ten_messages_of_a_conversation_at_a_time() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).start().await;
    for number in 1..=12 {
        let id = flow.say("a", &format!("message {number}")).await;
        far.question().await.say("ok");
        flow.reaches(&id, InboxStatus::Done).await;
    }
    let gardener = flow.gardener.clone();
    let running = tokio::spawn(async move { gardener.run_task(GardenerTask::Extractor).await.unwrap() });
    let many = |from: usize| {
        let facts: Vec<String> =
            (from..from + 10).map(|number| format!("box {number} has {number} keys")).collect();
        json!(facts).to_string()
    };
    let first = far.question().await;
    assert_eq!(first.text().lines().count(), 10);
    first.say(&many(0));
    let second = far.question().await;
    assert_eq!(second.text(), "- message 11\n- message 12");
    second.say(&many(10));
    let report = "20 facts from 12 messages, by the model".to_owned();
    assert_eq!(running.await.unwrap(), GardenerAnswer::Done { report });
    assert_eq!(facts(&flow).await.len(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_fails_leaves_the_cursor_and_the_next_run_takes_everything() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).start().await;
    let id = flow.say("a", "I live in Paris").await;
    far.question().await.say("Nice.");
    flow.reaches(&id, InboxStatus::Done).await;
    let gardener = flow.gardener.clone();
    let running = tokio::spawn(async move { gardener.run_task(GardenerTask::Extractor).await.unwrap() });
    let question = far.question().await;
    assert_eq!(
        flow.gardener.run_task(GardenerTask::Extractor).await.unwrap(),
        GardenerAnswer::AlreadyRunning,
        "one run of a task at a time"
    );
    question.answer("HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}".to_owned());
    assert!(matches!(running.await.unwrap(), GardenerAnswer::Failed { .. }));
    assert_eq!(facts(&flow).await, []);
    let gardener = flow.gardener.clone();
    let again = tokio::spawn(async move { gardener.run_task(GardenerTask::Extractor).await.unwrap() });
    let question = far.question().await;
    assert_eq!(question.text(), "- I live in Paris");
    question.say("[\"Ada lives in Paris\"]");
    let report = "1 facts from 1 messages, by the model".to_owned();
    assert_eq!(again.await.unwrap(), GardenerAnswer::Done { report });
    assert_eq!(texts(&flow).await, ["Ada lives in Paris"]);
}

#[tokio::test(start_paused = true)]
async fn what_the_gardener_asks_is_paid_for_and_stops_at_the_daily_cap() {
    let time = FrozenTime::hold();
    let script = json!({"otherwise": {"say": "[]"}});
    let setup = RuntimeSetup::scripted(script, &time).flow(|flow| flow.gardener_tokens_per_day = Some(1));
    let flow = setup.start().await;
    tell(&flow, "a", "one").await;
    let first = flow.gardener.run_task(GardenerTask::Extractor).await.unwrap();
    assert!(matches!(first, GardenerAnswer::Done { .. }), "{first:?}");
    let spent = flow.gardener.status().await.unwrap().tokens_today;
    assert!(spent > 0, "the call is in the books");
    tell(&flow, "a", "two").await;
    let reason = "the daily token cap of 1 is reached".to_owned();
    let second = flow.gardener.run_task(GardenerTask::Extractor).await.unwrap();
    assert_eq!(second, GardenerAnswer::Failed { reason });
    time.advance(DAY).await;
    let third = flow.gardener.run_task(GardenerTask::Extractor).await.unwrap();
    let report = "0 facts from 1 messages, by the model".to_owned();
    assert_eq!(third, GardenerAnswer::Done { report }, "what waited is taken the next day");
}

#[tokio::test(start_paused = true)]
async fn only_a_result_that_was_read_is_harvested_and_it_is_put_away_after_seven_days() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).start().await;
    let op = flow.runtime.ops().add(dispatch("find the dentist")).await.unwrap();
    flow.gardener.run_task(GardenerTask::Harvester).await.unwrap();
    assert_eq!(facts(&flow).await, []);
    flow.runtime.ops().complete(op.clone(), "Dr. Who, Baker Street 1. Open at 9.".to_owned()).await.unwrap();
    flow.gardener.run_task(GardenerTask::Harvester).await.unwrap();
    assert_eq!(facts(&flow).await, [], "nobody has read it");
    far.question().await.say("Dr. Who it is.");
    eventually("the turn that reads it", || async {
        let op = flow.runtime.ops().find(op.clone()).await.unwrap().unwrap();
        op.acknowledged_at
    })
    .await;
    let harvest = flow.gardener.run_task(GardenerTask::Harvester);
    let answer = async { far.question().await.say("[\"The dentist is Dr. Who\"]") };
    let (harvested, ()) = tokio::join!(harvest, answer);
    let report = "1 facts from 1 ops, by the model; 0 put away".to_owned();
    assert_eq!(harvested.unwrap(), GardenerAnswer::Done { report });
    let fact = facts(&flow).await.remove(0);
    assert_eq!(fact.origins[0].source.kind, FactSourceKind::Op);
    assert_eq!(fact.origins[0].source.reference, op.to_string());
    let status = |flow: &TestRuntime| {
        let desk = flow.runtime.ops();
        let op = op.clone();
        async move { desk.find(op).await.unwrap().unwrap().status }
    };
    assert_eq!(status(&flow).await, OpStatus::Gardened);
    time.advance(7 * DAY - Duration::from_secs(1)).await;
    flow.gardener.run_task(GardenerTask::Harvester).await.unwrap();
    assert_eq!(status(&flow).await, OpStatus::Gardened);
    time.advance(Duration::from_secs(1)).await;
    flow.gardener.run_task(GardenerTask::Harvester).await.unwrap();
    assert_eq!(status(&flow).await, OpStatus::Archived);
    assert_eq!(facts(&flow).await.len(), 1, "it is harvested once");
}

#[tokio::test(start_paused = true)]
async fn an_op_that_fails_stops_neither_the_others_nor_the_putting_away() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).start().await;
    let read = async |far: &mut FarSide, what: &str| {
        let op = flow.runtime.ops().add(dispatch(what)).await.unwrap();
        flow.runtime.ops().complete(op.clone(), format!("{what} is done")).await.unwrap();
        far.question().await.say("I told them.");
        eventually(format!("{what} is read"), || async {
            flow.runtime.ops().find(op.clone()).await.unwrap().unwrap().acknowledged_at
        })
        .await;
        op
    };
    let harvest = || {
        let gardener = flow.gardener.clone();
        tokio::spawn(async move { gardener.run_task(GardenerTask::Harvester).await.unwrap() })
    };
    let old = read(&mut far, "old").await;
    let running = harvest();
    far.question().await.say("[]");
    running.await.unwrap();
    time.advance(7 * DAY).await;
    let bad = read(&mut far, "bad").await;
    read(&mut far, "good").await;
    let mut running = harvest();
    let answer = loop {
        let question = tokio::select! {
            answer = &mut running => break answer.unwrap(),
            question = far.question() => question,
        };
        match question.text().contains("Task: bad") {
            true => question.answer("HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}".to_owned()),
            false => question.say("[\"It was good\"]"),
        }
    };
    let GardenerAnswer::Done { report } = answer else { panic!("{answer:?}") };
    let begin =
        format!("1 facts from 1 ops, by the model; 1 put away; 1 failed and are tried again, {bad}: ");
    assert!(report.starts_with(&begin), "{report}");
    assert_eq!(flow.runtime.ops().find(old).await.unwrap().unwrap().status, OpStatus::Archived);
    let running = harvest();
    let question = far.question().await;
    assert!(question.text().contains("Task: bad"), "{}", question.text());
    question.say("[]");
    let report = "0 facts from 1 ops, by the model; 0 put away".to_owned();
    assert_eq!(running.await.unwrap(), GardenerAnswer::Done { report });
}

#[tokio::test(start_paused = true)]
async fn without_memory_old_history_goes_without_an_extraction() {
    let time = FrozenTime::hold();
    let setup = RuntimeSetup::new(TestModels::Offline, &time).flow(|flow| {
        flow.turn_ttl = Some(30 * DAY);
        flow.memory_enabled = false;
    });
    let flow = setup.start().await;
    tell(&flow, "a", "old").await;
    time.advance(30 * DAY).await;
    tell(&flow, "a", "new").await;
    let evict = || async { flow.gardener.run_task(GardenerTask::Evictor).await.unwrap() };
    let report = |lines| format!("0 facts went cold, {lines} lines of history dropped");
    assert_eq!(evict().await, GardenerAnswer::Done { report: report(0) }, "exactly the age limit");
    time.advance(Duration::from_millis(1)).await;
    assert_eq!(evict().await, GardenerAnswer::Done { report: report(2) });
    let history = flow.store.turns().history(topic("test", "a"), 10).await.unwrap();
    assert_eq!((history.len(), history[0].content.as_str()), (2, "new"));
}

#[tokio::test(start_paused = true)]
async fn old_history_goes_only_after_it_was_extracted_and_takes_its_index_rows_along() {
    let time = FrozenTime::hold();
    let flow = RuntimeSetup::new(TestModels::Offline, &time)
        .flow(|flow| flow.turn_ttl = Some(30 * DAY))
        .start()
        .await;
    tell(&flow, "a", "the marmot sleeps in October").await;
    time.advance(20 * DAY).await;
    tell(&flow, "a", "the marmot wakes in April").await;
    let found = |flow: &TestRuntime| {
        let memory = flow.runtime.memory();
        async move {
            let hits = memory.recall(Recall::of("marmot", 10)).await.unwrap();
            let said = hits.into_iter().filter_map(|hit| match hit.item {
                RecalledItem::Turn(turn) if turn.role == "user" => Some(turn.content),
                RecalledItem::Turn(_) | RecalledItem::Fact { .. } => None,
            });
            let mut said: Vec<String> = said.collect();
            said.sort();
            said
        }
    };
    time.advance(11 * DAY).await;
    assert_eq!(found(&flow).await.len(), 2);
    flow.gardener.run_task(GardenerTask::Evictor).await.unwrap();
    assert_eq!(found(&flow).await.len(), 2, "nothing was extracted yet");
    flow.gardener.run_task(GardenerTask::Extractor).await.unwrap();
    let evicted = flow.gardener.run_task(GardenerTask::Evictor).await.unwrap();
    let report = "0 facts went cold, 2 lines of history dropped".to_owned();
    assert_eq!(evicted, GardenerAnswer::Done { report });
    assert_eq!(found(&flow).await, ["the marmot wakes in April"]);
    let history = flow.store.turns().history(topic("test", "a"), 10).await.unwrap();
    assert_eq!(history.len(), 2, "question and answer go together");
}

#[tokio::test(start_paused = true)]
async fn history_without_an_age_limit_stays() {
    let time = FrozenTime::hold();
    let flow = RuntimeSetup::new(TestModels::Offline, &time).flow(|flow| flow.turn_ttl = None).start().await;
    tell(&flow, "a", "hello").await;
    flow.gardener.run_task(GardenerTask::Extractor).await.unwrap();
    time.advance(4_000 * DAY).await;
    flow.gardener.run_task(GardenerTask::Evictor).await.unwrap();
    assert_eq!(flow.store.turns().history(topic("test", "a"), 10).await.unwrap().len(), 2);
}
