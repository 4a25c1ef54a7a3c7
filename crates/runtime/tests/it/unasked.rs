//! A call that is in order when it is checked and no longer when its question is written.

use async_trait::async_trait;
use cortex_store::PageRequest;
use cortex_testkit::{FrozenTime, RuntimeSetup};
use cortex_tools::{
    CallContext, Mutation, PreparedArguments, Registry, ToolCallError, ToolDefinition, ToolName, ToolOutcome,
    ToolRunner, ToolSource,
};
use cortex_types::InboxStatus;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Can be prepared once, as if its moment passed while somebody looked.
#[derive(Default)]
struct Fleeting(AtomicU32);

#[async_trait]
impl ToolRunner for Fleeting {
    async fn prepare(
        &self,
        _name: &ToolName,
        arguments_json: &str,
        _context: &CallContext,
    ) -> Result<PreparedArguments, ToolCallError> {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => Ok(PreparedArguments { arguments_json: arguments_json.to_owned(), preview: None }),
            _ => Err(ToolCallError::NotRun("the moment has passed".to_owned())),
        }
    }

    async fn run(&self, _: &ToolName, _: &str, _: &CallContext) -> Result<ToolOutcome, ToolCallError> {
        Ok(ToolOutcome { text: "ran without a question".to_owned() })
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_with_nothing_left_to_ask_does_not_wait_for_ever() {
    let time = FrozenTime::hold();
    let script = json!({
        "answers": [
            {"when": {"afterTool": "moment.seize"}, "say": "Too late."},
            {"toolCalls": [{"name": "moment.seize", "arguments": {}}]},
        ],
    });
    let tools = || {
        let definition = ToolDefinition {
            name: ToolName::new("moment", "seize").unwrap(),
            description: "Seizes it.".to_owned(),
            input_schema_json: r#"{"type":"object"}"#.to_owned(),
            mutation: Mutation::Mutates,
            source: ToolSource::BuiltIn,
            timeout: None,
        };
        let runner: Arc<dyn ToolRunner> = Arc::new(Fleeting::default());
        Registry::builder().add_all(vec![definition], &runner).unwrap()
    };
    let flow = RuntimeSetup::scripted(script, &time).tools(tools).start().await;
    let id = flow.say("chat", "now").await;
    flow.reaches(&id, InboxStatus::Done).await;
    assert_eq!(flow.replies(&id).await, ["Too late."]);
    assert_eq!(flow.runtime.approvals().list(false, PageRequest::newest(10)).await.unwrap().rows, []);
}
