//! A dispatcher: claims what waits for one source, in order, and hands each message to the socket that asked for it.

use super::asker::{Askers, WordNumber};
use super::frame::{OutboundMessage, outbound};
use super::hub::{Hub, HubParts};
use super::room::Rooms;
use crate::routes::outbox::Undelivered;
use cortex_runtime::wait_until;
use cortex_store::{ConnectorBinding, MessageCause, Nack, ReturnedLease, StoreError};
use cortex_types::limits::POLL_BATCH_MAX;
use cortex_types::{Delivery, LeaseToken, Millis, OutboxId, is_machine_channel};
use futures::future::join_all;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

/// Messages that were handed to one socket and are not settled yet. What does not fit goes to another one.
pub(super) const WINDOW: usize = 128;
/// Messages of one source that wait to be written, over all its sockets: these are in memory.
pub(super) const UNSENT_MAX: usize = 2 * WINDOW;
/// Places of the way to a socket: all that its source may have unsent, since a conversation is not torn apart where it goes
/// beyond a window, and some previews.
pub(super) const TO_SOCKET_MAX: usize = UNSENT_MAX + WINDOW;
/// Reports that are taken at once, so that their acks share a commit.
const REPORTS_AT_ONCE: usize = 1_024;
/// Longest sleep; the bell rings earlier.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// Pause after the store refused.
const AFTER_REFUSAL: Duration = Duration::from_millis(500);

/// A socket, as its dispatcher knows it.
pub(super) struct Member {
    pub(super) id: u64,
    pub(super) socket: mpsc::Sender<ToSocket>,
    /// Whether a message is delivered only once the connector says so.
    pub(super) wants_ack: bool,
    /// Tells the socket that it takes too little too late.
    pub(super) too_slow: CancellationToken,
}

/// What a socket is given to write.
pub(super) enum ToSocket {
    Message {
        id: OutboxId,
        frame: String,
        causation: Option<String>,
    },
    /// A piece of the answer to this event.
    Preview {
        causation: String,
        frame: String,
    },
}

/// What a dispatcher is told.
pub(super) enum Report {
    Joined(Member),
    /// An event with this id goes into the inbox from this socket.
    Asked {
        member: u64,
        id: WordNumber,
        conversation: WordNumber,
    },
    /// The frame was written to the connection.
    Written {
        member: u64,
        message: OutboxId,
    },
    /// The connector has it.
    Acked(OutboxId),
    /// The connector could not deliver what this socket holds.
    Nacked {
        member: u64,
        message: OutboxId,
        undelivered: Undelivered,
    },
    Left(u64),
}

struct Held {
    lease: LeaseToken,
    lease_expires_at: Millis,
    member: u64,
    wants_ack: bool,
    was_sent: bool,
}

pub(super) struct Dispatcher {
    parts: HubParts,
    binding: ConnectorBinding,
    hub: Hub,
    reports: mpsc::Receiver<Report>,
    bell: Arc<Notify>,
    members: Vec<Member>,
    joins: u64,
    held: HashMap<OutboxId, Held>,
    settling: Settling,
    /// The socket that asked, by the id of its event and by its conversation.
    asked: Askers,
    spoke: Askers,
    /// The socket that did not ack a message before its lease ended: another one gets it next.
    missed: Askers,
    /// Whether messages may wait because no socket had room for them.
    is_full: bool,
}

/// Why a dispatcher looks up.
enum Wake {
    Told(Report),
    Look,
    Over,
}

/// What reports come to, before it is written.
#[derive(Default)]
struct Settling {
    acked: Vec<(OutboxId, LeaseToken)>,
    nacked: Vec<Nack>,
    returned: Vec<ReturnedLease>,
    look: bool,
}

impl Settling {
    fn is_any(&self) -> bool {
        self.look || !self.acked.is_empty() || !self.nacked.is_empty() || !self.returned.is_empty()
    }
}

impl Dispatcher {
    pub(super) fn new(
        parts: HubParts,
        binding: ConnectorBinding,
        hub: Hub,
        reports: mpsc::Receiver<Report>,
        bell: Arc<Notify>,
    ) -> Self {
        let [asked, spoke, missed] = [(); 3].map(|()| Askers::of_source(&binding.source));
        Self {
            parts,
            binding,
            hub,
            reports,
            bell,
            members: Vec::new(),
            joins: 0,
            held: HashMap::new(),
            settling: Settling::default(),
            asked,
            spoke,
            missed,
            is_full: false,
        }
    }

    /// Works until the hub and all sockets have let go of it, or the server stops.
    pub(super) async fn run(mut self) {
        let mut look_at = self.parts.clock.now().after(LONGEST_SLEEP);
        loop {
            match self.wait(look_at).await {
                Wake::Over => break,
                Wake::Look => self.settling.look = true,
                Wake::Told(report) => self.take(report),
            }
            self.take_waiting();
            // What came meanwhile is settled before anybody sleeps.
            while self.settling.is_any() {
                let look = self.settling.look || self.was_full();
                self.settle().await;
                if look && !self.members.is_empty() {
                    look_at = self.hand_out().await;
                }
            }
            if self.members.is_empty() {
                self.hub.is_idle(self.binding.source.clone(), self.joins);
                look_at = self.parts.clock.now().after(LONGEST_SLEEP);
            }
        }
        self.give_everything_back().await;
    }

    fn take_waiting(&mut self) {
        for _ in 0..REPORTS_AT_ONCE {
            let Ok(report) = self.reports.try_recv() else { break };
            self.take(report);
        }
    }

    async fn wait(&mut self, look_at: Millis) -> Wake {
        tokio::select! {
            biased;
            () = self.parts.stop.cancelled() => Wake::Over,
            report = self.reports.recv() => report.map_or(Wake::Over, Wake::Told),
            () = self.bell.notified() => Wake::Look,
            () = wait_until(&*self.parts.clock, look_at) => Wake::Look,
        }
    }

    /// Whether settled messages make room that was missing.
    fn was_full(&self) -> bool {
        self.is_full && !self.settling.acked.is_empty()
    }

    fn take(&mut self, report: Report) {
        match report {
            Report::Joined(member) => {
                self.members.push(member);
                self.joins += 1;
                self.settling.look = true;
            }
            Report::Asked { member, id, conversation } => {
                self.asked.put(id, member);
                self.spoke.put(conversation, member);
            }
            Report::Written { member, message } => match self.held.get_mut(&message) {
                Some(held) if held.member == member && held.wants_ack => {
                    held.was_sent = true;
                    self.settling.look |= self.is_full;
                }
                Some(held) if held.member == member => {
                    let lease = held.lease.clone();
                    self.held.remove(&message);
                    self.settling.acked.push((message, lease));
                }
                Some(_) | None => {}
            },
            Report::Acked(message) => {
                if let Some(held) = self.held.remove(&message) {
                    self.settling.acked.push((message, held.lease));
                }
            }
            Report::Nacked { member, message, undelivered } => {
                if self.held.get(&message).is_some_and(|held| held.member == member)
                    && let Some(held) = self.held.remove(&message)
                {
                    self.settling.nacked.push(undelivered.nack(message, held.lease));
                    // It is due again at a time of its own.
                    self.settling.look = true;
                }
            }
            Report::Left(member) => self.let_go(member),
        }
    }

    fn let_go(&mut self, member: u64) {
        self.members.retain(|other| other.id != member);
        let gone = self.held.extract_if(|_, held| held.member == member);
        self.settling.returned.extend(gone.map(|(id, held)| ReturnedLease {
            id,
            lease: held.lease,
            was_sent: held.was_sent,
        }));
        self.settling.look = true;
    }

    /// Acks share one commit; what cannot be written now comes back when its lease ends.
    async fn settle(&mut self) {
        let settling = std::mem::take(&mut self.settling);
        let outbox = &self.parts.outbox;
        let acks = join_all(settling.acked.into_iter().map(|(id, lease)| outbox.ack(id, lease)));
        let nacks = join_all(settling.nacked.into_iter().map(|nack| outbox.nack(nack)));
        let returned = async {
            if settling.returned.is_empty() {
                return Ok(0);
            }
            self.parts.store.outbox().give_back(settling.returned, self.parts.clock.now()).await
        };
        let (acked, nacked, returned) = futures::join!(acks, nacks, returned);
        let nacked = nacked.into_iter().filter_map(Result::err);
        let failed = acked.into_iter().filter_map(Result::err).chain(nacked).chain(returned.err()).next();
        if let Some(error) = failed {
            tracing::warn!(%error, "What a connector settled could not be written; it may see a message again");
        }
    }

    /// Claims what fits, and says when something may become claimable by time alone.
    async fn hand_out(&mut self) -> Millis {
        let now = self.parts.clock.now();
        match self.claim().await {
            Ok(look_at) => look_at,
            Err(StoreError::Closed | StoreError::FileDamaged(_)) => now.after(LONGEST_SLEEP),
            Err(error) => {
                tracing::warn!(%error, "Messages for a connector cannot be claimed now; trying again");
                now.after(AFTER_REFUSAL)
            }
        }
    }

    async fn claim(&mut self) -> Result<Millis, StoreError> {
        loop {
            let now = self.parts.clock.now();
            // A moment and no length of time: much of it may pass before the answer is used.
            let at_the_latest = now.after(LONGEST_SLEEP);
            // What nobody acked in time may be claimed again, by us like by anybody.
            for (id, held) in self.held.extract_if(|_, held| held.lease_expires_at <= now) {
                self.missed.put(WordNumber::of(id.as_str()), held.member);
            }
            let mut rooms = self.rooms();
            let unsent = self.held.values().filter(|held| !held.was_sent).count();
            let free = rooms.free().min(UNSENT_MAX.saturating_sub(unsent)).min(POLL_BATCH_MAX as usize);
            self.is_full = free == 0;
            let source = self.binding.source.clone();
            if self.is_full {
                // A write or an ack makes room, or the end of a lease.
                let next = self.held.values().map(|held| held.lease_expires_at).min();
                return Ok(next.map_or(at_the_latest, |at| at.min(at_the_latest)));
            }
            let max = u32::try_from(free).unwrap_or(POLL_BATCH_MAX);
            let claimed = self.parts.outbox.claim_to_push(source.clone(), max).await?;
            if claimed.is_empty() {
                // What is due already and was not handed out waits for an ack, which rings.
                let due = self.parts.store.outbox().next_due(source, now).await?;
                return Ok(due.map_or(at_the_latest, |due| due.min(at_the_latest)));
            }
            // Who asked for these said so before he handed his event in; that may still wait here.
            self.take_waiting();
            self.send_all(claimed, &mut rooms).await?;
        }
    }

    fn rooms(&self) -> Rooms {
        let mut rooms = Rooms::new(self.members.iter().map(|member| member.id), WINDOW);
        for held in self.held.values() {
            rooms.count(held.member);
        }
        rooms
    }

    async fn send_all(&mut self, claimed: Vec<Delivery>, rooms: &mut Rooms) -> Result<(), StoreError> {
        let ids = claimed.iter().map(|delivery| delivery.id.clone()).collect();
        let causes = match self.parts.store.outbox().causes(ids).await {
            Ok(causes) => causes,
            // Better without its cause than not at all.
            Err(error) => {
                tracing::warn!(%error, "The causes of messages cannot be read");
                vec![None; claimed.len()]
            }
        };
        let mut returned = Vec::new();
        for (delivery, cause) in claimed.into_iter().zip(causes) {
            if let Some(unsent) = self.send(delivery, cause, rooms) {
                returned.push(unsent);
            }
        }
        if returned.is_empty() {
            return Ok(());
        }
        self.parts.store.outbox().give_back(returned, self.parts.clock.now()).await.map(drop)
    }

    /// Hands a message to a socket; gives it back when none is left.
    fn send(
        &mut self,
        delivery: Delivery,
        cause: Option<MessageCause>,
        rooms: &mut Rooms,
    ) -> Option<ReturnedLease> {
        let asked = cause.as_ref().and_then(asked_by);
        loop {
            let Some((member, is_diverted)) = self.member_for(&delivery, asked, rooms) else {
                return Some(ReturnedLease { id: delivery.id, lease: delivery.lease, was_sent: false });
            };
            let message = ToSocket::Message {
                frame: self.frame(&delivery, cause.as_ref(), asked),
                id: delivery.id.clone(),
                causation: asked.map(str::to_owned),
            };
            let (id, wants_ack, too_slow) = (member.id, member.wants_ack, member.too_slow.clone());
            if member.socket.try_send(message).is_ok() {
                let held = Held {
                    lease: delivery.lease,
                    lease_expires_at: delivery.lease_expires_at,
                    member: id,
                    wants_ack,
                    was_sent: false,
                };
                rooms.take(id, delivery.topic.topic_key, is_diverted);
                self.held.insert(delivery.id, held);
                return None;
            }
            // It is about to leave, or has to: what it holds comes back with its last report.
            too_slow.cancel();
            self.members.retain(|other| other.id != id);
        }
    }

    fn frame(&self, delivery: &Delivery, cause: Option<&MessageCause>, asked: Option<&str>) -> String {
        let message = OutboundMessage {
            id: &delivery.id,
            conversation: &delivery.topic.topic_key,
            text: &delivery.text,
            payload_json: delivery.payload_json.as_deref(),
            metadata_json: cause.and_then(|cause| cause.metadata_json.as_deref()),
            created_at: cause.map_or_else(|| self.parts.clock.now(), |cause| cause.created_at),
        };
        outbound(&self.binding.connector_id, &message, asked)
    }

    /// The socket that asked, else the one that spoke in this conversation, else the newest; one that has room and did not
    /// let this very message lie before. Also says whether it should have been another one.
    fn member_for(&self, delivery: &Delivery, asked: Option<&str>, rooms: &Rooms) -> Option<(&Member, bool)> {
        let conversation = delivery.topic.topic_key.as_str();
        let missed_by = self.missed.get(delivery.id.as_str());
        let find = |id: u64| self.members.iter().find(|member| member.id == id);
        let asked = asked.and_then(|id| self.asked.get(id)).and_then(find);
        let spoke = self.spoke.get(conversation).and_then(find);
        let may = |member: &&Member| missed_by != Some(member.id) && rooms.has(member.id, conversation);
        let follows = rooms.diverted(conversation).and_then(find).filter(may);
        let wanted = follows.or(asked.filter(may)).or(spoke.filter(may));
        let other = || self.members.iter().rev().find(may);
        // Where there is no other, it stays with the one.
        let member = wanted.or_else(other).or(asked).or(spoke).or_else(|| self.members.last())?;
        Some((member, asked.or(spoke).is_some_and(|first| first.id != member.id)))
    }

    async fn give_everything_back(mut self) {
        while let Ok(report) = self.reports.try_recv() {
            self.take(report);
        }
        self.settling.returned.extend(self.held.drain().map(|(id, held)| ReturnedLease {
            id,
            lease: held.lease,
            was_sent: held.was_sent,
        }));
        self.settle().await;
    }
}

/// The id of the connector's event that led to a message; what came from inside has none.
fn asked_by(cause: &MessageCause) -> Option<&str> {
    let channel = cause.channel.as_deref()?;
    if is_machine_channel(channel) { None } else { cause.external_message_id.as_deref() }
}
