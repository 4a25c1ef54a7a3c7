//! Every way a configuration can be wrong, and the one message it gets.

use crate::cortex::Cortex;
use expect_test::{Expect, expect};

#[track_caller]
fn check(cortex: &Cortex, arguments: &[&str], expected: Expect) {
    let ran = cortex.run(arguments);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(78), ""), "{}", ran.stderr);
    expected.assert_eq(&ran.stderr);
}

#[track_caller]
fn check_file(text: &str, expected: Expect) {
    check(&Cortex::new().with_file(text), &["config", "--server", "--list"], expected);
}

#[test]
fn an_unknown_key_gets_the_nearest_one_as_a_hint() {
    check_file(
        "{\n  \"outboxMaxAtempts\": 3\n}\n",
        expect![[r#"
        config

          × [HOME]/server.json:2: outboxMaxAtempts is not a known key
           ╭─[[HOME]/server.json:2:3]
         1 │ {
         2 │   "outboxMaxAtempts": 3
           ·   ─────────┬────────
           ·            ╰── here
         3 │ }
           ╰────
          help: did you mean outboxMaxAttempts?
    "#]],
    );
    check_file(
        "{\"colour\": 3}",
        expect![[r#"
        config

          × [HOME]/server.json:1: colour is not a known key
           ╭─[[HOME]/server.json:1:2]
         1 │ {"colour": 3}
           ·  ────┬───
           ·      ╰── here
           ╰────
          help: `cortex config --server --markdown` describes every key
    "#]],
    );
}

#[test]
fn a_wrong_type_is_named_with_the_default() {
    check_file(
        "{\n  \"host\": \"127.0.0.1\",\n  \"outboxMaxAttempts\": \"ten\"\n}\n",
        expect![[r#"
        config

          × [HOME]/server.json:3: outboxMaxAttempts must be an integer from 1 to 1000, not "ten"
           ╭─[[HOME]/server.json:3:24]
         2 │   "host": "127.0.0.1",
         3 │   "outboxMaxAttempts": "ten"
           ·                        ──┬──
           ·                          ╰── here
         4 │ }
           ╰────
          help: give an integer from 1 to 1000, or remove the key for the default 10
    "#]],
    );
    check_file(
        "{\"allowRemote\": 1}",
        expect![[r#"
        config

          × [HOME]/server.json:1: allowRemote must be true or false, not 1
           ╭─[[HOME]/server.json:1:17]
         1 │ {"allowRemote": 1}
           ·                 ┬
           ·                 ╰── here
           ╰────
          help: give true or false, or remove the key for the default false
    "#]],
    );
    check_file(
        "{\"port\": null}",
        expect![[r#"
        config

          × [HOME]/server.json:1: port must be an integer from 0 to 65535, not null
           ╭─[[HOME]/server.json:1:10]
         1 │ {"port": null}
           ·          ──┬─
           ·            ╰── here
           ╰────
          help: give an integer from 0 to 65535, or remove the key for the default 7751
    "#]],
    );
    check_file(
        "{\"skillDirs\": [\"a\", 2]}",
        expect![[r#"
        config

          × [HOME]/server.json:1: skillDirs must be a list of non-empty strings, not this list
           ╭─[[HOME]/server.json:1:15]
         1 │ {"skillDirs": ["a", 2]}
           ·               ────┬───
           ·                   ╰── here
           ╰────
          help: give a list of non-empty strings, or remove the key for the default []
    "#]],
    );
}

#[test]
fn a_number_out_of_range_is_named_with_the_range() {
    check_file(
        "{\"port\": 70000}",
        expect![[r#"
        config

          × [HOME]/server.json:1: port must be an integer from 0 to 65535, not 70000
           ╭─[[HOME]/server.json:1:10]
         1 │ {"port": 70000}
           ·          ──┬──
           ·            ╰── here
           ╰────
          help: give an integer from 0 to 65535, or remove the key for the default 7751
    "#]],
    );
    check_file(
        "{\"maxParallelTopics\": 1.5}",
        expect![[r#"
        config

          × [HOME]/server.json:1: maxParallelTopics must be an integer from 1 to 256, not 1.5
           ╭─[[HOME]/server.json:1:23]
         1 │ {"maxParallelTopics": 1.5}
           ·                       ─┬─
           ·                        ╰── here
           ╰────
          help: give an integer from 1 to 256, or remove the key for the default 4
    "#]],
    );
}

#[test]
fn an_unset_variable_is_named() {
    check_file(
        "{\"model\": \"x-${CORTEX_TEST_MISSING}\"}",
        expect![[r#"
        config

          × [HOME]/server.json:1: model uses ${CORTEX_TEST_MISSING}, which is not set
           ╭─[[HOME]/server.json:1:11]
         1 │ {"model": "x-${CORTEX_TEST_MISSING}"}
           ·           ─────────────┬────────────
           ·                        ╰── here
           ╰────
          help: set CORTEX_TEST_MISSING in the environment of the server, or write the value; $${ stands for a plain ${
    "#]],
    );
    check_file(
        "{\"model\": \"${OPEN\"}",
        expect![[r#"
        config

          × [HOME]/server.json:1: model has a ${ without its }
           ╭─[[HOME]/server.json:1:11]
         1 │ {"model": "${OPEN"}
           ·           ────┬───
           ·               ╰── here
           ╰────
          help: close it; $${ stands for a plain ${
    "#]],
    );
}

#[test]
fn a_key_given_twice_is_refused() {
    check_file(
        "{\n  \"port\": 1,\n  \"port\": 2\n}",
        expect![[r#"
        config

          × [HOME]/server.json:3: port is given twice
           ╭─[[HOME]/server.json:3:3]
         2 │   "port": 1,
         3 │   "port": 2
           ·   ───┬──
           ·      ╰── here
         4 │ }
           ╰────
          help: keep one of the two
    "#]],
    );
}

#[test]
fn broken_json_is_shown_without_its_strings() {
    check_file(
        "{\n  \"ingestApiKey\": \"hunter2hunter2\"\n  \"port\": 1\n}",
        expect![[r#"
        config

          × [HOME]/server.json:2: not valid JSON: expected comma
           ╭─[[HOME]/server.json:2:35]
         1 │ {
         2 │   "ingestApiKey": "**************"
           ·                                   ▲
           ·                                   ╰── here
         3 │   "port": 1
           ╰────
          help: comments and trailing commas are fine; names and strings stand in double quotes
    "#]],
    );
    check_file(
        "[1]",
        expect![[r#"
        config

          × [HOME]/server.json:1: the settings must be one object
           ╭─[[HOME]/server.json:1:1]
         1 │ [1]
           · ─┬─
           ·  ╰── here
           ╰────
          help: write { "key": value, … }
    "#]],
    );
}

#[test]
fn a_bad_profile_is_pointed_at() {
    let text = r#"{
  "providers": {"profiles": [
    {"name": "a", "kind": "openai", "apiKey": "hunter2hunter2"},
    {"name": "b", "kind": "openly", "apiKey": "hunter2hunter2"}
  ]}
}"#;
    check_file(
        text,
        expect![[r#"
        config

          × [HOME]/server.json:4: providers.profiles[1] is wrong: unknown variant `openly`, expected one of `openai`, `anthropic`, `google`, `cli`
           ╭─[[HOME]/server.json:4:27]
         3 │     {"name": "a", "kind": "openai", "apiKey": "**************"},
         4 │     {"name": "b", "kind": "openly", "apiKey": "**************"}
           ·                           ────┬───
           ·                               ╰── here
         5 │   ]}
           ╰────
          help: a profile is {name, kind: openai|anthropic|google|cli, baseUrl?, apiKey?|authToken?, models?: {pro?, flash?, lite?}}
    "#]],
    );
    check_file(
        r#"{"providers": {"profile": []}}"#,
        expect![[r#"
        config

          × [HOME]/server.json:1: providers is wrong: unknown field `profile`, expected `profiles` or `contexts`
           ╭─[[HOME]/server.json:1:15]
         1 │ {"providers": {"profile": []}}
           ·               ───────┬───────
           ·                      ╰── here
           ╰────
          help: give an object {"profiles": […]}, or remove the key
    "#]],
    );
}

#[test]
fn a_secret_beside_the_error_is_starred_out() {
    check_file(
        "{\n  \"ingestApiKey\": \"hunter2hunter2\",\n  \"port\": \"x\"\n}",
        expect![[r#"
        config

          × [HOME]/server.json:3: port must be an integer from 0 to 65535, not "x"
           ╭─[[HOME]/server.json:3:11]
         2 │   "ingestApiKey": "**************",
         3 │   "port": "x"
           ·           ─┬─
           ·            ╰── here
         4 │ }
           ╰────
          help: give an integer from 0 to 65535, or remove the key for the default 7751
    "#]],
    );
    check_file(
        "{\"ingestApiKey\": 123456789}",
        expect![[r#"
        config

          × [HOME]/server.json:1: ingestApiKey must be a non-empty string, not a number
           ╭─[[HOME]/server.json:1:18]
         1 │ {"ingestApiKey": *********}
           ·                  ────┬────
           ·                      ╰── here
           ╰────
          help: give a non-empty string, or remove the key
    "#]],
    );
}

#[test]
fn a_variable_or_a_flag_is_named_itself() {
    let list = ["config", "--server", "--list"];
    check(
        &Cortex::new().with("CORTEX_PORT", "high"),
        &list,
        expect![[r#"
        config

          × CORTEX_PORT: port must be an integer from 0 to 65535, not "high"
          help: set it to an integer from 0 to 65535, or unset it
    "#]],
    );
    check(
        &Cortex::new().with("CORTEX_SCHEDULER_TIMEZONE", "Mars/Base"),
        &list,
        expect![[r#"
        config

          × CORTEX_SCHEDULER_TIMEZONE: schedulerTimezone must be an IANA time zone such as "UTC" or "Europe/Berlin", not "Mars/Base"
          help: set it to an IANA time zone such as "UTC" or "Europe/Berlin", or unset it
    "#]],
    );
    check(
        &Cortex::new(),
        &["config", "--server", "--port", "high"],
        expect![[r#"
        config

          × --port: port must be an integer from 0 to 65535, not "high"
          help: give an integer from 0 to 65535
    "#]],
    );
    check(
        &Cortex::new().with("CORTEX_PROVIDERS", "{"),
        &list,
        expect![[r#"
        config

          × CORTEX_PROVIDERS: providers must be an object {"profiles": […]}
          help: set it to an object {"profiles": […]}, or unset it
    "#]],
    );
}

#[test]
fn a_host_that_others_reach_needs_leave_and_a_long_key() {
    check(
        &Cortex::new(),
        &["serve", "--host", "0.0.0.0"],
        expect![[r#"
        config

          × --host: host 0.0.0.0 can be reached from other machines, and allowRemote is false
          help: set "allowRemote": true (CORTEX_ALLOW_REMOTE=true) if that is meant, or host to 127.0.0.1
    "#]],
    );
    let allowed = Cortex::new().with_file(r#"{"host": "0.0.0.0", "allowRemote": true}"#);
    check(
        &allowed,
        &["serve"],
        expect![[r#"
        config

          × [HOME]/server.json: host 0.0.0.0 can be reached from other machines, and no ingestApiKey is set
          help: set ingestApiKey (CORTEX_INGEST_API_KEY) to at least 32 random bytes, such as from `openssl rand -hex 32`
    "#]],
    );
    let short = allowed.with("CORTEX_INGEST_API_KEY", "too-short-a-key-for-this");
    check(
        &short,
        &["serve"],
        expect![[r#"
        config

          × CORTEX_INGEST_API_KEY: host 0.0.0.0 can be reached from other machines, and ingestApiKey is shorter than 32 bytes
          help: set ingestApiKey (CORTEX_INGEST_API_KEY) to at least 32 random bytes, such as from `openssl rand -hex 32`
    "#]],
    );
    for command in ["start", "restart"] {
        let ran = short.run(&[command]);
        assert_eq!(ran.code, Some(78), "{}", ran.stderr);
    }
}

#[test]
fn a_wrong_webhook_is_told_which_field_is_wrong_and_shows_no_secret() {
    check_file(
        "{\n  \"hooks\": {\"ci\": {\"key\": \"s3cret-s3cret-s3cret\", \"text\": \"Build {{status}}\"}}\n}\n",
        expect![[r#"
            config

              × [HOME]/server.json:2: hooks is wrong: ci.text "status" is no JSON pointer; one starts with /
               ╭─[[HOME]/server.json:2:12]
             1 │ {
             2 │   "hooks": {"ci": {"key": "********************", "text": "Build {{status}}"}}
               ·            ─────────────────────────────────┬─────────────────────────────────
               ·                                             ╰── here
             3 │ }
               ╰────
              help: give an object {"<name>": {key, text, …}}, or remove the key for the default {}
        "#]],
    );
    check_file(
        "{\"webhooks\": {\"out\": {\"source\": \"a\", \"url\": \"https://h/s3cret\", \"secret\": \"s3cret\"}}}",
        expect![[r#"
            config

              × [HOME]/server.json:1: webhooks is wrong: out.secret must start with whsec_
               ╭─[[HOME]/server.json:1:14]
             1 │ {"webhooks": {"out": {"source": "a", "url": "****************", "secret": "******"}}}
               ·              ───────────────────────────────────┬───────────────────────────────────
               ·                                                 ╰── here
               ╰────
              help: give an object {"<name>": {source, url, secret}}, or remove the key for the default {}
        "#]],
    );
    check(
        &Cortex::new().with("CORTEX_HOOKS", r#"{"ci": {"text": "x"}}"#),
        &["config", "--server", "--list"],
        expect![[r#"
            config

              × CORTEX_HOOKS: hooks is wrong: ci.key (or hmac, or secret) is required: a sender must prove itself by one of them
              help: set it to an object {"<name>": {key, text, …}}, or unset it
        "#]],
    );
}

#[test]
fn a_file_that_is_not_utf_8_or_not_a_file_is_refused() {
    let cortex = Cortex::new().with_file("");
    std::fs::write(cortex.path("server.json"), b"{\n\"model\": \"\xff\"}").unwrap();
    check(
        &cortex,
        &["config", "--server"],
        expect![[r#"
        config

          × [HOME]/server.json: line 2 is not UTF-8
          help: save it as UTF-8
    "#]],
    );
    std::fs::remove_file(cortex.path("server.json")).unwrap();
    std::fs::create_dir(cortex.path("server.json")).unwrap();
    check(
        &cortex,
        &["config", "--server"],
        expect![[r#"
        config

          × [HOME]/server.json: cannot be read: Is a directory (os error 21)
          help: it must be a readable file
    "#]],
    );
}
