//! What a look at the clock does: on time, late, while the last run is still going, and after the clock was moved.

use super::{DAY, HOUR, Keeper, MINUTE, at};
use cortex_store::Timing;
use cortex_types::{CatchUp, Millis};

const START: &str = "2026-06-01T00:30:00Z";

fn clock(text: &str) -> Millis {
    at(&format!("2026-06-01T{text}Z"))
}

#[tokio::test]
async fn a_slot_becomes_one_event_for_the_target_of_its_job() {
    let keeper = Keeper::starting_at(at(START));
    let job = keeper.hourly().await;
    for now in ["00:59:59", "01:00:10", "01:00:40"] {
        keeper.look_at(clock(now)).await;
    }
    let events = keeper.events().await;
    assert_eq!(events.len(), 1);
    let event = &events[0];
    assert_eq!(event.external_message_id, format!("schedule:{job}:{}", clock("01:00:00").0));
    assert_eq!((event.topic.source.as_str(), event.topic.topic_key.as_str()), ("telegram", "chat"));
    assert_eq!((event.user_id.as_str(), event.text.as_str()), ("ada", "stretch"));
    let metadata: serde_json::Value = serde_json::from_str(event.metadata_json.as_deref().unwrap()).unwrap();
    assert_eq!((&metadata["channel"], &metadata["missed"]), (&"cron".into(), &0.into()));
    assert_eq!(keeper.shown(job).await, "fired 01:00");
    assert_eq!(keeper.job(job).await.next_run_at, Some(clock("02:00:00")));
}

#[tokio::test]
async fn after_downtime_one_run_says_how_many_were_missed() {
    let mut keeper = Keeper::starting_at(at(START));
    let job = keeper.hourly().await;
    keeper.set_clock(clock("02:10:00"));
    keeper.crash().await;
    keeper.look_at(clock("02:10:00")).await;
    keeper.answer_all().await;
    keeper.look_at(clock("05:10:00")).await;
    keeper.look_at(clock("05:10:30")).await;
    assert_eq!(
        keeper.shown(job).await,
        "missed 01:00; caught_up 02:00; missed 03:00-04:00 x2; caught_up 05:00"
    );
    let expected = ["stretch\n(1 earlier run was missed.)", "stretch\n(2 earlier runs were missed.)"];
    assert_eq!(keeper.texts().await, expected);
}

#[tokio::test]
async fn a_job_that_does_not_catch_up_lets_late_slots_go() {
    let keeper = Keeper::starting_at(at(START));
    let job = keeper.add(Timing::Cron("0 * * * *".to_owned()), "UTC", CatchUp::Skip).await;
    keeper.look_at(clock("03:10:00")).await;
    keeper.look_at(clock("04:00:20")).await;
    assert_eq!(keeper.shown(job).await, "missed 01:00-03:00 x3; fired 04:00");
    assert_eq!(keeper.texts().await, ["stretch"]);
}

#[tokio::test]
async fn a_slot_of_a_job_that_still_runs_is_skipped_with_a_record() {
    let keeper = Keeper::starting_at(at(START));
    let job = keeper.hourly().await;
    keeper.look_at(clock("01:00:00")).await;
    keeper.look_at(clock("02:00:00")).await;
    keeper.answer_all().await;
    keeper.look_at(clock("03:00:00")).await;
    assert_eq!(keeper.shown(job).await, "fired 01:00; skipped 02:00; fired 03:00");
}

#[tokio::test]
async fn a_clock_that_goes_back_fires_nothing_again_and_one_that_leaps_ahead_catches_up_once() {
    let keeper = Keeper::starting_at(at(START));
    let job = keeper.hourly().await;
    for now in [clock("01:00:00"), clock("02:00:00"), clock("00:10:00"), clock("01:00:00"), clock("02:00:30")]
    {
        keeper.look_at(now).await;
        keeper.answer_all().await;
    }
    assert_eq!(keeper.shown(job).await, "fired 01:00; fired 02:00");
    keeper.look_at(Millis(clock("02:30:00").0 + 30 * DAY)).await;
    let records = keeper.records(job).await;
    assert_eq!(records.iter().map(|record| record.count).sum::<u64>(), 30 * 24 + 2);
    assert_eq!(keeper.events().await.len(), 3);
}

#[tokio::test]
async fn a_single_run_comes_once_however_often_and_late_it_is_looked_for() {
    let mut keeper = Keeper::starting_at(at(START));
    let job = keeper.add(Timing::Once(clock("01:30:00")), "UTC", CatchUp::Once).await;
    keeper.look_at(clock("01:00:00")).await;
    assert_eq!(keeper.job(job).await.next_run_at, Some(clock("01:30:00")));
    keeper.crash().await;
    keeper.look_at(Millis(clock("01:30:00").0 + 3 * HOUR)).await;
    keeper.answer_all().await;
    keeper.look_at(clock("01:00:00")).await;
    keeper.look_at(Millis(clock("01:30:00").0 + 5 * HOUR)).await;
    assert_eq!(keeper.shown(job).await, "caught_up 01:30");
    assert_eq!((keeper.events().await.len(), keeper.job(job).await.next_run_at), (1, None));
}

#[tokio::test]
async fn more_jobs_than_one_look_reads_all_fire_in_the_same_tick() {
    let keeper = Keeper::starting_at(at(START));
    let jobs: Vec<i64> = {
        let mut jobs = Vec::new();
        for _ in 0..501 {
            jobs.push(keeper.hourly().await);
        }
        jobs
    };
    keeper.look_at(clock("01:00:00")).await;
    assert_eq!(keeper.events().await.len(), jobs.len());
}

#[tokio::test]
async fn a_stored_schedule_that_cannot_be_read_is_paused_and_its_topic_is_told_once() {
    let keeper = Keeper::starting_at(at(START));
    let unreadable = keeper.add(Timing::Cron("every day".to_owned()), "UTC", CatchUp::Once).await;
    let elsewhere = keeper.add(Timing::Cron("0 * * * *".to_owned()), "Mars/Base", CatchUp::Once).await;
    let good = keeper.hourly().await;
    keeper.look_at(clock("01:00:00")).await;
    keeper.look_at(Millis(clock("01:00:00").0 + 2 * MINUTE)).await;
    let told = keeper.store.outbox().list(None, None, cortex_store::PageRequest::newest(10)).await.unwrap();
    let mut texts: Vec<&str> = told.rows.iter().map(|message| message.text.as_str()).collect();
    texts.sort_unstable();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(
        texts[0].starts_with(&format!("I cannot read schedule {unreadable} (stretch) any more")),
        "{texts:?}"
    );
    assert!(texts[1].contains("Mars/Base"), "{texts:?}");
    assert!(told.rows.iter().all(|message| message.topic.topic_key == "chat"));
    let enabled = [keeper.job(unreadable).await.enabled, keeper.job(elsewhere).await.enabled];
    assert_eq!((enabled, keeper.shown(good).await.as_str()), ([false, false], "fired 01:00"));
}

#[tokio::test]
async fn a_schedule_that_is_damaged_on_disk_is_paused_and_keeps_no_other_from_firing() {
    for (column, is_told) in [
        ("action", true),
        ("description", true),
        ("cron", true),
        ("timezone", true),
        ("catch_up", true),
        ("created_by_user_id", true),
        ("decided_until", true),
        ("next_run_at", true),
        ("target_source", false),
        ("target_topic_key", false),
    ] {
        let keeper = Keeper::starting_at(at(START));
        let damaged = keeper.hourly().await;
        let good = keeper.hourly().await;
        assert_eq!(cortex_testkit::damage_job(&keeper.store.path(), damaged, column), 1);
        keeper.look_at(clock("01:00:00")).await;
        keeper.look_at(Millis(clock("01:00:00").0 + 2 * MINUTE)).await;
        assert_eq!(keeper.shown(good).await, "fired 01:00", "{column}");
        let events = keeper.events().await;
        assert_eq!(events.len(), 1, "{column}: {events:?}");
        let told =
            keeper.store.outbox().list(None, None, cortex_store::PageRequest::newest(10)).await.unwrap();
        let texts: Vec<&str> = told.rows.iter().map(|message| message.text.as_str()).collect();
        assert_eq!(texts.len(), usize::from(is_told), "{column}: {texts:?}");
        assert!(texts.iter().all(|text| text.contains(&format!("schedule {damaged} "))), "{texts:?}");
        let due = keeper.store.schedules().due(keeper.now(), 10).await.unwrap();
        assert!(due.is_empty(), "{column}: it is paused");
        let listed: Vec<i64> =
            keeper.store.schedules().list().await.unwrap().into_iter().map(|job| job.id).collect();
        assert!(listed.contains(&good), "{column}: {listed:?}");
    }
}
