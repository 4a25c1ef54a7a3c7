//! `cortex doctor` and skills while the server is stopped: it looks at them as the next start would.

use crate::cortex::Cortex;
use crate::doctor::{check_found, found};
use std::os::unix::fs::PermissionsExt;

/// A skill that says this, in a folder that settings name.
fn with_skill(main: &str) -> Cortex {
    let cortex = Cortex::quiet();
    let skills = cortex.beside("skills");
    std::fs::create_dir_all(skills.join("notes")).unwrap();
    let manifest =
        r#"{"id": "notes", "name": "N", "version": "1.0.0", "runtimeApiVersion": "1", "main": "main.js"}"#;
    std::fs::write(skills.join("notes/skill.json"), manifest).unwrap();
    std::fs::write(skills.join("notes/main.js"), main).unwrap();
    cortex.with("CORTEX_SKILL_DIRS", skills.to_str().unwrap())
}

#[test]
fn a_skill_that_keeps_the_server_from_starting_is_told_while_it_is_stopped() {
    let good = |says: &str| {
        format!(
            "export const listTools = () => [{{ name: 'notes.say', description: 'd', \
             inputSchema: {{ type: 'object' }}, mutatesState: false }}];\n\
             export const execute = async () => ({{ content: '{says}' }});\n"
        )
    };
    let cortex = with_skill(&good("first")).started();
    assert_eq!(cortex.run(&["stop"]).code, Some(0));
    check_found(&cortex, "skills", "ok", "all load");

    let main = cortex.beside("skills/notes/main.js");
    let told_as_a_start_does = |part: &str, fix: &str| {
        let start = cortex.run(&["start"]);
        assert!(start.code != Some(0) && start.stderr.contains(part), "{part}: {start:?}");
        check_found(&cortex, "skills", "problem", part);
        let (_, message) = found(&cortex, "skills");
        assert!(message.contains(fix) && message.contains("the server does not start"), "{message}");
    };
    std::fs::set_permissions(&main, std::fs::Permissions::from_mode(0o666)).unwrap();
    told_as_a_start_does("main.js", "chmod");
    std::fs::set_permissions(&main, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(cortex.beside("skills/notes/skill.json"), "{").unwrap();
    told_as_a_start_does("skill.json", "skill.json");
    let manifest =
        r#"{"id": "notes", "name": "N", "version": "1.0.0", "runtimeApiVersion": "1", "main": "main.js"}"#;
    std::fs::write(cortex.beside("skills/notes/skill.json"), manifest).unwrap();

    std::fs::write(&main, good("second")).unwrap();
    check_found(&cortex, "tools", "problem", "its code changed");
    check_found(&cortex, "tools", "problem", "cortex skill trust");
}
