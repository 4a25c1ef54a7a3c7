//! The typed client: one method per endpoint, one error enum that a caller can branch on.

use crate::{
    AckAnswer, AckRequest, ChannelList, ConnectorList, ContextCompacted, ContextQuery, ContextShown,
    ContextUndone, ErrorBody, ErrorCode, EventTrace, Health, InboxList, InboxQuery, InboxRow, IngestAnswer,
    IngestRequest, LiveEvent, NackAnswer, NackRequest, OutboxList, OutboxQuery, OutboxRow, PollAnswer,
    PollRequest, ReleaseAnswer, ReleaseRequest, ServerStatus, ShadowQuery, ShadowReport, UnbindAnswer,
    UnbindRequest, UsageQuery, UsageReport,
};
use cortex_types::{EventId, OutboxId};
use eventsource_stream::{Event, EventStreamError, Eventsource};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, de::DeserializeOwned};
use std::time::Duration;

mod approval;
mod key;
mod schedule;
mod tool;

/// Largest answer the client takes in.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// A whole memory takes longer.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(600);

/// What a turn says while it says it.
pub type LiveStream = BoxStream<'static, Result<LiveEvent, ClientError>>;

/// Why a call did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No server answers there.
    #[error("no server answers at {url}")]
    Unreachable { url: String, source: reqwest::Error },
    /// The request may or may not have been done (D24).
    #[error("{url} did not answer in time")]
    TimedOut { url: String },
    #[error("the server refused the token")]
    Unauthorized,
    #[error("the server answered {status}: {body}")]
    Api { status: u16, body: ErrorBody },
    /// Something answered, but not as a Cortex server does.
    #[error("{url} does not answer like a Cortex server: {reason}")]
    Protocol { url: String, reason: String },
}

/// A connection to one server with one token.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base_url: String,
    token: Option<SecretString>,
}

impl Client {
    /// Needs a rustls provider installed in the process.
    pub fn new(base_url: &str, token: Option<SecretString>) -> Result<Self, ClientError> {
        let base_url = base_url.trim_end_matches('/').to_owned();
        let protocol = |reason: String| ClientError::Protocol { url: base_url.clone(), reason };
        let url = reqwest::Url::parse(&base_url).map_err(|error| protocol(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(protocol("the address must begin with http:// or https://".to_owned()));
        }
        // No redirects and no proxy: the token goes to the server that was named and nowhere else.
        let builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT);
        // Plain HTTP needs no certificates: a machine without any must still reach its own server.
        let builder = if url.scheme() == "http" { builder.tls_certs_only([]) } else { builder };
        let http = builder.build().map_err(|error| protocol(error.to_string()))?;
        Ok(Self { http, base_url, token })
    }

    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    pub async fn health(&self) -> Result<Health, ClientError> {
        let url = self.url("/health");
        let response = self.send(self.http.get(&url).timeout(CONNECT_TIMEOUT), &url).await?;
        match response.status() {
            StatusCode::OK | StatusCode::SERVICE_UNAVAILABLE => read_json(response, &url).await,
            _ => Err(refusal(response, &url).await),
        }
    }

    pub async fn status(&self) -> Result<ServerStatus, ClientError> {
        self.get("/api/v2/status", &()).await
    }

    pub async fn ingest(&self, event: &IngestRequest) -> Result<IngestAnswer, ClientError> {
        self.post("/ingest", event).await
    }

    pub async fn poll(&self, request: &PollRequest) -> Result<PollAnswer, ClientError> {
        let url = self.url("/outbox/poll");
        // The server may take as long as it was asked to wait.
        let patience = REQUEST_TIMEOUT + Duration::from_secs(u64::from(request.wait_seconds.unwrap_or(0)));
        self.answer(self.http.post(&url).json(request).timeout(patience), &url).await
    }

    pub async fn ack(&self, request: &AckRequest) -> Result<AckAnswer, ClientError> {
        self.post("/outbox/ack", request).await
    }

    pub async fn nack(&self, request: &NackRequest) -> Result<NackAnswer, ClientError> {
        self.post("/outbox/nack", request).await
    }

    pub async fn release(&self, request: &ReleaseRequest) -> Result<ReleaseAnswer, ClientError> {
        self.post("/outbox/release", request).await
    }

    /// Forgets which channel a source is.
    pub async fn unbind(&self, request: &UnbindRequest) -> Result<UnbindAnswer, ClientError> {
        self.post("/api/v2/connectors/unbind", request).await
    }

    pub async fn inbox(&self, query: &InboxQuery) -> Result<InboxList, ClientError> {
        self.get("/api/v2/inbox", query).await
    }

    pub async fn inbox_row(&self, event: &EventId) -> Result<InboxRow, ClientError> {
        self.get(&format!("/api/v2/inbox/{event}"), &()).await
    }

    /// Puts a failed event back; it starts again with fresh attempts.
    pub async fn retry_event(&self, event: &EventId) -> Result<InboxRow, ClientError> {
        self.command(&format!("/api/v2/inbox/{event}/retry")).await
    }

    pub async fn outbox(&self, query: &OutboxQuery) -> Result<OutboxList, ClientError> {
        self.get("/api/v2/outbox", query).await
    }

    pub async fn outbox_dead(&self, query: &OutboxQuery) -> Result<OutboxList, ClientError> {
        self.get("/api/v2/outbox/dead", query).await
    }

    pub async fn outbox_row(&self, message: &OutboxId) -> Result<OutboxRow, ClientError> {
        self.get(&format!("/api/v2/outbox/{message}"), &()).await
    }

    /// Makes a dead or discarded message claimable again, with fresh attempts.
    pub async fn retry_message(&self, message: &OutboxId) -> Result<OutboxRow, ClientError> {
        self.command(&format!("/api/v2/outbox/{message}/retry")).await
    }

    pub async fn discard_message(&self, message: &OutboxId) -> Result<OutboxRow, ClientError> {
        self.command(&format!("/api/v2/outbox/{message}/discard")).await
    }

    pub async fn trace(&self, event: &EventId) -> Result<EventTrace, ClientError> {
        self.get(&format!("/api/v2/events/{event}/trace"), &()).await
    }

    pub async fn usage(&self, query: &UsageQuery) -> Result<UsageReport, ClientError> {
        self.get("/api/v2/usage", query).await
    }

    pub async fn channels(&self) -> Result<ChannelList, ClientError> {
        self.get("/api/v2/channels", &()).await
    }

    pub async fn connectors(&self) -> Result<ConnectorList, ClientError> {
        self.get("/api/v2/connectors", &()).await
    }

    /// Has the server read its channel settings again; the answer is what is in force then.
    pub async fn reload_channels(&self) -> Result<ChannelList, ClientError> {
        self.post("/api/v2/channels/reload", &serde_json::json!({})).await
    }

    pub async fn shadow(&self, query: &ShadowQuery) -> Result<ShadowReport, ClientError> {
        self.get("/api/v2/shadow", query).await
    }

    pub async fn context(&self, query: &ContextQuery) -> Result<ContextShown, ClientError> {
        self.get("/api/v2/context", query).await
    }

    pub async fn compact_context(&self, query: &ContextQuery) -> Result<ContextCompacted, ClientError> {
        self.post("/api/v2/context/compact", query).await
    }

    pub async fn undo_context(&self, query: &ContextQuery) -> Result<ContextUndone, ClientError> {
        self.post("/api/v2/context/undo", query).await
    }

    /// The preview of a running turn; it ends after `done` or when the server goes.
    pub async fn live(&self, event: &EventId) -> Result<LiveStream, ClientError> {
        let url = self.url(&format!("/api/v2/events/{event}/live"));
        let response = self.send(self.http.get(&url).header("accept", "text/event-stream"), &url).await?;
        if !response.status().is_success() {
            return Err(refusal(response, &url).await);
        }
        Ok(read_live(response.bytes_stream().eventsource(), url).boxed())
    }

    pub(crate) async fn get<A: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
    ) -> Result<A, ClientError> {
        let url = self.url(path);
        let request = self.http.request(Method::GET, &url).query(query).timeout(REQUEST_TIMEOUT);
        self.answer(request, &url).await
    }

    pub(crate) async fn post<A: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<A, ClientError> {
        let url = self.url(path);
        self.answer(self.http.post(&url).json(body).timeout(REQUEST_TIMEOUT), &url).await
    }

    pub(crate) async fn get_text(&self, path: &str) -> Result<String, ClientError> {
        let url = self.url(path);
        let response = self.send(self.http.get(&url).timeout(TRANSFER_TIMEOUT), &url).await?;
        if !response.status().is_success() {
            return Err(refusal(response, &url).await);
        }
        let bytes = read_bytes(response, &url).await?;
        String::from_utf8(bytes).map_err(|error| ClientError::Protocol { url, reason: error.to_string() })
    }

    pub(crate) async fn post_text<A: DeserializeOwned>(
        &self,
        path: &str,
        body: String,
    ) -> Result<A, ClientError> {
        let url = self.url(path);
        self.answer(self.http.post(&url).body(body).timeout(TRANSFER_TIMEOUT), &url).await
    }

    /// A request whose address says everything.
    async fn command<A: DeserializeOwned>(&self, path: &str) -> Result<A, ClientError> {
        self.post(path, &serde_json::json!({})).await
    }

    /// A command that is answered by its status alone.
    async fn silent_command(&self, path: &str) -> Result<(), ClientError> {
        self.silent_post(path, &serde_json::json!({})).await
    }

    async fn silent_post(&self, path: &str, body: &impl Serialize) -> Result<(), ClientError> {
        let url = self.url(path);
        let request = self.http.post(&url).json(body).timeout(REQUEST_TIMEOUT);
        let response = self.send(request, &url).await?;
        if response.status().is_success() { Ok(()) } else { Err(refusal(response, &url).await) }
    }

    async fn answer<A: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        url: &str,
    ) -> Result<A, ClientError> {
        let response = self.send(request, url).await?;
        if !response.status().is_success() {
            return Err(refusal(response, url).await);
        }
        read_json(response, url).await
    }

    async fn send(&self, request: RequestBuilder, url: &str) -> Result<Response, ClientError> {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token.expose_secret()),
            None => request,
        };
        request.send().await.map_err(|error| broken(error, url))
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base_url)
    }
}

fn broken(error: reqwest::Error, url: &str) -> ClientError {
    let url = url.to_owned();
    if error.is_timeout() && !error.is_connect() {
        ClientError::TimedOut { url }
    } else {
        ClientError::Unreachable { url, source: error.without_url() }
    }
}

async fn refusal(response: Response, url: &str) -> ClientError {
    let status = response.status();
    if status == StatusCode::UNAUTHORIZED {
        return ClientError::Unauthorized;
    }
    match read_bytes(response, url).await.map(|bytes| serde_json::from_slice::<ErrorBody>(&bytes)) {
        Ok(Ok(body)) => ClientError::Api { status: status.as_u16(), body },
        Ok(Err(_)) if status.is_server_error() => {
            ClientError::Api { status: status.as_u16(), body: ErrorBody::new(ErrorCode::Unknown) }
        }
        Ok(Err(_)) => ClientError::Protocol {
            url: url.to_owned(),
            reason: format!("status {status} without an error body"),
        },
        Err(error) => error,
    }
}

async fn read_json<A: DeserializeOwned>(response: Response, url: &str) -> Result<A, ClientError> {
    let bytes = read_bytes(response, url).await?;
    serde_json::from_slice(&bytes)
        .map_err(|error| ClientError::Protocol { url: url.to_owned(), reason: error.to_string() })
}

async fn read_bytes(mut response: Response, url: &str) -> Result<Vec<u8>, ClientError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| broken(error, url))? {
        if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
            let reason = format!("the answer is larger than {ANSWER_BYTES_MAX} bytes");
            return Err(ClientError::Protocol { url: url.to_owned(), reason });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn read_live(
    events: impl Stream<Item = Result<Event, EventStreamError<reqwest::Error>>>,
    url: String,
) -> impl Stream<Item = Result<LiveEvent, ClientError>> {
    events.map(move |event| match event {
        Ok(event) => LiveEvent::parse(&event.event, &event.data)
            .map_err(|error| ClientError::Protocol { url: url.clone(), reason: error.to_string() }),
        Err(EventStreamError::Transport(error)) => Err(broken(error, &url)),
        Err(EventStreamError::Utf8(_) | EventStreamError::Parser(_)) => {
            Err(ClientError::Protocol { url: url.clone(), reason: "broken event stream".to_owned() })
        }
    })
}
