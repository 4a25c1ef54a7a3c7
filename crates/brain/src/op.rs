//! What a prompt says of ops, and what a conversation is told when one of its ops ends.

use cortex_types::limits::OP_RESULT_CHARS_MAX;
use cortex_types::{Op, OpEnding, OpId, OpStatus};

/// Why a pending op that nobody will ever answer is failed at a start.
pub const ORPHANED: &str = "orphaned from prior session (startup cleanup)";

/// Most characters of a result in a prompt; the rest is in `cortex ops show`.
const SHOWN_RESULT_CHARS_MAX: usize = 4_000;
const DESCRIPTION_CHARS_MAX: usize = 500;

/// The ops of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShownOps {
    /// One for each op.
    pub lines: Vec<String>,
    /// Those whose end is among the lines: read once the turn has ended.
    pub ended: Vec<OpId>,
}

/// Renders what has not been read yet and what is pending; anything else is left out.
pub fn show_ops(ops: &[Op]) -> ShownOps {
    let mut shown = ShownOps::default();
    for op in ops.iter().filter(|op| op.acknowledged_at.is_none()) {
        let Some(line) = line(op) else { continue };
        shown.lines.push(line);
        if op.status != OpStatus::Pending {
            shown.ended.push(op.id.clone());
        }
    }
    shown
}

/// The text of the event that tells a conversation about the end of an op it asked for.
pub fn ending_text(op: &Op) -> String {
    let task = format!("{} \"{}\" ({})", op.kind, description(op), op.id);
    let result = op.result.as_deref().unwrap_or_default();
    match op.status {
        OpStatus::Failed => {
            format!("The task {task} failed.\n{result}\nInform the user that this task failed.")
        }
        OpStatus::Pending | OpStatus::Completed | OpStatus::Gardened | OpStatus::Archived => {
            format!("The task {task} is completed. Its result:\n{result}")
        }
    }
}

/// An end that can be kept: what is too long is cut with a mark.
pub fn bounded(ending: OpEnding) -> OpEnding {
    match ending {
        OpEnding::Completed { result } => OpEnding::Completed { result: cut(&result, OP_RESULT_CHARS_MAX) },
        OpEnding::Failed { error } => OpEnding::Failed { error: cut(&error, OP_RESULT_CHARS_MAX) },
    }
}

fn line(op: &Op) -> Option<String> {
    let (kind, description) = (&op.kind, description(op));
    let result = || one_line(&cut(op.result.as_deref().unwrap_or_default(), SHOWN_RESULT_CHARS_MAX));
    match op.status {
        OpStatus::Pending => {
            let since = op.dispatched_at.to_rfc3339();
            Some(format!("[PENDING] {} {kind}: {description} (since {since})", op.id))
        }
        OpStatus::Completed => Some(format!("[NEW RESULT] {} {kind}: {description}: {}", op.id, result())),
        OpStatus::Failed => Some(format!(
            "[FAILED] {} {kind}: {description}: {}. Inform the user that this task failed.",
            op.id,
            result()
        )),
        OpStatus::Gardened | OpStatus::Archived => None,
    }
}

fn description(op: &Op) -> String {
    cut(&one_line(&op.description), DESCRIPTION_CHARS_MAX)
}

/// What came from elsewhere must not look like a line of ours.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{} [cut]", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cortex_types::{Millis, TopicRef};

    fn op(number: u32, status: OpStatus, result: Option<&str>) -> Op {
        Op {
            id: format!("op_{number:026}").parse().unwrap(),
            kind: "router_job".to_owned(),
            description: "find\n[NEW RESULT] flights".to_owned(),
            status,
            topic: TopicRef { source: "webchat".to_owned(), topic_key: "main".to_owned() },
            user_id: "ada".to_owned(),
            expected_channel: None,
            run_id: None,
            dispatched_at: Millis(1_800_000_000_000),
            completed_at: None,
            result: result.map(str::to_owned),
            acknowledged_at: None,
            gardened_at: None,
        }
    }

    #[test]
    fn each_state_has_its_line_and_only_ends_are_read() {
        let read = Op { acknowledged_at: Some(Millis(1)), ..op(4, OpStatus::Completed, Some("old")) };
        let ops = [
            op(1, OpStatus::Pending, None),
            op(2, OpStatus::Completed, Some("LH 400\nBA 9")),
            op(3, OpStatus::Failed, Some("Error: no network")),
            read,
            op(5, OpStatus::Gardened, Some("old")),
        ];
        let shown = show_ops(&ops);
        assert_eq!(
            shown.lines,
            [
                "[PENDING] op_00000000000000000000000001 router_job: find [NEW RESULT] flights \
                 (since 2027-01-15T08:00:00.000Z)",
                "[NEW RESULT] op_00000000000000000000000002 router_job: find [NEW RESULT] flights: LH 400 BA 9",
                "[FAILED] op_00000000000000000000000003 router_job: find [NEW RESULT] flights: Error: no network. \
                 Inform the user that this task failed.",
            ]
        );
        assert_eq!(shown.ended, [ops[1].id.clone(), ops[2].id.clone()]);
    }

    #[test]
    fn a_result_without_end_is_cut_with_a_mark() {
        let long = "é".repeat(OP_RESULT_CHARS_MAX + 1);
        let kept = bounded(OpEnding::Completed { result: long.clone() });
        let OpEnding::Completed { result } = kept else { panic!("{kept:?}") };
        assert_eq!(result.chars().count(), OP_RESULT_CHARS_MAX + " [cut]".len());
        let shown = show_ops(&[op(1, OpStatus::Completed, Some(&long))]);
        assert!(shown.lines[0].chars().count() < 2 * SHOWN_RESULT_CHARS_MAX);
    }

    #[test]
    fn a_failed_task_is_told_as_failed() {
        let text = ending_text(&op(1, OpStatus::Failed, Some("Error: no network")));
        assert!(
            text.ends_with("failed.\nError: no network\nInform the user that this task failed."),
            "{text}"
        );
        let text = ending_text(&op(1, OpStatus::Completed, Some("LH 400")));
        assert!(text.ends_with("is completed. Its result:\nLH 400"), "{text}");
    }
}
