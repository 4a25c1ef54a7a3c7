//! Asks the registry about calls: in order, read-only, granted, or one a person must be asked about.

use crate::runtime::Parts;
use cortex_brain::{CallVerdict, MarkedCall, MemoryHome, ToolMaker, asks_when_marked, bind, holds_documents};
use cortex_store::StoreError;
use cortex_tools::{CallContext, CheckedCall, HostPolicy, Mutation, ToolDefinition, ToolSource};
use cortex_types::{Event, Sight, ToolCall, is_machine_channel};
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
    marked: bool,
) -> Result<Vec<(String, CallVerdict)>, StoreError> {
    let mut verdicts = Vec::with_capacity(calls.len());
    let own_words = if marked { Some(own_words(parts, event).await?) } else { None };
    for call in calls {
        let verdict = match prepare(parts, event, call.name.as_str(), &call.arguments_json).await {
            Err(refusal) => CallVerdict::Refused(refusal),
            Ok(prepared)
                if !asks_first(parts, prepared.call.definition().mutation)
                    && !own_words
                        .as_ref()
                        .is_some_and(|words| asks_as_marked(parts, &prepared.call, words)) =>
            {
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

/// Most messages of a person that are searched for a host.
const OWN_WORDS_MAX: u32 = 200;

/// What the person themselves said in this topic, the message of this turn included.
pub(crate) async fn own_words(parts: &Parts, event: &Event) -> Result<Vec<String>, StoreError> {
    let history = parts.store.history();
    let mut words = history.words_of(event.topic.clone(), event.user_id.clone(), OWN_WORDS_MAX).await?;
    if !is_machine_channel(&event.channel) && !holds_documents(event.metadata_json.as_deref()) {
        words.push(event.text.clone());
    }
    Ok(words)
}

fn asks_as_marked(parts: &Parts, call: &CheckedCall, own_words: &[String]) -> bool {
    asks_when_marked(MarkedCall {
        maker: maker_of(call.definition()),
        tool: call.definition().name.as_str(),
        arguments_json: call.arguments_json(),
        own_words,
        memory: if parts.config.engram.is_some() { MemoryHome::Service } else { MemoryHome::BuiltIn },
    })
}

pub(crate) fn maker_of(tool: &ToolDefinition) -> ToolMaker {
    match tool.source {
        ToolSource::BuiltIn => ToolMaker::BuiltIn,
        ToolSource::Skill { .. } | ToolSource::Mcp { .. } => ToolMaker::Others,
    }
}

/// Checks a call against its schema and resolves what a person must see resolved; an error is for the model.
pub(crate) async fn prepare(
    parts: &Parts,
    event: &Event,
    name: &str,
    arguments_json: &str,
) -> Result<Prepared, String> {
    let checked = parts.tools.check(name, arguments_json).await.map_err(|error| error.to_string())?;
    if !is_open_to(event.sight(), checked.definition()) {
        return Err(format!("there is no tool {name} in this conversation"));
    }
    let context = call_context(parts, event, &CancellationToken::new());
    let (call, preview) = parts.tools.prepare(&checked, &context).await.map_err(|error| error.to_string())?;
    let binding = binding_of(event, &call);
    Ok(Prepared { call, preview, binding })
}

/// Skills of the server's own that show or change what the owner keeps here.
const OWNERS_SKILLS: [&str; 3] = ["memory", "session", "schedule"];
/// The one skill whose answers are nobody's secret.
const EVERYBODYS_SKILL: &str = "time";

/// Whether a turn that sees so much may use a tool. A stranger gets none that runs unasked: calendars, pages of the
/// owner's network and everything that skills and MCP servers read are the owner's. What changes something asks, and
/// the owner alone answers. In a group the owner's skills are there, and see the group's place alone.
pub(crate) fn is_open_to(sight: Sight, tool: &ToolDefinition) -> bool {
    let is_built_in = tool.source == ToolSource::BuiltIn;
    let skill = tool.name.skill();
    let is_everybodys = is_built_in && skill == EVERYBODYS_SKILL;
    let is_owners = is_built_in && OWNERS_SKILLS.contains(&skill);
    match sight {
        Sight::Everything | Sight::Place => true,
        Sight::Nothing => is_everybodys || (tool.mutation == Mutation::Mutates && !is_owners),
    }
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
        sight: event.sight(),
        now: parts.clock.wall(),
        reach: HostPolicy::AnyPublic,
        cancel: cancel.clone(),
    }
}
