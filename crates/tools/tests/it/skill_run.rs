//! Running: what a skill can use, what it cannot, and what is told when it throws.

use crate::egress_parts::{StubNetwork, bad_server, bad_server_at, guard, percent_encoded};
use crate::skill_parts::{PATIENT, Skills, context, in_processes, written};
use cortex_tools::{CallContext, HostPolicy, ToolCallError};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

async fn look(skills: &Skills, at: &str) -> String {
    skills.call(&format!("world.{at}"), "{}").await.unwrap()
}

#[tokio::test]
async fn a_skill_has_the_globals_it_was_promised_and_no_others() {
    let skills = Skills::load_with(|options| {
        options.config_json.insert("world".to_owned(), r#"{"units":"metric"}"#.to_owned());
    })
    .await;
    assert_eq!(
        look(&skills, "url").await,
        r#"["https://user@example.org/b?q=1+2&r=%C3%A4%26b#end","example.org","/b","1 2","https://example.org",false]"#
    );
    assert_eq!(look(&skills, "params").await, r#"["a=1&a=x+y&b=2",["1","x y"],["a","a","b"],false]"#);
    assert_eq!(look(&skills, "text").await, r#"[7,"grüße","�"]"#);
    assert_eq!(look(&skills, "crypto").await, "[true,true]");
    assert_eq!(look(&skills, "timers").await, r#"["first","second"]"#);
    assert_eq!(
        look(&skills, "time").await,
        r#"["2026-07-27T10:00:00.000Z","2026-07-27T12:00:00+02:00","1970-01-01T09:00:00+09:00"]"#
    );
    assert_eq!(look(&skills, "config").await, r#"{"units":"metric"}"#);
    assert_eq!(look(&skills, "absent").await, "[]");
}

#[tokio::test]
async fn a_skill_of_several_files_finds_them_all() {
    let skills = Skills::load().await;
    assert_eq!(skills.call("parts.greet", "{}").await.as_deref(), Ok("Hello, world! 3 Large 8"));
}

#[tokio::test]
async fn what_a_skill_throws_is_told_with_the_line_its_author_wrote() {
    let skills = Skills::load().await;
    let told = skills.call("faulty.type_error", "{}").await.unwrap_err().to_string();
    assert!(told.starts_with("TypeError: "), "{told}");
    assert!(told.contains("faulty/main.ts:11:"), "{told}");
    assert!(!told.contains("prelude"), "{told}");
    let told = skills.call("faulty.thrown_text", "{}").await;
    assert_eq!(told, Err(ToolCallError::Failed("thrown: just a text".to_owned())));
    let told = skills.call("faulty.no_content", "{}").await.unwrap_err().to_string();
    assert!(told.contains("execute() must return { content: string }"), "{told}");
}

#[tokio::test]
async fn a_skill_keeps_values_in_a_database_of_its_own() {
    let skills = Skills::load().await;
    let kept = skills.call("ledger.values", "{}").await;
    let wanted = r#"[[null,1,1,1.5,"9007199254740993n","text",[1,2]],{"changes":1,"lastInsertRowid":7}]"#;
    assert_eq!(kept.as_deref(), Ok(wanted));
    assert_eq!(skills.call("ledger.left_open", "{}").await.as_deref(), Ok("\"left open\""));
    assert_eq!(skills.call("ledger.count", "{}").await.as_deref(), Ok(r#"[{"kept":7}]"#), "rolled back");
    let mode = std::fs::metadata(skills.database("ledger")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_call_that_wrote_and_never_settles_is_unknown() {
    let skills = Skills::load().await;
    let half = skills.call("ledger.half_done", "{}").await;
    assert!(
        matches!(&half, Err(ToolCallError::Unknown(told)) if told.contains("can never settle")),
        "{half:?}"
    );
    let nothing = skills.call("ledger.nothing_done", "{}").await;
    assert!(matches!(&nothing, Err(ToolCallError::Failed(_))), "{nothing:?}");
    let rows = skills.call("ledger.count", "{}").await;
    assert_eq!(rows.as_deref(), Ok(r#"[{"kept":0}]"#), "the skill goes on");
}

#[tokio::test]
async fn a_statement_without_end_is_stopped_with_its_call() {
    let skills = Skills::load().await;
    let stopped = skills.call_within("ledger.forever", "{}", Duration::from_millis(200)).await;
    assert_eq!(stopped, Err(ToolCallError::Unknown("timed out after 200 ms".to_owned())));
    assert!(skills.call("ledger.values", "{}").await.is_ok(), "the file is not locked");
}

#[tokio::test]
async fn a_skill_fetches_through_the_guard_alone() {
    let server = bad_server().await;
    let network = Arc::new(StubNetwork::default());
    for isolation in [None, Some(in_processes())] {
        let skills = Skills::load_with(|options| {
            options.egress = Arc::new(guard(&network, &[server]));
            options.config_json.insert("web".to_owned(), format!(r#"{{"url":"http://{server}/echo"}}"#));
            options.isolation = isolation.unwrap_or(options.isolation.clone());
        })
        .await;
        let got = skills.call("web.get", &format!(r#"{{"url":"http://{server}/echo"}}"#)).await.unwrap();
        assert!(got.starts_with("200 true text/plain GET /echo"), "{got}");
        assert!(got.to_lowercase().contains("x-trace: 7"), "{got}");
        let posted = skills.call("web.post", "{}").await.unwrap();
        assert!(posted.starts_with("200 true "), "{posted}");
        let refused = skills.call("web.get", r#"{"url":"http://127.0.0.1:1/"}"#).await.unwrap_err();
        assert!(refused.to_string().starts_with("TypeError: "), "{refused}");
    }
}

#[tokio::test]
async fn a_page_sends_a_skill_on_to_no_host_beyond_the_reach_of_its_call() {
    let (server, other) = (bad_server().await, bad_server_at("127.0.0.2").await);
    let network = Arc::new(StubNetwork::default());
    let skills = Skills::load_with(|options| {
        options.egress = Arc::new(guard(&network, &[server, other]));
        options.config_json.insert("web".to_owned(), format!(r#"{{"url":"http://{server}/echo"}}"#));
    })
    .await;
    let sent_to = async |to: &str, reach: &[&str]| {
        let context = CallContext { reach: HostPolicy::only(reach).unwrap(), ..context() };
        let hop = format!(r#"{{"url":"http://{server}/redirect?{}"}}"#, percent_encoded(to));
        skills.call_in(&context, "web.get", &hop, PATIENT).await
    };
    let elsewhere = format!("http://{other}/echo?secret");
    let refused = sent_to(&elsewhere, &["named.example.org"]).await.unwrap_err().to_string();
    assert!(refused.contains("the page sends on to 127.0.0.2, which the person did not name"), "{refused}");
    assert!(!network.dialled().contains(&other), "nothing was even dialled");
    let named = sent_to(&elsewhere, &["127.0.0.2"]).await.unwrap();
    assert!(named.starts_with("200 true"), "a host that the person named: {named}");
    let same = sent_to("/echo", &["named.example.org"]).await.unwrap();
    assert!(same.starts_with("200 true"), "the host that the skill asked: {same}");
}

#[tokio::test]
async fn a_manifest_can_renounce_the_database_and_narrow_the_hosts() {
    const MANIFEST: &str = r#"{"id":"shy","name":"Shy","version":"1","runtimeApiVersion":"1","main":"main.js",
        "permissions":{"db":false,"hosts":["api.example.org"]}}"#;
    const MAIN: &str = "export const listTools = () => ['db', 'http'].map((name) =>
          ({ name, description: 'd', inputSchema: { type: 'object' } }));
        export const execute = async ({ name, argumentsJson }, ctx) => {
          const { url } = JSON.parse(argumentsJson);
          return { content: String(name === 'shy.db' ? ctx.db.query('') : (await ctx.http.fetch(url)).status) };
        };";
    let server = bad_server().await;
    let folder = written(&[("shy/skill.json", MANIFEST), ("shy/main.js", MAIN)]);
    let network = Arc::new(StubNetwork::default());
    let skills = Skills::load_with(|options| {
        options.dirs = vec![folder.path().to_owned()];
        options.egress = Arc::new(guard(&network, &[server]));
    })
    .await;
    let told = skills.call("shy.db", "{}").await.unwrap_err().to_string();
    assert!(told.starts_with("Error: skill.json says \"db\": false"), "{told}");
    let told = skills.call("shy.http", &format!(r#"{{"url":"http://{server}/echo"}}"#)).await.unwrap_err();
    assert!(told.to_string().starts_with("TypeError: "), "{told}");
    assert_eq!(network.dialled(), [], "nothing was even dialled");
}
