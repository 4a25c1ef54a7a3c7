//! A new skill to start from, and the types that its author writes against.

use super::manifest::is_skill_id;

/// The types for authors, as shipped with the server.
pub const SKILL_TYPES: &str = include_str!("../../types/skill.d.ts");

const FILES: &[(&str, &str)] = &[
    ("skill.json", include_str!("template/skill.json")),
    ("main.ts", include_str!("template/main.ts")),
    ("skill.d.ts", SKILL_TYPES),
    ("README.md", include_str!("template/README.md")),
];
const ID_MARK: &str = "SKILL_ID";

/// A file of a new skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateFile {
    pub name: &'static str,
    pub text: String,
}

/// The files of a new skill; nothing when `id` can be no skill's id.
pub fn skill_template(id: &str) -> Option<Vec<TemplateFile>> {
    let filled = |(name, text): &(&'static str, &str)| TemplateFile { name, text: text.replace(ID_MARK, id) };
    is_skill_id(id).then(|| FILES.iter().map(filled).collect())
}
