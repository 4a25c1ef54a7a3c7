//! Asks the registry about calls: in order, read-only, granted, or one a person must be asked about.

use crate::runtime::Parts;
use cortex_brain::{CallVerdict, bind};
use cortex_store::StoreError;
use cortex_tools::{CallContext, CheckedCall, Mutation, ToolDefinition, ToolSource};
use cortex_types::{Event, Standing, ToolCall};
use tokio_util::sync::CancellationToken;

/// A call that is in order, prepared to be shown or run.
pub(crate) struct Prepared {
    pub(crate) call: CheckedCall,
    /// More lines for the person who is asked.
    pub(crate) preview: Option<String>,
    pub(crate) binding: [u8; 32],
}

pub(crate) async fn check_calls(
    parts: &Parts,
    event: &Event,
    calls: &[ToolCall],
) -> Result<Vec<(String, CallVerdict)>, StoreError> {
    let mut verdicts = Vec::with_capacity(calls.len());
    for call in calls {
        let verdict = match prepare(parts, event, call.name.as_str(), &call.arguments_json).await {
            Err(refusal) => CallVerdict::Refused(refusal),
            Ok(prepared) if !asks_first(parts, prepared.call.definition().mutation) => {
                CallVerdict::Free { mutates: prepared.call.definition().mutation != Mutation::ReadOnly }
            }
            Ok(prepared) => {
                let granted = parts.store.approvals().is_granted(prepared.binding, parts.clock.now()).await?;
                if granted { CallVerdict::Granted } else { CallVerdict::Gated }
            }
        };
        verdicts.push((call.id.clone(), verdict));
    }
    Ok(verdicts)
}

/// Checks a call against its schema and resolves what a person must see resolved; an error is for the model.
pub(crate) async fn prepare(
    parts: &Parts,
    event: &Event,
    name: &str,
    arguments_json: &str,
) -> Result<Prepared, String> {
    let checked = parts.tools.check(name, arguments_json).await.map_err(|error| error.to_string())?;
    if !is_open_to(event.standing, checked.definition()) {
        return Err(format!("there is no tool {name} in this conversation"));
    }
    let context = call_context(parts, event, &CancellationToken::new());
    let (call, preview) = parts.tools.prepare(&checked, &context).await.map_err(|error| error.to_string())?;
    let binding = binding_of(event, &call);
    Ok(Prepared { call, preview, binding })
}

/// Skills of the server's own that show or change what the owner keeps here.
const OWNERS_SKILLS: [&str; 3] = ["memory", "session", "schedule"];

/// Whether a turn of this standing may use a tool.
pub(crate) fn is_open_to(standing: Standing, tool: &ToolDefinition) -> bool {
    standing.sees_memory()
        || tool.source != ToolSource::BuiltIn
        || !OWNERS_SKILLS.contains(&tool.name.skill())
}

/// What an approval of this call by this user in this topic is bound to.
pub(crate) fn binding_of(event: &Event, call: &CheckedCall) -> [u8; 32] {
    let definition = call.definition();
    let version: String = definition.hash().iter().map(|byte| format!("{byte:02x}")).collect();
    bind(definition.name.as_str(), call.arguments_json(), &event.user_id, &event.topic, &version)
}

pub(crate) fn asks_first(parts: &Parts, mutation: Mutation) -> bool {
    match mutation {
        Mutation::ReadOnly => false,
        Mutation::Mutates => true,
        Mutation::Undeclared => parts.config.undeclared_tools_ask,
    }
}

pub(crate) fn call_context(parts: &Parts, event: &Event, cancel: &CancellationToken) -> CallContext {
    CallContext {
        topic: event.topic.clone(),
        event: Some(event.id.clone()),
        user_id: event.user_id.clone(),
        now: parts.clock.wall(),
        cancel: cancel.clone(),
    }
}
