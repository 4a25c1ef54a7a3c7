//! What a tool gave, as text: its text blocks, and one line for each block that is something else.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

/// The text of a result. A result without blocks is its structured content.
pub(super) fn flatten(result: &CallToolResult) -> String {
    if result.content.is_empty() {
        return result.structured_content.as_ref().map(ToString::to_string).unwrap_or_default();
    }
    result.content.iter().map(block_text).collect::<Vec<_>>().join("\n")
}

fn block_text(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => {
            format!("[image: {}, {} bytes]", one_line(&image.mime_type), decoded_bytes(&image.data))
        }
        ContentBlock::Audio(audio) => {
            format!("[audio: {}, {} bytes]", one_line(&audio.mime_type), decoded_bytes(&audio.data))
        }
        ContentBlock::ResourceLink(link) => {
            format!("[link: {} {}]", one_line(&link.name), one_line(&link.uri))
        }
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                format!("[resource: {}]\n{text}", one_line(uri))
            }
            ResourceContents::BlobResourceContents { uri, blob, .. } => {
                format!("[resource: {}, {} bytes]", one_line(uri), decoded_bytes(blob))
            }
            _ => "[resource of an unknown kind]".to_owned(),
        },
        _ => "[content of an unknown kind]".to_owned(),
    }
}

fn decoded_bytes(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: &str) {
        let result: CallToolResult = serde_json::from_str(json).unwrap();
        assert_eq!(flatten(&result), expected);
    }

    #[test]
    fn every_kind_of_block_leaves_a_trace_in_the_text() {
        check(
            r#"{"content": [{"type": "text", "text": "one\ntwo"},
                {"type": "image", "mimeType": "image/png", "data": "AAAA"},
                {"type": "audio", "mimeType": "audio/wav", "data": "AA=="},
                {"type": "resource_link", "name": "a\nb", "uri": "file:///x"},
                {"type": "resource", "resource": {"uri": "mem:1", "text": "inside"}},
                {"type": "resource", "resource": {"uri": "mem:2", "blob": "AAAAAAAA"}}]}"#,
            "one\ntwo\n[image: image/png, 3 bytes]\n[audio: audio/wav, 1 bytes]\n[link: a b file:///x]\n\
             [resource: mem:1]\ninside\n[resource: mem:2, 6 bytes]",
        );
        check(r#"{"content": [], "structuredContent": {"a": 1}}"#, r#"{"a":1}"#);
        check(r#"{"content": []}"#, "");
    }
}
