//! Homes that cannot be used: one line with a code, the path and the fix.

use crate::cortex::Cortex;
use std::os::unix::fs::PermissionsExt;

#[track_caller]
fn check(cortex: &Cortex, arguments: &[&str], expected: &str) {
    let ran = cortex.run(arguments);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(1), "", expected));
}

#[test]
fn without_a_home_the_line_says_what_to_set() {
    let cortex = Cortex::new();
    let output = cortex.command(&["serve"]).env_remove("CORTEX_HOME").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "cortex: home_unset: neither CORTEX_HOME nor HOME is set; set one, or give --home\n"
    );
}

#[test]
fn a_home_that_is_a_file_is_refused() {
    let cortex = Cortex::new();
    std::fs::write(cortex.home(), "").unwrap();
    for command in ["serve", "start"] {
        check(
            &cortex,
            &[command, "--port", "0"],
            "cortex: home_not_a_folder: [HOME] is not a folder; move it away, or give another --home\n",
        );
    }
}

#[test]
fn a_home_below_a_file_is_refused() {
    let cortex = Cortex::new();
    std::fs::write(cortex.home(), "").unwrap();
    let below = cortex.path("deeper");
    let ran = cortex.run(&["serve", "--home", below.to_str().unwrap()]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.starts_with("cortex: home_not_a_folder: [HOME]/deeper"), "{}", ran.stderr);
}

/// Root may write everywhere, so these two need another user; the container's tests may run as root.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

#[test]
fn a_home_that_is_not_writable_or_not_ours_is_refused() {
    let cortex = Cortex::new();
    std::fs::create_dir(cortex.home()).unwrap();
    if is_root() {
        std::os::unix::fs::chown(cortex.home(), Some(12_345), None).unwrap();
        check(
            &cortex,
            &["serve"],
            "cortex: home_foreign: [HOME] belongs to user id 12345, not to this one; run as its owner, or give another --home\n",
        );
    } else {
        std::fs::set_permissions(cortex.home(), std::fs::Permissions::from_mode(0o500)).unwrap();
        check(
            &cortex,
            &["serve"],
            "cortex: home_not_writable: [HOME] cannot be written by this user; fix its permissions, or give another --home\n",
        );
    }
}

#[test]
fn broken_credentials_are_named_and_not_shown() {
    let cortex = Cortex::new();
    std::fs::create_dir(cortex.home()).unwrap();
    std::fs::write(cortex.path("credentials"), "{\"profiles\":{\"default\":{\"token\":\"hunter2hunter2\"}")
        .unwrap();
    let ran = cortex.run(&["key", "show", "ingest"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.starts_with("cortex: credentials_broken: [HOME]/credentials: line 1"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
}

#[test]
fn the_ingest_key_is_the_configured_one() {
    let cortex = Cortex::new().with("CORTEX_INGEST_API_KEY", "my-own-key");
    assert_eq!(cortex.run(&["key", "show", "ingest"]).stdout, "my-own-key\n");
    let none = Cortex::new().run(&["key", "show", "ingest"]);
    assert_eq!(none.code, Some(1));
    assert!(none.stderr.starts_with("cortex: no_key:"), "{}", none.stderr);
}
