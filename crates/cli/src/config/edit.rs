//! Changes `server.json` and keeps the rest of it as it was written, comments and all.

use super::diagnostic::{ConfigError, Origin};
use super::file::parse_options;
use crate::home::{HomeError, write_private};
use cortex_types::ChannelMode;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use std::io::ErrorKind;
use std::path::Path;

/// Why the file was left as it is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EditError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Home(#[from] HomeError),
}

/// Sets the mode of one channel. A file that listed no channels and no default keeps the others as they were: live.
pub(crate) fn set_channel_mode(path: &Path, name: &str, mode: ChannelMode) -> Result<(), EditError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => "{\n}\n".to_owned(),
        Err(error) => return Err(HomeError::from_io(path, error).into()),
    };
    let edited = with_channel_mode(&text, name, mode).ok_or_else(|| {
        let problem = "channels cannot be changed here".to_owned();
        ConfigError::setting(Origin::File(path.to_owned()), problem, "write \"channels\": { … } as an object")
    })?;
    Ok(write_private(path, edited.as_bytes())?)
}

fn with_channel_mode(text: &str, name: &str, mode: ChannelMode) -> Option<String> {
    let root = CstRootNode::parse(text, &parse_options()).ok()?;
    let settings = root.object_value_or_create()?;
    let others_were_live = settings.get("channels").is_none() && settings.get("defaultMode").is_none();
    let channels = settings.object_value_or_create("channels")?;
    match channels.get(name) {
        Some(entry) => match entry.object_value() {
            Some(full) => put(&full, "mode", mode),
            None => entry.set_value(word(mode)),
        },
        None => put(&channels, name, mode),
    }
    if others_were_live {
        put(&settings, "defaultMode", ChannelMode::Live);
    }
    Some(root.to_string())
}

fn put(object: &CstObject, name: &str, mode: ChannelMode) {
    match object.get(name) {
        Some(property) => property.set_value(word(mode)),
        None => drop(object.append(name, word(mode))),
    }
}

fn word(mode: ChannelMode) -> CstInputValue {
    CstInputValue::String(mode.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(with_channel_mode(text, "whatsapp", ChannelMode::Live).as_deref(), Some(expected));
    }

    #[test]
    fn one_mode_changes_and_everything_else_stays() {
        check(
            "{\n  // mine\n  \"port\": 1, // kept\n  \"channels\": {\n    \"whatsapp\": \"shadow\", // soon\n    \"x\": \"off\",\n  },\n}\n",
            "{\n  // mine\n  \"port\": 1, // kept\n  \"channels\": {\n    \"whatsapp\": \"live\", // soon\n    \"x\": \"off\",\n  },\n}\n",
        );
        check(
            "{ \"channels\": { \"whatsapp\": { \"mode\": \"off\", \"topic\": \"1\" } } }",
            "{ \"channels\": { \"whatsapp\": { \"mode\": \"live\", \"topic\": \"1\" } } }",
        );
    }

    #[test]
    fn the_first_listed_channel_does_not_close_the_others() {
        let edited = with_channel_mode("{\n}\n", "whatsapp", ChannelMode::Shadow).unwrap();
        let read: serde_json::Value = serde_json::from_str(&edited).unwrap();
        assert_eq!(read, serde_json::json!({"channels": {"whatsapp": "shadow"}, "defaultMode": "live"}));
    }

    #[test]
    fn what_is_no_object_is_left_alone() {
        assert_eq!(with_channel_mode("[]", "x", ChannelMode::Live), None);
        assert_eq!(with_channel_mode("{\"channels\": 3}", "x", ChannelMode::Live), None);
    }
}
