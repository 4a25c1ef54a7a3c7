//! The leases of a message, as the trace of its event keeps them.

use crate::outbox::{nack, nack_of, poll, poll_of, send};
use cortex_store::{Nack, NoteKind, RequeueOutcome, ReturnedLease};
use cortex_testkit::{TempStore, topic};
use cortex_types::{Delivery, Millis, OutboxId, OutboxStatus};

/// When each lease began, and as which attempt.
async fn leases(store: &TempStore, id: &OutboxId) -> Vec<(i64, String)> {
    let event = store.outbox().find(id.clone()).await.unwrap().unwrap().event.unwrap();
    let trace = store.trace(event).await.unwrap().unwrap();
    let earlier = trace.notes.iter().filter(|note| note.kind == NoteKind::Leased);
    let earlier = earlier.map(|note| {
        let attempt = note.detail.strip_prefix(&format!("{id}, ")).unwrap();
        (note.at.0, attempt.to_owned())
    });
    let last = trace.replies.iter().filter(|reply| reply.id == *id);
    let last = last.filter_map(|reply| Some((reply.leased_at?.0, format!("attempt {}", reply.attempts))));
    earlier.chain(last).collect()
}

fn attempts(expected: &[(i64, u32)]) -> Vec<(i64, String)> {
    expected.iter().map(|(at, attempt)| (*at, format!("attempt {attempt}"))).collect()
}

async fn lease(store: &TempStore, now: i64) -> Delivery {
    poll(store, &poll_of("telegram"), now).await.remove(0)
}

#[tokio::test]
async fn a_dead_message_shows_the_leases_that_there_were_and_no_other() {
    let store = TempStore::create();
    let id = send(&store, &topic("telegram", "chat"), &["hi"], Millis(0)).await.remove(0);
    for claim in 1..=3 {
        assert_eq!(i64::from(lease(&store, claim * 10_000).await.attempts), claim);
    }
    assert_eq!(leases(&store, &id).await, attempts(&[(10_000, 1), (20_000, 2), (30_000, 3)]));
    assert!(poll(&store, &poll_of("telegram"), 40_000).await.is_empty());
    let dead = store.outbox().find(id.clone()).await.unwrap().unwrap();
    assert_eq!((dead.status, dead.attempts), (OutboxStatus::Dead, 4));
    assert_eq!(leases(&store, &id).await, attempts(&[(10_000, 1), (20_000, 2), (30_000, 3)]));
}

#[tokio::test]
async fn a_lease_that_came_back_unsent_and_one_before_another_try_stay_in_the_trace() {
    let store = TempStore::create();
    let id = send(&store, &topic("telegram", "chat"), &["hi"], Millis(0)).await.remove(0);
    let held = lease(&store, 100).await;
    let returned = ReturnedLease { id: held.id, lease: held.lease, was_sent: false };
    assert_eq!(store.outbox().give_back(vec![returned], Millis(150)).await.unwrap(), 1);
    assert_eq!(leases(&store, &id).await, attempts(&[(100, 1)]), "it counts no more, and it was");
    let held = lease(&store, 200).await;
    assert_eq!(leases(&store, &id).await, attempts(&[(100, 1), (200, 1)]));
    nack(&store, Nack { permanent: true, ..nack_of(&held) }, 0, 250).await.unwrap();
    assert_eq!(store.outbox().requeue(id.clone(), Millis(300)).await.unwrap(), RequeueOutcome::Requeued);
    assert_eq!(leases(&store, &id).await, attempts(&[(100, 1), (200, 1)]));
    lease(&store, 400).await;
    assert_eq!(leases(&store, &id).await, attempts(&[(100, 1), (200, 1), (400, 1)]));
}
