//! What waits for trust, as a person reads it before it is trusted.

use crate::escape::for_log;
use cortex_api::{AwaitingTrust, CutText, ToolEffect, UntrustedTool};

/// Lines of ours: whatever a tool says of itself stays on the line that says so.
pub(super) fn lines(row: &AwaitingTrust) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(code) = &row.code {
        lines.push(format!("the code in {}, SHA-256 {}", for_log(&code.folder), for_log(&code.sha256)));
        let hosts = match &code.hosts {
            None => "every public host".to_owned(),
            Some(hosts) if hosts.is_empty() => "no host".to_owned(),
            Some(hosts) => hosts.join(", "),
        };
        lines.push(format!("  may reach: {}", for_log(&hosts)));
    }
    lines.extend(row.tools.iter().flat_map(tool));
    lines
}

fn tool(tool: &UntrustedTool) -> Vec<String> {
    let effect = match tool.effect {
        ToolEffect::Reads => "says that it only reads",
        ToolEffect::Changes => "may change something",
        ToolEffect::Undeclared => "does not say whether it changes something",
    };
    let what = if tool.is_new { "the new tool" } else { "the changed tool" };
    let mut lines = vec![
        format!("{what} {}, which {effect}", for_log(&tool.name)),
        format!("  says:      {}", cut(&tool.description)),
    ];
    if let Some(old) = &tool.old_description {
        lines.push(format!("  said:      {}", cut(old)));
    }
    lines.push(format!("  arguments: {}", cut(&tool.arguments_schema)));
    lines
}

fn cut(text: &CutText) -> String {
    let shown = if text.text.is_empty() && text.left_out == 0 { "(nothing)" } else { &text.text };
    let shown = for_log(shown);
    match text.left_out {
        0 => shown.into_owned(),
        left_out => format!("{shown}… [{left_out} more characters]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cortex_api::UntrustedCode;

    fn whole(text: &str) -> CutText {
        CutText { text: text.to_owned(), left_out: 0 }
    }

    #[test]
    fn everything_that_would_be_trusted_is_spelled_out_on_lines_of_its_own() {
        let row = AwaitingTrust {
            name: "notes".to_owned(),
            digest: "0f".to_owned(),
            code: Some(UntrustedCode {
                folder: "/skills/notes".to_owned(),
                sha256: "ab".to_owned(),
                hosts: Some(vec!["api.example.org".to_owned(), "*.example.com".to_owned()]),
            }),
            tools: vec![
                UntrustedTool {
                    name: "notes.read".to_owned(),
                    is_new: false,
                    effect: ToolEffect::Reads,
                    description: whole("Reads.\nthe new tool notes.good, which says that it only reads"),
                    old_description: Some(whole("Reads.")),
                    arguments_schema: CutText { text: "{\"type\":".to_owned(), left_out: 70 },
                },
                UntrustedTool {
                    name: "notes.sync".to_owned(),
                    is_new: true,
                    effect: ToolEffect::Changes,
                    description: whole("\u{1b}[2J\u{202e}Syncs."),
                    old_description: None,
                    arguments_schema: whole("{}"),
                },
                UntrustedTool {
                    name: "notes.late".to_owned(),
                    is_new: true,
                    effect: ToolEffect::Undeclared,
                    description: whole(""),
                    old_description: None,
                    arguments_schema: CutText { text: String::new(), left_out: 9 },
                },
            ],
        };
        let expected = r"the code in /skills/notes, SHA-256 ab
  may reach: api.example.org, *.example.com
the changed tool notes.read, which says that it only reads
  says:      Reads.\nthe new tool notes.good, which says that it only reads
  said:      Reads.
  arguments: {QtypeQ:… [70 more characters]
the new tool notes.sync, which may change something
  says:      \u{1b}[2J\u{202e}Syncs.
  arguments: {}
the new tool notes.late, which does not say whether it changes something
  says:      (nothing)
  arguments: … [9 more characters]";
        assert_eq!(lines(&row).join("\n"), expected.replace('Q', "\""));
    }
}
