//! Reads `server.json`: JSON with comments and trailing commas; every complaint points at its place.

use super::diagnostic::{ConfigError, Origin};
use super::expand::{ExpandError, Expanded, expand};
use super::kind::Kind;
use super::table::{Fallback, KEYS, Key};
use super::{mask, providers};
use crate::environment::Environment;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, ast, parse_to_ast};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::path::Path;

const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The keys that the file sets and that are in order, and everything that is wrong with the others. No file is an empty one.
pub(crate) fn read(
    path: &Path,
    environment: &Environment,
) -> Result<(BTreeMap<&'static str, Value>, Vec<ConfigError>), ConfigError> {
    let Some(text) = read_text(path)? else { return Ok(Default::default()) };
    let parsed = parse_to_ast(&text, &CollectOptions::default(), &parse_options()).map_err(|error| {
        let problem = format!("not valid JSON: {}", lower_first(&error.kind().to_string()));
        let range = error.range().start..error.range().end.max(error.range().start);
        let help = "comments and trailing commas are fine; names and strings stand in double quotes";
        ConfigError::in_file(path, &mask::masked_broken_text(&text), range, &problem, help)
    })?;
    let object = match &parsed.value {
        Some(ast::Value::Object(object)) => object,
        Some(other) => {
            let shown = mask::masked_broken_text(&text);
            let problem = "the settings must be one object";
            return Err(ConfigError::in_file(
                path,
                &shown,
                bounds(other),
                problem,
                "write { \"key\": value, … }",
            ));
        }
        None => return Ok(Default::default()),
    };
    let shown = mask::masked_text(&text, object);
    Ok(Reader { path, shown, environment }.read_keys(object))
}

/// Comments and trailing commas, and nothing else beyond JSON.
pub(crate) fn parse_options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

fn read_text(path: &Path) -> Result<Option<String>, ConfigError> {
    let complain =
        |problem: String, help: &str| Err(ConfigError::setting(Origin::File(path.to_owned()), problem, help));
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return complain(format!("cannot be read: {error}"), "make it readable for this user"),
    };
    let mut bytes = Vec::new();
    match file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes) {
        Ok(count) if count as u64 > FILE_BYTES_MAX => {
            return complain(
                format!("is larger than {FILE_BYTES_MAX} bytes"),
                "settings are small; is this the right file?",
            );
        }
        Ok(_) => {}
        Err(error) => return complain(format!("cannot be read: {error}"), "it must be a readable file"),
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))),
        Err(error) => {
            let line = error.as_bytes()[..error.utf8_error().valid_up_to()]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count();
            complain(format!("line {} is not UTF-8", line + 1), "save it as UTF-8")
        }
    }
}

/// The place of every complaint, and what to look `${VAR}` up in.
struct Reader<'a> {
    path: &'a Path,
    shown: String,
    environment: &'a Environment,
}

impl Reader<'_> {
    fn read_keys(&self, object: &ast::Object<'_>) -> (BTreeMap<&'static str, Value>, Vec<ConfigError>) {
        let mut values = BTreeMap::new();
        let mut wrong: Vec<ConfigError> = self.refuse_duplicates(object).err().into_iter().collect();
        for property in &object.properties {
            let name = property.name.as_str();
            // Editors that know the schema write this.
            if name == "$schema" {
                continue;
            }
            let Some(key) = Key::find(name) else {
                wrong.push(self.unknown_key(property));
                continue;
            };
            if let (Fallback::Unset, ast::Value::NullKeyword(_)) = (key.default, &property.value) {
                continue;
            }
            match self.read_value(key, &property.value) {
                Ok(value) => drop(values.insert(key.name, value)),
                Err(error) => wrong.push(error),
            }
        }
        (values, wrong)
    }

    fn read_value(&self, key: &Key, value: &ast::Value<'_>) -> Result<Value, ConfigError> {
        let checked = match value {
            ast::Value::StringLit(literal) => {
                let expanded = self.expand(key.name, literal)?;
                if expanded.from_variable {
                    key.kind.check_text(&expanded.text)
                } else {
                    key.kind.check(&Value::from(expanded.text))
                }
            }
            ast::Value::NumberLit(_)
            | ast::Value::BooleanLit(_)
            | ast::Value::Object(_)
            | ast::Value::Array(_)
            | ast::Value::NullKeyword(_) => {
                let json = self.to_json(key.name, value)?;
                if let Kind::Providers = key.kind {
                    self.check_profiles(value, &json)?;
                }
                key.kind.check(&json)
            }
        };
        checked.map_err(|problem| {
            let help = match key.default {
                Fallback::Unset => format!("give {}, or remove the key", key.kind.expected()),
                Fallback::Text(_)
                | Fallback::Integer(_)
                | Fallback::Flag(_)
                | Fallback::EmptyList
                | Fallback::EmptyObject => {
                    format!(
                        "give {}, or remove the key for the default {}",
                        key.kind.expected(),
                        key.default_value()
                    )
                }
            };
            self.complain(bounds(value), &format!("{} {problem}", key.name), &help)
        })
    }

    /// Points at the profile, and at the field where it can be told.
    fn check_profiles(&self, value: &ast::Value<'_>, json: &Value) -> Result<(), ConfigError> {
        let written = value.as_object().and_then(|object| object.get_array("profiles"));
        let Some(written) = written else { return Ok(()) };
        for (number, (profile, place)) in providers::profiles(json).iter().zip(&written.elements).enumerate()
        {
            if let Err(problem) = providers::check_profile(profile) {
                let problem = mask::told_without_secrets(&problem, profile);
                let range = blamed_field(place, &problem).unwrap_or_else(|| bounds(place));
                let help = "a profile is {name, kind: openai|anthropic|google|cli, baseUrl?, apiKey?|authToken?, models?: {pro?, flash?, lite?}}";
                return Err(self.complain(range, &format!("providers.profiles[{number}] {problem}"), help));
            }
        }
        Ok(())
    }

    fn to_json(&self, name: &str, value: &ast::Value<'_>) -> Result<Value, ConfigError> {
        Ok(match value {
            ast::Value::StringLit(literal) => Value::from(self.expand(name, literal)?.text),
            ast::Value::NumberLit(number) => {
                serde_json::from_str(number.value).unwrap_or_else(|_| Value::from(number.value))
            }
            ast::Value::BooleanLit(flag) => Value::from(flag.value),
            ast::Value::NullKeyword(_) => Value::Null,
            ast::Value::Array(array) => {
                array.elements.iter().map(|item| self.to_json(name, item)).collect::<Result<_, _>>()?
            }
            ast::Value::Object(object) => {
                self.refuse_duplicates(object)?;
                let mut fields = Map::new();
                for property in &object.properties {
                    let path = format!("{name}.{}", property.name.as_str());
                    fields.insert(property.name.as_str().to_owned(), self.to_json(&path, &property.value)?);
                }
                Value::Object(fields)
            }
        })
    }

    fn expand(&self, name: &str, literal: &ast::StringLit<'_>) -> Result<Expanded, ConfigError> {
        expand(&literal.value, self.environment).map_err(|error| {
            let (problem, help) = match error {
                ExpandError::Unset(variable) => (
                    format!("{name} uses ${{{variable}}}, which is not set"),
                    format!("set {variable} in the environment of the server, or write the value; $${{ stands for a plain ${{"),
                ),
                ExpandError::Unclosed => {
                    (format!("{name} has a ${{ without its }}"), "close it; $${ stands for a plain ${".to_owned())
                }
                ExpandError::BadName(variable) => (
                    format!("{name} uses ${{{variable}}}, which is not a variable's name"),
                    "names are letters, digits and _; $${ stands for a plain ${".to_owned(),
                ),
            };
            self.complain(literal.range.start..literal.range.end, &problem, &help)
        })
    }

    fn refuse_duplicates(&self, object: &ast::Object<'_>) -> Result<(), ConfigError> {
        for (number, property) in object.properties.iter().enumerate() {
            let name = property.name.as_str();
            if object.properties[..number].iter().any(|earlier| earlier.name.as_str() == name) {
                let problem = format!("{name} is given twice");
                return Err(self.complain(name_bounds(property), &problem, "keep one of the two"));
            }
        }
        Ok(())
    }

    fn unknown_key(&self, property: &ast::ObjectProp<'_>) -> ConfigError {
        let name = property.name.as_str();
        let help = match nearest_key(name) {
            Some(near) => format!("did you mean {near}?"),
            None => "`cortex config --server --markdown` describes every key".to_owned(),
        };
        self.complain(name_bounds(property), &format!("{name} is not a known key"), &help)
    }

    fn complain(&self, range: Range<usize>, problem: &str, help: &str) -> ConfigError {
        ConfigError::in_file(self.path, &self.shown, range, problem, help)
    }
}

fn bounds(value: &impl Ranged) -> Range<usize> {
    value.range().start..value.range().end
}

fn name_bounds(property: &ast::ObjectProp<'_>) -> Range<usize> {
    let start = property.range.start;
    start..start + property.name.as_str().len() + 2
}

/// The field that a complaint of the form "unknown field `x`" or "unknown variant `x`" is about.
fn blamed_field(profile: &ast::Value<'_>, problem: &str) -> Option<Range<usize>> {
    let word = problem.split('`').nth(1)?;
    let mut objects = vec![profile.as_object()?];
    while let Some(object) = objects.pop() {
        for property in &object.properties {
            let value = property.value.as_string_lit().map(|literal| literal.value.as_ref());
            if property.name.as_str() == word {
                return Some(name_bounds(property));
            }
            if value == Some(word) {
                return Some(bounds(&property.value));
            }
            objects.extend(property.value.as_object());
        }
    }
    None
}

/// The key with the fewest letters to change, when it is close enough to be meant.
fn nearest_key(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    KEYS.iter()
        .map(|key| (distance(&lower, &key.name.to_ascii_lowercase()), key.name))
        .min()
        .filter(|(letters, near)| *letters <= near.len() / 3)
        .map(|(_, near)| near)
}

/// How many letters have to be changed, added, left out or swapped with their neighbour.
pub(super) fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=right.len()).collect()];
    for (row, letter) in left.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, other) in right.iter().enumerate() {
            let changed = rows[row][column] + usize::from(letter != other);
            let mut least = changed.min(next[column] + 1).min(rows[row][column + 1] + 1);
            if row > 0 && column > 0 && left[row - 1] == *other && right[column - 1] == *letter {
                least = least.min(rows[row - 1][column - 1] + 1);
            }
            next.push(least);
        }
        rows.push(next);
    }
    rows[left.len()][right.len()]
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}
