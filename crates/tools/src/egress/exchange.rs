//! One HTTP exchange on a connection that is already open and checked.

use super::budget::{Budget, Share};
use super::{EgressError, OverLimit};
use bytes::Bytes;
use http::header::{self, HeaderMap};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::sync::atomic::AtomicBool;
use tokio::io::{AsyncRead, AsyncWrite};

const RESPONSE_HEADERS_MAX: usize = 128;
const RESPONSE_HEAD_BYTES_MAX: usize = 64 * 1024;

/// How much of a body is taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyLimit<'a> {
    pub(super) bytes: usize,
    pub(super) over: OverLimit,
    /// What all bodies together may take.
    pub(super) budget: &'a Budget,
    /// Set while there is no room for more of the body.
    pub(super) waits: &'a AtomicBool,
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) was_cut: bool,
    pub(super) share: Share,
}

impl Answer {
    /// Where it sends us, when it does.
    pub(super) fn location(&self) -> Option<&str> {
        redirect_of(self.status, &self.headers)
    }
}

/// Sends the request and reads the answer. The connection ends with it.
pub(super) async fn exchange<S>(
    stream: S,
    request: Request<Full<Bytes>>,
    limit: BodyLimit<'_>,
) -> Result<Answer, EgressError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut sender, connection) = http1::Builder::new()
        .max_headers(RESPONSE_HEADERS_MAX)
        .max_buf_size(RESPONSE_HEAD_BYTES_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(wire_error)?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(wire_error)?;
        read(response, limit).await
    };
    let driver = async {
        // What breaks the connection also reaches the reader of the answer, who names it.
        drop(connection.await);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        answer = answer => answer,
        () = driver => Err(EgressError::Wire("the connection ended".to_owned())),
    }
}

async fn read(response: Response<Incoming>, limit: BodyLimit<'_>) -> Result<Answer, EgressError> {
    let (head, mut body) = response.into_parts();
    let mut answer = Answer {
        status: head.status,
        headers: head.headers,
        body: Vec::new(),
        was_cut: false,
        share: Share::default(),
    };
    if answer.location().is_some() || body.is_end_stream() {
        return Ok(answer);
    }
    if let Some(coding) = answer.headers.get(header::CONTENT_ENCODING).filter(|coding| *coding != "identity")
    {
        return Err(EgressError::Encoded(
            String::from_utf8_lossy(coding.as_bytes()).chars().take(40).collect(),
        ));
    }
    let too_large = EgressError::TooLarge { limit: limit.bytes };
    if limit.over == OverLimit::Fail && body.size_hint().lower() > limit.bytes as u64 {
        return Err(too_large);
    }
    while let Some(frame) = body.frame().await {
        // Trailers are of no interest here.
        let Ok(data) = frame.map_err(wire_error)?.into_data() else { continue };
        let room = limit.bytes - answer.body.len();
        limit.budget.take(&mut answer.share, data.len().min(room), limit.waits).await;
        answer.body.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            match limit.over {
                OverLimit::Fail => return Err(too_large),
                OverLimit::Cut => answer.was_cut = true,
            }
            break;
        }
    }
    Ok(answer)
}

fn redirect_of(status: StatusCode, headers: &HeaderMap) -> Option<&str> {
    let is_redirect = matches!(
        status,
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    headers.get(header::LOCATION).filter(|_| is_redirect).and_then(|location| location.to_str().ok())
}

fn wire_error(error: hyper::Error) -> EgressError {
    let mut line = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        line = format!("{line}: {cause}");
        source = cause.source();
    }
    EgressError::Wire(line)
}
