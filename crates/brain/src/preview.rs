//! The live preview: shows an answer while it grows, but nothing that may still be silence or a directive.

use crate::output::may_become_silence;

/// Collects deltas and says how much of them may be shown.
#[derive(Debug, Clone, Default)]
pub struct Preview {
    text: String,
    shown: usize,
}

impl Preview {
    /// Takes the next delta and returns what may be shown now; empty while it must be held back.
    pub fn push(&mut self, delta: &str) -> &str {
        self.text.push_str(delta);
        let safe = safe_end(&self.text).max(self.shown);
        let shown = std::mem::replace(&mut self.shown, safe);
        &self.text[shown..safe]
    }

    /// The model started over: what was shown is void.
    pub fn restart(&mut self) {
        *self = Self::default();
    }
}

/// A directive is `[[name:argument]]` or `[[name]]`; an open `[[` may become one.
fn safe_end(text: &str) -> usize {
    if may_become_silence(text) {
        return 0;
    }
    let open = text.find("[[").or_else(|| text.ends_with('[').then(|| text.len() - 1));
    let end = open.unwrap_or(text.len());
    // Trailing space is trimmed from the delivered text, so it is shown only once more follows.
    text[..end].trim_end().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(deltas: &[&str]) -> Vec<String> {
        let mut preview = Preview::default();
        deltas.iter().map(|delta| preview.push(delta).to_owned()).collect()
    }

    #[test]
    fn plain_text_flows_and_silence_never_shows() {
        assert_eq!(shown(&["Hel", "lo ", "you"]), ["Hel", "lo", " you"]);
        assert_eq!(shown(&["NO", "_REP", "LY"]), ["", "", ""]);
        assert_eq!(shown(&["NO", "_REPLY", " yet"]), ["", "", "NO_REPLY yet"]);
    }

    #[test]
    fn a_directive_is_held_back_with_all_behind_it() {
        assert_eq!(shown(&["Hi [", "[send_to:x]]", " there"]), ["Hi", "", ""]);
        assert_eq!(shown(&["a [", "b]"]), ["a", " [b]"]);
    }
}
