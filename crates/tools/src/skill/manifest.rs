//! `skill.json`: who a skill is and what it may reach.

use super::problem::{Place, SkillProblem};
use crate::egress::HostPolicy;
use crate::tool::is_own_skill;
use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use std::path::Path;

pub(crate) const MANIFEST_FILE: &str = "skill.json";
const RUNTIME_API_VERSION: &str = "1";
const KNOWN_KEYS: &[&str] = &["id", "name", "version", "runtimeApiVersion", "main", "permissions"];
const TEXT_CHARS_MAX: usize = 200;
const HOSTS_MAX: usize = 100;

/// A skill as its manifest describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillManifest {
    pub id: String,
    pub name: String,
    pub version: String,
    /// The entry file, relative to the skill's folder.
    pub main: String,
    pub permissions: SkillPermissions,
}

/// What a skill may reach. It only narrows: nothing here opens a private address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillPermissions {
    pub hosts: HostPolicy,
    pub db: bool,
}

impl Default for SkillPermissions {
    fn default() -> Self {
        Self { hosts: HostPolicy::AnyPublic, db: true }
    }
}

impl SkillManifest {
    /// Reads a manifest and lists everything that is wrong with it.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, Vec<SkillProblem>> {
        let parsed = parse_to_ast(text, &CollectOptions::default(), &strict_json()).map_err(|error| {
            let place = Place { line: error.line_display(), column: error.column_display() };
            vec![
                SkillProblem::error(path, format!("not JSON: {}", error.kind()), "write plain JSON")
                    .at(Some(place)),
            ]
        })?;
        let Some(Value::Object(object)) = &parsed.value else {
            return Err(vec![
                SkillProblem::error(path, "not a JSON object", "write { \"id\": …, … }")
                    .at(Some(Place { line: 1, column: 1 })),
            ]);
        };
        let mut reader = Reader { path, text, object, problems: Vec::new() };
        let manifest = reader.manifest();
        if reader.problems.is_empty() { Ok(manifest) } else { Err(reader.problems) }
    }
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    object: &'a Object<'a>,
    problems: Vec<SkillProblem>,
}

impl Reader<'_> {
    fn manifest(&mut self) -> SkillManifest {
        self.refuse_unknown_keys();
        self.check_runtime_api_version();
        let id = self.text_of("id");
        if !id.is_empty() && !is_skill_id(&id) {
            self.blame(
                "id",
                format!("{id:?} is no skill id"),
                "use letters, digits, _ and -, at most 40 characters",
            );
        }
        if is_own_skill(&id) {
            let help = format!("use another id, such as my-{id}");
            self.blame("id", format!("{id:?} is the name of tools that Cortex has itself"), help);
        }
        let main = self.text_of("main");
        if !main.is_empty() && !main.ends_with(".ts") && !main.ends_with(".js") {
            self.blame("main", format!("main is {main:?}"), "name a .ts or .js file of the skill's folder");
        }
        SkillManifest {
            id,
            name: self.text_of("name"),
            version: self.text_of("version"),
            main,
            permissions: self.permissions(),
        }
    }

    fn refuse_unknown_keys(&mut self) {
        for property in &self.object.properties {
            let key = property.name.as_str();
            if !KNOWN_KEYS.contains(&key) {
                self.blame(
                    key,
                    format!("unknown key {key:?}"),
                    format!("use only {}", KNOWN_KEYS.join(", ")),
                );
            }
        }
    }

    fn check_runtime_api_version(&mut self) {
        const KEY: &str = "runtimeApiVersion";
        const HELP: &str = "write \"runtimeApiVersion\": \"1\"";
        match self.object.get(KEY).map(|property| &property.value) {
            None => self.blame(KEY, "runtimeApiVersion is missing", HELP),
            Some(Value::StringLit(found)) if found.value == RUNTIME_API_VERSION => {}
            Some(other) => {
                let range = other.range();
                let found = self.text.get(range.start..range.end).unwrap_or_default();
                self.blame(KEY, format!("runtimeApiVersion is {found}, this server runs \"1\""), HELP);
            }
        }
    }

    fn text_of(&mut self, key: &str) -> String {
        let help = format!("write \"{key}\": \"…\"");
        match self.object.get(key).map(|property| &property.value) {
            None => {
                self.blame(key, format!("{key} is missing"), help);
                String::new()
            }
            Some(Value::StringLit(found))
                if !found.value.trim().is_empty() && found.value.chars().count() <= TEXT_CHARS_MAX =>
            {
                found.value.clone().into_owned()
            }
            Some(_) => {
                let message = format!("{key} is not a text of 1 to {TEXT_CHARS_MAX} characters");
                self.blame(key, message, help);
                String::new()
            }
        }
    }

    fn permissions(&mut self) -> SkillPermissions {
        const HELP: &str = "write \"permissions\": { \"hosts\": [\"api.example.org\"], \"db\": true }";
        let mut permissions = SkillPermissions::default();
        let object = match self.object.get("permissions").map(|property| &property.value) {
            None => return permissions,
            Some(Value::Object(object)) => object,
            Some(_) => {
                self.blame("permissions", "permissions is not an object", HELP);
                return permissions;
            }
        };
        for property in &object.properties {
            match (property.name.as_str(), &property.value) {
                ("db", Value::BooleanLit(db)) => permissions.db = db.value,
                ("hosts", Value::Array(array)) => {
                    let hosts: Option<Vec<String>> = array
                        .elements
                        .iter()
                        .take(HOSTS_MAX)
                        .map(|host| host.as_string_lit().map(|host| host.value.clone().into_owned()))
                        .collect();
                    match hosts.map(|hosts| HostPolicy::only(&hosts)) {
                        Some(Ok(hosts)) if array.elements.len() <= HOSTS_MAX => permissions.hosts = hosts,
                        Some(Err(error)) => self.blame("hosts", error.to_string(), HELP),
                        Some(Ok(_)) | None => {
                            self.blame("hosts", "hosts is not a short list of host names", HELP)
                        }
                    }
                }
                (key, _) => {
                    self.blame(key, format!("permissions.{key} is not known or has a wrong value"), HELP)
                }
            }
        }
        permissions
    }

    /// Puts a problem at a key of the manifest, or at the manifest's start when the key is not there.
    fn blame(&mut self, key: &str, message: impl Into<String>, help: impl Into<String>) {
        let place = Place::of_word(self.text, key).unwrap_or(Place { line: 1, column: 1 });
        self.problems.push(SkillProblem::error(self.path, message, help).at(Some(place)));
    }
}

pub(crate) fn is_skill_id(id: &str) -> bool {
    (1..=40).contains(&id.len())
        && id.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter))
}

fn strict_json() -> ParseOptions {
    ParseOptions {
        allow_comments: false,
        allow_loose_object_property_names: false,
        allow_trailing_commas: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: &str = r#"{
  "id": "telegram",
  "name": "Telegram Connector",
  "version": "0.1.0",
  "runtimeApiVersion": "1",
  "main": "main.ts"
}"#;

    fn parse(text: &str) -> Result<SkillManifest, Vec<String>> {
        SkillManifest::parse(Path::new("skill.json"), text)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_manifest_of_the_contract_is_read_as_it_is() {
        let manifest = parse(SEED).unwrap();
        assert_eq!((manifest.id.as_str(), manifest.main.as_str()), ("telegram", "main.ts"));
        assert_eq!(manifest.permissions, SkillPermissions { hosts: HostPolicy::AnyPublic, db: true });
    }

    #[test]
    fn permissions_narrow_what_a_skill_reaches() {
        let text = SEED
            .replace("\"main.ts\"", "\"main.ts\", \"permissions\": {\"hosts\": [\"A.org\"], \"db\": false}");
        let permissions = parse(&text).unwrap().permissions;
        assert_eq!(permissions, SkillPermissions { hosts: HostPolicy::only(&["a.org"]).unwrap(), db: false });
    }

    #[test]
    fn each_wrong_manifest_names_its_line_and_the_fix() {
        let cases = [
            (
                SEED.replace("\"1\"", "\"2\""),
                "skill.json:5:4: runtimeApiVersion is \"2\", this server runs \"1\"",
            ),
            (SEED.replace("\"1\"", "1"), "skill.json:5:4: runtimeApiVersion is 1, this server runs \"1\""),
            (
                SEED.replace("  \"runtimeApiVersion\": \"1\",\n", ""),
                "skill.json:1:1: runtimeApiVersion is missing",
            ),
            (SEED.replace("\"telegram\"", "\"tele gram\""), "skill.json:2:4: \"tele gram\" is no skill id"),
            (SEED.replace("\"telegram\"", "\"Memory\""), "skill.json:2:4: \"Memory\" is the name of tools"),
            (SEED.replace("\"main.ts\"", "\"main.py\""), "skill.json:6:4: main is \"main.py\""),
            (SEED.replace("\"name\"", "\"nmae\""), "skill.json:3:4: unknown key \"nmae\""),
            (SEED.replace("\"0.1.0\"", "\"\""), "skill.json:4:4: version is not a text"),
            (SEED.replace("\"0.1.0\",", "\"0.1.0\""), "skill.json:4:21: not JSON: "),
            (
                SEED.replace("\"main.ts\"", "\"main.ts\",\n  \"permissions\": {\"hosts\": [\"http://x\"]}"),
                "skill.json:7:20: \"http://x\" is not a host",
            ),
            ("[]".to_owned(), "skill.json:1:1: not a JSON object"),
        ];
        for (text, wanted) in cases {
            let problems = parse(&text).unwrap_err();
            assert!(problems[0].starts_with(wanted), "{problems:?} does not start with {wanted}");
            assert!(problems[0].contains("; "), "{problems:?} says what to do");
        }
    }
}
