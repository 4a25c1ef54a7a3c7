//! Work with schemas of others, done apart from the server's own threads and given up after a time.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// Threads at work at the same time; one that does not end keeps its place.
const THREADS_MAX: usize = 2;
const STACK_BYTES: usize = 16 * 1024 * 1024;
const WORK_MAX: Duration = Duration::from_secs(5);
const PLACE_WAIT: Duration = Duration::from_secs(10);

/// A few places for such work.
#[derive(Debug, Clone)]
pub(crate) struct Apart(Arc<Semaphore>);

impl Default for Apart {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(THREADS_MAX)))
    }
}

impl Apart {
    /// Does the work on a thread of its own. An error says why there is no result.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let place = tokio::time::timeout(PLACE_WAIT, Arc::clone(&self.0).acquire_owned()).await;
        let Ok(Ok(place)) = place else {
            return Err("too many other checks are running; try again later".to_owned());
        };
        let (done, result) = oneshot::channel();
        let thread = std::thread::Builder::new().name("schema".to_owned()).stack_size(STACK_BYTES);
        let started = thread.spawn(move || {
            // Nobody may be waiting any more.
            drop(done.send(work()));
            drop(place);
        });
        if let Err(error) = started {
            return Err(format!("no thread for the check: {error}"));
        }
        match tokio::time::timeout(WORK_MAX, result).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(_)) => Err("the check failed".to_owned()),
            Err(_) => Err(format!("the check takes over {} s", WORK_MAX.as_secs())),
        }
    }
}
