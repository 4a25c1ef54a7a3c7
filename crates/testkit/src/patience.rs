//! Waiting in tests: look again until it is so, by the machine's time, whatever the test's own time does.

use std::time::{Duration, Instant};

/// Two busy cores make honest work slow; a test that needs longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// Looks until there is something to see, and gives it. Panics when there never is.
#[track_caller]
pub fn eventually<T, F, Fut>(what: impl Into<String>, mut look: F) -> impl Future<Output = T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let (what, caller) = (what.into(), std::panic::Location::caller());
    async move {
        let started = Instant::now();
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            assert!(started.elapsed() < PATIENCE, "{caller}: waited in vain for {what}");
            pause(BETWEEN_LOOKS).await;
        }
    }
}

/// A pause of the machine's time, also while the test's time stands still.
pub async fn pause(duration: Duration) {
    if tokio::task::spawn_blocking(move || std::thread::sleep(duration)).await.is_err() {
        tokio::task::yield_now().await;
    }
}
