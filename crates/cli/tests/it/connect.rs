//! Whom a command talks to while no server of its home runs.

use crate::cortex::Cortex;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::fchown;
use std::time::Duration;

/// A user id that is neither ours nor root's.
const SOMEBODY: u32 = 54_321;

/// Stops the server and takes its port; what is sent there is read.
fn port_taken() -> (Cortex, TcpListener, String) {
    let cortex = Cortex::quiet().started();
    assert_eq!(cortex.run(&["stop"]).code, Some(0));
    let credentials: serde_json::Value =
        serde_json::from_slice(&std::fs::read(cortex.path("credentials")).unwrap()).unwrap();
    let profile = &credentials["profiles"]["default"];
    let address = profile["server_url"].as_str().unwrap().trim_start_matches("http://").to_owned();
    let listener = TcpListener::bind(&address).unwrap();
    (cortex, listener, profile["token"].as_str().unwrap().to_owned())
}

/// The first words that reach the listener, or nothing.
fn heard(listener: &TcpListener) -> Option<String> {
    listener.set_nonblocking(true).unwrap();
    let (mut stream, _) = listener.accept().ok()?;
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut bytes = vec![0; 64 * 1024];
    let count = stream.read(&mut bytes).unwrap();
    Some(String::from_utf8_lossy(&bytes[..count]).into_owned())
}

#[test]
fn nothing_is_sent_to_another_user_who_took_the_port_of_a_stopped_server() {
    let (cortex, listener, _) = port_taken();
    if let Err(error) = fchown(&listener, Some(SOMEBODY), None) {
        // Only root may hand a socket to somebody else; the rule itself is tested beside it.
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
        return;
    }
    for command in [["status"].as_slice(), &["send", "hi"], &["approvals", "list"], &["memory", "list"]] {
        let ran = cortex.run(command);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{command:?}: {}", ran.stderr);
        let told =
            "cortex: foreign_server: another user of this machine (uid 54321) listens at http://127.0.0.1:";
        assert!(ran.stderr.starts_with(told), "{command:?}: {}", ran.stderr);
        assert_eq!(heard(&listener), None, "{command:?}");
    }
    let doctor = cortex.run(&["doctor"]);
    assert!(doctor.stdout.contains("another user of this machine (uid 54321)"), "{}", doctor.stdout);
    assert_eq!(heard(&listener), None);
}

#[test]
fn a_listener_of_ours_is_talked_to() {
    let (cortex, listener, token) = port_taken();
    let mut asking = cortex.command(&["status"]).spawn().unwrap();
    let words = crate::bot_api::until("a request", || heard(&listener));
    assert!(words.contains(&token), "{words}");
    drop(listener);
    asking.wait().unwrap();
}
