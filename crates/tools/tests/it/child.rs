//! Children of the server: what they cannot do, and that they end with it.

use crate::mcp_parts::{has_python, host, is_gone, python};
use crate::skill_parts::{Skills, fixtures, in_processes};
use cortex_testkit::eventually;
use cortex_tools::{ChildHost, confinement_gaps};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A program behind a host, as the server starts one.
struct Hosted {
    host: Child,
    about: Value,
}

impl Hosted {
    /// Runs Python that prints one line of JSON.
    fn start(order: &Value, script: &str, args: &[&Path]) -> Self {
        let ChildHost { program, args: own, .. } = host(Vec::new());
        let mut host = Command::new(program)
            .args(own)
            .arg(order.to_string())
            .arg(python())
            .args(["-c", script])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(host.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { host, about: serde_json::from_str(&line).unwrap() }
    }

    fn process(&self, name: &str) -> Pid {
        Pid::from_raw(i32::try_from(self.about[name].as_i64().unwrap()).unwrap()).unwrap()
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        self.host.kill().and_then(|()| self.host.wait().map(drop)).unwrap_or_default();
    }
}

fn open_order() -> Value {
    json!({"closed": [], "named": [], "minder": null})
}

async fn gone(process: Pid) {
    eventually("the process is gone", async || is_gone(process).then_some(())).await;
}

const FAMILY: &str = r#"
import json, os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdin=subprocess.DEVNULL)
print(json.dumps({"self": os.getpid(), "child": child.pid}), flush=True)
time.sleep(600)
"#;

#[tokio::test]
async fn a_child_that_ignores_its_input_ends_with_the_server_and_so_do_its_children() {
    if !has_python() {
        return;
    }
    let order = open_order();
    let mut command = Command::new(env!("CARGO_BIN_EXE_skill-child"));
    // A group of its own: the host ends its whole group.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut minder = command
        .arg("child-host")
        .arg(order.to_string())
        .arg(python())
        .args(["-c", FAMILY])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(minder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let about: Value = serde_json::from_str(&line).unwrap();
    // This is what is left of a server that was killed: the other end of the pipe closes.
    drop(minder.stdin.take());
    for name in ["self", "child"] {
        gone(Pid::from_raw(i32::try_from(about[name].as_i64().unwrap()).unwrap()).unwrap()).await;
    }
    minder.wait().unwrap();
}

/// Stands in for the server: starts a host, fills its input until nothing more goes in, and says so.
const SERVER: &str = r#"
import json, os, subprocess, sys, time
host = subprocess.Popen(json.loads(sys.argv[1]), stdin=subprocess.PIPE, process_group=0)
os.set_blocking(host.stdin.fileno(), False)
written = 0
while written < 132 * 1024:
    try:
        written += os.write(host.stdin.fileno(), b"x" * 1023 + b"\n")
    except BlockingIOError:
        time.sleep(0.01)
open(sys.argv[2], "w").write(str(host.pid))
time.sleep(600)
"#;

/// Reads nothing, and starts a child, and another one that leaves its group, its session and its parent.
const STUBBORN: &str = r#"
import json, os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGPIPE, signal.SIG_IGN)
sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
child = subprocess.Popen(sleeps, **quiet)
leave = "import os, subprocess, sys; os.setsid(); print(subprocess.Popen(sys.argv[1:], stdin=0, stdout=2).pid)"
left = subprocess.run([sys.executable, "-c", leave, *sleeps], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
about = {"self": os.getpid(), "child": child.pid, "left": int(left.stdout)}
print(json.dumps(about), flush=True)
while "flood" in sys.argv:
    try:
        os.write(1, b"x" * 65536)
    except OSError:
        pass
time.sleep(600)
"#;

/// Kills the server while nothing goes in, and while nothing goes in or out.
#[tokio::test]
async fn a_child_behind_full_pipes_ends_with_a_killed_server_and_so_does_what_it_started() {
    if !has_python() {
        return;
    }
    for word in ["silent", "flood"] {
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("full");
        let ChildHost { program, args: own, .. } = host(Vec::new());
        let mut words = vec![program.display().to_string()];
        words.extend(own);
        words.extend([
            open_order().to_string(),
            python(),
            "-c".to_owned(),
            STUBBORN.to_owned(),
            word.to_owned(),
        ]);
        let mut server = Command::new(python())
            .args(["-c", SERVER, &json!(words).to_string()])
            .arg(&note)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Held to the end and read once, so that a flood has nowhere to go.
        let mut output = BufReader::new(server.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let about: Value = serde_json::from_str(&line).unwrap();
        eventually("nothing more goes in", async || note.exists().then_some(())).await;
        server.kill().unwrap();
        server.wait().unwrap();
        for name in ["self", "child", "left"] {
            let process = Pid::from_raw(i32::try_from(about[name].as_i64().unwrap()).unwrap()).unwrap();
            eventually(format!("{word}: {name} is gone"), async || is_gone(process).then_some(())).await;
        }
        drop(output);
    }
}

#[tokio::test]
async fn a_program_ends_when_its_host_is_killed() {
    if !has_python() {
        return;
    }
    let script =
        "import json, os, time; print(json.dumps({'self': os.getpid()}), flush=True); time.sleep(600)";
    let hosted = Hosted::start(&open_order(), script, &[]);
    let minder = Pid::from_raw(i32::try_from(hosted.host.id()).unwrap()).unwrap();
    kill_process(minder, Signal::KILL).unwrap();
    gone(hosted.process("self")).await;
}

#[tokio::test]
async fn a_server_gains_no_rights_and_reads_no_closed_folder() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    for path in ["home/keys", "home/mine", "open"] {
        std::fs::create_dir_all(real.join(path)).unwrap();
        std::fs::write(real.join(path).join("file"), "secret").unwrap();
    }
    std::os::unix::fs::symlink(real.join("home"), real.join("open/link")).unwrap();
    let script = r#"
import json, os, resource, sys
root = sys.argv[1]
def tried(work):
    try:
        work()
        return True
    except OSError:
        return False
print(json.dumps({
    "keys": tried(lambda: open(root + "/home/keys/file").read()),
    "through": tried(lambda: open(root + "/open/link/keys/file").read()),
    "write": tried(lambda: open(root + "/home/keys/new", "w")),
    "mine": tried(lambda: open(root + "/home/mine/file").read()),
    "open": tried(lambda: open(root + "/open/new", "w")),
    "privs": [line.split()[1] for line in open("/proc/self/status") if line.startswith("NoNewPrivs")],
    "core": resource.getrlimit(resource.RLIMIT_CORE)[1],
    "fds": sorted(os.listdir("/proc/self/fd")),
}), flush=True)
"#;
    let _ours = std::fs::File::open(real.join("open/file")).unwrap();
    let order = json!({"closed": [real.join("home")], "named": [real.join("home/mine")], "minder": null});
    let hosted = Hosted::start(&order, script, &[&real]);
    let about = &hosted.about;
    assert_eq!((&about["privs"], &about["core"]), (&json!(["1"]), &json!(0)), "{about}");
    assert_eq!(about["fds"], json!(["0", "1", "2", "3"]), "3 is the folder it reads to see them");
    assert_eq!((&about["open"], &about["mine"]), (&json!(true), &json!(true)), "{about}");
    if confinement_gaps().iter().all(|gap| !gap.contains("no Landlock")) {
        let closed = (&about["keys"], &about["through"], &about["write"]);
        assert_eq!(closed, (&json!(false), &json!(false), &json!(false)), "{about}");
    }
}

#[tokio::test]
async fn a_skill_in_a_process_has_no_rights_files_or_processes_and_keeps_its_database() {
    let skills = Skills::load_with(|options| options.isolation = in_processes()).await;
    assert!(skills.call("ledger.values", "{}").await.is_ok());
    let process = skills.process_id("ledger").await.unwrap();
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{process}/{name}")).unwrap();
    assert!(read("status").contains("NoNewPrivs:\t1"), "{}", read("status"));
    let limits = read("limits");
    let of = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!((of("Max core file size"), of("Max processes")), ("0".to_owned(), "0".to_owned()));
    assert_eq!(of("Max open files"), "64");
    let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    assert!(environment.is_empty());
}

#[tokio::test]
async fn a_skill_that_hears_nothing_ends_with_a_killed_server() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_skill-child"))
        .arg("skill-server")
        .arg(fixtures().join("ledger"))
        .arg(data.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let skill = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
    // A stopped process does not see that its input ended.
    kill_process(skill, Signal::STOP).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    gone(skill).await;
}

#[test]
fn a_skill_goes_on_when_the_thread_that_asked_for_it_ends() {
    let asked = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let skills = runtime.block_on(Skills::load_with(|options| options.isolation = in_processes()));
        (runtime, skills)
    });
    let (runtime, skills) = asked.join().unwrap();
    runtime.block_on(async {
        let before = skills.process_id("ledger").await.unwrap();
        assert!(skills.call("ledger.values", "{}").await.is_ok());
        assert_eq!(skills.process_id("ledger").await, Some(before), "it was not started anew");
    });
}

/// Takes memory, or processes, until there is no more, and says how far it came.
const GREEDY: &str = r#"
import json, os, resource, sys, threading, time
limits = {"data": resource.getrlimit(resource.RLIMIT_DATA)[1], "nproc": resource.getrlimit(resource.RLIMIT_NPROC)[1]}
taken, threads, go = [], 0, threading.Event()
try:
    while len(taken) < 64:
        taken.append(bytearray(8 * 1024 * 1024))
except MemoryError:
    pass
mib = len(taken) * 8
taken = None
try:
    while threads < 200:
        threading.Thread(target=go.wait, daemon=True).start()
        threads += 1
except RuntimeError:
    pass
print(json.dumps({**limits, "mib": mib, "threads": threads}), flush=True)
time.sleep(600)
"#;

#[tokio::test]
async fn a_server_gets_no_more_memory_and_processes_than_it_is_given() {
    if !has_python() {
        return;
    }
    let mut order = open_order();
    let free = Hosted::start(&order, GREEDY, &[]);
    assert_eq!((&free.about["mib"], &free.about["threads"]), (&json!(512), &json!(200)), "{}", free.about);
    order["limits"] = json!({"memory_mib": 256, "processes": 20});
    let bound = Hosted::start(&order, GREEDY, &[]);
    let number = |name: &str| bound.about[name].as_u64().unwrap();
    assert_eq!(number("data"), 256 * 1024 * 1024);
    assert!((8..=256).contains(&number("mib")), "{}", bound.about);
    // The system counts the processes of a user, and none of root's.
    assert!(number("nproc") >= 20 && number("nproc") < 1_000_000, "{}", bound.about);
    if !rustix::process::getuid().is_root() {
        assert!(number("threads") <= 60, "{}", bound.about);
    }
}

#[tokio::test]
async fn a_server_cannot_stop_or_kill_what_watches_over_it() {
    if !has_python() {
        return;
    }
    let script = r#"
import json, os, signal, time
def tried(number):
    try:
        os.kill(os.getppid(), number)
        return True
    except PermissionError:
        return False
child = os.fork()
if child == 0:
    time.sleep(600)
os.kill(child, signal.SIGKILL)
print(json.dumps({"stop": tried(signal.SIGSTOP), "kill": tried(signal.SIGKILL)}), flush=True)
time.sleep(600)
"#;
    let folder = tempfile::tempdir().unwrap();
    let closed = json!({"closed": [folder.path().canonicalize().unwrap()], "named": [], "minder": null});
    if confinement_gaps().is_empty() {
        // An unconfined server opens every folder, and still ends with Cortex.
        for order in [closed, open_order()] {
            let hosted = Hosted::start(&order, script, &[]);
            assert_eq!(hosted.about, json!({"stop": false, "kill": false}), "{order}");
        }
    }
}
