//! A question that is open: the model sees it, a bare yes decides nothing, and few are asked at once.

use super::Attack;
use super::far_side::{FarSide, calls, last_message, says};
use super::judgement::Judgement;
use super::target::{Arena, Said, Setup};
use super::wire::Request;
use crate::faults::Extent;
use crate::faults::http::KEY;
use anyhow::Result;
use serde_json::{Value, json};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "the_model_sees_what_was_asked",
        statement: "24",
        extent: Extent::Short,
        run: stands_in_history,
    },
    Attack {
        name: "a_bare_yes_decides_nothing_unasked",
        statement: "20",
        extent: Extent::Short,
        run: bare_yes,
    },
    Attack { name: "few_questions_are_open_at_once", statement: "24", extent: Extent::Short, run: few },
];

/// A model that sets a reminder when it hears of one.
fn reminding() -> Result<FarSide> {
    FarSide::model(|request| {
        let (text, is_result) = last_message(request);
        match text.contains("remind me") && !is_result {
            true => calls("schedule__create", &json!({"cron": "0 9 * * *", "what": "stretch"})),
            false => says("well"),
        }
    })
}

fn stands_in_history(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let model = reminding()?;
    let settings = json!({"providers": model.as_provider()});
    let target = arena.server_with(&Setup { settings, ..Setup::with_real_model() })?;
    target.ingest(KEY, &Said::at_terminal("1", "please remind me to stretch at nine"))?;
    target.wait_for_question()?;
    target.wait_until_idle()?;
    let before = model.got().len();
    target.ingest(KEY, &Said::at_terminal("2", "actually make it ten"))?;
    target.wait_until_idle()?;
    let prompts: Vec<Value> =
        model.got()[before..].iter().filter_map(|got| serde_json::from_str(&got.body).ok()).collect();
    judgement.control(!prompts.is_empty(), || "the second message asked no model".to_owned());
    let Some(messages) = prompts.first().and_then(|prompt| prompt["messages"].as_array().cloned()) else {
        return Ok(());
    };
    let place = |words: &str| messages.iter().position(|message| message.to_string().contains(words));
    let places = (place("remind me to stretch"), place("stretch at nine"), place("make it ten"));
    let is_in_place = matches!(places, (Some(first), Some(_), Some(last)) if first < last);
    judgement.demand(is_in_place, || "the model does not see what it was asked before".to_owned());
    let asked = messages.iter().any(|message| {
        message["role"] == "assistant" && message.to_string().to_lowercase().contains("stretch")
    });
    judgement.demand(asked, || "the model does not see the question that is open".to_owned());
    Ok(())
}

fn bare_yes(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    for (bare_words, expected) in [(false, "pending"), (true, "")] {
        let setup = Setup { settings: json!({"approvals": {"bareWords": bare_words}}), ..Setup::default() };
        let target = arena.server_with(&setup)?;
        target.ingest(KEY, &Said::at_terminal("1", "ask for the party"))?;
        let question = target.wait_for_question()?;
        target.wait_until_idle()?;
        // Nobody has been shown it.
        target.ingest(KEY, &Said::at_terminal("early", "yes"))?;
        target.wait_until_idle()?;
        let status = target.approval_status(&question)?;
        judgement
            .demand(status == "pending", || format!("a yes before the question was shown made it {status}"));
        target.deliver(KEY, "cli")?;
        target.ingest(KEY, &Said::at_terminal("2", "yes"))?;
        target.wait_until_idle()?;
        let status = target.approval_status(&question)?;
        if bare_words {
            judgement.control(status != "pending", || "a bare yes decides nothing where it may".to_owned());
            continue;
        }
        judgement.demand(status == expected, || format!("a bare yes made it {status}"));
        let told: String = target.poll(KEY, "cli")?.iter().map(ToString::to_string).collect();
        judgement.demand(told.contains("approve") || told.contains("Approve"), || {
            format!("nobody says how to decide: {told}")
        });
        // Somebody else's yes is nothing at all.
        target.ingest(KEY, &Said { user: "somebody", ..Said::at_terminal("3", "yes") })?;
        target.wait_until_idle()?;
        let status = target.approval_status(&question)?;
        judgement.demand(status == expected, || format!("somebody else's yes made it {status}"));
    }
    Ok(())
}

fn few(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let many: Vec<Value> = (0..12)
        .map(|number| {
            json!({"id": format!("call-{number}"), "name": "schedule.create",
                "arguments": {"cron": "0 0 1 1 *", "what": format!("party {number}")}})
        })
        .collect();
    let script = json!({"answers": [{"when": {"startsWith": "ask"}, "times": 1, "toolCalls": many}],
        "otherwise": {"say": "re: {{user}}"}});
    let target = arena.server_with(&Setup { script, ..Setup::default() })?;
    target.ingest(KEY, &Said::at_terminal("1", "ask for much"))?;
    target.wait_for_question()?;
    target.wait_until_idle()?;
    let open = target.owner_get("/api/v2/approvals")?["items"].as_array().map_or(0, Vec::len);
    judgement.control(open >= 1, || "no question is open".to_owned());
    judgement.demand(open <= 4, || format!("{open} questions are open at once"));
    let health = target.ask(&Request::get("/health"))?.code;
    judgement.demand(health == 200, || format!("/health: {health}"));
    Ok(())
}
