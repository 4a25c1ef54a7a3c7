//! Text of others at the terminal and in the log: nothing in it acts, no line of it is forged.

use crate::cortex::Cortex;
use serde_json::json;
use std::process::Stdio;

/// Clears a screen, sets a title, copies to the clipboard, turns the direction, begins a line of a log.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{1b}]52;c;aGk=\u{7}\u{9b}31m\u{202e}evil\r\n2026-01-01T00:00:00.000000Z ERROR forged";

/// Whether something in the text acts on a terminal; the line ends that a terminal makes are its own.
fn acts(text: &str) -> bool {
    text.replace("\r\n", "\n").chars().any(|letter| {
        (letter.is_control() && !matches!(letter, '\n' | '\t')) || ('\u{202a}'..='\u{202e}').contains(&letter)
    })
}

/// What a terminal is shown by a command; `None` where no terminal can be made.
fn on_a_terminal(cortex: &Cortex, arguments: &[&str]) -> Option<String> {
    let program = cortex.command(&[]);
    let words: Vec<String> = std::iter::once(program.get_program().to_str()?.to_owned())
        .chain(arguments.iter().map(|word| format!("'{word}'")))
        .collect();
    let mut script = std::process::Command::new("/usr/bin/script");
    script.args(["-qec", &words.join(" "), "/dev/null"]).stdin(Stdio::null()).env_clear();
    script
        .env("CORTEX_HOME", cortex.home())
        .env("PATH", "/usr/bin:/bin")
        .env("TERM", "dumb")
        .env("NO_COLOR", "1");
    let output = script.output().ok()?;
    String::from_utf8(output.stdout).ok()
}

fn remembers(text: &str) -> Cortex {
    let cortex = Cortex::quiet().started();
    let fact = json!({"content": text});
    let ran = cortex.run_with_input(&["memory", "import"], &format!("{fact}\n"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    cortex
}

#[test]
fn what_facts_say_does_nothing_to_a_terminal() {
    let cortex = remembers(HOSTILE);
    let fact = cortex.json(&["memory", "list", "--json"])["items"][0]["factId"].as_str().unwrap().to_owned();
    let whole = cortex.run(&["memory", "export"]).stdout;
    assert!(whole.contains('\u{202e}'), "a pipe gets the fact as it is: {whole}");
    for arguments in [
        &["memory", "export"][..],
        &["memory", "list"],
        &["memory", "list", "--json"],
        &["memory", "show", &fact],
        &["memory", "search", "evil"],
    ] {
        let Some(shown) = on_a_terminal(&cortex, arguments) else {
            eprintln!("skipped: there is no /usr/bin/script to make a terminal with");
            return;
        };
        assert!(shown.contains("evil"), "{arguments:?}: {shown:?}");
        assert!(!acts(&shown), "{arguments:?}: {shown:?}");
        let forged = shown.lines().any(|line| line.starts_with("2026-01-01T"));
        assert!(!forged, "{arguments:?}: {shown:?}");
    }
}

#[test]
fn what_a_skill_logs_stays_on_its_line() {
    let cortex = Cortex::quiet();
    std::fs::create_dir_all(cortex.beside("skills/s")).unwrap();
    let manifest =
        json!({"id": "s", "name": "S", "version": "1.0.0", "runtimeApiVersion": "1", "main": "main.ts"});
    std::fs::write(cortex.beside("skills/s/skill.json"), manifest.to_string()).unwrap();
    let main = format!(
        "export const listTools = () => [{{ name: 's.say', description: 'd', mutatesState: false, inputSchema: {{ type: 'object' }} }}];\n\
         export const execute = async () => {{ console.log({0}); throw new Error({0}); }};\n",
        json!(HOSTILE)
    );
    std::fs::write(cortex.beside("skills/s/main.ts"), main).unwrap();
    let skills = cortex.beside("skills");
    let cortex = cortex.with("CORTEX_SKILL_DIRS", skills.to_str().unwrap());
    let ran = cortex.run(&["skill", "run", "s.say"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("evil"), "{}", ran.stderr);
    assert!(!acts(&ran.stderr), "{:?}", ran.stderr);
    let log_lines = ran.stderr.lines().filter(|line| line.starts_with("2026-01-01T")).count();
    assert_eq!(log_lines, 0, "{:?}", ran.stderr);
}

#[test]
fn the_last_words_of_an_mcp_server_do_nothing_to_log_or_terminal() {
    let said = HOSTILE.replace('\r', "\\r").replace('\n', "\\n");
    let dies =
        json!({"bad": {"command": "/bin/sh", "args": ["-c", format!("printf '%b' '{said}' >&2; exit 3")]}});
    let cortex = Cortex::quiet()
        .with("CORTEX_MCP_SERVERS", &dies.to_string())
        .with("CORTEX_LOG_LEVEL", "debug")
        .started();
    let log = cortex.path("logs/cortex.log");
    let is_told = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("forged"));
    assert!(
        (0..2_000).any(|_| is_told() || {
            cortex.run(&["health"]);
            false
        }),
        "the log says why it ended"
    );
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(!acts(&text), "{text:?}");
    assert!(!text.lines().any(|line| line.starts_with("2026-01-01T")), "{text:?}");
    let ran = cortex.run(&["doctor"]);
    assert!(!acts(&ran.stdout) && !acts(&ran.stderr), "{ran:?}");
    match on_a_terminal(&cortex, &["skill", "list"]) {
        Some(shown) => assert!(shown.contains("held back: mcp bad") && !acts(&shown), "{shown:?}"),
        None => eprintln!("skipped: there is no /usr/bin/script to make a terminal with"),
    }
}
