//! Where a command speaks: data on stdout, talk on stderr; escapes and colours only where a terminal reads.

use crate::escape;
use crate::exit::Failure;
use comfy_table::{Table, presets};
use serde::Serialize;
use std::borrow::Cow;
use std::io::{IsTerminal, Write};

/// The two streams and what reads them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terminal {
    /// Whether data is wanted as JSON.
    pub(crate) json: bool,
    pub(crate) stdout_is_terminal: bool,
    pub(crate) stderr_is_coloured: bool,
}

impl Terminal {
    pub(crate) fn new(json: bool, no_colour: bool) -> Self {
        Self {
            json,
            stdout_is_terminal: std::io::stdout().is_terminal(),
            stderr_is_coloured: std::io::stderr().is_terminal() && !no_colour,
        }
    }

    /// One or more lines of data; on a terminal nothing in them acts.
    pub(crate) fn print(&self, text: &str) -> Result<(), Failure> {
        let text = self.safe(text);
        let mut stdout = std::io::stdout().lock();
        let written = stdout
            .write_all(text.as_bytes())
            .and_then(|()| if text.ends_with('\n') { Ok(()) } else { stdout.write_all(b"\n") });
        written.and_then(|()| stdout.flush()).map_err(Failure::from_output)
    }

    /// As `print`, without a line break at the end: a preview, or a file.
    pub(crate) fn print_piece(&self, text: &str) -> Result<(), Failure> {
        let text = self.safe(text);
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::from_output)
    }

    pub(crate) fn print_json(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Failure::Coded { code: "output_failed", message: error.to_string() })?;
        if self.stdout_is_terminal {
            self.print(&escape::json_for_terminal(&text))
        } else {
            self.print(&text)
        }
    }

    /// Lines of JSON, each of which still reads as the same value on a terminal.
    pub(crate) fn print_json_lines(&self, lines: &str) -> Result<(), Failure> {
        let text =
            if self.stdout_is_terminal { escape::json_for_terminal(lines) } else { Cow::Borrowed(lines) };
        self.print_piece(&text)
    }

    /// Text from elsewhere, made safe when a terminal shows it.
    fn safe<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.stdout_is_terminal { escape::for_terminal(text) } else { Cow::Borrowed(text) }
    }

    /// A table; every cell is one line and safe.
    pub(crate) fn print_table(&self, head: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(head.iter().map(|name| name.to_uppercase()).collect::<Vec<_>>());
        for row in rows {
            table.add_row(row.iter().map(|cell| escape::for_terminal(&escape::flat(cell)).into_owned()));
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim().to_owned()).collect();
        self.print(&lines.join("\n"))
    }
}

/// A line for the person at the keyboard; nothing in it acts on the terminal.
pub(crate) fn talk(line: &str) {
    talk_drawn(&escape::for_terminal(line));
}

/// As `talk`, for what was drawn by us, with colours.
pub(crate) fn talk_drawn(line: &str) {
    // Nobody is left to tell when stderr is gone.
    writeln!(std::io::stderr(), "{line}").unwrap_or_default();
}
