//! A question that is damaged on disk, or the message that asked it: it ends like any other, and no other waits for it.

use crate::approval::Asked;
use crate::recovery::damage;
use cortex_store::{Claimed, PageRequest, Resolved, TurnEnd};
use cortex_testkit::new_reply;
use cortex_types::{ApprovalStatus, Decision, Event, GrantId, InboxStatus, Millis, OutboxStatus, StepBody};
use std::collections::BTreeSet;
use std::time::Duration;

const LATE: Millis = Millis(900_000);

const OF_THE_PROMPT: [&str; 7] = [
    "text = 'apr_0123456789abcdefghjkmnpqrs'",
    "text = CAST(x'ff' AS TEXT)",
    "payload_json = CAST(x'00' AS BLOB)",
    "source = CAST(x'ff' AS TEXT)",
    "topic_key = 'eve'",
    "event_seq = 'none'",
    "created_at = 'noon'",
];

async fn expire(asked: &Asked) -> usize {
    asked.store.approvals().expire_due(LATE, |_| None).await.unwrap()
}

/// What the journal says was decided.
async fn decisions(asked: &Asked) -> Vec<Decision> {
    decided(&asked.claim().await.expect("the event goes on"))
}

fn decided(claimed: &Claimed) -> Vec<Decision> {
    let decided = claimed.steps.iter().filter_map(|step| {
        if let StepBody::ApprovalDecided { decision, .. } = &step.body { Some(*decision) } else { None }
    });
    decided.collect()
}

#[tokio::test]
async fn a_damaged_prompt_keeps_no_question_from_its_end() {
    for change in OF_THE_PROMPT {
        let asked = Asked::two().await;
        damage(&asked.store, &format!("UPDATE outbox_messages SET {change} WHERE seq = 1"));
        assert_eq!(expire(&asked).await, 2, "{change}");
        assert_eq!(expire(&asked).await, 0, "{change}");
        assert_eq!(asked.event().await.0, InboxStatus::Pending, "{change}");
        let rows = asked.store.outbox().list(None, None, PageRequest::newest(10)).await.unwrap().rows;
        let prompt = rows.last().unwrap();
        assert_eq!(prompt.payload_json, None, "{change}");
        assert!(prompt.text.contains("damaged on disk"), "{change}: {}", prompt.text);
        assert_eq!(
            (prompt.status, &prompt.topic),
            (OutboxStatus::Dead, &asked.claimed.event.topic),
            "{change}"
        );
        assert_eq!(decisions(&asked).await, [Decision::Expired; 2], "{change}");
    }
}

#[tokio::test]
async fn a_question_whose_prompt_is_damaged_is_approved_and_denied_like_any_other() {
    for change in OF_THE_PROMPT {
        let asked = Asked::two().await;
        damage(&asked.store, &format!("UPDATE outbox_messages SET {change} WHERE seq = 1"));
        damage(&asked.store, &format!("UPDATE outbox_messages SET {change} WHERE seq = 2"));
        let approved = asked.decide(0, Decision::Approved).await;
        assert!(
            matches!(&approved, Resolved::Decided { approval, .. } if approval.status == ApprovalStatus::Approved)
        );
        let denied = asked.decide(1, Decision::Denied).await;
        assert!(
            matches!(&denied, Resolved::Decided { approval, .. } if approval.status == ApprovalStatus::Denied)
        );
        assert_eq!(decisions(&asked).await, [Decision::Approved, Decision::Denied], "{change}");
    }
}

#[tokio::test]
async fn a_question_that_cannot_be_read_expires_like_any_other() {
    let damages = [
        "id = CAST(x'ff' AS TEXT)",
        "id = 'none'",
        "tool_name = CAST(x'ff' AS TEXT)",
        "tool_arguments_json = CAST(x'ff' AS TEXT)",
        "call_id = CAST(x'00' AS BLOB)",
        "user_id = CAST(x'ff' AS TEXT)",
        "source = CAST(x'ff' AS TEXT)",
        "prompt_id = CAST(x'ff' AS TEXT)",
        "prompt_id = 'none'",
        "binding = 'none'",
        "turn_id = 'none'",
        "question = CAST(x'ff' AS TEXT)",
        "created_at = 'noon'",
        "expires_at = 'noon'",
        "expires_at = CAST(x'ff' AS TEXT)",
    ];
    for change in damages {
        let asked = Asked::two().await;
        damage(&asked.store, &format!("UPDATE pending_approvals SET {change} WHERE rowid = 1"));
        assert_eq!(expire(&asked).await, 2, "{change}");
        assert_eq!(expire(&asked).await, 0, "{change}");
        assert_eq!(asked.event().await.0, InboxStatus::Pending, "{change}");
        assert_eq!(decisions(&asked).await, [Decision::Expired; 2], "{change}");
    }
}

/// Ends turns as one does whose journal still has a question open, and lets the watchdog look after each, until the journal
/// has an end of both.
async fn turns_until_both_are_decided(asked: &Asked) -> Vec<Decision> {
    for _ in 0..3 {
        let look = asked.store.watchdog().look(BTreeSet::new()).await.unwrap();
        let notice = |event: &Event| new_reply(&event.topic, "lost");
        asked.store.watchdog().rescue(look, 3, LATE, notice).await.unwrap();
        let Some(running) = asked.claim().await else { continue };
        let decisions = decided(&running);
        if decisions.len() == 2 {
            return decisions;
        }
        asked.store.turns().finish_turn(&running.event, TurnEnd::Waiting, Vec::new(), LATE).await.unwrap();
    }
    panic!("the event waits and is woken for ever");
}

#[tokio::test]
async fn a_question_that_lost_its_event_ends_and_the_event_goes_on() {
    for change in
        ["event_seq = 99", "event_seq = 'none'", "status = 'pendinh'", "status = CAST(x'ff' AS TEXT)"]
    {
        let asked = Asked::two().await;
        damage(&asked.store, &format!("UPDATE pending_approvals SET {change} WHERE rowid = 1"));
        expire(&asked).await;
        assert_eq!(expire(&asked).await, 0, "{change}");
        assert_eq!(asked.event().await.0, InboxStatus::Pending, "{change}");
        assert_eq!(turns_until_both_are_decided(&asked).await, [Decision::Expired; 2], "{change}");
    }
}

#[tokio::test]
async fn a_question_that_lost_its_event_ends_beside_one_that_was_approved() {
    let asked = Asked::two().await;
    damage(&asked.store, "UPDATE pending_approvals SET event_seq = 99 WHERE rowid = 1");
    asked.decide(1, Decision::Approved).await;
    let decisions = turns_until_both_are_decided(&asked).await;
    assert_eq!(decisions, [Decision::Approved, Decision::Expired]);
}

#[tokio::test]
async fn a_question_whose_end_cannot_be_journaled_fails_its_event_and_the_user_is_told() {
    let asked = Asked::two().await;
    damage(&asked.store, "UPDATE pending_approvals SET status = 'pendinh' WHERE rowid = 1");
    // The place of the next step is taken.
    damage(&asked.store, "DELETE FROM turn_steps WHERE number = 0");
    damage(&asked.store, "UPDATE pending_approvals SET status = 'pendinh' WHERE rowid = 2");
    let look = async || asked.store.watchdog().look(BTreeSet::new()).await.unwrap();
    let notice = |event: &Event| new_reply(&event.topic, "lost");
    let rescued = asked.store.watchdog().rescue(look().await, 3, LATE, notice).await.unwrap();
    assert_eq!(rescued.failed, std::slice::from_ref(&asked.claimed.event.id));
    assert_eq!(asked.event().await.0, InboxStatus::Failed);
    assert!(look().await.is_empty());
    let told = crate::recovery::replies_in(&asked.store).await;
    assert!(told.iter().any(|(_, text)| text == "lost"), "{told:?}");
}

#[tokio::test]
async fn what_was_asked_with_times_that_cannot_be_read_ends_after_a_start() {
    for change in ["created_at = 'noon'", "expires_at = 'noon'", "created_at = x'00'"] {
        let asked = Asked::two().await;
        damage(&asked.store, &format!("UPDATE pending_approvals SET {change} WHERE rowid = 1"));
        assert_eq!(asked.store.approvals().clamp_future(Millis(2_000)).await, Ok(1), "{change}");
        assert_eq!(asked.store.approvals().clamp_future(Millis(2_000)).await, Ok(0), "{change}");
        let expired = asked.store.approvals().expire_due(Millis(2_000), |_| None).await;
        assert_eq!(expired, Ok(1), "{change}");
        assert_eq!(asked.event().await.0, InboxStatus::Waiting, "{change}: the other is open");
        asked.decide(1, Decision::Approved).await;
        assert_eq!(decisions(&asked).await, [Decision::Expired, Decision::Approved], "{change}");
    }
}

#[tokio::test]
async fn a_grant_whose_end_cannot_be_read_is_none() {
    for change in ["created_at = 'noon'", "expires_at = 'noon'"] {
        let asked = Asked::two().await;
        let approvals = asked.store.approvals();
        let grant = GrantId::from_ulid(ulid::Ulid::generate());
        approvals
            .grant(grant, asked.questions[0].clone(), Duration::from_secs(60), Millis(1_000))
            .await
            .unwrap();
        damage(&asked.store, &format!("UPDATE approval_grants SET {change}"));
        if change.starts_with("expires_at") {
            assert_eq!(approvals.is_granted([9; 32], Millis(2_000)).await, Ok(false), "{change}");
        }
        assert_eq!(approvals.clamp_future(Millis(2_000)).await, Ok(1), "{change}");
        assert_eq!(approvals.clamp_future(Millis(2_000)).await, Ok(0), "{change}");
        assert_eq!(approvals.is_granted([9; 32], Millis(2_000)).await, Ok(false), "{change}");
    }
}

#[tokio::test]
async fn an_approval_whose_time_cannot_be_read_is_too_old_after_a_start() {
    let asked = Asked::two().await;
    asked.decide(0, Decision::Approved).await;
    damage(&asked.store, "UPDATE pending_approvals SET resolved_at = 'noon' WHERE rowid = 1");
    assert_eq!(asked.store.approvals().clamp_future(Millis(2_000)).await, Ok(1));
    let found = asked.store.approvals().find(asked.questions[0].clone()).await.unwrap().unwrap();
    assert_eq!(found.resolved_at, Some(Millis(0)));
}
