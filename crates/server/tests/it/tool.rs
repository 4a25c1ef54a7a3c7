//! `/api/v2/tools`: what the assistant can do, what asks first, and what is held back until it is trusted.

use cortex_testkit::{RunningTestServer, ServerSetup, memory_folder};
use serde_json::{Value, json};
use std::path::Path;

async fn tools(server: &RunningTestServer) -> Value {
    let answer = server.get("/api/v2/tools").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn named<'a>(tools: &'a Value, name: &str) -> Option<&'a Value> {
    tools["items"].as_array().unwrap().iter().find(|row| row["name"] == name)
}

/// A skill of two tools, whose words come from the test.
fn write_skill(folder: &Path, words: &str) {
    let folder = folder.join("notes");
    std::fs::create_dir_all(&folder).unwrap();
    let manifest = json!({
        "id": "notes", "name": "Notes", "version": "1.0.0", "runtimeApiVersion": "1", "main": "main.ts",
    });
    std::fs::write(folder.join("skill.json"), manifest.to_string()).unwrap();
    let source = format!(
        "export const listTools = () => [\n  \
           {{ name: \"read\", description: {words:?}, inputSchema: {{ type: \"object\" }}, mutatesState: false }},\n  \
           {{ name: \"write\", description: \"Writes.\", inputSchema: {{ type: \"object\" }}, mutatesState: true }},\n\
         ];\n\
         export const execute = async () => ({{ content: \"done\" }});\n"
    );
    std::fs::write(folder.join("main.ts"), source).unwrap();
}

#[tokio::test]
async fn every_tool_is_listed_with_its_origin_and_whether_it_asks_first() {
    let skills = memory_folder();
    write_skill(skills.path(), "Reads.");
    let dir = skills.path().to_owned();
    let server =
        ServerSetup::echoing().tools(move |tools| tools.skills.dirs = vec![dir.clone()]).start().await;
    let tools = tools(&server).await;
    assert_eq!(tools["heldBack"], json!([]));
    let expected = json!({
        "name": "notes.read", "description": "Reads.", "origin": "skill notes 1.0.0", "asksFirst": false,
    });
    assert_eq!(named(&tools, "notes.read"), Some(&expected));
    for (name, asks_first) in [
        ("notes.write", true),
        ("time.now", false),
        ("http.get", false),
        ("calendar.list", false),
        ("schedule.create", true),
        ("schedule.delete", true),
        ("schedule.list", false),
        ("schedule.preview", false),
    ] {
        assert_eq!(named(&tools, name).unwrap()["asksFirst"], asks_first, "{name}");
    }
    assert_eq!(named(&tools, "time.now").unwrap()["origin"], "built-in");
    let names: Vec<&str> =
        tools["items"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert!(names.is_sorted(), "{names:?}");
}

#[tokio::test]
async fn a_skill_that_changed_is_held_back_until_it_is_trusted() {
    let skills = memory_folder();
    write_skill(skills.path(), "Reads.");
    let dir = skills.path().to_owned();
    let mut server =
        ServerSetup::echoing().tools(move |tools| tools.skills.dirs = vec![dir.clone()]).start().await;
    assert!(named(&tools(&server).await, "notes.read").is_some(), "what is named is trusted when first seen");
    write_skill(skills.path(), "Reads, and tells its maker.");
    server.restart().await;
    let changed = tools(&server).await;
    assert_eq!(named(&changed, "notes.read"), None);
    let lines = changed["heldBack"].as_array().unwrap();
    let line = lines[0].as_str().unwrap();
    assert!(
        lines.len() == 1 && line.starts_with("skill notes: ") && line.contains("its code changed"),
        "{lines:?}"
    );
    let rows = changed["awaitingTrust"].as_array().unwrap();
    let (row, code) = (&rows[0], &rows[0]["code"]);
    assert_eq!((rows.len(), &row["name"], &row["tools"]), (1, &json!("notes"), &json!([])));
    assert_eq!(code["folder"], json!(skills.path().join("notes")));
    assert_eq!((code["sha256"].as_str().unwrap().len(), &code["hosts"]), (64, &Value::Null));
    let shown = json!({ "digest": row["digest"] });
    write_skill(skills.path(), "Reads, and does worse.");
    server.restart().await;
    let refused = server.post("/api/v2/tools/notes/trust", &shown).await;
    assert_eq!((refused.status, &refused.json()["error"]), (409, &json!("conflict")), "{}", refused.text());
    write_skill(skills.path(), "Reads, and tells its maker.");
    server.restart().await;
    let trusted = server.post("/api/v2/tools/notes/trust", &shown).await;
    assert_eq!((trusted.status, trusted.text().as_str()), (204, ""));
    let offered = tools(&server).await;
    assert_eq!(named(&offered, "notes.read").unwrap()["description"], "Reads, and tells its maker.");
    assert_eq!((&offered["heldBack"], &offered["awaitingTrust"]), (&json!([]), &json!([])));
    server.restart().await;
    assert!(named(&tools(&server).await, "notes.read").is_some(), "trust lasts");
}

#[tokio::test]
async fn nothing_that_is_not_there_can_be_trusted() {
    let server = ServerSetup::echoing().start().await;
    for id in ["nobody", "time", "notes.read", "..", "%00"] {
        let answer = server.post(&format!("/api/v2/tools/{id}/trust"), &json!({ "digest": "0f" })).await;
        assert_eq!(answer.seen(), (404, json!({ "error": "not_found" })), "{id}");
    }
}
