//! The load of one request: its place, and the bytes that it holds of its caller's share until it is answered.

use crate::share::{Full, Kind, Place, Share};
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequestParts, Request};
use cortex_models::{NoRoom, Room};
use http::request::Parts;
use hyper::body::{Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Sleep;

/// What a request may hold without being counted: most hold less, and how many there are is bounded.
const UNCOUNTED_BYTES: usize = 16 * 1024;
/// How long somebody without a key may take to send a body.
const STRANGER_READ_MAX: Duration = Duration::from_secs(10);

/// What a request holds; handlers find it among its extensions.
#[derive(Clone, Default)]
pub(crate) struct Load(Option<Arc<Held>>);

struct Held {
    bytes: Place,
    /// Given back with the request, or with the stream that answers it.
    _request: Place,
}

/// Counts what an answer holds among the bytes of its caller, beside what his request holds.
pub(crate) struct AnswerRoom {
    bytes: Option<Place>,
    refused: OnceLock<Full>,
}

impl Room for AnswerRoom {
    fn hold(&self, bytes: usize) -> Result<(), NoRoom> {
        let grown = match &self.bytes {
            Some(place) if bytes > UNCOUNTED_BYTES => place.grow_to(bytes),
            Some(_) | None => Ok(()),
        };
        grown.map_err(|full| {
            self.refused.get_or_init(|| full);
            NoRoom
        })
    }
}

impl AnswerRoom {
    /// Why there was no room.
    pub(crate) fn full(&self) -> Full {
        self.refused.get().copied().unwrap_or(Full::All)
    }
}

/// Why a body is not read to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Overload {
    #[error("too much is on its way")]
    Full(Full),
    #[error("the body takes too long")]
    Slow(Duration),
}

impl Load {
    pub(crate) fn begin(share: &Arc<Share>) -> Result<Self, Full> {
        let request = share.place(Kind::Request)?;
        Ok(Self(Some(Arc::new(Held { bytes: share.bytes(), _request: request }))))
    }

    /// The load of this request; one that came by no door has none.
    pub(crate) fn of(request: &Request) -> Self {
        request.extensions().get::<Self>().cloned().unwrap_or_default()
    }

    /// Holds so many bytes in all.
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), Full> {
        match &self.0 {
            Some(held) if bytes > UNCOUNTED_BYTES => held.bytes.grow_to(bytes),
            Some(_) | None => Ok(()),
        }
    }

    /// Room for an answer that is read from somewhere else before it is written.
    pub(crate) fn answer(&self) -> AnswerRoom {
        let bytes = self.0.as_ref().map(|held| held.bytes.share().bytes());
        AnswerRoom { bytes, refused: OnceLock::new() }
    }

    /// A poll waits: holds a place among those of its caller.
    pub(crate) fn wait(&self) -> Result<Option<Place>, Full> {
        self.0.as_ref().map(|held| held.bytes.share().place(Kind::Wait)).transpose()
    }

    /// The body, counted while it comes in. Small ones that say their length are passed as they are.
    pub(crate) fn count(&self, body: Body) -> Body {
        let is_small = body.size_hint().upper().is_some_and(|bytes| bytes <= UNCOUNTED_BYTES as u64);
        let is_stranger = self.0.as_ref().is_some_and(|held| held.bytes.share().is_stranger());
        if body.is_end_stream() || (is_small && !is_stranger) {
            return body;
        }
        let deadline = is_stranger.then(|| Box::pin(tokio::time::sleep(STRANGER_READ_MAX)));
        Body::new(Counted { body, load: self.clone(), seen: 0, deadline })
    }

    /// The body of an answer that goes on for long: it holds the request's place until it is over.
    pub(crate) fn with_answer(self, body: Body) -> Body {
        Body::new(Answering { body, _load: self })
    }
}

impl<S: Sync> FromRequestParts<S> for Load {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

struct Counted {
    body: Body,
    load: Load,
    seen: usize,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Some(Err(Overload::Slow(STRANGER_READ_MAX).into())));
        }
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        let Some(Ok(frame)) = frame else { return Poll::Ready(frame.map(|frame| frame.map_err(Into::into))) };
        self.seen += frame.data_ref().map_or(0, Bytes::len);
        match self.load.hold(self.seen) {
            Ok(()) => Poll::Ready(Some(Ok(frame))),
            Err(full) => Poll::Ready(Some(Err(Overload::Full(full).into()))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

struct Answering {
    body: Body,
    _load: Load,
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }
}
