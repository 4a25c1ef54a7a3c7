//! `cortex config --server`.

use crate::config::{document, listed, listed_json, schema};
use crate::context::Context;
use crate::exit::{Exit, Failure};

/// Show the server's settings
///
/// Every key, its value in force and where that came from: flag, env, file or default. Secrets are masked.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The settings of the server, $CORTEX_HOME/server.json
    #[arg(long, required = true)]
    server: bool,
    #[command(flatten)]
    what: What,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct What {
    /// The values in force (the default)
    #[arg(long)]
    list: bool,
    /// The JSON Schema of server.json
    #[arg(long)]
    schema: bool,
    /// The reference page: what every key does, whatever is in server.json
    #[arg(long)]
    markdown: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let terminal = &context.terminal;
    if args.what.schema {
        terminal.print_json(&schema())?;
    } else if args.what.markdown {
        terminal.print(&document())?;
    } else if terminal.json {
        terminal.print_json(&listed_json(&context.config()?))?;
    } else {
        let rows: Vec<Vec<String>> = listed(&context.config()?)
            .into_iter()
            .map(|(name, value, source)| vec![name.to_owned(), value.to_string(), source.as_str().to_owned()])
            .collect();
        terminal.print_table(&["key", "value", "source"], &rows)?;
    }
    Ok(Exit::Ok)
}
