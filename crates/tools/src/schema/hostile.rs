//! Schemas and arguments that are written to hang, overflow or fill the server, and honest ones beside them.

use super::InputSchema;
use std::fmt::Write;
use std::sync::mpsc;
use std::time::Duration;

const LONG_ENOUGH: Duration = Duration::from_secs(60);

/// Compiles and checks on a thread like the server's own; a hang is a failure.
fn check(schema: String, arguments: String) -> Result<String, String> {
    let (done, result) = mpsc::channel();
    let work = move || {
        let checked = InputSchema::compile(&schema).and_then(|schema| schema.check(&arguments));
        drop(done.send(checked));
    };
    std::thread::Builder::new().stack_size(16 * 1024 * 1024).spawn(work).unwrap();
    result.recv_timeout(LONG_ENOUGH).expect("the check ends")
}

fn refused(schema: String, arguments: &str, wanted: &str) {
    let shown: String = schema.chars().take(120).collect();
    let told = check(schema, arguments.to_owned()).expect_err(&shown);
    assert!(told.contains(wanted), "{shown}: {told}");
}

/// `$defs` whose every schema refers twice to the next one.
fn doubling(levels: usize, link: &str) -> String {
    let mut defs = String::new();
    for level in 0..levels {
        let next = format!(r##"{{"$ref":"#/$defs/d{}"}}"##, level + 1);
        let schema = link.replace("NEXT", &next);
        write!(defs, r#""d{level}":{schema},"#).unwrap();
    }
    format!(
        r##"{{"type":"object","$ref":"#/$defs/d0","$defs":{{{defs}"d{levels}":{{"type":"object","required":["zz"]}}}}}}"##
    )
}

#[test]
fn schemas_that_double_at_each_step_are_refused_before_they_are_checked() {
    for link in [
        r#"{"anyOf":[NEXT,NEXT]}"#,
        r#"{"allOf":[NEXT,NEXT]}"#,
        r#"{"oneOf":[NEXT,NEXT]}"#,
        r#"{"not":{"allOf":[NEXT,NEXT]}}"#,
        r#"{"if":NEXT,"then":NEXT,"else":NEXT}"#,
    ] {
        assert!(doubling(60, link).len() < 8_000);
        refused(doubling(60, link), r#"{"a":1}"#, "chained");
        drop(check(doubling(14, link), r#"{"a":1}"#.to_owned()));
    }
    // The reported schema: 2.9 kB that took for ever.
    let reported = doubling(15, r#"{"anyOf":[NEXT,NEXT]}"#);
    assert!(reported.len() < 2_900, "{}", reported.len());
    refused(reported, r#"{"a":1}"#, "too long");
    refused(doubling(4, r#"{"anyOf":[NEXT,NEXT]}"#), r#"{"a":1}"#, "not valid under any");
}

#[test]
fn a_recursion_that_doubles_with_the_depth_of_the_arguments_is_refused() {
    let schema = r##"{"type":"object","anyOf":[{"properties":{"x":{"$ref":"#"}}},{"properties":{"x":{"$ref":"#"}},"required":["y"]}],
        "required":["no"]}"##;
    let arguments = format!("{}1{}", r#"{"x":"#.repeat(60), "}".repeat(60));
    refused(schema.to_owned(), &arguments, "too long");
    let told = check(schema.to_owned(), r#"{"x":{"x":{"no":1}}}"#.to_owned()).unwrap_err();
    assert!(told.contains("\"no\" is a required property"), "{told}");
}

#[test]
fn refs_that_lead_nowhere_elsewhere_or_back_are_refused() {
    refused(r##"{"type":"object","$ref":"#"}"##.to_owned(), "{}", "without end");
    refused(
        r##"{"type":"object","allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"$ref":"#/$defs/a"}}}"##.to_owned(),
        "{}",
        "without end",
    );
    for remote in ["https://example.org/a.json", "file:///etc/passwd", "other.json#/a", "//example.org"] {
        refused(format!(r#"{{"properties":{{"a":{{"$ref":"{remote}"}}}}}}"#), "{}", "leads elsewhere");
    }
    refused(r##"{"$ref":"#/$defs/none"}"##.to_owned(), "{}", "leads nowhere");
    refused(r##"{"properties":{"a":{"$dynamicRef":"#x"}}}"##.to_owned(), "{}", "$dynamicRef");
    let many = r##"{"$ref":"#/$defs/a"},"##.repeat(400);
    refused(format!(r#"{{"allOf":[{many}{{}}],"$defs":{{"a":{{}}}}}}"#), "{}", "$refs");
    let schemas = "{},".repeat(10_000);
    refused(format!(r#"{{"allOf":[{schemas}{{}}]}}"#), "{}", "schemas inside");
}

#[test]
fn patterns_are_few_short_and_small() {
    let mut many = String::new();
    for number in 0..900 {
        write!(many, r#""p{number}":{{"type":"string","pattern":"^(a{number}|b*)*\\w{{1,90}}$"}},"#).unwrap();
    }
    let schema = format!(r#"{{"type":"object","properties":{{{many}"z":{{}}}}}}"#);
    assert!(schema.len() < 64 * 1024);
    refused(schema, "{}", "patterns");
    refused(format!(r#"{{"properties":{{"a":{{"pattern":"{}"}}}}}}"#, "a".repeat(600)), "{}", "characters");
    refused(
        r#"{"properties":{"a":{"pattern":"((a{1000}){1000}){1000}"}}}"#.to_owned(),
        "{}",
        "not a JSON Schema",
    );
    let backtracking = r#"{"properties":{"a":{"pattern":"^(?=(a+)+$)(a+)+\\1$"}}}"#;
    let arguments = format!(r#"{{"a":"{}!"}}"#, "a".repeat(4_000));
    check(backtracking.to_owned(), arguments).unwrap_err();
    let long = format!(r#"{{"a":"{}!"}}"#, "a".repeat(250_000));
    refused(backtracking.to_owned(), &long, "too long");
    let many_fields = r#"{"patternProperties":{"^(?!x)(a+)+$":{"type":"string"}}}"#;
    check(many_fields.to_owned(), format!(r#"{{"{}b":1}}"#, "a".repeat(2_000))).ok();
}

#[test]
fn depth_size_and_numbers_have_their_bounds() {
    let deep = format!("{}{{}}{}", r#"{"not":"#.repeat(100), "}".repeat(100));
    refused(deep, "{}", "deep");
    refused(format!("{}{}", r#"{"not":"#.repeat(50_000), "}".repeat(50_000)), "{}", "bytes");
    let title = "t".repeat(70_000);
    refused(format!(r#"{{"title":"{title}"}}"#), "{}", "bytes");
    let values: String = (0..12_000).map(|number| format!("{number},")).collect();
    let items = format!(r#"{{"properties":{{"a":{{"type":"array","items":{{"enum":[{values}-1]}}}}}}}}"#);
    assert!(items.len() <= 64 * 1024 + 20, "{}", items.len());
    let values: String = (0..10_000).map(|number| format!("{number},")).collect();
    let items = format!(r#"{{"properties":{{"a":{{"type":"array","items":{{"enum":[{values}-1]}}}}}}}}"#);
    refused(items.clone(), &format!(r#"{{"a":[{}9999]}}"#, "\"x\",".repeat(50_000)), "too long");
    assert_eq!(check(items, r#"{"a":[9999]}"#.to_owned()), Ok(r#"{"a":[9999]}"#.to_owned()));
    for number in
        ["1e308", "-1e308", "1e-308", "18446744073709551616", "9223372036854775808", "-9223372036854775809"]
    {
        for keyword in ["multipleOf", "minimum", "maximum", "minLength", "maxItems", "exclusiveMaximum"] {
            let schema = format!(r#"{{"properties":{{"a":{{"{keyword}":{number}}}}}}}"#);
            check(schema, format!(r#"{{"a":{number}}}"#)).ok();
        }
    }
    refused("{}".to_owned(), r#"{"a":1e999}"#, "number out of range");
    let nested = format!(r#"{{"a":{}{}}}"#, "[".repeat(100), "]".repeat(100));
    refused("{}".to_owned(), &nested, "deep");
    refused("{}".to_owned(), &format!(r#"{{"a":{}"#, "[".repeat(200_000)), "not a JSON object");
}

#[test]
fn honest_schemas_of_some_size_are_checked_as_ever() {
    let tree = r##"{"type":"object","properties":{"name":{"type":"string","pattern":"^(?!\\s*$).+"},
        "children":{"type":"array","items":{"$ref":"#"}}},"required":["name"],"additionalProperties":false}"##;
    let leaf = r#"{"name":"leaf"}"#;
    let mut arguments = leaf.to_owned();
    for _ in 0..20 {
        arguments = format!(r#"{{"children":[{leaf},{arguments}],"name":"node"}}"#);
    }
    assert_eq!(check(tree.to_owned(), arguments.clone()), Ok(arguments));
    let told = check(tree.to_owned(), r#"{"name":"a","children":[{"name":" "}]}"#.to_owned()).unwrap_err();
    assert!(told.contains("/children/0/name"), "{told}");
    let rows = format!(r#"{{"rows":[{}{{"id":1}}]}}"#, r#"{"id":1,"text":"some text"},"#.repeat(8_000));
    let table = r##"{"type":"object","properties":{"rows":{"type":"array","items":{"anyOf":[{"$ref":"#/$defs/row"},{"type":"null"}]}}},
        "$defs":{"row":{"type":"object","properties":{"id":{"type":"integer"},"text":{"type":"string"}},"required":["id"]}}}"##;
    assert!(check(table.to_owned(), rows).is_ok());
}
