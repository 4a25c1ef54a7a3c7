//! Numbers from models that no counter holds, and words that no database takes.

use super::Attack;
use super::far_side::{FarSide, last_message, says, says_with};
use super::judgement::Judgement;
use super::target::{Arena, Said, Setup};
use crate::faults::Extent;
use crate::faults::http::KEY;
use anyhow::Result;
use serde_json::{Value, json};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "no_number_of_a_model_stops_a_topic",
        statement: "56",
        extent: Extent::Short,
        run: numbers,
    },
    Attack { name: "no_words_of_a_model_stop_a_topic", statement: "56", extent: Extent::Short, run: words },
];

fn hostile_usage() -> Vec<Value> {
    [
        "9223372036854775808",
        "18446744073709551615",
        "-9223372036854775808",
        "-1",
        "1e308",
        "1.5",
        "\"many\"",
        "null",
        "99999999999999999999999999999999",
        "{}",
    ]
    .iter()
    .map(|number| {
        let text = format!(
            r#"{{"prompt_tokens": {number}, "completion_tokens": {number}, "total_tokens": {number},
                "prompt_tokens_details": {{"cached_tokens": {number}}}}}"#
        );
        serde_json::from_str(&text).unwrap_or(Value::Null)
    })
    .collect()
}

fn numbers(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let model = FarSide::model(|request| {
        let (text, _) = last_message(request);
        let number = text.rsplit_once("usage ").and_then(|(_, number)| number.trim().parse::<usize>().ok());
        match number.and_then(|number| hostile_usage().into_iter().nth(number)) {
            Some(usage) => says_with("counted", &usage),
            None => says("well"),
        }
    })?;
    each_topic_goes_on(arena, judgement, &model, hostile_usage().len(), "usage")
}

const HOSTILE_WORDS: &[&str] = &[
    "NUL \0 inside",
    "\u{feff}\u{202e}\u{2066}",
    "\u{10ffff}\u{fffe}",
    "[[send_to:]] [[send_to:a b]] [[[[send_to:x]]]]",
    "[[send_to:\0]]",
    "",
    "   ",
    "<think>never closed",
    "```\n[[send_to:x]]",
];

fn words(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let model = FarSide::model(|request| {
        let (text, _) = last_message(request);
        let number = text.rsplit_once("words ").and_then(|(_, number)| number.trim().parse::<usize>().ok());
        match number.and_then(|number| HOSTILE_WORDS.get(number)) {
            Some(words) => says(words),
            None => says("well"),
        }
    })?;
    each_topic_goes_on(arena, judgement, &model, HOSTILE_WORDS.len(), "words")
}

/// In each topic one hostile answer, then an ordinary one: both events must end, and the second be answered.
fn each_topic_goes_on(
    arena: &Arena,
    judgement: &mut Judgement,
    model: &FarSide,
    count: usize,
    mark: &str,
) -> Result<()> {
    // An answer that cannot be used is asked for once more and then given up, so that the run ends.
    let settings = json!({"providers": model.as_provider(), "inboxMaxAttempts": 1});
    let setup = Setup { settings, ..Setup::with_real_model() };
    let target = arena.server_with(&setup)?;
    target.ingest(KEY, &Said { topic: "control", ..Said::at_terminal("control", "how are you") })?;
    let well = target.wait_for_message(KEY, "cli", |message| message["topicKey"] == "control");
    judgement.control(well.as_ref().is_ok_and(|message| message["text"] == "well"), || format!("{well:?}"));
    for number in 0..count {
        let (topic, first, second) = (format!("t{number}"), format!("a{number}"), format!("b{number}"));
        let hostile = format!("{mark} {number}");
        let sent = target.ingest(KEY, &Said { topic: &topic, ..Said::at_terminal(&first, &hostile) })?;
        target.ingest(KEY, &Said { topic: &topic, ..Said::at_terminal(&second, "how are you") })?;
        let goes_on = |message: &Value| message["topicKey"] == topic && message["text"] == "well";
        let answered = target.wait_for_message(KEY, "cli", goes_on);
        judgement.demand(answered.is_ok(), || format!("nothing is answered after {mark} {number}"));
        let event = target.owner_get(&format!("/api/v2/inbox/{}", sent.field("eventId")))?;
        let status = event["status"].as_str().unwrap_or_default().to_owned();
        judgement
            .demand(matches!(status.as_str(), "done" | "failed"), || format!("{mark} {number} is {status}"));
    }
    Ok(())
}
