//! Skills that mean harm, met in the middle of a turn: it goes on in time, and the next one finds everything in place.

use crate::skill_parts::{fixtures, in_processes};
use crate::turn_parts::{approve, say, trace};
use cortex_testkit::{RunningTestServer, ServerSetup, eventually, memory_folder};
use cortex_tools::SkillIsolation;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(1);
/// What a call may take beyond its limit.
const MARGIN_MS: i64 = 500;
/// A loop, a promise that never settles, an allocation bomb and a huge typed array.
const ATTACKS: [&str; 4] = ["loop", "never", "objects", "huge_array"];
/// Less than two heaps of 32 MiB: one that stays behind is seen at the second round.
const MEMORY_KEPT_MAX: usize = 48 * 1024 * 1024;

/// Calls the tool it is told, then says so.
fn script() -> Value {
    let names = || ATTACKS.into_iter().chain(["fine", "fills"]);
    let after = names().map(|name| {
        let after = json!({ "afterTool": format!("hostile.{name}") });
        json!({ "when": after, "say": "I went on." })
    });
    let calls = names().map(|name| {
        let call = json!({ "name": format!("hostile.{name}"), "arguments": {} });
        json!({ "when": { "equals": name }, "toolCalls": [call] })
    });
    json!({ "answers": after.chain(calls).collect::<Vec<_>>() })
}

async fn start(isolation: SkillIsolation) -> RunningTestServer {
    ServerSetup::scripted(script())
        .flow(|flow| flow.tool_timeout = LIMIT)
        .tools(move |tools| {
            tools.skills.dirs = vec![fixtures()];
            tools.skills.isolation = isolation.clone();
        })
        .start()
        .await
}

/// Has the attack run in a turn of its own and gives the line of its end.
async fn attack(server: &RunningTestServer, name: &str) -> String {
    let event = say(server, name).await;
    if name != "loop" {
        approve(server, &event).await;
    }
    let row = server.ended(&event).await;
    assert_eq!(row["status"], "done", "{name}: {row}");
    let trace = trace(server, &event).await;
    let last = trace["replies"].as_array().unwrap().last().unwrap();
    assert_eq!(last["text"], "I went on.", "{name}");
    let entries = trace["entries"].as_array().unwrap();
    let step = |words: String| {
        let found = entries.iter().find(|entry| entry["detail"].as_str().unwrap().starts_with(&words));
        found.cloned().unwrap_or_default()
    };
    let started = step(format!("hostile.{name} started"));
    let ended = entries.iter().skip_while(|entry| **entry != started).nth(1).unwrap();
    let took = millis(&ended["at"]) - millis(&started["at"]);
    assert!(took <= LIMIT.as_millis() as i64 + MARGIN_MS, "{name} held its turn for {took} ms");
    ended["detail"].as_str().unwrap().to_owned()
}

fn millis(at: &Value) -> i64 {
    at.as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond()
}

/// The next turn calls a tool of the same skill that only wants to work.
async fn works(server: &RunningTestServer, after: &str) {
    let event = say(server, "fine").await;
    server.ended(&event).await;
    let trace = trace(server, &event).await.to_string();
    assert!(trace.contains("hostile.fine done"), "after {after}: {trace}");
}

#[tokio::test]
async fn a_turn_goes_on_after_every_attack_of_a_skill_and_its_memory_comes_back() {
    let server = start(SkillIsolation::Thread).await;
    works(&server, "the start").await;
    let before = resident_bytes();
    for _ in 0..3 {
        for name in ATTACKS {
            let ended = attack(&server, name).await;
            assert!(!ended.ends_with("done"), "{ended}");
            if name == "loop" {
                assert_eq!(ended, "hostile.loop failed: timed out after 1000 ms; outcome unknown");
            }
            works(&server, name).await;
        }
    }
    eventually("the memory to come back", async || {
        (resident_bytes() < before + MEMORY_KEPT_MAX).then_some(())
    })
    .await;
}

/// What this process has in memory, with the server in it.
fn resident_bytes() -> usize {
    let about = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = about.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[tokio::test]
async fn in_process_mode_the_child_of_an_attack_is_gone_and_the_turn_goes_on() {
    let mark = memory_folder();
    let mark = mark.path().to_string_lossy().into_owned();
    let SkillIsolation::Process { program, .. } = in_processes() else { panic!("a process") };
    let mut server = start(SkillIsolation::Process { program, args: vec![mark.clone()] }).await;
    works(&server, "the start").await;
    for name in ["loop", "fills", "never", "objects", "huge_array"] {
        let before = children(&mark);
        assert!(!before.is_empty(), "{name} has a child to run in");
        attack(&server, name).await;
        // What can never settle is told at once, and its engine is as good as new.
        if name != "never" {
            eventually(format!("the child of {name} to be gone"), async || {
                before.difference(&children(&mark)).next().map(|_| ())
            })
            .await;
        }
        works(&server, name).await;
    }
    server.stop().await;
    eventually("every child to be gone", async || children(&mark).is_empty().then_some(())).await;
}

/// The living processes that were started with this argument.
fn children(mark: &str) -> BTreeSet<u32> {
    let numbers = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_ours = |number: &u32| {
        let words = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).nth(1) == Some(mark.as_bytes())
    };
    numbers.filter(is_ours).collect()
}
