//! One socket: reads frames, puts events into the inbox, writes what its dispatcher and the previews give it.

use super::answer::{Accepted, Answer, Spoken, code_of, settle};
use super::asker::WordNumber;
use super::dispatch::{Member, Report, TO_SOCKET_MAX, ToSocket, WINDOW};
use super::frame::{self, Frame, Inbound, read_frame};
use super::heard::{BadFrames, End, Paid, pay, take_frame};
use super::preview::preview;
use super::receipt::Receipts;
use super::{Admitted, Counted, Wants};
use crate::client_connection::ClientConnection;
use crate::speaker;
use crate::state::AppState;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use cortex_api::{CLOSE_GOING_AWAY, CLOSE_SESSION, CLOSE_TRY_LATER, FrameErrorCode};
use cortex_store::{ConnectorBinding, ConnectorKey, LocalConnector, StoreError};
use cortex_types::limits::BODY_BYTES_MAX;
use cortex_types::{EventId, KeyId, Millis, Speaker};
use futures::future::join_all;
use futures::{FutureExt, SinkExt};
use metrics::counter;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch as watched};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// Frames that are taken at once, so that their events share a commit; their order is kept.
const FRAMES_AT_ONCE: usize = 30;
/// Bytes of frames that are taken at once; one more frame may come on top.
const BYTES_AT_ONCE: usize = BODY_BYTES_MAX;
/// A write that takes longer means that nobody reads.
const WRITE_MAX: Duration = Duration::from_secs(10);
/// How often the other side is asked whether it is there, and how long it may stay silent.
const PING_EVERY: Duration = Duration::from_secs(30);
const SILENCE_MAX: Duration = Duration::from_secs(90);
/// How often a session in use is marked as such.
const TOUCH_EVERY: Duration = Duration::from_secs(3_600);
/// How long the other side may take to say goodbye.
const GOODBYE_MAX: Duration = Duration::from_secs(2);
/// Answers whose previews are over, as far back as one can still come.
const ENDED_MAX: usize = 64;
const PREVIEWED_MAX: usize = 256;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

pub(super) struct Socket {
    app: AppState,
    socket: WebSocket,
    id: u64,
    admitted: Admitted,
    wants_stream: bool,
    wants_ack: bool,
    /// The way to the dispatcher, once it is known whose socket this is.
    desk: Option<mpsc::Sender<Report>>,
    me: mpsc::Sender<ToSocket>,
    to_write: mpsc::Receiver<ToSocket>,
    keys: watched::Receiver<Arc<[ConnectorKey]>>,
    /// Those that came without a key, and whom of them the owner trusts.
    locals: watched::Receiver<Arc<BTreeMap<String, LocalConnector>>>,
    /// What the connector of this socket was trusted with when it joined.
    trusted_with: Option<String>,
    ended: VecDeque<String>,
    /// Events whose answers are passed on while they grow, as far back as one can come again.
    previewed: VecDeque<EventId>,
    /// None when nobody asked for them.
    receipts: Option<Receipts>,
    too_slow: CancellationToken,
    connection: Arc<ClientConnection>,
    /// Whether the beginning of a message waited for its end when this was last looked at.
    was_in_message: bool,
    bad: BadFrames,
    heard_at: Instant,
    touched_at: Millis,
}

enum Wake {
    Stop,
    TooSlow,
    KeysChanged,
    TrustChanged,
    Heard(Option<Result<Message, axum::Error>>),
    Write(ToSocket),
    Receipt(Utf8Bytes),
    Tick,
}

impl Socket {
    pub(super) fn new(app: AppState, socket: WebSocket, admitted: Admitted, wants: &Wants) -> Self {
        let (me, to_write) = mpsc::channel(TO_SOCKET_MAX);
        let keys = app.keys.watch_connectors();
        let locals = app.connector_door.local.watch();
        let (now, touched_at) = (Instant::now(), app.clock.now());
        wants.connection.begin_messages(&admitted.share);
        let receipts = wants.receipts.then(|| Receipts::begin(&app, &admitted.share));
        Self {
            app,
            socket,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            admitted,
            wants_stream: wants.stream,
            wants_ack: wants.ack,
            desk: None,
            me,
            to_write,
            keys,
            locals,
            trusted_with: None,
            ended: VecDeque::new(),
            previewed: VecDeque::new(),
            receipts,
            too_slow: CancellationToken::new(),
            connection: Arc::clone(&wants.connection),
            was_in_message: false,
            bad: BadFrames::default(),
            heard_at: now,
            touched_at,
        }
    }

    pub(super) async fn serve(mut self) {
        // Held until the socket is gone.
        let _places = self.admitted.places.take();
        let _counted = Counted::begin();
        // A key that was revoked since the session was checked rang before we listened.
        let end = match self.check_key() {
            Ok(()) => match self.join().await {
                Ok(()) => self.work().await,
                Err(end) => end,
            },
            Err(end) => end,
        };
        if !self.app.stopping.is_cancelled() {
            self.note_visit().await;
        }
        if let Some(desk) = self.desk.take() {
            // A dispatcher that is gone holds nothing of ours.
            drop(desk.send(Report::Left(self.id)).await);
        }
        if let End::Close { code, reason } = end {
            let close = Message::Close(Some(CloseFrame { code, reason: reason.into() }));
            let goodbye = async {
                drop(self.socket.send(close).await);
                while let Some(Ok(_)) = self.socket.recv().await {}
            };
            drop(timeout(GOODBYE_MAX, goodbye).await);
        }
    }

    async fn work(&mut self) -> End {
        let mut tick = tokio::time::interval(PING_EVERY);
        tick.reset();
        loop {
            let (stopping, too_slow) = (self.app.stopping.clone(), self.too_slow.clone());
            let wake = tokio::select! {
                biased;
                () = stopping.cancelled() => Wake::Stop,
                () = too_slow.cancelled() => Wake::TooSlow,
                Ok(()) = self.keys.changed() => Wake::KeysChanged,
                Ok(()) = self.locals.changed() => Wake::TrustChanged,
                Some(message) = self.to_write.recv() => Wake::Write(message),
                Some(receipt) = Receipts::next(&mut self.receipts) => Wake::Receipt(receipt),
                heard = self.socket.recv() => Wake::Heard(heard),
                _ = tick.tick() => Wake::Tick,
            };
            let done = match wake {
                Wake::Stop => Err(End::Close { code: CLOSE_GOING_AWAY, reason: "the server stops" }),
                Wake::TooSlow => Err(End::TOO_SLOW),
                Wake::KeysChanged => self.check_key(),
                Wake::TrustChanged => self.check_trust(),
                Wake::Write(message) => self.write_waiting(message).await,
                Wake::Receipt(receipt) => self.write(vec![Message::Text(receipt)]).await,
                Wake::Heard(heard) => self.hear(heard).await,
                Wake::Tick => self.keep_alive().await,
            };
            if let Err(end) = done {
                return end;
            }
        }
    }

    fn check_key(&mut self) -> Result<(), End> {
        let is_keyless = self.is_keyless();
        let open = self.keys.borrow_and_update();
        let is_open = |id: &KeyId| open.iter().any(|key| key.id == *id);
        let close = |reason| Err(End::Close { code: CLOSE_SESSION, reason });
        if self.admitted.session.opener.key().is_some_and(|id| !is_open(id)) {
            return close("the key of this session was revoked");
        }
        let is_guarded = |claim: &ConnectorBinding| open.iter().any(|key| key.source == claim.source);
        if is_keyless && self.admitted.session.binding.as_ref().is_some_and(is_guarded) {
            return close("the source of this connector has a key of its own now; open a session with it");
        }
        Ok(())
    }

    /// A connector that the owner trusts now, or no longer does, is another speaker: it comes again as that.
    fn check_trust(&mut self) -> Result<(), End> {
        let is_keyless = self.is_keyless();
        let Some(claim) = &self.admitted.session.binding else { return Ok(()) };
        let locals = self.locals.borrow_and_update();
        let local = locals.get(&claim.connector_id);
        let trusted = local.and_then(|local| local.trusted_source.as_ref());
        if is_keyless && (local.is_none() || trusted != self.trusted_with.as_ref()) {
            let reason = "the owner changed what this connector may do; open another session";
            return Err(End::Close { code: CLOSE_SESSION, reason });
        }
        Ok(())
    }

    fn is_keyless(&self) -> bool {
        self.admitted.session.opener.is_keyless()
    }

    /// Tells the owner when a connector without a key was here last.
    async fn note_visit(&mut self) {
        if let Some(claim) = self.admitted.session.binding.as_ref().filter(|_| self.is_keyless()) {
            // What cannot be noted now is noted with the next visit.
            drop(self.app.connector_door.local.see(&claim.connector_id).await);
        }
    }

    async fn keep_alive(&mut self) -> Result<(), End> {
        if self.heard_at.elapsed() > SILENCE_MAX {
            return Err(End::Gone);
        }
        // Two looks apart and nothing whole in between.
        if std::mem::replace(&mut self.was_in_message, self.connection.is_in_message()) && self.was_in_message
        {
            return Err(End::Close { code: CLOSE_TRY_LATER, reason: "a message took too long to come" });
        }
        let now = self.app.clock.now();
        // By the clock that sessions expire by, which goes on while the machine sleeps.
        if now.since(self.touched_at) > TOUCH_EVERY {
            self.touched_at = now;
            // A session that cannot be marked now is marked an hour later; it lasts a day.
            drop(self.app.store.connectors().use_session(self.admitted.sha256, now).await);
            self.note_visit().await;
        }
        self.write(vec![Message::Ping(axum::body::Bytes::new())]).await
    }

    /// Takes the frame and those that came with it.
    async fn hear(&mut self, heard: Option<Result<Message, axum::Error>>) -> Result<(), End> {
        self.heard_at = Instant::now();
        let mut frames = Vec::new();
        let mut end = take_frame(&self.connection, heard, &mut frames).err();
        let mut taken = 1;
        let is_room =
            |frames: &[Utf8Bytes]| frames.iter().map(|frame| frame.len()).sum::<usize>() < BYTES_AT_ONCE;
        while end.is_none() && taken < FRAMES_AT_ONCE && is_room(&frames) {
            let Some(heard) = self.socket.recv().now_or_never() else { break };
            end = take_frame(&self.connection, heard, &mut frames).err();
            taken += 1;
        }
        let in_hand = self.admitted.share.frames_in_hand(taken).await;
        let paid = pay(&self.admitted.share, taken).await;
        let answers = self.answer(&frames, paid).await?;
        drop(in_hand);
        // A control frame may come in the middle of a message, which is as old as before.
        self.was_in_message &= frames.is_empty();
        self.connection.settle();
        self.write(answers).await?;
        end.map_or(Ok(()), Err)
    }

    /// What each frame is answered with at once; replies of turns come from the dispatcher.
    async fn answer(&mut self, frames: &[Utf8Bytes], paid: Paid) -> Result<Vec<Message>, End> {
        let now = self.app.clock.now();
        let mut answers: Vec<Answer> = Vec::with_capacity(frames.len());
        for (place, text) in frames.iter().enumerate() {
            let frame = read_frame(text, now);
            self.bad.count(frame.is_err())?;
            let answer = match frame {
                Ok(Frame::Ping) => Answer::Say(vec![Utf8Bytes::from_static("pong")]),
                Ok(Frame::Unknown) => {
                    counter!("cortex_connector_unknown_type_total").increment(1);
                    Answer::Nothing
                }
                Ok(Frame::Ack(message)) => {
                    self.tell(Report::Acked(message)).await?;
                    Answer::Nothing
                }
                Ok(Frame::Nack(message, undelivered)) => {
                    self.tell(Report::Nacked { member: self.id, message, undelivered }).await?;
                    Answer::Nothing
                }
                Ok(Frame::Inbound(inbound)) => match paid.wait_of(place) {
                    None => self.admit(inbound).await?,
                    Some(wait) => Answer::Refuse(inbound.too_often(wait)),
                },
                Err(error) => Answer::Refuse(error),
            };
            answers.push(answer);
        }
        let app = Arc::clone(&self.app);
        // In order of arrival: the inbox keeps the order in which they are offered.
        let settled = join_all(answers.into_iter().map(|answer| settle(&app, answer))).await;
        let mut said = Vec::new();
        for (frames, accepted) in settled {
            if let Some(accepted) = accepted {
                said.extend(self.follow(accepted));
            }
            said.extend(frames.into_iter().map(Message::Text));
        }
        while self.previewed.len() > PREVIEWED_MAX {
            self.previewed.pop_front();
        }
        Ok(said)
    }

    /// Watches an event that was accepted, as far as this socket wants to know of it; gives its first receipt.
    fn follow(&mut self, accepted: Accepted) -> Option<Message> {
        let Accepted { event, spoken, is_duplicate, is_open } = accepted;
        if is_open && self.wants_stream && !self.previewed.contains(&event) {
            self.previewed.push_back(event.clone());
            preview(&self.app, &self.admitted.share, self.me.clone(), event.clone(), &spoken.inbound);
        }
        let receipts = self.receipts.as_ref()?;
        let receipt = frame::accepted(&spoken.inbound, &event, is_duplicate, self.app.clock.now());
        receipts.follow(event, &spoken.inbound.claim.connector_id);
        Some(Message::Text(receipt.into()))
    }

    /// Whether the event may come through this socket; binds it with the first one.
    async fn admit(&mut self, inbound: Box<Inbound>) -> Result<Answer, End> {
        let refuse = |inbound: Box<Inbound>, code, why| Ok(Answer::Refuse(inbound.refused(code, why)));
        let speaker = match speaker::of_socket(&self.app, &self.admitted.caller, &inbound.claim) {
            Ok(speaker) => speaker,
            Err(why) => return refuse(inbound, FrameErrorCode::Forbidden, why),
        };
        if self.admitted.session.binding.is_none() {
            match self.bind(&speaker, inbound.claim.clone()).await {
                Ok(Ok(())) => self.join().await?,
                Ok(Err(why)) => return refuse(inbound, FrameErrorCode::Forbidden, why),
                Err(error) => return refuse(inbound, code_of(&error), error.to_string()),
            }
        }
        // Another socket of this session may have bound it to somebody else.
        if let Some(binding) = &self.admitted.session.binding
            && *binding != inbound.claim
        {
            let message = format!(
                "this session belongs to connector {} of source {}; open another one",
                binding.connector_id, binding.source
            );
            return refuse(inbound, FrameErrorCode::Forbidden, message);
        }
        let may_say = self.app.runtime.channels().settings();
        // Whoever wants receipts is told about the event itself, which is in the database.
        if self.receipts.is_none()
            && may_say.may_say(speaker.channel(), speaker.source())
            && let Some(recorded) = self.app.connector_door.recent.find(speaker.source(), &inbound.event)
        {
            counter!("cortex_events_duplicate_total").increment(1);
            return Ok(Answer::Say(recorded.frames.clone()));
        }
        self.tell(Report::Asked {
            member: self.id,
            id: WordNumber::of(&inbound.event.external_message_id),
            conversation: WordNumber::of(&inbound.event.topic_key),
        })
        .await?;
        Ok(Answer::Accept(Box::new(Spoken { speaker, inbound: *inbound })))
    }

    /// Binds the session; an error in words says why it may not be bound.
    async fn bind(
        &mut self,
        speaker: &Speaker,
        claim: ConnectorBinding,
    ) -> Result<Result<(), String>, StoreError> {
        if self.is_keyless() {
            self.app.connector_door.local.hear(&claim.connector_id, &claim.source).await?;
        }
        // Before any event of it is kept, so that all of them are on one channel.
        if let Err(refusal) = self.app.runtime.channels().learn_source(speaker).await? {
            return Ok(Err(refusal.to_string()));
        }
        let (sha256, now) = (self.admitted.sha256, self.app.clock.now());
        let bound = self.app.store.connectors().bind_session(sha256, claim, now).await?;
        let is_open = bound.is_some();
        self.admitted.session.binding = bound;
        Ok(if is_open { Ok(()) } else { Err("this session is over; open another one".to_owned()) })
    }

    /// Meets the dispatcher, once it is known whose socket this is.
    async fn join(&mut self) -> Result<(), End> {
        let Some(claim) = self.admitted.session.binding.clone() else { return Ok(()) };
        // A session may be bound to a source that has become another's since: then it hears nothing.
        let Ok(speaker) = speaker::of_socket(&self.app, &self.admitted.caller, &claim) else { return Ok(()) };
        self.trusted_with = self.app.connector_door.local.trusted_source(&claim.connector_id);
        if self.is_keyless() {
            drop(self.app.connector_door.local.come(&claim.connector_id, &claim.source).await);
        }
        let source = speaker.source().to_owned();
        let binding = ConnectorBinding { connector_id: claim.connector_id, source };
        let member = Member {
            id: self.id,
            socket: self.me.clone(),
            wants_ack: self.wants_ack,
            too_slow: self.too_slow.clone(),
        };
        let desk = self.app.connector_door.hub.join(binding, member).await;
        self.desk = Some(desk.ok_or(End::Close { code: CLOSE_GOING_AWAY, reason: "the server stops" })?);
        Ok(())
    }

    async fn tell(&mut self, report: Report) -> Result<(), End> {
        let Some(desk) = &self.desk else { return Ok(()) };
        let gone = |_| End::Close { code: CLOSE_GOING_AWAY, reason: "the server stops" };
        desk.send(report).await.map_err(gone)
    }

    /// Writes the message and those that wait behind it, with one flush.
    async fn write_waiting(&mut self, first: ToSocket) -> Result<(), End> {
        let mut frames = Vec::new();
        let mut written = Vec::new();
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                ToSocket::Message { id, frame, causation } => {
                    frames.push(Message::Text(frame.into()));
                    written.push(id);
                    self.ended.extend(causation);
                }
                ToSocket::Preview { causation, .. } if self.ended.contains(&causation) => {}
                ToSocket::Preview { frame, .. } => frames.push(Message::Text(frame.into())),
            }
            next = if frames.len() < WINDOW { self.to_write.try_recv().ok() } else { None };
        }
        while self.ended.len() > ENDED_MAX {
            self.ended.pop_front();
        }
        self.write(frames).await?;
        for message in written {
            self.tell(Report::Written { member: self.id, message }).await?;
        }
        Ok(())
    }

    async fn write(&mut self, frames: Vec<Message>) -> Result<(), End> {
        if frames.is_empty() {
            return Ok(());
        }
        let write = async {
            for frame in frames {
                self.socket.feed(frame).await?;
            }
            self.socket.flush().await
        };
        match timeout(WRITE_MAX, write).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(End::Gone),
            Err(_) => {
                counter!("cortex_connector_slow_readers_total").increment(1);
                Err(End::TOO_SLOW)
            }
        }
    }
}
