//! One store and the models of it, driven together; the first difference ends the sequence.

use super::approval_model::ApprovalModel;
use super::inbox_model::{InboxModel, restart_notice};
use super::operation::{Interrupted, Operation, SOURCES, Sequence};
use super::outbox_model::OutboxModel;
use super::promise::Promises;
use super::schedule_model::ScheduleModel;
use cortex_store::{OutboxMessage, PageRequest, StoreError};
use cortex_testkit::{TempStore, topic};
use cortex_types::{
    AcceptedEvent, Approval, ChannelMode, ChannelSetting, ChannelSettings, Event, InboxStatus, Millis,
    NewEvent, OutboxStatus, TopicRef,
};
use rusqlite::{Connection, OptionalExtension};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

const RESTARTS_MAX: u32 = 2;
const HORIZON: Duration = Duration::from_secs(3_600);
/// Long after everything is due.
const FOR_EVER: i64 = 1_000_000_000;
/// A store that has lived through this many sequences is replaced, since every crash copies it.
const SEQUENCES_A_STORE: usize = 25;

const ALL_LIVE: [ChannelMode; SOURCES] = [ChannelMode::Live; SOURCES];

/// What a source begins with whose channel has another name.
const CONNECTOR: &str = "urn:connector:";

/// The next event of a topic as it was once looked up: by SQL of its own, which knew no learned channels.
const OLD_RELEASE: &str = "UPDATE topics SET head_seq = NULL, head_priority = NULL WHERE in_flight IS NULL
    AND coalesce((SELECT mode FROM channel_modes WHERE channel = topics.source),
      (SELECT mode FROM channel_modes WHERE channel = ''), '') = 'off'";

/// A row once refused what no integer of the database holds; here it refuses the clamped count too.
const UNCLAMPED_COUNT: &str = "CREATE INDEX IF NOT EXISTS unclamped
    ON usage(CASE WHEN input_tokens >= 1000000000000 THEN json('{' || input_tokens) END)";

/// The channel that a source is.
pub(super) fn channel_of(source: &str) -> &str {
    source.strip_prefix(CONNECTOR).unwrap_or(source)
}

/// `Err` names the promise that was broken.
pub(super) type Checked<T = ()> = Result<T, String>;

/// A fault that is planted to be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seeded {
    Nothing,
    /// The write follows the answer, and a kill in between loses it.
    AckBeforeCommit,
    /// A question that was answered is open again.
    DecisionForgotten,
    /// The records of slots are gone, and so is how far they went.
    SlotForgotten,
    /// The next event of a topic is looked up without the channel that its source is.
    OldRelease,
    /// A count is written as the model gave it, which no row can hold.
    UnclampedCount,
}

/// What the models say; a kill with an unknown outcome has two of them.
#[derive(Clone, Default)]
pub(super) struct Models {
    pub(super) inbox: InboxModel,
    pub(super) outbox: OutboxModel,
    pub(super) approvals: ApprovalModel,
    pub(super) schedules: ScheduleModel,
    /// Whether the channel of the source is known that has another name than it.
    is_channel_known: bool,
}

impl Models {
    /// What the modes and the names mean.
    fn put_in_force(&mut self, topics: &[TopicRef], modes: [ChannelMode; SOURCES]) {
        let mut held = BTreeMap::new();
        for (topic, mode) in topics.iter().zip(modes) {
            let channel = channel_of(&topic.source);
            let is_listed = channel == topic.source || self.is_channel_known;
            let of_source = if is_listed { mode } else { ChannelMode::Off };
            held.extend([(channel.to_owned(), mode), (topic.source.clone(), of_source)]);
        }
        held.retain(|_, mode| *mode != ChannelMode::Live);
        let off = held.iter().filter(|(_, mode)| **mode == ChannelMode::Off).map(|(name, _)| name.clone());
        self.inbox.off = off.collect();
        self.outbox.held = held;
    }

    /// D23: whatever accepts an event learns the channel that it names.
    fn learn_of(&mut self, event: &NewEvent, topics: &[TopicRef], modes: [ChannelMode; SOURCES]) {
        if event.channel.is_some() && !std::mem::replace(&mut self.is_channel_known, true) {
            self.put_in_force(topics, modes);
            self.inbox.look_at_all_again();
        }
    }
}

pub(super) struct World {
    pub(super) store: TempStore,
    pub(super) models: Models,
    pub(super) promises: Promises,
    pub(super) now: Millis,
    pub(super) topics: Vec<TopicRef>,
    modes: [ChannelMode; SOURCES],
    pub(super) seeded: Seeded,
    /// Answered and not yet written; only with the seeded fault.
    pub(super) unwritten: Option<NewEvent>,
    /// The events as the last check saw them, newest first.
    pub(super) seen: Vec<Event>,
    sequences: usize,
    pub(super) steps: u64,
}

impl World {
    pub(super) fn create(seeded: Seeded) -> Self {
        Self {
            store: TempStore::create(),
            models: Models::default(),
            promises: Promises::default(),
            now: Millis(1_000_000_000_000),
            topics: Vec::new(),
            modes: ALL_LIVE,
            seeded,
            unwritten: None,
            seen: Vec::new(),
            sequences: 0,
            steps: 0,
        }
    }

    /// Runs one sequence in topics of its own, then lets everything come to its end.
    pub(super) async fn run(&mut self, sequence: &Sequence) -> Checked {
        if self.sequences > 0 && self.sequences.is_multiple_of(SEQUENCES_A_STORE) {
            self.store = TempStore::create();
        }
        self.sequences += 1;
        let number = self.sequences;
        let sources: [String; SOURCES] = [
            format!("{CONNECTOR}telegram {number}"),
            format!("slack {number}"),
            format!("local:x {number}"),
            format!("local:y {number}"),
        ];
        self.topics = ["chat", "group"]
            .iter()
            .flat_map(|key| sources.iter().map(move |source| topic(source, key)))
            .collect();
        (self.models, self.promises, self.unwritten) = (Models::default(), Promises::default(), None);
        self.seen.clear();
        self.plant();
        self.learn_channel(true).await?;
        self.set_modes(ALL_LIVE).await?;
        self.send_before(sequence.replies_before).await?;
        for operation in &sequence.operations {
            self.steps += 1;
            let step = self.step(operation.clone()).await;
            step.map_err(|violation| format!("{violation}, after {operation:?}"))?;
        }
        self.come_to_an_end().await.map_err(|violation| format!("{violation}, at the end"))
    }

    async fn step(&mut self, operation: Operation) -> Checked {
        if !matches!(operation, Operation::Crash) {
            self.write_late().await?;
        }
        match operation {
            Operation::Inbox(operation) => self.inbox_step(operation).await?,
            Operation::Outbox(operation) => {
                self.outbox_step(operation).await?;
                return self.check_outbox().await;
            }
            Operation::Approval(operation) => {
                self.approval_step(operation).await?;
                self.check_grants().await?;
            }
            Operation::Schedule(operation) => self.schedule_step(operation).await?,
            Operation::SetModes { modes } => self.set_modes(modes).await?,
            Operation::LearnChannel { is_known } => self.learn_channel(is_known).await?,
            Operation::AdvanceClock { by_ms } => {
                self.now = Millis(self.now.0 + by_ms);
                return Ok(());
            }
            Operation::AdvanceToNext { offset_ms } => {
                let moments = self.models.inbox.due_times().chain(self.models.outbox.due_times());
                let moments = moments.chain(self.models.approvals.open_times());
                if let Some(next) = moments.filter(|moment| *moment > self.now).min() {
                    self.now = Millis(next.0 + offset_ms);
                }
                return Ok(());
            }
            Operation::Crash => {
                self.store.crash();
                self.unwritten = None;
                self.start().await?;
            }
            Operation::CrashDuring(interrupted) => {
                self.crash_during(interrupted).await?;
                self.start().await?;
            }
            Operation::Restart => {
                self.park_all().await?;
                self.store.restart();
                self.start().await?;
            }
        }
        if self.unwritten.is_none() { self.check().await } else { Ok(()) }
    }

    /// Modes that hold for all channels; what is not listed is off.
    async fn set_modes(&mut self, modes: [ChannelMode; SOURCES]) -> Checked {
        let is_new = std::mem::replace(&mut self.modes, modes) != modes;
        let mut settings = ChannelSettings { default_mode: ChannelMode::Off, ..ChannelSettings::default() };
        for (topic, mode) in self.topics.iter().zip(modes) {
            let channel = channel_of(&topic.source).to_owned();
            settings.channels.insert(channel, ChannelSetting { mode, topic: None });
        }
        self.store.channels().set_modes(&settings, self.now).await.map_err(told)?;
        self.models.put_in_force(&self.topics, self.modes);
        self.models.outbox.suppress();
        if is_new {
            self.models.inbox.look_at_all_again();
        }
        Ok(())
    }

    /// The channel of a source that has another name; while nobody knows it, the source is listed nowhere.
    async fn learn_channel(&mut self, is_known: bool) -> Checked {
        if std::mem::replace(&mut self.models.is_channel_known, is_known) == is_known {
            return Ok(());
        }
        let source = self.topics[0].source.clone();
        let channel = channel_of(&source).to_owned();
        if is_known {
            let learned = self.store.channels().learn_source(source, channel).await.map_err(told)?;
            learned.map_err(|refusal| refusal.to_string())?;
        } else {
            self.store.channels().forget_source(source, self.now).await.map_err(told)?;
        }
        self.models.put_in_force(&self.topics, self.modes);
        if !is_known {
            self.models.outbox.suppress();
        }
        self.models.inbox.look_at_all_again();
        Ok(())
    }

    /// An event is accepted, as the models have it.
    pub(super) fn accepted_by(&self, models: &mut Models, event: &NewEvent) -> AcceptedEvent {
        models.learn_of(event, &self.topics, self.modes);
        models.inbox.accept(event)
    }

    /// A seeded fault that has to be there before a sequence begins.
    fn plant(&self) {
        if self.seeded == Seeded::UnclampedCount {
            let connection = Connection::open(self.store.path()).unwrap();
            connection.execute_batch(UNCLAMPED_COUNT).unwrap();
        }
    }

    /// The seeded fault of a head that is looked up by another rule.
    pub(super) fn release_as_before(&self) {
        if self.seeded == Seeded::OldRelease {
            let connection = Connection::open(self.store.path()).unwrap();
            connection.execute_batch(OLD_RELEASE).unwrap();
        }
    }

    pub(super) async fn write_late(&mut self) -> Checked {
        if let Some(late) = self.unwritten.take() {
            self.store.inbox().accept(late, self.now).await.map_err(told)?;
            self.check().await?;
        }
        Ok(())
    }

    /// A kill while the store works: what it does is there as a whole or not at all (I7).
    async fn crash_during(&mut self, interrupted: Interrupted) -> Checked {
        let mut after = self.models.clone();
        let image = match interrupted {
            Interrupted::Accept(accept) => self.killed_in_accept(&accept, &mut after).await,
            Interrupted::Claim(claim) => self.killed_in_claim(&claim, &mut after).await,
            Interrupted::Answer(answer) => self.killed_in_answer(&answer, &mut after).await,
            Interrupted::Suspend(suspend) => self.killed_in_suspend(&suspend, &mut after).await,
            Interrupted::Resolve(resolve) => self.killed_in_resolve(&resolve, &mut after).await,
            Interrupted::Decide(decide) => self.killed_in_decide(&decide, &mut after).await,
            Interrupted::Poll(poll) => self.killed_in_poll(&poll, &mut after).await,
        };
        self.store = TempStore::open_in(image).map_err(|error| format!("I14: {error}"))?;
        let (events, messages, approvals) =
            (self.events().await?, self.messages().await?, self.approvals().await?);
        let differs = after
            .inbox
            .differs_from(&events)
            .or_else(|| after.outbox.differs_from(&messages))
            .or_else(|| after.approvals.differs_from(&approvals))
            .or(self.schedules_differ(&after).await?);
        if differs.is_none() {
            self.models = after;
        }
        Ok(())
    }

    /// What every start does, and I14: the file is whole after each fault.
    async fn start(&mut self) -> Checked {
        self.check().await?;
        self.check_histories().await?;
        self.store.check_integrity().await.map_err(|error| format!("I14: {error}"))?;
        let connection = Connection::open(self.store.path()).unwrap();
        if connection.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap() {
            return Err("I14: a row refers to one that does not exist".to_owned());
        }
        let notice = |event: &Event| restart_notice(&event.topic, &event.id);
        let recovered = self.store.inbox().recover(RESTARTS_MAX, self.now, notice).await.map_err(told)?;
        let expected = self.models.inbox.recover(RESTARTS_MAX, &mut self.models.outbox, self.now);
        same("the start recovered", &recovered, &expected)?;
        self.store.inbox().clamp_future(HORIZON, self.now).await.map_err(told)?;
        self.models.inbox.clamp(HORIZON, self.now);
        self.store.outbox().clamp_future(HORIZON, self.now).await.map_err(told)?;
        self.models.outbox.clamp(HORIZON, self.now);
        self.promises.restarted(self.now.after(HORIZON));
        Ok(())
    }

    async fn events(&self) -> Checked<Vec<Event>> {
        let page = page_of(self.models.inbox.events.len());
        let found = self.store.inbox().list(None, page).await.map_err(told)?;
        Ok(found.rows.into_iter().filter(|row| self.is_ours(&row.topic)).collect())
    }

    async fn messages(&self) -> Checked<Vec<OutboxMessage>> {
        let page = page_of(self.models.outbox.messages.len());
        let found = self.store.outbox().list(None, None, page).await.map_err(told)?;
        Ok(found.rows.into_iter().filter(|row| self.is_ours(&row.topic)).collect())
    }

    async fn approvals(&self) -> Checked<Vec<Approval>> {
        let (mut found, mut page) = (Vec::new(), PageRequest::newest(u32::MAX));
        loop {
            let next = self.store.approvals().list(false, page).await.map_err(told)?;
            found.extend(next.rows.into_iter().filter(|row| self.is_ours(&row.topic)));
            if next.next_before.is_none() {
                return Ok(found);
            }
            page.before = next.next_before;
        }
    }

    fn is_ours(&self, topic: &TopicRef) -> bool {
        self.topics.iter().any(|ours| ours.source == topic.source)
    }

    /// After each step: first what was promised, then the models row by row.
    pub(super) async fn check(&mut self) -> Checked {
        self.seen = self.events().await?;
        self.promises.check(&self.seen)?;
        self.check_heads()?;
        self.check_watchdog().await?;
        let approvals = self.approvals().await?;
        self.promises.check_waiting(&self.seen, &approvals)?;
        let differs = self.models.inbox.differs_from(&self.seen);
        let differs = differs.or_else(|| self.models.approvals.differs_from(&approvals));
        match differs.or(self.schedules_differ(&self.models).await?) {
            Some(difference) => Err(difference),
            None => self.check_outbox().await,
        }
    }

    /// I5: nothing is pending while nothing holds its topic, read from the rows and not asked of the product; the modes are
    /// those of the model.
    fn check_heads(&self) -> Checked {
        let connection = Connection::open(self.store.path()).unwrap();
        let mut topics = connection
            .prepare("SELECT in_flight, head_seq FROM topics WHERE source = ?1 AND topic_key = ?2")
            .unwrap();
        for topic in &self.topics {
            let held: Option<(Option<i64>, Option<i64>)> = topics
                .query_row([&topic.source, &topic.topic_key], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
                .unwrap();
            let of_topic = || self.seen.iter().filter(|row| row.topic == *topic);
            let running = of_topic().find(|row| row.status == InboxStatus::Processing).map(|row| row.seq);
            let next = of_topic()
                .filter(|row| row.status == InboxStatus::Pending && self.models.inbox.may_run(&row.id))
                .min_by_key(|row| (row.priority, row.seq))
                .map(|row| row.seq)
                .filter(|_| running.is_none());
            if held.unwrap_or_default() != (running, next) {
                return Err(format!("I5: {topic:?} is held by {held:?} instead of {:?}", (running, next)));
            }
        }
        Ok(())
    }

    /// I5: the watchdog, which asks the product's own rule, finds nothing either.
    async fn check_watchdog(&self) -> Checked {
        let is_running = |row: &&Event| row.status == InboxStatus::Processing;
        let running = self.seen.iter().filter(is_running).map(|row| row.seq).collect();
        let stranded = self.store.watchdog().look(running).await.map_err(told)?;
        if stranded.is_empty() { Ok(()) } else { Err(format!("I5: {stranded:?} would wait for ever")) }
    }

    async fn check_outbox(&self) -> Checked {
        match self.models.outbox.differs_from(&self.messages().await?) {
            Some(difference) => Err(difference),
            None => Ok(()),
        }
    }

    /// I7: a done event has its lines in history, one that asked somebody has its question there, and no other has any.
    pub(super) async fn check_histories(&self) -> Checked {
        for topic in &self.topics {
            let found = self.store.turns().history(topic.clone(), 500).await.map_err(told)?;
            let found: Vec<(&str, &str)> =
                found.iter().map(|row| (row.role.as_str(), row.content.as_str())).collect();
            let expected = self.models.inbox.history.get(topic).map_or(&[][..], Vec::as_slice);
            let expected: Vec<(&str, &str)> =
                expected.iter().map(|(role, content)| (*role, content.as_str())).collect();
            same("I7: history", &found, &expected)?;
        }
        Ok(())
    }

    /// I4 and I9: when time goes on and nobody crashes, everything ends in bounded rounds.
    async fn come_to_an_end(&mut self) -> Checked {
        self.write_late().await?;
        self.learn_channel(true).await?;
        self.set_modes(ALL_LIVE).await?;
        self.park_all().await?;
        self.check().await?;
        let rounds = self.models.inbox.events.len() + 4 * self.models.outbox.messages.len() + 8;
        for _ in 0..rounds {
            self.now = Millis(self.now.0 + FOR_EVER);
            self.expire().await?;
            self.answer_what_is_ready().await?;
            self.deliver_what_is_due().await?;
            self.check().await?;
            if self.models.inbox.is_at_rest() && self.models.outbox.is_at_rest() {
                break;
            }
        }
        let stuck =
            self.seen.iter().find(|row| !matches!(row.status, InboxStatus::Done | InboxStatus::Failed));
        if let Some(stuck) = stuck {
            return Err(format!("I4: {stuck:?} never ended"));
        }
        let is_open = |status| matches!(status, OutboxStatus::Pending | OutboxStatus::Leased);
        if let Some(stuck) = self.messages().await?.iter().find(|row| is_open(row.status)) {
            return Err(format!("I9: {stuck:?} never ended"));
        }
        self.check_histories().await
    }
}

fn page_of(known: usize) -> PageRequest {
    /// More than one step can add.
    const MORE: u32 = 8;
    PageRequest::newest(u32::try_from(known).unwrap() + MORE)
}

pub(super) fn same<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Checked {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?} instead of {expected:?}")) }
}

pub(super) fn told(error: StoreError) -> String {
    format!("the store refused: {error}")
}
