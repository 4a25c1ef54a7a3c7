//! Which value wins: flag over variable over file over default.

use crate::cortex::Cortex;

/// The value and the source of one key, as the listing has them.
#[track_caller]
fn check(cortex: &Cortex, flags: &[&str], key: &str, expected: &str) {
    let arguments = [&["config", "--server", "--list", "--json"], flags].concat();
    let listed = cortex.json(&arguments);
    let seen = format!("{} {}", listed[key]["value"], listed[key]["source"].as_str().unwrap());
    assert_eq!(seen, expected, "{key}");
}

#[test]
fn a_flag_wins_over_a_variable_over_the_file_over_the_default() {
    let bare = Cortex::new();
    check(&bare, &[], "port", "7751 default");
    let file = Cortex::new().with_file(r#"{"port": 1001}"#);
    check(&file, &[], "port", "1001 file");
    let variable = file.with("CORTEX_PORT", "1002");
    check(&variable, &[], "port", "1002 env");
    check(&variable, &["--port", "1003"], "port", "1003 flag");
    check(&variable, &["--port", "1003"], "host", "\"127.0.0.1\" default");
    check(&variable, &["--host", "localhost"], "host", "\"localhost\" flag");
}

#[test]
fn every_key_has_its_twin_in_the_environment() {
    let cortex = Cortex::new()
        .with("CORTEX_OUTBOX_MAX_ATTEMPTS", "3")
        .with("CORTEX_SKILL_DIRS", "/a, /b")
        .with("CORTEX_ALLOWED_HOSTS", r#"["one.example","two.example"]"#)
        .with("CORTEX_ALLOW_REMOTE", "true")
        .with("CORTEX_PROVIDERS", r#"{"profiles":[{"name":"a","kind":"openai","apiKey":"s3cr3t-key"}]}"#)
        .with("CORTEX_MODEL", "")
        .with("CORTEX_NOT_A_KEY", "ignored");
    check(&cortex, &[], "outboxMaxAttempts", "3 env");
    check(&cortex, &[], "skillDirs", r#"["/a","/b"] env"#);
    check(&cortex, &[], "allowedHosts", r#"["one.example","two.example"] env"#);
    check(&cortex, &[], "allowRemote", "true env");
    check(&cortex, &[], "providers", r#"{"profiles":[{"apiKey":"***","kind":"openai","name":"a"}]} env"#);
    check(&cortex, &[], "model", "null default");
}

#[test]
fn the_file_may_have_comments_trailing_commas_and_variables() {
    let text = r#"{
        // a comment
        "model": "${NAME}-large", /* another */
        "port": "${PORT}",
        "extractionModel": "$${NAME}",
        "skillDirs": ["${NAME}", "x",],
        "priceFile": null,
    }"#;
    let cortex = Cortex::new().with_file(text).with("NAME", "tiny").with("PORT", "1234");
    check(&cortex, &[], "model", "\"tiny-large\" file");
    check(&cortex, &[], "port", "1234 file");
    check(&cortex, &[], "extractionModel", "\"${NAME}\" file");
    check(&cortex, &[], "skillDirs", r#"["tiny","x"] file"#);
    check(&cortex, &[], "priceFile", "null default");
}

#[test]
fn poll_defaults_out_of_range_are_clamped() {
    let cortex = Cortex::new().with_file(r#"{"outboxPollDefaultBatch": 5000, "outboxLeaseSeconds": 1}"#);
    check(&cortex, &[], "outboxPollDefaultBatch", "100 file");
    check(&cortex, &[], "outboxLeaseSeconds", "10 file");
}
