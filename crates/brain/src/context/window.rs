//! How much each model takes, by its name; what nobody knows counts as small.

/// Beginnings of model names, the longer before the shorter, and the tokens such a model takes.
const WINDOWS: &[(&str, u32)] = &[
    ("claude", 200_000),
    ("gpt-5", 400_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("gpt-4", 8_192),
    ("gpt-3.5", 16_385),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4", 200_000),
    ("gemini", 1_048_576),
    ("mistral-large", 128_000),
    ("deepseek", 64_000),
    ("llama3.1", 128_000),
    ("llama-3.1", 128_000),
];
const UNKNOWN: u32 = 32_768;
/// Most of a window that is left free for the answer.
const ANSWER_MAX: u32 = 8_192;

/// The tokens that a model takes, its answer included.
pub fn window_of(model: &str) -> u32 {
    // Routers put the provider before the name.
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    WINDOWS.iter().find(|(start, _)| name.starts_with(start)).map_or(UNKNOWN, |(_, window)| *window)
}

pub(super) fn kept_for_answer(window: u32) -> u32 {
    (window / 4).min(ANSWER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_known_by_how_its_name_begins() {
        assert_eq!(window_of("claude-sonnet-4-5"), 200_000);
        assert_eq!(window_of("anthropic/claude-3-haiku"), 200_000);
        assert_eq!(window_of("gpt-4-0613"), 8_192);
        assert_eq!(window_of("GPT-4o-mini"), 128_000);
        assert_eq!(window_of("my-own-model"), UNKNOWN);
    }
}
