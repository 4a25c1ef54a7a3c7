//! `cortex skill run`.

use super::{asks_first, broken, configured, folder_of};
use crate::assemble;
use crate::connector::{SOURCE, TOPIC, USER};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::home::HomeError;
use crate::logging::{self, LogSink};
use crate::redact::Redactor;
use crate::terminal::talk;
use cortex_tools::{
    CallContext, HostPolicy, Registry, SkillOptions, SkillSet, ToolName, ToolOutcome, ToolRunner,
};
use cortex_types::{Clock, SystemClock, TopicRef};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Run one tool of a skill in an engine of its own, and print what it gives
///
/// The skill gets its settings (skillConfig) and its own database, as in the server. What it logs goes to stderr.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tool, as skill.tool
    tool: ToolName,
    /// Its arguments, a JSON object
    #[arg(default_value = "{}", value_name = "JSON")]
    arguments: String,
    /// Run it although it changes something: nobody is asked here
    #[arg(long)]
    yes: bool,
    /// The skill's folder [default: the one in skillDirs, else the one here]
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let (settings, options) = configured(context)?;
    let folder = folder(args, &options)?;
    let home = context.home()?;
    let redactor = Redactor::new(assemble::secrets(&settings, &context.environment));
    logging::start(&settings.log_level, LogSink::Stderr, redactor)
        .map_err(|error| HomeError::from_io(home.path(), error))?;
    std::fs::create_dir_all(&options.data_dir)
        .map_err(|error| HomeError::from_io(&options.data_dir, error))?;
    let timeout = Duration::from_millis(settings.tool_timeout_ms);
    let outcome = context.client_runtime()?.block_on(async {
        let (skills, _) =
            SkillSet::load_folder(&folder, &options).await.map_err(|problems| broken(&problems))?;
        let is_refused = |name: &ToolName| {
            let tools = skills.skills().flat_map(|skill| &skill.tools);
            let found = tools.into_iter().find(|tool| tool.name == *name);
            !args.yes && found.is_some_and(|tool| asks_first(tool.mutation, &settings))
        };
        if is_refused(&args.tool) {
            let message = format!("{} changes something; give --yes to run it", args.tool);
            return Err(Failure::Usage(message));
        }
        call(skills, args, timeout).await
    })?;
    if context.terminal.json {
        let tool = args.tool.as_str();
        context.terminal.print_json(&serde_json::json!({"tool": tool, "content": outcome.text}))?;
    } else {
        context.terminal.print(&outcome.text)?;
    }
    Ok(Exit::Ok)
}

fn folder(args: &Args, options: &SkillOptions) -> Result<PathBuf, Failure> {
    if let Some(dir) = &args.dir {
        return Ok(dir.clone());
    }
    let skill = args.tool.skill();
    if let Some(configured) = folder_of(skill, options) {
        return Ok(configured);
    }
    if Path::new(skill).join("skill.json").is_file() {
        talk(&format!("(from ./{skill}, which is in none of the skillDirs)"));
        return Ok(PathBuf::from(skill));
    }
    let message = format!("there is no skill {skill:?} in skillDirs or here; name its folder with --dir");
    Err(Failure::Coded { code: "not_found", message })
}

async fn call(skills: SkillSet, args: &Args, timeout: Duration) -> Result<ToolOutcome, Failure> {
    let names: Vec<String> = skills.ready_definitions().iter().map(|tool| tool.name.to_string()).collect();
    if !names.iter().any(|name| name == args.tool.as_str()) {
        let message = format!("there is no tool {}; the skill has {}", args.tool, names.join(", "));
        return Err(Failure::Coded { code: "not_found", message });
    }
    let failed = |error: &dyn std::fmt::Display| Failure::Plain(error.to_string());
    let definitions = skills.ready_definitions();
    let runner: Arc<dyn ToolRunner> = Arc::new(skills);
    let registry = Registry::builder().add_all(definitions, &runner).map_err(|error| failed(&error))?.build();
    let checked =
        registry.check(args.tool.as_str(), &args.arguments).await.map_err(|error| failed(&error))?;
    let context = CallContext {
        topic: TopicRef { source: SOURCE.to_owned(), topic_key: TOPIC.to_owned() },
        sight: cortex_types::Sight::Everything,
        event: None,
        user_id: USER.to_owned(),
        now: SystemClock::start().now(),
        reach: HostPolicy::AnyPublic,
        cancel: CancellationToken::new(),
    };
    registry.run(&checked, &context, timeout).await.map_err(|error| failed(&error))
}
