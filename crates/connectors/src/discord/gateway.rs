//! One line to the gateway: the greeting, the heartbeat, and what is dispatched.

use super::rest::Rest;
use super::wire::{GatewayFrame, Hello};
use crate::kit::{Heard, PlatformError, Socket, read_platform};
use cortex_types::JsonText;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Dispatches that wait to be taken; the socket is not read while there are more.
const WAITING_MAX: usize = 256;
const HELLO_TIMEOUT: Duration = Duration::from_secs(20);
/// Guilds, their messages, direct messages, and the words in them.
const INTENTS: u32 = 1 | 1 << 9 | 1 << 12 | 1 << 15;

/// A session that can be taken up again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resume {
    pub(super) session: String,
    pub(super) url: String,
    pub(super) seq: u64,
}

/// Something that was dispatched.
#[derive(Debug)]
pub(super) struct Dispatch {
    pub(super) seq: u64,
    pub(super) kind: String,
    pub(super) data: JsonText,
}

/// Why a line ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// Discord wants us to come back at once.
    Reconnect,
    /// There is nothing to take up again; a new session begins.
    SessionLost,
    Broken(PlatformError),
}

/// An open line. It beats while what it brought is dealt with, however long that takes.
#[derive(Debug)]
pub(super) struct Line {
    coming: mpsc::Receiver<Result<Dispatch, Ended>>,
    durable: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Drop for Line {
    fn drop(&mut self) {
        // Without a farewell, so that the session can be taken up again.
        self.task.abort();
    }
}

impl Line {
    pub(super) async fn open(rest: &Rest, resume: Option<&Resume>) -> Result<Self, PlatformError> {
        let url = match resume {
            Some(resume) => rest.socket_url(&resume.url)?,
            None => rest.gateway_url().await?,
        };
        let mut socket = Socket::connect(&url).await?;
        let late = || PlatformError::Transient("the gateway did not greet in time".to_owned());
        let greeting = tokio::time::timeout(HELLO_TIMEOUT, greeted(&mut socket));
        let beat_every = greeting.await.map_err(|_| late())??;
        let token = rest.token();
        match resume {
            Some(Resume { session, seq, .. }) => {
                say(&mut socket, 6, &ResumeSession { token, session_id: session, seq: *seq }).await?;
            }
            None => {
                let properties = Properties { os: "linux", browser: "cortex", device: "cortex" };
                say(&mut socket, 2, &Identify { token, intents: INTENTS, properties }).await?;
            }
        }
        let (bring, coming) = mpsc::channel(WAITING_MAX);
        let durable = Arc::new(AtomicU64::new(resume.map_or(0, |resume| resume.seq)));
        let end = Arc::clone(&durable);
        let task = tokio::spawn(async move {
            let ended = keep(socket, beat_every, &end, &bring).await;
            // Nobody to tell means that the line was dropped.
            if bring.send(Err(ended)).await.is_err() {
                tracing::debug!("a line to the gateway was dropped");
            }
        });
        Ok(Self { coming, durable, task })
    }

    /// Everything up to here is durable: only that is confirmed by a heartbeat.
    pub(super) fn confirm(&self, seq: u64) {
        self.durable.store(seq, Ordering::Relaxed);
    }

    pub(super) async fn next(&mut self) -> Result<Dispatch, Ended> {
        let gone = || Ended::Broken(PlatformError::Transient("the line to the gateway ended".to_owned()));
        self.coming.recv().await.unwrap_or_else(|| Err(gone()))
    }
}

async fn greeted(socket: &mut Socket) -> Result<Duration, PlatformError> {
    loop {
        let text = match socket.hear().await? {
            Heard::Text(text) => text,
            Heard::Nothing => continue,
            Heard::Closed(code) => return Err(closed(code).into_error()),
        };
        let hello = read(&text).ok().filter(|frame| frame.op == 10).and_then(|frame| frame.d);
        let hello = hello.and_then(|raw| raw.read::<Hello>().ok());
        return match hello {
            Some(hello) => Ok(Duration::from_millis(hello.heartbeat_interval.max(100))),
            None => Err(PlatformError::Transient("the gateway greets oddly".to_owned())),
        };
    }
}

/// Keeps the line until it ends.
async fn keep(
    mut socket: Socket,
    beat_every: Duration,
    durable: &AtomicU64,
    bring: &mpsc::Sender<Result<Dispatch, Ended>>,
) -> Ended {
    // Somewhere in the first interval, so that not all connectors beat together.
    let first = beat_every.mul_f32(rand::random::<f32>());
    let mut beat = tokio::time::interval_at(Instant::now() + first, beat_every);
    let mut is_answered = true;
    loop {
        let step = tokio::select! {
            _ = beat.tick() => {
                if !std::mem::replace(&mut is_answered, false) {
                    return Ended::Broken(PlatformError::Transient("the gateway has gone silent".to_owned()));
                }
                heartbeat(&mut socket, durable).await
            }
            heard = socket.hear(), if bring.capacity() > 1 => match heard {
                Ok(Heard::Text(text)) => match read(&text) {
                    Ok(GatewayFrame { op: 11, .. }) => {
                        is_answered = true;
                        Ok(())
                    }
                    Ok(GatewayFrame { op: 1, .. }) => heartbeat(&mut socket, durable).await,
                    Ok(frame) => take(frame, bring),
                    Err(error) => {
                        tracing::warn!(%error, "a frame of an unknown shape is passed over");
                        Ok(())
                    }
                },
                Ok(Heard::Nothing) => Ok(()),
                Ok(Heard::Closed(code)) => Err(closed(code)),
                Err(error) => Err(Ended::Broken(error)),
            },
        };
        if let Err(ended) = step {
            return ended;
        }
    }
}

fn take(frame: GatewayFrame, bring: &mpsc::Sender<Result<Dispatch, Ended>>) -> Result<(), Ended> {
    match (frame.op, frame.s, frame.t, frame.d) {
        (0, Some(seq), Some(kind), Some(data)) => {
            let full = || Ended::Broken(PlatformError::Transient("too much waits".to_owned()));
            bring.try_send(Ok(Dispatch { seq, kind, data })).map_err(|_| full())
        }
        (7, _, _, _) => Err(Ended::Reconnect),
        (9, _, _, may_resume) => Err(match may_resume.as_ref().map(|raw| raw.as_str()) {
            Some("true") => {
                Ended::Broken(PlatformError::Transient("the session cannot be taken up yet".to_owned()))
            }
            Some(_) | None => Ended::SessionLost,
        }),
        (_, _, _, _) => Ok(()),
    }
}

async fn heartbeat(socket: &mut Socket, durable: &AtomicU64) -> Result<(), Ended> {
    let seq = Some(durable.load(Ordering::Relaxed)).filter(|seq| *seq > 0);
    say(socket, 1, &seq).await.map_err(Ended::Broken)
}

fn read(text: &str) -> Result<GatewayFrame, serde_json::Error> {
    read_platform(text.as_bytes())
}

/// What the number means by which Discord closed.
fn closed(code: Option<u16>) -> Ended {
    match code {
        Some(4004) => Ended::Broken(PlatformError::Misconfigured(
            "Discord refuses the bot token; check connectors.discord.token".to_owned(),
        )),
        Some(4013 | 4014) => Ended::Broken(PlatformError::Misconfigured(
            "Discord does not give this bot the words of messages; switch on Message Content Intent, on the page Bot \
             of your application"
                .to_owned(),
        )),
        Some(code @ 4010..=4012) => Ended::Broken(PlatformError::Misconfigured(format!(
            "Discord does not take this connector any more (closed with {code}); a newer version is needed"
        ))),
        Some(4007 | 4009) => Ended::SessionLost,
        Some(code) => {
            Ended::Broken(PlatformError::Transient(format!("Discord closed the gateway with {code}")))
        }
        None => Ended::Broken(PlatformError::Transient("Discord closed the gateway".to_owned())),
    }
}

impl Ended {
    pub(super) fn into_error(self) -> PlatformError {
        match self {
            Self::Broken(error) => error,
            Self::Reconnect | Self::SessionLost => {
                PlatformError::Transient("Discord wants a new connection".to_owned())
            }
        }
    }
}

async fn say(socket: &mut Socket, op: u8, d: &impl Serialize) -> Result<(), PlatformError> {
    let text = serde_json::to_string(&Frame { op, d })
        .map_err(|error| PlatformError::Transient(error.to_string()))?;
    socket.say(text).await
}

#[derive(Serialize)]
struct Frame<'a, D> {
    op: u8,
    d: &'a D,
}

#[derive(Serialize)]
struct Identify<'a> {
    token: &'a str,
    intents: u32,
    properties: Properties,
}

#[derive(Serialize)]
struct Properties {
    os: &'static str,
    browser: &'static str,
    device: &'static str,
}

#[derive(Serialize)]
struct ResumeSession<'a> {
    token: &'a str,
    session_id: &'a str,
    seq: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_close_has_a_meaning() {
        for code in [4004, 4010, 4011, 4012, 4013, 4014] {
            assert!(matches!(closed(Some(code)), Ended::Broken(PlatformError::Misconfigured(_))), "{code}");
        }
        for code in [4007, 4009] {
            assert_eq!(closed(Some(code)), Ended::SessionLost);
        }
        for code in [Some(1000), Some(1006), Some(4000), Some(4008), None] {
            assert!(matches!(closed(code), Ended::Broken(PlatformError::Transient(_))), "{code:?}");
        }
    }
}
