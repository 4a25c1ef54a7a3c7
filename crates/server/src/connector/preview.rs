//! Previews over a socket: what is said, while it is said.

use super::dispatch::{ToSocket, UNSENT_MAX};
use super::frame::{self, Inbound};
use crate::live::{Reader, Waiting, watch};
use crate::share::Share;
use crate::state::AppState;
use cortex_api::{DeltaData, LiveEvent};
use cortex_types::EventId;
use futures::StreamExt;
use std::sync::Arc;
use tokio::sync::mpsc;

/// What watching one answer takes beside the words it is known by, each of which is kept twice.
const WATCHED_BYTES: usize = 4 * 1024;

/// Passes on what is said while it is said; where the socket cannot keep up, pieces are left out. Whoever has used up the
/// room for previews sees none: every event that waits is watched until its turn ends.
pub(super) fn preview(
    app: &AppState,
    share: &Arc<Share>,
    to: mpsc::Sender<ToSocket>,
    event: EventId,
    inbound: &Inbound,
) {
    let words = [&inbound.event.external_message_id, &inbound.claim.connector_id, &inbound.event.topic_key];
    let held = share.followed_bytes();
    if held.grow_to(WATCHED_BYTES + 2 * words.map(String::len).iter().sum::<usize>()).is_err() {
        return;
    }
    let app = Arc::clone(app);
    let causation = inbound.event.external_message_id.clone();
    let data = DeltaData {
        connector_id: inbound.claim.connector_id.clone(),
        conversation_id: inbound.event.topic_key.clone(),
        text: String::new(),
        restart: false,
    };
    tokio::spawn(async move {
        let _held = held;
        let watched = watch(&app.store, &app.bus, event, Reader::Connector, Waiting::GoesOn);
        let Ok(Some(watched)) = watched.await else { return };
        let mut watched = std::pin::pin!(watched);
        loop {
            let news = tokio::select! {
                () = to.closed() => return,
                news = watched.next() => news,
            };
            let Some(news) = news else { return };
            let data = match news {
                LiveEvent::Delta(delta) => DeltaData { text: delta.text, ..data.clone() },
                LiveEvent::Restart => DeltaData { restart: true, ..data.clone() },
                LiveEvent::Done(_) => return,
            };
            // The rest of the room is kept for messages.
            if to.capacity() > UNSENT_MAX {
                let frame = frame::delta(data, causation.clone(), app.clock.now());
                drop(to.try_send(ToSocket::Preview { causation: causation.clone(), frame }));
            }
        }
    });
}
