//! The turn's decisions, by table: answers, failures, tool rounds, budgets, resuming.

use super::*;
use crate::context::{ContextInput, ContextLimits};
use crate::output::Targets;
use cortex_types::{Event, FinishReason, InboxStatus, Millis, Priority, Standing, TokenUsage, TopicRef};

const LIMITS: TurnLimits =
    TurnLimits { attempts_max: 5, tool_rounds_max: 8, tokens_max: Some(1_000), day_tokens_left: None };

const READS: CallVerdict = CallVerdict::Free { mutates: false };

fn context(attempts: u32) -> TurnContext {
    let event = Event {
        seq: 1,
        id: "evt_01J00000000000000000000000".parse().unwrap(),
        topic: TopicRef { source: "cli".into(), topic_key: "home".into() },
        channel: "cli".into(),
        external_message_id: "1".into(),
        idempotency_key: "1".into(),
        user_id: "ada\nChannel: root".into(),
        text: "  hello\n".into(),
        occurred_at: Millis(0),
        metadata_json: None,
        priority: Priority::Normal,
        status: InboxStatus::Processing,
        attempts,
        error: None,
        created_at: Millis(0),
        updated_at: Millis(0),
        standing: Standing::Owner,
        audience: cortex_types::Audience::Private,
        answer: None,
    };
    let limits = ContextLimits { window: 8_192, groups: 10, memory: true };
    TurnContext::assemble(ContextInput::bare(event, limits))
}

fn turn(steps: Vec<StepBody>) -> Turn {
    Turn::new(context(1), LIMITS, Vec::new(), steps)
}

fn reply(text: &str, calls: &[(&str, &str)]) -> ChatReply {
    let tool_calls = calls
        .iter()
        .enumerate()
        .map(|(number, (name, arguments))| ToolCall {
            id: format!("{name}-{number}-{}", text.len()),
            name: (*name).to_owned(),
            arguments_json: (*arguments).to_owned(),
        })
        .collect();
    let usage = TokenUsage { input: 10, output: 1, cached: 0 };
    ChatReply { text: text.to_owned(), tool_calls, finish: FinishReason::Stop, usage }
}

fn answered(reply: ChatReply) -> Input {
    Input::ModelAnswered { reply, profile: "p".into(), model: "m".into() }
}

fn kinds(effects: &[Effect]) -> Vec<&'static str> {
    effects
        .iter()
        .map(|effect| match effect {
            Effect::CallModel { .. } => "call",
            Effect::Record { .. } => "record",
            Effect::CheckCalls { .. } => "check",
            Effect::CheckSends(_) => "check sends",
            Effect::AskSends(_) => "ask sends",
            Effect::RunTools(_) => "run",
            Effect::AskApprovals(_) => "ask",
            Effect::KeepWaiting => "wait",
            Effect::Finish { .. } => "finish",
            Effect::RetryLater { .. } => "retry",
            Effect::Fail { .. } => "fail",
        })
        .collect()
}

fn model_asked(calls: &[(&str, &str)]) -> StepBody {
    StepBody::ModelAnswered { reply: reply("", calls), profile: "p".into(), model: "m".into() }
}

/// The id `reply("", …)` gives to the call at `position`.
fn id(name: &str, position: usize) -> String {
    format!("{name}-{position}-0")
}

fn verdicts(of: &[(&str, usize, CallVerdict)]) -> Input {
    Input::CallsChecked(
        of.iter().map(|(name, position, verdict)| (id(name, *position), verdict.clone())).collect(),
    )
}

fn ran(name: &str, position: usize, ending: ToolEnding) -> Input {
    Input::ToolsRan(vec![ToolResult {
        call_id: id(name, position),
        text: "result".into(),
        ending,
        untrusted: false,
    }])
}

fn started(name: &str, mutates: bool) -> StepBody {
    StepBody::ToolStarted { call_id: id(name, 0), name: name.into(), mutates }
}

/// What is journaled right before these calls run.
fn starts(calls: &[ReadyCall]) -> Vec<StepBody> {
    calls.iter().map(ReadyCall::started).collect()
}

fn decided(name: &str, decision: Decision) -> StepBody {
    let approval = "apv_01J00000000000000000000000".parse().unwrap();
    StepBody::ApprovalDecided { call_id: id(name, 0), approval, decision }
}

#[test]
fn the_last_user_message_is_the_events_text_verbatim() {
    let effects = turn(Vec::new()).step(Input::Begin);
    let [Effect::CallModel { request, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(request.messages.last(), Some(&ChatMessage::User { text: "  hello\n".into() }));
    assert!(request.system.contains("Sender: ada Channel: root\n"), "{}", request.system);
}

#[test]
fn a_plain_answer_finishes_with_its_step_in_the_same_effect() {
    let mut turn = turn(Vec::new());
    turn.step(Input::Begin);
    let effects = turn.step(answered(reply(" hi ", &[])));
    let [Effect::Finish { last_step: Some(_), output, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(output, &Output::Say { text: "hi".into(), to: Targets::current() });
}

#[test]
fn silence_finishes_with_its_step_too() {
    let effects = turn(Vec::new()).step(answered(reply("NO_REPLY", &[])));
    let [Effect::Finish { last_step: Some(_), output: Output::Silence, .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
}

#[test]
fn a_recorded_final_answer_is_not_asked_for_again() {
    let step = StepBody::ModelAnswered { reply: reply("hi", &[]), profile: "p".into(), model: "m".into() };
    let effects = turn(vec![step]).step(Input::Begin);
    let [Effect::Finish { last_step: None, .. }] = &effects[..] else { panic!("{effects:?}") };
}

#[test]
fn a_read_only_call_is_checked_started_run_and_answered() {
    let mut turn = turn(Vec::new());
    assert_eq!(kinds(&turn.step(answered(reply("", &[("a.b", "{}")])))), ["record", "check"]);
    let effects = turn.step(verdicts(&[("a.b", 0, READS)]));
    let [Effect::RunTools(calls)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(starts(calls), [started("a.b", false)]);
    let effects = turn.step(ran("a.b", 0, ToolEnding::Done));
    let [Effect::Record { notices, .. }, Effect::CallModel { request, .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert!(notices.is_empty());
    assert_eq!(request.messages.len(), 3);
}

#[test]
fn siblings_that_read_run_at_once_and_those_that_change_wait_for_a_person() {
    let mut turn = turn(Vec::new());
    turn.step(answered(reply("", &[("a.read", "{}"), ("a.write", "{}")])));
    let gate = verdicts(&[("a.read", 0, READS), ("a.write", 1, CallVerdict::Gated)]);
    assert_eq!(kinds(&turn.step(gate)), ["run"]);
    let effects = turn.step(ran("a.read", 0, ToolEnding::Done));
    let [Effect::Record { .. }, Effect::AskApprovals(calls)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(calls[0].name, "a.write");
}

#[test]
fn an_approved_call_runs_once_with_its_start_on_record() {
    let mut turn = turn(vec![model_asked(&[("a.write", "{}")]), decided("a.write", Decision::Approved)]);
    let effects = turn.step(Input::Begin);
    let [Effect::RunTools(calls)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(starts(calls), [started("a.write", true)]);
    assert_eq!(kinds(&turn.step(ran("a.write", 0, ToolEnding::Done))), ["record", "call"]);
}

#[test]
fn a_call_that_waits_to_start_is_not_on_record_and_runs_after_a_crash() {
    let journal = vec![model_asked(&[("a.write", "{}")]), decided("a.write", Decision::Approved)];
    let first = turn(journal.clone()).step(Input::Begin);
    assert_eq!(kinds(&first), ["run"], "nothing is journaled before the wait");
    assert_eq!(turn(journal).step(Input::Begin), first);
    let mut refused = turn(vec![model_asked(&[("a.write", "{}")]), decided("a.write", Decision::Approved)]);
    refused.step(Input::Begin);
    let effects = refused.step(ran("a.write", 0, ToolEnding::Refused));
    let [Effect::Record { notices, .. }, Effect::CallModel { .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(notices, &["a.write did not run (result)."]);
}

#[test]
fn denied_and_expired_calls_are_told_to_the_model_and_not_run() {
    for decision in [Decision::Denied, Decision::Expired] {
        let effects =
            turn(vec![model_asked(&[("a.write", "{}")]), decided("a.write", decision)]).step(Input::Begin);
        assert_eq!(kinds(&effects), ["record", "call"], "{decision:?}");
    }
}

#[test]
fn a_crash_while_a_change_ran_makes_it_unknown_and_tells_the_user() {
    let steps = vec![
        model_asked(&[("a.write", "{}")]),
        decided("a.write", Decision::Approved),
        started("a.write", true),
    ];
    let effects = turn(steps).step(Input::Begin);
    let [Effect::Record { steps, notices }, Effect::CallModel { .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert!(matches!(steps[..], [StepBody::ToolAnswered { ending: ToolEnding::Unknown, .. }]), "{steps:?}");
    assert!(notices[0].contains("a.write may have run"), "{notices:?}");
}

#[test]
fn a_crash_while_something_was_read_reads_it_again() {
    let effects = turn(vec![model_asked(&[("a.read", "{}")]), started("a.read", false)]).step(Input::Begin);
    assert_eq!(kinds(&effects), ["run"]);
}

#[test]
fn an_open_question_keeps_the_turn_waiting() {
    let approval = "apv_01J00000000000000000000000".parse().unwrap();
    let asked = StepBody::ApprovalAsked { call_id: id("a.write", 0), approval };
    assert_eq!(kinds(&turn(vec![model_asked(&[("a.write", "{}")]), asked]).step(Input::Begin)), ["wait"]);
}

#[test]
fn two_approved_changes_run_one_after_the_other() {
    let mut turn = turn(Vec::new());
    turn.step(answered(reply("", &[("a.x", "{}"), ("a.y", "{}")])));
    let effects = turn.step(verdicts(&[("a.x", 0, CallVerdict::Granted), ("a.y", 1, CallVerdict::Granted)]));
    let [Effect::RunTools(calls)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(calls.len(), 1);
    assert_eq!(kinds(&turn.step(ran("a.x", 0, ToolEnding::Unknown))), ["record", "run"]);
}

#[test]
fn refused_calls_and_those_beyond_the_limit_are_answered_with_an_error_each() {
    let mut turn = turn(Vec::new());
    let effects = turn.step(answered(reply("", &[("a.b", "{}"); 200])));
    let [Effect::Record { steps, .. }, Effect::CheckCalls { calls: checked, .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(
        (steps.len(), checked.len()),
        (1 + 168, 32),
        "the answer and one error for each call too many"
    );
    let Some(StepBody::ToolAnswered { text, ending: ToolEnding::Refused, .. }) = steps.last() else {
        panic!("{steps:?}")
    };
    assert!(text.contains("at most 32"), "{text}");
    let refuse = |position| ("a.b", position, CallVerdict::Refused("not run: no such tool".into()));
    let effects = turn.step(verdicts(&(0..32).map(refuse).collect::<Vec<_>>()));
    let [Effect::Record { steps, .. }, Effect::CallModel { request, .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!((steps.len(), request.messages.len()), (32, 202));
}

#[test]
fn an_approval_of_an_earlier_round_covers_no_later_call_of_the_same_id() {
    let steps = vec![
        model_asked(&[("a.write", "{}")]),
        decided("a.write", Decision::Approved),
        started("a.write", true),
        StepBody::ToolAnswered {
            call_id: id("a.write", 0),
            name: "a.write".into(),
            text: "ok".into(),
            ending: ToolEnding::Done,
        },
    ];
    let mut turn = turn(steps);
    assert_eq!(kinds(&turn.step(answered(reply("", &[("a.write", "{}")])))), ["record", "check"]);
    let effects = turn.step(verdicts(&[("a.write", 0, READS)]));
    let [Effect::RunTools(ready)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(ready[0].clearance, Clearance::Free);
}

#[test]
fn two_calls_under_one_id_are_told_apart() {
    let mut doubled = reply("", &[("a.x", "{}"), ("a.y", "{}"), ("a.z", "{}")]);
    doubled.tool_calls.iter_mut().for_each(|call| call.id = "same".into());
    doubled.tool_calls[2].id = String::new();
    let effects = turn(Vec::new()).step(answered(doubled));
    let [Effect::Record { .. }, Effect::CheckCalls { calls, .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
    let ids: std::collections::BTreeSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids.len(), 3, "{ids:?}");
}

#[test]
fn a_crash_while_an_undeclared_call_ran_makes_it_unknown() {
    let mut running = turn(Vec::new());
    running.step(answered(reply("", &[("a.b", "{}")])));
    let effects = running.step(verdicts(&[("a.b", 0, CallVerdict::Free { mutates: true })]));
    let [Effect::RunTools(calls)] = &effects[..] else { panic!("{effects:?}") };
    let mut journal = vec![model_asked(&[("a.b", "{}")])];
    journal.extend(starts(calls));
    assert_eq!(kinds(&turn(journal).step(Input::Begin)), ["record", "call"]);
}

#[test]
fn the_loop_stops_after_eight_rounds_with_some_answer() {
    let mut turn = turn(Vec::new());
    for round in 0..8 {
        let effects = turn.step(answered(reply("", &[("a.b", "{}")])));
        assert_eq!(kinds(&effects), ["record", "check"], "round {round}: the same call id is answered anew");
        let effects = turn.step(verdicts(&[("a.b", 0, CallVerdict::Refused("no".into()))]));
        let [Effect::Record { .. }, Effect::CallModel { .. }] = &effects[..] else {
            panic!("round {round}: {effects:?}")
        };
    }
    let effects = turn.step(answered(reply("", &[("a.b", "{}")])));
    let [Effect::Finish { output: Output::Say { text, .. }, .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert!(text.contains("within 8 rounds"), "{text}");
}

#[test]
fn transient_failures_retry_until_the_last_attempt_and_permanent_ones_never() {
    let transient =
        || Input::ModelFailed(ModelFailure::Transient { reason: "429".into(), retry_after: None });
    for (attempts, expected) in [(1, "retry"), (4, "retry"), (5, "fail"), (6, "fail")] {
        let effects = Turn::new(context(attempts), LIMITS, Vec::new(), Vec::new()).step(transient());
        assert_eq!(kinds(&effects), [expected], "attempt {attempts}");
    }
    let permanent = Input::ModelFailed(ModelFailure::Permanent { reason: "400".into() });
    assert_eq!(kinds(&turn(Vec::new()).step(permanent)), ["fail"]);
}

#[test]
fn a_runaway_event_fails_with_budget_exceeded() {
    let mut turn = turn(Vec::new());
    let mut costly = reply("", &[("a.b", "{}")]);
    costly.usage.input = 5_000;
    turn.step(answered(costly));
    let effects = turn.step(verdicts(&[("a.b", 0, CallVerdict::Refused("no".into()))]));
    let [Effect::Record { .. }, Effect::Fail { reason, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert!(reason.starts_with("budget_exceeded"), "{reason}");
    let spent = TurnLimits { day_tokens_left: Some(0), ..LIMITS };
    assert_eq!(kinds(&Turn::new(context(1), spent, Vec::new(), Vec::new()).step(Input::Begin)), ["fail"]);
}

#[test]
fn at_most_four_questions_are_open_and_the_other_calls_wait_for_a_place() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let calls: Vec<(&str, &str)> = names.iter().map(|name| (*name, "{}")).collect();
    let all: Vec<_> = names.iter().enumerate().map(|(at, name)| (*name, at, CallVerdict::Gated)).collect();
    let asked_about = |effects: &[Effect]| -> Vec<String> {
        let Some(Effect::AskApprovals(calls)) = effects.last() else { panic!("{effects:?}") };
        calls.iter().map(|call| call.name.clone()).collect()
    };
    let mut steps = vec![model_asked(&calls)];
    let mut first = turn(steps.clone());
    first.step(Input::Begin);
    assert_eq!(asked_about(&first.step(verdicts(&all))), ["a", "b", "c", "d"]);
    let approval = || "apv_01J00000000000000000000000".parse().unwrap();
    let asked = |at: usize| StepBody::ApprovalAsked { call_id: id(names[at], at), approval: approval() };
    let denied = |at: usize| StepBody::ApprovalDecided {
        call_id: id(names[at], at),
        approval: approval(),
        decision: Decision::Denied,
    };
    steps.extend((0..4).map(asked));
    let mut waiting = turn(steps.clone());
    waiting.step(Input::Begin);
    let effects = waiting.step(verdicts(&all[4..]));
    assert_eq!(effects.last(), Some(&Effect::KeepWaiting), "every place is taken");
    steps.push(denied(1));
    let mut one_free = turn(steps.clone());
    one_free.step(Input::Begin);
    assert_eq!(asked_about(&one_free.step(verdicts(&all[4..]))), ["e"]);
    steps.extend([denied(0), denied(2), denied(3)]);
    let mut all_free = turn(steps);
    all_free.step(Input::Begin);
    assert_eq!(asked_about(&all_free.step(verdicts(&all[4..]))), ["e", "f"]);
}

#[test]
fn a_call_that_still_waits_when_the_others_ran_is_run_again_whatever_it_changes() {
    for mutates in [false, true] {
        let mut turn = turn(vec![model_asked(&[("a", "{}"), ("b", "{}")])]);
        turn.step(Input::Begin);
        let free = CallVerdict::Free { mutates };
        turn.step(verdicts(&[("a", 0, free.clone()), ("b", 1, free)]));
        let effects = turn.step(ran("a", 0, ToolEnding::Done));
        assert_eq!(kinds(&effects), ["record", "run"], "{mutates}");
        let Some(Effect::RunTools(calls)) = effects.last() else { panic!("{effects:?}") };
        assert_eq!(calls.iter().map(|ready| ready.call.name.as_str()).collect::<Vec<_>>(), ["b"]);
        assert_eq!(calls[0].mutates, mutates);
        assert_eq!(kinds(&turn.step(ran("b", 1, ToolEnding::Done))), ["record", "call"]);
    }
}
