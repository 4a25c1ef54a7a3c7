//! A bridge for any program that speaks JSON lines: what it writes becomes events, what comes out it reads.

mod line;

use crate::kit::{Backoff, HandedIn, Stopped, WhenNotLetIn, hand_in, is_lasting, pause};
use cortex_api::{AckRequest, Client, ClientError, NackRequest, PollRequest, PolledMessage, ReleaseRequest};
use cortex_types::limits::FIELD_CHARS_MAX;
use cortex_types::{Clock, LeaseToken, OutboxId, SystemClock};
use line::{Given, LINE_BYTES_MAX, Spoken};
use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const LEASE_SECONDS: u32 = 60;
const BATCH: u32 = 20;
const POLL_EVERY: Duration = Duration::from_millis(200);
/// How long a poll waits for a message.
const WAIT_SECONDS: u32 = 25;
/// A message that was not claimed again by then is not ours any more.
const UNACKED_LASTS: Duration = Duration::from_secs(2 * LEASE_SECONDS as u64);
/// What a program may take for reading a line when the bridge ends.
const LAST_LINE: Duration = Duration::from_secs(2);

/// A bridge that is not yet at work.
#[derive(Debug)]
pub struct Stdio {
    pub client: Client,
    /// The source of the program's events.
    pub source: String,
    /// A message counts as delivered once its line is written; otherwise the program says so.
    pub auto_ack: bool,
    /// Ends the bridge early.
    pub stop: CancellationToken,
}

/// Why the bridge ended early.
#[derive(Debug, thiserror::Error)]
pub enum StdioFailure {
    #[error("cannot read lines: {0}")]
    Input(io::Error),
    #[error("cannot write lines: {0}")]
    Output(io::Error),
    #[error("the server takes nothing from this bridge: {0}")]
    NotLetIn(String),
}

/// What both directions share.
struct Shared<W> {
    output: tokio::sync::Mutex<W>,
    /// Messages that were written and wait for their ack.
    unacked: Mutex<HashMap<OutboxId, Unacked>>,
}

struct Unacked {
    lease: LeaseToken,
    since: Instant,
}

impl<W> Shared<W> {
    /// Before they are written: an ack may come back at once, and what the end leaves unwritten is given back.
    fn expect_acks(&self, messages: &[PolledMessage]) {
        let mut unacked = self.unacked.lock().unwrap_or_else(PoisonError::into_inner);
        let since = Instant::now();
        unacked.retain(|_, one| since.saturating_duration_since(one.since) < UNACKED_LASTS);
        unacked.extend(messages.iter().map(|message| {
            (message.message_id.clone(), Unacked { lease: message.lease_token.clone(), since })
        }));
    }
}

impl Stdio {
    /// Runs until the program's output ends. What was claimed is written and settled before it returns, or given back.
    pub async fn run(
        self,
        input: impl AsyncBufRead + Unpin,
        output: impl AsyncWrite + Unpin,
    ) -> Result<(), StdioFailure> {
        let shared = Shared { output: tokio::sync::Mutex::new(output), unacked: Mutex::default() };
        let done = self.stop.child_token();
        let reading = async {
            let read = self.read_lines(input, &shared, &done).await;
            done.cancel();
            read
        };
        let writing = async {
            let written = self.write_messages(&shared, &done).await;
            done.cancel();
            written
        };
        let (read, written) = tokio::join!(reading, writing);
        self.give_back(&shared).await;
        // A poll that the end cut off may have claimed something.
        if tokio::time::timeout(LAST_LINE, self.release()).await.is_err() {
            tracing::debug!("nothing more could be given back; the next start does it");
        }
        read.and(written)
    }

    async fn read_lines<W: AsyncWrite + Unpin>(
        &self,
        mut input: impl AsyncBufRead + Unpin,
        shared: &Shared<W>,
        done: &CancellationToken,
    ) -> Result<(), StdioFailure> {
        let mut number = 0_u64;
        loop {
            let read = tokio::select! {
                () = done.cancelled() => return Ok(()),
                read = next_line(&mut input) => read.map_err(StdioFailure::Input)?,
            };
            let Some(bytes) = read else { return Ok(()) };
            number += 1;
            if bytes.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let problem = match Given::read(&bytes) {
                Ok(Given::Event(event)) => {
                    let now = SystemClock::start().now();
                    let event = event.request(&self.source, now);
                    match hand_in(&self.client, &event, WhenNotLetIn::GiveUp, done).await {
                        Ok(HandedIn::Queued(_) | HandedIn::Settled) => None,
                        Ok(HandedIn::Refused(reason)) => Some(reason),
                        Ok(HandedIn::NotLetIn(reason)) => return Err(StdioFailure::NotLetIn(reason)),
                        Err(Stopped) => return Ok(()),
                    }
                }
                Ok(Given::Ack(message)) => self.settle(shared, &message, None).await,
                Ok(Given::Nack(nack)) => self.settle(shared, &nack.message, Some(&nack)).await,
                Err(problem) => Some(problem),
            };
            if let Some(error) = problem {
                let spoken = Spoken::Error { error: &error, line: number };
                if write_line(shared, &spoken, done).await? == Written::Stopped {
                    return Ok(());
                }
            }
        }
    }

    /// Acknowledges a message or gives it back; a text says why that cannot be.
    async fn settle<W>(
        &self,
        shared: &Shared<W>,
        message: &OutboxId,
        nack: Option<&line::GivenNack>,
    ) -> Option<String> {
        let unacked = shared.unacked.lock().unwrap_or_else(PoisonError::into_inner).remove(message);
        let Some(Unacked { lease: lease_token, .. }) = unacked else {
            return Some(format!("{message} does not wait for an ack"));
        };
        let message_id = message.clone();
        let told = match nack {
            None => self.client.ack(&AckRequest { message_id, lease_token }).await.map(drop),
            Some(nack) => {
                let request = NackRequest {
                    message_id,
                    lease_token,
                    error: nack.error.clone(),
                    retry_after_seconds: nack.retry_after_seconds,
                    permanent: nack.permanent,
                };
                self.client.nack(&request).await.map(drop)
            }
        };
        told.err().map(|error| format!("{message}: {error}"))
    }

    async fn write_messages<W: AsyncWrite + Unpin>(
        &self,
        shared: &Shared<W>,
        done: &CancellationToken,
    ) -> Result<(), StdioFailure> {
        let mut backoff = Backoff::new();
        // What a bridge that was killed had in hand is due now.
        while let Err(error) = self.release().await {
            tracing::warn!(%error, "cannot give back what was in hand; trying again");
            if pause(backoff.wait(), done).await.is_err() {
                return Ok(());
            }
        }
        loop {
            let asked = Instant::now();
            let claimed = tokio::select! {
                () = done.cancelled() => return Ok(()),
                claimed = self.claim() => claimed,
            };
            let wait = match claimed {
                // The server waited for us; one that answers at once is not asked in a circle.
                Ok(messages) if messages.is_empty() => POLL_EVERY.saturating_sub(asked.elapsed()),
                Ok(messages) => {
                    backoff = Backoff::new();
                    shared.expect_acks(&messages);
                    for message in messages {
                        if self.hand_out(shared, message, done).await? == Written::Stopped {
                            return Ok(());
                        }
                    }
                    Duration::ZERO
                }
                Err(error) if is_lasting(&error) => return Err(StdioFailure::NotLetIn(error.to_string())),
                Err(error) => {
                    tracing::warn!(%error, "cannot ask for messages; trying again");
                    backoff.wait()
                }
            };
            if pause(wait, done).await.is_err() {
                return Ok(());
            }
        }
    }

    async fn claim(&self) -> Result<Vec<PolledMessage>, ClientError> {
        let request = PollRequest {
            source: self.source.clone(),
            max: Some(BATCH),
            lease_seconds: Some(LEASE_SECONDS),
            ordered: true,
            wait_seconds: Some(WAIT_SECONDS),
            holder: Some(self.holder()),
            topic_key: None,
        };
        Ok(self.client.poll(&request).await?.messages)
    }

    /// One bridge serves a source, so its name can be the source's.
    fn holder(&self) -> String {
        format!("stdio {}", self.source).chars().take(FIELD_CHARS_MAX).collect()
    }

    async fn release(&self) -> Result<(), ClientError> {
        let request = ReleaseRequest { source: self.source.clone(), holder: self.holder() };
        match self.client.release(&request).await {
            // A server that does not know how lets the leases run out.
            Ok(_) | Err(ClientError::Protocol { .. } | ClientError::Api { status: 400..=499, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn hand_out<W: AsyncWrite + Unpin>(
        &self,
        shared: &Shared<W>,
        message: PolledMessage,
        done: &CancellationToken,
    ) -> Result<Written, StdioFailure> {
        let line = Spoken::Message {
            message_id: &message.message_id,
            topic: &message.topic_key,
            text: &message.text,
            payload: message.payload.as_ref(),
        };
        let written = write_line(shared, &line, done).await?;
        if self.auto_ack
            && written == Written::Whole
            && let Some(problem) = self.settle(shared, &message.message_id, None).await
        {
            tracing::warn!(problem, "not acknowledged; it will come again");
        }
        Ok(written)
    }

    /// What nobody acknowledged is for the next one who asks.
    async fn give_back<W>(&self, shared: &Shared<W>) {
        let unacked: Vec<_> = shared.unacked.lock().unwrap_or_else(PoisonError::into_inner).drain().collect();
        for (message_id, Unacked { lease: lease_token, .. }) in unacked {
            let error = Some("the program ended without acknowledging it".to_owned());
            let request =
                NackRequest { message_id, lease_token, error, retry_after_seconds: None, permanent: false };
            if let Err(error) = self.client.nack(&request).await {
                tracing::warn!(%error, "not given back; its lease will run out");
            }
        }
    }
}

/// The next line; one that is too long comes without its end. `None` at the end of the input.
async fn next_line(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    loop {
        let chunk = input.fill_buf().await?;
        if chunk.is_empty() {
            return Ok((!line.is_empty()).then_some(line));
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(chunk.len());
        // One byte more than is allowed is enough to see that it is too long.
        let room = (LINE_BYTES_MAX + 1).saturating_sub(line.len());
        line.extend_from_slice(&chunk[..taken.min(room)]);
        input.consume(end.map_or(taken, |end| end + 1));
        if end.is_some() {
            return Ok(Some(line));
        }
    }
}

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Whole,
    /// The bridge ends and the program does not read.
    Stopped,
}

async fn write_line<W: AsyncWrite + Unpin>(
    shared: &Shared<W>,
    line: &Spoken<'_>,
    done: &CancellationToken,
) -> Result<Written, StdioFailure> {
    let mut bytes = serde_json::to_vec(line).map_err(|error| StdioFailure::Output(error.into()))?;
    bytes.push(b'\n');
    let write = async {
        let mut output = shared.output.lock().await;
        output.write_all(&bytes).await?;
        output.flush().await
    };
    let given_up = async {
        done.cancelled().await;
        tokio::time::sleep(LAST_LINE).await;
    };
    tokio::select! {
        written = write => written.map(|()| Written::Whole).map_err(StdioFailure::Output),
        () = given_up => Ok(Written::Stopped),
    }
}
