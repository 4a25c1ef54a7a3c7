//! Previews over a socket: what is said, while it is said.

use super::dispatch::{ToSocket, UNSENT_MAX};
use super::frame::{self, Inbound};
use crate::live::{Reader, Waiting, watch};
use crate::share::{Kind, Share};
use crate::state::AppState;
use cortex_api::{DeltaData, LiveEvent};
use cortex_types::EventId;
use futures::StreamExt;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Passes on what is said while it is said; where the socket cannot keep up, pieces are left out. A key that watches as
/// many answers as it may gets this one when it is whole: a preview is no delivery.
pub(super) fn preview(
    app: &AppState,
    share: &Arc<Share>,
    to: mpsc::Sender<ToSocket>,
    event: EventId,
    inbound: &Inbound,
) {
    let Ok(place) = share.place(Kind::Preview) else { return };
    let app = Arc::clone(app);
    let causation = inbound.event.external_message_id.clone();
    let data = DeltaData {
        connector_id: inbound.claim.connector_id.clone(),
        conversation_id: inbound.event.topic_key.clone(),
        text: String::new(),
        restart: false,
    };
    tokio::spawn(async move {
        let _place = place;
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
