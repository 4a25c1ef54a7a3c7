//! What a person does to a job: slots are judged by the state they passed in, and each has its one record.

use super::{Keeper, at};
use cortex_types::Millis;
use serde_json::json;

const START: &str = "2026-06-01T00:30:00Z";

fn clock(text: &str) -> Millis {
    at(&format!("2026-06-01T{text}Z"))
}

async fn hourly() -> (Keeper, i64) {
    let keeper = Keeper::starting_at(at(START));
    let job = keeper.hourly().await;
    keeper.look_at(at(START)).await;
    (keeper, job)
}

#[tokio::test]
async fn slots_of_a_pause_are_skipped_and_not_missed() {
    let (keeper, job) = hourly().await;
    keeper.change("pause", &json!({"id": job})).await.unwrap();
    keeper.look_at(clock("03:10:00")).await;
    assert_eq!((keeper.shown(job).await.as_str(), keeper.events().await.len()), ("", 0));
    keeper.change("resume", &json!({"id": job})).await.unwrap();
    keeper.look_at(clock("04:00:05")).await;
    assert_eq!(keeper.shown(job).await, "skipped 01:00-03:00 x3; fired 04:00");
    assert_eq!(keeper.texts().await, ["stretch"]);
}

#[tokio::test]
async fn a_slot_that_was_due_before_the_pause_still_runs() {
    let (keeper, job) = hourly().await;
    keeper.set_clock(clock("01:00:05"));
    keeper.change("pause", &json!({"id": job})).await.unwrap();
    assert_eq!((keeper.shown(job).await.as_str(), keeper.events().await.len()), ("fired 01:00", 1));
}

#[tokio::test]
async fn a_change_keeps_what_was_due_before_it_and_counts_anew_from_there() {
    let (keeper, job) = hourly().await;
    keeper.set_clock(clock("01:00:05"));
    keeper.change("update", &json!({"id": job, "cron": "15 * * * *", "what": "stand up"})).await.unwrap();
    keeper.answer_all().await;
    assert_eq!(keeper.job(job).await.next_run_at, Some(clock("01:15:00")));
    keeper.look_at(clock("02:00:00")).await;
    keeper.answer_all().await;
    keeper.look_at(clock("02:15:00")).await;
    assert_eq!(keeper.shown(job).await, "fired 01:00; caught_up 01:15; fired 02:15");
    assert_eq!(keeper.texts().await, ["stretch", "stand up", "stand up"]);
}

#[tokio::test]
async fn a_deleted_job_runs_no_more_not_even_when_it_is_due_that_moment() {
    let (keeper, job) = hourly().await;
    keeper.set_clock(clock("01:00:05"));
    keeper.change("delete", &json!({"id": job})).await.unwrap();
    keeper.look_at(clock("05:00:00")).await;
    assert_eq!((keeper.shown(job).await.as_str(), keeper.events().await.len()), ("skipped 01:00", 0));
    assert!(keeper.store.schedules().find(job).await.unwrap().is_none());
    let late = keeper.change("pause", &json!({"id": job})).await.unwrap_err();
    assert!(late.contains("there is no schedule"), "{late}");
}

#[tokio::test]
async fn a_run_now_stands_beside_the_schedule() {
    let (keeper, job) = hourly().await;
    keeper.runtime.schedules().run_now(job).await.unwrap();
    keeper.look_at(clock("01:00:00")).await;
    let ids: Vec<String> = keeper.events().await.into_iter().map(|event| event.external_message_id).collect();
    let slot = format!("schedule:{job}:{}", clock("01:00:00").0);
    let now = format!("schedule:{job}:{}:now", at(START).0);
    assert_eq!((ids, keeper.shown(job).await.as_str()), (vec![slot, now], "fired 01:00"));
}

#[tokio::test]
async fn a_clock_that_went_back_shows_no_fire_that_has_its_record_already() {
    let (keeper, job) = hourly().await;
    keeper.look_at(clock("03:00:00")).await;
    keeper.set_clock(clock("01:30:00"));
    let fires = keeper.runtime.schedules().next_fires(&keeper.job(job).await, 2);
    assert_eq!(fires, [clock("04:00:00"), clock("05:00:00")]);
}

#[tokio::test]
async fn a_resume_after_the_clock_went_back_fires_nothing_again() {
    let (keeper, job) = hourly().await;
    for now in ["01:00:00", "02:00:00"] {
        keeper.look_at(clock(now)).await;
        keeper.answer_all().await;
    }
    keeper.set_clock(clock("00:40:00"));
    keeper.change("pause", &json!({"id": job})).await.unwrap();
    keeper.change("resume", &json!({"id": job})).await.unwrap();
    for now in ["01:00:00", "02:00:10", "03:00:00"] {
        keeper.look_at(clock(now)).await;
    }
    assert_eq!(keeper.shown(job).await, "fired 01:00; fired 02:00; fired 03:00");
}
