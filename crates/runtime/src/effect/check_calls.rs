//! Asks the registry about calls: in order, read-only, granted, or one a person must be asked about.

use crate::channel;
use crate::runtime::Parts;
use cortex_brain::{
    CallVerdict, MarkedCall, MemoryHome, SEND_TOOL, SendVerdicts, ToolMaker, asks_when_marked, bind,
    send_channel,
};
use cortex_store::StoreError;
use cortex_tools::{CallContext, CheckedCall, Mutation, ToolDefinition, ToolSource};
use cortex_types::{ApprovalStatus, Event, Standing, ToolCall, is_machine_channel};
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
async fn own_words(parts: &Parts, event: &Event) -> Result<Vec<String>, StoreError> {
    let history = parts.store.history();
    let mut words = history.words_of(event.topic.clone(), event.user_id.clone(), OWN_WORDS_MAX).await?;
    if !is_machine_channel(&event.channel) {
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

/// A person is asked about words that would really go to another topic; the rest is told or said as always.
pub(crate) async fn check_sends(
    parts: &Parts,
    event: &Event,
    calls: &[ToolCall],
) -> Result<Vec<(String, CallVerdict)>, StoreError> {
    let mut verdicts = Vec::with_capacity(calls.len());
    for call in calls {
        let goes_elsewhere = match channel::target_topic(parts, event, send_channel(call)).await? {
            Ok(topic) => topic != event.topic,
            Err(_) => false,
        };
        let now = parts.clock.now();
        let verdict = match goes_elsewhere {
            false => CallVerdict::Free { mutates: false },
            true if parts.store.approvals().is_granted(binding_of_send(event, call), now).await? => {
                CallVerdict::Granted
            }
            true => CallVerdict::Gated,
        };
        verdicts.push((call.id.clone(), verdict));
    }
    Ok(verdicts)
}

/// The last look before words go to other channels: those that they do not go to. An approval must cover exactly these
/// words, and be in time (D9).
pub(crate) async fn withheld(
    parts: &Parts,
    event: &Event,
    sends: SendVerdicts,
) -> Result<Vec<String>, StoreError> {
    let mut withheld = sends.withheld;
    for send in sends.approved {
        let found = parts.store.approvals().find(send.approval).await?;
        let is_covered = found.is_some_and(|approval| {
            let in_time = approval
                .resolved_at
                .is_some_and(|at| at.after(parts.config.approval_ttl) > parts.clock.now());
            approval.status == ApprovalStatus::Approved
                && approval.event == event.id
                && approval.binding == binding_of_send(event, &send.call)
                && approval.tool_arguments_json == send.call.arguments_json
                && in_time
        });
        if !is_covered {
            withheld.push(send_channel(&send.call).to_owned());
        }
    }
    Ok(withheld)
}

/// What an approval of words for another channel is bound to.
pub(crate) fn binding_of_send(event: &Event, call: &ToolCall) -> [u8; 32] {
    bind(SEND_TOOL, &call.arguments_json, &event.user_id, &event.topic, "1")
}

/// Checks a call against its schema and resolves what a person must see resolved; an error is for the model.
pub(crate) async fn prepare(
    parts: &Parts,
    event: &Event,
    name: &str,
    arguments_json: &str,
) -> Result<Prepared, String> {
    let checked = parts.tools.check(name, arguments_json).await.map_err(|error| error.to_string())?;
    if !is_open_to(event.standing, &event.topic.source, checked.definition()) {
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

/// Whether a turn of this standing in a topic of this source may use a tool. A stranger gets none that runs unasked: calendars, pages of the
/// owner's network and everything that skills and MCP servers read are the owner's. What changes something asks, and
/// the owner alone answers.
pub(crate) fn is_open_to(standing: Standing, source: &str, tool: &ToolDefinition) -> bool {
    let is_built_in = tool.source == ToolSource::BuiltIn;
    let skill = tool.name.skill();
    let is_everybodys = is_built_in && skill == EVERYBODYS_SKILL;
    let is_owners = is_built_in && OWNERS_SKILLS.contains(&skill);
    standing.sees_memory(source) || is_everybodys || (tool.mutation == Mutation::Mutates && !is_owners)
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
