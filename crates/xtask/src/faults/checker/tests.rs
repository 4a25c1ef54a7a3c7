//! Bad histories and bad rows, each of which the checker must report.

use super::*;
use crate::faults::history::{Known, SentPoll, Settled, Shown};
use std::time::Duration;

/// One event that was sent, answered, shown and acked, as everything should be.
#[derive(Clone)]
struct Story {
    history: Vec<Record>,
    rows: Rows,
}

fn at(second: u64, operation: Operation) -> Record {
    let sent = Duration::from_secs(second);
    Record { sent, ended: sent + Duration::from_millis(10), operation }
}

fn sent_event(number: i64) -> SentEvent {
    SentEvent {
        source: "alpha".to_owned(),
        external_id: format!("a-{number}"),
        topic: "topic".to_owned(),
        text: format!("text {number}"),
    }
}

fn ingest(second: u64, number: i64, known: Known<Ingested>) -> Record {
    at(second, Operation::Ingest { event: sent_event(number), known })
}

fn queued(number: i64) -> Known<Ingested> {
    Known::Answered(Ingested::Queued { event_id: format!("evt_{number}") })
}

fn poll(second: u64, messages: &[(i64, &str)]) -> Record {
    let poll = SentPoll { source: "alpha".to_owned(), lease: Duration::from_secs(10), ordered: true };
    let shown = messages.iter().map(|(number, lease)| Shown {
        message: format!("out_{number}"),
        lease: (*lease).to_owned(),
        topic: "topic".to_owned(),
        text: format!("re: text {number}"),
    });
    at(second, Operation::Poll { poll, known: Known::Answered(shown.collect()) })
}

fn ack(second: u64, number: i64, lease: &str, known: Known<Settled>) -> Record {
    at(second, Operation::Ack { message: format!("out_{number}"), lease: lease.to_owned(), known })
}

fn nack(second: u64, number: i64, lease: &str) -> Record {
    let known = Known::Answered(Settled::Done);
    at(second, Operation::Nack { message: format!("out_{number}"), lease: lease.to_owned(), known })
}

impl Story {
    fn good() -> Self {
        let mut story = Self { history: Vec::new(), rows: Rows::default() };
        story.tell(1);
        story.tell(2);
        story
    }

    fn tell(&mut self, number: i64) {
        let (second, event) = (number.unsigned_abs() * 4, sent_event(number));
        let lease = format!("lease_{number}");
        self.history.push(ingest(second, number, queued(number)));
        self.history.push(poll(second + 2, &[(number, &lease)]));
        self.history.push(ack(second + 3, number, &lease, Known::Answered(Settled::Done)));
        self.rows.turns.extend([
            TurnRow { event_seq: number, speaker: Speaker::User, content: event.text.clone() },
            TurnRow {
                event_seq: number,
                speaker: Speaker::Assistant,
                content: format!("re: {}", event.text),
            },
        ]);
        self.rows.messages.push(MessageRow {
            seq: number,
            id: format!("out_{number}"),
            source: event.source.clone(),
            event_seq: Some(number),
            topic: event.topic.clone(),
            text: format!("re: {}", event.text),
            state: MessageState::Delivered,
        });
        self.rows.events.push(EventRow {
            seq: number,
            id: format!("evt_{number}"),
            source: event.source,
            external_id: event.external_id,
            topic: event.topic,
            text: event.text,
            state: EventState::Done,
            claimed_at: Some(number * 100),
            updated_at: number * 100 + 50,
            steps: 1,
        });
    }
}

/// Spoils a good story and demands that the checker says exactly why.
fn caught(spoil: impl Fn(&mut Story), is_reason: impl Fn(&Violation) -> bool) {
    let mut story = Story::good();
    assert_eq!(check(&story.history, &story.rows, Stage::Drained), [], "the good story is refused");
    spoil(&mut story);
    let found = check(&story.history, &story.rows, Stage::Drained);
    assert!(found.iter().any(is_reason), "not caught: {found:?}");
}

#[test]
fn an_accepted_event_without_a_row_is_lost() {
    caught(
        |story| {
            story.rows.events.remove(0);
        },
        |found| matches!(found, Violation::Lost { .. }),
    );
}

#[test]
fn a_row_that_reads_differently_is_a_change() {
    caught(|story| story.rows.events[0].text += "!", |found| matches!(found, Violation::Changed { .. }));
}

#[test]
fn an_event_that_is_new_twice_is_caught() {
    caught(
        |story| story.history.push(ingest(20, 1, queued(1))),
        |found| matches!(found, Violation::AcceptedTwice { .. }),
    );
    let other = Known::Answered(Ingested::Duplicate { event_id: "evt_7".to_owned() });
    caught(
        |story| story.history.push(ingest(20, 1, other.clone())),
        |found| matches!(found, Violation::AcceptedTwice { .. }),
    );
}

#[test]
fn a_timeout_is_neither_a_loss_nor_a_second_accept() {
    let mut story = Story::good();
    story.history.push(ingest(1, 1, Known::Unknown));
    story.history.push(ingest(30, 9, Known::Unknown));
    let same = Known::Answered(Ingested::Duplicate { event_id: "evt_1".to_owned() });
    story.history.push(ingest(31, 1, same));
    assert_eq!(check(&story.history, &story.rows, Stage::Drained), []);
}

#[test]
fn two_rows_of_one_external_id_are_caught() {
    caught(
        |story| {
            let mut twin = story.rows.events[0].clone();
            twin.id = "evt_twin".to_owned();
            story.rows.events.push(twin);
        },
        |found| matches!(found, Violation::TwoRows { .. }),
    );
}

#[test]
fn a_row_that_nobody_sent_is_caught() {
    caught(
        |story| {
            story.history.remove(0);
        },
        |found| matches!(found, Violation::Invented { .. }),
    );
}

#[test]
fn half_an_ending_is_caught_even_right_after_a_crash() {
    let halves: [fn(&mut Story); 6] = [
        |story| drop(story.rows.turns.remove(1)),
        |story| drop(story.rows.messages.remove(0)),
        |story| story.rows.events[0].state = EventState::Processing,
        |story| story.rows.events[0].steps = 2,
        |story| {
            let mut second = story.rows.messages[0].clone();
            second.id = "out_second".to_owned();
            story.rows.messages.push(second);
        },
        |story| story.rows.turns[1].content.clear(),
    ];
    for half in halves {
        let mut story = Story::good();
        half(&mut story);
        let found = check(&story.history, &story.rows, Stage::Crashed);
        assert!(found.iter().any(|found| matches!(found, Violation::Halfway { .. })), "{found:?}");
    }
}

/// The first event of the story asks a person before it answers.
fn asking_story(before_the_answer: &[&str]) -> Story {
    let mut story = Story::good();
    let text = crate::faults::expected::asking_text("one");
    let Operation::Ingest { event, .. } = &mut story.history[0].operation else {
        panic!("it begins with an event")
    };
    event.text.clone_from(&text);
    let Operation::Poll { known: Known::Answered(shown), .. } = &mut story.history[1].operation else {
        panic!("it is polled")
    };
    shown[0].text = format!("re: {text}");
    story.rows.turns[0].content.clone_from(&text);
    story.rows.turns[1].content = format!("re: {text}");
    let asked = "[asked the user to approve schedule.create {}: they approved it]".to_owned();
    let question = TurnRow { content: asked, ..story.rows.turns[1].clone() };
    story.rows.turns.insert(1, question);
    story.rows.messages[0].text = format!("re: {text}");
    (story.rows.events[0].text, story.rows.events[0].steps) = (text, 6);
    for (place, text) in before_the_answer.iter().enumerate() {
        let mut message = story.rows.messages[place].clone();
        (message.id, message.text, message.seq) = (format!("out_before_{place}"), (*text).to_owned(), -1);
        story.rows.messages.insert(place, message);
    }
    story
}

#[test]
fn a_question_comes_before_its_answer_once() {
    const QUESTION: &str = "May I add a reminder: stretch, ...";
    const APPROVED: &str = "Approved: schedule.create runs now.";
    const NOTICE: &str = "schedule.create may have run, and I do not know how it ended.";
    let found =
        |before: &[&str]| check(&asking_story(before).history, &asking_story(before).rows, Stage::Drained);
    assert_eq!(found(&[QUESTION, APPROVED]), []);
    assert_eq!(found(&[QUESTION, APPROVED, NOTICE]), []);
    for wrong in [
        &[][..],
        &[QUESTION],
        &[APPROVED],
        &[QUESTION, QUESTION, APPROVED],
        &[QUESTION, APPROVED, APPROVED],
        &[QUESTION, APPROVED, "re: asking: one"],
    ] {
        let found = found(wrong);
        assert!(
            found.iter().any(|found| matches!(found, Violation::Halfway { what: "outbox", .. })),
            "{found:?}"
        );
    }
}

#[test]
fn an_event_that_waits_has_asked_and_not_answered() {
    let mut story = asking_story(&["May I add a reminder: stretch, ..."]);
    story.rows.events[0].state = EventState::Waiting;
    story.rows.turns.remove(2);
    let found = check(&story.history, &story.rows, Stage::Crashed);
    assert!(
        found.iter().any(|found| matches!(found, Violation::Halfway { what: "not ended", .. })),
        "{found:?}"
    );
    story.rows.messages.remove(1);
    story.history.drain(1..3);
    assert_eq!(check(&story.history, &story.rows, Stage::Crashed), []);
}

#[test]
fn an_event_in_work_is_fine_after_a_crash_and_wrong_at_the_end() {
    let mut story = Story::good();
    story.history.push(ingest(20, 3, queued(3)));
    story.tell(3);
    story.rows.turns.truncate(4);
    story.rows.messages.truncate(2);
    story.history.truncate(7);
    story.rows.events[2].state = EventState::Processing;
    assert_eq!(check(&story.history, &story.rows, Stage::Crashed), []);
    let found = check(&story.history, &story.rows, Stage::Drained);
    assert!(matches!(found[..], [Violation::WrongEnding { .. }]), "{found:?}");
}

#[test]
fn a_failure_where_the_script_answers_is_a_wrong_ending() {
    caught(
        |story| story.rows.events[0].state = EventState::Failed,
        |found| matches!(found, Violation::WrongEnding { .. }),
    );
}

#[test]
fn a_topic_that_holds_an_event_at_the_end_is_caught() {
    caught(|story| story.rows.in_flight = 1, |found| *found == Violation::InFlight(1));
}

#[test]
fn turns_out_of_order_or_overlapping_are_caught() {
    caught(|story| story.rows.turns.rotate_left(2), |found| matches!(found, Violation::OutOfOrder { .. }));
    caught(
        |story| story.rows.events[1].claimed_at = Some(149),
        |found| matches!(found, Violation::OutOfOrder { .. }),
    );
}

#[test]
fn a_message_that_was_shown_and_is_gone_is_caught() {
    caught(
        |story| {
            story.rows.messages.remove(0);
        },
        |found| matches!(found, Violation::Forgotten { .. }),
    );
}

#[test]
fn an_event_answered_in_two_messages_is_caught() {
    caught(
        |story| {
            let Operation::Poll { known: Known::Answered(shown), .. } = &mut story.history[4].operation
            else {
                panic!("the fifth record is a poll");
            };
            shown[0].text = "re: text 1".to_owned();
        },
        |found| matches!(found, Violation::AnsweredTwice { .. }),
    );
}

#[test]
fn an_ack_that_is_not_kept_is_caught() {
    caught(
        |story| story.rows.messages[0].state = MessageState::Open,
        |found| matches!(found, Violation::AckForgotten { .. }),
    );
    caught(
        |story| story.history.push(poll(40, &[(1, "lease_9")])),
        |found| matches!(found, Violation::AckForgotten { .. }),
    );
}

#[test]
fn a_message_that_is_given_up_is_undelivered() {
    caught(
        |story| story.rows.messages[0].state = MessageState::GivenUp,
        |found| matches!(found, Violation::Undelivered { .. }),
    );
}

#[test]
fn a_second_lease_within_the_first_is_caught() {
    caught(
        |story| story.history.push(poll(6, &[(1, "lease_9")])),
        |found| matches!(found, Violation::LeasedTwice { .. }),
    );
}

#[test]
fn a_second_lease_after_a_nack_or_after_its_time_is_fine() {
    let mut story = Story::good();
    story.history[2] = nack(7, 1, "lease_1");
    story.history.push(poll(13, &[(1, "lease_9")]));
    story.history.push(ack(14, 1, "lease_9", Known::Answered(Settled::Done)));
    assert_eq!(check(&story.history, &story.rows, Stage::Drained), []);

    let mut story = Story::good();
    story.history[2] = ack(7, 1, "lease_1", Known::Unknown);
    story.history.push(poll(17, &[(1, "lease_9")]));
    story.history.push(ack(18, 1, "lease_9", Known::Answered(Settled::Done)));
    assert_eq!(check(&story.history, &story.rows, Stage::Drained), []);
}

#[test]
fn an_ordered_poll_that_overtakes_is_caught() {
    caught(
        |story| story.rows.messages[1].seq = 0,
        |found| matches!(found, Violation::DeliveredOutOfOrder { .. }),
    );
}

#[test]
fn damage_of_the_file_is_passed_on() {
    caught(
        |story| story.rows.damage.push("page 3 is never used".to_owned()),
        |found| matches!(found, Violation::Damaged(_)),
    );
}
