//! The listing, the schema and the reference page, all from the one table of keys.

use crate::cortex::Cortex;
use expect_test::{Expect, expect};
use std::path::Path;

#[test]
fn the_listing_shows_every_key_with_its_default() {
    let ran = Cortex::new().run(&["config", "--server", "--list"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    every_default().assert_eq(&ran.stdout);
}

fn every_default() -> Expect {
    expect![[r#"
        KEY                     VALUE                     SOURCE
        host                    "127.0.0.1"               default
        port                    7751                      default
        allowRemote             false                     default
        allowedHosts            []                        default
        allowedOrigins          []                        default
        ingestApiKey            null                      default
        synapseUrl              "http://localhost:7750"   default
        engramUrl               "http://localhost:7749"   default
        engram                  {}                        default
        connector               {}                        default
        maxRequestsPerKey       1024                      default
        ownerRequestsPerMinute  6000000                   default
        keyRequestsPerMinute    600000                    default
        openRequestsPerMinute   60000                     default
        ollamaUrl               "http://localhost:11434"  default
        model                   null                      default
        extractionModel         null                      default
        providers               null                      default
        embedding               null                      default
        scriptedModel           null                      default
        priceFile               null                      default
        modelTimeoutMs          120000                    default
        modelIdleTimeoutMs      60000                     default
        maxTokensPerEvent       200000                    default
        maxTokensPerDay         0                         default
        enabled                 true                      default
        defaultMode             null                      default
        channels                null                      default
        identities              {}                        default
        connectors              {}                        default
        hippocampus             null                      default
        hippocampusEnabled      null                      default
        contextTokens           0                         default
        activeWindowSize        10                        default
        extractionInterval      3                         default
        turnTtlDays             30                        default
        gardenerTokensPerDay    200000                    default
        schedulerTickSeconds    30                        default
        schedulerTimezone       "UTC"                     default
        outboxPollDefaultBatch  20                        default
        outboxLeaseSeconds      60                        default
        outboxMaxAttempts       10                        default
        inboxMaxAttempts        5                         default
        inboxMaxRestarts        20                        default
        maxParallelTopics       4                         default
        maxQueuedEvents         100000                    default
        maxDatabaseMiB          8192                      default
        maxToolRounds           8                         default
        skillDirs               []                        default
        skillConfig             {}                        default
        skillHeapMiB            32                        default
        skillIsolation          "process"                 default
        undeclaredTools         "run"                     default
        mcpServers              {}                        default
        mcpStartSeconds         5                         default
        mcpCallWaitSeconds      30                        default
        hooks                   {}                        default
        webhooks                {}                        default
        egressAllow             []                        default
        calendars               {}                        default
        approvalTtlMinutes      15                        default
        approvals               {}                        default
        approvers               []                        default
        toolTimeoutMs           20000                     default
        drainSeconds            30                        default
        logLevel                "info"                    default
    "#]]
}

#[test]
fn secrets_are_masked_in_every_listing() {
    let text = r#"{
        "ingestApiKey": "hunter2-one",
        "synapseUrl": "http://me:hunter2-two@localhost:1",
        "providers": {"profiles": [
            {"name": "a", "kind": "openai", "apiKey": "hunter2-three", "baseUrl": "http://me:hunter2-four@x.example"},
            {"name": "b", "kind": "anthropic", "authToken": "hunter2-five"}
        ]}
    }"#;
    let cortex = Cortex::new().with_file(text);
    for arguments in [vec!["config", "--server", "--list"], vec!["config", "--server", "--list", "--json"]] {
        let ran = cortex.run(&arguments);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(!ran.stdout.contains("hunter2"), "{}", ran.stdout);
        assert_eq!(ran.stdout.matches("***").count(), 5, "{}", ran.stdout);
    }
}

#[test]
fn what_tools_keep_secret_is_masked_in_every_listing() {
    let text = r#"{
        "mcpServers": {
            "files": {"command": "npx", "args": ["-y", "server-files"], "env": {"ROOT": "hunter2-one", "DEPTH": "hunter2-two"}},
            "web": {"url": "https://mcp.example.org/mcp", "headers": {"Authorization": "Bearer hunter2-three"}}
        },
        "calendars": {"home": "home.ics", "work": "https://calendar.example.org/hunter2-four/basic.ics"},
        "skillConfig": {"weather": {"apiKey": "hunter2-five", "city": "Bonn"}}
    }"#;
    let cortex = Cortex::new().with_file(text);
    for arguments in [vec!["config", "--server", "--list"], vec!["config", "--server", "--list", "--json"]] {
        let ran = cortex.run(&arguments);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(!ran.stdout.contains("hunter2"), "{}", ran.stdout);
        assert_eq!(ran.stdout.matches("***").count(), 5, "{}", ran.stdout);
        for shown in
            ["server-files", "ROOT", "https://mcp.example.org/mcp", "Authorization", "home.ics", "Bonn"]
        {
            assert!(ran.stdout.contains(shown), "{shown} is no secret: {}", ran.stdout);
        }
    }
}

#[test]
fn the_schema_has_every_key_of_the_listing() {
    let cortex = Cortex::new();
    let schema = cortex.json(&["config", "--server", "--schema"]);
    let listed = cortex.json(&["config", "--server", "--list", "--json"]);
    let properties = schema["properties"].as_object().unwrap();
    for (key, entry) in listed.as_object().unwrap() {
        let property = properties.get(key).unwrap_or_else(|| panic!("{key} is not in the schema"));
        assert_eq!(property.get("default").unwrap_or(&serde_json::Value::Null), &entry["value"], "{key}");
    }
    assert_eq!(properties.len(), listed.as_object().unwrap().len() + 1);
    expect![[r#"
        {
          "default": 10,
          "description": "Claims of a message before it is a dead letter.",
          "maximum": 1000,
          "minimum": 1,
          "type": "integer"
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&properties["outboxMaxAttempts"]).unwrap());
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn the_reference_page_is_the_table() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
    let written = std::fs::read_to_string(page).unwrap();
    let ran = Cortex::new().run(&["config", "--server", "--markdown"]);
    assert_eq!(
        written, ran.stdout,
        "docs/config.md is stale: cortex config --server --markdown > docs/config.md"
    );
}
