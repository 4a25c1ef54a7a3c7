//! A turn with two questions: each answer counts by itself, and one that comes while the turn runs is not lost.

use cortex_store::{
    Answerer, ApprovalKey, AskedApproval, Claimed, PageRequest, Resolved, Suspension, TurnEnd,
};
use cortex_testkit::{TempStore, new_event, new_reply, topic};
use cortex_types::{
    ApprovalId, ApprovalStatus, Decision, Event, GrantId, InboxStatus, Millis, NewApproval, Step, StepBody,
    ToolEnding,
};
use std::collections::BTreeSet;
use std::time::Duration;
use ulid::Ulid;

const NOW: Millis = Millis(1_000);

pub(crate) struct Asked {
    pub(crate) store: TempStore,
    pub(crate) claimed: Claimed,
    pub(crate) questions: Vec<ApprovalId>,
}

impl Asked {
    /// An event that was asked about two calls and waits.
    pub(crate) async fn two() -> Self {
        let store = TempStore::create();
        Self::on(store, "test", 0).await
    }

    /// The same on another source; the tokens count up from `first`.
    async fn on(store: TempStore, source: &str, first: u8) -> Self {
        store.inbox().accept(new_event(&topic(source, "a"), "go both"), NOW).await.unwrap();
        let claimed = store.inbox().claim_next(1, NOW).await.unwrap().whole.remove(0);
        let questions: Vec<ApprovalId> = (0..2).map(|_| ApprovalId::from_ulid(Ulid::generate())).collect();
        let asked = questions.iter().enumerate().map(|(number, id)| {
            let call_id = format!("call {number}");
            let body = StepBody::ApprovalAsked { call_id: call_id.clone(), approval: id.clone() };
            let approval = NewApproval {
                id: id.clone(),
                token_sha256: [first + u8::try_from(number).unwrap(); 32],
                call_id,
                tool_name: "box.send".to_owned(),
                tool_arguments_json: "{}".to_owned(),
                question: "May I?".to_owned(),
                preview: None,
                binding: [9; 32],
                expires_at: Millis(900_000),
            };
            let prompt = new_reply(&claimed.event.topic, "may I?");
            (Step { number: 0, at: NOW, body }, AskedApproval { approval, prompt })
        });
        let (steps, asked) = asked.unzip();
        let suspension = Suspension { steps, asked, ..Suspension::default() };
        store.approvals().suspend(&claimed.event, suspension, NOW).await.unwrap();
        Self { store, claimed, questions }
    }

    pub(crate) async fn decide(&self, question: usize, decision: Decision) -> Resolved {
        let key = ApprovalKey::Id(self.questions[question].clone());
        self.store.approvals().resolve(key, decision, Answerer::Owner, NOW, |_| None).await.unwrap()
    }

    pub(crate) async fn claim(&self) -> Option<Claimed> {
        self.store.inbox().claim_next(1, NOW).await.unwrap().whole.pop()
    }

    pub(crate) async fn event(&self) -> (InboxStatus, u32) {
        let event = self.store.inbox().find(self.claimed.event.id.clone()).await.unwrap().unwrap();
        (event.status, event.attempts)
    }

    /// The first call runs and is answered; then the turn rests.
    async fn run_first_and_rest(&self, running: &Claimed, meanwhile: impl AsyncFnOnce()) {
        let (call_id, name) = ("call 0".to_owned(), "box.send".to_owned());
        let started = StepBody::ToolStarted { call_id: call_id.clone(), name: name.clone(), mutates: true };
        let answered =
            StepBody::ToolAnswered { call_id, name, text: "sent".to_owned(), ending: ToolEnding::Done };
        let number = u32::try_from(running.steps.len()).unwrap();
        let record = async |number, body| {
            let steps = vec![Step { number, at: NOW, body }];
            self.store
                .turns()
                .record_steps(&running.event, steps, Vec::new(), Vec::new(), NOW)
                .await
                .unwrap();
        };
        record(number, started).await;
        meanwhile().await;
        record(number + 1, answered).await;
        self.store.turns().finish_turn(&running.event, TurnEnd::Waiting, Vec::new(), NOW).await.unwrap();
    }
}

#[tokio::test]
async fn what_was_approved_wakes_its_turn_while_another_question_is_open() {
    let asked = Asked::two().await;
    assert_eq!(asked.event().await, (InboxStatus::Waiting, 0));
    asked.decide(0, Decision::Approved).await;
    let running = asked.claim().await.expect("what was approved runs at once");
    asked.run_first_and_rest(&running, async || {}).await;
    assert_eq!(asked.event().await, (InboxStatus::Waiting, 0), "waiting again costs no attempt");
    assert!(asked.claim().await.is_none());
}

#[tokio::test]
async fn what_was_asked_stands_in_the_history_once_in_its_place_with_what_came_of_it() {
    let asked = Asked::two().await;
    let chat = topic("test", "a");
    let lines = async || -> Vec<String> {
        let history = asked.store.turns().history(chat.clone(), 10).await.unwrap();
        history.into_iter().map(|row| format!("{}: {}", row.role, row.content)).collect()
    };
    let open = "assistant: [asked the user to approve box.send {}: waiting for their answer]";
    assert_eq!(lines().await, ["user: go both", open, open]);
    asked.decide(0, Decision::Approved).await;
    asked.decide(1, Decision::Denied).await;
    let running = asked.claim().await.unwrap();
    let end = cortex_testkit::answered("sent one", Vec::new());
    asked.store.turns().finish_turn(&running.event, end, Vec::new(), NOW).await.unwrap();
    let ended = [
        "user: go both",
        "assistant: [asked the user to approve box.send {}: they approved it]",
        "assistant: [asked the user to approve box.send {}: they denied it]",
        "assistant: sent one",
    ];
    assert_eq!(lines().await, ended);
    asked.store.check_integrity().await.unwrap();
}

#[tokio::test]
async fn a_denial_alone_wakes_nothing() {
    let asked = Asked::two().await;
    asked.decide(1, Decision::Denied).await;
    assert!(asked.claim().await.is_none());
    asked.decide(0, Decision::Denied).await;
    assert_eq!(asked.claim().await.unwrap().steps.len(), 4);
}

#[tokio::test]
async fn an_answer_that_comes_while_the_first_call_runs_is_journaled_and_the_turn_goes_on() {
    let asked = Asked::two().await;
    asked.decide(0, Decision::Approved).await;
    let running = asked.claim().await.unwrap();
    let meanwhile = async || drop(asked.decide(1, Decision::Approved).await);
    asked.run_first_and_rest(&running, meanwhile).await;
    assert_eq!(asked.event().await, (InboxStatus::Pending, 0));
    let kinds: Vec<&str> = asked.claim().await.unwrap().steps.iter().map(|step| step.body.kind()).collect();
    let expected = [
        "approval_asked",
        "approval_asked",
        "approval_decided",
        "tool_started",
        "approval_decided",
        "tool_answered",
    ];
    assert_eq!(kinds, expected);
}

#[tokio::test]
async fn a_question_of_a_turn_that_failed_can_no_longer_be_approved() {
    let asked = Asked::two().await;
    asked.decide(0, Decision::Approved).await;
    let running = asked.claim().await.unwrap();
    let failed = TurnEnd::Failed { reason: "broken".to_owned(), replies: Vec::new() };
    asked.store.turns().finish_turn(&running.event, failed, Vec::new(), NOW).await.unwrap();
    let Resolved::Expired(approval) = asked.decide(1, Decision::Approved).await else {
        panic!("nobody may be told that it runs")
    };
    assert_eq!(approval.status, ApprovalStatus::Expired);
    assert_eq!(asked.event().await.0, InboxStatus::Failed);
}

#[tokio::test]
async fn the_watchdog_wakes_an_event_that_waits_although_nobody_is_asked() {
    let asked = Asked::two().await;
    let look = async || asked.store.watchdog().look(BTreeSet::new()).await.unwrap();
    assert!(look().await.is_empty(), "a person is asked");
    // As a fault between an answer and its event would leave it.
    let connection = rusqlite::Connection::open(asked.store.path()).unwrap();
    assert_eq!(connection.execute("UPDATE pending_approvals SET status = 'denied'", []).unwrap(), 2);
    let stranded = look().await;
    assert_eq!(stranded.unasked, [asked.claimed.event.seq]);
    let notice = |event: &Event| new_reply(&event.topic, "lost");
    let rescued = asked.store.watchdog().rescue(stranded, 3, NOW, notice).await.unwrap();
    assert_eq!((rescued.topics, asked.event().await.0), (1, InboxStatus::Pending));
    let running = asked.claim().await.unwrap();
    let ends = running.steps.iter().filter(|step| step.body.kind() == "approval_decided");
    assert_eq!(ends.count(), 2, "otherwise the turn would rest again, and so for ever");
    assert!(look().await.unasked.is_empty());
}

#[tokio::test]
async fn what_was_asked_and_granted_while_the_clock_was_ahead_lasts_as_long_as_it_was_meant_to() {
    let asked = Asked::two().await;
    let approvals = asked.store.approvals();
    let grant = GrantId::from_ulid(Ulid::generate());
    let half_an_hour = Duration::from_secs(1_800);
    approvals.grant(grant, asked.questions[0].clone(), half_an_hour, NOW).await.unwrap();
    // The clock was ten minutes ahead.
    let mended = Millis(NOW.0 - 600_000);
    assert_eq!(approvals.clamp_future(mended).await, Ok(3));
    assert_eq!(approvals.clamp_future(mended).await, Ok(0));
    let row = approvals.find(asked.questions[0].clone()).await.unwrap().unwrap();
    assert_eq!(row.expires_at, Millis(900_000 - 600_000));
    let end = mended.after(half_an_hour);
    assert_eq!(approvals.is_granted([9; 32], Millis(end.0 - 1)).await, Ok(true));
    assert_eq!(approvals.is_granted([9; 32], end).await, Ok(false));
}

#[tokio::test]
async fn pages_of_questions_end_with_those_of_sessions_without_a_key() {
    let (mut known, mut without_key) = (Vec::new(), Vec::new());
    let mut store = TempStore::create();
    for (first, source) in [(0, "local:a"), (10, "telegram"), (20, "local:b"), (30, "cli")] {
        let asked = Asked::on(store, source, first).await;
        let listed = if source.starts_with("local:") { &mut without_key } else { &mut known };
        asked.questions.iter().for_each(|id| listed.insert(0, id.clone()));
        store = asked.store;
    }
    let expected = [known, without_key].concat();
    // Pages end in the first group, between the two, and in the second.
    for limit in [1, 3, 4, 5, 8, 500] {
        let (mut seen, mut page) = (Vec::new(), PageRequest::newest(limit));
        loop {
            let found = store.approvals().list(true, page).await.unwrap();
            assert!(found.rows.len() <= limit as usize);
            seen.extend(found.rows.into_iter().map(|approval| approval.id));
            let Some(before) = found.next_before else { break };
            page.before = Some(before);
        }
        assert_eq!(seen, expected, "{limit}");
    }
}
