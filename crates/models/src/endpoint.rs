//! One provider's address and key: sends a request, and names what went wrong.

use crate::error::CallError;
use crate::model::PieceStream;
use crate::room::{NoRoom, Room};
use crate::sparing::First;
use crate::stream::{self, Decoder};
use crate::{ModelsError, redact, retry_after};
use bytes::Bytes;
use cortex_types::{Clock, JsonText};
use futures::StreamExt;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{RequestBuilder, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How much of an error answer is read.
const ERROR_BODY_BYTES_MAX: usize = 64 * 1024;
/// How long the words of an error are waited for.
const WORDS_MAX: Duration = Duration::from_secs(5);
/// How much of a listing is read.
const LISTING_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Where a key goes.
#[derive(Debug, Clone)]
pub(crate) enum Credential {
    None,
    Bearer(SecretString),
    Header(HeaderName, SecretString),
}

impl Credential {
    fn redacted(&self, text: &str) -> String {
        let secret = match self {
            Self::None => "",
            Self::Bearer(secret) | Self::Header(_, secret) => secret.expose_secret(),
        };
        redact::one_line(text, secret)
    }
}

pub(crate) struct Endpoint {
    client: reqwest::Client,
    base: Url,
    headers: HeaderMap,
    credential: Credential,
    clock: Arc<dyn Clock>,
}

impl Endpoint {
    /// `setting` is what a person would have to change when the address or the key is unusable.
    pub(crate) fn new(
        client: reqwest::Client,
        clock: Arc<dyn Clock>,
        base_url: &str,
        version: &str,
        credential: Credential,
        setting: &str,
    ) -> Result<Self, ModelsError> {
        let base = versioned(parse_base(base_url, setting)?, version);
        let mut headers = HeaderMap::new();
        let (name, value) = match &credential {
            Credential::None => return Ok(Self { client, base, headers, credential, clock }),
            Credential::Bearer(token) => (AUTHORIZATION, format!("Bearer {}", token.expose_secret())),
            Credential::Header(name, key) => (name.clone(), key.expose_secret().to_owned()),
        };
        let mut value =
            HeaderValue::from_str(&value).map_err(|_| ModelsError::BadKey { setting: setting.to_owned() })?;
        value.set_sensitive(true);
        headers.insert(name, value);
        Ok(Self { client, base, headers, credential, clock })
    }

    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    pub(crate) fn host(&self) -> Option<&str> {
        self.base.host_str()
    }

    /// The address of `path` below the versioned base; a query of the base stays.
    pub(crate) fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    /// Sends `body` and gives the answer once its status is good.
    pub(crate) async fn post(&self, url: Url, body: &serde_json::Value) -> Result<Response, CallError> {
        self.send(self.client.post(url).json(body)).await
    }

    /// Sends `body` and reads the whole answer, bounded.
    pub(crate) async fn post_json(
        &self,
        url: Url,
        body: &serde_json::Value,
        bytes_max: usize,
    ) -> Result<Vec<u8>, CallError> {
        Ok(read_up_to(self.post(url, body).await?, bytes_max).await)
    }

    /// What the provider says in its answer.
    pub(crate) fn pieces(
        &self,
        response: Response,
        decoder: impl Decoder,
        room: Arc<dyn Room>,
    ) -> PieceStream {
        let credential = self.credential.clone();
        let pieces = stream::pieces(response.bytes_stream(), decoder, room);
        pieces
            .map(move |batch| batch.map_err(|error| error.redacted(|said| credential.redacted(said))))
            .boxed()
    }

    /// A listing, bounded. `hold` is told of every piece of it before it is kept.
    pub(crate) async fn get_bytes(
        &self,
        url: Url,
        hold: impl Fn(usize) -> Result<(), NoRoom>,
    ) -> Result<Vec<u8>, CallError> {
        let response = self.send(self.client.get(url)).await?;
        let mut body = Vec::new();
        read_into(&mut body, response, LISTING_BYTES_MAX, hold).await?;
        Ok(body)
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, CallError> {
        let response =
            request.headers(self.headers.clone()).send().await.map_err(|error| self.network(error))?;
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(self.failure(response, WORDS_MAX).await)
        }
    }

    /// Sends a body as it is and gives the answer, whatever its status.
    pub(crate) async fn pass_on(&self, url: Url, body: Bytes) -> Result<Response, CallError> {
        let request = self.client.post(url).headers(self.headers.clone());
        let request = request.header(CONTENT_TYPE, "application/json").body(body);
        request.send().await.map_err(|error| self.network(error))
    }

    /// The bytes of a refusal that the client may read: as they came, but for our key.
    pub(crate) async fn refusal_bytes(&self, response: Response) -> Bytes {
        let body = read_up_to(response, ERROR_BODY_BYTES_MAX).await;
        match &self.credential {
            Credential::None => body.into(),
            Credential::Bearer(secret) | Credential::Header(_, secret) => {
                let text = String::from_utf8_lossy(&body);
                if text.contains(secret.expose_secret()) {
                    text.replace(secret.expose_secret(), "***").into()
                } else {
                    body.into()
                }
            }
        }
    }

    fn network(&self, error: reqwest::Error) -> CallError {
        let error = error.without_url();
        let mut line = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            line = format!("{line}: {cause}");
            source = cause.source();
        }
        CallError::Network(self.credential.redacted(&line))
    }

    /// What an answer with a bad status means. Its words are waited for so long; without them its status says enough.
    pub(crate) async fn failure(&self, response: Response, patience: Duration) -> CallError {
        let status = response.status().as_u16();
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| retry_after::parse_retry_after(text, self.clock.wall()));
        let mut body = Vec::new();
        let reading = read_into(&mut body, response, ERROR_BODY_BYTES_MAX, |_| Ok(()));
        // What has come by then is all there is.
        timeout(patience, reading).await.unwrap_or(Ok(())).unwrap_or_default();
        let body = String::from_utf8_lossy(&body);
        let said = self.credential.redacted(&message_in(&body).unwrap_or_else(|| body.clone().into_owned()));
        // Google answers a bad key with 400.
        if status == 400 && body.contains("API_KEY_INVALID") {
            return CallError::Unauthorized { status, said };
        }
        CallError::from_status(status, retry_after, said)
    }
}

pub(crate) fn parse_base(text: &str, setting: &str) -> Result<Url, ModelsError> {
    let bad =
        |problem: &str| ModelsError::BadUrl { setting: setting.to_owned(), problem: problem.to_owned() };
    let url = Url::parse(text.trim()).map_err(|error| bad(&error.to_string()))?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        scheme => Err(bad(&format!("its scheme is {scheme:?}"))),
    }
}

/// People give a base address with and without its version; a base that already names one is kept.
fn versioned(mut base: Url, version: &str) -> Url {
    let last = base.path_segments().and_then(|segments| segments.rev().find(|segment| !segment.is_empty()));
    let names_version = last.is_some_and(|last| {
        last == "openai"
            || last.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    if let (false, Ok(mut segments)) = (names_version, base.path_segments_mut()) {
        segments.pop_if_empty().push(version);
    }
    base
}

/// The sentence in an error answer: OpenAI's, Anthropic's and Google's envelopes agree on it.
fn message_in(body: &str) -> Option<String> {
    let is_list = body.trim_start().starts_with('[');
    let envelope: Envelope = if is_list {
        serde_json::from_str::<First<_>>(body).ok()?.0?
    } else {
        serde_json::from_str(body).ok()?
    };
    let error = envelope.error.as_str();
    let told = || Some(serde_json::from_str::<Told>(error).ok()?.message);
    serde_json::from_str(error).ok().or_else(told)
}

#[derive(Deserialize)]
struct Envelope {
    error: JsonText,
}

#[derive(Deserialize)]
struct Told {
    message: String,
}

/// Reads at most `limit` bytes; what a broken connection gave so far is enough for a message.
async fn read_up_to(response: Response, limit: usize) -> Vec<u8> {
    let mut body = Vec::new();
    read_into(&mut body, response, limit, |_| Ok(())).await.unwrap_or_default();
    body
}

async fn read_into(
    body: &mut Vec<u8>,
    response: Response,
    limit: usize,
    hold: impl Fn(usize) -> Result<(), NoRoom>,
) -> Result<(), NoRoom> {
    let mut chunks = response.bytes_stream();
    while let Some(Ok(chunk)) = chunks.next().await {
        let wanted = chunk.len().min(limit - body.len());
        hold(wanted)?;
        body.extend_from_slice(&chunk[..wanted]);
        if body.len() == limit {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Credential, Endpoint, message_in};
    use cortex_types::ManualClock;
    use std::sync::Arc;

    fn endpoint(base_url: &str) -> Result<Endpoint, crate::ModelsError> {
        // Fails only when a provider is there already, which is what is wanted.
        rustls::crypto::ring::default_provider().install_default().unwrap_or_default();
        Endpoint::new(
            reqwest::Client::new(),
            Arc::new(ManualClock::default()),
            base_url,
            "v1",
            Credential::Bearer("secret".to_owned().into()),
            "synapseUrl",
        )
    }

    #[track_caller]
    fn check(base_url: &str, expected: &str) {
        assert_eq!(endpoint(base_url).unwrap().url(&["chat", "completions"]).as_str(), expected);
    }

    #[test]
    fn a_base_address_works_with_and_without_its_version() {
        check("http://localhost:7750", "http://localhost:7750/v1/chat/completions");
        check("http://localhost:7750/", "http://localhost:7750/v1/chat/completions");
        check("http://localhost:7750/v1", "http://localhost:7750/v1/chat/completions");
        check("http://localhost:7750/v1/", "http://localhost:7750/v1/chat/completions");
        check("https://host/api/paas/v4", "https://host/api/paas/v4/chat/completions");
        check("https://host/v1beta/openai/", "https://host/v1beta/openai/chat/completions");
        check("https://host/proxy?team=a", "https://host/proxy/v1/chat/completions?team=a");
    }

    #[test]
    fn an_unusable_address_names_its_setting() {
        for text in ["", "localhost:7750", "file:///etc/passwd", "http://"] {
            let error = endpoint(text).err().unwrap().to_string();
            assert!(error.starts_with("synapseUrl: not a usable http(s) address"), "{error}");
        }
    }

    #[test]
    fn the_sentence_is_found_in_every_envelope() {
        for body in [
            r#"{"error":{"message":"no","type":"x"}}"#,
            r#"{"type":"error","error":{"type":"x","message":"no"}}"#,
            r#"[{"error":{"code":400,"message":"no"}}]"#,
            r#"{"error":"no"}"#,
        ] {
            assert_eq!(message_in(body).as_deref(), Some("no"), "{body}");
        }
        assert_eq!(message_in("<html>"), None);
    }
}
