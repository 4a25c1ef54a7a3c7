//! The way out: leases are exclusive, acks are kept, nothing shown is forgotten or said twice.

use super::{Stage, Violation, is_delivered};
use crate::faults::database::{MessageRow, Rows};
use crate::faults::history::{Known, Operation, Record, SentPoll, Settled, Shown};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A message in the hands of a connector.
struct Showing<'a> {
    sent: Duration,
    ended: Duration,
    poll: &'a SentPoll,
    shown: &'a Shown,
}

/// A nack or a confirmed ack.
struct Settling<'a> {
    sent: Duration,
    ended: Duration,
    message: &'a str,
    lease: &'a str,
}

pub(super) fn check(history: &[&Record], rows: &Rows, stage: Stage) -> Vec<Violation> {
    let by_id: BTreeMap<&str, &MessageRow> = rows.messages.iter().map(|row| (row.id.as_str(), row)).collect();
    let showings = showings(history);
    let (acks, nacks) = settlings(history);
    let mut found = check_shown(&showings, &by_id);
    found.extend(check_acks(&acks, &showings, &by_id));
    found.extend(check_leases(&showings, &nacks));
    found.extend(check_delivery_order(&showings, &by_id));
    if stage == Stage::Drained {
        let undelivered = rows.messages.iter().filter(|message| !is_delivered(message));
        found.extend(undelivered.map(|message| Violation::Undelivered { message: message.id.clone() }));
    }
    found
}

fn showings<'a>(history: &[&'a Record]) -> Vec<Showing<'a>> {
    let mut showings = Vec::new();
    for record in history {
        if let Operation::Poll { poll, known: Known::Answered(shown) } = &record.operation {
            let (sent, ended) = (record.sent, record.ended);
            showings.extend(shown.iter().map(|shown| Showing { sent, ended, poll, shown }));
        }
    }
    showings
}

/// Confirmed acks, and nacks that may have been done.
fn settlings<'a>(history: &[&'a Record]) -> (Vec<Settling<'a>>, Vec<Settling<'a>>) {
    let (mut acks, mut nacks) = (Vec::new(), Vec::new());
    for record in history {
        let settling = |message: &'a str, lease: &'a str| Settling {
            sent: record.sent,
            ended: record.ended,
            message,
            lease,
        };
        match &record.operation {
            Operation::Ack { message, lease, known: Known::Answered(Settled::Done) } => {
                acks.push(settling(message, lease));
            }
            Operation::Nack { message, lease, known: Known::Answered(Settled::Done) | Known::Unknown } => {
                nacks.push(settling(message, lease));
            }
            Operation::Ack { .. }
            | Operation::Nack { .. }
            | Operation::Ingest { .. }
            | Operation::Poll { .. } => {}
        }
    }
    (acks, nacks)
}

fn check_shown(showings: &[Showing<'_>], by_id: &BTreeMap<&str, &MessageRow>) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut message_of: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for showing in showings {
        let shown = showing.shown;
        let is_there = by_id.get(shown.message.as_str()).is_some_and(|row| {
            (&row.text, &row.topic, &row.source) == (&shown.text, &shown.topic, &showing.poll.source)
        });
        if !is_there {
            found.push(Violation::Forgotten { message: shown.message.clone() });
        }
        let first = message_of.entry((&showing.poll.source, &shown.text)).or_insert(&shown.message);
        // Notices of failures may read alike; answers carry the text of their event.
        if *first != shown.message && shown.text.starts_with("re: ") {
            found.push(Violation::AnsweredTwice { text: shown.text.clone() });
        }
    }
    found
}

fn check_acks(
    acks: &[Settling<'_>],
    showings: &[Showing<'_>],
    by_id: &BTreeMap<&str, &MessageRow>,
) -> Vec<Violation> {
    let mut acked_at: BTreeMap<&str, Duration> = BTreeMap::new();
    let mut found = Vec::new();
    for ack in acks {
        acked_at.entry(ack.message).or_insert(ack.ended);
        if !by_id.get(ack.message).is_some_and(|row| is_delivered(row)) {
            found.push(Violation::AckForgotten { message: ack.message.to_owned() });
        }
    }
    for showing in showings {
        if acked_at.get(showing.shown.message.as_str()).is_some_and(|acked_at| *acked_at < showing.sent) {
            found.push(Violation::AckForgotten { message: showing.shown.message.clone() });
        }
    }
    found
}

/// A lease lives for its full time unless it is nacked; nobody else may be shown the message meanwhile.
fn check_leases(showings: &[Showing<'_>], nacks: &[Settling<'_>]) -> Vec<Violation> {
    let mut by_message: BTreeMap<&str, Vec<&Showing<'_>>> = BTreeMap::new();
    for showing in showings {
        by_message.entry(&showing.shown.message).or_default().push(showing);
    }
    let given_back: BTreeMap<(&str, &str), Duration> =
        nacks.iter().map(|nack| ((nack.message, nack.lease), nack.sent)).collect();
    let mut found = Vec::new();
    for (message, leases) in by_message {
        for pair in leases.windows(2) {
            let (first, second) = (pair[0], pair[1]);
            let alive_until = first.sent + first.poll.lease;
            let given_back = given_back.get(&(message, first.shown.lease.as_str()));
            let ended_early = given_back.is_some_and(|sent| *sent < second.ended);
            if first.shown.lease == second.shown.lease || (second.ended < alive_until && !ended_early) {
                found.push(Violation::LeasedTwice { message: message.to_owned() });
            }
        }
    }
    found
}

/// Where every poll of a source asks for order, messages of a topic are first shown in the order they were made.
fn check_delivery_order(showings: &[Showing<'_>], by_id: &BTreeMap<&str, &MessageRow>) -> Vec<Violation> {
    let mut last: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut found = Vec::new();
    for showing in showings.iter().filter(|showing| showing.poll.ordered) {
        let Some(row) = by_id.get(showing.shown.message.as_str()) else { continue };
        let last = last.entry((&row.source, &row.topic)).or_insert(i64::MIN);
        if seen.insert(&row.id) && row.seq < *last {
            found.push(Violation::DeliveredOutOfOrder { message: row.id.clone() });
        }
        *last = row.seq.max(*last);
    }
    found
}
