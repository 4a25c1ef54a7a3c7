//! Questions: what they show, who sees their token, how often they can be answered.

use super::Attack;
use super::file::files_below;
use super::judgement::Judgement;
use super::target::{Arena, Said, Target, token_in};
use super::wire::Request;
use crate::faults::Extent;
use crate::faults::http::KEY;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "the_token_is_shown_to_the_asked_alone",
        statement: "19",
        extent: Extent::Short,
        run: token,
    },
    Attack { name: "a_question_is_answered_once", statement: "20, 22", extent: Extent::Short, run: once },
    Attack {
        name: "a_foreign_page_decides_nothing",
        statement: "12, 20",
        extent: Extent::Short,
        run: foreign_page,
    },
];

fn ask(target: &Target, id: &str) -> Result<(String, Value, String)> {
    target.ingest(KEY, &Said::at_terminal(id, "ask for the party"))?;
    let message = target.wait_for_message(KEY, "cli", |message| token_in(message).is_some())?;
    let token = token_in(&message).context("a question has a token")?;
    Ok((target.wait_for_question()?, message, token))
}

fn token(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let (approval, message, token) = ask(&target, "1")?;
    judgement.control(message.to_string().contains(&token), || "the asked does not get it".to_owned());
    // While it is open, and in the write-ahead log, too.
    let has_token = |path: &Path| {
        let bytes = fs::read(path).unwrap_or_default();
        bytes.windows(token.len()).any(|window| window == token.as_bytes())
    };
    for path in files_below(target.home.path())? {
        judgement.demand(!has_token(&path), || format!("{} has the open token", path.display()));
    }
    let answered = target.ingest(KEY, &Said::at_terminal("2", &format!("{token}:approve")))?;
    target.wait_until_idle()?;
    judgement.control(target.approval_status(&approval)? != "pending", || "it was not approved".to_owned());
    let event = answered.field("eventId");
    let listings = [
        "/api/v2/inbox?limit=100".to_owned(),
        "/api/v2/outbox?limit=100".to_owned(),
        "/api/v2/approvals?all=true".to_owned(),
        format!("/api/v2/approvals/{approval}"),
        format!("/api/v2/events/{event}"),
        format!("/api/v2/inbox/{event}"),
    ];
    for listing in listings {
        let text = target.ask(&Request::get(listing.as_str()).owner())?.text();
        judgement.demand(!text.contains(&token), || format!("{listing} shows the token"));
    }
    judgement.demand(!target.log().contains(&token), || "the log has the token".to_owned());
    let home = target.home.path();
    drop(target.server);
    let files = files_below(home)?;
    judgement
        .control(files.iter().any(|file| file.ends_with("cortex.db")), || format!("no database: {files:?}"));
    for path in files {
        judgement.demand(!has_token(&path), || format!("{} has the token", path.display()));
    }
    Ok(())
}

fn once(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let (approval, _, token) = ask(&target, "1")?;
    for (number, words) in
        [format!("I say {token}:approve"), token.clone(), "yes".to_owned()].iter().enumerate()
    {
        target.ingest(KEY, &Said::at_terminal(&format!("quoted-{number}"), words))?;
        target.wait_until_idle()?;
        let status = target.approval_status(&approval)?;
        judgement.demand(status == "pending", || format!("{words:?} made it {status}"));
    }
    for other in [
        Said { user: "somebody", ..Said::at_terminal("user", &format!("{token}:approve")) },
        Said { topic: "elsewhere", ..Said::at_terminal("topic", &format!("{token}:approve")) },
        Said { source: "telegram", ..Said::at_terminal("source", &format!("{token}:approve")) },
    ] {
        target.ingest(KEY, &other)?;
        target.wait_until_idle()?;
        let status = target.approval_status(&approval)?;
        judgement
            .demand(status == "pending", || format!("{} of {} made it {status}", other.user, other.source));
    }
    let decide = |word: &str| {
        target.ask(&Request::post(format!("/api/v2/approvals/{approval}/{word}"), &json!({})).owner())
    };
    let first = decide("deny")?.code;
    judgement.control(first == 200, || format!("the owner's answer: {first}"));
    let second = decide("approve")?.code;
    judgement.demand(second == 409, || format!("the second answer: {second}"));
    Ok(())
}

fn foreign_page(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    // Over /v1 a question comes with the address of a page.
    let body = json!({"model": "cortex", "messages": [{"role": "user", "content": "ask for the party"}]});
    let answer = target.ask(&Request::post("/v1/chat/completions", &body).owner())?;
    let approval = target.wait_for_question()?;
    let token = token_in(&answer.json()).context("the answer names the page")?;
    let page = |method: &'static str| Request::new(method, format!("/approve/{token}"));
    let own = target.ask(&page("GET"))?;
    let policy = own.header("content-security-policy").unwrap_or_default();
    for word in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"] {
        judgement.demand(policy.contains(word), || format!("the page's policy lacks {word}: {policy}"));
    }
    let nosniff = own.header("x-content-type-options");
    judgement.demand(nosniff == Some("nosniff"), || format!("nosniff is {nosniff:?}"));
    let whole = format!("{token}:approve");
    judgement
        .demand(token.len() >= 26 && whole.len() <= 64, || format!("a token of {} letters", token.len()));
    judgement.control(own.code == 200 && own.text().contains("<form"), || format!("no page: {}", own.code));
    let cross = |request: Request| {
        request
            .header("sec-fetch-site", "cross-site")
            .header("sec-fetch-mode", "no-cors")
            .header("origin", "https://evil.example")
    };
    let form = |request: Request| {
        request.header("content-type", "application/x-www-form-urlencoded").body("decision=approve")
    };
    let picture = page("GET").header("sec-fetch-site", "cross-site").header("sec-fetch-mode", "no-cors");
    for (what, request) in [("a form", form(cross(page("POST")))), ("a picture", picture)] {
        let code = target.ask(&request)?.code;
        let status = target.approval_status(&approval)?;
        judgement.demand(status == "pending", || format!("{what} of a foreign page: {code}, now {status}"));
    }
    let same = page("POST").header("sec-fetch-site", "same-origin");
    let same = target.ask(&form(same.header("origin", format!("http://127.0.0.1:{}", target.port))))?;
    let status = target.approval_status(&approval)?;
    judgement.control(status != "pending", || format!("its own form: {}, still {status}", same.code));
    Ok(())
}
