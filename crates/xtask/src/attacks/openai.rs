//! OpenAI's door: nobody hears another's answer, and what cannot be done is refused and not passed over.

use super::Attack;
use super::judgement::Judgement;
use super::target::{Arena, Setup, Target};
use super::wire::{Answer, Request};
use crate::faults::Extent;
use anyhow::Result;
use serde_json::{Value, json};
use std::io::Read;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "parallel_streams_hear_their_own_answer",
        statement: "45",
        extent: Extent::Short,
        run: parallel,
    },
    Attack {
        name: "a_stopped_stream_does_not_come_back",
        statement: "45",
        extent: Extent::Short,
        run: stopped,
    },
    Attack { name: "what_cannot_be_done_is_refused", statement: "56", extent: Extent::Short, run: refused },
];

const PATH: &str = "/v1/chat/completions";

fn chat(words: &str, stream: bool) -> Value {
    json!({"model": "cortex", "stream": stream, "messages": [{"role": "user", "content": words}]})
}

fn ask(target: &Target, body: &Value, chat_id: &str) -> Result<Answer> {
    target.ask(&Request::post(PATH, body).owner().header("x-openwebui-chat-id", chat_id))
}

/// The words of an answer, streamed or whole.
fn words(answer: &Answer) -> String {
    if let Some(whole) = answer.json()["choices"][0]["message"]["content"].as_str() {
        return whole.to_owned();
    }
    let text = answer.text();
    let chunks = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let chunks = chunks.filter_map(|chunk| serde_json::from_str::<Value>(chunk).ok());
    chunks.filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned)).collect()
}

fn parallel(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let script = json!({"otherwise": {"deltas": ["re: "], "say": "{{user}}"}});
    let target = arena.server_with(&Setup { script, ..Setup::default() })?;
    let alone = words(&ask(&target, &chat("alone", true), "garden")?);
    judgement.control(alone == "re: alone", || format!("a stream alone hears {alone:?}"));
    let target = &target;
    let heard: Vec<(String, Result<Answer>)> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..30)
            .map(|number| {
                scope.spawn(move || {
                    let said = format!("word-{number}-");
                    let answer = ask(target, &chat(&said, number % 3 != 0), "garden");
                    (said, answer)
                })
            })
            .collect();
        asking.into_iter().filter_map(|asking| asking.join().ok()).collect()
    });
    judgement.control(heard.len() == 30, || format!("only {} came back", heard.len()));
    for (said, answer) in heard {
        let heard = answer.map(|answer| words(&answer)).unwrap_or_else(|error| format!("{error:#}"));
        judgement.demand(heard == format!("re: {said}"), || format!("{said} hears {heard:?}"));
    }
    Ok(())
}

fn stopped(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let script = json!({"answers": [{"when": {"startsWith": "long"}, "deltas": ["once ", "upon ", "a time "], "delayMs": 300}],
        "otherwise": {"say": "re: {{user}}"}});
    let target = arena.server_with(&Setup { script, ..Setup::default() })?;
    let request =
        Request::post(PATH, &chat("long story", true)).owner().header("x-openwebui-chat-id", "garden");
    let mut stream = request.start(target.port)?;
    let mut first = [0; 64];
    let count = stream.read(&mut first)?;
    judgement.control(count > 0, || "the stream does not begin".to_owned());
    drop(stream);
    target.wait_until_idle()?;
    let next = words(&ask(&target, &chat("hello", false), "garden")?);
    judgement.demand(next == "re: hello", || format!("the next answer is {next:?}"));
    let other = words(&ask(&target, &chat("hello", false), "meadow")?);
    judgement.demand(other == "re: hello", || format!("another chat hears {other:?}"));
    Ok(())
}

fn refused(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let plain = ask(&target, &chat("hello", false), "garden")?;
    judgement.control(words(&plain) == "re: hello", || format!("{} {}", plain.code, plain.text()));
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}});
    for (field, value) in [
        ("tools", json!([tool])),
        ("tool_choice", json!({"type": "function", "function": {"name": "f"}})),
        ("functions", json!([{"name": "f"}])),
        ("response_format", json!({"type": "json_object"})),
        ("response_format", json!({"type": "json_schema", "json_schema": {"name": "x", "schema": {}}})),
        ("n", json!(2)),
        ("logprobs", json!(true)),
        ("audio", json!({"voice": "x"})),
    ] {
        let mut body = chat("hello", false);
        body[field] = value.clone();
        let answer = ask(&target, &body, "garden")?;
        judgement.demand(answer.code == 400 && answer.text().contains(field), || {
            format!("{field}: {value} is answered {} {}", answer.code, answer.text())
        });
    }
    Ok(())
}
