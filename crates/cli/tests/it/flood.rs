//! Floods against the real program: its memory stays within bounds, and its owner is answered beside each of them.

use crate::cortex::Cortex;
use cortex_testkit::{Flooded, Memory, crumbled_event, crumbs, half_message};
use serde_json::{Value, json};
use std::net::TcpStream;

/// How much a flood may add to the memory of the server.
const GROWTH_MIB_MAX: u64 = 150;
const MIB: usize = 1024 * 1024;

/// What proves a webhook; nobody here knows it.
const SECRET: &str = "a-secret-that-nobody-knows-0123456789";

fn echo() -> Value {
    json!({ "otherwise": { "say": "You said: {{user}}" } })
}

fn echoing() -> Cortex {
    Cortex::scripted(&echo()).started()
}

/// The server as its owner floods it.
fn by_owner(cortex: &Cortex) -> Flooded {
    let read =
        |name: &str| -> Value { serde_json::from_slice(&std::fs::read(cortex.path(name)).unwrap()).unwrap() };
    Flooded {
        address: read("run/address")["address"].as_str().unwrap().parse().unwrap(),
        key: read("credentials")["profiles"]["default"]["token"].as_str().unwrap().to_owned(),
        pid: u32::try_from(cortex.pid()).unwrap(),
    }
}

/// The same with the key of a connector.
fn by_connector(cortex: &Cortex, source: &str) -> Flooded {
    let owner = by_owner(cortex);
    let made = owner.posted("/api/v2/keys", &json!({ "name": source, "source": source }));
    Flooded { key: made["key"].as_str().unwrap().to_owned(), ..owner }
}

#[track_caller]
fn the_owner_is_answered(cortex: &Cortex) {
    let sent = cortex.run(&["send", "are you there?"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert!(sent.stdout.contains("You said: are you there?"), "{sent:?}");
    assert_eq!(cortex.run(&["health"]).code, Some(0));
}

#[track_caller]
fn stays_within_bounds(memory: &Memory) {
    let growth = memory.growth_mib();
    assert!(growth <= GROWTH_MIB_MAX, "the server grew by {growth} MiB");
}

/// All of them hold on to what they have until this is dropped.
fn held(count: usize, open: impl Fn() -> std::io::Result<TcpStream>) -> Vec<TcpStream> {
    (0..count).filter_map(|_| open().ok()).collect()
}

#[test]
fn bodies_of_a_hundred_thousand_objects_take_no_memory_to_refuse() {
    let cortex = echoing();
    let (owner, connector) = (by_owner(&cortex), by_connector(&cortex, "flood"));
    let memory = Memory::watch(owner.pid);
    let event = crumbled_event("flood", MIB - 1024);
    assert!(connector.post_at_once("/ingest", &event, 16).iter().all(|status| *status >= 400));
    let poll = format!("{{\"source\":\"flood\",\"more\":[{}]}}", crumbs(MIB - 1024));
    assert!(connector.post_at_once("/outbox/poll", &poll, 16).iter().all(|status| *status >= 400));
    let chat = format!("{{\"model\":\"cortex\",\"messages\":[{}]}}", crumbs(8 * MIB - 1024));
    assert!(owner.post_at_once("/v1/chat/completions", &chat, 8).iter().all(|status| *status >= 400));
    the_owner_is_answered(&cortex);
    stays_within_bounds(&memory);
}

#[test]
fn half_messages_on_many_sockets_share_one_budget() {
    let cortex = echoing();
    let owner = by_owner(&cortex);
    let memory = Memory::watch(owner.pid);
    let mut sockets = Vec::new();
    for _ in 0..64 {
        let session = owner.session().unwrap();
        if let Ok((mut socket, 101)) = owner.open_socket(&session) {
            half_message(&mut socket, 4 * MIB, 4 * MIB - 64 * 1024);
            sockets.push(socket);
        }
    }
    the_owner_is_answered(&cortex);
    stays_within_bounds(&memory);
}

#[test]
fn five_hundred_streams_that_nobody_reads_are_bounded() {
    let deltas: Vec<String> = (0..200).map(|_| "long words ".repeat(100)).collect();
    let script = json!({ "answers": [{ "when": { "startsWith": "long" }, "deltas": deltas }],
        "otherwise": { "say": "You said: {{user}}" } });
    let cortex = Cortex::scripted(&script).started();
    let owner = by_owner(&cortex);
    let memory = Memory::watch(owner.pid);
    let streams = owner.ask_and_never_read("/v1/chat/completions", 500, |number| {
        let said = json!([{ "role": "user", "content": format!("long {number}") }]);
        json!({ "model": "cortex", "stream": true, "user": number.to_string(), "messages": said }).to_string()
    });
    the_owner_is_answered(&cortex);
    let is_open = |row: &Value| row["status"] == "pending" || row["status"] == "processing";
    while cortex.json(&["inbox", "list", "--limit", "500", "--json"])["items"]
        .as_array()
        .unwrap()
        .iter()
        .any(is_open)
    {}
    the_owner_is_answered(&cortex);
    stays_within_bounds(&memory);
    assert!(streams.len() > 400, "only {} connected", streams.len());
}

#[test]
fn slow_heads_and_bodies_of_strangers_keep_nobody_out() {
    let hooks =
        json!({ "hooks": { "ci": { "hmac": { "secret": SECRET }, "text": "{{/}}", "topic": "ci" } } });
    let cortex = Cortex::scripted(&echo()).with_file(&hooks.to_string()).started();
    let owner = by_owner(&cortex);
    let memory = Memory::watch(owner.pid);
    let mut slow = held(4_500, || owner.begin_head());
    slow.extend(held(1_200, || owner.begin_body("/hooks/ci", false)));
    the_owner_is_answered(&cortex);
    stays_within_bounds(&memory);
    assert!(slow.len() > 4_000, "only {} connected", slow.len());
}

#[test]
fn waiting_polls_and_slow_bodies_of_one_key_keep_nobody_out() {
    let cortex = echoing();
    let connector = by_connector(&cortex, "flood");
    let memory = Memory::watch(connector.pid);
    let wait = json!({ "source": "flood", "waitSeconds": 60 }).to_string();
    let mut waiting = held(1_100, || connector.ask("POST", "/outbox/poll", &wait));
    waiting.extend(held(1_100, || connector.begin_body("/ingest", true)));
    the_owner_is_answered(&cortex);
    stays_within_bounds(&memory);
    assert!(waiting.len() > 2_000, "only {} connected", waiting.len());
}

#[test]
fn bogus_sockets_do_not_keep_honest_ones_out() {
    let cortex = echoing();
    let owner = by_owner(&cortex);
    let sessions: Vec<String> = (0..20).map(|_| owner.session().unwrap()).collect();
    let memory = Memory::watch(owner.pid);
    let mut bogus = Vec::new();
    for session in &sessions {
        // None of them reads or closes.
        bogus.extend(held(40, || {
            owner.open_socket("3f2a1b4c-8d9e-4f0a-b1c2-d3e4f5a6b7c8").map(|(open, _)| open)
        }));
        assert_eq!(owner.open_socket(session).map(|(_, status)| status).ok(), Some(101));
    }
    the_owner_is_answered(&cortex);
    stays_within_bounds(&memory);
}
