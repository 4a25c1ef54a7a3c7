//! What `cargo xtask test` runs, in order. A later suite adds its short form here.

use crate::tool::{
    AIMOCK, DENY, LITELLM, MCP_EVERYTHING, NEXTEST, OPENAI_NODE, PYTHON_CLIENTS, SCHEMATHESIS, STRACE, Tool,
    VERCEL_AI,
};

/// One line of the summary.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// The first way whose tool is there is taken; without any, the step is skipped.
    pub(crate) ways: &'static [Way],
    /// Suites inside this step that need a tool: without it they pass over themselves, and are reported as skipped.
    pub(crate) inside: &'static [(&'static str, Tool)],
    pub(crate) in_quick: bool,
}

pub(crate) struct Way {
    pub(crate) tool: Option<Tool>,
    pub(crate) command: &'static [&'static str],
}

pub(crate) const STEPS: &[Step] = &[
    // A second of work that says the most common thing first.
    Step { name: "format", ways: &[by(&["cargo", "fmt", "--all", "--check"])], inside: &[], in_quick: true },
    // The lints of Cargo.toml are rules, so a warning is a failure.
    Step {
        name: "lints",
        ways: &[by(&["cargo", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])],
        inside: &[],
        in_quick: true,
    },
    // Advisories are left out: they change without a change of ours, and need a download at every run.
    Step {
        name: "licences",
        ways: &[with(DENY, &["cargo-deny", "check", "licenses", "bans", "sources"])],
        inside: &[],
        in_quick: false,
    },
    // nextest gives every test its own process and a time limit; Cargo's own runner does where it is missing.
    Step {
        name: "tests",
        ways: &[
            with(NEXTEST, &["cargo", "nextest", "run", "--workspace", "--all-targets"]),
            by(&["cargo", "test", "--workspace", "--all-targets", "--no-fail-fast"]),
        ],
        inside: &[
            ("model wires against a third-party fake", AIMOCK),
            ("MCP client against a third party's server", MCP_EVERYTHING),
            ("OpenAI's client for Node", OPENAI_NODE),
            ("Vercel's AI SDK", VERCEL_AI),
            ("clients for Python", PYTHON_CLIENTS),
            ("litellm", LITELLM),
            ("the OpenAPI document by schemathesis", SCHEMATHESIS),
        ],
        in_quick: true,
    },
    // Builds the release program twice; the layers themselves take less than 90 seconds.
    Step {
        name: "faults",
        ways: &[by(&["cargo", "xtask", "faults", "--short"])],
        inside: &[("power loss and failed syncs", STRACE)],
        in_quick: false,
    },
    // On the program that the faults just built.
    Step {
        name: "attacks",
        ways: &[by(&["cargo", "xtask", "attacks", "--short"])],
        inside: &[],
        in_quick: false,
    },
];

const fn by(command: &'static [&'static str]) -> Way {
    Way { tool: None, command }
}

const fn with(tool: Tool, command: &'static [&'static str]) -> Way {
    Way { tool: Some(tool), command }
}
