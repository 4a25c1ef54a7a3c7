//! What a server has not taken from us yet, bounded: a server that asks much and reads no answers would otherwise fill our
//! memory with them.

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::sync::Arc;
use tokio::sync::Notify;

/// Messages that wait for a server to take them, after which it counts as gone. Calls of ours are a few at a time.
const UNSENT_MAX: usize = 256;

/// A transport that ends once too much of what was sent waits.
pub(super) struct Bounded<T> {
    inner: T,
    /// Has as many owners, beside this one, as messages wait.
    waiting: Arc<()>,
    /// Rung when too much waits. The end of the transport alone is not enough: rmcp first tries to send what waits.
    overrun: Arc<Notify>,
}

impl<T> Bounded<T> {
    pub(super) fn new(inner: T, overrun: Arc<Notify>) -> Self {
        Self { inner, waiting: Arc::new(()), overrun }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Bounded<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (sending, waits) = (self.inner.send(item), Arc::clone(&self.waiting));
        async move {
            let sent = sending.await;
            drop(waits);
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.inner.receive().await;
        let unsent = Arc::strong_count(&self.waiting) - 1;
        if unsent > UNSENT_MAX {
            tracing::warn!(unsent, "an MCP server asks without reading the answers; it is disconnected");
            self.overrun.notify_one();
            return None;
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
