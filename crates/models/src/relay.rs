//! Passes a client's own request on to the providers, as it is where they speak OpenAI's protocol.

mod listing;
mod meter;
mod render;
mod translate;

use crate::collect::Collector;
use crate::endpoint::Endpoint;
use crate::error::{CallError, Verdict};
use crate::failover::{Models, Provider, listen, shortened};
use crate::model::{Model, NamedModel, Piece, PieceStream, RelayWire};
use crate::model_name::{self, Position};
use crate::room::{NoRoom, Room};
use async_trait::async_trait;
use bytes::Bytes;
use cortex_types::{ChatRequest, ModelCall, TokenUsage};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, future};
pub use listing::ListedModel;
pub(crate) use listing::first_listed;
use meter::Meter;
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;
use translate::Translated;

/// Longest answer that is not streamed.
const WHOLE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long an answer waits for room that others hold, and how often it asks.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(3);
const ROOM_ASKED_EVERY: Duration = Duration::from_millis(50);

/// What is asked of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayPath {
    Chat,
    Responses,
    Embeddings,
}

/// A client's request for one of the providers' models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayRequest {
    pub path: RelayPath,
    pub model: String,
    pub stream: bool,
    /// The JSON object as it came.
    pub body: Bytes,
}

/// A provider's answer, or its refusal of the request itself.
pub struct Relayed {
    pub status: u16,
    pub content_type: String,
    pub body: RelayBody,
}

pub enum RelayBody {
    Whole(Bytes),
    /// It has begun: from here on nobody else is asked.
    Stream(BoxStream<'static, Result<Bytes, RelayCut>>),
}

/// A provider stopped in the middle of its stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RelayCut(String);

/// Why nobody answered; one line without keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RelayRefused {
    /// No provider can have such a model.
    #[error("no provider has this model")]
    UnknownModel,
    /// The request holds what the provider's protocol has no place for.
    #[error("{0}")]
    Untranslatable(String),
    /// All of them asked to be left alone.
    #[error("{message}")]
    Limited { retry_after: Option<Duration>, message: String },
    /// Whoever counts what is held has no place for the answer.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    #[error("{message}")]
    Exhausted { retry_after: Option<Duration>, message: String },
}

impl Models {
    /// Asks those that can have the model, in order, until one answers. Every call is told to `calls` when it is over, and
    /// what is held of answers is counted in `room`, which has to live as long as an answer's bytes.
    pub async fn relay(
        &self,
        request: &RelayRequest,
        calls: &UnboundedSender<ModelCall>,
        room: &Arc<dyn Room>,
    ) -> Result<Relayed, RelayRefused> {
        let mut failures = Vec::new();
        let mut untranslatable = None;
        for (provider, wire) in self.having(request) {
            let meter = Meter::start(self, provider, &request.model, calls, room);
            let attempt = match wire {
                RelayWire::Openai(endpoint) => self.pass_on(endpoint, request, meter, room).await,
                RelayWire::Other(named) => match translate::request(provider.model.kind(), request) {
                    Ok(translated) => {
                        let asked = AskedAs { named, provider, model: &request.model, room };
                        self.ask_as(&asked, request, translated, meter).await
                    }
                    Err(problem) => {
                        meter.forget();
                        untranslatable.get_or_insert(problem);
                        continue;
                    }
                },
            };
            match attempt {
                Ok(relayed) => {
                    self.cool(provider, None);
                    return Ok(relayed);
                }
                // The next one's answer would find no more room.
                Err(CallError::NoRoom(none)) => return Err(none.into()),
                Err(error) => {
                    // One that has no such model may be well otherwise.
                    if !is_unknown_model(&error) {
                        self.cool(provider, Some(error.verdict()));
                    }
                    failures.push((provider.name.clone(), error));
                }
            }
        }
        Err(refusal(failures, untranslatable))
    }

    /// Who can be asked, in order.
    fn having(&self, request: &RelayRequest) -> Vec<(&Provider, RelayWire<'_>)> {
        let model = request.model.as_str();
        let first = self.providers.first().map(|provider| provider.name.as_str());
        let in_order = self.in_order().into_iter().filter_map(|provider| {
            let (wire, site) = provider.place?;
            let is_first = first == Some(provider.name.as_str());
            let position = if is_first { Position::First } else { Position::Later };
            let can_have =
                provider.model.name() == model || model_name::can_have(wire, site, position, model);
            let relay = provider.model.relay()?;
            let makes_vectors = matches!(relay, RelayWire::Openai(_));
            (can_have && (makes_vectors || request.path != RelayPath::Embeddings))
                .then_some((provider, relay))
        });
        in_order.collect()
    }

    /// The body as it is, and the answer as it is.
    async fn pass_on(
        &self,
        endpoint: &Endpoint,
        request: &RelayRequest,
        mut meter: Meter,
        room: &Arc<dyn Room>,
    ) -> Result<Relayed, CallError> {
        let url = endpoint.url(match request.path {
            RelayPath::Chat => &["chat", "completions"],
            RelayPath::Responses => &["responses"],
            RelayPath::Embeddings => &["embeddings"],
        });
        // Without a stream the first sign of life is the whole answer.
        let patience = if request.stream { self.timeouts.idle } else { self.timeouts.total };
        let answered = timeout(patience, endpoint.pass_on(url, request.body.clone())).await;
        let response = match answered.unwrap_or(Err(CallError::Idle(patience))) {
            Ok(response) => response,
            Err(error) => return meter.failed(error),
        };
        let status = response.status().as_u16();
        match status {
            200..=299 => {}
            401 | 403 | 404 | 408 | 429 | 500..=599 => {
                return meter.failed(endpoint.failure(response, self.timeouts.idle).await);
            }
            _ => {
                let content_type = content_type(&response);
                let idle = self.timeouts.idle;
                let read = timeout(idle, endpoint.refusal_bytes(response)).await;
                let body = match read.map_err(|_| CallError::Idle(idle)).and_then(|body| held_in(room, body))
                {
                    Ok(body) => body,
                    Err(error) => return meter.failed(error),
                };
                meter.refused(status);
                return Ok(Relayed { status, content_type, body: RelayBody::Whole(body) });
            }
        }
        let content_type = content_type(&response);
        if content_type.starts_with("text/event-stream") {
            let chunks = response.bytes_stream();
            let chunks = chunks.map(|bytes| match bytes {
                Ok(bytes) => Ok(Chunk { bytes, counted: None }),
                Err(_) => Err(broken()),
            });
            let body = begun(chunks.boxed(), meter, self.timeouts.idle).await?;
            return Ok(Relayed { status, content_type, body: RelayBody::Stream(body) });
        }
        match timeout(self.timeouts.total, whole(response, room)).await {
            Ok(Ok(body)) => {
                meter.read_whole(&body);
                Ok(Relayed { status, content_type, body: RelayBody::Whole(body) })
            }
            Ok(Err(error)) => meter.failed(error),
            Err(_) => meter.failed(CallError::TooLong(self.timeouts.total)),
        }
    }

    /// The same question in another protocol, and the answer back.
    async fn ask_as(
        &self,
        asked: &AskedAs<'_>,
        request: &RelayRequest,
        translated: Translated,
        mut meter: Meter,
    ) -> Result<Relayed, CallError> {
        let Translated { question, with_usage } = translated;
        if request.stream {
            let opening = asked.named.open_as(&request.model, &question, Arc::clone(asked.room));
            let opened = timeout(self.timeouts.idle, opening).await;
            let pieces = match opened.unwrap_or(Err(CallError::Idle(self.timeouts.idle))) {
                Ok(pieces) => pieces,
                Err(error) => return meter.failed(error),
            };
            let chunks = render::chunks(pieces, &question, &request.model, self.clock.now(), with_usage);
            let body = begun(chunks, meter, self.timeouts.idle).await?;
            let content_type = "text/event-stream".to_owned();
            return Ok(Relayed { status: 200, content_type, body: RelayBody::Stream(body) });
        }
        let mut collector = Collector::new(&question, &|_| {});
        let heard =
            timeout(self.timeouts.total, listen(asked, &question, self.timeouts.idle, &mut collector));
        let heard = heard.await.unwrap_or(Err(CallError::TooLong(self.timeouts.total)));
        let rendered = heard.and_then(|()| collector.into_reply()).and_then(|reply| {
            meter.count(reply.usage);
            held_in(asked.room, render::completion(&reply, &request.model, self.clock.now()))
        });
        match rendered {
            Ok(body) => {
                meter.answered();
                let content_type = "application/json".to_owned();
                Ok(Relayed { status: 200, content_type, body: RelayBody::Whole(body) })
            }
            Err(error) => meter.failed(error),
        }
    }
}

/// A provider under the name of another of its models.
struct AskedAs<'a> {
    named: &'a dyn NamedModel,
    provider: &'a Provider,
    model: &'a str,
    room: &'a Arc<dyn Room>,
}

#[async_trait]
impl Model for AskedAs<'_> {
    fn kind(&self) -> &'static str {
        self.provider.model.kind()
    }

    fn name(&self) -> String {
        self.model.to_owned()
    }

    async fn open(&self, request: &ChatRequest) -> Result<PieceStream, CallError> {
        let pieces = self.named.open_as(self.model, request, Arc::clone(self.room)).await?;
        let (room, mut kept) = (Arc::clone(self.room), 0);
        // What a collector keeps of it, which the end of an event gives back to nobody.
        let counted = pieces.map(move |batch| {
            let batch = batch?;
            kept += batch.iter().map(Piece::len).sum::<usize>();
            room.hold(kept)?;
            Ok(batch)
        });
        Ok(counted.boxed())
    }
}

/// A piece of a stream, with what was counted where that is known from elsewhere than its bytes.
struct Chunk {
    bytes: Bytes,
    counted: Option<TokenUsage>,
}

type Chunks = BoxStream<'static, Result<Chunk, CallError>>;

/// A stream whose first bytes are there: only now is it known that this provider answers.
async fn begun(
    mut chunks: Chunks,
    mut meter: Meter,
    idle: Duration,
) -> Result<BoxStream<'static, Result<Bytes, RelayCut>>, CallError> {
    let first = match timeout(idle, chunks.next()).await {
        Ok(Some(Ok(first))) => first,
        Ok(Some(Err(error))) => return meter.failed(error),
        Ok(None) => return meter.failed(CallError::Empty),
        Err(_) => return meter.failed(CallError::Idle(idle)),
    };
    let first = meter.read(first);
    let rest = stream::unfold(Some((chunks, meter)), move |open| async move {
        let (mut chunks, mut meter) = open?;
        match timeout(idle, chunks.next()).await {
            Ok(Some(Ok(chunk))) => {
                let bytes = meter.read(chunk);
                Some((Ok(bytes), Some((chunks, meter))))
            }
            Ok(None) => {
                meter.answered();
                None
            }
            Ok(Some(Err(error))) => Some((Err(meter.cut(error)), None)),
            Err(_) => Some((Err(meter.cut(CallError::Idle(idle))), None)),
        }
    });
    Ok(stream::once(future::ready(Ok(first))).chain(rest).boxed())
}

fn broken() -> CallError {
    CallError::Cut("the connection broke".to_owned())
}

/// The whole answer. Its room is asked for before it is read where its length is known, so that of several that come at once
/// each has all of it or waits, and none is given up half read.
async fn whole(response: Response, room: &Arc<dyn Room>) -> Result<Bytes, CallError> {
    let length = response.content_length().and_then(|length| usize::try_from(length).ok());
    if let Some(length) = length.filter(|length| *length <= WHOLE_BYTES_MAX) {
        wait_for(room, length).await?;
    }
    let mut body = Vec::with_capacity(length.unwrap_or_default().min(WHOLE_BYTES_MAX));
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| broken())?;
        let needed = body.len() + chunk.len();
        if needed > WHOLE_BYTES_MAX {
            return Err(CallError::Malformed(format!("over {WHOLE_BYTES_MAX} bytes")));
        }
        if needed > body.capacity() {
            // What is counted is what is held, and not only what is filled of it.
            let grown = needed.max(body.capacity() * 2).min(WHOLE_BYTES_MAX);
            wait_for(room, grown).await?;
            body.reserve_exact(grown - body.len());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Bytes::from(body))
}

fn held_in(room: &Arc<dyn Room>, body: Bytes) -> Result<Bytes, CallError> {
    room.hold(body.len())?;
    Ok(body)
}

/// The provider was paid by then, and others may be done soon.
async fn wait_for(room: &Arc<dyn Room>, bytes: usize) -> Result<(), NoRoom> {
    let freed = async {
        while room.hold(bytes).is_err() {
            tokio::time::sleep(ROOM_ASKED_EVERY).await;
        }
    };
    if timeout(ROOM_WAIT_MAX, freed).await.is_err() {
        tracing::warn!(
            bytes,
            "An answer of a provider was given up, because its caller holds too much; its tokens are not known"
        );
        return Err(NoRoom);
    }
    Ok(())
}

fn content_type(response: &Response) -> String {
    let said = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    said.unwrap_or("application/json").to_owned()
}

fn is_unknown_model(error: &CallError) -> bool {
    matches!(error, CallError::Rejected { status: 404, .. })
}

/// One refusal for all: a 404 of every provider is an unknown model, a 429 of every one is theirs.
fn refusal(failures: Vec<(String, CallError)>, untranslatable: Option<String>) -> RelayRefused {
    if failures.is_empty() {
        return untranslatable.map_or(RelayRefused::UnknownModel, RelayRefused::Untranslatable);
    }
    let errors = || failures.iter().map(|(_, error)| error);
    if errors().all(is_unknown_model) {
        return RelayRefused::UnknownModel;
    }
    let waits = errors().filter_map(|error| match error.verdict() {
        Verdict::Transient { retry_after } => retry_after,
        Verdict::Refused | Verdict::Stop => None,
    });
    let retry_after = waits.min();
    let lines: Vec<String> = failures.iter().map(|(name, error)| format!("{name}: {error}")).collect();
    let message = shortened(lines.join("; "));
    if errors().all(|error| matches!(error, CallError::RateLimited { .. })) {
        RelayRefused::Limited { retry_after, message }
    } else {
        RelayRefused::Exhausted { retry_after, message }
    }
}
