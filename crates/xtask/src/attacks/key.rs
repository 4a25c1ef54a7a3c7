//! Keys: guessed, revoked, and used for what they are not for.

use super::Attack;
use super::door::routes;
use super::far_side::{FarSide, says};
use super::file::files_below;
use super::judgement::Judgement;
use super::socket::{Posing, Socket};
use super::target::{Arena, Said, Setup, Target};
use super::wire::Request;
use crate::faults::Extent;
use crate::faults::http::KEY;
use anyhow::Result;
use serde_json::{Value, json};
use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "keys_cannot_be_guessed_fast", statement: "8", extent: Extent::Short, run: guessing },
    Attack { name: "a_revoked_key_is_out_at_once", statement: "9", extent: Extent::Short, run: revoked },
    Attack {
        name: "a_session_ends_with_the_owners_key",
        statement: "9",
        extent: Extent::Short,
        run: outlives_the_owners_key,
    },
    Attack { name: "no_file_holds_a_usable_key", statement: "6", extent: Extent::Short, run: at_rest },
    Attack { name: "a_key_is_for_one_source", statement: "10", extent: Extent::Short, run: one_source },
    Attack {
        name: "a_connector_key_opens_no_other_route",
        statement: "10",
        extent: Extent::Short,
        run: other_routes,
    },
    Attack {
        name: "a_key_takes_no_channel_of_another",
        statement: "10, 51",
        extent: Extent::Short,
        run: takes_a_channel,
    },
    Attack {
        name: "a_key_is_nobody_of_another_source",
        statement: "53, 60",
        extent: Extent::Short,
        run: takes_a_person,
    },
    Attack {
        name: "no_answer_tells_what_others_have",
        statement: "45",
        extent: Extent::Short,
        run: no_oracle,
    },
];

/// A key that is revoked is nowhere in use after this.
const OUT_WITHIN: Duration = Duration::from_secs(1);

fn guessing(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let codes: Vec<u16> = (0..20)
        .map(|number| Ok(target.ask(&Request::get("/api/v2/status").key(&format!("guess-{number}")))?.code))
        .collect::<Result<_>>()?;
    judgement.demand(codes[..10].iter().all(|code| *code == 401), || format!("{codes:?}"));
    judgement.demand(codes[10..].iter().all(|code| *code == 429), || format!("{codes:?}"));
    let right = target.ask(&Request::get("/api/v2/status").owner())?.code;
    judgement.control(right == 200, || format!("the right key from the same peer: {right}"));
    Ok(())
}

/// How long a read shows that nothing comes: somebody waits.
const SHOWS_WAITING: Duration = Duration::from_millis(500);

/// Reads until the head is there, and then waits a moment: whether it is still open then, and says nothing to its end.
fn is_open_after_its_head(stream: &mut TcpStream) -> Result<(String, bool)> {
    stream.set_read_timeout(Some(SHOWS_WAITING))?;
    let (mut heard, mut chunk) = (Vec::new(), [0; 4096]);
    let is_open = loop {
        match stream.read(&mut chunk) {
            Ok(0) => break false,
            Ok(count) => heard.extend_from_slice(&chunk[..count]),
            Err(_) => break true,
        }
    };
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    Ok((String::from_utf8_lossy(&heard).into_owned(), is_open))
}

/// What is said until the end, and when that was.
fn to_the_end(mut stream: TcpStream, started: Instant) -> (String, Duration) {
    let mut rest = Vec::new();
    // However it ends, it ends now.
    stream.read_to_end(&mut rest).unwrap_or_default();
    (String::from_utf8_lossy(&rest).into_owned(), started.elapsed())
}

fn revoked(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let slow = json!({"when": {"startsWith": "slow"}, "say": "the late answer", "delayMs": 15_000});
    let script = json!({"answers": [slow], "otherwise": {"say": "re: {{user}}"}});
    let target = arena.server_with(&Setup { script, ..Setup::default() })?;
    let key = target.connector_key("telegram")?;
    let posing = Posing { source: "telegram", connector_id: "telegram", conversation: "c", user: None };
    let mut socket = Socket::open(&target, Some(&key), "")?;
    socket.say(&posing, "1", "hello", &Value::Null)?;
    let answered = socket.wait_for(|frame| frame["type"] == "assistant.message.outbound");
    judgement.control(answered.is_ok(), || "the key's socket is not answered".to_owned());
    // A turn of its own that takes long, and the stream of it.
    let said = Said { source: "telegram", topic: "long", ..Said::at_terminal("2", "slow") };
    let event = target.ingest(&key, &said)?.field("eventId");
    let mut live = Request::get(format!("/api/v2/events/{event}/live")).key(&key).start(target.port)?;
    let (head, is_open) = is_open_after_its_head(&mut live)?;
    judgement.control(head.starts_with("HTTP/1.1 200") && is_open, || format!("no live stream: {head}"));
    // A poll that waits for half a minute.
    let body = json!({"source": "telegram", "waitSeconds": 30});
    let mut poll = Request::post("/outbox/poll", &body).key(&key).start(target.port)?;
    let (head, is_open) = is_open_after_its_head(&mut poll)?;
    judgement.control(head.is_empty() && is_open, || format!("the poll does not wait: {head}"));
    let started = Instant::now();
    let revoked = target.ask(&Request::post("/api/v2/keys/revoke", &json!({"key": "telegram"})).owner())?;
    judgement
        .control(revoked.code == 200, || format!("revoking answers {} {}", revoked.code, revoked.text()));
    let next = target.ask(&Request::post("/outbox/poll", &body).key(&key))?.code;
    judgement.demand(next == 401, || format!("the next call answers {next}"));
    let (said, poll_lived) = to_the_end(poll, started);
    judgement.demand(said.starts_with("HTTP/1.1 401"), || format!("the waiting poll is answered {said:?}"));
    let (said, live_lived) = to_the_end(live, started);
    judgement.demand(!said.contains("the late answer"), || format!("its stream goes on: {said}"));
    let closed =
        socket.wait_for(|_| false).is_err() && socket.say(&posing, "3", "still here", &Value::Null).is_err();
    let socket_lived = started.elapsed();
    let lives = [("waiting poll", poll_lived), ("live stream", live_lived), ("socket", socket_lived)];
    for (what, lived) in lives {
        judgement.measured(format!("{what} {} ms", lived.as_millis()));
        judgement.demand(lived < OUT_WITHIN, || format!("its {what} lived on for {lived:?}"));
    }
    judgement.demand(closed, || "its socket still takes words".to_owned());
    Ok(())
}

fn outlives_the_owners_key(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    const NEXT_KEY: &str = "the-next-key-of-the-owner-0123456789abcdef";
    let target = arena.server()?;
    // Somebody has the owner's key for a moment, and keeps the session.
    let session = target.ask(&Request::get("/connector").owner())?.text();
    let posing = Posing { source: "cli", connector_id: "cli", conversation: "terminal", user: Some("owner") };
    let mut early = Socket::connect(&target, &session, "")?;
    early.say(&posing, "early", "hello from the thief", &Value::Null)?;
    let answered = early.wait_for(|frame| frame["data"]["text"] == "re: hello from the thief");
    judgement.control(answered.is_ok(), || "a session of the owner is not answered".to_owned());
    let Target { home, server, .. } = target;
    server.terminate(Duration::from_secs(10))?;
    let home = home.with("CORTEX_INGEST_API_KEY", NEXT_KEY);
    let server = home.started()?;
    let target = Target { port: server.port, server, home };
    let opens = target.ask(&Request::get("/api/v2/status").key(NEXT_KEY))?.code;
    judgement.control(opens == 200, || format!("the next key does not open: {opens}"));
    for id in ["late-1", "late-2"] {
        let mut late = Socket::connect(&target, &session, "?connectorId=cli")?;
        // It may be hung up on before it speaks; what matters is what it hears.
        let said = late.say(&posing, id, "ask for the party", &Value::Null).is_ok();
        let heard = late.overhear();
        judgement.demand(!heard.contains("party"), || format!("it spoke ({said}) and heard {heard}"));
    }
    let events = target.ask(&Request::get("/api/v2/inbox").key(NEXT_KEY))?.text();
    judgement.demand(!events.contains("late-"), || format!("its words were taken: {events}"));
    Ok(())
}

fn takes_a_channel(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let key = target.connector_key("urn:connector:thief")?;
    target.ingest(KEY, &Said { source: "realtg", ..Said::at_terminal("real", "hello") })?;
    target.wait_until_idle()?;
    for (number, query) in ["", "?connectorId=realtg"].into_iter().enumerate() {
        let posing = Posing {
            source: "urn:connector:thief",
            connector_id: "realtg",
            conversation: "terminal",
            user: Some("owner"),
        };
        // A session for that name may be refused; what matters is what it hears.
        let mut socket = Socket::open(&target, Some(&key), query).ok();
        if let Some(socket) = &mut socket {
            socket.say(&posing, &format!("thief-{number}"), "hello", &Value::Null)?;
            let told = socket.wait_for(|frame| frame["data"]["code"] == "forbidden");
            judgement.demand(told.is_ok(), || format!("{query}: nobody refuses the name"));
        }
        let (id, words) = (format!("forward-{number}"), format!("forward {number}"));
        target.ingest(KEY, &Said::at_terminal(&id, &words))?;
        let sent =
            target.wait_for_message(KEY, "realtg", |message| message.to_string().contains("secret party"));
        judgement.control(sent.is_ok(), || "the real one gets nothing".to_owned());
        let heard = socket.map(|mut socket| socket.overhear()).unwrap_or_default();
        judgement.demand(!heard.contains("secret party"), || format!("sent to the thief: {heard}"));
    }
    // The same for a source that has a key and was never heard.
    let silent = target.connector_key("silent")?;
    let posing = Posing {
        source: "urn:connector:thief",
        connector_id: "silent",
        conversation: "terminal",
        user: Some("owner"),
    };
    let mut socket = Socket::open(&target, Some(&key), "")?;
    socket.say(&posing, "thief-silent", "hello", &Value::Null)?;
    let told = socket.wait_for(|frame| frame["data"]["code"] == "forbidden");
    judgement.demand(told.is_ok(), || "nobody keeps the name of a source that was not heard yet".to_owned());
    let code =
        target.ingest(&silent, &Said { source: "silent", ..Said::at_terminal("first", "hello") })?.code;
    judgement.demand(code == 202, || format!("its first event gets {code}"));
    Ok(())
}

fn takes_a_person(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let model = FarSide::model(|_| says("well"))?;
    let setup = Setup {
        settings: json!({"providers": model.as_provider(), "identities": {"ada": ["tg:1", "mail/boss"]}}),
        files: vec![("workspace/USER.md".to_owned(), "The owner likes marzipan.".to_owned())],
        ..Setup::with_real_model()
    };
    let target = arena.server_with(&setup)?;
    let (mail, telegram) = (target.connector_key("mail")?, target.connector_key("telegram")?);
    for (number, (key, source, user, is_ada)) in [
        (&mail, "mail", "tg:1", false),
        (&mail, "mail", "telegram/tg:1", false),
        (&telegram, "telegram", "mail/boss", false),
        (&telegram, "telegram", "boss", false),
        (&telegram, "telegram", "tg:1", true),
        (&mail, "mail", "boss", true),
    ]
    .into_iter()
    .enumerate()
    {
        let (before, id) = (model.got().len(), format!("said-{number}"));
        target.ingest(key, &Said { source, user, topic: &id, ..Said::at_terminal(&id, "hello") })?;
        target.wait_until_idle()?;
        let prompts: String = model.got()[before..].iter().map(|got| got.body.clone()).collect();
        judgement.control(!prompts.is_empty(), || format!("no model was asked for {user} of {source}"));
        let sees_it = prompts.contains("marzipan");
        match is_ada {
            true => judgement.control(sees_it, || format!("{user} of {source} is not known")),
            false => judgement.demand(!sees_it, || format!("{user} of {source} is taken for the owner")),
        }
    }
    Ok(())
}

fn at_rest(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let key = target.connector_key("telegram")?;
    let opens = target.ingest(&key, &Said { source: "telegram", ..Said::at_terminal("1", "hello") })?.code;
    judgement.control(opens == 202, || format!("the key does not open: {opens}"));
    target.wait_until_idle()?;
    let home = target.home.path();
    let log = target.log();
    drop(target.server);
    judgement.demand(!log.contains(&key), || "the log has the key".to_owned());
    let files = files_below(home)?;
    for path in &files {
        let bytes = fs::read(path).unwrap_or_default();
        let has_it = bytes.windows(key.len()).any(|window| window == key.as_bytes());
        judgement.demand(!has_it, || format!("{} has the key", path.display()));
    }
    judgement
        .control(files.iter().any(|file| file.ends_with("cortex.db")), || format!("no database: {files:?}"));
    Ok(())
}

fn one_source(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let (telegram, _slack) = (target.connector_key("telegram")?, target.connector_key("slack")?);
    let said = |source: &'static str, id: &'static str| Said { source, ..Said::at_terminal(id, "hello") };
    judgement.control(target.ingest(&telegram, &said("telegram", "1"))?.code == 202, || {
        "its own source".to_owned()
    });
    for other in ["slack", "cli", "openai", "telegram2", "Telegram", "telegram ", "hook:x", "local:telegram"]
    {
        let code = target.ingest(&telegram, &said(other, "2"))?.code;
        judgement.demand(matches!(code, 400 | 403), || format!("an event as {other}: {code}"));
        let poll = Request::post("/outbox/poll", &json!({"source": other})).key(&telegram);
        let code = target.ask(&poll)?.code;
        judgement.demand(matches!(code, 400 | 403), || format!("a poll of {other}: {code}"));
    }
    target.ingest(KEY, &said("slack", "3"))?;
    let message = target.wait_for_message(KEY, "slack", |_| true)?;
    let lease = json!({"messageId": message["messageId"], "leaseToken": message["leaseToken"]});
    let code = target.ask(&Request::post("/outbox/ack", &lease).key(&telegram))?.code;
    judgement.demand(matches!(code, 403 | 404), || format!("acks a message of slack: {code}"));
    Ok(())
}

fn other_routes(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let key = target.connector_key("telegram")?;
    let own = ["/ingest", "/connector", "/api/cortex-m/v1/connector", "/api/v2/events/x/live"];
    let is_own = |path: &str| own.contains(&path) || path.starts_with("/outbox/");
    let open = ["/health", "/healthz", "/readyz"];
    let is_open = |path: &str| {
        open.contains(&path)
            || ["/approve/", "/hooks/", "/connector/", "/api/cortex-m/v1/connector/"]
                .iter()
                .any(|start| path.starts_with(start))
    };
    let poll = target.ask(&Request::post("/outbox/poll", &json!({"source": "telegram"})).key(&key))?;
    judgement.control(poll.code == 200, || format!("its own poll: {}", poll.code));
    for (method, path) in routes(&target)?.into_iter().filter(|(_, path)| !is_own(path) && !is_open(path)) {
        let code = target.ask(&Request::new(method, path.as_str()).key(&key))?.code;
        judgement.demand(code == 403, || format!("{method} {path}: {code}"));
    }
    Ok(())
}

fn no_oracle(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let key = target.connector_key("telegram")?;
    let mine = target.ingest(&key, &Said { source: "telegram", ..Said::at_terminal("1", "hello") })?;
    let theirs = target.ingest(KEY, &Said::at_terminal("2", "hello"))?;
    target.wait_until_idle()?;
    let live = |id: &str| target.ask(&Request::get(format!("/api/v2/events/{id}/live")).key(&key));
    let seen = live(&mine.field("eventId"))?.code;
    judgement.control(seen == 200, || format!("its own event: {seen}"));
    let (there, not_there) = (live(&theirs.field("eventId"))?, live("evt_01J00000000000000000000000")?);
    judgement.demand((there.code, &there.body) == (not_there.code, &not_there.body), || {
        format!(
            "another's event answers {} {}, none {} {}",
            there.code,
            there.text(),
            not_there.code,
            not_there.text()
        )
    });
    let message = target.wait_for_message(KEY, "cli", |_| true)?;
    let ack = |id: &str| {
        let body = json!({"messageId": id, "leaseToken": "lease_01J00000000000000000000000"});
        target.ask(&Request::post("/outbox/ack", &body).key(&key))
    };
    let there = ack(message["messageId"].as_str().unwrap_or_default())?;
    let not_there = ack("out_01J00000000000000000000000")?;
    judgement.demand((there.code, &there.body) == (not_there.code, &not_there.body), || {
        format!(
            "another's message answers {} {}, none {} {}",
            there.code,
            there.text(),
            not_there.code,
            not_there.text()
        )
    });
    Ok(())
}
