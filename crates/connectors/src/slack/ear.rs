//! The listening end: a socket that Slack opens for us. An envelope is acknowledged once what it holds is durable.

use super::event::{Me, happenings};
use super::web::Web;
use super::wire::Envelope;
use crate::kit::{Ear, Happening, Heard, Inbound, PlatformError, Socket, read_platform};
use cortex_types::{Clock, SystemClock};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Slack sends a sign of life every few seconds.
const SILENCE_MAX: Duration = Duration::from_secs(90);

/// It holds the socket, and what is not acknowledged yet.
#[derive(Debug)]
pub struct SlackEar {
    web: Web,
    clock: SystemClock,
    line: Option<Line>,
}

/// A socket that is open.
#[derive(Debug)]
struct Line {
    socket: Socket,
    me: Me,
    /// The envelope whose content is being made durable.
    owed: Option<String>,
}

#[derive(Serialize)]
struct Acknowledgement<'a> {
    envelope_id: &'a str,
}

impl Ear for SlackEar {
    async fn next(&mut self, cursor: Option<&str>) -> Result<Vec<Inbound>, PlatformError> {
        let mut line = match self.line.take() {
            Some(line) => line,
            None => {
                // Back at once, so that whoever waits to send knows that Slack is there.
                self.line = Some(self.connect().await?);
                return Ok(Vec::new());
            }
        };
        // What could not be noted is not acknowledged; the line is dropped, and Slack sends it again.
        if let Some(owed) = line.owed.take() {
            if cursor != Some(owed.as_str()) {
                return Err(PlatformError::Transient("what was heard is not durable yet".to_owned()));
            }
            line.acknowledge(&owed).await?;
        }
        let batch = self.hear(&mut line).await?;
        if let Some(batch) = batch {
            self.line = Some(line);
            return Ok(batch);
        }
        Ok(Vec::new())
    }
}

impl SlackEar {
    pub(super) fn new(web: Web) -> Self {
        Self { web, clock: SystemClock::start(), line: None }
    }

    async fn connect(&self) -> Result<Line, PlatformError> {
        #[derive(Deserialize)]
        struct AuthTest {
            user_id: String,
        }
        // A refusal of these calls is about the app.
        let blamed = |error: PlatformError| error.blaming("connectors.slack.token, appToken and apiUrl");
        let who: AuthTest = self.web.look("auth.test", &[]).await.map_err(blamed)?;
        let url = self.web.open_connection().await.map_err(blamed)?;
        let socket = Socket::connect(&url).await?;
        Ok(Line { socket, me: Me { user: who.user_id }, owed: None })
    }

    /// The next envelope that matters; none when Slack wants us to come back on another line.
    async fn hear(&self, line: &mut Line) -> Result<Option<Vec<Inbound>>, PlatformError> {
        loop {
            let heard = tokio::time::timeout(SILENCE_MAX, line.socket.hear()).await;
            let silent = || PlatformError::Transient("Slack has gone silent".to_owned());
            let text = match heard.map_err(|_| silent())?? {
                Heard::Text(text) => text,
                Heard::Nothing => continue,
                Heard::Closed(_) => {
                    return Err(PlatformError::Transient("Slack closed the socket".to_owned()));
                }
            };
            let envelope: Envelope = match read_platform(text.as_bytes()) {
                Ok(envelope) => envelope,
                Err(error) => {
                    tracing::warn!(%error, "something of an unknown shape is passed over");
                    continue;
                }
            };
            if envelope.kind == "disconnect" {
                return match envelope.reason.as_deref() {
                    Some("link_disabled") => Err(PlatformError::Misconfigured(
                        "Socket Mode is switched off for this app; switch it on, on the app's page"
                            .to_owned(),
                    )),
                    Some(_) | None => Ok(None),
                };
            }
            let Some(id) = envelope.envelope_id.clone() else { continue };
            let happened = happenings(&envelope, &line.me, self.clock.now());
            if happened.is_empty() {
                line.acknowledge(&id).await?;
                continue;
            }
            line.owed = Some(id.clone());
            return Ok(Some(batch(happened, id)));
        }
    }
}

impl Line {
    async fn acknowledge(&mut self, envelope_id: &str) -> Result<(), PlatformError> {
        let text = serde_json::to_string(&Acknowledgement { envelope_id })
            .map_err(|error| PlatformError::Transient(error.to_string()))?;
        self.socket.say(text).await
    }
}

/// The envelope's id is the cursor: it is noted behind everything that the envelope holds.
fn batch(happened: Vec<Happening>, id: String) -> Vec<Inbound> {
    let mut batch: Vec<Inbound> = happened.into_iter().map(|what| Inbound { cursor: None, what }).collect();
    batch.push(Inbound { cursor: Some(id), what: Happening::Nothing });
    batch
}
