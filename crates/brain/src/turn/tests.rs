//! The turn's decisions, by table: answers, failures, tool rounds, budgets, resuming.

use super::*;
use crate::context::Floor;
use cortex_types::{Event, FinishReason, InboxStatus, Millis, Priority, TokenUsage, TopicRef};

const LIMITS: TurnLimits =
    TurnLimits { attempts_max: 5, tool_rounds_max: 8, tokens_max: Some(1_000), day_tokens_left: None };

fn context(attempts: u32) -> TurnContext {
    let event = Event {
        seq: 1,
        id: "evt_01J00000000000000000000000".parse().unwrap(),
        topic: TopicRef { source: "cli".into(), topic_key: "home".into() },
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
    };
    TurnContext { floor: Floor::default(), history: Vec::new(), event }
}

fn turn(steps: Vec<StepBody>) -> Turn {
    Turn::new(context(1), LIMITS, steps)
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
            Effect::CallModel(_) => "call",
            Effect::Record(_) => "record",
            Effect::Finish { .. } => "finish",
            Effect::RetryLater { .. } => "retry",
            Effect::Fail { .. } => "fail",
        })
        .collect()
}

#[test]
fn the_last_user_message_is_the_events_text_verbatim() {
    let effects = turn(Vec::new()).step(Input::Begin);
    let [Effect::CallModel(request)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(request.messages.last(), Some(&ChatMessage::User { text: "  hello\n".into() }));
    assert!(request.system.contains("Sender: ada Channel: root\n"), "{}", request.system);
}

#[test]
fn a_plain_answer_finishes_with_its_step_in_the_same_effect() {
    let mut turn = turn(Vec::new());
    turn.step(Input::Begin);
    let effects = turn.step(answered(reply(" hi ", &[])));
    let [Effect::Finish { last_step: Some(_), output, content }] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!((output, content.as_str()), (&Output::Say("hi".into()), "hi"));
}

#[test]
fn silence_is_recorded_and_not_said() {
    let effects = turn(Vec::new()).step(answered(reply("NO_REPLY", &[])));
    let [Effect::Finish { output: Output::Silence, content, .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(content, "[silence]");
}

#[test]
fn a_recorded_final_answer_is_not_asked_for_again() {
    let step = StepBody::ModelAnswered { reply: reply("hi", &[]), profile: "p".into(), model: "m".into() };
    let effects = turn(vec![step]).step(Input::Begin);
    let [Effect::Finish { last_step: None, .. }] = &effects[..] else { panic!("{effects:?}") };
}

#[test]
fn a_crash_between_tool_call_and_answer_resumes_with_the_tool() {
    let asked = reply("", &[("a.b", "{}")]);
    let step = StepBody::ModelAnswered { reply: asked, profile: "p".into(), model: "m".into() };
    assert_eq!(kinds(&turn(vec![step]).step(Input::Begin)), ["record", "call"]);
}

#[test]
fn wrong_tool_calls_are_answered_with_an_error_each() {
    let mut turn = turn(Vec::new());
    let calls: Vec<(&str, &str)> =
        std::iter::once(("a.b", "{not json")).chain([("a.b", "{}"); 199]).collect();
    let effects = turn.step(answered(reply("", &calls)));
    let [Effect::Record(steps), Effect::CallModel(request)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(steps.len(), 201);
    let texts: Vec<&str> = steps
        .iter()
        .filter_map(|step| match step {
            StepBody::ToolAnswered { text, is_error: true, .. } => Some(text.as_str()),
            StepBody::ToolAnswered { .. } | StepBody::ModelAnswered { .. } => None,
        })
        .collect();
    assert!(texts[0].contains("not valid JSON"), "{}", texts[0]);
    assert!(texts[1].contains("no tool named a.b"), "{}", texts[1]);
    assert!(texts[199].contains("at most 32"), "{}", texts[199]);
    assert_eq!(request.messages.len(), 202);
}

#[test]
fn the_loop_stops_after_eight_rounds_with_some_answer() {
    let mut turn = turn(Vec::new());
    for round in 0..8 {
        let effects = turn.step(answered(reply("", &[("a.b", "{}")])));
        let [Effect::Record(steps), Effect::CallModel(_)] = &effects[..] else {
            panic!("round {round}: {effects:?}")
        };
        assert_eq!(steps.len(), 2, "round {round}: the same call id is answered anew");
    }
    let effects = turn.step(answered(reply("", &[("a.b", "{}")])));
    let [Effect::Finish { content, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert!(content.contains("within 8 rounds"), "{content}");
}

#[test]
fn transient_failures_retry_until_the_last_attempt_and_permanent_ones_never() {
    let transient =
        || Input::ModelFailed(ModelFailure::Transient { reason: "429".into(), retry_after: None });
    for (attempts, expected) in [(1, "retry"), (4, "retry"), (5, "fail"), (6, "fail")] {
        let effects = Turn::new(context(attempts), LIMITS, Vec::new()).step(transient());
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
    let effects = turn.step(answered(costly));
    let [Effect::Record(_), Effect::Fail { reason, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert!(reason.starts_with("budget_exceeded"), "{reason}");
    let spent = TurnLimits { day_tokens_left: Some(0), ..LIMITS };
    assert_eq!(kinds(&Turn::new(context(1), spent, Vec::new()).step(Input::Begin)), ["fail"]);
}
