//! A schema as a graph of its inner schemas: refused when it is too large or leads back to itself, and able to say
//! beforehand how many steps a check of given arguments can take at most. The validator counts nothing by itself.

use super::json::Json;
use cortex_types::limits::{
    SCHEMA_CHAIN_MAX, SCHEMA_NODES_MAX, SCHEMA_PATTERN_CHARS_MAX, SCHEMA_PATTERNS_MAX, SCHEMA_REFS_MAX,
};
use std::collections::{BTreeMap, HashMap};

/// Schemas that are applied to the same value.
const LISTS_HERE: &[&str] = &["allOf", "anyOf", "oneOf"];
const ONES_HERE: &[&str] = &["not", "if", "then", "else"];
const MAPS_HERE: &[&str] = &["dependentSchemas", "dependencies"];
/// Schemas that are applied to every value inside.
const ONES_INSIDE: &[&str] = &[
    "additionalProperties",
    "unevaluatedProperties",
    "items",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "contentSchema",
];
/// With these, the validator looks at the schemas that apply here twice: whether they hold, and then why not.
const TWICE: &[&str] =
    &["anyOf", "oneOf", "not", "if", "contains", "unevaluatedProperties", "unevaluatedItems"];
const UNKNOWN_REFS: &[&str] = &["$dynamicRef", "$recursiveRef"];
/// A pattern that looks around or back is tried in many ways at each place.
const FANCY_MARKS: &[&str] = &["(?=", "(?!", "(?<", "(?>", "(?P=", "\\k", "\\1", "\\2", "\\3", "\\4", "\\5"];
const FANCY_WEIGHT: u64 = 512;
const PATTERN_WEIGHT_MAX: u64 = 4_096;
/// How many bytes of a text one unit of a pattern's weight reads in the time of a step.
const BYTES_PER_STEP: u64 = 32;
/// Deepest recursion of one check, values inside values and schemas upon schemas together.
const RECURSION_MAX: usize = 512;

/// The graph; the root is its first node.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: Vec<Node>,
}

#[derive(Debug, Default)]
struct Node {
    here: Vec<usize>,
    twice: bool,
    /// By the name of a field.
    fields: BTreeMap<String, usize>,
    /// By the place in a list.
    places: Vec<usize>,
    /// For fields whose name fits a pattern, with the pattern's weight.
    fitting: Vec<(u64, usize)>,
    inside: Vec<usize>,
    names: Vec<usize>,
    /// The weight of its own pattern.
    pattern: u64,
    /// Values that are compared one after the other.
    compared: u64,
}

/// More steps or deeper than a check may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany;

impl Graph {
    pub(super) fn of(root: &Json) -> Result<Self, String> {
        let mut builder =
            Builder { root, graph: Self::default(), known: HashMap::new(), refs: 0, patterns: 0 };
        builder.node(root)?;
        let graph = builder.graph;
        let mut heights = vec![Height::Unknown; graph.nodes.len()];
        for index in 0..graph.nodes.len() {
            graph.height(index, &mut heights, 0)?;
        }
        Ok(graph)
    }

    /// The steps that a check of these arguments takes at most, up to `max`.
    pub(super) fn steps(&self, arguments: &Json, max: u64) -> Result<u64, TooMany> {
        let mut count = Count { graph: self, steps: 0, max };
        count.visit(0, Seen::Value(arguments), 1, 0)?;
        Ok(count.steps)
    }

    /// How many schemas apply to one value through each other; a circle has no end.
    fn height(&self, index: usize, heights: &mut [Height], above: usize) -> Result<usize, String> {
        match heights[index] {
            Height::Known(height) => return Ok(height),
            Height::Open => return Err("one of its schemas refers to itself without end".to_owned()),
            Height::Unknown => {}
        }
        if above > SCHEMA_CHAIN_MAX {
            return Err(format!("its schemas are chained over {SCHEMA_CHAIN_MAX} deep"));
        }
        heights[index] = Height::Open;
        let mut height = 1;
        for inner in &self.nodes[index].here {
            height = height.max(1 + self.height(*inner, heights, above + 1)?);
        }
        if height > SCHEMA_CHAIN_MAX {
            return Err(format!("its schemas are chained over {SCHEMA_CHAIN_MAX} deep"));
        }
        heights[index] = Height::Known(height);
        Ok(height)
    }
}

#[derive(Debug, Clone, Copy)]
enum Height {
    Unknown,
    Open,
    Known(usize),
}

struct Builder<'a> {
    root: &'a Json,
    graph: Graph,
    /// The node of a schema, by where the schema lies in memory.
    known: HashMap<*const Json, usize>,
    refs: usize,
    patterns: usize,
}

impl<'a> Builder<'a> {
    fn node(&mut self, schema: &'a Json) -> Result<usize, String> {
        let place = std::ptr::from_ref(schema);
        if let Some(index) = self.known.get(&place) {
            return Ok(*index);
        }
        let index = self.graph.nodes.len();
        if index >= SCHEMA_NODES_MAX {
            return Err(format!("it has over {SCHEMA_NODES_MAX} schemas inside"));
        }
        self.known.insert(place, index);
        self.graph.nodes.push(Node::default());
        if let Json::Object(keywords) = schema {
            let node = self.read(schema, keywords)?;
            self.graph.nodes[index] = node;
        }
        Ok(index)
    }

    fn read(&mut self, schema: &'a Json, keywords: &'a BTreeMap<String, Json>) -> Result<Node, String> {
        let mut node =
            Node { twice: TWICE.iter().any(|word| keywords.contains_key(*word)), ..Node::default() };
        if let Some(word) = UNKNOWN_REFS.iter().find(|word| keywords.contains_key(**word)) {
            return Err(format!("it uses {word}, which is not supported; use $ref"));
        }
        if keywords.contains_key("$id") && !std::ptr::eq(schema, self.root) {
            return Err("a schema inside it has an $id of its own".to_owned());
        }
        if let Some(Json::Text(target)) = keywords.get("$ref") {
            node.here.push(self.reference(target)?);
        }
        for word in LISTS_HERE {
            node.here.extend(self.list(keywords.get(*word))?);
        }
        for word in ONES_HERE {
            node.here.extend(self.one(keywords.get(*word))?);
        }
        for word in MAPS_HERE {
            node.here.extend(self.map(keywords.get(*word))?.into_values());
        }
        for word in ONES_INSIDE {
            node.inside.extend(self.one(keywords.get(*word))?);
        }
        node.names.extend(self.one(keywords.get("propertyNames"))?);
        node.fields = self.map(keywords.get("properties"))?;
        node.places = self.list(keywords.get("prefixItems"))?;
        // Before 2020 a list of schemas stood in `items`.
        node.places.extend(self.list(keywords.get("items"))?);
        for (pattern, inner) in self.map(keywords.get("patternProperties"))? {
            node.fitting.push((self.weight(&pattern)?, inner));
        }
        if let Some(Json::Text(pattern)) = keywords.get("pattern") {
            node.pattern = self.weight(pattern)?;
        }
        if let Some(Json::List(values)) = keywords.get("enum") {
            node.compared = u64::try_from(values.len()).unwrap_or(u64::MAX);
        }
        Ok(node)
    }

    fn reference(&mut self, target: &str) -> Result<usize, String> {
        self.refs += 1;
        if self.refs > SCHEMA_REFS_MAX {
            return Err(format!("it has over {SCHEMA_REFS_MAX} $refs"));
        }
        let shown: String = target.chars().take(100).collect();
        let Some(pointer) = target.strip_prefix('#') else {
            return Err(format!(
                "its $ref {shown:?} leads elsewhere; only those inside the schema are followed"
            ));
        };
        let pointer = percent_decoded(pointer);
        let found = if pointer.is_empty() { Some(self.root) } else { self.root.at(&pointer) };
        let found = found.ok_or_else(|| format!("its $ref {shown:?} leads nowhere"))?;
        self.node(found)
    }

    fn one(&mut self, schema: Option<&'a Json>) -> Result<Option<usize>, String> {
        match schema {
            Some(schema @ (Json::Object(_) | Json::Bool(_))) => self.node(schema).map(Some),
            Some(Json::Null | Json::Number(_) | Json::Text(_) | Json::List(_)) | None => Ok(None),
        }
    }

    fn list(&mut self, schemas: Option<&'a Json>) -> Result<Vec<usize>, String> {
        match schemas {
            Some(Json::List(schemas)) => schemas.iter().map(|schema| self.node(schema)).collect(),
            Some(Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) | Json::Object(_)) | None => {
                Ok(Vec::new())
            }
        }
    }

    fn map(&mut self, schemas: Option<&'a Json>) -> Result<BTreeMap<String, usize>, String> {
        match schemas {
            Some(Json::Object(schemas)) => {
                schemas.iter().map(|(name, schema)| Ok((name.clone(), self.node(schema)?))).collect()
            }
            Some(Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) | Json::List(_)) | None => {
                Ok(BTreeMap::new())
            }
        }
    }

    /// How much work a pattern makes for each byte of a text.
    fn weight(&mut self, pattern: &str) -> Result<u64, String> {
        self.patterns += 1;
        if self.patterns > SCHEMA_PATTERNS_MAX {
            return Err(format!("it has over {SCHEMA_PATTERNS_MAX} patterns"));
        }
        let length = pattern.chars().count();
        if length > SCHEMA_PATTERN_CHARS_MAX {
            return Err(format!("one of its patterns is over {SCHEMA_PATTERN_CHARS_MAX} characters"));
        }
        let fancy = if FANCY_MARKS.iter().any(|mark| pattern.contains(mark)) { FANCY_WEIGHT } else { 1 };
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        Ok(length.saturating_mul(repeats(pattern)).clamp(fancy, PATTERN_WEIGHT_MAX))
    }
}

/// The product of the counts in `{…}`: what a pattern grows to when it is written out.
fn repeats(pattern: &str) -> u64 {
    let counts = pattern.split('{').skip(1).filter_map(|rest| {
        let inside = rest.split('}').next()?;
        inside.split(',').filter_map(|count| count.trim().parse::<u64>().ok()).max()
    });
    counts.fold(1_u64, |product, count| product.saturating_mul(count.max(1)))
}

fn percent_decoded(text: &str) -> String {
    let Some((before, after)) = text.split_once('%') else { return text.to_owned() };
    let byte = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    match byte.filter(u8::is_ascii) {
        Some(byte) => format!("{before}{}{}", char::from(byte), percent_decoded(&after[2..])),
        None => format!("{before}%{}", percent_decoded(after)),
    }
}

struct Count<'a> {
    graph: &'a Graph,
    steps: u64,
    max: u64,
}

/// What a schema is applied to: a value, or the name of a field.
#[derive(Clone, Copy)]
enum Seen<'a> {
    Value(&'a Json),
    Name(&'a str),
}

impl Seen<'_> {
    fn bytes(self) -> u64 {
        let length = match self {
            Self::Name(name) => name.len(),
            Self::Value(Json::Text(text)) => text.len(),
            Self::Value(Json::List(items)) => items.len(),
            Self::Value(Json::Object(fields)) => fields.len(),
            Self::Value(Json::Null | Json::Bool(_) | Json::Number(_)) => 0,
        };
        u64::try_from(length).unwrap_or(u64::MAX)
    }
}

impl Count<'_> {
    fn add(&mut self, steps: u64, times: u64) -> Result<(), TooMany> {
        self.steps = self.steps.saturating_add(steps.saturating_mul(times));
        if self.steps > self.max { Err(TooMany) } else { Ok(()) }
    }

    fn visit(&mut self, index: usize, seen: Seen<'_>, times: u64, depth: usize) -> Result<(), TooMany> {
        if depth > RECURSION_MAX {
            return Err(TooMany);
        }
        let graph = self.graph;
        let Some(node) = graph.nodes.get(index) else { return Ok(()) };
        let bytes = seen.bytes();
        let read = bytes.saturating_mul(1 + node.pattern) / BYTES_PER_STEP;
        self.add(1 + node.compared + read, times)?;
        let times = if node.twice { times.saturating_mul(2) } else { times };
        for inner in &node.here {
            self.visit(*inner, seen, times, depth + 1)?;
        }
        match seen {
            Seen::Value(Json::List(items)) => {
                for (place, item) in items.iter().enumerate() {
                    for inner in node.places.get(place).into_iter().chain(&node.inside) {
                        self.visit(*inner, Seen::Value(item), times, depth + 1)?;
                    }
                }
            }
            Seen::Value(Json::Object(fields)) => {
                for (name, value) in fields {
                    self.visit_field(node, name, value, times, depth + 1)?;
                }
            }
            Seen::Value(Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_)) | Seen::Name(_) => {}
        }
        Ok(())
    }

    fn visit_field(
        &mut self,
        node: &Node,
        name: &str,
        value: &Json,
        times: u64,
        depth: usize,
    ) -> Result<(), TooMany> {
        let length = u64::try_from(name.len()).unwrap_or(u64::MAX);
        for (weight, inner) in &node.fitting {
            self.add(1 + length.saturating_mul(*weight) / BYTES_PER_STEP, times)?;
            self.visit(*inner, Seen::Value(value), times, depth)?;
        }
        for inner in &node.names {
            self.visit(*inner, Seen::Name(name), times, depth)?;
        }
        for inner in node.fields.get(name).into_iter().chain(&node.inside) {
            self.visit(*inner, Seen::Value(value), times, depth)?;
        }
        Ok(())
    }
}
