//! One flipped bit anywhere in the files: refused at the open, reported, or harmless; never a wrong answer (F-X1).

use crate::populated::{Answers, LATER, Populated, poll, populate, sources};
use cortex_store::{OutboxMessage, Store, StoreConfig, StoreError, TracedEvent};
use cortex_testkit::{memory_folder, new_reply};
use cortex_types::{Delivery, Event, InboxStatus, Millis, OutboxStatus};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use tempfile::TempDir;

/// Flips per file.
const FLIPS: usize = 200;
/// Bytes of the log that hold its last few transactions.
const LOG_TAIL: usize = 160_000;

/// What became of one flip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// The store did not open: damaged, of another schema, or unusable.
    Refused,
    /// It opened, and says of a row or of the file that it is damaged.
    Reported,
    /// Every answer is right.
    Harmless,
    /// The last transaction of the log is gone as a whole, as after a power loss.
    TornTail,
}

/// The files of a store, and what it said when they were whole.
struct Original {
    rows: Populated,
    database: Vec<u8>,
    log: Vec<u8>,
    answers: Answers,
    /// The answers one transaction earlier.
    before: Answers,
}

impl Original {
    /// As a clean stop leaves them: all in the database.
    async fn stopped() -> Self {
        let (store, rows) = populate().await;
        let answers = rows.ask(&store).await;
        assert!(answers.cover_every_state());
        let folder = store.stop();
        Self { rows, database: read(&folder, "cortex.db"), log: Vec::new(), before: answers.clone(), answers }
    }

    /// As a kill leaves them: nearly all in the log.
    async fn killed() -> Self {
        let (store, mut rows) = populate().await;
        let mut before = rows.ask(&store).await;
        rows.finish_the_running_turn(&store).await;
        let answers = rows.ask(&store).await;
        for id in answers.messages.keys() {
            before.messages.entry(id.clone()).or_insert(Ok(None));
        }
        let image = store.crash_image();
        let (database, log) = (read(&image, "cortex.db"), read(&image, "cortex.db-wal"));
        Self { rows, database, log, answers, before }
    }

    async fn judge(&self, database: &[u8], log: &[u8]) -> Result<Verdict, String> {
        let folder = memory_folder();
        fs::write(folder.path().join("cortex.db"), database).unwrap();
        if !log.is_empty() {
            fs::write(folder.path().join("cortex.db-wal"), log).unwrap();
        }
        let Ok((store, thread)) = Store::open(StoreConfig::at(folder.path().join("cortex.db"))) else {
            return Ok(Verdict::Refused);
        };
        let verdict = self.judge_open(&store).await;
        drop(store);
        thread.close();
        verdict
    }

    async fn judge_open(&self, store: &Store) -> Result<Verdict, String> {
        let is_sound = store.check_integrity().await.is_ok();
        let found = self.rows.ask(store).await;
        let (expected, torn) = if found == self.before && found != self.answers {
            (&self.before, true)
        } else {
            (&self.answers, false)
        };
        let mut reported = !is_sound;
        let gaps = if is_sound { Gaps::None } else { Gaps::Allowed };
        reported |= compare(&expected.events, &found.events, |left, right| gaps.event(left, right))?;
        reported |= compare(&expected.traces, &found.traces, |left, right| gaps.trace(left, right))?;
        reported |= compare(&expected.messages, &found.messages, |left, right| gaps.message(left, right))?;
        reported |=
            compare(&expected.history, &found.history, |left, right| gaps.list(left, right, PartialEq::eq))?;
        reported |= run_on(expected, store).await?;
        Ok(match (torn, reported) {
            (true, _) => Verdict::TornTail,
            (false, true) => Verdict::Reported,
            (false, false) => Verdict::Harmless,
        })
    }
}

fn read(folder: &TempDir, name: &str) -> Vec<u8> {
    fs::read(folder.path().join(name)).unwrap()
}

/// Whether something was reported; `Err` for an answer that is given as good and is not.
fn compare<K: Ord + Debug, V: Debug>(
    expected: &BTreeMap<K, Result<V, StoreError>>,
    found: &BTreeMap<K, Result<V, StoreError>>,
    is_true: impl Fn(&V, &V) -> bool,
) -> Result<bool, String> {
    let mut reported = false;
    for (key, expected) in expected {
        match (expected, &found[key]) {
            (_, Err(_)) => reported = true,
            (Ok(expected), Ok(answer)) if is_true(expected, answer) => {}
            (expected, answer) => return Err(format!("{key:?}: {answer:?} instead of {expected:?}")),
        }
    }
    Ok(reported)
}

/// How much an answer may leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gaps {
    None,
    /// A file that is reported damaged may have lost its way to a row, but may not lie about one.
    Allowed,
}

impl Gaps {
    fn event(self, expected: &Option<Event>, found: &Option<Event>) -> bool {
        // Counters, times of change and error notes steer retries and carry no checksum; all else must be exact.
        let fixed =
            |event: &Event| Event { attempts: 0, error: None, updated_at: Millis(0), ..event.clone() };
        self.list(expected.as_slice(), found.as_slice(), |left, right| fixed(left) == fixed(right))
    }

    fn message(self, expected: &Option<OutboxMessage>, found: &Option<OutboxMessage>) -> bool {
        self.list(expected.as_slice(), found.as_slice(), |left, right| self.same_message(left, right))
    }

    fn same_message(self, left: &OutboxMessage, right: &OutboxMessage) -> bool {
        let fixed = |message: &OutboxMessage| OutboxMessage {
            attempts: 0,
            next_attempt_at: Millis(0),
            lease_expires_at: None,
            last_error: None,
            updated_at: Millis(0),
            leased_at: None,
            delivered_at: None,
            // The id of its event is another row's, which the integrity check answers for.
            event: message.event.clone().filter(|_| self == Self::None),
            ..message.clone()
        };
        fixed(left) == fixed(right)
    }

    fn trace(self, expected: &Option<TracedEvent>, found: &Option<TracedEvent>) -> bool {
        self.list(expected.as_slice(), found.as_slice(), |expected, found| {
            self.event(&Some(expected.event.clone()), &Some(found.event.clone()))
                && self.list(&expected.steps, &found.steps, PartialEq::eq)
                && self.list(&expected.replies, &found.replies, |left, right| self.same_message(left, right))
        })
    }

    fn list<T>(self, expected: &[T], found: &[T], is_same: impl Fn(&T, &T) -> bool) -> bool {
        let mut left = expected.iter();
        let in_order = found.iter().all(|row| left.any(|expected| is_same(expected, row)));
        in_order && (self == Self::Allowed || found.len() == expected.len())
    }
}

/// Recovers, claims and polls as a server would: only open work comes out, with its own text.
async fn run_on(expected: &Answers, store: &Store) -> Result<bool, String> {
    let recovered = store.inbox().recover(9, LATER, |event| new_reply(&event.topic, "told")).await;
    let claimed = store.inbox().claim_next(100, LATER).await;
    let mut reported = recovered.is_err() || claimed.is_err();
    for claim in claimed.unwrap_or_default().whole {
        let original = expected.event(&claim.event.id);
        let is_open = |status| matches!(status, InboxStatus::Pending | InboxStatus::Processing);
        match original {
            Some(event) if event.text == claim.event.text && is_open(event.status) => {}
            _ => return Err(format!("claimed {claim:?} instead of {original:?}")),
        }
    }
    for source in sources() {
        let deliveries = store.outbox().claim_due(poll(source, 100), LATER).await;
        reported |= deliveries.is_err();
        for delivery in deliveries.unwrap_or_default() {
            check_delivery(expected, &delivery)?;
        }
    }
    Ok(reported)
}

fn check_delivery(expected: &Answers, delivery: &Delivery) -> Result<(), String> {
    // Told to the user because of the damage, so it was not there before.
    if delivery.text.contains("damaged on disk") {
        return Ok(());
    }
    let original = expected.message(&delivery.id);
    let is_open = |status| matches!(status, OutboxStatus::Pending | OutboxStatus::Leased);
    match original {
        Some(row) if row.text == delivery.text && row.topic == delivery.topic && is_open(row.status) => {
            Ok(())
        }
        _ => Err(format!("handed out {delivery:?} instead of {original:?}")),
    }
}

/// A fixed sequence of places, so that a failure can be had again.
struct Places(u64);

impl Places {
    fn next_below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % bound as u64).unwrap()
    }
}

fn flip(bytes: &[u8], bit: usize) -> Vec<u8> {
    let mut flipped = bytes.to_vec();
    flipped[bit / 8] ^= 1 << (bit % 8);
    flipped
}

fn flips() -> usize {
    std::env::var("CORTEX_FLIPS").ok().and_then(|text| text.parse().ok()).unwrap_or(FLIPS)
}

async fn judge_flips(original: &Original, in_log: bool) -> BTreeMap<Verdict, usize> {
    let mut verdicts = BTreeMap::new();
    let mut lies = Vec::new();
    let mut places = Places(20_260_101);
    let target = if in_log { &original.log } else { &original.database };
    for number in 0..flips() {
        // Every other flip of a log lies among its last transactions, where a loss could pass for a torn tail.
        let span = if in_log && number % 2 == 0 { target.len().min(LOG_TAIL) } else { target.len() };
        let bit = (target.len() - span) * 8 + places.next_below(span * 8);
        let flipped = flip(target, bit);
        let verdict = if in_log {
            original.judge(&original.database, &flipped).await
        } else {
            original.judge(&flipped, &original.log).await
        };
        match verdict {
            Ok(verdict) => *verdicts.entry(verdict).or_default() += 1,
            Err(lie) => lies.push(format!("bit {} of byte {}: {lie}", bit % 8, bit / 8)),
        }
    }
    assert!(
        lies.is_empty(),
        "{} wrong answers given as good:\n{}",
        lies.len(),
        lies.iter().map(|lie| lie.chars().take(400).collect::<String>()).collect::<Vec<_>>().join("\n")
    );
    verdicts
}

#[tokio::test]
async fn a_flipped_bit_in_the_database_is_never_a_wrong_answer() {
    let original = Original::stopped().await;
    let verdicts = judge_flips(&original, false).await;
    println!("F-X1 database {verdicts:?}");
    assert!(verdicts.contains_key(&Verdict::Reported), "no flip was seen at all: {verdicts:?}");
    assert!(!verdicts.contains_key(&Verdict::TornTail), "{verdicts:?}");
}

#[tokio::test]
async fn a_flipped_bit_in_the_log_loses_at_most_the_last_transaction_as_a_whole() {
    let original = Original::killed().await;
    let verdicts = judge_flips(&original, true).await;
    println!("F-X1 log {verdicts:?}");
    assert!(verdicts.contains_key(&Verdict::Refused), "no flip was seen at all: {verdicts:?}");
    assert!(verdicts.contains_key(&Verdict::TornTail), "no flip met the last transaction: {verdicts:?}");
    assert!(!verdicts.contains_key(&Verdict::Harmless), "a log has no idle bytes: {verdicts:?}");
}
