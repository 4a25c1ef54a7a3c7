//! Several mistakes in the settings: each of them is told, once.

use crate::cortex::Cortex;

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let cortex = Cortex::new()
        .with_file("{\n  \"port\": \"many\",\n  \"colour\": 3,\n  \"logLevel\": \"loud\"\n}\n")
        .with("CORTEX_OUTBOX_MAX_ATTEMPTS", "none");
    let ran = cortex.run(&["config", "--server", "--list"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(78), ""));
    let told: Vec<&str> = ran.stderr.lines().filter(|line| line.contains('×')).collect();
    let parts = [
        "server.json:2: port must be",
        "server.json:3: colour is not",
        "server.json:4: logLevel must be",
        "CORTEX_OUTBOX_MAX_ATTEMPTS: outboxMaxAttempts must be",
    ];
    assert_eq!(told.len(), parts.len(), "{}", ran.stderr);
    for (line, part) in told.iter().zip(parts) {
        assert!(line.contains(part), "{line}");
        assert_eq!(ran.stderr.matches(part).count(), 1, "each is told once: {}", ran.stderr);
    }
    let doctor = cortex.run(&["doctor"]).stdout;
    for part in parts {
        let lines: Vec<&str> = doctor.lines().filter(|line| line.contains(part)).collect();
        assert!(
            lines.len() == 1 && lines[0].starts_with("settings"),
            "the doctor has a line for each: {doctor}"
        );
    }
    assert_eq!(
        cortex.run(&["config", "--server", "--markdown"]).code,
        Some(0),
        "what the help names works then"
    );
}

#[test]
fn every_mistake_inside_a_block_is_told() {
    let text = r#"{
  "prot": 1,
  "hooks": {"ci": {"text": ""}, "x": {"key": "short", "text": "{{/a"}},
  "connectors": {"telegramm": {}, "telegram": {"enabled": "yes", "groups": "some"}, "slack": {"tokn": 1}}
}"#;
    let ran = Cortex::new().with_file(text).run(&["config", "--server", "--list"]);
    assert_eq!(ran.code, Some(78), "{}", ran.stderr);
    for part in [
        "did you mean port?",
        "ci.key (or hmac, or secret) is required",
        "ci.text ",
        "x.key ",
        "x.text ",
        "unknown connector telegramm",
        "telegram: enabled",
        "telegram: groups",
        "slack: unknown field `tokn`",
    ] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
}
