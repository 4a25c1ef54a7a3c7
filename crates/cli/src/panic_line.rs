//! A defect in the program ends in one line for people, not in a dump.

use crate::environment::Environment;
use crate::home::Home;
use crate::redact::{Redactor, secrets_of};
use crate::terminal::talk;
use std::path::Path;

/// From now on a panic prints one line that says where to look.
pub(crate) fn install(home_flag: Option<&Path>, environment: &Environment) {
    let redactor = Redactor::new(secrets_of(environment));
    let log = Home::choose(home_flag, environment).map(|home| home.log_file());
    std::panic::set_hook(Box::new(move |panic| {
        let place =
            panic.location().map(|place| format!("{}:{}", place.file(), place.line())).unwrap_or_default();
        let text = panic.payload_as_str().unwrap_or("no message");
        let line = redactor.clean(&text.replace('\n', " ")).into_owned();
        tracing::error!(place, "internal error: {line}");
        let log = log.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        talk(&format!("cortex: internal_error: {line} ({place}); the log is {log}"));
    }));
}
