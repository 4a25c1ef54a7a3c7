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
    let server = ServerSetup::echoing().engram_for_local_clients().start().await;
    let port = server.address().port();
    let own = std::fs::metadata("/proc/self").map(|own| own.uid());
    // Only root may run something as somebody else.
    let health = asked_by(Some(ANOTHER_USER), port, "/health").filter(|_| own.is_ok_and(|own| own == 0));
    let Some(health) = health else {
        eprintln!("skipped: it needs root, bash and /proc to run a program as another user");
        return;
    };
    assert_eq!(health, "HTTP/1.1 200 OK");
    for path in ["/connector", "/api/cortex-m/v1/connector", "/engram/capabilities"] {
        assert_eq!(asked_by(None, port, path).as_deref(), Some("HTTP/1.1 200 OK"), "{path}");
        let others = asked_by(Some(ANOTHER_USER), port, path);
        assert_eq!(others.as_deref(), Some("HTTP/1.1 401 Unauthorized"), "{path}");
    }
}
