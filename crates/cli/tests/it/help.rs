//! What the program says about itself.

use crate::cortex::Cortex;
use expect_test::{Expect, expect};

#[test]
fn the_help_names_every_command() {
    let ran = Cortex::new().run(&["-h"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    expect![[r#"
        Cortex: a self-hosted brain for assistants and agents

        Usage: cortex [OPTIONS] <COMMAND>

        Commands:
          serve        Run the server in the foreground
          start        Start the server in the background and wait until it answers
          stop         Stop the server: running turns are finished or put back, nothing is lost
          restart      Stop the server if it runs, and start it again with the flags it had
          status       Show what runs: exit 0 running and well, 1 running with issues, 2 nothing runs
          health       Ask the server whether it is well: exit 0 healthy, 1 degraded, damaged or full, 2 not
                       running
          doctor       Say what is wrong with this home and what to do about it: exit 1 when there is a
                       problem
          logs         Show the log of a server that was started with `cortex start`
          send         Say something and print the reply
          chat         Talk with the assistant, line by line; /quit, Ctrl-D or Ctrl-C ends it
          inbox        Look at the accepted events
          outbox       Look at the messages on their way out
          memory       Look at what is remembered, and change it
          ops          Look at work that is done elsewhere
          gardener     Look at the chores that are done in the background, or have one done now
          approvals    Answer the assistant when it asks before it does something
          schedule     Make, see and change what happens at a time of its own
          skill        Write, check and run skills, and see what the assistant can do
          trace        Show the whole way of an event: received, claimed, each step, sent, acknowledged,
                       with times
          channel      Look at channels and say what each may do
          connector    Run a connector, or look at those that the server runs
          shadow       See what channels in shadow would have said
          context      See what the model would see, summarise it, and take a summary back
          usage        Show what the models were asked and what it cost
          config       Show the server's settings
          key          Keys: the owner's, and one for each connector
          backup       Write this home into one file, also while the server runs
          restore      Put a backup into this home
          bench        Measure this program against baselines of its own: exit 1 when a goal is missed
          completions  Print the completions of a shell
          man          Print a manual page, or write all of them
          version      Print the version
          help         Print this message or the help of the given subcommand(s)

        Options:
          -h, --help     Print help (see more with '--help')
          -V, --version  Print version

        Options of every command:
              --home <FOLDER>   The home folder [default: $CORTEX_HOME, else ~/.cortex]
              --host <ADDRESS>  The server's address; wins over CORTEX_HOST and server.json
              --port <PORT>     The server's port; wins over CORTEX_PORT and server.json
              --json            Print data as JSON

        Exit codes: 0 done, 1 failed, 2 already running or nothing runs, 64 wrong usage, 78 wrong
        configuration.
        Data goes to stdout, everything else to stderr.
    "#]]
    .assert_eq(&ran.stdout);
}

#[test]
fn the_help_of_a_command_names_its_flags() {
    let ran = Cortex::new().run(&["send", "-h"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    expect![[r#"
        Say something and print the reply

        Usage: cortex send [OPTIONS] <TEXT>...

        Arguments:
          <TEXT>...  What to say; - reads it from stdin

        Options:
              --topic <TOPIC>  The conversation it belongs to [default: main]
              --wait <TIME>    How long to wait for the reply; 0 does not wait and prints the event's id
                               [default: 30s]
          -h, --help           Print help (see more with '--help')

        Options of every command:
              --home <FOLDER>   The home folder [default: $CORTEX_HOME, else ~/.cortex]
              --host <ADDRESS>  The server's address; wins over CORTEX_HOST and server.json
              --port <PORT>     The server's port; wins over CORTEX_PORT and server.json
              --json            Print data as JSON
    "#]]
    .assert_eq(&ran.stdout);
}

#[track_caller]
fn check_help(command: &str, expected: &Expect) {
    let ran = Cortex::new().run(&[command, "-h"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let (own, _) = ran.stdout.split_once("\nOptions of every command:").unwrap();
    expected.assert_eq(own);
}

#[test]
fn the_help_of_a_group_names_its_actions() {
    check_help(
        "approvals",
        &expect![[r#"
        Answer the assistant when it asks before it does something

        Usage: cortex approvals [OPTIONS] <COMMAND>

        Commands:
          list     List open questions, newest first
          show     Show one question with exactly what would run
          approve  Let the call run, once
          deny     Do not let the call run
          grant    Allow exactly this call again for a while, without asking
          grants   List grants, newest first
          revoke   End a grant
          help     Print this message or the help of the given subcommand(s)

        Options:
          -h, --help  Print help
    "#]],
    );
    check_help(
        "schedule",
        &expect![[r#"
        Make, see and change what happens at a time of its own

        Usage: cortex schedule [OPTIONS] <COMMAND>

        Commands:
          list     List jobs with their next run
          show     Show one job with its next runs and what became of the last ones
          create   Make a job: cortex schedule create "every weekday at 9" "stretch"
          preview  Show when it would run, without making it
          update   Change a job; what is not named stays
          pause    Do not run it until it is resumed
          resume   Run it again from now on
          delete   Take it away
          run      Run it once now, beside its times
          help     Print this message or the help of the given subcommand(s)

        Options:
          -h, --help  Print help
    "#]],
    );
    check_help(
        "skill",
        &expect![[r#"
        Write, check and run skills, and see what the assistant can do

        Usage: cortex skill [OPTIONS] <COMMAND>

        Commands:
          list   List the tools that can be called, and what keeps others from it
          check  Look at a skill as a start of the server would: exit 1 when it would not load
          new    Make a skill to start from: a folder with manifest, code and types
          run    Run one tool of a skill in an engine of its own, and print what it gives
          trust  Trust a skill or an MCP server after its tools changed, as it is shown
          help   Print this message or the help of the given subcommand(s)

        Options:
          -h, --help  Print help
    "#]],
    );
}

#[test]
fn a_command_that_nobody_types_is_not_in_the_help() {
    let help = Cortex::new().run(&["--help"]).stdout;
    assert!(!help.contains("skill-host"), "{help}");
}

#[test]
fn the_version_is_printed_in_both_ways() {
    let cortex = Cortex::new();
    let line = format!("cortex {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(cortex.run(&["version"]).stdout, line);
    assert_eq!(cortex.run(&["--version"]).stdout, line);
    assert_eq!(cortex.json(&["version", "--json"])["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn completions_and_manual_pages_are_printed() {
    let cortex = Cortex::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = cortex.run(&["completions", shell]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{shell}");
        assert!(ran.stdout.contains("completions"), "{shell}: {}", ran.stdout);
    }
    assert!(cortex.run(&["man"]).stdout.contains(".TH cortex 1"));
    assert!(cortex.run(&["man", "send"]).stdout.contains("\\-\\-wait"));
}

#[test]
fn every_command_has_a_manual_page() {
    let cortex = Cortex::new();
    let page = cortex.run(&["man", "schedule", "create"]).stdout;
    assert!(page.contains(".TH cortex-schedule-create 1") && page.contains("\\-\\-topic"), "{page}");
    assert_eq!(cortex.run(&["man", "nothing"]).code, Some(64));
    let ran = cortex.run(&["man", "--dir", "man1"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let commands = |arguments: &[&str]| -> Vec<String> {
        let help = cortex.run(arguments).stdout;
        let (_, list) = help.split_once("Commands:\n").unwrap_or_default();
        let list = list.split("\n\n").next().unwrap_or_default();
        let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        names
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| *name != "help")
            .map(str::to_owned)
            .collect()
    };
    let top = commands(&["-h"]);
    assert!(top.len() > 25, "{top:?}");
    for name in &top {
        let below = commands(&[name, "-h"]);
        for page in std::iter::once(name.clone()).chain(below.iter().map(|below| format!("{name}-{below}"))) {
            assert!(cortex.beside(&format!("man1/cortex-{page}.1")).exists(), "{page}");
        }
    }
    assert!(cortex.beside("man1/cortex.1").exists() && !cortex.beside("man1/cortex-skill-host.1").exists());
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut child =
        Cortex::new().command(&["completions", "bash"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
