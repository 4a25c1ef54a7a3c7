//! The body of a webhook as one value: JSON, a form, or plain text.

use crate::body::{TooMuch, weigh};
use cortex_types::limits::{JSON_DEPTH_MAX, JSON_VALUES_BYTES_MAX};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value};

/// The field in which GitHub and others put JSON when they send a form.
const FORM_PAYLOAD: &str = "payload";

/// Reads a body by its content type; without one, what is JSON is JSON. So is an object that is said to be a form: programs
/// such as curl say that of everything they post.
pub(crate) fn read_payload(headers: &HeaderMap, body: &[u8]) -> Result<Value, String> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_ascii_lowercase();
    if content_type.starts_with("application/x-www-form-urlencoded") {
        return match read_object(body)? {
            Some(object) => Ok(object),
            None => read_form(body),
        };
    }
    if content_type.contains("json") {
        return read_json(body)?.ok_or_else(|| "Request body must be valid JSON".to_owned());
    }
    let is_text = content_type.starts_with("text/");
    if let Some(value) = if is_text { None } else { read_json(body)? } {
        return Ok(value);
    }
    let text = std::str::from_utf8(body).map_err(|_| "Request body must be JSON, a form or UTF-8 text")?;
    Ok(Value::from(text))
}

/// None when it is no JSON.
fn read_json(body: &[u8]) -> Result<Option<Value>, String> {
    match weigh(body, JSON_VALUES_BYTES_MAX) {
        Ok(_) => Ok(serde_json::from_slice(body).ok()),
        Err(TooMuch::Depth) => {
            Err(format!("Request body must not be nested deeper than {JSON_DEPTH_MAX} levels"))
        }
        Err(TooMuch::Values) => Err("Request body has too many values".to_owned()),
    }
}

/// None when it is no JSON object. A form does not begin with a brace: it would be written as `%7B`.
fn read_object(body: &[u8]) -> Result<Option<Value>, String> {
    match body.trim_ascii_start().first() {
        Some(b'{') => Ok(read_json(body)?.filter(Value::is_object)),
        Some(_) | None => Ok(None),
    }
}

fn read_form(body: &[u8]) -> Result<Value, String> {
    let fields: Map<String, Value> = url::form_urlencoded::parse(body)
        .map(|(name, value)| (name.into_owned(), Value::from(value.into_owned())))
        .collect();
    let payload = fields.get(FORM_PAYLOAD).and_then(Value::as_str);
    match payload.map(|payload| read_json(payload.as_bytes())).transpose()?.flatten() {
        Some(inner) => Ok(inner),
        None => Ok(Value::Object(fields)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(content_type: &str, body: &str, expected: Result<Value, &str>) {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, content_type.parse().unwrap())]);
        assert_eq!(read_payload(&headers, body.as_bytes()), expected.map_err(str::to_owned), "{body}");
    }

    #[test]
    fn a_body_is_what_its_type_says() {
        check("application/json", r#"{"a": 1}"#, Ok(json!({"a": 1})));
        check("application/cloudevents+json; charset=utf-8", "[1]", Ok(json!([1])));
        check("application/json", "{oops", Err("Request body must be valid JSON"));
        check("text/plain", r#"{"a": 1}"#, Ok(json!(r#"{"a": 1}"#)));
        check("", r#"{"a": 1}"#, Ok(json!({"a": 1})));
        check("", "The build failed", Ok(json!("The build failed")));
        check("", "", Ok(json!("")));
    }

    #[test]
    fn a_form_is_its_fields_or_the_json_in_its_payload() {
        let form = "application/x-www-form-urlencoded";
        check(form, "a=1&b=x+y%21", Ok(json!({"a": "1", "b": "x y!"})));
        check(form, "payload=%7B%22action%22%3A%22opened%22%7D", Ok(json!({"action": "opened"})));
        check(form, "payload=no+json", Ok(json!({"payload": "no json"})));
    }

    #[test]
    fn an_object_that_is_called_a_form_is_an_object() {
        let form = "application/x-www-form-urlencoded";
        check(
            form,
            r#" {"status": "failed", "q": "a=b&c=d"}"#,
            Ok(json!({"status": "failed", "q": "a=b&c=d"})),
        );
        check(form, "{oops=1", Ok(json!({"{oops": "1"})));
        check(form, "[1]", Ok(json!({"[1]": ""})));
        let deep = r#"{"a":"#.repeat(65);
        check(form, &deep, Err("Request body must not be nested deeper than 64 levels"));
    }

    #[test]
    fn too_deep_and_no_text_are_refused() {
        let deep = "[".repeat(65);
        check("", &deep, Err("Request body must not be nested deeper than 64 levels"));
        let told = read_payload(&HeaderMap::new(), &[0xff, 0xfe]).unwrap_err();
        assert_eq!(told, "Request body must be JSON, a form or UTF-8 text");
    }
}
