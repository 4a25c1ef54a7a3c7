//! Skills that mean harm: the call ends in time, the next one works, and nothing is left behind.

use crate::skill_parts::{PATIENT, Skills, in_processes};
use cortex_testkit::eventually;
use cortex_tools::ToolCallError;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_millis(300);
/// What a call may take beyond its limit.
const MARGIN: Duration = Duration::from_millis(500);

async fn attack(skills: &Skills, name: &str) -> Result<String, ToolCallError> {
    attack_within(skills, name, LIMIT).await
}

/// Calls an attack, then a tool of the same skill that only wants to work.
async fn attack_within(skills: &Skills, name: &str, limit: Duration) -> Result<String, ToolCallError> {
    let started = Instant::now();
    let ended = skills.call_within(&format!("hostile.{name}"), "{}", limit).await;
    let took = started.elapsed();
    assert!(took < limit + MARGIN, "{name} held the turn for {took:?}: {ended:?}");
    assert_eq!(skills.call("hostile.fine", "{}").await.as_deref(), Ok("fine"), "after {name}");
    ended
}

fn unknown() -> Result<String, ToolCallError> {
    Err(ToolCallError::Unknown(format!("timed out after {} ms", LIMIT.as_millis())))
}

async fn one_thread_is_left(skills: &Skills) {
    eventually("the threads that were given up to end", || async {
        (skills.living_threads("hostile") == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_runs_for_ever_is_stopped_at_its_limit() {
    let skills = Skills::load().await;
    for name in ["far_timer", "caught_loop", "backtracking"] {
        assert_eq!(attack(&skills, name).await, unknown(), "{name}");
    }
    one_thread_is_left(&skills).await;
}

#[tokio::test]
async fn a_tool_that_only_reads_fails_at_its_limit() {
    let skills = Skills::load().await;
    assert_eq!(attack(&skills, "loop").await, Err(ToolCallError::TimedOut(LIMIT)));
    one_thread_is_left(&skills).await;
}

#[tokio::test]
async fn what_can_never_settle_is_told_at_once() {
    let skills = Skills::load().await;
    let told = attack(&skills, "never").await.unwrap_err().to_string();
    assert!(told.contains("can never settle"), "{told}");
}

#[tokio::test]
async fn what_eats_memory_meets_the_cap_of_its_heap() {
    let skills = Skills::load().await;
    for name in ["objects", "text", "huge_array", "deep_json", "recursion", "kept_timers"] {
        let told = attack_within(&skills, name, PATIENT).await.unwrap_err();
        assert!(matches!(told, ToolCallError::Failed(_)), "{name}: {told:?}");
    }
    one_thread_is_left(&skills).await;
}

#[tokio::test]
async fn a_full_heap_is_thrown_away_with_its_engine() {
    for heap_mib in [2, 4] {
        let skills = Skills::load_with(|options| options.heap_mib = heap_mib).await;
        for name in ["microtasks", "objects", "fills"] {
            let told = attack_within(&skills, name, PATIENT).await.unwrap_err();
            assert!(matches!(told, ToolCallError::Failed(_)), "{name}: {told:?}");
        }
    }
}

#[tokio::test]
async fn a_call_that_hangs_in_native_code_is_left_behind_and_its_skill_goes_on() {
    let skills = Skills::load().await;
    for name in ["native", "fills"] {
        assert_eq!(attack(&skills, name).await, unknown(), "{name}");
    }
    assert_eq!(skills.living_threads("hostile"), 3, "two hang, one works");
}

#[tokio::test]
async fn a_skill_whose_calls_keep_hanging_is_disabled_with_the_reason() {
    let skills = Skills::load().await;
    for _ in 0..4 {
        assert_eq!(skills.call_within("hostile.native", "{}", LIMIT).await, unknown());
    }
    let told = skills.call("hostile.fine", "{}").await.unwrap_err().to_string();
    assert!(told.starts_with("not run: hostile is disabled: 4 of its calls hang in native code"), "{told}");
    assert!(skills.call("parts.greet", "{}").await.is_ok(), "another skill does not notice");
}

#[tokio::test]
async fn a_flood_of_lines_and_a_long_answer_are_cut() {
    let skills = Skills::load().await;
    let long = attack(&skills, "long_answer").await.unwrap();
    assert!(long.ends_with("x\n[cut: the first 64 KiB of 200000 bytes]"), "{}", &long[65_500..]);
    assert!(long.starts_with("xxx") && long.len() < 66_000, "{}", long.len());
    let flooded = skills.call("hostile.log_flood", "{}").await;
    assert_eq!(flooded.as_deref(), Ok("undefined"));
}

#[tokio::test]
async fn a_call_that_waits_behind_another_is_known_not_to_have_run() {
    let skills = Skills::load().await;
    let blocking = skills.call_within("hostile.far_timer", "{}", Duration::from_secs(2));
    let waiting = skills.call_within("hostile.text", "{}", LIMIT);
    let (blocked, waited) = tokio::join!(blocking, waiting);
    assert_eq!(blocked, Err(ToolCallError::Unknown("timed out after 2000 ms".to_owned())));
    let busy = "hostile was busy with another call".to_owned();
    assert_eq!(waited, Err(ToolCallError::NotRun(busy)));
}

#[tokio::test]
async fn in_a_process_of_its_own_what_hangs_is_killed() {
    let skills = Skills::load_with(|options| options.isolation = in_processes()).await;
    for name in ["loop", "native", "fills", "far_timer"] {
        let child = skills.process_id("hostile").await.expect("a child waits for the call");
        assert!(is_alive(child), "{name}");
        attack(&skills, name).await.unwrap_err();
        eventually("the killed child to be gone", || async { (!is_alive(child)).then_some(()) }).await;
    }
    let child = skills.process_id("hostile").await.unwrap();
    let told = attack(&skills, "huge_array").await.unwrap_err();
    assert!(matches!(told, ToolCallError::Failed(_)), "{told:?}");
    drop(skills);
    eventually("the last child to be gone", || async { (!is_alive(child)).then_some(()) }).await;
}

/// A killed child that nobody waited for yet still has a folder, but no memory any more.
fn is_alive(process_id: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process_id}/statm")).is_ok_and(|pages| !pages.starts_with("0 "))
}
