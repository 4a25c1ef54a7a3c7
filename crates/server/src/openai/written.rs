//! Messages that are on their way to a client: delivered once they were written, and waiting again when he left before.

use axum::body::{Body, Bytes};
use cortex_runtime::OutboxDesk;
use cortex_types::{LeaseToken, OutboxId};
use futures::stream;
use std::convert::Infallible;

/// Messages under lease. Dropped before `ack`, they wait for the next request.
pub(crate) struct Leased {
    outbox: OutboxDesk,
    messages: Vec<(OutboxId, LeaseToken)>,
}

impl Leased {
    pub(crate) fn new(outbox: OutboxDesk, messages: Vec<(OutboxId, LeaseToken)>) -> Self {
        Self { outbox, messages }
    }

    /// The client has them.
    pub(crate) async fn ack(mut self) {
        // The connection writes what it holds before it asks for more: after a turn of the others it has.
        tokio::task::yield_now().await;
        while let Some((id, lease)) = self.messages.last().cloned() {
            match self.outbox.ack(id.clone(), lease).await {
                Ok(Ok(_)) => {}
                Ok(Err(refused)) => {
                    tracing::warn!(message = %id, ?refused, "A message was written too late and may come again");
                }
                Err(error) => {
                    tracing::warn!(message = %id, %error, "A message was written and may come again");
                }
            }
            self.messages.pop();
        }
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        let messages = std::mem::take(&mut self.messages);
        // Without a runtime the server is gone, and the leases end by themselves.
        if let (false, Ok(runtime)) = (messages.is_empty(), tokio::runtime::Handle::try_current()) {
            let outbox = self.outbox.clone();
            runtime.spawn(async move {
                if let Err(error) = outbox.put_back(messages).await {
                    tracing::warn!(%error, "Messages for a client that left wait until their lease ends");
                }
            });
        }
    }
}

enum Writing {
    Say(Bytes, Leased),
    Written(Leased),
}

/// A body that delivers its messages when the connection asks for what follows its last byte.
pub(crate) fn written_then_acked(bytes: Bytes, leased: Leased) -> Body {
    Body::from_stream(stream::unfold(Writing::Say(bytes, leased), |writing| async {
        match writing {
            Writing::Say(bytes, leased) => Some((Ok::<_, Infallible>(bytes), Writing::Written(leased))),
            Writing::Written(leased) => {
                leased.ack().await;
                None
            }
        }
    }))
}
