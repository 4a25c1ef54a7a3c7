//! Documents that programs put into the message of their user, and how they set them apart: from there on nobody can tell which
//! words are the user's.

/// One way in which programs set documents apart. All are compared without regard to case.
enum Mark {
    /// An element: its opening tag begins a line, and its closing tag follows somewhere.
    Element(&'static str),
    /// A heading of Markdown with these words and nothing else on its line.
    Heading(&'static str),
    /// A line that begins with these words.
    Line(&'static str),
    /// A line with these words and nothing else, and then a line that opens a block.
    Block(&'static str),
    /// A sentence of a template, at the beginning of a line or behind another sentence.
    Sentence(&'static str),
}

/// Each as some program writes it; docs/openai.md names them. Whole names and lines, since the words alone stand in code and
/// in what people say.
const MARKS: [Mark; 35] = [
    Mark::Element("context"),                   // Open WebUI, LibreChat: pages and files
    Mark::Element("source"),                    // Open WebUI: one of them
    Mark::Element("sources"),                   // a list of them
    Mark::Element("document"),                  // Anthropic's advice for long documents
    Mark::Element("documents"),                 // the list of these
    Mark::Element("document_content"),          // the text of one
    Mark::Element("user_query"),                // Open WebUI: beside documents, what the user asked
    Mark::Element("search_result"),             // one hit of a search
    Mark::Element("search_results"),            // all of them
    Mark::Element("searchresult"),              // the same in one word
    Mark::Element("searchresults"),             // and these
    Mark::Element("search_context"),            // around a search
    Mark::Element("web_search"),                // agents: a search and its hits
    Mark::Element("web_search_results"),        // the hits alone
    Mark::Element("file"),                      // LibreChat: an uploaded file
    Mark::Element("files"),                     // the list of these
    Mark::Element("files_info"),                // around files
    Mark::Element("file_content"),              // the text of one
    Mark::Element("attachment"),                // what was attached, one
    Mark::Element("attachments"),               // and all of it
    Mark::Element("attached_file"),             // editors: a file of the project
    Mark::Element("attached_files"),            // and all of them
    Mark::Element("retrieved_context"),         // retrieval by hand
    Mark::Element("retrieved_documents"),       // the same
    Mark::Element("knowledge"),                 // what was found in a knowledge base
    Mark::Element("knowledge_base"),            // the same
    Mark::Heading("context"),                   // Open WebUI's older template and copies of it
    Mark::Heading("reference materials"),       // Cherry Studio
    Mark::Heading("search results"),            // searches by plug-ins
    Mark::Block("context:"),                    // prompts by hand, AnythingLLM
    Mark::Line("[context 0]"),                  // AnythingLLM: the first of its pieces
    Mark::Line("attached document(s):"),        // LibreChat: a file as text
    Mark::Line("context information is below"), // LlamaIndex
    Mark::Line("context information from multiple sources is below"), // LlamaIndex: of several
    Mark::Sentence("use the following pieces of"), // LangChain: "context to answer", "retrieved context to answer"
];

/// How a block begins behind a line that announces it: a rule, a fence, quotes, or AnythingLLM's pieces.
const BLOCK_STARTS: [&str; 6] = ["---", "```", "~~~", "\"\"\"", "'''", "[context "];
/// How the sentence of `Mark::Sentence` goes on, so that it is the template's.
const SENTENCE_ENDS: [&str; 2] = ["context to answer", "retrieved context to answer"];

/// Whether words of others may stand among those of the user, as far as the message shows it.
pub(super) fn holds_documents(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    MARKS.iter().any(|mark| match mark {
        Mark::Element(name) => has_element(&text, name),
        Mark::Heading(words) => lines(&text).any(|line| heading(line) == Some(words)),
        Mark::Line(words) => lines(&text).any(|line| line.starts_with(words)),
        Mark::Block(words) => has_block(&text, words),
        Mark::Sentence(words) => has_sentence(&text, words),
    })
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim)
}

fn has_element(text: &str, name: &str) -> bool {
    let closes = |at: usize| {
        let rest = text.get(at..).and_then(|rest| rest.strip_prefix("</")?.strip_prefix(name));
        rest.is_some_and(|rest| rest.trim_start().starts_with('>'))
    };
    let Some(end) = text.rmatch_indices("</").map(|(at, _)| at).find(|at| closes(*at)) else { return false };
    text.get(..end).is_some_and(|before| lines(before).any(|line| opens(line, name)))
}

/// Whether a line begins with the opening tag of exactly this name, its attributes on this line or the next.
fn opens(line: &str, name: &str) -> bool {
    let rest = line.strip_prefix('<').and_then(|line| line.strip_prefix(name));
    rest.is_some_and(|rest| {
        rest.is_empty() || rest.starts_with(|next: char| next == '>' || next.is_whitespace())
    })
}

fn heading(line: &str) -> Option<&str> {
    let words = line.trim_start_matches('#');
    let is_heading = words.len() < line.len() && words.starts_with([' ', '\t']);
    is_heading.then(|| words.trim_end_matches('#').trim().trim_end_matches(':').trim_end())
}

fn has_block(text: &str, words: &str) -> bool {
    let mut is_announced = false;
    for line in lines(text).filter(|line| !line.is_empty()) {
        if is_announced && BLOCK_STARTS.iter().any(|start| line.starts_with(start)) {
            return true;
        }
        is_announced = line == words;
    }
    false
}

fn has_sentence(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(at, _)| {
        let (before, after) = text.split_at(at);
        let before = before.trim_end_matches([' ', '\t']);
        let is_start = before.is_empty() || before.ends_with(['\n', '.', ':', '!', '?']);
        let after = after.get(words.len()..).unwrap_or_default().trim_start();
        is_start && SENTENCE_ENDS.iter().any(|end| after.starts_with(end))
    })
}
