//! The body of a request counts as long as its key does: who sends half of it before the key is revoked sends nothing with the rest.

use crate::auth::{Caller, KeyRing};
use axum::body::{Body, Bytes, HttpBody};
use cortex_store::ConnectorKey;
use cortex_types::KeyId;
use hyper::body::{Frame, SizeHint};
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::watch;

/// The key was revoked while the body came in.
#[derive(Debug, thiserror::Error)]
#[error("the key was revoked")]
pub(crate) struct Revoked;

/// The body, which breaks off once the key of its caller is none any more. The owner's cannot be revoked.
pub(crate) fn while_open(body: Body, caller: &Caller, keys: &KeyRing) -> Body {
    match caller.key_id() {
        Some(key) if !body.is_end_stream() => {
            Body::new(HeldBody { body, key: key.clone(), open: keys.watch_connectors() })
        }
        Some(_) | None => body,
    }
}

struct HeldBody {
    body: Body,
    key: KeyId,
    open: watch::Receiver<Arc<[ConnectorKey]>>,
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        // Asked after each piece, the last one too: until the body is whole nothing was done with it.
        if self.open.borrow().iter().all(|key| key.id != self.key) {
            return Poll::Ready(Some(Err(Revoked.into())));
        }
        // What broke the body inside is what the reader is told.
        Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::into_inner)))
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
