//! The watchdog: finds events that would wait for ever, puts them back or fails them, and says so to whoever asks how the
//! server is.

use crate::mint;
use crate::runtime::Parts;
use cortex_brain::{FailureNotice, notice_text};
use cortex_bus::LiveNews;
use cortex_store::{StoreError, StoreHealth};
use cortex_types::{InboxStatus, NewReply};
use metrics::{counter, gauge};
use std::collections::BTreeSet;
use std::time::Duration;

/// How often the pump lets the watchdog look.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(10);

/// What the watchdog found since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WatchdogReport {
    /// Events and topics that its last look found stranded; zero once a look finds nothing.
    pub stranded: usize,
    /// Those that were put back.
    pub requeued: u64,
    /// Those that failed with a notice to their users.
    pub failed: u64,
}

/// One look; `running` are the events that this process works on, and only the pump knows them.
pub(crate) async fn look(parts: &Parts, running: BTreeSet<i64>) {
    match look_and_rescue(parts, running).await {
        Ok(()) => {}
        Err(error) if !error.is_news() => {}
        Err(error) => tracing::warn!(%error, "The watchdog cannot look at the inbox now; it tries again"),
    }
    gauge!("cortex_events_stranded").set(parts.watchdog.borrow().stranded as f64);
}

async fn look_and_rescue(parts: &Parts, running: BTreeSet<i64>) -> Result<(), StoreError> {
    // In a damaged database everything stays as it is.
    if let StoreHealth::Damaged(_) = parts.store.health() {
        return Ok(());
    }
    let watchdog = parts.store.watchdog();
    let stranded = watchdog.look(running).await?;
    let count = stranded.count();
    parts.watchdog.send_if_modified(|report| {
        let is_news = report.stranded != count;
        report.stranded = count;
        is_news
    });
    if stranded.is_empty() {
        return Ok(());
    }
    tracing::error!(events = ?stranded.events, topics = ?stranded.topics, "Events that no task works on are put back");
    let now = parts.clock.now();
    let notice = move |event: &cortex_types::Event| {
        let reason = "its turn was lost every time".to_owned();
        NewReply {
            id: mint::outbox_id(now),
            topic: event.topic.clone(),
            text: notice_text(&FailureNotice::Broken { reason }),
            payload_json: None,
        }
    };
    let rescued = watchdog.rescue(stranded, parts.config.inbox_max_attempts, now, notice).await?;
    let (requeued, failed) = (rescued.requeued.len() + rescued.topics, rescued.failed.len());
    counter!("cortex_events_rescued_total").increment(requeued as u64);
    counter!("cortex_events_given_up_total").increment(failed as u64);
    parts.watchdog.send_modify(|report| {
        report.requeued += requeued as u64;
        report.failed += failed as u64;
    });
    // Whoever waits for one of them hears it as he hears the end of any turn.
    let ended =
        rescued.failed.into_iter().map(|event| LiveNews::Ended { event, status: InboxStatus::Failed });
    let again =
        rescued.requeued.into_iter().map(|event| LiveNews::Ended { event, status: InboxStatus::Pending });
    ended.chain(again).for_each(|news| parts.bus.publish(news));
    parts.arrived.notify_one();
    Ok(())
}
