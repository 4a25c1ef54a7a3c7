//! Odd answers through the whole loop: every one of them ends in something the user can read (F-L4).

use crate::far_side::{Answering, FarSide, Question, called, said};
use cortex_testkit::{FrozenTime, RuntimeSetup, TestModels, TestRuntime};
use cortex_types::{InboxStatus, StepBody};

async fn start(
    time: &FrozenTime,
    answer: impl Fn(&Question) -> String + Send + 'static,
) -> (Answering, TestRuntime) {
    let far = FarSide::listen().await.answer_all(answer);
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), time).start().await;
    (far, flow)
}

/// What the tools have said in this conversation.
fn tool_texts(question: &Question) -> Vec<String> {
    let messages = question.body["messages"].as_array().unwrap().iter();
    let tools = messages.filter(|message| message["role"] == "tool");
    tools.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

/// Calls these tools once, then repeats what it was told about them.
fn calling_once(calls: &'static [(&str, &str, &str)]) -> impl Fn(&Question) -> String + Send + 'static {
    move |question| match &tool_texts(question)[..] {
        [] => called(calls),
        told => said(&told.join(" | ")),
    }
}

async fn check(calls: &'static [(&str, &str, &str)], reply: &str) {
    let time = FrozenTime::hold();
    let (far, flow) = start(&time, calling_once(calls)).await;
    let id = flow.say("a", "hello").await;
    flow.reaches(&id, InboxStatus::Done).await;
    assert_eq!((flow.replies(&id).await, far.asked()), (vec![reply.to_owned()], 2));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_not_there_is_an_error_the_model_is_told() {
    check(&[("1", "weather__now", "{}")], "Error: not run: there is no tool \"weather.now\"").await;
}

#[tokio::test(start_paused = true)]
async fn arguments_that_are_no_json_are_an_error_the_model_is_told() {
    let reply = "Error: not run: bad arguments for schedule.list: the arguments are not a JSON object: \
                 expected value at line 1 column 10";
    check(&[("1", "schedule__list", "{\"city\": Bonn}")], reply).await;
}

#[tokio::test(start_paused = true)]
async fn calls_with_the_same_id_are_each_answered() {
    let reply = "Error: not run: there is no tool \"a.b\" | Error: not run: there is no tool \"c.d\"";
    check(&[("same", "a__b", "{}"), ("same", "c__d", "{}")], reply).await;
}

#[tokio::test(start_paused = true)]
async fn of_two_hundred_calls_at_once_only_the_first_are_looked_at() {
    let time = FrozenTime::hold();
    let names: Vec<(String, String)> = (0..200).map(|n| (format!("id {n}"), format!("a__t{n}"))).collect();
    let (far, flow) = start(&time, move |question| {
        let calls: Vec<(&str, &str, &str)> =
            names.iter().map(|(id, name)| (id.as_str(), name.as_str(), "{}")).collect();
        if tool_texts(question).is_empty() { called(&calls) } else { said("Done.") }
    })
    .await;
    let id = flow.say("a", "hello").await;
    flow.reaches(&id, InboxStatus::Done).await;
    let answered = flow.trace(&id).await.steps;
    let tools = answered.iter().filter(|step| matches!(step.body, StepBody::ToolAnswered { .. })).count();
    assert_eq!((tools, far.asked()), (32, 2));
    assert_eq!(flow.replies(&id).await, ["Done."]);
}

#[tokio::test(start_paused = true)]
async fn the_loop_ends_after_eight_rounds_of_tools_and_one_last_answer() {
    let time = FrozenTime::hold();
    let (far, flow) = start(&time, |_| called(&[("1", "a__b", "{}")])).await;
    let id = flow.say("a", "hello").await;
    flow.reaches(&id, InboxStatus::Done).await;
    assert_eq!(far.asked(), 9);
    assert_eq!(flow.replies(&id).await, ["I could not finish this within 8 rounds of tool calls."]);
}

#[tokio::test(start_paused = true)]
async fn the_last_answer_of_a_long_loop_is_what_the_user_gets() {
    let time = FrozenTime::hold();
    let (far, flow) = start(&time, |question| {
        if tool_texts(question).len() < 8 { called(&[("1", "a__b", "{}")]) } else { said("Enough of it.") }
    })
    .await;
    let id = flow.say("a", "hello").await;
    flow.reaches(&id, InboxStatus::Done).await;
    assert_eq!((far.asked(), flow.replies(&id).await), (9, vec!["Enough of it.".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_huge_reply_is_cut_with_a_mark_and_still_delivered() {
    let time = FrozenTime::hold();
    let (_far, flow) = start(&time, |_| said(&"ü".repeat(2_500_000))).await;
    let id = flow.say("a", "hello").await;
    flow.reaches(&id, InboxStatus::Done).await;
    let reply = flow.replies(&id).await.remove(0);
    assert!(reply.len() <= 512 * 1024, "{} bytes", reply.len());
    assert!(reply.ends_with("[The answer was too long and was cut here.]"), "{}", &reply[reply.len() - 60..]);
}

#[tokio::test(start_paused = true)]
async fn the_tools_of_the_flow_itself_are_offered_under_names_a_model_can_say() {
    let time = FrozenTime::hold();
    let (_far, flow) = start(&time, |question| {
        let tools = question.body["tools"].as_array().unwrap().iter();
        let names: Vec<&str> = tools.map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
        said(&names.join(" "))
    })
    .await;
    let id = flow.say("a", "hello").await;
    flow.reaches(&id, InboxStatus::Done).await;
    let offered = "memory__forget memory__query memory__remember schedule__create schedule__delete \
                   schedule__list schedule__pause schedule__preview schedule__resume schedule__update \
                   session__history";
    assert_eq!(flow.replies(&id).await, [offered]);
}

#[tokio::test(start_paused = true)]
async fn arguments_that_do_not_fit_the_schema_are_an_error_the_model_is_told() {
    let reply = "Error: not run: bad arguments for schedule.delete: \"id\" is a required property";
    check(&[("1", "schedule__delete", "{}")], reply).await;
}
