//! Cuts a long Markdown text into parts: between paragraphs where that is possible, and never through an open fence
//! without closing it before the cut and opening it again behind.

/// Longest line that counts as the beginning of a code block; it is repeated when the block is cut.
const FENCE_LINE_UNITS_MAX: usize = 60;

/// Length as the platforms count it.
pub(crate) fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// The parts of a text, none longer than `units_max` (at least 200) and none blank.
pub(crate) fn split(text: &str, units_max: usize) -> Vec<String> {
    let units_max = units_max.max(200);
    let mut parts = Vec::new();
    let mut open: Option<Fence<'_>> = None;
    let mut rest = text.trim_matches('\n');
    while !rest.trim().is_empty() {
        let opening = open.map_or(String::new(), |fence| format!("{}\n", fence.line));
        let room = units_max - units(&opening);
        let after_all = fence_after(rest, open);
        let cut = if units(rest) + closing_units(after_all) <= room {
            Cut { at: rest.len(), open: after_all }
        } else {
            best_cut(rest, open, room)
        };
        let said = rest[..cut.at].trim_end();
        let closing = cut.open.map_or(String::new(), |fence| format!("\n{}", fence.marker));
        if !said.is_empty() {
            parts.push(format!("{opening}{said}{closing}"));
        }
        rest = rest[cut.at..].trim_start_matches('\n');
        open = cut.open;
    }
    parts
}

/// An open code block: the line that opened it, and what closes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fence<'a> {
    line: &'a str,
    marker: &'a str,
}

/// Where to cut, and which block is open there.
#[derive(Debug, Clone, Copy)]
struct Cut<'a> {
    at: usize,
    open: Option<Fence<'a>>,
}

fn closing_units(open: Option<Fence<'_>>) -> usize {
    open.map_or(0, |fence| units(fence.marker) + 1)
}

/// The block that is open behind this line.
fn behind<'a>(line: &'a str, open: Option<Fence<'a>>) -> Option<Fence<'a>> {
    let trimmed = line.trim_end();
    let body = trimmed.trim_start_matches(' ');
    let first = body.chars().next().filter(|first| matches!(first, '`' | '~'));
    let length = first.map_or(0, |first| body.chars().take_while(|letter| *letter == first).count());
    if length < 3 || trimmed.len() - body.len() > 3 || units(trimmed) > FENCE_LINE_UNITS_MAX {
        return open;
    }
    let (marker, info) = body.split_at(length);
    match open {
        Some(fence) if info.is_empty() && marker.starts_with(fence.marker) => None,
        Some(fence) => Some(fence),
        None if info.contains('`') => None,
        None => Some(Fence { line: trimmed, marker }),
    }
}

fn fence_after<'a>(text: &'a str, open: Option<Fence<'a>>) -> Option<Fence<'a>> {
    text.lines().fold(open, |open, line| behind(line, open))
}

/// The best place to cut so that what is before it fits with whatever must close it.
fn best_cut<'a>(rest: &'a str, open: Option<Fence<'a>>, room: usize) -> Cut<'a> {
    let (mut at, mut used) = (0, 0);
    let mut fence = open;
    let mut paragraph: Option<Cut<'a>> = None;
    let mut line_end: Option<Cut<'a>> = None;
    for line in rest.split_inclusive('\n') {
        let next = behind(line, fence);
        // A block that opens here is better left whole for the next part.
        if fence.is_none() && next.is_some() && at > 0 {
            paragraph = Some(Cut { at, open: None });
        }
        used += units(line);
        at += line.len();
        if used + closing_units(next) > room {
            break;
        }
        let is_block_end = fence.is_some() && next.is_none();
        fence = next;
        let cut = Cut { at, open: fence };
        if fence.is_none() && (line.trim().is_empty() || is_block_end) {
            paragraph = Some(cut);
        }
        line_end = Some(cut);
    }
    // A tiny part before a long one reads worse than a cut between two lines.
    let is_worth_it = |cut: &Cut<'a>| units(&rest[..cut.at]) * 4 >= room;
    paragraph
        .filter(is_worth_it)
        .or_else(|| line_end.filter(is_worth_it))
        .unwrap_or_else(|| cut_in_line(rest, open, line_end, room))
}

/// The line that does not fit is cut at its last space, or anywhere when it has none.
fn cut_in_line<'a>(
    rest: &'a str,
    open: Option<Fence<'a>>,
    line_end: Option<Cut<'a>>,
    room: usize,
) -> Cut<'a> {
    let start = line_end.unwrap_or(Cut { at: 0, open });
    let room = room.saturating_sub(units(&rest[..start.at])).saturating_sub(closing_units(start.open));
    let line = &rest[start.at..];
    let mut used = 0;
    let fitting = line.char_indices().find(|(_, letter)| {
        used += letter.len_utf16();
        used > room
    });
    let end = fitting.map_or(line.len(), |(at, _)| at);
    let space = line[..end].rfind(' ').map(|at| at + 1).filter(|at| at * 2 >= end);
    let mut cut = space.unwrap_or(end);
    // What is behind the cut begins a line there: it must not become a fence.
    while cut > 1 && line[cut..].trim_start_matches(' ').starts_with(['`', '~']) {
        cut = line[..cut].char_indices().next_back().map_or(0, |(at, _)| at);
    }
    let cut = if cut <= 1 { end } else { cut };
    if cut == 0 { start } else { Cut { at: start.at + cut, open: start.open } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_balanced(part: &str) -> bool {
        fence_after(part, None).is_none()
    }

    /// What a reader sees of a text, without blanks and without the lines of fences.
    fn substance(text: &str) -> String {
        let is_fence =
            |line: &&str| line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        text.lines()
            .filter(|line| !is_fence(line))
            .flat_map(str::chars)
            .filter(|c| !c.is_whitespace())
            .collect()
    }

    #[test]
    fn a_text_that_fits_is_one_part_and_a_blank_one_is_none() {
        assert_eq!(split("short", 4096), ["short"]);
        assert!(split(" \n\n", 4096).is_empty());
    }

    #[test]
    fn a_long_text_is_cut_between_paragraphs() {
        let paragraph = "word ".repeat(30).trim_end().to_owned();
        let text = [paragraph.as_str(); 4].join("\n\n");
        assert_eq!(
            split(&text, 320),
            [[paragraph.as_str(); 2].join("\n\n"), [paragraph.as_str(); 2].join("\n\n")]
        );
    }

    #[test]
    fn a_fence_that_is_cut_is_closed_and_opened_again() {
        let code = (0..60).map(|line| format!("let line_{line} = 1;\n")).collect::<String>();
        let parts = split(&format!("Look:\n\n```rust\n{code}```\n\nDone."), 400);
        assert!(parts.len() >= 3);
        for part in &parts[1..parts.len() - 1] {
            assert!(part.starts_with("```rust\n") && part.ends_with("\n```"), "{part}");
        }
        let together = parts.concat();
        assert!((0..60).all(|line| together.contains(&format!("let line_{line} = 1;"))));
    }

    #[test]
    fn a_word_without_end_is_cut_anyway() {
        let parts = split(&"x".repeat(10_000), 4096);
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [4096, 4096, 1808]);
        let faces = split(&"😀".repeat(300), 200);
        assert!(faces.iter().all(|part| units(part) <= 200));
        assert_eq!(faces.concat().chars().count(), 300);
    }

    proptest! {
        #[test]
        fn parts_fit_lose_nothing_and_leave_no_fence_open(
            pieces in prop::collection::vec(
                prop_oneof![
                    "[a-zé😀 ]{0,90}",
                    Just("\n".to_owned()),
                    Just("\n\n".to_owned()),
                    Just("\n```\n".to_owned()),
                    Just("\n```rust\n".to_owned()),
                    Just("\n~~~~\n".to_owned()),
                    Just(" `a` ".to_owned()),
                    "[a-z]{150,400}",
                ],
                0..60,
            ),
            units_max in 200usize..700,
        ) {
            let text = pieces.concat();
            let parts = split(&text, units_max);
            for part in &parts {
                prop_assert!(units(part) <= units_max, "{} > {units_max}", units(part));
                prop_assert!(is_balanced(part), "open fence: {part:?}");
                prop_assert!(!part.trim().is_empty());
            }
            prop_assert_eq!(substance(&parts.join("\n")), substance(&text));
        }
    }
}
