//! Tool names on the wire: OpenAI and Anthropic refuse dots, so `skill.tool` travels as `skill__tool`.

use cortex_types::ToolSpec;
use std::collections::HashMap;

pub(crate) fn to_wire(name: &str) -> String {
    name.replace('.', "__")
}

/// Leads what a model called back to the name the tool has everywhere else.
#[derive(Debug, Default)]
pub(crate) struct ToolNames(HashMap<String, String>);

impl ToolNames {
    pub(crate) fn of(tools: &[ToolSpec]) -> Self {
        Self(tools.iter().map(|tool| (to_wire(&tool.name), tool.name.clone())).collect())
    }

    /// A name nobody offered is kept readable, so that the model can be told that it does not exist.
    pub(crate) fn name_of(&self, wire: &str) -> String {
        match self.0.get(wire) {
            Some(name) => name.clone(),
            None if wire.contains('.') => wire.to_owned(),
            None => wire.replacen("__", ".", 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ToolNames, to_wire};
    use cortex_types::ToolSpec;

    #[test]
    fn names_come_back_as_they_went_out() {
        let names = ["notes.add", "my__notes.add__all", "plain"];
        let tools = names.map(|name| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            input_schema_json: "{}".to_owned(),
        });
        let table = ToolNames::of(&tools);
        for name in names {
            assert!(!to_wire(name).contains('.'));
            assert_eq!(table.name_of(&to_wire(name)), name);
        }
        assert_eq!(table.name_of("ghost__tool"), "ghost.tool");
        assert_eq!(table.name_of("ghost.tool"), "ghost.tool");
    }
}
