//! `cortex connector unbind`.

use crate::connect;
use crate::context::Context;
use crate::escape::for_terminal;
use crate::exit::{Exit, Failure};
use cortex_api::{UnbindAnswer, UnbindRequest};

/// Forget which channel a source is, so that a renamed connector can use it under its new name
///
/// The server learns with a connector's first event that its source belongs to its connectorId, and refuses other names for it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The source, such as urn:connector:matrix-1
    source: String,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    let request = UnbindRequest { source: args.source.clone() };
    let about = Failure::about(format!("source {} that was learned", args.source), "cortex channel list");
    let unbound = context.client_runtime()?.block_on(client.unbind(&request)).map_err(about)?;
    if context.terminal.json {
        context.terminal.print_json(&unbound)?;
    } else {
        for line in lines(&unbound) {
            context.terminal.print(&for_terminal(&line))?;
        }
    }
    Ok(Exit::Ok)
}

/// What waits is told here, because nobody may ever come for it.
fn lines(unbound: &UnbindAnswer) -> Vec<String> {
    let UnbindAnswer { source, channel, waiting, suppressed } = unbound;
    let mut lines = vec![format!("{source} is no longer the channel {channel}")];
    if *waiting > 0 {
        lines.push(format!(
            "{waiting} of its messages wait for the next connector of this source; \
             `cortex outbox list --source {source}` shows them, `cortex outbox discard` gives one up"
        ));
    }
    if *suppressed > 0 {
        lines.push(format!(
            "{suppressed} of its messages may no longer leave, since the mode of an unlisted channel holds them back; \
             `cortex outbox list --status suppressed` shows them"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_or_may_no_longer_leave_is_told() {
        let told = |waiting, suppressed| {
            let (source, channel) = ("urn:connector:m".to_owned(), "m".to_owned());
            lines(&UnbindAnswer { source, channel, waiting, suppressed })
        };
        assert_eq!(told(0, 0), ["urn:connector:m is no longer the channel m"]);
        let [_, waiting, suppressed] = &told(3, 2)[..] else { unreachable!("a line for each") };
        assert!(
            waiting.starts_with("3 of its messages wait for the next connector of this source;"),
            "{waiting}"
        );
        assert!(suppressed.starts_with("2 of its messages may no longer leave,"), "{suppressed}");
    }
}
