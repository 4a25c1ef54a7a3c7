//! What a server offers: its tools under names of ours, bounded, with a way back to its own names.

use super::config::name_part;
use crate::schema::{Apart, InputSchema};
use crate::tool::{Mutation, ToolDefinition, ToolName, ToolSource};
use cortex_types::limits::SCHEMA_BYTES_MAX;
use rmcp::model::{JsonObject, Tool};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(super) const TOOLS_MAX: usize = 256;
/// The longest name that is sent back to a server; the longest that make sense are far shorter.
const ORIGINAL_CHARS_MAX: usize = 256;
const DESCRIPTION_CHARS_MAX: usize = 4_000;
/// A tool name of ours with its server and the dot.
const NAME_CHARS_MAX: usize = 63;
const PROBLEMS_MAX: usize = 32;
/// How long the schemas of all its tools may take to compile.
const COMPILING_MAX: Duration = Duration::from_secs(10);

/// The tools of one server that can be called, and what is wrong with the others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Offer {
    pub(super) tools: BTreeMap<ToolName, OfferedTool>,
    pub(super) problems: Vec<String>,
}

#[derive(Clone)]
pub(super) struct OfferedTool {
    /// As the server calls it.
    pub(super) original: String,
    pub(super) definition: ToolDefinition,
    pub(super) schema: Arc<InputSchema>,
}

/// The schema follows from the definition.
impl PartialEq for OfferedTool {
    fn eq(&self, other: &Self) -> bool {
        (&self.original, &self.definition) == (&other.original, &other.definition)
    }
}

impl Eq for OfferedTool {}

impl std::fmt::Debug for OfferedTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} as {}", self.original, self.definition.name)
    }
}

/// A tool as a server lists it, cut down to what can be offered of it.
pub(super) struct Found {
    original: String,
    definition: Result<ToolDefinition, String>,
}

impl Found {
    pub(super) fn new(server: &str, tool: Tool) -> Self {
        let original: String = tool.name.chars().take(ORIGINAL_CHARS_MAX).collect();
        let definition = if original.len() < tool.name.len() {
            Err(format!("its name is over {ORIGINAL_CHARS_MAX} characters"))
        } else {
            definition(server, tool)
        };
        Self { original, definition }
    }
}

impl Offer {
    /// Schemas that were compiled for the offer before are taken over.
    pub(super) async fn new(found: Vec<Found>, before: &Self, apart: &Apart) -> Self {
        let mut offer = Self::default();
        let count = found.len();
        let deadline = Instant::now() + COMPILING_MAX;
        for Found { original, definition } in found.into_iter().take(TOOLS_MAX) {
            let added = match definition.and_then(|definition| offer.free(definition)) {
                Ok(definition) => compiled(&definition, before, apart, deadline)
                    .await
                    .map(|schema| OfferedTool { original: original.clone(), definition, schema }),
                Err(problem) => Err(problem),
            };
            match added {
                Ok(tool) => drop(offer.tools.insert(tool.definition.name.clone(), tool)),
                Err(problem) => offer.report(format!("{original:.100?} is left out: {problem}")),
            }
        }
        if count > TOOLS_MAX {
            offer.report(format!("only the first {TOOLS_MAX} tools are offered"));
        }
        offer
    }

    fn free(&self, definition: ToolDefinition) -> Result<ToolDefinition, String> {
        let look = definition.name.look();
        match self.tools.values().find(|tool| tool.definition.name.look() == look) {
            None => Ok(definition),
            Some(taken) => {
                let (original, name) = (&taken.original, &taken.definition.name);
                Err(format!("{original:.100?} is already called {name}"))
            }
        }
    }

    fn report(&mut self, problem: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }
}

/// A schema that cannot be compiled in time is refused when it is listed, not when it is called.
async fn compiled(
    definition: &ToolDefinition,
    before: &Offer,
    apart: &Apart,
    deadline: Instant,
) -> Result<Arc<InputSchema>, String> {
    let known = before.tools.get(&definition.name);
    if let Some(known) =
        known.filter(|known| known.definition.input_schema_json == definition.input_schema_json)
    {
        return Ok(Arc::clone(&known.schema));
    }
    let text = definition.input_schema_json.clone();
    let compiling = apart.run(move || InputSchema::compile(&text));
    match tokio::time::timeout_at(deadline, compiling).await {
        Ok(compiled) => compiled.and_then(|compiled| compiled).map(Arc::new),
        Err(_) => Err("the schemas of this server take too long to compile".to_owned()),
    }
}

fn definition(server: &str, tool: Tool) -> Result<ToolDefinition, String> {
    let name = tool_name(server, &tool.name)?;
    let annotations = tool.annotations.unwrap_or_default();
    let description =
        tool.description.map(String::from).or(tool.title).or(annotations.title).unwrap_or_default();
    Ok(ToolDefinition {
        name,
        description: cut(&description),
        input_schema_json: schema_text(&tool.input_schema)?,
        // Only the one explicit word counts; a tool that says nothing asks (D10).
        mutation: if annotations.read_only_hint == Some(true) {
            Mutation::ReadOnly
        } else {
            Mutation::Mutates
        },
        source: ToolSource::Mcp { server: server.to_owned() },
        timeout: None,
    })
}

fn tool_name(server: &str, tool: &str) -> Result<ToolName, String> {
    let server = name_part(server);
    let mut part = name_part(tool);
    let room = NAME_CHARS_MAX.saturating_sub(server.len() + 1);
    if part.len() > room {
        // Names that begin alike stay apart.
        let digest = Sha256::digest(tool.as_bytes());
        let mark = format!("_{:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3]);
        part.truncate(room.saturating_sub(mark.len()));
        part.push_str(&mark);
    }
    ToolName::new(&server, &part).map_err(|error| error.to_string())
}

fn schema_text(schema: &JsonObject) -> Result<String, String> {
    let mut schema = schema.clone();
    // Some servers leave out what the protocol wants; models refuse a root that is no object.
    if !schema.contains_key("type") {
        schema.insert("type".to_owned(), "object".into());
    }
    if schema.get("type").and_then(|kind| kind.as_str()) != Some("object") {
        return Err("its input schema is not an object".to_owned());
    }
    let text = serde_json::to_string(&schema).map_err(|error| error.to_string())?;
    // A text that is far too long is not kept to be refused later.
    if text.len() > SCHEMA_BYTES_MAX {
        return Err(format!("the schema is over {SCHEMA_BYTES_MAX} bytes"));
    }
    Ok(text)
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(DESCRIPTION_CHARS_MAX) {
        Some((end, _)) => format!("{}… [cut]", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn offer(server: &str, tools: Vec<Tool>) -> Offer {
        let found = tools.into_iter().map(|tool| Found::new(server, tool)).collect();
        Offer::new(found, &Offer::default(), &Apart::default()).await
    }

    fn tools(json: &str) -> Vec<Tool> {
        serde_json::from_str(json).unwrap()
    }

    #[tokio::test]
    async fn names_are_made_to_fit_and_lead_back() {
        let long = "x".repeat(80);
        let json = format!(
            r#"[{{"name": "read.file/now", "inputSchema": {{}}}}, {{"name": "{long}a", "inputSchema": {{}}}},
                {{"name": "{long}b", "inputSchema": {{}}}}, {{"name": "read file now", "inputSchema": {{}}}},
                {{"name": "", "inputSchema": {{}}}}]"#
        );
        let offer = offer("my files", tools(&json)).await;
        let found: Vec<(&str, &str)> = offer
            .tools
            .values()
            .map(|tool| (tool.definition.name.as_str(), tool.original.as_str()))
            .collect();
        assert_eq!(found[0], ("my_files.read_file_now", "read.file/now"));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[1..].iter().all(|(name, _)| name.len() == NAME_CHARS_MAX), "{found:?}");
        assert_eq!(offer.problems.len(), 2, "{:?}", offer.problems);
        assert!(offer.problems[0].contains("already called my_files.read_file_now"), "{:?}", offer.problems);
    }

    #[tokio::test]
    async fn only_an_explicit_read_only_hint_makes_a_tool_read_only() {
        let offer = offer(
            "s",
            tools(
                r#"[{"name": "a", "inputSchema": {}, "annotations": {"readOnlyHint": true}},
                    {"name": "b", "inputSchema": {}, "annotations": {"readOnlyHint": false, "destructiveHint": false}},
                    {"name": "c", "inputSchema": {}, "annotations": {"idempotentHint": true}},
                    {"name": "d", "inputSchema": {}}]"#,
            ),
        )
        .await;
        let mutations: Vec<Mutation> = offer.tools.values().map(|tool| tool.definition.mutation).collect();
        assert_eq!(mutations, [Mutation::ReadOnly, Mutation::Mutates, Mutation::Mutates, Mutation::Mutates]);
    }

    #[tokio::test]
    async fn what_is_too_large_is_cut_or_left_out() {
        let (description, title) = ("d".repeat(9_000), "t".repeat(SCHEMA_BYTES_MAX));
        let offer = offer(
            "s",
            tools(&format!(
                r#"[{{"name": "a", "description": "{description}", "inputSchema": {{"type": "object"}}}},
                    {{"name": "b", "inputSchema": {{"type": "object", "title": "{title}"}}}},
                    {{"name": "c", "inputSchema": {{"type": "string"}}}}]"#
            )),
        )
        .await;
        assert_eq!(offer.tools.len(), 1);
        let kept = offer.tools.values().next().unwrap();
        assert!(kept.definition.description.ends_with("… [cut]"));
        assert_eq!(kept.definition.input_schema_json, r#"{"type":"object"}"#);
        assert_eq!(offer.problems.len(), 2, "{:?}", offer.problems);
    }

    #[tokio::test]
    async fn a_tool_with_a_hostile_schema_is_left_out_with_the_reason() {
        let offer = offer(
            "s",
            tools(
                r##"[{"name": "good", "inputSchema": {}},
                    {"name": "loop", "inputSchema": {"$ref": "#"}},
                    {"name": "far", "inputSchema": {"properties": {"a": {"$ref": "http://example.org/a"}}}},
                    {"name": "odd", "inputSchema": {"properties": {"a": {"pattern": "("}}}}]"##,
            ),
        )
        .await;
        assert_eq!(offer.tools.len(), 1);
        let told = offer.problems.join("\n");
        for part in ["\"loop\" is left out", "without end", "\"far\"", "leads elsewhere", "\"odd\""] {
            assert!(told.contains(part), "{told}");
        }
    }
}
