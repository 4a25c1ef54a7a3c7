//! Other users of the machine: their programs are not the owner's, and need a key.

use cortex_testkit::ServerSetup;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Nobody's account has this number.
const ANOTHER_USER: u32 = 54_321;

/// The first line of the answer that a program of this user gets; none where it cannot be run.
fn asked_by(user: Option<u32>, port: u16, path: &str) -> Option<String> {
    let request = format!("GET {path} HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n");
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port} && printf '{request}' >&3 && read -r line <&3 && echo \"$line\""
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir("/");
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let output = command.output().ok()?;
    let line = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (!line.is_empty()).then_some(line)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_another_user_needs_a_key() {
    // Only root may run something as somebody else.
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if !is_root || asked_by(Some(ANOTHER_USER), 9, "/").is_some() {
        eprintln!("skipped: this test needs root and /proc, to run a program as another user");
        return;
    }
    let server = ServerSetup::echoing().engram_for_local_clients().start().await;
    let port = server.address().port();
    for path in ["/connector", "/api/cortex-m/v1/connector", "/engram/capabilities"] {
        let own = asked_by(None, port, path);
        if own.is_none() {
            eprintln!("skipped: there is no bash that can connect");
            return;
        }
        assert_eq!(own.as_deref(), Some("HTTP/1.1 200 OK"), "{path}");
        let others = asked_by(Some(ANOTHER_USER), port, path);
        assert_eq!(others.as_deref(), Some("HTTP/1.1 401 Unauthorized"), "{path}");
    }
    assert_eq!(asked_by(Some(ANOTHER_USER), port, "/health").as_deref(), Some("HTTP/1.1 200 OK"));
}
