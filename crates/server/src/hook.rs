//! Webhooks that come in: what each named hook believes, and the event it makes of a payload (D72).

mod payload;
mod proof;
mod template;

use crate::setting_block::{SettingBlock, check_name};
use crate::signature::{Doubt, ID_HEADER, only};
use cortex_runtime::IncomingEvent;
use cortex_types::limits::FIELD_CHARS_MAX;
use cortex_types::{HOOK_CHANNEL_START, Millis, Priority, Relationship, Speaker, TopicRef};
use http::HeaderMap;
use proof::Proof;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use template::{Payload, Place, Template};

/// Longest text of an event that a hook makes.
const TEXT_CHARS_MAX: usize = 32 * 1024;
/// Headers in which senders name a delivery, the first that is there counts.
const ID_HEADERS: [&str; 3] = [ID_HEADER, "x-github-delivery", "idempotency-key"];
/// A delivery without a name is the same as an equal one in the same stretch of this length.
const SAME_BODY_MS: i64 = 5 * 60 * 1000;

/// The hooks of the settings, by name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct Hooks(BTreeMap<String, Hook>);

/// One hook.
#[derive(Debug, Clone)]
pub(crate) struct Hook {
    name: String,
    proof: Proof,
    text: Template,
    /// None: the hook's own name.
    topic: Option<Template>,
    user: Option<Template>,
    id: Option<Template>,
    /// All of them must hold, or the payload is passed over.
    when: Vec<(Place, Vec<Value>)>,
    /// The topic of another channel that gets the event and its answer.
    to: Option<TopicRef>,
}

/// A request that showed what its hook asks for.
pub(crate) struct Believed<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a [u8],
    pub(crate) now: Millis,
}

impl TryFrom<Map<String, Value>> for Hooks {
    type Error = String;

    fn try_from(blocks: Map<String, Value>) -> Result<Self, String> {
        let hooks = blocks.iter().map(|(name, value)| Ok((name.clone(), Hook::read(name, value)?)));
        hooks.collect::<Result<_, String>>().map(Self)
    }
}

impl Hooks {
    pub(crate) fn find(&self, name: &str) -> Option<&Hook> {
        self.0.get(name)
    }

    /// What no log may show.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretString> {
        self.0.values().flat_map(|hook| hook.proof.secrets())
    }

    /// The sources of hooks whose answers wait until somebody fetches them.
    pub fn own_sources(&self) -> impl Iterator<Item = String> {
        self.0.values().filter(|hook| hook.to.is_none()).map(Hook::channel)
    }
}

impl Hook {
    fn read(name: &str, value: &Value) -> Result<Self, String> {
        check_name(name)?;
        let known = ["key", "hmac", "secret", "text", "topic", "user", "id", "when", "to"];
        let block = SettingBlock::open(name, value, &known)?;
        let proof = Proof::read(&block)?;
        block.required("text")?;
        let to = block.get("to").map(|to| read_target(&block.name_of("to"), to)).transpose()?;
        let topic = block.parsed("topic", Template::read)?;
        if to.is_some() && topic.is_some() {
            return Err(format!("{} and to exclude each other: to names a topic", block.name_of("topic")));
        }
        Ok(Self {
            name: name.to_owned(),
            proof,
            text: block.parsed("text", Template::read)?.unwrap_or(Template::read("{{}}")?),
            topic,
            user: block.parsed("user", Template::read)?,
            id: block.parsed("id", Template::read)?,
            when: read_conditions(&block)?,
            to,
        })
    }

    /// The channel of its events, and their source where none is set.
    fn channel(&self) -> String {
        format!("{HOOK_CHANNEL_START}{}", self.name)
    }

    pub(crate) fn check_key(&self, headers: &HeaderMap) -> Result<(), Doubt> {
        self.proof.check_key(headers)
    }

    pub(crate) fn check_body(&self, headers: &HeaderMap, body: &[u8], now: Millis) -> Result<(), Doubt> {
        self.proof.check_body(headers, body, now.0.div_euclid(1_000))
    }

    /// The event of a payload, or none when the hook passes over it; the complaints name what is missing.
    pub(crate) fn event(
        &self,
        request: &Believed<'_>,
    ) -> Result<Option<(Speaker, IncomingEvent)>, Vec<String>> {
        let body = payload::read_payload(request.headers, request.body).map_err(|problem| vec![problem])?;
        let payload = Payload { headers: request.headers, body: &body };
        let holds = |(place, values): &(Place, Vec<Value>)| values.contains(&place.value(&payload));
        if !self.when.iter().all(holds) {
            return Ok(None);
        }
        let mut complaints = Vec::new();
        let text = self.filled_text(&payload, &mut complaints);
        let mut name =
            |field: &str, template: &Template| filled_name(field, template, &payload, &mut complaints);
        let topic = self.topic.as_ref().map(|topic| name("topic", topic));
        let user = self.user.as_ref().map(|user| name("user", user));
        let id = self.id.as_ref().map(|id| name("id", id)).unwrap_or_else(|| default_id(request));
        let channel = self.channel();
        let unique = format!("{channel}:{id}");
        let user_id = match (&self.user, user) {
            (Some(template), Some(user)) if template.is_literal() => user,
            // No payload may pass for a person.
            (_, Some(user)) => format!("{channel}:{user}"),
            (_, None) => channel.clone(),
        };
        let (source, topic_key, external_message_id) = match &self.to {
            Some(to) => (to.source.clone(), to.topic_key.clone(), unique.clone()),
            None => (channel.clone(), topic.unwrap_or_else(|| self.name.clone()), id),
        };
        for (field, value) in [("topic", &topic_key), ("user", &user_id), ("id", &unique)] {
            if value.chars().count() > FIELD_CHARS_MAX {
                complaints.push(format!("{field} must come out as at most {FIELD_CHARS_MAX} characters"));
            }
        }
        if !complaints.is_empty() {
            return Err(complaints);
        }
        let event = IncomingEvent {
            external_message_id,
            idempotency_key: unique,
            topic_key,
            user_id,
            text,
            occurred_at: request.now,
            metadata_json: self.metadata(),
            priority: Priority::default(),
        };
        Ok(Some((Speaker::hook(channel, source), event)))
    }

    fn filled_text(&self, payload: &Payload<'_>, complaints: &mut Vec<String>) -> String {
        let filled = self.text.fill(payload, TEXT_CHARS_MAX);
        if filled.text.trim().is_empty() {
            let at = if filled.missing.is_empty() {
                "all of it is blank".to_owned()
            } else {
                format!("nothing at {}", filled.missing.join(", "))
            };
            complaints.push(format!("text came out empty: {at}"));
        }
        filled.text
    }

    fn metadata(&self) -> Option<String> {
        let told = HookMetadata { hook: &self.name, relationship: Relationship::System.as_str() };
        serde_json::to_string(&told).ok()
    }
}

/// What an event of a hook says of itself.
#[derive(Serialize)]
struct HookMetadata<'a> {
    hook: &'a str,
    relationship: &'static str,
}

/// A name with a hole in it would be another's name, so every place must be filled.
fn filled_name(
    field: &str,
    template: &Template,
    payload: &Payload<'_>,
    complaints: &mut Vec<String>,
) -> String {
    let filled = template.fill(payload, FIELD_CHARS_MAX);
    complaints
        .extend(filled.missing.iter().map(|place| format!("{field} needs {place}, which is not there")));
    filled.text
}

fn default_id(request: &Believed<'_>) -> String {
    let named = ID_HEADERS.iter().find_map(|name| only(request.headers, name));
    match named.filter(|id| !id.trim().is_empty()) {
        Some(id) => id.to_owned(),
        None => {
            // For ever would lose the second ring of a doorbell.
            let stretch = request.now.0.div_euclid(SAME_BODY_MS);
            format!("{:x}:{stretch}", Sha256::digest(request.body))
        }
    }
}

fn read_target(at: &str, value: &Value) -> Result<TopicRef, String> {
    let block = SettingBlock::open(at, value, &["source", "topic"])?;
    Ok(TopicRef {
        source: block.required("source")?.to_owned(),
        topic_key: block.required("topic")?.to_owned(),
    })
}

fn read_conditions(block: &SettingBlock<'_>) -> Result<Vec<(Place, Vec<Value>)>, String> {
    let Some(value) = block.get("when") else { return Ok(Vec::new()) };
    let at = block.name_of("when");
    let wrong = || format!("{at} must be an object {{\"/pointer\": value or [values]}}");
    let conditions = value.as_object().ok_or_else(wrong)?.iter().map(|(place, values)| {
        let place = Place::read(place).map_err(|problem| format!("{at} {problem}"))?;
        let values = match values {
            Value::Array(values) => values.clone(),
            Value::Object(_) => return Err(wrong()),
            one @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => vec![one.clone()],
        };
        if values.iter().any(|value| value.is_object() || value.is_array()) {
            return Err(wrong());
        }
        Ok((place, values))
    });
    conditions.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hook(more: &Value) -> Hook {
        let mut block = json!({"key": "0123456789abcdef", "text": "{{/text}}"});
        block.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Hook::read("ci", &block).unwrap()
    }

    type Made = Result<Option<(Speaker, IncomingEvent)>, Vec<String>>;

    fn made(hook: &Hook, headers: &HeaderMap, body: &Value) -> Made {
        hook.event(&Believed { headers, body: body.to_string().as_bytes(), now: Millis(1_800_000_000_000) })
    }

    fn event(more: &Value, body: &Value) -> (Speaker, IncomingEvent) {
        made(&hook(more), &HeaderMap::new(), body).unwrap().unwrap()
    }

    #[test]
    fn an_event_is_of_the_hook_itself_or_of_the_topic_it_is_for() {
        let body = json!({"text": "red", "repo": "a/b", "who": "ada", "run": 7});
        let (speaker, own) =
            event(&json!({"topic": "{{/repo}}", "user": "{{/who}}", "id": "{{/run}}"}), &body);
        assert_eq!((speaker.source(), own.topic_key.as_str()), ("hook:ci", "a/b"));
        assert_eq!((own.external_message_id.as_str(), own.idempotency_key.as_str()), ("7", "hook:ci:7"));
        assert_eq!((own.user_id.as_str(), speaker.channel()), ("hook:ci:ada", "hook:ci"));
        let to = json!({"to": {"source": "telegram", "topic": "42"}, "user": "tg:1", "id": "{{/run}}"});
        let (speaker, other) = event(&to, &body);
        assert!(!speaker.standing().vouches_for_people(), "a payload answers no question");
        assert_eq!((speaker.source(), other.topic_key.as_str()), ("telegram", "42"));
        assert_eq!((other.external_message_id.as_str(), other.user_id.as_str()), ("hook:ci:7", "tg:1"));
        assert_eq!(speaker.channel(), "hook:ci");
        let (_, plain) = event(&json!({}), &body);
        assert_eq!((plain.topic_key.as_str(), plain.user_id.as_str()), ("ci", "hook:ci"));
    }

    #[test]
    fn a_payload_cannot_pass_for_a_person() {
        let (_, forged) = event(&json!({"user": "{{/who}}"}), &json!({"text": "x", "who": "tg:1"}));
        assert_eq!(forged.user_id, "hook:ci:tg:1");
    }

    #[test]
    fn a_delivery_is_named_by_the_first_header_that_names_one_else_by_its_body_for_five_minutes() {
        let headers = |pairs: &[(&str, &str)]| -> HeaderMap {
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
        };
        let id = |headers: &HeaderMap, now| default_id(&Believed { headers, body: b"{}", now: Millis(now) });
        let all = headers(&[("idempotency-key", "c"), ("x-github-delivery", "b"), ("webhook-id", "a")]);
        assert_eq!(id(&all, 0), "a");
        assert_eq!(id(&headers(&[("idempotency-key", "c"), ("x-github-delivery", "b")]), 0), "b");
        let none = HeaderMap::new();
        assert_eq!(id(&none, 0), id(&none, 299_999));
        assert_ne!(id(&none, 0), id(&none, 300_000));
        assert!(id(&none, 0).starts_with("44136fa355b3678a"), "{}", id(&none, 0));
    }

    #[test]
    fn only_payloads_that_the_conditions_hold_for_become_events() {
        let more =
            json!({"when": {"/action": ["opened", "closed"], "header:x-kind": "issues", "/draft": null}});
        let check = |kind: &str, body: Value, expected: bool| {
            let headers = HeaderMap::from_iter([("x-kind".parse().unwrap(), kind.parse().unwrap())]);
            let made = made(&hook(&more), &headers, &body).unwrap();
            assert_eq!(made.is_some(), expected, "{kind} {body}");
        };
        check("issues", json!({"action": "opened", "text": "x"}), true);
        check("issues", json!({"action": "closed", "text": "x", "draft": null}), true);
        check("issues", json!({"action": "edited", "text": "x"}), false);
        check("issues", json!({"action": "opened", "text": "x", "draft": true}), false);
        check("push", json!({"action": "opened", "text": "x"}), false);
        check("issues", json!(["opened"]), false);
    }

    #[test]
    fn what_is_missing_in_a_name_and_a_text_that_is_empty_are_all_told() {
        let hook = hook(&json!({"topic": "{{/repo}}", "id": "{{/run}}-{{/attempt}}"}));
        let told = made(&hook, &HeaderMap::new(), &json!({"run": 7, "text": " "})).unwrap_err();
        let expected = [
            "text came out empty: all of it is blank",
            "topic needs /repo, which is not there",
            "id needs /attempt, which is not there",
        ];
        assert_eq!(told, expected);
        let long = json!({"text": "x", "repo": "r".repeat(513), "run": 7, "attempt": 1});
        let told = made(&hook, &HeaderMap::new(), &long).unwrap_err();
        assert_eq!(told, ["topic must come out as at most 512 characters"]);
    }

    #[track_caller]
    fn check_refused(name: &str, more: Value, expected: &str) {
        let mut block = json!({"key": "0123456789abcdef", "text": "x"});
        block.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(Hook::read(name, &block).unwrap_err(), expected);
    }

    #[test]
    fn a_hook_that_cannot_be_meant_is_told_which_field_is_wrong() {
        check_refused("a/b", json!({}), "\"a/b\" must be 1 to 64 letters, digits, '-', '_' or '.'");
        let known = "key, hmac, secret, text, topic, user, id, when, to";
        check_refused("ci", json!({"txt": "x"}), &format!("ci has an unknown \"txt\"; it may have {known}"));
        check_refused("ci", json!({"text": null}), "ci.text is required");
        check_refused("ci", json!({"text": "{{/a"}), "ci.text has a {{ without its }}");
        check_refused("ci", json!({"id": "{{run}}"}), "ci.id \"run\" is no JSON pointer; one starts with /");
        check_refused("ci", json!({"when": {"a": 1}}), "ci.when \"a\" is no JSON pointer; one starts with /");
        let shape = "ci.when must be an object {\"/pointer\": value or [values]}";
        check_refused("ci", json!({"when": {"/a": {"b": 1}}}), shape);
        check_refused("ci", json!({"to": {"source": "telegram"}}), "ci.to.topic is required");
        let both = json!({"to": {"source": "telegram", "topic": "1"}, "topic": "x"});
        check_refused("ci", both, "ci.topic and to exclude each other: to names a topic");
    }
}
