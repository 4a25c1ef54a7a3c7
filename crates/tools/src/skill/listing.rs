//! What `listTools()` gave, made into definitions, or into what is wrong with it.

use super::folder::SkillFolder;
use super::manifest::SkillManifest;
use super::problem::{Place, SkillProblem};
use super::wire::ListedTool;
use crate::schema::{Apart, InputSchema, canonical};
use crate::tool::{Mutation, ToolDefinition, ToolName, ToolSource};
use std::collections::BTreeSet;
use std::path::PathBuf;

const TOOLS_MAX: usize = 100;
const DESCRIPTION_CHARS_MAX: usize = 4_000;

/// The definitions and the warnings, or every error.
pub(crate) async fn definitions(
    folder: &SkillFolder,
    manifest: &SkillManifest,
    listed: Vec<ListedTool>,
) -> Result<(Vec<ToolDefinition>, Vec<SkillProblem>), Vec<SkillProblem>> {
    let reader = Reader {
        manifest,
        path: folder.shown(&manifest.main),
        source: folder.read(&manifest.main).unwrap_or_default(),
        apart: Apart::default(),
    };
    let (mut tools, mut errors, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    let mut names = BTreeSet::new();
    if listed.is_empty() {
        warnings.push(SkillProblem::warning(&reader.path, "listTools() lists no tool", "list at least one"));
    }
    if listed.len() > TOOLS_MAX {
        errors.push(SkillProblem::error(&reader.path, format!("over {TOOLS_MAX} tools"), "split the skill"));
    }
    for tool in listed {
        match reader.definition(&tool).await {
            Ok(definition) if !names.insert(definition.name.clone()) => {
                let message = format!("the tool {} is listed twice", definition.name);
                errors.push(reader.error(&tool, message, "give each tool a name of its own"));
            }
            Ok(definition) => {
                warnings.extend(reader.warnings(&tool, &definition));
                tools.push(definition);
            }
            Err(problem) => errors.push(problem),
        }
    }
    if errors.is_empty() { Ok((tools, warnings)) } else { Err(errors) }
}

struct Reader<'a> {
    manifest: &'a SkillManifest,
    path: PathBuf,
    source: String,
    apart: Apart,
}

impl Reader<'_> {
    async fn definition(&self, listed: &ListedTool) -> Result<ToolDefinition, SkillProblem> {
        let name = self.name(listed)?;
        let bad_schema = |reason: String| {
            self.error(
                listed,
                format!("the inputSchema of {name}: {reason}"),
                "write a JSON Schema of type object",
            )
        };
        let text = listed.input_schema_json.clone();
        let compiled = self.apart.run(move || InputSchema::compile(&text).map(drop)).await;
        compiled.and_then(|compiled| compiled).map_err(bad_schema)?;
        // One form for equal schemas, so that a reordered one needs no new trust.
        let input_schema_json =
            canonical(&listed.input_schema_json).map_err(|error| bad_schema(error.to_string()))?;
        if listed.description.chars().count() > DESCRIPTION_CHARS_MAX {
            let message = format!("the description of {name} is over {DESCRIPTION_CHARS_MAX} characters");
            return Err(self.error(listed, message, "shorten it"));
        }
        Ok(ToolDefinition {
            description: listed.description.clone(),
            input_schema_json,
            mutation: match listed.mutates_state {
                Some(true) => Mutation::Mutates,
                Some(false) => Mutation::ReadOnly,
                None => Mutation::Undeclared,
            },
            source: ToolSource::Skill {
                id: self.manifest.id.clone(),
                version: self.manifest.version.clone(),
            },
            timeout: None,
            name,
        })
    }

    /// Bare or with this skill's own prefix (D11).
    fn name(&self, listed: &ListedTool) -> Result<ToolName, SkillProblem> {
        let id = &self.manifest.id;
        let help = format!("write \"{id}.name\" with letters, digits, _ and -");
        let bare = match listed.name.split_once('.') {
            None => listed.name.as_str(),
            Some((prefix, bare)) if prefix == id => bare,
            Some((prefix, _)) => {
                let message =
                    format!("the tool {:?} has the prefix of another skill, {prefix:?}", listed.name);
                return Err(self.error(listed, message, help));
            }
        };
        ToolName::new(id, bare).map_err(|error| self.error(listed, error.to_string(), help))
    }

    fn warnings(&self, listed: &ListedTool, definition: &ToolDefinition) -> Vec<SkillProblem> {
        let mut warnings = Vec::new();
        if definition.mutation == Mutation::Undeclared {
            let message = format!("{} does not say whether it changes anything", definition.name);
            let help = "write mutatesState: true when it does, false when it only reads";
            warnings.push(SkillProblem::warning(&self.path, message, help).at(self.place(listed)));
        }
        if listed.description.trim().is_empty() {
            let message = format!("{} has no description", definition.name);
            let help = "say in a sentence when a model should call it";
            warnings.push(SkillProblem::warning(&self.path, message, help).at(self.place(listed)));
        }
        warnings
    }

    fn error(
        &self,
        listed: &ListedTool,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> SkillProblem {
        SkillProblem::error(&self.path, message, help).at(self.place(listed))
    }

    /// Where the entry file names the tool; a name that is put together there is not found, and line 1 has to do.
    fn place(&self, listed: &ListedTool) -> Option<Place> {
        Place::of_word(&self.source, &listed.name).or(Some(Place { line: 1, column: 1 }))
    }
}
