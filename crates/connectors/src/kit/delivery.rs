//! The delivering loop: messages of one topic in order, topics side by side, each message part by part.

use super::backoff::Backoff;
use super::button::{Asked, Button, buttons_of};
use super::compose::{ComposedPart, compose, compose_question, fitting_buttons};
use super::pages::Prompt;
use super::place::{ChatPlace, place_key};
use super::platform::{OutgoingPart, PartBody, Platform, PlatformError};
use super::run::{Connector, Stopped};
use cortex_api::{AckRequest, ClientError, NackRequest, PollRequest, PolledMessage, ReleaseRequest};
use cortex_types::{Clock, LeaseToken, OutboxId};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use std::collections::{HashMap, VecDeque};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use ulid::Ulid;

/// Longer than a long message takes in a slow group.
const LEASE_SECONDS: u32 = 300;
const BATCH: u32 = 20;
/// How long a poll waits for a message.
const WAIT_SECONDS: u32 = 25;
/// Topics that are delivered to at the same time.
const LANES_MAX: usize = 64;
/// How often one part is sent again for another form or another address.
const FORMS_MAX: usize = 4;
const ACK_TRIES: usize = 4;
/// What giving back may take at the end.
const LAST_RELEASE: Duration = Duration::from_secs(2);
/// A topic that nothing was delivered to for so long holds nobody up any more.
const TROUBLE_LASTS: Duration = Duration::from_secs(1_800);
const WORDS_CHARS_MAX: usize = 80;

/// Messages that we hold a lease of.
#[derive(Default)]
pub(super) struct InHand {
    /// The newest lease of each message: a slow delivery outlives its first one.
    leases: HashMap<OutboxId, LeaseToken>,
    /// Topics that are being delivered to, and what waits there, in order. A topic has one lane at a time.
    lanes: HashMap<String, VecDeque<PolledMessage>>,
}

impl InHand {
    /// Takes what was claimed, and gives the topics that need a new lane. What is in hand only gets its new lease.
    fn take(&mut self, messages: Vec<PolledMessage>) -> Vec<String> {
        let mut new = Vec::new();
        for message in messages {
            let known = self.leases.insert(message.message_id.clone(), message.lease_token.clone());
            if known.is_some() {
                continue;
            }
            let topic = message.topic_key.clone();
            let lane = self.lanes.entry(topic).or_insert_with_key(|topic| {
                new.push(topic.clone());
                VecDeque::new()
            });
            lane.push_back(message);
        }
        new
    }

    /// The next message of a topic; without one its lane is at its end.
    fn next(&mut self, topic: &str) -> Option<PolledMessage> {
        let next = self.lanes.get_mut(topic).and_then(VecDeque::pop_front);
        if next.is_none() {
            self.lanes.remove(topic);
        }
        next
    }
}

/// How carrying a message ended.
enum Carried {
    Delivered,
    /// It came to nothing, now or ever.
    Failed(PlatformError),
    Stopped,
}

/// Ends when the platform cannot be reached.
async fn went_away(reachable: &mut watch::Receiver<bool>) {
    // Its sender lives as long as the connector.
    drop(reachable.wait_for(|is_reachable| !is_reachable).await);
}

impl<P: Platform> Connector<P> {
    pub(super) async fn deliver(&self) {
        let (lanes, arriving) = mpsc::channel(LANES_MAX);
        tokio::join!(self.feed(lanes), self.run_lanes(arriving));
        // A poll that the stop cut off may have claimed something.
        if tokio::time::timeout(LAST_RELEASE, self.release()).await.is_err() {
            tracing::debug!("nothing more could be given back; the next start does it");
        }
    }

    /// Claims messages until it is told to stop.
    async fn feed(&self, lanes: mpsc::Sender<String>) {
        // Before the first claim: what we held when we were killed must not wait for the end of its lease.
        let mut backoff = Backoff::new();
        while let Err(error) = self.release().await {
            tracing::warn!(%error, "cannot give back what was in hand; trying again");
            if self.pause(backoff.wait()).await.is_err() {
                return;
            }
        }
        let mut backoff = Backoff::new();
        let mut reachable = self.is_reachable.subscribe();
        let mut was_cut_off = false;
        while !self.stop.is_cancelled() {
            // What a poll claimed whose answer we did not wait for is in nobody's hand. The name that we hold leases under is
            // that of what we do have in hand as well, so this waits until that is delivered or given back.
            if was_cut_off && self.in_hand().leases.is_empty() && self.release().await.is_ok() {
                was_cut_off = false;
            }
            let asked = Instant::now();
            let was_there = *reachable.borrow();
            // A claim costs an attempt: a platform that is away for an hour must not use them all up, not even by a poll
            // that waited when it went.
            let claimed = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                () = went_away(&mut reachable) => {
                    was_cut_off |= was_there;
                    Ok(None)
                }
                claimed = self.claim() => claimed,
            };
            let wait = match claimed {
                Ok(Some(found)) => {
                    backoff = Backoff::new();
                    for topic in found {
                        if lanes.send(topic).await.is_err() {
                            return;
                        }
                    }
                    continue;
                }
                // The server waited for us; one that answers at once is not asked in a circle.
                Ok(None) if asked.elapsed() >= self.settings.poll_every => {
                    backoff = Backoff::new();
                    continue;
                }
                Ok(None) => self.settings.poll_every,
                Err(error) => {
                    let wait = backoff.wait();
                    tracing::warn!(%error, wait_ms = wait.as_millis(), "cannot ask for messages; trying again");
                    wait
                }
            };
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = self.wake.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Gives back every lease of an earlier life, so that its messages are due at once.
    async fn release(&self) -> Result<(), ClientError> {
        let Some(holder) = self.holder() else { return Ok(()) };
        let request = ReleaseRequest { source: self.platform.source().to_owned(), holder };
        match self.client.release(&request).await {
            Ok(answer) if answer.released > 0 => {
                tracing::info!(released = answer.released, "messages of the last start are delivered now");
                Ok(())
            }
            // A server that does not know how lets the leases run out.
            Ok(_) | Err(ClientError::Protocol { .. } | ClientError::Api { status: 400..=499, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The name that we poll under; none when it cannot be noted, since nobody would know it again.
    fn holder(&self) -> Option<String> {
        let new = || Ulid::from_parts(0, rand::random()).to_string();
        self.notebook.write(|pages| pages.holder.get_or_insert_with(new).clone()).ok()
    }

    /// Claims what may be delivered now, and gives the topics that need a lane for it; `None` when there is nothing.
    async fn claim(&self) -> Result<Option<Vec<String>>, ClientError> {
        // Behind a message that cannot be delivered nothing else of its topic is claimed: each claim costs an attempt.
        let is_calm = {
            let mut troubled = self.troubled.lock().unwrap_or_else(PoisonError::into_inner);
            troubled.retain(|_, since| since.elapsed() < TROUBLE_LASTS);
            troubled.is_empty()
        };
        let request = PollRequest {
            source: self.platform.source().to_owned(),
            max: Some(if is_calm { BATCH } else { 1 }),
            lease_seconds: Some(LEASE_SECONDS),
            ordered: true,
            wait_seconds: Some(WAIT_SECONDS),
            holder: self.holder(),
            topic_key: None,
        };
        let messages = self.client.poll(&request).await?.messages;
        Ok((!messages.is_empty()).then(|| self.in_hand().take(messages)))
    }

    async fn run_lanes(&self, mut arriving: mpsc::Receiver<String>) {
        let mut running = FuturesUnordered::new();
        let mut is_open = true;
        while is_open || !running.is_empty() {
            tokio::select! {
                next = arriving.recv(), if is_open && running.len() < LANES_MAX => match next {
                    Some(topic) => running.push(self.run_lane(topic)),
                    None => is_open = false,
                },
                Some(()) = running.next(), if !running.is_empty() => self.wake.notify_one(),
            }
        }
    }

    async fn run_lane(&self, topic: String) {
        loop {
            let next = self.in_hand().next(&topic);
            let Some(message) = next else { return };
            match self.carry(&message).await {
                Carried::Delivered => self.acknowledge(&message).await,
                Carried::Failed(error) => {
                    self.note_refusal(&error);
                    let is_permanent = is_permanent(&error);
                    tracing::warn!(message = %message.message_id, %error, is_permanent, "not delivered");
                    if !is_permanent {
                        return self.close_lane(topic, &message, &error).await;
                    }
                    self.give_back(&message, &error).await;
                }
                Carried::Stopped => {
                    let error = PlatformError::Transient("the connector stopped".to_owned());
                    return self.close_lane(topic, &message, &error).await;
                }
            }
            self.troubled.lock().unwrap_or_else(PoisonError::into_inner).remove(&topic);
        }
    }

    /// Gives back a message that cannot be delivered now, and everything behind it.
    async fn close_lane(&self, topic: String, message: &PolledMessage, error: &PlatformError) {
        // Before the message is given back: when it comes again, it begins a lane of its own.
        let behind = self.in_hand().lanes.remove(&topic).unwrap_or_default();
        self.troubled.lock().unwrap_or_else(PoisonError::into_inner).insert(topic, Instant::now());
        self.give_back(message, error).await;
        for behind in behind {
            let error = PlatformError::Transient("waits for the message before it".to_owned());
            self.give_back(&behind, &error).await;
        }
    }

    /// Sends what is not sent yet of a message, and notes each part before the next.
    async fn carry(&self, message: &PolledMessage) -> Carried {
        if self.notebook.read(|pages| pages.is_delivered(&message.message_id)) {
            return Carried::Delivered;
        }
        let Some(place) = self.platform.place_of(place_key(&message.topic_key)) else {
            let reason = format!("{:?} is no chat of {}", message.topic_key, self.platform.source());
            return Carried::Failed(PlatformError::Permanent(reason));
        };
        let rules = self.platform.rules();
        let (buttons, line) = fitting_buttons(buttons_of(message.payload.as_ref()), rules);
        let with_line =
            |text: &str| line.as_ref().map_or(text.to_owned(), |line| format!("{text}\n\n{line}"));
        let parts = match Asked::of(message.payload.as_ref()) {
            Some(asked) => compose_question(&asked, &with_line(&asked.question), rules),
            None => compose(&with_line(&message.text), rules),
        };
        let sent = self.notebook.read(|pages| pages.parts_sent(&message.message_id));
        for (index, part) in parts.iter().enumerate().skip(sent) {
            let is_last = index + 1 == parts.len();
            let once = format!("{}-{index}", message.message_id);
            let buttons = if is_last { buttons.as_slice() } else { &[] };
            let reference = match self.send_part(&place, part, buttons, &once).await {
                Ok(Ok(reference)) => reference,
                Ok(Err(error)) => return Carried::Failed(error),
                Err(Stopped) => return Carried::Stopped,
            };
            let prompt = (!buttons.is_empty()).then(|| Prompt {
                topic_key: message.topic_key.clone(),
                place: place.clone(),
                message: reference,
                words: first_words(&message.text),
                buttons: buttons.to_vec(),
                delivered_at: self.clock.now(),
                number: 0,
            });
            self.notebook.note(|pages| {
                if is_last {
                    pages.record_delivered(&message.message_id);
                } else {
                    pages.record_parts(&message.message_id, index + 1);
                }
                if let Some(prompt) = prompt {
                    pages.open_prompt(prompt);
                }
            });
        }
        Carried::Delivered
    }

    /// One part, in the form and at the address that the platform takes.
    async fn send_part(
        &self,
        place: &ChatPlace,
        part: &ComposedPart,
        buttons: &[Button],
        once: &str,
    ) -> Result<Result<Option<String>, PlatformError>, Stopped> {
        let mut body = PartBody::Formatted(&part.formatted);
        let mut last = PlatformError::Transient("not sent".to_owned());
        for _ in 0..FORMS_MAX {
            let address = self.address(place);
            self.wait_for_turn(&address).await?;
            let outgoing = OutgoingPart {
                place: &address,
                body,
                plain: &part.plain,
                verbatim: part.verbatim.as_ref(),
                buttons,
                once,
            };
            match self.platform.send(&outgoing).await {
                Err(PlatformError::CannotFormat(reason)) if body != PartBody::Plain(&part.plain) => {
                    tracing::debug!(reason, "sent as plain text instead");
                    body = PartBody::Plain(&part.plain);
                    last = PlatformError::CannotFormat(reason);
                }
                Err(PlatformError::Moved { to }) => {
                    self.notebook.note(|pages| pages.move_chat(&address.chat, &to));
                    last = PlatformError::Moved { to };
                }
                sent => return Ok(sent),
            }
        }
        Ok(Err(last))
    }

    /// Waits until the platform wants to hear from us in this chat again.
    async fn wait_for_turn(&self, place: &ChatPlace) -> Result<(), Stopped> {
        if self.stop.is_cancelled() {
            return Err(Stopped);
        }
        let now = Instant::now();
        let at = {
            let mut pacer = self.pacer.lock().unwrap_or_else(PoisonError::into_inner);
            pacer.reserve(&place.chat, place.is_group, now)
        };
        if at > now { self.pause(at - now).await } else { Ok(()) }
    }

    /// An ack that gets lost costs nothing: the message is noted as delivered, and acknowledged when it comes again.
    async fn acknowledge(&self, message: &PolledMessage) {
        let mut backoff = Backoff::new();
        for _ in 0..ACK_TRIES {
            let lease_token = self.lease_of(message);
            match self.client.ack(&AckRequest { message_id: message.message_id.clone(), lease_token }).await {
                Ok(_) | Err(ClientError::Api { status: 400..=499, .. }) => break,
                Err(error) => {
                    tracing::warn!(%error, message = %message.message_id, "not acknowledged yet");
                    if self.pause(backoff.wait()).await.is_err() {
                        break;
                    }
                }
            }
        }
        self.let_go(message);
    }

    async fn give_back(&self, message: &PolledMessage, error: &PlatformError) {
        let request = NackRequest {
            message_id: message.message_id.clone(),
            lease_token: self.lease_of(message),
            error: Some(error.to_string()),
            retry_after_seconds: match error {
                PlatformError::RetryAfter { seconds } => Some(*seconds),
                PlatformError::Transient(_)
                | PlatformError::Permanent(_)
                | PlatformError::CannotFormat(_)
                | PlatformError::Moved { .. }
                | PlatformError::TooBig
                | PlatformError::Conflict(_)
                | PlatformError::Misconfigured(_) => None,
            },
            permanent: is_permanent(error),
        };
        // Before it is given back: it may come again at once.
        self.let_go(message);
        // A nack that gets lost is made up for by the end of the lease.
        if let Err(error) = self.client.nack(&request).await {
            tracing::warn!(%error, message = %message.message_id, "not given back; its lease will run out");
        }
    }

    fn lease_of(&self, message: &PolledMessage) -> LeaseToken {
        self.in_hand().leases.get(&message.message_id).unwrap_or(&message.lease_token).clone()
    }

    fn let_go(&self, message: &PolledMessage) {
        self.in_hand().leases.remove(&message.message_id);
    }

    fn in_hand(&self) -> MutexGuard<'_, InHand> {
        self.in_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether no retry can help. A wrong token can be mended, so nothing is given up for it.
fn is_permanent(error: &PlatformError) -> bool {
    match error {
        PlatformError::Permanent(_) | PlatformError::TooBig | PlatformError::CannotFormat(_) => true,
        PlatformError::Transient(_)
        | PlatformError::RetryAfter { .. }
        | PlatformError::Moved { .. }
        | PlatformError::Conflict(_)
        | PlatformError::Misconfigured(_) => false,
    }
}

fn first_words(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.chars().take(WORDS_CHARS_MAX).collect()
}
