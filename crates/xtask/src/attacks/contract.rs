//! The contract: answers have the shape that clients were promised, limits are told in headers, and no quote breaks a query.

use super::Attack;
use super::door::routes;
use super::judgement::Judgement;
use super::target::{Arena, Said, Setup};
use super::wire::Request;
use crate::faults::Extent;
use crate::faults::http::KEY;
use anyhow::{Context, Result};
use serde_json::{Value, json};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "the_document_tells_every_refusal",
        statement: "3, 17",
        extent: Extent::Short,
        run: document,
    },
    Attack { name: "answers_have_the_promised_shape", statement: "45", extent: Extent::Short, run: shapes },
    Attack {
        name: "an_engram_client_finds_what_it_knows",
        statement: "45",
        extent: Extent::Short,
        run: engram,
    },
    Attack {
        name: "a_burst_goes_no_further_than_its_limit",
        statement: "17",
        extent: Extent::Short,
        run: burst,
    },
    Attack { name: "no_quote_reaches_a_query", statement: "34", extent: Extent::Short, run: quotes },
];

fn document(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let document = target.owner_get("/openapi.json")?;
    let paths = document["paths"].as_object().context("the document has paths")?;
    let mut guarded = 0;
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            // A route says by its security that it needs a credential, or by an empty one that it does not.
            let is_open = operation["security"].as_array().is_some_and(|needs| {
                needs.is_empty()
                    || needs.iter().any(|need| need.as_object().is_some_and(serde_json::Map::is_empty))
            });
            let tells = |code: &str| operation["responses"].get(code).is_some();
            guarded += usize::from(!is_open);
            judgement.demand(is_open || tells("401"), || format!("{method} {path} does not tell 401"));
            judgement.demand(is_open || tells("429"), || format!("{method} {path} does not tell 429"));
        }
    }
    judgement.control(guarded > 40, || format!("only {guarded} routes need a credential"));
    Ok(())
}

fn shapes(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let job = json!({"cron": "0 9 * * *", "what": "stretch", "timezone": "UTC"});
    let made = target.ask(&Request::post("/api/v2/schedules", &job).owner())?;
    let id = &made.json()["id"];
    judgement.demand(made.code == 201 && !id.is_null(), || {
        format!("a schedule is made without its id: {} {}", made.code, made.text())
    });
    let shown = target.owner_get(&format!("/api/v2/schedules/{}", id.to_string().trim_matches('"')))?;
    judgement.control(shown["description"] == "stretch", || format!("{shown}"));
    for topic in ["one", "other"] {
        target.ingest(KEY, &Said { source: "slack", topic, ..Said::at_terminal(topic, topic) })?;
    }
    target.wait_until_idle()?;
    let poll = json!({"source": "slack", "topicKey": "other", "max": 10});
    let polled = target.ask(&Request::post("/outbox/poll", &poll).owner())?.json();
    let topics: Vec<&Value> =
        polled["messages"].as_array().into_iter().flatten().map(|message| &message["topicKey"]).collect();
    judgement.demand(topics == ["other"], || format!("a poll of one topic gives {topics:?}"));
    Ok(())
}

/// An Engram's own client finds here what it knows: what the service can do, and how something is forgotten.
fn engram(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let capabilities = target.owner_get("/engram/capabilities")?;
    let has_version = capabilities["version"].as_str().is_some_and(|version| !version.is_empty());
    judgement.demand(has_version, || format!("no version: {capabilities}"));
    for feature in ["scopes", "idempotency", "context_hydration", "work_items"] {
        let is_told = capabilities["features"][feature].is_boolean();
        judgement.demand(is_told, || format!("{feature} is not told: {capabilities}"));
    }
    let tools = capabilities["tools"].as_array().cloned().unwrap_or_default();
    for tool in ["remember", "recall", "forget"] {
        judgement.demand(tools.contains(&json!(tool)), || format!("no tool {tool}: {capabilities}"));
    }
    let post = |path: &str, body: &Value| target.ask(&Request::post(path, body).owner());
    let is_there = |word: &str| -> Result<bool> {
        let found = post("/engram/recall", &json!({"query": word, "scope_id": "garden"}))?;
        Ok(found.text().contains(word))
    };
    let remember = |content: &str, scope: Option<&str>| -> Result<String> {
        let mut body = json!({"content": content});
        if let Some(scope) = scope {
            body["scope_id"] = json!(scope);
        }
        Ok(post("/engram/remember", &body)?.field("id"))
    };
    let forget = |id: &str, scope: Option<&str>| -> Result<Value> {
        let mut body = json!({"id": id});
        if let Some(scope) = scope {
            body["scope_id"] = json!(scope);
        }
        let forgotten = post("/engram/forget", &body)?;
        anyhow::ensure!(forgotten.code == 200, "forget: {} {}", forgotten.code, forgotten.text());
        Ok(forgotten.json()["deleted"].clone())
    };
    let scoped = remember("Mia likes plums", Some("garden"))?;
    judgement.control(is_there("plums")?, || "what is remembered is not recalled".to_owned());
    for scope in [None, Some("meadow")] {
        let deleted = forget(&scoped, scope)?;
        let holds = deleted == false && is_there("plums")?;
        judgement.demand(holds, || format!("forgotten with {scope:?} in place of its scope: {deleted}"));
    }
    let deleted = forget(&scoped, Some("garden"))?;
    judgement
        .demand(deleted == true && !is_there("plums")?, || format!("not forgotten in its scope: {deleted}"));
    let bare = remember("Mia likes quinces", None)?;
    judgement.control(is_there("quinces")?, || "what has no scope is not recalled".to_owned());
    let deleted = forget(&bare, None)?;
    judgement.demand(deleted == true && !is_there("quinces")?, || {
        format!("not forgotten without a scope: {deleted}")
    });
    Ok(())
}

fn burst(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    const LIMIT: usize = 60;
    let setup = Setup { settings: json!({"keyRequestsPerMinute": LIMIT}), ..Setup::default() };
    let target = arena.server_with(&setup)?;
    let (busy, calm) = (target.connector_key("slack")?, target.connector_key("telegram")?);
    let poll = |source: &str, key: &str| Request::post("/outbox/poll", &json!({"source": source})).key(key);
    let port = target.port;
    let request = poll("slack", &busy);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| (0..25).filter_map(|_| request.send(port).ok()).collect::<Vec<_>>()))
            .collect();
        asking.into_iter().filter_map(|asking| asking.join().ok()).flatten().collect()
    });
    let (taken, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.code == 200);
    // A little comes back while the burst lasts: one a second here.
    judgement.demand(taken.len() <= LIMIT + 10, || format!("{} of {LIMIT} were taken", taken.len()));
    judgement.control(taken.len() >= LIMIT - 1, || format!("only {} of {LIMIT} were taken", taken.len()));
    judgement.demand(refused.iter().all(|answer| answer.code == 429), || "others than 429".to_owned());
    judgement.demand(refused.iter().all(|answer| answer.header("retry-after").is_some()), || {
        "a refusal does not say when to come again".to_owned()
    });
    let headers = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
    judgement
        .demand(taken.iter().all(|answer| headers.iter().all(|name| answer.header(name).is_some())), || {
            "an answer does not tell the limit".to_owned()
        });
    let other = target.ask(&poll("telegram", &calm))?.code;
    judgement.control(other == 200, || format!("another key is answered {other}"));
    let owner = target.ask(&Request::get("/api/v2/status").owner())?.code;
    judgement.demand(owner == 200, || format!("the owner is answered {owner}"));
    Ok(())
}

/// What breaks a query that is put together from text.
const QUOTES: [&str; 8] = [
    "%27%20OR%201%3D1--",
    "%22%3B%20DROP%20TABLE%20topics%3B--",
    "a%27%22%60%3B",
    "%25_%5B%5D*",
    "x%00y",
    "-1",
    "99999999999999999999",
    "NULL",
];

fn quotes(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    target.ingest(KEY, &Said::at_terminal("1", "hello"))?;
    target.wait_until_idle()?;
    for (method, path) in routes(&target)? {
        // What stops or waits is not asked for here.
        let is_odd =
            ["/shutdown", "/stop", "/live", "/connector", "/stream"].iter().any(|word| path.contains(word));
        if is_odd || !matches!(method, "GET" | "DELETE" | "POST") {
            continue;
        }
        for quote in QUOTES {
            let filled: Vec<&str> =
                path.split('/').map(|part| if part == "x" { quote } else { part }).collect();
            let query = format!(
                "{}?q={quote}&source={quote}&limit={quote}&status={quote}&cursor={quote}",
                filled.join("/")
            );
            let plain = quote.replace("%27", "'").replace("%22", "\"").replace("%20", " ").replace("%00", "");
            let body = json!({"source": plain, "topicKey": plain, "text": plain, "query": plain, "name": plain, "content": plain});
            let request =
                if method == "POST" { Request::post(query, &body) } else { Request::new(method, query) };
            let code = target.ask(&request.owner())?.code;
            judgement.demand(code < 500, || format!("{method} {path} with {quote}: {code}"));
        }
    }
    target.ingest(KEY, &Said::at_terminal("2", "still here"))?;
    let answered = target.wait_for_message(KEY, "cli", |message| message["text"] == "re: still here");
    judgement.control(answered.is_ok(), || "nothing is answered after it".to_owned());
    Ok(())
}
