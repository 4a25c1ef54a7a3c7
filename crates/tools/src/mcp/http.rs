//! HTTP as MCP uses it, with a bound for everything a server sends: rmcp's own client reads a body to its end.

use super::sieve::Sieve;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use reqwest::Response;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION: &str = "mcp-session-id";
/// What is shown of a body that tells of an error.
const ERROR_BODY_BYTES_MAX: usize = 64 * 1024;
/// A body that trickles on for longer is given up.
const BODY_TIME_MAX: Duration = Duration::from_secs(300);

/// The client; one message of a server is at most this many bytes.
#[derive(Clone)]
pub(super) struct BoundedClient {
    pub(super) inner: reqwest::Client,
    pub(super) message_bytes_max: usize,
}

type Fault = StreamableHttpError<reqwest::Error>;

impl StreamableHttpClient for BoundedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Fault> {
        let has_session = session_id.is_some();
        let mut request = self.inner.post(uri.as_ref()).header(ACCEPT, format!("{EVENT_STREAM}, {JSON}"));
        if let Some(token) = auth_header {
            request = request.bearer_auth(token);
        }
        for (name, value) in custom_headers {
            request = request.header(name, value);
        }
        if let Some(session) = session_id {
            request = request.header(SESSION, session.as_ref());
        }
        let response = request.json(&message).send().await?;
        refuse_unauthorized(&response)?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && has_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        if !status.is_success() {
            return self.failed(response, &message, has_session).await;
        }
        self.answered(response, &message).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        _max_sse_event_size: usize,
    ) -> Result<StreamableHttpPostResponse, Fault> {
        self.post_message(uri, message, session_id, auth_header, custom_headers).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Fault> {
        self.inner.delete_session(uri, session_id, auth_header, custom_headers).await
    }

    /// Reads nothing but events, which rmcp bounds by their length; how many values they have is counted here.
    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Fault> {
        let (inner, most) = (&self.inner, self.message_bytes_max);
        let events = inner.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            most,
        );
        Ok(events.await?.map(|event| event.and_then(sieved)).boxed())
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        _max_sse_event_size: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Fault> {
        self.get_stream(uri, session_id, last_event_id, auth_header, custom_headers).await
    }
}

impl BoundedClient {
    async fn answered(
        &self,
        response: Response,
        message: &ClientJsonRpcMessage,
    ) -> Result<StreamableHttpPostResponse, Fault> {
        let wants_no_reply = !matches!(message, ClientJsonRpcMessage::Request(_));
        if response.content_length() == Some(0) && wants_no_reply {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let session = header(&response, SESSION);
        let kind = header(&response, CONTENT_TYPE.as_str());
        match kind.as_deref() {
            Some(kind) if kind.starts_with(EVENT_STREAM) => {
                let events =
                    SseStream::from_bytes_stream(bounded(response.bytes_stream(), self.message_bytes_max));
                let events = events.map(|event| event.and_then(sieved)).boxed();
                Ok(StreamableHttpPostResponse::Sse(events, session))
            }
            Some(kind) if kind.starts_with(JSON) => {
                let body = read(response, self.message_bytes_max).await?;
                match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
                    Ok(parsed) => Ok(StreamableHttpPostResponse::Json(parsed, session)),
                    // Nobody waits for an answer to these.
                    Err(_) if wants_no_reply => Ok(StreamableHttpPostResponse::Accepted),
                    Err(error) => Err(unexpected(format!("the answer is not JSON-RPC: {error}"))),
                }
            }
            Some(_) | None => Err(StreamableHttpError::UnexpectedContentType(kind)),
        }
    }

    async fn failed(
        &self,
        response: Response,
        message: &ClientJsonRpcMessage,
        has_session: bool,
    ) -> Result<StreamableHttpPostResponse, Fault> {
        let status = response.status();
        let (session, retry_after) = (header(&response, SESSION), header(&response, RETRY_AFTER.as_str()));
        let is_json = header(&response, CONTENT_TYPE.as_str()).is_some_and(|kind| kind.starts_with(JSON));
        let is_overload = status == StatusCode::TOO_MANY_REQUESTS;
        if is_overload || (status.is_server_error() && !is_json) {
            return Err(HttpStatusError::new(status.as_u16(), retry_after).into());
        }
        let body = read(response, ERROR_BODY_BYTES_MAX).await.unwrap_or_default();
        let error = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(JsonRpcMessage::Error(error)) => Some(error),
            Ok(_) | Err(_) => None,
        };
        let is_auth = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        // A server of the older era refuses the newest first word; the handshake then goes on in the older ones.
        if let ClientJsonRpcMessage::Request(request) = message
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
            && !has_session
            && status.is_client_error()
            && !is_auth
        {
            let refused = || ErrorData::invalid_request(format!("server/discover: HTTP {status}"), None);
            let error = error.map_or_else(refused, |error| error.error);
            let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
            return Ok(StreamableHttpPostResponse::Json(answer, None));
        }
        match error {
            Some(error) if is_json && !is_auth => {
                Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), session))
            }
            Some(_) | None if status.is_server_error() => {
                Err(HttpStatusError::new(status.as_u16(), retry_after).into())
            }
            Some(_) | None => {
                let said: String = String::from_utf8_lossy(&body).chars().take(500).collect();
                Err(unexpected(format!("HTTP {status}: {said}")))
            }
        }
    }
}

fn unexpected(reason: String) -> Fault {
    StreamableHttpError::UnexpectedServerResponse(reason.into())
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn refuse_unauthorized(response: &Response) -> Result<(), Fault> {
    let Some(challenge) = header(response, WWW_AUTHENTICATE.as_str()) else { return Ok(()) };
    if response.status() == StatusCode::UNAUTHORIZED {
        return Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)));
    }
    if response.status() == StatusCode::FORBIDDEN {
        return Err(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge, None)));
    }
    Ok(())
}

/// Counts the values of an event's data: in the bytes of the stream a quote in a comment would hide all that follow.
fn sieved(event: Sse) -> Result<Sse, SseError> {
    let mut sieve = Sieve::default();
    let counted = event.data.iter().flat_map(|data| data.bytes()).try_for_each(|byte| sieve.take(byte));
    counted.map(|()| event).map_err(|error| SseError::Body(Box::new(error)))
}

/// A body of at most so many bytes.
async fn read(mut response: Response, most: usize) -> Result<Vec<u8>, Fault> {
    let (mut body, mut sieve) = (Vec::new(), Sieve::default());
    let reading = async {
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > most {
                return Err(unexpected(format!("the answer is over {most} bytes")));
            }
            let sieved = chunk.iter().try_for_each(|byte| sieve.take(*byte));
            sieved.map_err(|error| unexpected(error.to_string()))?;
            body.extend_from_slice(&chunk);
        }
        Ok(())
    };
    match tokio::time::timeout(BODY_TIME_MAX, reading).await {
        Ok(read) => read.map(|()| body),
        Err(_) => Err(unexpected(format!("the answer takes over {} s", BODY_TIME_MAX.as_secs()))),
    }
}

/// Ends with an error once a single event is larger than this.
fn bounded(
    chunks: impl Stream<Item = reqwest::Result<bytes::Bytes>> + Send + 'static,
    most: usize,
) -> impl Stream<Item = io::Result<bytes::Bytes>> + Send + 'static {
    let (mut length, mut last) = (0_usize, 0_u8);
    chunks.map(move |chunk| {
        let chunk = chunk.map_err(io::Error::other)?;
        for byte in &chunk {
            // An empty line ends an event, whatever ends the lines.
            let is_end = matches!((last, *byte), (b'\n', b'\n' | b'\r') | (b'\r', b'\r'));
            length = if is_end { 0 } else { length + 1 };
            last = *byte;
        }
        if length > most {
            Err(io::Error::other(format!("an event is over {most} bytes")))
        } else {
            Ok(chunk)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_countless_values_is_an_error() {
        let event = |data: String| Sse { data: Some(data), ..Sse::default() };
        assert!(sieved(event(format!("[{}0]", "0,".repeat(10_000)))).is_ok());
        assert!(sieved(event(format!("[{}0]", "0,".repeat(300_000)))).is_err());
        assert!(sieved(Sse::default()).is_ok());
    }
}
