//! What a server has asked and not taken an answer to yet, bounded: a server that asks much and reads nothing would otherwise
//! fill our memory, with answers and with what works on them.

use rmcp::RoleClient;
use rmcp::model::JsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

/// Requests of a server that may be open at once; with one more it counts as gone.
const OPEN_MAX: usize = 256;

/// A transport that ends once the other side has asked too much and taken too few answers.
pub(super) struct Bounded<T> {
    inner: T,
    asked: usize,
    /// Answers that the other side has taken.
    answered: Arc<AtomicUsize>,
    /// Rung when too much is open. The end of the transport alone is not enough: rmcp first tries to send what waits.
    overrun: Arc<Notify>,
}

impl<T> Bounded<T> {
    pub(super) fn new(inner: T, overrun: Arc<Notify>) -> Self {
        Self { inner, asked: 0, answered: Arc::default(), overrun }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Bounded<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let is_answer = matches!(item, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let (sending, answered) = (self.inner.send(item), Arc::clone(&self.answered));
        async move {
            let sent = sending.await;
            answered.fetch_add(usize::from(is_answer), Ordering::Relaxed);
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.inner.receive().await;
        self.asked += usize::from(matches!(message, Some(JsonRpcMessage::Request(_))));
        let open = self.asked.saturating_sub(self.answered.load(Ordering::Relaxed));
        if open > OPEN_MAX {
            tracing::warn!(open, "an MCP server asks without reading the answers; it is disconnected");
            self.overrun.notify_one();
            return None;
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
