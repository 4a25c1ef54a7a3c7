//! TypeScript to JavaScript, one file at a time: types go, enums become objects, places are kept.

use super::nesting::stack_for;
use oxc::allocator::Allocator;
use oxc::ast::ast::{Program, Statement};
use oxc::codegen::{Codegen, CodegenOptions, CommentOptions};
use oxc::diagnostics::{Diagnostics, OxcDiagnostic};
use oxc::parser::Parser;
use oxc::semantic::SemanticBuilder;
use oxc::span::SourceType;
use oxc::transformer::{TransformOptions, Transformer};
use std::path::Path;

/// A file that the engine can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stripped {
    pub(crate) js: String,
    pub(crate) places: SourcePlaces,
    /// What it imports once types are gone, with the offset of each specifier in the source.
    pub(crate) imports: Vec<(String, usize)>,
}

/// A reason why a file cannot run, with its offset in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxFault {
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    pub(crate) offset: usize,
}

/// Where each piece of the JavaScript came from; lines and columns count from 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SourcePlaces(Vec<([u32; 2], [u32; 2])>);

impl SourcePlaces {
    /// The line and column of the source, counted from 1, for those of the JavaScript, counted from 1.
    pub(crate) fn of(&self, line: u32, column: u32) -> Option<(u32, u32)> {
        let wanted = [line.checked_sub(1)?, column.saturating_sub(1)];
        let after = self.0.partition_point(|(generated, _)| *generated <= wanted);
        let (_, [line, column]) = self.0.get(after.checked_sub(1)?)?;
        Some((line + 1, column + 1))
    }
}

/// Strips a source on a thread whose stack holds its deepest place; one that is deeper than any is refused.
pub(crate) fn strip(name: &str, source: &str) -> Result<Stripped, Vec<SyntaxFault>> {
    let refusal = |message: String, offset: usize| vec![SyntaxFault { message, help: None, offset }];
    let stack = stack_for(source).map_err(|offset| {
        let help = Some("split the expression, or end statements with ;".to_owned());
        vec![SyntaxFault { message: "it nests too deeply".to_owned(), help, offset }]
    })?;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("strip".to_owned()).stack_size(stack);
        let stripping = thread
            .spawn_scoped(scope, || strip_here(name, source))
            .map_err(|error| refusal(format!("no thread to read it: {error}"), 0))?;
        stripping.join().unwrap_or_else(|_| Err(refusal("it cannot be read".to_owned(), 0)))
    })
}

fn strip_here(name: &str, source: &str) -> Result<Stripped, Vec<SyntaxFault>> {
    let allocator = Allocator::default();
    let source_type = if name.ends_with(".ts") { SourceType::ts() } else { SourceType::mjs() };
    let parsed = Parser::new(&allocator, source, source_type).parse();
    refuse(&parsed.diagnostics)?;
    let dynamic = parsed.module_record.dynamic_imports.iter().filter_map(|import| {
        let expression =
            source.get(import.module_request.start as usize..import.module_request.end as usize)?;
        let specifier = expression.trim_matches(['"', '\'', '`']);
        (specifier.len() + 2 == expression.len())
            .then(|| (specifier.to_owned(), import.module_request.start as usize))
    });
    let dynamic: Vec<(String, usize)> = dynamic.collect();
    let mut program = parsed.program;
    let checked = SemanticBuilder::new().with_check_syntax_error(true).with_enum_eval(true).build(&program);
    refuse(&checked.diagnostics)?;
    let scoping = checked.semantic.into_scoping();
    let transformed = Transformer::new(&allocator, Path::new(name), &TransformOptions::default())
        .build_with_scoping(scoping, &mut program);
    refuse(&transformed.diagnostics)?;
    let imports = static_imports(&program).chain(dynamic).collect();
    let options = CodegenOptions {
        source_map_path: Some(name.into()),
        comments: CommentOptions::disabled(),
        ..CodegenOptions::default()
    };
    let printed = Codegen::new().with_options(options).with_source_text(source).build(&program);
    let mut places: Vec<([u32; 2], [u32; 2])> = printed
        .map
        .iter()
        .flat_map(|map| map.get_tokens())
        .map(|token| {
            ([token.get_dst_line(), token.get_dst_col()], [token.get_src_line(), token.get_src_col()])
        })
        .collect();
    places.sort_unstable();
    Ok(Stripped { js: printed.code, places: SourcePlaces(places), imports })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the language's other statements import nothing")]
fn static_imports<'a>(program: &'a Program<'_>) -> impl Iterator<Item = (String, usize)> + 'a {
    program.body.iter().filter_map(|statement| {
        let source = match statement {
            Statement::ImportDeclaration(import) => Some(&import.source),
            Statement::ExportFromDeclaration(export) => Some(&export.source),
            Statement::ExportAllDeclaration(export) => Some(&export.source),
            _ => None,
        };
        source.map(|source| (source.value.to_string(), source.span.start as usize))
    })
}

fn refuse(diagnostics: &Diagnostics) -> Result<(), Vec<SyntaxFault>> {
    let faults: Vec<SyntaxFault> = diagnostics.errors().map(fault).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

fn fault(diagnostic: &OxcDiagnostic) -> SyntaxFault {
    SyntaxFault {
        message: diagnostic.message.to_string(),
        help: diagnostic.help.as_ref().map(ToString::to_string),
        offset: diagnostic.labels.first().map_or(0, |label| label.offset() as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_go_and_enums_stay_usable() {
        let source = "import type { A } from './a';\nimport { B } from './b';\nenum Size { Small = 1, Large }\n\
                      export const size = (x: B): number => Size.Large as number;\n";
        let stripped = strip("main.ts", source).unwrap();
        assert!(!stripped.js.contains(": number"), "{}", stripped.js);
        assert!(stripped.js.contains("Size"), "{}", stripped.js);
        assert_eq!(stripped.imports, [], "an import for types alone is gone");
    }

    #[test]
    fn imports_that_stay_are_listed_with_their_place() {
        let source = "import { b } from './b';\nexport * from './c';\nexport const load = () => import('./d');\nb();\n";
        let names: Vec<String> =
            strip("main.ts", source).unwrap().imports.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["./b", "./c", "./d"]);
    }

    #[test]
    fn a_syntax_error_has_its_place() {
        let faults = strip("main.ts", "const a = 1;\nconst b = ;\n").unwrap_err();
        assert_eq!(faults[0].offset, 23, "{faults:?}");
    }

    #[test]
    fn a_place_in_the_javascript_leads_back_to_the_typescript() {
        let source =
            "interface A { a: string }\n\n\nexport function fail(): never {\n  throw new Error('x');\n}\n";
        let stripped = strip("main.ts", source).unwrap();
        let line = stripped.js.lines().position(|line| line.contains("throw")).unwrap();
        let column = stripped.js.lines().nth(line).unwrap().find("throw").unwrap();
        let (line, column) = (u32::try_from(line).unwrap(), u32::try_from(column).unwrap());
        assert_eq!(stripped.places.of(line + 1, column + 1), Some((5, 3)));
    }

    #[test]
    fn a_source_that_nests_deeply_is_refused_and_no_stack_overflows() {
        let parentheses = format!("export const a = {}1{};", "(".repeat(10_000), ")".repeat(10_000));
        let faults = strip("main.ts", &parentheses).unwrap_err();
        assert_eq!(faults[0].message, "it nests too deeply");
        for source in [
            format!("export const a = {}1{};", "(".repeat(900), ")".repeat(900)),
            format!("export const a = {}1{};", "[".repeat(900), "]".repeat(900)),
            format!("export const a = {}1;", "!".repeat(15_000)),
            format!("export const a = 1{};", "+1".repeat(9_000)),
            format!("export const a = b{};", ".b".repeat(9_000)),
            format!("export const a = {}b;", "b=>".repeat(6_000)),
            format!("type A = {}string{};", "Array<".repeat(4_000), ">".repeat(4_000)),
            format!("export const a = {}b;", "b?b:".repeat(4_000)),
        ] {
            drop(strip("main.ts", &source));
        }
    }
}
