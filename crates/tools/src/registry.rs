//! The one registry: which tools there are, whether a call of one is in order, and the clock it runs against.

use crate::schema::{Apart, InputSchema};
use crate::tool::{CallContext, Mutation, ToolCallError, ToolDefinition, ToolName, ToolOutcome, ToolRunner};
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A result longer than this is cut before anybody sees it.
const RESULT_BYTES_MAX: usize = 64 * 1024;
/// How long a runner whose time is over may take to say that it never started.
const LAST_WORD: Duration = Duration::from_millis(50);

/// Runs tools that come and go while the server runs, such as those of MCP servers.
#[async_trait]
pub trait ToolProvider: ToolRunner {
    /// What it offers at this moment.
    fn definitions(&self) -> Vec<ToolDefinition>;

    /// The schema of a tool that it offers, where it was compiled when it was listed.
    fn schema(&self, _name: &ToolName) -> Option<Arc<InputSchema>> {
        None
    }

    /// Waits while it is not known yet whether the tool is offered, within a bound. An error says why a tool that
    /// belongs here cannot be called; a name that does not belong here is no error.
    async fn settled(&self, _name: &ToolName) -> Result<(), ToolCallError> {
        Ok(())
    }

    /// How long a call of this tool would wait at most for its server; `None` when the server is there, or not ours.
    fn would_wait(&self, _name: &ToolName) -> Option<Duration> {
        None
    }

    /// Waits until everything that is expected right after the start is offered, within a bound.
    async fn opened(&self) {}
}

/// Why a registry cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    #[error("the tools {name} and {other} cannot be told apart; rename one of them")]
    Duplicate { name: ToolName, other: ToolName },
    #[error("the tool {name} has a bad input schema: {reason}")]
    BadSchema { name: ToolName, reason: String },
}

/// Collects the tools of a [`Registry`].
#[derive(Default)]
pub struct RegistryBuilder {
    fixed: BTreeMap<ToolName, Tool>,
    /// By what names look like: two tools must not be taken for each other.
    seen: BTreeMap<String, ToolName>,
    live: Vec<Arc<dyn ToolProvider>>,
    other_names: BTreeMap<&'static str, &'static str>,
}

/// Every tool that can be called.
pub struct Registry {
    fixed: BTreeMap<ToolName, Tool>,
    live: Vec<Arc<dyn ToolProvider>>,
    other_names: BTreeMap<&'static str, &'static str>,
    apart: Apart,
}

#[derive(Clone)]
struct Tool {
    definition: Arc<ToolDefinition>,
    schema: Arc<InputSchema>,
    runner: Arc<dyn ToolRunner>,
}

/// A call that is in order: the tool exists and takes these arguments.
#[derive(Clone)]
pub struct CheckedCall {
    definition: Arc<ToolDefinition>,
    arguments_json: String,
    runner: Arc<dyn ToolRunner>,
}

impl RegistryBuilder {
    /// Adds a tool for good.
    pub fn add(
        mut self,
        definition: ToolDefinition,
        runner: Arc<dyn ToolRunner>,
    ) -> Result<Self, RegistryError> {
        let name = definition.name.clone();
        if let Some(other) = self.seen.insert(name.look(), name.clone()) {
            return Err(RegistryError::Duplicate { name, other });
        }
        let schema = InputSchema::compile(&definition.input_schema_json)
            .map_err(|reason| RegistryError::BadSchema { name: name.clone(), reason })?;
        let schema = Arc::new(schema);
        self.fixed.insert(name, Tool { definition: Arc::new(definition), schema, runner });
        Ok(self)
    }

    /// Adds tools for good that share a runner.
    pub fn add_all(
        self,
        definitions: impl IntoIterator<Item = ToolDefinition>,
        runner: &Arc<dyn ToolRunner>,
    ) -> Result<Self, RegistryError> {
        definitions
            .into_iter()
            .try_fold(self, |builder, definition| builder.add(definition, Arc::clone(runner)))
    }

    /// Adds whatever the provider offers at any moment. A tool added for good hides one of the same name.
    pub fn add_live(mut self, provider: Arc<dyn ToolProvider>) -> Self {
        self.live.push(provider);
        self
    }

    /// Accepts a further name for a tool; only the tool's own name is offered.
    pub fn also_called(mut self, other: &'static str, name: &'static str) -> Self {
        self.other_names.insert(other, name);
        self
    }

    pub fn build(self) -> Registry {
        Registry {
            fixed: self.fixed,
            live: self.live,
            other_names: self.other_names,
            apart: Apart::default(),
        }
    }
}

impl Registry {
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder::default()
    }

    /// The tools that can be called now, by name.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        let (mut all, _) = self.sorted_out();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// A line for each tool that is not offered because an earlier one looks the same.
    pub fn collisions(&self) -> Vec<String> {
        self.sorted_out().1
    }

    /// The tools that are offered, and what is said of those whose name is taken. The first one keeps its name.
    fn sorted_out(&self) -> (Vec<ToolDefinition>, Vec<String>) {
        let fixed = self.fixed.values().map(|tool| tool.definition.as_ref().clone());
        let mut looks: BTreeMap<String, ToolName> = BTreeMap::new();
        let (mut offered, mut refused) = (Vec::new(), Vec::new());
        for definition in fixed.chain(self.live.iter().flat_map(|provider| provider.definitions())) {
            match looks.entry(definition.name.look()) {
                Entry::Vacant(place) => {
                    place.insert(definition.name.clone());
                    offered.push(definition);
                }
                Entry::Occupied(taken) => refused.push(format!(
                    "{}: {} is not offered, it cannot be told from {}; rename one of them",
                    definition.source,
                    definition.name,
                    taken.get()
                )),
            }
        }
        (offered, refused)
    }

    /// Waits until the tools that are expected right after the start are there, within a bound.
    pub async fn opened(&self) {
        futures::future::join_all(self.live.iter().map(|provider| provider.opened())).await;
    }

    /// Waits until a call of this tool could be handed over at once, within a bound. An error says why it cannot run; of a
    /// tool that is unknown, the check of the call says more.
    pub async fn awaited(&self, name: &str, context: &CallContext) -> Result<(), ToolCallError> {
        let Ok(wanted) = self.own_name(name).parse::<ToolName>() else { return Ok(()) };
        if let Some(tool) = self.fixed.get(&wanted) {
            return tool.runner.ready(&tool.definition, context).await;
        }
        for provider in &self.live {
            provider.settled(&wanted).await?;
            let offered = provider.definitions().into_iter().find(|tool| tool.name == wanted);
            if let Some(definition) = offered {
                return provider.ready(&definition, context).await;
            }
        }
        Ok(())
    }

    /// How long a call of this tool would wait at most for a server that is not there at this moment; `None` when it would
    /// not wait.
    pub fn would_wait(&self, name: &str) -> Option<Duration> {
        let wanted: ToolName = self.own_name(name).parse().ok()?;
        if self.fixed.contains_key(&wanted) {
            return None;
        }
        self.live.iter().find_map(|provider| provider.would_wait(&wanted))
    }

    fn own_name<'a>(&self, name: &'a str) -> &'a str {
        self.other_names.get(name).copied().unwrap_or(name)
    }

    /// Checks a call as a model wrote it. An error is what the model is told.
    pub async fn check(&self, name: &str, arguments_json: &str) -> Result<CheckedCall, ToolCallError> {
        let unknown = || {
            let shown: String = name.chars().take(100).collect();
            ToolCallError::NotRun(format!("there is no tool {shown:?}"))
        };
        let wanted: ToolName = self.own_name(name).parse().map_err(|_| unknown())?;
        let tool = self.find(&wanted).await?.ok_or_else(unknown)?;
        let checked = match tool.schema.check_at_once(arguments_json) {
            Some(checked) => checked,
            None => {
                let (schema, arguments) = (Arc::clone(&tool.schema), arguments_json.to_owned());
                self.apart.run(move || schema.check(&arguments)).await.and_then(|checked| checked)
            }
        };
        let arguments_json = checked
            .map_err(|reason| ToolCallError::NotRun(format!("bad arguments for {wanted}: {reason}")))?;
        Ok(CheckedCall { definition: tool.definition, arguments_json, runner: tool.runner })
    }

    async fn find(&self, wanted: &ToolName) -> Result<Option<Tool>, ToolCallError> {
        if let Some(tool) = self.fixed.get(wanted) {
            return Ok(Some(tool.clone()));
        }
        for provider in &self.live {
            provider.settled(wanted).await?;
            let Some(definition) = provider.definitions().into_iter().find(|tool| tool.name == *wanted)
            else {
                continue;
            };
            let (offered, _) = self.sorted_out();
            if !offered.contains(&definition) {
                let reason = format!("{wanted} is not offered: it cannot be told from another tool");
                return Err(ToolCallError::NotRun(reason));
            }
            let schema = match provider.schema(wanted) {
                Some(schema) => schema,
                None => self.compile(&definition).await?,
            };
            let runner: Arc<dyn ToolRunner> = Arc::clone(provider) as Arc<dyn ToolRunner>;
            return Ok(Some(Tool { definition: Arc::new(definition), schema, runner }));
        }
        Ok(None)
    }

    async fn compile(&self, definition: &ToolDefinition) -> Result<Arc<InputSchema>, ToolCallError> {
        let text = definition.input_schema_json.clone();
        let compiled =
            self.apart.run(move || InputSchema::compile(&text)).await.and_then(|compiled| compiled);
        compiled.map(Arc::new).map_err(|reason| {
            ToolCallError::NotRun(format!("{} cannot be called: {reason}", definition.name))
        })
    }

    /// Resolves a checked call to what is shown, hashed and run, and checks the result once more.
    pub async fn prepare(
        &self,
        call: &CheckedCall,
        context: &CallContext,
    ) -> Result<(CheckedCall, Option<String>), ToolCallError> {
        let name = &call.definition.name;
        let prepared = call.runner.prepare(name, &call.arguments_json, context).await?;
        if prepared.arguments_json == call.arguments_json {
            return Ok((call.clone(), prepared.preview));
        }
        Ok((self.check(name.as_str(), &prepared.arguments_json).await?, prepared.preview))
    }

    /// Runs a checked call against its clock. What comes late is dropped; what is too long is cut.
    pub async fn run(
        &self,
        call: &CheckedCall,
        context: &CallContext,
        default_timeout: Duration,
    ) -> Result<ToolOutcome, ToolCallError> {
        let limit = call.definition.timeout.unwrap_or(default_timeout);
        let context = CallContext { cancel: context.cancel.child_token(), ..context.clone() };
        // Whatever the tool waits for before it can start is not taken off its own time.
        call.runner.ready(&call.definition, &context).await?;
        let running = call.runner.run(&call.definition.name, &call.arguments_json, &context);
        tokio::pin!(running);
        let ended = match tokio::time::timeout(limit, &mut running).await {
            Ok(ended) => ended,
            Err(_) => {
                context.cancel.cancel();
                // Only "it never started" is still worth hearing: it turns an unknown outcome into a known one.
                match tokio::time::timeout(LAST_WORD, running).await {
                    Ok(Err(ToolCallError::NotRun(reason))) => Err(ToolCallError::NotRun(reason)),
                    Ok(_) | Err(_) => Err(timed_out(call.definition.mutation, limit)),
                }
            }
        };
        match ended {
            Ok(outcome) => Ok(ToolOutcome { text: cut(outcome.text) }),
            Err(ToolCallError::Failed(text)) => Err(ToolCallError::Failed(cut(text))),
            Err(ToolCallError::NotRun(text)) => Err(ToolCallError::NotRun(cut(text))),
            Err(ToolCallError::Unknown(text)) => Err(ToolCallError::Unknown(cut(text))),
            Err(ToolCallError::TimedOut(limit)) => Err(ToolCallError::TimedOut(limit)),
        }
    }
}

impl CheckedCall {
    pub fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    /// With sorted keys and no spaces: what is shown, hashed, stored and run.
    pub fn arguments_json(&self) -> &str {
        &self.arguments_json
    }
}

impl fmt::Debug for CheckedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.definition.name, self.arguments_json)
    }
}

/// A timeout is unknown, never failed (D24); a tool that only reads is asked again without harm, so it only failed.
fn timed_out(mutation: Mutation, limit: Duration) -> ToolCallError {
    match mutation {
        Mutation::ReadOnly => ToolCallError::TimedOut(limit),
        Mutation::Mutates | Mutation::Undeclared => {
            ToolCallError::Unknown(format!("timed out after {} ms", limit.as_millis()))
        }
    }
}

fn cut(mut text: String) -> String {
    let length = text.len();
    if length > RESULT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(RESULT_BYTES_MAX));
        text.push_str(&format!("\n[cut: the first {} KiB of {length} bytes]", RESULT_BYTES_MAX / 1024));
    }
    text
}
