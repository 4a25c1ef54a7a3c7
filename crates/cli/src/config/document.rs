//! The reference page `docs/config.md`, written from the table.

use super::table::{Fallback, KEYS, Key};
use std::fmt::Write;

const HEAD: &str = "\
# Settings

The server reads `$CORTEX_HOME/server.json` (`~/.cortex` without `CORTEX_HOME`): JSON, with comments and trailing commas if you like.
No file is needed. Every key has a twin in the environment; an empty variable counts as unset, and `CORTEX_*` variables that are not
in this table are ignored. A flag (`--host`, `--port`) wins over the variable, the variable over the file, the file over the default.

`${VAR}` in any string of the file stands for that variable, and `$${` for a plain `${`. A list in a variable is a JSON array or
separated by commas; an object is JSON. An unknown key, a wrong value or an unset `${VAR}` stops the start with exit code 78 and a
message that names the place and the fix.

`cortex config --server --list` shows the values in force and where each came from; `--schema` prints the JSON Schema.
This page is `cortex config --server --markdown`.

| key | variable | value | default | what it does |
| --- | --- | --- | --- | --- |
";

pub(crate) fn document() -> String {
    let mut page = HEAD.to_owned();
    for key in KEYS {
        let row = format!(
            "| `{}` | `{}` | {} | {} | {} |",
            key.name,
            key.variable(),
            key.kind.documented(),
            default_of(key),
            key.help.replace('|', "\\|")
        );
        // Writing to a string cannot fail.
        writeln!(page, "{row}").unwrap_or_default();
    }
    page
}

fn default_of(key: &Key) -> String {
    match key.default {
        Fallback::Unset => String::new(),
        Fallback::Text(text) => format!("`{text}`"),
        Fallback::Integer(number) => format!("`{number}`"),
        Fallback::Flag(flag) => format!("`{flag}`"),
        Fallback::EmptyList => "`[]`".to_owned(),
        Fallback::EmptyObject => "`{}`".to_owned(),
    }
}
