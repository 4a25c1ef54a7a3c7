//! Who runs when: topics side by side up to the limit, one event of a topic at a time, urgent before old.

use crate::far_side::{FarSide, Question};
use cortex_testkit::{FrozenTime, RuntimeSetup, TestModels, TestRuntime};
use cortex_types::{CLI_SOURCE, InboxStatus, OPENAI_SOURCE, Priority, Speaker};
use std::collections::HashSet;

async fn start(time: &FrozenTime, parallel: u32) -> (FarSide, TestRuntime) {
    let far = FarSide::listen().await;
    let setup = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), time)
        .flow(move |flow| flow.max_parallel_topics = parallel);
    (far, setup.start().await)
}

/// The topic of a question whose text is `<topic> <number>`.
fn topic_of(question: &Question) -> String {
    question.text().split(' ').next().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn topics_run_side_by_side_up_to_the_limit_and_never_two_events_of_one() {
    let time = FrozenTime::hold();
    // The fourth place is the owner's.
    let (mut far, flow) = start(&time, 4).await;
    let mut last = Vec::new();
    for number in 0..4 {
        for topic in ["a", "b", "c", "d", "e"] {
            last.push(flow.say(topic, &format!("{topic} {number}")).await);
        }
    }
    let mut running: Vec<Question> = Vec::new();
    let mut seen = Vec::new();
    for _ in 0..20 {
        while running.len() < 3 && seen.len() + running.len() < 20 {
            running.push(far.question().await);
        }
        let topics: HashSet<String> = running.iter().map(topic_of).collect();
        assert_eq!(topics.len(), running.len(), "two events of one topic run at once");
        assert!(far.waiting().is_none(), "a fourth topic runs");
        let next = running.remove(0);
        seen.push(next.text().to_owned());
        next.say("ok");
    }
    for id in &last {
        flow.reaches(id, InboxStatus::Done).await;
    }
    for topic in ["a", "b", "c", "d", "e"] {
        let numbers: Vec<&str> =
            seen.iter().filter_map(|text| text.strip_prefix(topic)).map(str::trim).collect();
        assert_eq!(numbers, ["0", "1", "2", "3"], "topic {topic} in the order of arrival");
    }
    assert_eq!(far.asked(), 20);
}

#[tokio::test(start_paused = true)]
async fn however_long_the_turns_of_others_take_the_owner_has_a_place() {
    let time = FrozenTime::hold();
    let (mut far, flow) = start(&time, 4).await;
    let mut slow = Vec::new();
    for number in 0..4 {
        flow.say_as(&Speaker::local("nobody"), &format!("s{number}"), &format!("stranger {number}")).await;
    }
    for _ in 0..2 {
        slow.push(far.question().await);
    }
    for number in 0..4 {
        flow.say_as(&Speaker::key("telegram"), &format!("t{number}"), &format!("telegram {number}")).await;
    }
    slow.push(far.question().await);
    let asked: Vec<String> = slow.iter().map(topic_of).collect();
    assert_eq!(asked, ["stranger", "stranger", "telegram"], "strangers have half, others all but one");
    assert!(far.waiting().is_none(), "the last place is the terminal's");
    terminal_is_answered(&mut far, &flow).await;
}

async fn terminal_is_answered(far: &mut FarSide, flow: &TestRuntime) {
    let mine = flow.say_as(&Speaker::owner(CLI_SOURCE), "main", "mine").await;
    let question = far.question().await;
    assert_eq!(question.text(), "mine");
    question.say("ok");
    flow.reaches(&mine, InboxStatus::Done).await;
}

#[tokio::test(start_paused = true)]
async fn however_many_slow_turns_the_owners_programs_begin_his_terminal_has_a_place() {
    let time = FrozenTime::hold();
    let (mut far, flow) = start(&time, 4).await;
    for number in 0..8 {
        flow.say_as(&Speaker::owner(OPENAI_SOURCE), &format!("chat{number}"), &format!("slow {number}"))
            .await;
    }
    let mut slow = Vec::new();
    for _ in 0..3 {
        slow.push(far.question().await);
    }
    assert!(far.waiting().is_none(), "the last place is the terminal's");
    terminal_is_answered(&mut far, &flow).await;
    slow.remove(0).say("ok");
    assert_eq!(topic_of(&far.question().await), "slow", "they are not held to the half of strangers");
}

#[tokio::test(start_paused = true)]
async fn one_parallel_topic_is_strict_order() {
    let time = FrozenTime::hold();
    let (mut far, flow) = start(&time, 1).await;
    for text in ["a 1", "b 1", "a 2", "c 1"] {
        flow.say(&text[..1], text).await;
    }
    for wanted in ["a 1", "b 1", "a 2", "c 1"] {
        let question = far.question().await;
        assert_eq!(question.text(), wanted);
        assert!(far.waiting().is_none(), "only one runs");
        question.say("ok");
    }
}

#[tokio::test(start_paused = true)]
async fn urgent_goes_before_normal_before_background_and_fifo_inside() {
    let time = FrozenTime::hold();
    let (mut far, flow) = start(&time, 1).await;
    flow.say("busy", "busy").await;
    let busy = far.question().await;
    for (topic, priority) in [
        ("late 1", Priority::Background),
        ("plain 1", Priority::Normal),
        ("late 2", Priority::Background),
        ("soon 1", Priority::Urgent),
        ("plain 2", Priority::Normal),
        ("soon 2", Priority::Urgent),
    ] {
        flow.say_at(topic, topic, priority).await;
    }
    busy.say("ok");
    for wanted in ["soon 1", "soon 2", "plain 1", "plain 2", "late 1", "late 2"] {
        let question = far.question().await;
        assert_eq!(question.text(), wanted);
        question.say("ok");
    }
}

#[tokio::test(start_paused = true)]
async fn an_urgent_event_overtakes_inside_its_own_topic_but_never_what_runs() {
    let time = FrozenTime::hold();
    let (mut far, flow) = start(&time, 4).await;
    flow.say("a", "first").await;
    let first = far.question().await;
    flow.say("a", "second").await;
    let urgent = flow.say_at("a", "urgent", Priority::Urgent).await;
    assert_eq!(flow.event(&urgent).await.status, InboxStatus::Pending);
    assert!(far.waiting().is_none(), "its topic is busy");
    first.say("ok");
    for wanted in ["urgent", "second"] {
        let question = far.question().await;
        assert_eq!(question.text(), wanted);
        question.say("ok");
    }
}
