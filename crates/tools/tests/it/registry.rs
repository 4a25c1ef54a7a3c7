//! The registry: what is in order is run against its clock, everything else is told to the model.

use crate::skill_parts::context;
use async_trait::async_trait;
use cortex_tools::{
    CallContext, Mutation, Registry, RegistryError, ToolCallError, ToolDefinition, ToolName, ToolOutcome,
    ToolProvider, ToolRunner, ToolSource,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);
const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;

/// Answers with its arguments, after a while where it is told to.
#[derive(Default)]
struct Echo {
    takes: Duration,
    finished: AtomicUsize,
    is_away: AtomicBool,
}

#[async_trait]
impl ToolRunner for Echo {
    async fn run(
        &self,
        name: &ToolName,
        arguments: &str,
        _: &CallContext,
    ) -> Result<ToolOutcome, ToolCallError> {
        tokio::time::sleep(self.takes).await;
        self.finished.fetch_add(1, Ordering::SeqCst);
        Ok(ToolOutcome { text: format!("{name} {arguments}") })
    }
}

#[async_trait]
impl ToolProvider for Echo {
    fn definitions(&self) -> Vec<ToolDefinition> {
        if self.is_away.load(Ordering::SeqCst) {
            Vec::new()
        } else {
            vec![tool("far.echo", Mutation::ReadOnly)]
        }
    }
}

fn tool(name: &str, mutation: Mutation) -> ToolDefinition {
    ToolDefinition {
        name: name.parse().unwrap(),
        description: "Echoes.".to_owned(),
        input_schema_json: SCHEMA.to_owned(),
        mutation,
        source: ToolSource::BuiltIn,
        timeout: None,
    }
}

fn registry(definition: ToolDefinition, runner: Arc<dyn ToolRunner>) -> Registry {
    Registry::builder().add(definition, runner).unwrap().build()
}

#[tokio::test]
async fn a_call_in_order_runs_with_canonical_arguments() {
    let registry = registry(tool("near.echo", Mutation::ReadOnly), Arc::new(Echo::default()));
    let call = registry.check("near.echo", r#"{ "z": [1, 2], "n": 1 }"#).await.unwrap();
    assert_eq!(call.arguments_json(), r#"{"n":1,"z":[1,2]}"#);
    assert_eq!(call.definition().mutation, Mutation::ReadOnly);
    let outcome = registry.run(&call, &context(), LIMIT).await.unwrap();
    assert_eq!(outcome.text, r#"near.echo {"n":1,"z":[1,2]}"#);
}

#[tokio::test]
async fn a_call_that_is_not_in_order_tells_the_model_why() {
    let registry = registry(tool("near.echo", Mutation::ReadOnly), Arc::new(Echo::default()));
    for (name, arguments, wanted) in [
        ("near.other", "{}", "not run: there is no tool \"near.other\""),
        ("nonsense", "{}", "not run: there is no tool \"nonsense\""),
        ("near.echo", "{", "not run: bad arguments for near.echo: the arguments are not a JSON object"),
        ("near.echo", "{}", "not run: bad arguments for near.echo: \"n\" is a required property"),
        ("near.echo", r#"{"n":"1"}"#, "not run: bad arguments for near.echo: /n: \"1\" is not of type"),
    ] {
        let told = registry.check(name, arguments).await.unwrap_err().to_string();
        assert!(told.starts_with(wanted), "{told}");
    }
}

#[test]
fn two_tools_of_one_name_cannot_be_registered() {
    let echo: Arc<dyn ToolRunner> = Arc::new(Echo::default());
    // Models see `__` for the dot, so these two would be one to them.
    for (one, other) in
        [("a.b", "a.b"), ("a.b__c", "a__b.c"), ("a.b_c", "a.b__c"), ("a.b", "A.B"), ("a.b-c", "a.b_c")]
    {
        let both = [tool(one, Mutation::ReadOnly), tool(other, Mutation::ReadOnly)];
        let refused = Registry::builder().add_all(both, &echo).err();
        let (name, other) = (other.parse().unwrap(), one.parse().unwrap());
        assert_eq!(refused, Some(RegistryError::Duplicate { name, other }));
    }
    let bad = ToolDefinition { input_schema_json: "[]".to_owned(), ..tool("a.b", Mutation::ReadOnly) };
    assert!(matches!(Registry::builder().add(bad, echo).err(), Some(RegistryError::BadSchema { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_late_result_is_dropped_and_its_outcome_is_unknown() {
    for (mutation, wanted) in [
        (Mutation::Mutates, ToolCallError::Unknown("timed out after 100 ms".to_owned())),
        (Mutation::Undeclared, ToolCallError::Unknown("timed out after 100 ms".to_owned())),
        (Mutation::ReadOnly, ToolCallError::TimedOut(Duration::from_millis(100))),
    ] {
        let echo = Arc::new(Echo { takes: Duration::from_secs(1), ..Echo::default() });
        let own_limit = Some(Duration::from_millis(100));
        let definition = ToolDefinition { timeout: own_limit, ..tool("slow.echo", mutation) };
        let registry = registry(definition, Arc::clone(&echo) as Arc<dyn ToolRunner>);
        let call = registry.check("slow.echo", r#"{"n":1}"#).await.unwrap();
        let ended = registry.run(&call, &context(), LIMIT).await;
        assert_eq!(ended, Err(wanted.clone()));
        assert_eq!(wanted.to_string(), "timed out after 100 ms; outcome unknown", "what the model reads");
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(echo.finished.load(Ordering::SeqCst), 0, "it was given up");
    }
}

#[tokio::test]
async fn tools_of_a_provider_come_and_go() {
    let far = Arc::new(Echo::default());
    let registry = Registry::builder()
        .add(tool("near.echo", Mutation::ReadOnly), Arc::new(Echo::default()))
        .unwrap()
        .add_live(Arc::clone(&far) as Arc<dyn ToolProvider>)
        .build();
    let names = |registry: &Registry| -> Vec<String> {
        registry.definitions().iter().map(|tool| tool.name.to_string()).collect()
    };
    assert_eq!(names(&registry), ["far.echo", "near.echo"]);
    let call = registry.check("far.echo", r#"{"n":1}"#).await.unwrap();
    assert_eq!(registry.run(&call, &context(), LIMIT).await.unwrap().text, r#"far.echo {"n":1}"#);
    far.is_away.store(true, Ordering::SeqCst);
    assert_eq!(names(&registry), ["near.echo"]);
    assert!(registry.check("far.echo", r#"{"n":1}"#).await.is_err());
}

#[tokio::test]
async fn a_tool_that_looks_like_an_earlier_one_is_refused_and_both_names_are_told() {
    let (near, far) = (Arc::new(Echo::default()), Arc::new(Echo::default()));
    let registry = Registry::builder()
        .add(tool("far.Echo", Mutation::ReadOnly), near)
        .unwrap()
        .add_live(far as Arc<dyn ToolProvider>)
        .build();
    let names: Vec<String> = registry.definitions().iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(names, ["far.Echo"]);
    let told = registry.collisions();
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("far.echo") && told[0].contains("far.Echo"), "{told:?}");
    let refused = registry.check("far.echo", r#"{"n":1}"#).await.unwrap_err().to_string();
    assert!(refused.contains("cannot be told from another tool"), "{refused}");
}
