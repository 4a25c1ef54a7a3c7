//! Children of the server: what they cannot do, and that they end with it.

use crate::mcp_parts::{has_python, host, python};
use crate::skill_parts::{Skills, in_processes};
use cortex_testkit::eventually;
use cortex_tools::{ChildHost, confinement_gaps};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
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
    eventually("the process is gone", async || test_kill_process(process).is_err().then_some(())).await;
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
