//! Time: a machine that sleeps for eight hours, and clocks that are set. The server runs with a wall clock that we move.

use super::Attack;
use super::judgement::Judgement;
use super::target::{Arena, Said, Target, script};
use super::wire::Request;
use crate::faults::Extent;
use crate::faults::http::KEY;
use crate::faults::server::Home;
use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "a_sleep_keeps_no_question_open", statement: "23, 58", extent: Extent::Short, run: sleep },
    Attack {
        name: "a_clock_that_is_set_stops_nothing",
        statement: "58",
        extent: Extent::Short,
        run: set_back,
    },
];

/// Put before the C library: the wall clock runs ahead by the seconds in a file, all others as they are. So it is after
/// a sleep, too: only the wall clock has gone on.
const MOVED_CLOCK: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static volatile long *ahead;
__attribute__((constructor)) static void look(void) {
    const char *name = getenv("CLOCK_AHEAD");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) ahead = page;
    close(file);
}
int clock_gettime(clockid_t which, struct timespec *now) {
    long refused = syscall(SYS_clock_gettime, which, now);
    if (!refused && ahead && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) now->tv_sec += *ahead;
    return refused;
}
"#;

const HOUR: i64 = 3_600;
/// What a hook's sender and the server share.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// How long a server may take to see that it slept, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server whose wall clock is ours.
struct Sleeper {
    target: Target,
    ahead: PathBuf,
    offset: i64,
}

impl Sleeper {
    fn start(arena: &Arena) -> Result<Self> {
        let home = Home::with_script(&arena.program, &script())?;
        let [source, library, ahead] = ["clock.c", "clock.so", "ahead"].map(|name| home.beside(name));
        fs::write(&source, MOVED_CLOCK)?;
        fs::write(&ahead, 0_i64.to_ne_bytes())?;
        let built =
            Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).args([&library, &source]).output()?;
        ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let settings = json!({"approvalTtlMinutes": 1, "schedulerTickSeconds": 1,
            "hooks": {"signed": {"secret": SECRET, "text": "{{/text}}"}}});
        fs::write(home.path().join("server.json"), settings.to_string())?;
        let words = [("LD_PRELOAD", &library), ("CLOCK_AHEAD", &ahead)];
        let home =
            words.into_iter().fold(home, |home, (name, path)| home.with(name, &path.to_string_lossy()));
        let server = home.started()?;
        Ok(Self { target: Target { port: server.port, server, home }, ahead, offset: 0 })
    }

    /// The machine sleeps for so long, or its clock is set while it does.
    fn sleep(&mut self, seconds: i64) -> Result<()> {
        let pid = i32::try_from(self.target.server.pid())
            .ok()
            .and_then(Pid::from_raw)
            .context("a pid is positive")?;
        kill_process(pid, Signal::STOP)?;
        self.offset += seconds;
        let mut ahead = OpenOptions::new().write(true).open(&self.ahead)?;
        ahead.write_all(&self.offset.to_ne_bytes())?;
        kill_process(pid, Signal::CONT)?;
        Ok(())
    }

    /// The moment that the server's wall clock shows.
    fn wall(&self) -> Result<i64> {
        Ok(i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())? + self.offset)
    }

    /// A webhook that was signed at this moment.
    fn hook(&self, id: &str, at: i64) -> Result<u16> {
        const SIGN: &str = "import base64, hashlib, hmac, sys\n\
            key = base64.b64decode(sys.argv[1].removeprefix('whsec_'))\n\
            print(base64.b64encode(hmac.new(key, sys.argv[2].encode(), hashlib.sha256).digest()).decode())";
        let body = json!({"text": id}).to_string();
        let signed =
            Command::new("python3").args(["-c", SIGN, SECRET, &format!("{id}.{at}.{body}")]).output()?;
        let signature = format!("v1,{}", String::from_utf8_lossy(&signed.stdout).trim());
        let request = Request::new("POST", "/hooks/signed")
            .header("content-type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", at.to_string())
            .header("webhook-signature", signature);
        Ok(self.target.ask(&request.body(body))?.code)
    }

    fn slots(&self, outcome: &str) -> Result<usize> {
        let job = self.target.owner_get("/api/v2/schedules/1")?;
        let slots = job["slots"].as_array().cloned().unwrap_or_default();
        Ok(slots.iter().filter(|slot| slot["outcome"] == outcome).count())
    }
}

/// Looks until it is so, or for long enough.
fn comes_true(mut look: impl FnMut() -> Result<bool>) -> Result<bool> {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if look()? {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(false)
}

fn sleep(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let mut sleeper = Sleeper::start(arena)?;
    let job = json!({"cron": "30 * * * *", "what": "stretch", "timezone": "UTC"});
    let made = sleeper.target.ask(&Request::post("/api/v2/schedules", &job).owner())?;
    judgement.control(made.code == 201, || format!("no job was made: {} {}", made.code, made.text()));
    sleeper.target.ingest(KEY, &Said::at_terminal("1", "ask for the party"))?;
    let question = sleeper.target.wait_for_question()?;
    let evening = sleeper.wall()?;
    let fresh = sleeper.hook("evening", evening)?;
    judgement.control(fresh == 202, || format!("a fresh webhook is answered {fresh}"));

    sleeper.sleep(8 * HOUR)?;
    let is_over = comes_true(|| Ok(sleeper.target.approval_status(&question)? == "expired"))?;
    judgement.demand(is_over, || "a question of one minute is open after eight hours".to_owned());
    let decide = Request::post(format!("/api/v2/approvals/{question}/approve"), &json!({})).owner();
    let code = sleeper.target.ask(&decide)?.code;
    judgement.demand(code == 409, || format!("approving it is answered {code}"));
    let caught_up = comes_true(|| Ok(sleeper.slots("caught_up")? > 0))?;
    judgement.demand(caught_up, || "a schedule that was due does not run".to_owned());
    // Two more looks of the scheduler at what it slept through.
    std::thread::sleep(Duration::from_secs(3));
    let (caught_up, fired) = (sleeper.slots("caught_up")?, sleeper.slots("fired")?);
    judgement
        .demand((caught_up, fired) == (1, 0), || format!("{caught_up} slots were caught up, {fired} fired"));
    let (fresh, stale) = (sleeper.hook("morning", sleeper.wall()?)?, sleeper.hook("stale", evening)?);
    judgement.demand(fresh == 202, || format!("a fresh webhook is answered {fresh} after a sleep"));
    judgement.demand(stale == 401, || format!("a webhook of the evening is answered {stale} in the morning"));
    Ok(())
}

fn set_back(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let mut sleeper = Sleeper::start(arena)?;
    let mut stamps = Vec::new();
    for (number, step) in [0, HOUR, -HOUR, 24 * HOUR, -24 * HOUR].into_iter().enumerate() {
        sleeper.sleep(step)?;
        // The server follows within a second.
        std::thread::sleep(Duration::from_millis(1_200));
        let (id, words) = (format!("e{number}"), format!("hello {number}"));
        let sent = sleeper.target.ingest(KEY, &Said::at_terminal(&id, &words))?;
        let is_ours = |message: &Value| message["text"] == format!("re: {words}");
        let answered = sleeper.target.wait_for_message(KEY, "cli", is_ours).is_ok();
        match step {
            0 => judgement.control(answered, || "nothing is answered before the clock is set".to_owned()),
            step => judgement.demand(answered, || format!("nothing is answered after a step of {step} s")),
        }
        let event = sleeper.target.owner_get(&format!("/api/v2/inbox/{}", sent.field("eventId")))?;
        stamps.push(event["createdAt"].as_str().unwrap_or_default().to_owned());
        let fresh = sleeper.hook(&id, sleeper.wall()?)?;
        judgement
            .demand(fresh == 202, || format!("a fresh webhook is answered {fresh} after a step of {step} s"));
    }
    judgement.demand(stamps.is_sorted(), || format!("time went back in an order: {stamps:?}"));
    Ok(())
}
