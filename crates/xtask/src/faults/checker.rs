//! Compares what clients were told with what the database holds. Pure, so that bad histories can show it failing.

use super::database::{EventRow, EventState, MessageRow, MessageState, Rows, Speaker, TurnRow};
use super::expected::{self, Ending, Expected};
use super::history::{Ingested, Known, Operation, Record, SentEvent};
use std::collections::{BTreeMap, BTreeSet};

mod delivery;
#[cfg(test)]
mod tests;

/// What the rows must have reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A crash may have come anywhere; whatever is there must be whole.
    Crashed,
    /// Everything had time to end: every event answered, every message delivered.
    Drained,
}

/// A broken promise. The ids lead into `cortex trace`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Violation {
    /// SQLite's own checks complain.
    Damaged(String),
    /// Accepted and not there.
    Lost { event: SentEvent, event_id: String },
    /// There, but not as it was sent.
    Changed { event_id: String },
    /// Two answers for one external id named different events, or both said that it was new.
    AcceptedTwice { event: SentEvent },
    /// Two rows for one external id.
    TwoRows { external_id: String },
    /// A row that nobody sent.
    Invented { event_id: String },
    /// The turn's end is there in part.
    Halfway { event_id: String, what: &'static str },
    /// The event has not ended, or not as the script says.
    WrongEnding { event_id: String, state: EventState },
    /// A topic still holds an event in flight.
    InFlight(usize),
    /// Turns of a topic began out of order, or one began before the last had ended.
    OutOfOrder { event_id: String },
    /// A connector was shown a message that is not there, or that reads differently now.
    Forgotten { message: String },
    /// One event was answered in two messages.
    AnsweredTwice { text: String },
    /// An ack was confirmed and is not there, or the message was shown again after it.
    AckForgotten { message: String },
    /// A message never reached its connector.
    Undelivered { message: String },
    /// A second lease began while the first was alive.
    LeasedTwice { message: String },
    /// An ordered poll showed a message before an earlier one of its topic.
    DeliveredOutOfOrder { message: String },
}

pub(crate) fn check(history: &[Record], rows: &Rows, stage: Stage) -> Vec<Violation> {
    let mut history: Vec<&Record> = history.iter().collect();
    history.sort_by_key(|record| record.sent);
    let mut found: Vec<Violation> = rows.damage.iter().cloned().map(Violation::Damaged).collect();
    found.extend(check_ingest(&history, rows));
    found.extend(check_endings(rows, stage));
    found.extend(check_order(rows));
    found.extend(delivery::check(&history, rows, stage));
    found
}

fn check_ingest(history: &[&Record], rows: &Rows) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut sent: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut promised: BTreeMap<(&str, &str), (&SentEvent, &str)> = BTreeMap::new();
    let mut queued: BTreeSet<(&str, &str)> = BTreeSet::new();
    for record in history {
        let Operation::Ingest { event, known } = &record.operation else { continue };
        let key = (event.source.as_str(), event.external_id.as_str());
        sent.insert(key);
        let event_id = match known {
            Known::Answered(Ingested::Queued { event_id }) => {
                if !queued.insert(key) {
                    found.push(Violation::AcceptedTwice { event: event.clone() });
                }
                event_id
            }
            Known::Answered(Ingested::Duplicate { event_id }) => event_id,
            Known::Answered(Ingested::Refused { .. }) | Known::Unknown => continue,
        };
        let (_, first) = promised.entry(key).or_insert((event, event_id));
        if *first != event_id {
            found.push(Violation::AcceptedTwice { event: event.clone() });
        }
    }
    let by_id: BTreeMap<&str, &EventRow> = rows.events.iter().map(|row| (row.id.as_str(), row)).collect();
    for (event, event_id) in promised.values() {
        match by_id.get(event_id) {
            None => {
                found.push(Violation::Lost { event: (*event).clone(), event_id: (*event_id).to_owned() });
            }
            Some(row) if !is_same(row, event) => {
                found.push(Violation::Changed { event_id: (*event_id).to_owned() });
            }
            Some(_) => {}
        }
    }
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    for row in &rows.events {
        let key = (row.source.as_str(), row.external_id.as_str());
        if !seen.insert(key) {
            found.push(Violation::TwoRows { external_id: row.external_id.clone() });
        }
        // What a schedule makes comes from the server itself.
        if !sent.contains(&key) && !row.external_id.starts_with("schedule:") {
            found.push(Violation::Invented { event_id: row.id.clone() });
        }
    }
    found
}

fn is_same(row: &EventRow, event: &SentEvent) -> bool {
    (&row.source, &row.external_id, &row.topic, &row.text)
        == (&event.source, &event.external_id, &event.topic, &event.text)
}

/// Turns, outbox and `done` stand together or not at all; at the end every event has what the script promises.
fn check_endings(rows: &Rows, stage: Stage) -> Vec<Violation> {
    let mut turns: BTreeMap<i64, Vec<&TurnRow>> = BTreeMap::new();
    for turn in &rows.turns {
        turns.entry(turn.event_seq).or_default().push(turn);
    }
    let mut messages: BTreeMap<i64, Vec<&MessageRow>> = BTreeMap::new();
    for message in &rows.messages {
        messages.entry(message.event_seq.unwrap_or_default()).or_default().push(message);
    }
    let nothing = (Vec::new(), Vec::new());
    let mut found = Vec::new();
    for event in &rows.events {
        let turns = turns.get(&event.seq).unwrap_or(&nothing.0);
        let messages = messages.get(&event.seq).unwrap_or(&nothing.1);
        let expected = expected::of(&event.text);
        let ended_well = match (event.state, &expected.ending) {
            (EventState::Done, Ending::Answer(reply)) => {
                found.extend(halfway(event, is_exchange(turns, event, reply, &expected), "history"));
                found.extend(halfway(event, is_answered(messages, reply, &expected), "outbox"));
                found.extend(halfway(event, event.steps == expected.steps, "journal"));
                true
            }
            (EventState::Failed, Ending::Failure) => {
                found.extend(halfway(event, turns.is_empty(), "history"));
                found.extend(halfway(event, messages.len() == 1, "outbox"));
                true
            }
            (EventState::Pending | EventState::Processing | EventState::Waiting, _) => {
                let is_quiet = messages.iter().all(|message| may_come_before(&message.text, &expected));
                let is_begun = turns.is_empty() || (expected.asks && is_asked(turns, event));
                found.extend(halfway(event, is_begun && is_quiet, "not ended"));
                stage == Stage::Crashed
            }
            (EventState::Done, Ending::Failure)
            | (EventState::Failed, Ending::Answer(_))
            | (EventState::Nonsense, _) => false,
        };
        if !ended_well {
            found.push(Violation::WrongEnding { event_id: event.id.clone(), state: event.state });
        }
    }
    if stage == Stage::Drained && rows.in_flight > 0 {
        found.push(Violation::InFlight(rows.in_flight));
    }
    found
}

fn halfway(event: &EventRow, is_whole: bool, what: &'static str) -> Option<Violation> {
    (!is_whole).then(|| Violation::Halfway { event_id: event.id.clone(), what })
}

/// The reply alone, or, where a person was asked, the question, the answer and perhaps a notice before it.
fn is_answered(messages: &[&MessageRow], reply: &str, expected: &Expected) -> bool {
    let Some((last, before)) = messages.split_last() else { return false };
    let count = |is_one: fn(&str) -> bool| before.iter().filter(|message| is_one(&message.text)).count();
    let asked = (count(expected::is_question), count(expected::is_approval));
    let wanted = usize::from(expected.asks);
    last.text == reply
        && asked == (wanted, wanted)
        && before.iter().all(|message| may_come_before(&message.text, expected))
}

/// What a user may be told before the turn has ended.
fn may_come_before(text: &str, expected: &Expected) -> bool {
    let kinds = [expected::is_question, expected::is_approval, expected::is_unknown_notice];
    expected.asks && kinds.iter().any(|is_one| is_one(text))
}

/// The person's words and the reply; where a person was asked, what they were asked stands between.
fn is_exchange(turns: &[&TurnRow], event: &EventRow, reply: &str, expected: &Expected) -> bool {
    let Some((answer, before)) = turns.split_last() else { return false };
    let is_begun = match expected.asks {
        true => is_asked(before, event),
        false => matches!(before, [user] if is_said(user, event)),
    };
    is_begun && answer.speaker == Speaker::Assistant && answer.content == reply
}

/// What history has of an event while a person is asked about it.
fn is_asked(turns: &[&TurnRow], event: &EventRow) -> bool {
    matches!(turns, [user, question] if is_said(user, event)
        && question.speaker == Speaker::Assistant && expected::is_asked_line(&question.content))
}

fn is_said(turn: &TurnRow, event: &EventRow) -> bool {
    turn.speaker == Speaker::User && turn.content == event.text
}

/// Every run sends with one priority, so turns of a topic follow arrival and never overlap.
fn check_order(rows: &Rows) -> Vec<Violation> {
    let by_seq: BTreeMap<i64, &EventRow> = rows.events.iter().map(|event| (event.seq, event)).collect();
    let mut last_turn: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    let mut found = Vec::new();
    for turn in &rows.turns {
        let Some(event) = by_seq.get(&turn.event_seq) else { continue };
        let last = last_turn.entry((&event.source, &event.topic)).or_insert(i64::MIN);
        if turn.event_seq < *last {
            found.push(Violation::OutOfOrder { event_id: event.id.clone() });
        }
        *last = turn.event_seq;
    }
    let mut last_ended: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for event in rows.events.iter().filter(|event| event.state == EventState::Done) {
        let last = last_ended.entry((&event.source, &event.topic)).or_insert(i64::MIN);
        if event.claimed_at.is_none_or(|claimed_at| claimed_at < *last) {
            found.push(Violation::OutOfOrder { event_id: event.id.clone() });
        }
        *last = event.updated_at;
    }
    found
}

fn is_delivered(message: &MessageRow) -> bool {
    match message.state {
        MessageState::Delivered => true,
        MessageState::Open | MessageState::GivenUp => false,
    }
}
