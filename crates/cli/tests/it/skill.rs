//! `cortex skill`: from an empty folder to a tool that the assistant calls.

use crate::cortex::{Cortex, Ran};
use std::path::Path;

const MANIFEST: &str =
    r#"{ "id": "ID", "name": "N", "version": "1.0.0", "runtimeApiVersion": "1", "main": "main.ts" }"#;

/// Writes a skill with one tool into `skills` beside the home.
fn write_skill(cortex: &Cortex, id: &str, tool: &str) {
    let folder = cortex.beside(&format!("skills/{id}"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("skill.json"), MANIFEST.replace("ID", id)).unwrap();
    let main = format!(
        "export const listTools = () => [\n  {{ name: '{id}.say', inputSchema: {{ type: 'object' }}, {tool} }},\n];\n\
         export const execute = async (call, ctx) => {{ console.log('called', call.name); \
         return {{ content: `${{ctx.config.word}}` }}; }};\n"
    );
    std::fs::write(folder.join("main.ts"), main).unwrap();
}

fn with_skills() -> Cortex {
    let cortex = Cortex::quiet();
    let skills = cortex.beside("skills");
    std::fs::create_dir_all(&skills).unwrap();
    cortex.with("CORTEX_SKILL_DIRS", skills.to_str().unwrap())
}

#[track_caller]
fn check(ran: &Ran, code: i32, stdout: &str, stderr: &str) {
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(code), stdout, stderr));
}

#[test]
fn a_new_skill_is_in_order_and_its_tools_run() {
    let cortex = Cortex::quiet();
    let made = cortex.run(&["skill", "new", "weather"]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    assert_eq!(made.stdout, "weather/skill.json\nweather/main.ts\nweather/skill.d.ts\nweather/README.md\n");
    for wanted in
        ["skill.d.ts has the types", "cortex skill check weather", "\"skillDirs\": [", "server.json"]
    {
        assert!(made.stderr.contains(wanted), "{}", made.stderr);
    }
    check(&cortex.run(&["skill", "check", "weather"]), 0, "weather: the skill is in order\n", "");
    assert!(!cortex.home().exists(), "an author needs no home");

    let here = "(from ./weather, which is in none of the skillDirs)\n";
    let note = r#"{"note":"rain"}"#;
    let refused = cortex.run(&["skill", "run", "weather.remember", note]);
    let why = format!("{here}cortex: weather.remember changes something; give --yes to run it\n");
    check(&refused, 64, "", &why);
    let ran = cortex.run(&["skill", "run", "weather.remember", note, "--yes", "--dir", "weather"]);
    check(&ran, 0, "Remembered: rain\n", "");
    let recalled = cortex.json(&["skill", "run", "weather.recall", "--json"]);
    assert_eq!(recalled["tool"], "weather.recall");
    assert!(recalled["content"].as_str().unwrap().ends_with(" rain"), "{recalled}");
}

#[test]
fn nothing_is_overwritten_and_a_bad_id_is_told() {
    let cortex = Cortex::new();
    std::fs::create_dir(cortex.beside("weather")).unwrap();
    let why = "cortex: exists: weather is there already; choose another id, or move it away\n";
    check(&cortex.run(&["skill", "new", "weather"]), 1, "", why);
    let why = "cortex: \"two words\" is no skill id; use letters, digits, _ and -, at most 40 characters\n";
    check(&cortex.run(&["skill", "new", "two words"]), 64, "", why);
    let made = cortex.json(&["skill", "new", "tide", "--dir", "deep/down", "--json"]);
    assert_eq!(made["files"][0], "deep/down/tide/skill.json");
}

#[test]
fn a_check_tells_errors_with_exit_1_and_warnings_with_0() {
    let cortex = with_skills();
    write_skill(&cortex, "s", "description: 'd'");
    let warned = cortex.run(&["skill", "check", "skills/s"]);
    let told = "skills/s/main.ts:2:12: warning: s.say does not say whether it changes anything; \
                write mutatesState: true when it does, false when it only reads\n\
                skills/s: the skill is in order\n";
    check(&warned, 0, told, "");
    std::fs::write(cortex.beside("skills/s/main.ts"), "const a = 1;\nconst b = ;\n").unwrap();
    let broken = cortex.run(&["skill", "check", "skills/s"]);
    assert_eq!((broken.code, broken.stderr.as_str()), (Some(1), ""));
    assert!(broken.stdout.starts_with("skills/s/main.ts:2:11: error: "), "{}", broken.stdout);
    let ran = cortex.run(&["skill", "check", "nowhere", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, found["ok"].as_bool()), (Some(1), Some(false)));
    assert_eq!(found["findings"][0]["severity"], "error");
}

#[test]
fn a_run_has_the_skills_settings_and_shows_what_it_logs() {
    for isolation in ["thread", "process"] {
        let cortex = with_skills()
            .with("CORTEX_SKILL_CONFIG", r#"{"s": {"word": "hi"}}"#)
            .with("CORTEX_SKILL_ISOLATION", isolation);
        write_skill(&cortex, "s", "description: 'd', mutatesState: false");
        let ran = cortex.run(&["skill", "run", "s.say"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "hi\n"), "{isolation}: {}", ran.stderr);
        assert!(ran.stderr.contains("called s.say"), "{isolation}: {}", ran.stderr);
    }
}

#[test]
fn a_run_that_cannot_be_is_one_line() {
    let cortex = with_skills();
    write_skill(&cortex, "s", "description: 'd', mutatesState: false");
    let cases = [
        (
            "t.say",
            "{}",
            "cortex: not_found: there is no skill \"t\" in skillDirs or here; name its folder with --dir\n",
        ),
        ("s.shout", "{}", "cortex: not_found: there is no tool s.shout; the skill has s.say\n"),
        ("s.say", "[]", "cortex: not run: bad arguments for s.say: "),
    ];
    for (tool, arguments, why) in cases {
        let ran = cortex.run(&["skill", "run", tool, arguments]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{tool}: {}", ran.stderr);
        assert!(ran.stderr.starts_with(why) && ran.stderr.lines().count() == 1, "{tool}: {}", ran.stderr);
    }
    assert_eq!(cortex.run(&["skill", "run", "no-dot"]).code, Some(64));
}

#[test]
fn the_list_shows_tools_with_and_without_a_server() {
    let cortex = with_skills();
    let none = cortex.run(&["skill", "list"]);
    let why =
        "(no server runs; these are the skills of skillDirs)\nno skills; `cortex skill new <id>` makes one\n";
    check(&none, 0, "", why);
    write_skill(&cortex, "s", "description: 'Says it.', mutatesState: true");
    let table =
        "TOOL   FROM           ASKS FIRST  WHAT IT DOES\ns.say  skill s 1.0.0  yes         Says it.\n";
    assert_eq!(cortex.run(&["skill", "list"]).stdout, table);

    let cortex = cortex.started();
    write_skill(&cortex, "late", "description: 'd', mutatesState: false");
    let list = cortex.json(&["skill", "list", "--json"]);
    let names: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"s.say") && names.contains(&"time.now"), "{names:?}");
    assert_eq!(list["heldBack"][0], "skill late 1.0.0: not loaded yet; `cortex restart` loads it");
}

#[test]
fn a_changed_skill_is_held_back_until_it_is_trusted_with_or_without_a_server() {
    let cortex = with_skills();
    write_skill(&cortex, "s", "description: 'one', mutatesState: false");
    let cortex = cortex.started();
    for (description, runs) in [("two", true), ("three", false)] {
        write_skill(&cortex, "s", &format!("description: '{description}', mutatesState: false"));
        cortex.run(&["restart"]);
        let held_back = cortex.json(&["skill", "list", "--json"])["heldBack"][0].to_string();
        assert!(held_back.contains("its code changed since it was trusted"), "{held_back}");
        if !runs {
            cortex.run(&["stop"]);
        }
        let stale = cortex.run(&["skill", "trust", "s", "--digest", "0f"]);
        let why = "cortex: conflict: \"s\" is not what was shown any more, so nothing was trusted; \
                   `cortex skill trust s` shows it as it is now and trusts that\n";
        check(&stale, 1, "", why);
        let list = cortex.json(&["skill", "list", "--json"]);
        let row = &list["awaitingTrust"][0];
        let (code, digest) = (row["code"]["sha256"].as_str().unwrap(), row["digest"].as_str().unwrap());
        let shown = format!("  the code in [SKILLS]/s, SHA-256 {code}\n    may reach: every public host\n");
        let listed = cortex.run(&["skill", "list"]).stdout;
        let folder = cortex.beside("skills");
        let listed = listed.replace(folder.to_str().unwrap(), "[SKILLS]");
        let exactly = format!("  `cortex skill trust s --digest {digest}` trusts exactly this\n");
        assert!(listed.ends_with(&format!("waiting for trust: s\n{shown}{exactly}")), "{listed}");
        let trusted = cortex.run(&["skill", "trust", "s", "--digest", digest]);
        let told = trusted.stderr.replace(folder.to_str().unwrap(), "[SKILLS]");
        assert_eq!((trusted.code, trusted.stdout.as_str()), (Some(0), "trusted s\n"), "{told}");
        assert_eq!(told, format!("s is trusted with:\n{shown}"));
        if runs {
            let why = "nothing of s changed since it was trusted\n";
            check(&cortex.run(&["skill", "trust", "s"]), 0, "trusted s\n", why);
        }
        if !runs {
            cortex.run(&["start"]);
        }
        let list = cortex.json(&["skill", "list", "--json"]);
        assert_eq!(list["heldBack"], serde_json::json!([]), "{list}");
        let offered = list["items"].as_array().unwrap().iter().find(|tool| tool["name"] == "s.say").unwrap();
        assert_eq!(offered["description"], description);
    }
    let why =
        "cortex: not_found: there is no skill or MCP server \"nobody\"; `cortex skill list` shows them\n";
    check(&cortex.run(&["skill", "trust", "nobody"]), 1, "", why);
}

#[test]
fn a_digest_with_which_nothing_waits_trusts_nothing() {
    let cortex = with_skills();
    write_skill(&cortex, "s", "description: 'one'");
    let cortex = cortex.started();
    let why = "cortex: conflict: nothing of \"s\" with this digest waits to be trusted, so nothing was trusted; \
               `cortex skill list` shows what waits\n";
    for _ in ["over the server", "without one"] {
        check(&cortex.run(&["skill", "trust", "s", "--digest", "0f"]), 1, "", why);
        cortex.run(&["stop"]);
    }
}

#[test]
fn without_a_server_a_skill_that_is_new_is_shown_before_it_is_trusted() {
    let cortex = with_skills().started();
    cortex.run(&["stop"]);
    write_skill(&cortex, "s", "description: 'one'");
    let stale = cortex.run(&["skill", "trust", "s", "--digest", "0f"]);
    assert_eq!((stale.code, stale.stdout.as_str()), (Some(1), ""), "{stale:?}");
    let trusted = cortex.run(&["skill", "trust", "s"]);
    assert_eq!((trusted.code, trusted.stdout.as_str()), (Some(0), "trusted s\n"), "{trusted:?}");
    assert!(trusted.stderr.starts_with("s is trusted with:\n  the code in "), "{}", trusted.stderr);
    assert!(trusted.stderr.contains("  the new tool s.say, which "), "{}", trusted.stderr);
}

#[test]
fn the_list_says_why_an_mcp_server_has_no_tools() {
    let servers = r#"{"gone": {"command": "/nowhere/at-all"}}"#;
    let cortex = Cortex::quiet().with("CORTEX_MCP_SERVERS", servers).started();
    let mut held_back = String::new();
    for _ in 0..500 {
        held_back = cortex.json(&["skill", "list", "--json"])["heldBack"][0].as_str().unwrap().to_owned();
        if !held_back.contains("is connecting") {
            break;
        }
    }
    assert!(held_back.starts_with("mcp gone: is down, next try in "), "{held_back}");
    let table = cortex.run(&["skill", "list"]).stdout;
    assert!(table.lines().last().unwrap().starts_with("held back: mcp gone: "), "{table}");
}

#[test]
fn trust_without_a_server_needs_a_home_that_was_started() {
    let cortex = with_skills();
    let why = "cortex: not_found: there is no skill \"s\" in skillDirs; an MCP server is trusted while the server runs\n";
    check(&cortex.run(&["skill", "trust", "s"]), 1, "", why);
    write_skill(&cortex, "s", "description: 'd'");
    let why =
        "cortex: not_started: this home has no database yet; the first start trusts what server.json names\n";
    check(&cortex.run(&["skill", "trust", "s"]), 1, "", why);
    let elsewhere = cortex.with("CORTEX_SERVER_URL", "http://127.0.0.1:9");
    assert_eq!(elsewhere.run(&["skill", "trust", "s"]).code, Some(2), "another server's trust is not ours");
}

#[test]
fn the_example_of_the_contract_is_served() {
    let cortex = with_skills();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/tests/skills/telegram");
    std::fs::create_dir(cortex.beside("skills/telegram")).unwrap();
    for file in ["skill.json", "main.ts"] {
        std::fs::copy(from.join(file), cortex.beside("skills/telegram").join(file)).unwrap();
    }
    let list = cortex.started().json(&["skill", "list", "--json"]);
    let tool =
        |name: &str| list["items"].as_array().unwrap().iter().find(|tool| tool["name"] == name).cloned();
    assert_eq!(tool("telegram.send").unwrap()["asksFirst"], true);
    assert_eq!(tool("telegram.whoami").unwrap()["origin"], "skill telegram 0.1.0");
}

#[test]
fn a_skill_that_is_wrong_stops_the_start_with_file_and_line() {
    let listed = |names: &[&str]| {
        let tools = names.iter().map(|name| {
            format!("  {{ name: '{name}', description: 'd', inputSchema: {{ type: 'object' }} }},\n")
        });
        format!(
            "export const listTools = () => [\n{}];\nexport const execute = async () => ({{ content: '' }});\n",
            tools.collect::<String>()
        )
    };
    let good = MANIFEST.replace("ID", "s");
    let cases = [
        (good.replace("\"1\"", "\"2\""), listed(&["say"]), "s/skill.json:1:", "runtimeApiVersion is \"2\""),
        (good.clone(), listed(&["say", "s.say"]), "s/main.ts:3:12: ", "the tool s.say is listed twice"),
        (good.clone(), listed(&["two words"]), "s/main.ts:2:12: ", "is not a tool name"),
        (good.clone(), "const a = 1;\nconst b = ;\n".to_owned(), "s/main.ts:2:11: ", "; "),
    ];
    for (manifest, main, place, message) in cases {
        let cortex = with_skills();
        std::fs::create_dir(cortex.beside("skills/s")).unwrap();
        std::fs::write(cortex.beside("skills/s/skill.json"), manifest).unwrap();
        std::fs::write(cortex.beside("skills/s/main.ts"), main).unwrap();
        for command in ["serve", "start"] {
            let ran = cortex.run(&[command]);
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(78), ""), "{command}: {}", ran.stderr);
            assert!(ran.stderr.contains(place) && ran.stderr.contains(message), "{}", ran.stderr);
        }
    }
    let cortex = Cortex::quiet().with_file(r#"{"skillDirs": ["nowhere"]}"#);
    let ran = cortex.run(&["serve"]);
    assert_eq!(ran.code, Some(78));
    assert!(
        ran.stderr.starts_with("cortex: [HOME]/nowhere: the skill folder cannot be read"),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_check_before_a_start_runs_no_code_that_is_not_trusted() {
    let cortex = with_skills();
    write_skill(&cortex, "s", "description: 'd', mutatesState: false");
    let cortex = cortex.started();
    cortex.run(&["stop"]);
    // Were it run, it would not load.
    std::fs::write(cortex.beside("skills/s/main.ts"), "throw new Error('it ran');\n").unwrap();
    let list = cortex.json(&["skill", "list", "--json"]);
    assert!(list["heldBack"][0].as_str().unwrap().contains("its code changed"), "{list}");
    let started = cortex.run(&["start"]);
    assert_eq!(started.code, Some(0), "{}", started.stderr);
    assert!(!started.stderr.contains("it ran"), "{}", started.stderr);
}
