//! What can happen to a store, in any order; places are taken modulo what there is.

use cortex_types::{ChannelMode, Priority};
use proptest::prelude::*;
use std::ops::Range;

/// One whose channel has another name, one that is its channel, and two that came without a key.
pub(super) const SOURCES: usize = 4;

/// One step of a sequence.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    Inbox(InboxOperation),
    Outbox(OutboxOperation),
    Approval(ApprovalOperation),
    Schedule(ScheduleOperation),
    /// The modes of the channels from now on.
    SetModes {
        modes: [ChannelMode; SOURCES],
    },
    /// The channel of the source that has another name is learned, or forgotten again.
    LearnChannel {
        is_known: bool,
    },
    AdvanceClock {
        by_ms: i64,
    },
    /// To the next moment at which something is due or a lease ends, or a millisecond beside it.
    AdvanceToNext {
        offset_ms: i64,
    },
    /// The process is killed and started again.
    Crash,
    /// The process is killed while it does one more thing, whose outcome nobody was told.
    CrashDuring(Interrupted),
    /// A clean stop, which parks what runs, and a start.
    Restart,
}

#[derive(Debug, Clone)]
pub(super) enum InboxOperation {
    Accept(Accept),
    /// The same external id again, `times` at once.
    Duplicate {
        event: usize,
        same_body: bool,
        times: usize,
    },
    Claim(Claim),
    RecordStep {
        event: usize,
    },
    Answer(Answer),
    RetryLater {
        event: usize,
        after_ms: i64,
    },
    Park {
        event: usize,
    },
    Fail {
        event: usize,
    },
    /// The end of a turn goes wrong.
    BrokenEnd {
        event: usize,
        fault: EndFault,
    },
    /// The end of a turn that does not run.
    FinishAgain {
        event: usize,
    },
    RetryFailed {
        event: usize,
    },
}

#[derive(Debug, Clone)]
pub(super) enum OutboxOperation {
    Poll(Poll),
    Ack { message: usize, lease: Lease },
    Nack { message: usize, lease: Lease, permanent: bool, retry_after_s: u64 },
    Requeue { message: usize },
    Discard { message: usize },
}

#[derive(Debug, Clone)]
pub(super) enum ApprovalOperation {
    Suspend(Suspend),
    Resolve(Resolve),
    /// The sweeper comes by.
    Expire,
    Grant {
        question: usize,
        seconds: u64,
    },
    Revoke {
        grant: usize,
    },
}

#[derive(Debug, Clone)]
pub(super) enum ScheduleOperation {
    Add {
        topic: usize,
    },
    Decide(Decide),
    /// The slots of the last decision once more.
    DecideLate {
        job: usize,
    },
    Pause {
        job: usize,
    },
    Resume {
        job: usize,
    },
    Delete {
        job: usize,
    },
}

/// What goes wrong at the end of a turn (F-E1).
#[derive(Debug, Clone, Copy)]
pub(super) enum EndFault {
    /// The model says that it cost more than a number can hold.
    Count,
    /// The store refuses what the turn leaves.
    Refused,
    /// The task that ran it is gone.
    Lost,
}

/// A running turn asks and waits.
#[derive(Debug, Clone)]
pub(super) struct Suspend {
    pub(super) event: usize,
    pub(super) questions: u32,
    pub(super) open_ms: i64,
}

/// Answers to one question, at once; the second says the opposite of the first.
#[derive(Debug, Clone)]
pub(super) struct Resolve {
    pub(super) question: usize,
    pub(super) approves: bool,
    pub(super) by: By,
    pub(super) by_token: bool,
    pub(super) times: usize,
}

/// Who answers.
#[derive(Debug, Clone, Copy)]
pub(super) enum By {
    Owner,
    Asked,
    Approver,
    OtherUser,
    OtherTopic,
}

/// Ticks that find the next slots of a job.
#[derive(Debug, Clone)]
pub(super) struct Decide {
    pub(super) job: usize,
    pub(super) slots: u32,
    pub(super) fires: bool,
    /// Ticks at once.
    pub(super) times: usize,
}

/// What a kill interrupts.
#[derive(Debug, Clone)]
pub(super) enum Interrupted {
    Suspend(Suspend),
    Resolve(Resolve),
    Decide(Decide),
    Accept(Accept),
    Claim(Claim),
    Answer(Answer),
    Poll(Poll),
}

#[derive(Debug, Clone)]
pub(super) struct Accept {
    pub(super) topic: usize,
    pub(super) priority: Priority,
    /// Whether the event names its channel where that has another name than its source.
    pub(super) names_channel: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) limit: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) event: usize,
    pub(super) replies: usize,
    /// Whether the last reply goes to another channel.
    pub(super) elsewhere: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Poll {
    pub(super) topic: usize,
    pub(super) max: u32,
    pub(super) ordered: bool,
    /// Pollers at once.
    pub(super) times: usize,
}

/// Which lease an ack or a nack shows.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lease {
    Newest,
    /// An older one of the same message, if it had one.
    Stale,
    /// One of another message.
    Foreign,
}

/// What is tried: messages that wait from the start, and then what happens.
#[derive(Debug, Clone)]
pub(super) struct Sequence {
    pub(super) replies_before: usize,
    pub(super) operations: Vec<Operation>,
}

/// How often each kind of operation comes; a short sequence gets deep only where it keeps to one thing.
#[derive(Clone, Copy)]
struct Mix {
    inbox: u32,
    outbox: u32,
    approval: u32,
    schedule: u32,
    kills: u32,
}

pub(super) fn sequences() -> impl Strategy<Value = Sequence> {
    prop_oneof![
        2 => sequence(0..1, Mix { inbox: 80, outbox: 8, approval: 0, schedule: 0, kills: 1 }),
        2 => sequence(2..5, Mix { inbox: 10, outbox: 70, approval: 0, schedule: 0, kills: 1 }),
        2 => sequence(0..1, Mix { inbox: 50, outbox: 4, approval: 50, schedule: 0, kills: 2 }),
        1 => sequence(0..1, Mix { inbox: 25, outbox: 0, approval: 6, schedule: 60, kills: 3 }),
        1 => sequence(0..3, Mix { inbox: 50, outbox: 30, approval: 15, schedule: 10, kills: 6 }),
    ]
}

fn sequence(replies: Range<usize>, mix: Mix) -> impl Strategy<Value = Sequence> {
    (replies, prop::collection::vec(operation(mix), 4..24))
        .prop_map(|(replies_before, operations)| Sequence { replies_before, operations })
}

fn operation(mix: Mix) -> impl Strategy<Value = Operation> {
    let by_ms = prop::sample::select(vec![1, 5_000, 10_000, 900_000, 90_000_000, -1, -5_000, -3_600_000]);
    prop_oneof![
        mix.inbox => inbox().prop_map(Operation::Inbox),
        mix.outbox => outbox().prop_map(Operation::Outbox),
        mix.approval => approval().prop_map(Operation::Approval),
        mix.schedule => schedule().prop_map(Operation::Schedule),
        6 => change_of_modes(),
        5 => by_ms.prop_map(|by_ms| Operation::AdvanceClock { by_ms }),
        12 => (-1..2_i64).prop_map(|offset_ms| Operation::AdvanceToNext { offset_ms }),
        mix.kills => Just(Operation::Crash),
        mix.kills => interrupted().prop_map(Operation::CrashDuring),
        mix.kills => Just(Operation::Restart),
    ]
}

fn change_of_modes() -> impl Strategy<Value = Operation> {
    prop_oneof![
        2 => prop::array::uniform4(mode()).prop_map(|modes| Operation::SetModes { modes }),
        1 => prop::bool::weighted(0.7).prop_map(|is_known| Operation::LearnChannel { is_known }),
    ]
}

fn mode() -> impl Strategy<Value = ChannelMode> {
    prop_oneof![4 => Just(ChannelMode::Live), 3 => Just(ChannelMode::Off), 1 => Just(ChannelMode::Shadow)]
}

fn inbox() -> impl Strategy<Value = InboxOperation> {
    let duplicate = (place(), any::<bool>(), 1..4_usize);
    prop_oneof![
        7 => accept().prop_map(InboxOperation::Accept),
        2 => duplicate
            .prop_map(|(event, same_body, times)| InboxOperation::Duplicate { event, same_body, times }),
        6 => claim().prop_map(InboxOperation::Claim),
        3 => place().prop_map(|event| InboxOperation::RecordStep { event }),
        6 => answer().prop_map(InboxOperation::Answer),
        3 => (place(), 0..60_000_i64)
            .prop_map(|(event, after_ms)| InboxOperation::RetryLater { event, after_ms }),
        1 => place().prop_map(|event| InboxOperation::Park { event }),
        2 => place().prop_map(|event| InboxOperation::Fail { event }),
        4 => (place(), end_fault()).prop_map(|(event, fault)| InboxOperation::BrokenEnd { event, fault }),
        1 => place().prop_map(|event| InboxOperation::FinishAgain { event }),
        2 => place().prop_map(|event| InboxOperation::RetryFailed { event }),
    ]
}

fn outbox() -> impl Strategy<Value = OutboxOperation> {
    let nack = (place(), lease(), prop::bool::weighted(0.2), 0..40_u64);
    prop_oneof![
        7 => poll().prop_map(OutboxOperation::Poll),
        5 => (place(), lease()).prop_map(|(message, lease)| OutboxOperation::Ack { message, lease }),
        4 => nack.prop_map(|(message, lease, permanent, retry_after_s)| {
            OutboxOperation::Nack { message, lease, permanent, retry_after_s }
        }),
        2 => place().prop_map(|message| OutboxOperation::Requeue { message }),
        1 => place().prop_map(|message| OutboxOperation::Discard { message }),
    ]
}

fn approval() -> impl Strategy<Value = ApprovalOperation> {
    let grant = (place(), prop::sample::select(vec![1_u64, 600, 100_000]));
    prop_oneof![
        5 => suspend().prop_map(ApprovalOperation::Suspend),
        8 => resolve().prop_map(ApprovalOperation::Resolve),
        3 => Just(ApprovalOperation::Expire),
        1 => grant.prop_map(|(question, seconds)| ApprovalOperation::Grant { question, seconds }),
        1 => place().prop_map(|grant| ApprovalOperation::Revoke { grant }),
    ]
}

fn schedule() -> impl Strategy<Value = ScheduleOperation> {
    prop_oneof![
        3 => (0..2 * SOURCES).prop_map(|topic| ScheduleOperation::Add { topic }),
        8 => decide().prop_map(ScheduleOperation::Decide),
        2 => place().prop_map(|job| ScheduleOperation::DecideLate { job }),
        1 => place().prop_map(|job| ScheduleOperation::Pause { job }),
        2 => place().prop_map(|job| ScheduleOperation::Resume { job }),
        1 => place().prop_map(|job| ScheduleOperation::Delete { job }),
    ]
}

fn interrupted() -> impl Strategy<Value = Interrupted> {
    prop_oneof![
        suspend().prop_map(Interrupted::Suspend),
        resolve().prop_map(Interrupted::Resolve),
        decide().prop_map(Interrupted::Decide),
        accept().prop_map(Interrupted::Accept),
        claim().prop_map(Interrupted::Claim),
        answer().prop_map(Interrupted::Answer),
        poll().prop_map(Interrupted::Poll),
    ]
}

fn end_fault() -> impl Strategy<Value = EndFault> {
    prop::sample::select(vec![EndFault::Count, EndFault::Refused, EndFault::Lost])
}

fn place() -> impl Strategy<Value = usize> {
    0..64_usize
}

fn accept() -> impl Strategy<Value = Accept> {
    let priority = prop::sample::select(Priority::ALL.to_vec());
    let topic = prop::sample::select(vec![0, 0, 0, 1, 2, 3, 4, 5, 6, 7]);
    (topic, priority, prop::bool::weighted(0.7)).prop_map(|(topic, priority, names_channel)| Accept {
        topic,
        priority,
        names_channel,
    })
}

fn claim() -> impl Strategy<Value = Claim> {
    (1..4_u32).prop_map(|limit| Claim { limit })
}

fn answer() -> impl Strategy<Value = Answer> {
    (place(), 0..3_usize, prop::bool::weighted(0.2)).prop_map(|(event, replies, elsewhere)| Answer {
        event,
        replies,
        elsewhere,
    })
}

fn poll() -> impl Strategy<Value = Poll> {
    (0..SOURCES, 1..4_u32, any::<bool>(), prop::sample::select(vec![1, 1, 1, 2, 3]))
        .prop_map(|(topic, max, ordered, times)| Poll { topic, max, ordered, times })
}

fn lease() -> impl Strategy<Value = Lease> {
    prop::sample::select(vec![Lease::Newest, Lease::Newest, Lease::Newest, Lease::Stale, Lease::Foreign])
}

fn suspend() -> impl Strategy<Value = Suspend> {
    let open_ms = prop::sample::select(vec![0_i64, 5_000, 900_000]);
    (place(), 1..3_u32, open_ms).prop_map(|(event, questions, open_ms)| Suspend { event, questions, open_ms })
}

fn resolve() -> impl Strategy<Value = Resolve> {
    let by = vec![By::Owner, By::Asked, By::Asked, By::Approver, By::OtherUser, By::OtherTopic];
    let times = prop::sample::select(vec![1, 1, 2, 3]);
    (place(), any::<bool>(), prop::sample::select(by), any::<bool>(), times).prop_map(
        |(question, approves, by, by_token, times)| Resolve { question, approves, by, by_token, times },
    )
}

fn decide() -> impl Strategy<Value = Decide> {
    let times = prop::sample::select(vec![1, 1, 2]);
    (place(), 1..4_u32, prop::bool::weighted(0.7), times).prop_map(|(job, slots, fires, times)| Decide {
        job,
        slots,
        fires,
        times,
    })
}
