//! `time.now`: what time it is, where the user is or in any other time zone.

use crate::tool::{
    CallContext, Mutation, ToolCallError, ToolDefinition, ToolName, ToolNameError, ToolOutcome, ToolRunner,
    ToolSource,
};
use async_trait::async_trait;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

const INPUT_SCHEMA: &str = r#"{"type":"object","properties":{"timezone":{"type":"string","description":"IANA name such as Europe/Berlin; the user's own zone when left out","maxLength":64}},"additionalProperties":false}"#;

/// Runs `time.now`.
#[derive(Debug, Clone)]
pub struct TimeNow {
    home: TimeZone,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    timezone: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Moment {
    iso: String,
    unix_ms: i64,
    weekday: String,
    timezone: String,
}

impl TimeNow {
    /// `home` is the zone that is meant when a call names none.
    pub fn new(home: TimeZone) -> Self {
        Self { home }
    }

    pub fn definition() -> Result<ToolDefinition, ToolNameError> {
        Ok(ToolDefinition {
            name: ToolName::new("time", "now")?,
            description: "Gives the current date and time, the weekday and the time zone.".to_owned(),
            input_schema_json: INPUT_SCHEMA.to_owned(),
            mutation: Mutation::ReadOnly,
            source: ToolSource::BuiltIn,
            timeout: None,
        })
    }
}

#[async_trait]
impl ToolRunner for TimeNow {
    async fn run(
        &self,
        _name: &ToolName,
        arguments_json: &str,
        context: &CallContext,
    ) -> Result<ToolOutcome, ToolCallError> {
        let arguments: Arguments =
            serde_json::from_str(arguments_json).map_err(|error| ToolCallError::NotRun(error.to_string()))?;
        let zone = match &arguments.timezone {
            None => self.home.clone(),
            Some(name) => TimeZone::get(name).map_err(|_| {
                ToolCallError::NotRun(format!("{name:?} is not a time zone; use a name like Europe/Berlin"))
            })?,
        };
        let now = jiff::Timestamp::from_millisecond(context.now.0)
            .map_err(|error| ToolCallError::Failed(error.to_string()))?
            .to_zoned(zone);
        let moment = Moment {
            iso: now.strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string(),
            unix_ms: context.now.0,
            weekday: now.strftime("%A").to_string(),
            timezone: now.time_zone().iana_name().unwrap_or("UTC").to_owned(),
        };
        let text =
            serde_json::to_string(&moment).map_err(|error| ToolCallError::Failed(error.to_string()))?;
        Ok(ToolOutcome { text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cortex_types::{Millis, TopicRef};
    use tokio_util::sync::CancellationToken;

    async fn run(arguments: &str) -> Result<String, ToolCallError> {
        let context = CallContext {
            topic: TopicRef { source: "test".to_owned(), topic_key: "t".to_owned() },
            sight: cortex_types::Sight::Everything,
            event: None,
            user_id: "u".to_owned(),
            now: Millis(1_774_746_000_500),
            reach: crate::egress::HostPolicy::AnyPublic,
            cancel: CancellationToken::new(),
        };
        let tool = TimeNow::new(TimeZone::get("Europe/Berlin").unwrap());
        let name = TimeNow::definition().unwrap().name;
        tool.run(&name, arguments, &context).await.map(|outcome| outcome.text)
    }

    #[tokio::test]
    async fn the_time_is_given_in_the_home_zone_or_the_one_asked_for() {
        let at_home = r#"{"iso":"2026-03-29T03:00:00.500+02:00","unixMs":1774746000500,"weekday":"Sunday","timezone":"Europe/Berlin"}"#;
        assert_eq!(run("{}").await.as_deref(), Ok(at_home));
        let away = run(r#"{"timezone":"America/New_York"}"#).await.unwrap();
        assert!(away.contains("2026-03-28T21:00:00.500-04:00") && away.contains("Saturday"), "{away}");
    }

    #[tokio::test]
    async fn a_zone_that_does_not_exist_is_not_run() {
        for arguments in [r#"{"timezone":"Mars/Base"}"#, r#"{"timezone":"../../etc/passwd"}"#, r#"{"x":1}"#] {
            assert!(matches!(run(arguments).await, Err(ToolCallError::NotRun(_))), "{arguments}");
        }
    }
}
