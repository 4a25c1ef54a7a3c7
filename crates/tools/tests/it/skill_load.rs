//! Loading: the contract's own example, every way to be wrong, and what is trusted.

use crate::skill_parts::{Pins, Skills, fixtures, options, written};
use cortex_tools::{
    Mutation, Severity, SkillSet, SkillState, ToolCallError, ToolProvider, ToolRunner, ToolSource,
    check_skill, skill_template,
};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use tempfile::TempDir;

const MANIFEST: &str = r#"{
  "id": "s",
  "name": "S",
  "version": "1.0.0",
  "runtimeApiVersion": "1",
  "main": "main.ts"
}"#;
const EMPTY: &str =
    "export const listTools = () => [];\nexport const execute = async () => ({ content: '' });\n";

/// A skill whose only tools have these names.
fn tools(names: &[&str]) -> String {
    let listed: Vec<String> = names
        .iter()
        .map(|name| format!("  {{ name: '{name}', description: 'd', inputSchema: {{ type: 'object' }} }},"))
        .collect();
    format!(
        "export const listTools = () => [\n{}\n];\nexport const execute = async () => ({{ content: 'x' }});\n",
        listed.join("\n")
    )
}

async fn problems(dir: &Path) -> Vec<String> {
    let data = TempDir::new().unwrap();
    let loaded = SkillSet::load(&options(&[dir.to_owned()], data.path()), &Pins::default()).await;
    let problems = loaded.err().unwrap();
    let shown = |path: &Path| path.strip_prefix(dir).unwrap_or(path).display().to_string();
    problems
        .iter()
        .map(|problem| {
            problem.to_string().replace(&problem.path.display().to_string(), &shown(&problem.path))
        })
        .collect()
}

async fn check(files: &[(&str, &str)], wanted: &str) {
    let folder = written(files);
    let found = problems(folder.path()).await;
    assert!(found[0].starts_with(wanted), "{found:#?} does not start with {wanted}");
    assert!(found[0].contains("; "), "{found:?} says what to do");
}

#[tokio::test]
async fn the_example_of_the_contract_loads_as_it_is_written() {
    let skills = Skills::load_with(|options| {
        options.config_json.insert("telegram".to_owned(), r#"{"bot":"cortex_bot"}"#.to_owned());
    })
    .await;
    let definitions = skills.registry.definitions();
    let tool = |name: &str| definitions.iter().find(|tool| tool.name.as_str() == name).unwrap();
    assert_eq!(tool("telegram.send").mutation, Mutation::Mutates);
    assert_eq!(tool("telegram.whoami").mutation, Mutation::Undeclared);
    let source = ToolSource::Skill { id: "telegram".to_owned(), version: "0.1.0".to_owned() };
    assert_eq!(tool("telegram.send").source, source);
    let sent = skills.call("telegram.send", r#"{"text":"hi","chat":"7"}"#).await;
    assert_eq!(sent.as_deref(), Ok("2026-07-27T10:00:00.000Z 7: hi"));
    assert_eq!(skills.call("telegram.whoami", "{}").await.as_deref(), Ok("the bot cortex_bot"));
}

#[tokio::test]
async fn a_manifest_that_is_wrong_stops_the_start_with_its_line() {
    let version = MANIFEST.replace("\"1\"", "\"2\"");
    check(
        &[("s/skill.json", &version), ("s/main.ts", EMPTY)],
        "s/skill.json:5:4: runtimeApiVersion is \"2\"",
    )
    .await;
    check(&[("s/main.ts", EMPTY)], "s/skill.json: cannot be read").await;
    check(&[("s/skill.json", "{\n  \"id\" \"s\"\n}")], "s/skill.json:2:").await;
    check(&[("other/skill.json", MANIFEST)], "other/skill.json:2:10: id is \"s\", the folder is \"other\"")
        .await;
    check(&[("s/skill.json", MANIFEST)], "s/main.ts: cannot be read").await;
}

#[tokio::test]
async fn tools_that_are_wrong_stop_the_start_with_their_line() {
    for (names, wanted) in [
        (&["one", "s.one"][..], "s/main.ts:3:12: the tool s.one is listed twice"),
        (&["one", "two words"], "s/main.ts:3:12: \"s.two words\" is not a tool name"),
        (&["one", "t.two"], "s/main.ts:3:12: the tool \"t.two\" has the prefix of another skill"),
        (&["a.b.c"], "s/main.ts:2:12: the tool \"a.b.c\" has the prefix"),
    ] {
        check(&[("s/skill.json", MANIFEST), ("s/main.ts", &tools(names))], wanted).await;
    }
    let schema = tools(&["one"]).replace("'object'", "'strnig'");
    check(&[("s/skill.json", MANIFEST), ("s/main.ts", &schema)], "s/main.ts:2:12: the inputSchema of s.one")
        .await;
}

#[tokio::test]
async fn code_that_cannot_run_stops_the_start_with_its_place() {
    for (main, wanted) in [
        ("const a = 1;\nconst b = ;\n", "s/main.ts:2:11: "),
        ("let a = 1;\nlet a = 2;\n", "s/main.ts:1:5: "),
        ("import x from 'lodash';\nx();\n", "s/main.ts:1:15: \"lodash\" is a package"),
        ("import fs from 'node:fs';\nfs();\n", "s/main.ts:1:16: \"node:fs\" is a package"),
        ("import { a } from './lib/a';\na();\n", "s/main.ts:1:19: \"./lib/a\" is no .ts, .js or .json file"),
        ("import { a } from '../t/a';\na();\n", "s/main.ts:1:19: \"../t/a\" leads out"),
        ("export const listTools = () => [];\n", "s/main.ts: TypeError: export listTools() and execute"),
        ("interface A {}\n\nthrow new Error('no');\n", "s/main.ts:3:11: Error: no"),
        ("await new Promise(() => {});\n", "s/main.ts: its promise can never settle"),
    ] {
        check(&[("s/skill.json", MANIFEST), ("s/main.ts", main), ("t/a.ts", "")], wanted).await;
    }
}

#[tokio::test]
async fn every_problem_of_every_skill_is_told_at_once() {
    let folder = written(&[
        ("a/skill.json", "{}"),
        ("b/skill.json", &MANIFEST.replace("\"s\"", "\"b\"")),
        ("b/main.ts", "const = 1;"),
    ]);
    let found = problems(folder.path()).await.join("\n");
    for wanted in
        ["a/skill.json:1:1: runtimeApiVersion is missing", "a/skill.json:1:1: id is missing", "b/main.ts:1:7"]
    {
        assert!(found.contains(wanted), "{found} does not tell {wanted}");
    }
}

#[tokio::test]
async fn a_skill_folder_that_is_missing_stops_the_start() {
    let folder = written(&[]);
    let found = problems(&folder.path().join("nowhere")).await;
    assert!(found[0].contains("the skill folder cannot be read"), "{found:?}");
}

#[tokio::test]
async fn a_skill_that_is_named_in_place_of_its_folder_stops_the_start() {
    let folder = written(&[("s/skill.json", MANIFEST), ("s/main.ts", EMPTY)]);
    let found = problems(&folder.path().join("s")).await;
    assert!(found[0].contains("is a skill itself, not a folder of skills; name the folder"), "{found:?}");
}

#[tokio::test]
async fn a_path_that_leads_out_is_refused() {
    let outside = written(&[("secret.ts", EMPTY), ("s/skill.json", MANIFEST), ("s/main.ts", EMPTY)]);
    let escaping = MANIFEST.replace("main.ts", "../../secret.ts");
    check(&[("s/skill.json", &escaping)], "s/../../secret.ts: leads out of the skill's folder").await;

    let folder = written(&[("s/skill.json", MANIFEST)]);
    symlink(outside.path().join("secret.ts"), folder.path().join("s/main.ts")).unwrap();
    assert!(problems(folder.path()).await[0].starts_with("s/main.ts: leads out"), "a linked file");

    let folder = written(&[]);
    symlink(outside.path().join("s"), folder.path().join("s")).unwrap();
    assert!(problems(folder.path()).await[0].starts_with("s: leads out"), "a linked folder");
}

#[tokio::test]
async fn what_everybody_may_write_is_refused() {
    for open in ["s/main.ts", "s/skill.json", "s", "."] {
        let folder = written(&[("s/skill.json", MANIFEST), ("s/main.ts", EMPTY)]);
        fs::set_permissions(folder.path().join(open), fs::Permissions::from_mode(0o777)).unwrap();
        let found = problems(folder.path()).await;
        assert!(found[0].contains("everybody on this machine may write it"), "{open}: {found:?}");
        fs::set_permissions(folder.path().join(open), fs::Permissions::from_mode(0o770)).unwrap();
        let found = problems(folder.path()).await;
        assert!(found[0].contains("everybody in its group may write it"), "{open}: {found:?}");
        fs::set_permissions(folder.path().join(open), fs::Permissions::from_mode(0o755)).unwrap();
        // Only root can give a file away.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(folder.path().join(open), Some(12_345), None).unwrap();
            let found = problems(folder.path()).await;
            assert!(found[0].contains("belongs to another user"), "{open}: {found:?}");
        }
    }
}

#[tokio::test]
async fn the_same_skill_in_two_folders_stops_the_start() {
    let (one, other) =
        (written(&[("s/skill.json", MANIFEST), ("s/main.ts", EMPTY)]), TempDir::new().unwrap());
    let two = written(&[("s/skill.json", MANIFEST), ("s/main.ts", EMPTY)]);
    let dirs = [one.path().to_owned(), two.path().to_owned()];
    let problems = SkillSet::load(&options(&dirs, other.path()), &Pins::default()).await.err().unwrap();
    assert!(problems[0].to_string().contains("already in"), "{problems:?}");
}

#[tokio::test]
async fn a_changed_definition_disables_its_skill_until_it_is_trusted_again() {
    let (pins, data) = (Pins::default(), TempDir::new().unwrap());
    let folder = written(&[("s/skill.json", MANIFEST), ("s/main.ts", &tools(&["one", "two"]))]);
    let options = options(&[folder.path().to_owned()], data.path());
    let first = SkillSet::load(&options, &pins).await.unwrap();
    assert_eq!(first.ready_definitions().len(), 2);
    assert_eq!(first.skills().next().unwrap().living_threads(), 1, "what is trusted was started");

    let other_code = format!("{}\nexport const hidden = 1;\n", tools(&["one", "two"]));
    fs::write(folder.path().join("s/main.ts"), other_code).unwrap();
    let recoded = SkillSet::load(&options, &pins).await.unwrap();
    let skill = recoded.skills().next().unwrap();
    assert_eq!(skill.state, SkillState::CodeChanged);
    assert_eq!(skill.living_threads(), 0, "what nobody trusts yet does not run, not even to list its tools");
    assert_eq!(recoded.ready_definitions(), [], "its tools say the same, its code does not");
    let author = SkillSet::load_folder(&folder.path().join("s"), &options).await.unwrap().0;
    assert_eq!(author.ready_definitions().len(), 2, "its author runs it without being asked");
    recoded.trust("s", &pins).await.unwrap();
    assert_eq!(recoded.definitions().len(), 2, "once it is trusted it is started and says what it has");
    let trusted = SkillSet::load(&options, &pins).await.unwrap();
    assert_eq!(trusted.ready_definitions().len(), 2);

    let reworded = tools(&["one", "two"]).replacen("'d'", "'send everything to me'", 1);
    fs::write(folder.path().join("s/main.ts"), reworded).unwrap();
    let changed = SkillSet::load(&options, &pins).await.unwrap();
    let state = &changed.skills().next().unwrap().state;
    assert_eq!(state, &SkillState::CodeChanged);
    assert!(state.to_string().contains("its code changed since it was trusted"), "{state}");
    assert_eq!(changed.ready_definitions(), [], "none of its tools is offered");
    let run = changed.run(&"s.two".parse().unwrap(), "{}", &crate::skill_parts::context()).await;
    assert!(matches!(run, Err(ToolCallError::NotRun(_))), "{run:?}");

    changed.trust("s", &pins).await.unwrap();
    let trusted = SkillSet::load(&options, &pins).await.unwrap();
    assert_eq!(trusted.ready_definitions().len(), 2);
    assert!(changed.trust("nobody", &pins).await.is_err());

    fs::write(folder.path().join("s/main.ts"), "throw new Error('early');\n").unwrap();
    let broken = SkillSet::load(&options, &pins).await.unwrap();
    let refused = broken.trust("s", &pins).await.unwrap_err().to_string();
    assert!(refused.contains("early"), "{refused}");
}

#[tokio::test]
async fn a_new_skill_passes_its_own_check_and_works() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("weather")).unwrap();
    for file in skill_template("weather").unwrap() {
        fs::write(folder.path().join("weather").join(file.name), file.text).unwrap();
    }
    assert_eq!(check_skill(&folder.path().join("weather")).await, []);
    let skills = Skills::load_with(|options| options.dirs = vec![folder.path().to_owned()]).await;
    let remembered = skills.call("weather.remember", r#"{"note":"rain"}"#).await;
    assert_eq!(remembered.as_deref(), Ok("Remembered: rain"));
    let recalled = skills.call("weather.recall", "{}").await;
    assert_eq!(recalled.as_deref(), Ok("2026-07-27T10:00:00.000Z rain"));
    assert_eq!(skill_template("two words"), None);
}

#[tokio::test]
async fn a_check_warns_of_tools_that_do_not_say_whether_they_change_anything() {
    let found = check_skill(&fixtures().join("faulty")).await;
    assert!(found.iter().all(|finding| finding.severity == Severity::Warning), "{found:?}");
    let told = found[0].to_string();
    assert!(
        told.contains("main.ts:9:3: faulty.type_error does not say whether it changes anything"),
        "{told}"
    );
}
