//! `cortex memory`.

use crate::connect;
use crate::context::Context;
use crate::escape::{one_line, value};
use crate::exit::{Exit, Failure};
use crate::terminal::talk;
use cortex_api::{Client, FactChange, FactQuery, FactRow, MemoryHit, MemoryQuery, MemoryState};
use cortex_types::{FactId, FactScope, FactTier};
use std::fs::{OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Look at what is remembered, and change it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List facts, newest first
    List {
        /// Only these: hot or cold
        #[arg(long)]
        tier: Option<FactTier>,
        /// Only facts of this category
        #[arg(long)]
        category: Option<String>,
        /// Only facts that stand in every prompt
        #[arg(long)]
        pinned: bool,
        /// Only facts learned from what others wrote that nobody has looked at
        #[arg(long)]
        unreviewed: bool,
        #[arg(long, short = 'n', default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
        /// The cursor of the page before
        #[arg(long, value_name = "CURSOR")]
        before: Option<String>,
    },
    /// Search facts and what was said, best first
    Search {
        query: String,
        #[arg(long, short = 'n', default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
        limit: u32,
    },
    /// Show where memory is kept, how much is remembered and indexed, and how far its vectors have come
    Status,
    /// Show one fact and where it came from
    Show { fact: FactId },
    /// Change a fact
    Edit {
        fact: FactId,
        /// The new text
        #[arg(required_unless_present = "category")]
        text: Option<String>,
        /// The new category
        #[arg(long)]
        category: Option<String>,
    },
    /// Accept a fact that was learned from what others wrote; until then only its own conversation sees it
    Review { fact: FactId },
    /// Forget a fact for good
    Forget { fact: FactId },
    /// Keep a fact in every prompt; at most 50 are
    Pin {
        fact: FactId,
        /// Let it go cold again
        #[arg(long)]
        off: bool,
    },
    /// Write every fact to a file or to standard output, a line of JSON each
    Export { file: Option<PathBuf> },
    /// Take the lines of an export from a file or from standard input; what is known already changes nothing
    Import { file: Option<PathBuf> },
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    let runtime = context.client_runtime()?;
    let about = |fact: &FactId| Failure::about(format!("fact {fact}"), "cortex memory list");
    match args.action.as_ref().unwrap_or(&Action::Status) {
        Action::List { tier, category, pinned, unreviewed, limit, before } => {
            let query = FactQuery {
                tier: *tier,
                category: category.clone(),
                pinned: pinned.then_some(true),
                unreviewed: unreviewed.then_some(true),
                limit: Some(*limit),
                before: before.clone(),
                ..FactQuery::default()
            };
            let list = runtime.block_on(client.facts(&query))?;
            if context.terminal.json {
                context.terminal.print_json(&list)?;
            } else {
                let rows: Vec<Vec<String>> = list.items.iter().map(cells).collect();
                context
                    .terminal
                    .print_table(&["fact", "tier", "category", "scope", "hits", "text"], &rows)?;
                super::inbox::more(list.next_cursor.as_deref());
                say_where(&runtime.block_on(client.memory_state())?);
            }
        }
        Action::Search { query, limit } => {
            let query = MemoryQuery { query: query.clone(), limit: Some(*limit) };
            let hits = runtime.block_on(client.search_memory(&query))?;
            if context.terminal.json {
                context.terminal.print_json(&hits)?;
            } else {
                let rows: Vec<Vec<String>> = hits.items.iter().map(hit_cells).collect();
                context.terminal.print_table(&["score", "what", "when", "text"], &rows)?;
                say_where(&runtime.block_on(client.memory_state())?);
            }
        }
        Action::Status => status(&runtime.block_on(client.memory_state())?, context)?,
        Action::Show { fact } => show(&runtime.block_on(client.fact(fact)).map_err(about(fact))?, context)?,
        Action::Edit { fact, text, category } => {
            let change = FactChange { text: text.clone(), category: category.clone() };
            show(&runtime.block_on(client.edit_fact(fact, &change)).map_err(about(fact))?, context)?;
        }
        Action::Review { fact } => {
            show(&runtime.block_on(client.review_fact(fact)).map_err(about(fact))?, context)?
        }
        Action::Forget { fact } => {
            show(&runtime.block_on(client.forget_fact(fact)).map_err(about(fact))?, context)?
        }
        Action::Pin { fact, off: false } => {
            show(&runtime.block_on(client.pin_fact(fact)).map_err(about(fact))?, context)?
        }
        Action::Pin { fact, off: true } => {
            show(&runtime.block_on(client.unpin_fact(fact)).map_err(about(fact))?, context)?
        }
        Action::Export { file } => {
            export(&runtime.block_on(client.export_memory())?, file.as_deref(), context)?
        }
        Action::Import { file } => import(&client, &runtime, file.as_deref(), context)?,
    }
    Ok(Exit::Ok)
}

/// A list of what is here would otherwise pass for all that is remembered.
fn say_where(state: &MemoryState) {
    if let Some(url) = &state.engram_url {
        talk(&format!("memory is kept by the Engram service at {url}; this is what is kept here"));
    }
}

fn status(state: &MemoryState, context: &Context) -> Result<(), Failure> {
    let terminal = &context.terminal;
    if terminal.json {
        return terminal.print_json(state);
    }
    let MemoryState { engram_url, facts, turns, embedder, vectors, reembedding } = state;
    let kept = match engram_url {
        None => "in this home".to_owned(),
        Some(url) => format!("by the Engram service at {url}; the facts below are those kept here before"),
    };
    let dims = embedder.dims.map_or("none made yet".to_owned(), |dims| format!("{dims} dimensions"));
    let running = if reembedding.is_running { ", being made now" } else { "" };
    let mut lines = vec![
        format!("kept      {kept}"),
        format!("facts     {} hot, {} cold ({} pinned)", facts.hot, facts.cold, facts.pinned),
        format!("turns     {} of {} indexed", turns.indexed, turns.said),
        format!("embedder  {} ({dims})", embedder.model),
        format!("vectors   {} of {}{running}", vectors.done, vectors.texts),
    ];
    lines.extend(reembedding.last_error.iter().map(|error| format!("error     {}", value(error))));
    terminal.print(&lines.join("\n"))
}

fn export(lines: &str, file: Option<&Path>, context: &Context) -> Result<(), Failure> {
    let Some(path) = file else { return context.terminal.print_json_lines(lines) };
    write_for_owner(path, lines).map_err(|error| Failure::Plain(format!("{}: {error}", path.display())))?;
    talk(&format!("{} facts in {}", lines.lines().count(), path.display()));
    Ok(())
}

/// Facts are personal: a file of them, also one that was there before, is its owner's alone.
fn write_for_owner(path: &Path, lines: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    file.write_all(lines.as_bytes())
}

fn import(
    client: &Client,
    runtime: &tokio::runtime::Runtime,
    file: Option<&Path>,
    context: &Context,
) -> Result<(), Failure> {
    let lines = match file {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| Failure::Plain(format!("{}: {error}", path.display())))?,
        None => {
            let mut lines = String::new();
            let read = std::io::stdin().lock().read_to_string(&mut lines);
            read.map_err(|error| Failure::Plain(format!("standard input: {error}")))?;
            lines
        }
    };
    let done = runtime.block_on(client.import_memory(lines))?;
    if context.terminal.json {
        return context.terminal.print_json(&done);
    }
    if done.unpinned > 0 {
        talk(&format!("{} not pinned here: as many as fit are pinned already", done.unpinned));
    }
    context.terminal.print(&format!("{} new, {} merged, {} known", done.created, done.merged, done.known))
}

fn cells(row: &FactRow) -> Vec<String> {
    let tier = match (&row.unreviewed_in, row.pinned) {
        (Some(_), _) => "unreviewed".to_owned(),
        (None, true) => "pinned".to_owned(),
        (None, false) => row.tier.to_string(),
    };
    vec![
        row.fact_id.to_string(),
        tier,
        one_line(row.category.as_deref().unwrap_or_default(), 12),
        one_line(&scope(row), 30),
        row.hit_count.to_string(),
        one_line(&row.text, 70),
    ]
}

fn hit_cells(hit: &MemoryHit) -> Vec<String> {
    let what = one_line(hit.label.as_deref().unwrap_or("fact"), 20);
    vec![format!("{:.2}", hit.score), what, hit.at.0.to_rfc3339(), one_line(&hit.text, 80)]
}

fn scope(row: &FactRow) -> String {
    if row.scope_key.is_empty() { row.scope.clone() } else { format!("{} {}", row.scope, row.scope_key) }
}

fn show(row: &FactRow, context: &Context) -> Result<(), Failure> {
    let terminal = &context.terminal;
    if terminal.json {
        return terminal.print_json(row);
    }
    let pinned = if row.pinned { ", pinned" } else { "" };
    let mut lines = vec![
        format!("fact      {}", row.fact_id),
        format!("text      {}", value(&row.text)),
        format!("category  {}", value(row.category.as_deref().unwrap_or_default())),
        format!("scope     {}", value(&scope(row))),
        format!("tier      {}{pinned} (hits: {}, strength: {:.2})", row.tier, row.hit_count, row.strength),
        format!("created   {}", row.created_at.0.to_rfc3339()),
        format!("accessed  {}", row.last_accessed_at.0.to_rfc3339()),
    ];
    lines.extend(row.unreviewed_in.iter().map(|name| {
        let place = match FactScope::topic_named(name) {
            Some(topic) => format!("in {} of {} alone", topic.topic_key, topic.source),
            None => "in no conversation".to_owned(),
        };
        format!(
            "review    unreviewed: learned from what others wrote, and seen {} until \
             `cortex memory review {}`",
            value(&place),
            row.fact_id
        )
    }));
    lines.extend(row.sources.iter().map(|source| {
        format!(
            "from      {} {} at {}: {}",
            source.kind,
            source.reference,
            source.at.0.to_rfc3339(),
            value(&source.text)
        )
    }));
    terminal.print(&lines.join("\n"))
}
