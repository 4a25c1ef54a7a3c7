//! The bytes that all fetches together may hold: taken as a body grows, given back when nobody needs it any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What is shared by all, and beside it room for one body as large as any may be. Whoever has that room comes to an end without
/// the others, so fetches that wait for each other's bytes do not wait for ever.
#[derive(Debug)]
pub(super) struct Budget {
    shared: Arc<Semaphore>,
    /// One place.
    spare: Arc<Semaphore>,
}

/// What one body holds of the budget; it goes back when the last copy is dropped.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held(#[expect(dead_code, reason = "held for what its drop gives back")] Option<Arc<Share>>);

/// What one fetch holds so far.
#[derive(Debug, Default)]
pub(super) struct Share {
    bytes: Option<OwnedSemaphorePermit>,
    spare: Option<OwnedSemaphorePermit>,
}

/// Two answers are the same by what they say, whatever they hold.
impl PartialEq for Held {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Held {}

impl From<Share> for Held {
    fn from(share: Share) -> Self {
        Self(Some(Arc::new(share)))
    }
}

impl Budget {
    /// At most `all` bytes in hand, of which one body may have `largest` for itself.
    pub(super) fn new(all: usize, largest: usize) -> Self {
        let shared = all.saturating_sub(largest).min(Semaphore::MAX_PERMITS);
        Self { shared: Arc::new(Semaphore::new(shared)), spare: Arc::new(Semaphore::new(1)) }
    }

    /// Takes as many bytes more, and waits until they are there. `waits` is set meanwhile.
    pub(super) async fn take(&self, share: &mut Share, bytes: usize, waits: &AtomicBool) {
        let Ok(count) = u32::try_from(bytes) else { return };
        if count == 0 || share.spare.is_some() {
            return;
        }
        waits.store(true, Ordering::Relaxed);
        tokio::select! {
            biased;
            // It is never closed; if it were, nothing would be left to take.
            taken = Arc::clone(&self.shared).acquire_many_owned(count) => if let Ok(taken) = taken {
                match &mut share.bytes {
                    Some(held) => held.merge(taken),
                    None => share.bytes = Some(taken),
                }
            },
            spare = Arc::clone(&self.spare).acquire_owned() => share.spare = spare.ok(),
        }
        waits.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SOON: Duration = Duration::from_millis(50);

    async fn takes(budget: &Budget, share: &mut Share, bytes: usize) -> bool {
        let waits = AtomicBool::new(false);
        let taken = tokio::time::timeout(SOON, budget.take(share, bytes, &waits)).await.is_ok();
        assert_eq!(waits.load(Ordering::Relaxed), !taken);
        taken
    }

    #[tokio::test]
    async fn who_waits_for_bytes_gets_them_when_another_body_is_gone() {
        let budget = Budget::new(100, 40);
        let [mut one, mut two, mut three] = [Share::default(), Share::default(), Share::default()];
        assert!(takes(&budget, &mut one, 30).await && takes(&budget, &mut two, 30).await);
        assert!(takes(&budget, &mut one, 10).await, "the spare room");
        assert!(takes(&budget, &mut one, 30).await, "whoever has it goes on to the end");
        assert!(!takes(&budget, &mut two, 1).await && !takes(&budget, &mut three, 1).await);
        let held = Held::from(one);
        let copy = held.clone();
        drop(held);
        assert!(!takes(&budget, &mut two, 1).await, "a copy still holds it");
        drop(copy);
        assert!(takes(&budget, &mut two, 30).await && takes(&budget, &mut three, 30).await);
    }
}
