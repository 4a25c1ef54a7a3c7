//! A skill made ready to run: every file it imports, stripped and linked by name, and how to read its traces.

use super::folder::SkillFolder;
use super::manifest::SkillPermissions;
use super::problem::{Place, SkillProblem};
use super::strip::{SourcePlaces, SyntaxFault, strip};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

const MODULES_MAX: usize = 200;
const PROGRAM_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What an engine needs to run a skill; it reads no file of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) main: String,
    pub(crate) modules: BTreeMap<String, Module>,
}

/// One file of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Module {
    pub(crate) js: String,
    /// What it imports: as it writes it, and the module that is meant.
    pub(crate) imports: BTreeMap<String, String>,
}

/// What is pinned when a skill is trusted: every file that it loads, as its author wrote it. What the files become
/// is not: a newer server may write them differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodeHash(pub(crate) [u8; 32]);

impl CodeHash {
    fn of(main: &str, sources: &BTreeMap<String, [u8; 32]>) -> Self {
        let mut hasher = Sha256::new();
        let mut add = |part: &[u8]| {
            hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            hasher.update(part);
        };
        add(main.as_bytes());
        for (name, source) in sources {
            add(name.as_bytes());
            add(source);
        }
        Self(hasher.finalize().into())
    }

    /// With what the code may reach.
    pub(crate) fn with(self, permissions: &SkillPermissions) -> [u8; 32] {
        let SkillPermissions { hosts, db } = permissions;
        Sha256::new().chain_update(self.0).chain_update(format!("{hosts:?} {db}")).finalize().into()
    }
}

/// Where the lines of a program came from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Traces {
    skill: String,
    places: BTreeMap<String, SourcePlaces>,
}

/// Reads and strips the entry file and everything it imports.
pub(crate) fn build(
    folder: &SkillFolder,
    main: &str,
) -> Result<(Program, Traces, CodeHash), Vec<SkillProblem>> {
    let main = normal_path("", main).ok_or_else(|| {
        vec![SkillProblem::error(
            &folder.shown(main),
            "leads out of the skill's folder",
            "keep every file inside the skill's own folder",
        )]
    })?;
    let mut program = Program { main: main.clone(), modules: BTreeMap::new() };
    let mut traces = Traces { skill: folder.name(), places: BTreeMap::new() };
    let (mut waiting, mut problems, mut bytes) = (vec![main], Vec::new(), 0);
    let mut sources = BTreeMap::new();
    while let Some(name) = waiting.pop() {
        if program.modules.contains_key(&name) {
            continue;
        }
        match module(folder, &name) {
            Ok((module, places, source)) => {
                sources.insert(name.clone(), source);
                bytes += module.js.len();
                waiting.extend(module.imports.values().cloned());
                program.modules.insert(name.clone(), module);
                traces.places.insert(name.clone(), places);
            }
            Err(more) => {
                problems.extend(more);
                program.modules.insert(name.clone(), Module { js: String::new(), imports: BTreeMap::new() });
            }
        }
        if program.modules.len() > MODULES_MAX || bytes > PROGRAM_BYTES_MAX {
            let help = format!("keep a skill under {MODULES_MAX} files and {PROGRAM_BYTES_MAX} bytes");
            problems.push(SkillProblem::error(&folder.shown(&name), "the skill is too large", help));
            break;
        }
    }
    if problems.is_empty() {
        let code = CodeHash::of(&program.main, &sources);
        Ok((program, traces, code))
    } else {
        Err(problems)
    }
}

fn module(folder: &SkillFolder, name: &str) -> Result<(Module, SourcePlaces, [u8; 32]), Vec<SkillProblem>> {
    let source = folder.read(name).map_err(|problem| vec![problem])?;
    let path = folder.shown(name);
    let hash = Sha256::digest(source.as_bytes()).into();
    if name.ends_with(".json") {
        return match serde_json::from_str::<serde::de::IgnoredAny>(&source) {
            Ok(_) => {
                let module =
                    Module { js: format!("export default {};", source.trim()), imports: BTreeMap::new() };
                Ok((module, SourcePlaces::default(), hash))
            }
            Err(error) => {
                let place = Place { line: error.line(), column: error.column() };
                Err(vec![
                    SkillProblem::error(&path, format!("not JSON: {error}"), "write plain JSON")
                        .at(Some(place)),
                ])
            }
        };
    }
    let stripped = strip(name, &source).map_err(|faults| {
        let told = |fault: SyntaxFault| {
            let help = fault.help.unwrap_or_else(|| "mend the syntax".to_owned());
            SkillProblem::error(&path, fault.message, help).at(Some(Place::of_offset(&source, fault.offset)))
        };
        faults.into_iter().map(told).collect::<Vec<_>>()
    })?;
    let (mut imports, mut problems) = (BTreeMap::new(), Vec::new());
    for (specifier, offset) in stripped.imports {
        match resolve(folder, name, &specifier) {
            Ok(target) => {
                imports.insert(specifier, target);
            }
            Err((message, help)) => {
                let place = Place::of_offset(&source, offset);
                problems.push(SkillProblem::error(&path, message, help).at(Some(place)));
            }
        }
    }
    if problems.is_empty() {
        Ok((Module { js: stripped.js, imports }, stripped.places, hash))
    } else {
        Err(problems)
    }
}

/// The file of the skill's folder that an import means.
fn resolve(folder: &SkillFolder, importer: &str, specifier: &str) -> Result<String, (String, &'static str)> {
    if !(specifier.starts_with("./") || specifier.starts_with("../")) {
        return Err((
            format!("{specifier:?} is a package; skills import only files of their own folder"),
            "copy the code into the skill's folder and import it as \"./name\"; ctx has fetch, db and time",
        ));
    }
    let importer_folder = importer.rsplit_once('/').map_or("", |(folder, _)| folder);
    let Some(target) = normal_path(importer_folder, specifier) else {
        return Err((
            format!("{specifier:?} leads out of the skill's folder"),
            "keep every file inside the skill's own folder",
        ));
    };
    let is_source = |name: &str| [".ts", ".js", ".json"].iter().any(|ending| name.ends_with(ending));
    // TypeScript lets a `.ts` file be imported by the name that it will have once compiled.
    let compiled_from = target.strip_suffix(".js").map(|stem| format!("{stem}.ts"));
    let named = [target.clone(), format!("{target}.ts"), format!("{target}.js"), format!("{target}.json")];
    let found = named.into_iter().chain(compiled_from).find(|name| is_source(name) && folder.has(name));
    found.ok_or_else(|| {
        (
            format!("{specifier:?} is no .ts, .js or .json file of the skill"),
            "create the file or correct the import",
        )
    })
}

/// Joins with `.` and `..` worked out; nothing when it would leave the skill's folder.
fn normal_path(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    if path.starts_with('/') || path.contains(['\\', '\0']) {
        return None;
    }
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

impl Traces {
    /// A stack trace of the engine with every place led back to the file that the author wrote.
    pub(crate) fn told(&self, trace: &str) -> String {
        let lines = trace.lines().filter(|line| !line.contains(super::engine::PRELUDE_NAME));
        lines.map(|line| self.told_line(line)).collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    /// The first place of the skill's own code in a trace.
    pub(crate) fn first_place(&self, trace: &str) -> Option<(String, Place)> {
        trace.lines().find_map(|line| {
            let (_, frame, _) = split_frame(line)?;
            let (module, line, column) = self.source_place(frame)?;
            Some((module.to_owned(), Place { line: line as usize, column: column as usize }))
        })
    }

    fn told_line(&self, line: &str) -> String {
        let told = split_frame(line).and_then(|(before, frame, after)| {
            let (module, line, column) = self.source_place(frame)?;
            Some(format!("{before}{}/{module}:{line}:{column}{after}", self.skill))
        });
        told.unwrap_or_else(|| line.to_owned())
    }

    fn source_place<'a>(&self, frame: &'a str) -> Option<(&'a str, u32, u32)> {
        let mut parts = frame.rsplitn(3, ':');
        let column: u32 = parts.next()?.parse().ok()?;
        let line: u32 = parts.next()?.parse().ok()?;
        let module = parts.next()?;
        let (line, column) = self.places.get(module)?.of(line, column)?;
        Some((module, line, column))
    }
}

/// `    at name (main.ts:3:5)` or `    at main.ts:3:5` as what stands before, the place, and after it.
fn split_frame(line: &str) -> Option<(&str, &str, &str)> {
    let at = line.find("at ").filter(|at| line[..*at].trim().is_empty())? + 3;
    match (line.rfind('('), line.rfind(')')) {
        (Some(open), Some(close)) if open < close => {
            Some((&line[..=open], &line[open + 1..close], &line[close..]))
        }
        _ => Some((&line[..at], line[at..].trim_end(), "")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_joined_and_never_leaves_the_folder() {
        let cases = [
            ("", "main.ts", Some("main.ts")),
            ("", "./lib/../a.ts", Some("a.ts")),
            ("lib", "../a.ts", Some("a.ts")),
            ("lib", "./b", Some("lib/b")),
            ("lib", "../../a.ts", None),
            ("", "../a.ts", None),
            ("", "/etc/passwd", None),
            ("", "..\\a.ts", None),
            ("", ".", None),
        ];
        for (folder, path, wanted) in cases {
            assert_eq!(normal_path(folder, path).as_deref(), wanted, "{folder} {path}");
        }
    }

    #[test]
    fn a_frame_is_split_around_its_place() {
        assert_eq!(split_frame("    at run (main.ts:3:5)"), Some(("    at run (", "main.ts:3:5", ")")));
        assert_eq!(split_frame("    at main.ts:3:5"), Some(("    at ", "main.ts:3:5", "")));
        assert_eq!(split_frame("Error: at home (x)"), None);
    }
}
