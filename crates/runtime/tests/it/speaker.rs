//! Who speaks decides what a turn sees and who may answer a question.

use crate::hands::{ADA, Person, Stage, last_words};
use cortex_store::PageRequest;
use cortex_types::limits::STRANGERS_QUESTIONS_MAX;
use cortex_types::{InboxStatus, Speaker};

/// Somebody on a source of his own.
const BOSS: Person = Person("mail", "office", "boss");

/// The words of the button of the newest question.
async fn press(stage: &Stage) -> String {
    format!("{}:approve", stage.tokens().await.pop().unwrap())
}

#[tokio::test(start_paused = true)]
async fn only_a_person_on_a_source_that_proved_itself_answers() {
    let approvers = |flow: &mut cortex_runtime::RuntimeConfig| flow.approvers = vec!["boss".to_owned()];
    let unproven = [
        ("a program without a key", Speaker::local(ADA.0), ADA),
        ("a hook that posts where it was asked", Speaker::hook("hook:ci", ADA.0), ADA),
        ("a hook that names an approver", Speaker::hook("hook:ci", BOSS.0), BOSS),
        ("a program without a key that names an approver", Speaker::local(BOSS.0), BOSS),
        ("a connector's key that claims an approver of another source", Speaker::key(BOSS.0), BOSS),
    ];
    for (who, speaker, person) in unproven {
        let stage = Stage::set(approvers).await;
        let asking = stage.event(ADA, "go", None).await;
        let press = press(&stage).await;
        let metadata = format!(r#"{{"data":"{press}"}}"#);
        stage.event_by(speaker.clone(), person, &press, None).await;
        stage.event_by(speaker, person, "clicked", Some(&metadata)).await;
        assert_eq!(stage.counting.sent().len(), 0, "{who}");
        assert_eq!(stage.flow.event(&asking).await.status, InboxStatus::Waiting, "{who}");
        let told = stage.lines().await;
        assert!(told.iter().filter(|line| line.contains("not yours")).count() == 2, "{who}: {told:?}");
        stage.event_by(Speaker::key(ADA.0), ADA, &press, None).await;
        assert_eq!(stage.counting.sent().len(), 1, "{who}: the person who was asked still can");
    }
    for (who, speaker) in
        [("the owner's key", Speaker::owner(BOSS.0)), ("a restart in between", Speaker::owner(BOSS.0))]
    {
        let mut stage = Stage::set(approvers).await;
        stage.event(ADA, "go", None).await;
        let press = press(&stage).await;
        if who.contains("restart") {
            stage = stage.restart("Sends it.").await;
        }
        stage.event_by(speaker, BOSS, &press, None).await;
        assert_eq!(stage.counting.sent().len(), 1, "{who}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_claims_nobody_of_another_source() {
    let of_ada = |flow: &mut cortex_runtime::RuntimeConfig| {
        let accounts = vec!["tg:1".to_owned(), "mail/boss".to_owned()];
        flow.channels.identities.insert("ada".to_owned(), accounts);
    };
    let stage = Stage::set(of_ada).await;
    let fact = cortex_types::FactScope::User("tg:1".to_owned());
    let kept = crate::known_facts::fact("Ada likes marzipan", fact);
    stage.flow.runtime.memory().remember(kept).await.unwrap();
    for (source, user, person, is_ada) in [
        ("mail", "tg:1", "mail/tg:1", false),
        ("slack", "mail/boss", "slack/mail/boss", false),
        ("telegram", "tg:1", "tg:1", true),
        ("mail", "boss", "mail/boss", true),
    ] {
        let id = stage.event_by(Speaker::key(source), Person(source, user, user), "hello", None).await;
        assert_eq!(stage.flow.event(&id).await.user_id, person);
        let prompt = stage.heard.lock().unwrap().last().unwrap().to_string();
        assert_eq!(prompt.contains("marzipan"), is_ada, "{source} {user}: {prompt}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_without_a_key_does_not_approve_its_own_question_either() {
    let stage = Stage::set(|_| {}).await;
    let stranger = Speaker::local("m");
    stage.event_by(stranger.clone(), ADA, "go", None).await;
    let press = press(&stage).await;
    stage.event_by(stranger, ADA, &press, None).await;
    assert_eq!(stage.counting.sent().len(), 0);
    let open = stage.flow.runtime.approvals().list(true, PageRequest::newest(10)).await.unwrap().rows;
    assert_eq!((open.len(), open[0].user_id.as_str()), (1, "local:m:ada"), "the owner decides");
}

#[tokio::test(start_paused = true)]
async fn the_questions_of_a_program_without_a_key_are_few_and_listed_last() {
    let stage = Stage::set(|_| {}).await;
    stage.event(ADA, "go", None).await;
    for room in ["1", "2", "3", "4", "5", "6"] {
        stage.event_by(Speaker::local("m"), Person("m", room, "eve"), "go", None).await;
    }
    let open = stage.flow.runtime.approvals().list(true, PageRequest::newest(10)).await.unwrap().rows;
    let asked: Vec<&str> = open.iter().map(|asked| asked.topic.source.as_str()).collect();
    assert_eq!(asked, ["test", "local:m", "local:m", "local:m", "local:m"]);
    stage.event_by(Speaker::local("n"), Person("n", "1", "eve"), "go", None).await;
    let open = stage.flow.runtime.approvals().list(true, PageRequest::newest(10)).await.unwrap().rows;
    assert_eq!(open.len(), 6, "another program has places of its own");
}

#[tokio::test(start_paused = true)]
async fn a_new_name_makes_no_room_for_more_questions() {
    let stage = Stage::set(|_| {}).await;
    let open =
        async || stage.flow.runtime.approvals().list(true, PageRequest::newest(100)).await.unwrap().rows;
    for name in ["a", "b", "c", "d", "e", "f"] {
        for room in ["1", "2", "3"] {
            stage.event_by(Speaker::local(name), Person(name, room, "eve"), "go", None).await;
        }
    }
    let asked = open().await;
    assert_eq!(asked.len(), STRANGERS_QUESTIONS_MAX, "of eighteen that would be asked");
    let (_, told) = stage.heard.lock().unwrap().last().map(last_words).unwrap();
    let words = "not run: too many questions of programs without a key wait for the owner";
    assert!(told[0].contains(words), "the turn that could not ask went on: {told:?}");
    stage.event(ADA, "go", None).await;
    assert_eq!(open().await.len(), STRANGERS_QUESTIONS_MAX + 1, "a person is asked all the same");
    let approvals = stage.flow.runtime.approvals();
    approvals.decide(asked[0].id.clone(), cortex_types::Decision::Denied).await.unwrap();
    stage.settled().await;
    stage.event_by(Speaker::local("g"), Person("g", "1", "eve"), "go", None).await;
    assert_eq!(open().await.len(), STRANGERS_QUESTIONS_MAX + 1, "a place is free once one is answered");
}

#[tokio::test(start_paused = true)]
async fn no_row_keeps_a_token_that_came_with_an_answer() {
    let stage = Stage::set(|_| {}).await;
    stage.event(ADA, "go", None).await;
    let token = stage.tokens().await.pop().unwrap();
    let metadata = format!(r#"{{"messageType":"button_click","data":"{token}:approve"}}"#);
    for (text, metadata) in [
        (format!("{token}:later"), None),
        (format!("see {token}"), None),
        ("clicked".to_owned(), Some(metadata.as_str())),
    ] {
        let id = stage.event(ADA, &text, metadata).await;
        let event = stage.flow.event(&id).await;
        let kept = format!("{} {:?}", event.text, event.metadata_json);
        assert!(!kept.contains(&token) && kept.contains("apr_…"), "{kept}");
    }
    assert_eq!(stage.counting.sent().len(), 1, "the last one was an answer");
    for message in stage.outbox().await {
        let row = format!("{} {:?}", message.text, message.payload_json);
        assert!(!row.contains(&token), "{row}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_without_a_key_sees_nothing_of_the_owner_and_the_owner_nothing_of_it() {
    let stage = Stage::set(|flow| {
        std::fs::create_dir_all(&flow.workspace).unwrap();
        for (file, words) in [("SOUL.md", "SOULWORD"), ("USER.md", "USERWORD"), ("MEMORY.md", "MEMORYWORD")] {
            std::fs::write(flow.workspace.join(file), words).unwrap();
        }
    })
    .await;
    stage.event(ADA, "my PLANWORD is secret", None).await;
    stage.event_by(Speaker::local("m"), Person("local:m", "a", "ada"), "STRANGERWORD", None).await;
    stage.event(Person("other", "b", "ada"), "and now", None).await;
    let requests = stage.heard.lock().unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
    let [_, strangers, owners] = &requests[..] else { panic!("three turns: {}", requests.len()) };
    assert!(strangers.contains("SOULWORD") && strangers.contains("STRANGERWORD"), "{strangers}");
    for hidden in ["USERWORD", "MEMORYWORD", "PLANWORD", "memory__", "session__", "schedule__"] {
        assert!(!strangers.contains(hidden), "{hidden} in {strangers}");
        assert!(owners.contains(hidden), "the control: {hidden} in {owners}");
    }
    assert!(!owners.contains("STRANGERWORD"), "no line of it stands in another's prompt: {owners}");
}
