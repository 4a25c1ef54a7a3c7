//! Addresses of this machine and its network, in every spelling: tools must not reach them.

use super::Attack;
use super::far_side::{FarSide, calls, last_message, says};
use super::judgement::Judgement;
use super::target::{Arena, Said, Setup, Target};
use crate::faults::Extent;
use crate::faults::http::KEY;
use anyhow::Result;
use serde_json::json;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "no_spelling_of_loopback_is_reached",
        statement: "27",
        extent: Extent::Short,
        run: spellings,
    },
    Attack { name: "no_redirect_leads_inside", statement: "28", extent: Extent::Short, run: redirects },
];

/// Hosts that are this machine, its network or its cloud, one way or another.
const HOSTS: &[&str] = &[
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "0x7F.0x0.0x0.0x1",
    "127.0.0.1.",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "a.localhost",
    "0.0.0.0",
    "0",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[fe80::1]",
    "[fc00::1]",
    "[fd00::1]",
    "[ff02::1]",
    "[::ffff:0:127.0.0.1]",
    "10.0.0.1",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "169.254.170.2",
    "100.64.0.1",
    "100.127.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "metadata.google.internal",
    "user@127.0.0.1",
    "user:pass@127.0.0.1",
    "127.0.0.1%00.example.com",
    "１２７.0.0.1",
    "①②⑦.⓪.⓪.①",
    "127。0。0。1",
    "example.com@127.0.0.1",
    "127.0.0.1#.example.com",
    "127.0.0.1?.example.com",
    "3232235777",
    "0xa9fea9fe",
    "2852039166",
];

const SCHEMES: &[&str] = &[
    "file:///etc/passwd",
    "ftp://127.0.0.1/",
    "gopher://127.0.0.1/",
    "data:text/plain,hello",
    "//127.0.0.1/",
];

fn ask_for(target: &Target, number: usize, url: &str) -> Result<()> {
    let (id, topic) = (format!("e{number}"), format!("t{number}"));
    target.ingest(KEY, &Said { topic: &topic, ..Said::at_terminal(&id, &format!("read {url}")) })?;
    Ok(())
}

/// What a tool said, if the last message of a request is that.
fn result_in(request: &str) -> Option<String> {
    let (text, is_result) = last_message(&serde_json::from_str(request).ok()?);
    is_result.then_some(text)
}

/// Whether a fetch was refused before anything was tried.
fn is_refusal(result: &str) -> bool {
    let words = ["may not be reached", "only http and https can be fetched", "may not carry", "is not a URL"];
    words.iter().any(|word| result.contains(word))
}

/// A model that reads the address it is told to.
fn reader() -> Result<FarSide> {
    FarSide::model(|request| {
        let (text, is_result) = last_message(request);
        match text.split_once("read ") {
            Some((_, url)) if !is_result => calls("http__get", &json!({"url": url.trim()})),
            _ => says("well"),
        }
    })
}

fn spellings(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let model = reader()?;
    let inside = FarSide::page([127, 0, 0, 1], "inside")?;
    let port = inside.address.port();
    let settings = json!({"providers": model.as_provider(), "toolTimeoutMs": 3_000, "maxParallelTopics": 64});
    let target = arena.server_with(&Setup { settings: settings.clone(), ..Setup::with_real_model() })?;
    let urls = HOSTS
        .iter()
        .map(|host| format!("http://{host}:{port}/x"))
        .chain(SCHEMES.iter().map(|url| (*url).to_owned()));
    let urls: Vec<String> = urls.collect();
    for (number, url) in urls.iter().enumerate() {
        ask_for(&target, number, url)?;
    }
    target.wait_until_idle()?;
    let results: String = model.got().iter().map(|got| got.body.clone()).collect();
    // Nobody listens on most of them, so what counts is that a result says no, not that nobody was there.
    let told: Vec<String> = model.got().iter().filter_map(|got| result_in(&got.body)).collect();
    judgement.control(told.len() >= urls.len(), || format!("{} results of {}", told.len(), urls.len()));
    for result in told {
        judgement.demand(is_refusal(&result), || format!("tried all the same: {result}"));
    }
    judgement.demand(inside.got().is_empty(), || format!("reached by {:?}", inside.got()));
    judgement.demand(!results.contains("root:x:0"), || "a file was read".to_owned());
    let mut open = settings;
    open["egressAllow"] = json!([inside.address.to_string()]);
    let target = arena.server_with(&Setup { settings: open, ..Setup::with_real_model() })?;
    ask_for(&target, 0, &format!("http://{}/x", inside.address))?;
    target.wait_until_idle()?;
    judgement.control(!inside.got().is_empty(), || "not reached where the owner allows it either".to_owned());
    Ok(())
}

/// A page that sends its readers elsewhere.
pub(super) struct Signpost {
    pub(super) address: SocketAddr,
    readers: Arc<AtomicUsize>,
}

pub(super) fn signpost(to: String) -> Result<Signpost> {
    let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), 0))?;
    let address = listener.local_addr()?;
    let readers = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&readers);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4_096];
            // The head is all there is, and it fits.
            let read = stream.read(&mut request).unwrap_or_default();
            let answer = format!(
                "HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            );
            if read > 0 {
                counted.fetch_add(1, Ordering::SeqCst);
                stream.write_all(answer.as_bytes()).unwrap_or_default();
            }
        }
    });
    Ok(Signpost { address, readers })
}

fn redirects(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let model = reader()?;
    let inside = FarSide::page([127, 0, 0, 1], "inside")?;
    let open = FarSide::page([127, 0, 0, 3], "open")?;
    let places = [
        format!("http://{}/x", inside.address),
        format!("http://localhost:{}/x", inside.address.port()),
        format!("http://[::ffff:127.0.0.1]:{}/x", inside.address.port()),
        format!("//{}/x", inside.address),
        "file:///etc/passwd".to_owned(),
    ];
    let posts = places.into_iter().map(signpost).collect::<Result<Vec<_>>>()?;
    let honest = signpost(format!("http://{}/x", open.address))?;
    let allowed: Vec<String> = posts
        .iter()
        .chain([&honest])
        .map(|post| post.address)
        .chain([open.address])
        .map(|it| it.to_string())
        .collect();
    let settings = json!({"providers": model.as_provider(), "egressAllow": allowed, "toolTimeoutMs": 3_000});
    let target = arena.server_with(&Setup { settings, ..Setup::with_real_model() })?;
    for (number, post) in posts.iter().enumerate() {
        ask_for(&target, number, &format!("http://{}/", post.address))?;
    }
    target.wait_until_idle()?;
    for post in &posts {
        let readers = post.readers.load(Ordering::SeqCst);
        judgement.control(readers > 0, || format!("nobody read the page at {}", post.address));
    }
    let results: String = model.got().iter().map(|got| got.body.clone()).collect();
    judgement.demand(inside.got().is_empty(), || format!("a redirect led to {:?}", inside.got()));
    judgement.demand(!results.contains("root:x:0"), || "a redirect led to a file".to_owned());
    // The person names both, so that nothing but the redirect decides.
    let both = format!("by http://{}/x read http://{}/", open.address, honest.address);
    target.ingest(KEY, &Said { topic: "both", ..Said::at_terminal("both", &both) })?;
    target.wait_until_idle()?;
    judgement
        .control(!open.got().is_empty(), || "a redirect to an allowed address is not followed".to_owned());
    Ok(())
}
