//! Words for other channels from a turn that knows what others wrote: who is asked, and where exactly they go (D19).

use crate::channel;
use crate::runtime::Parts;
use cortex_brain::{
    CallVerdict, SEND_TOOL, SendVerdicts, approved_target, bind, send_arguments, send_channel,
};
use cortex_store::StoreError;
use cortex_types::{ApprovalId, ApprovalStatus, Event, ToolCall, TopicRef};
use std::collections::BTreeMap;

/// Where the words of a marked turn may go.
#[derive(Debug, Default)]
pub(crate) struct SendTargets {
    /// Channels that do not get them.
    pub(crate) withheld: Vec<String>,
    /// The conversation that a person saw and approved, for each channel.
    pub(crate) approved: BTreeMap<String, TopicRef>,
}

/// A question about words for another channel: the call as it is shown and bound, with its target.
pub(crate) struct TargetedSend<'a> {
    pub(crate) call: &'a ToolCall,
    pub(crate) arguments_json: String,
    pub(crate) binding: [u8; 32],
}

/// A person is asked about words that would really go to another topic; the rest is told or said as always.
pub(crate) async fn check_sends(
    parts: &Parts,
    event: &Event,
    calls: &[ToolCall],
) -> Result<Vec<(String, CallVerdict)>, StoreError> {
    let mut verdicts = Vec::with_capacity(calls.len());
    for call in calls {
        let now = parts.clock.now();
        let verdict = match targeted(parts, event, call).await? {
            None => CallVerdict::Free { mutates: false },
            Some(send) if parts.store.approvals().is_granted(send.binding, now).await? => {
                CallVerdict::Granted
            }
            Some(_) => CallVerdict::Gated,
        };
        verdicts.push((call.id.clone(), verdict));
    }
    Ok(verdicts)
}

/// The call with the conversation that it would reach now; `None` when it would reach no other one.
pub(crate) async fn targeted<'a>(
    parts: &Parts,
    event: &Event,
    call: &'a ToolCall,
) -> Result<Option<TargetedSend<'a>>, StoreError> {
    Ok(match channel::target_topic(parts, event, send_channel(call)).await? {
        Ok(target) if target != event.topic => {
            let arguments_json = send_arguments(call, &target);
            let binding = binding_of_send(event, &arguments_json);
            Some(TargetedSend { call, arguments_json, binding })
        }
        Ok(_) | Err(_) => None,
    })
}

/// The last look before words go to other channels. An approval must cover exactly these words and name where they go,
/// and be in time (D9); what nobody was asked about goes nowhere else either.
pub(crate) async fn send_targets(
    parts: &Parts,
    event: &Event,
    sends: SendVerdicts,
) -> Result<SendTargets, StoreError> {
    let mut targets = SendTargets { withheld: sends.withheld, ..SendTargets::default() };
    for send in sends.approved {
        let channel = send_channel(&send.call).to_owned();
        match approved(parts, event, &send.call, send.approval).await? {
            Some(target) => drop(targets.approved.insert(channel, target)),
            None => targets.withheld.push(channel),
        }
    }
    for call in sends.unasked {
        let now = parts.clock.now();
        if let Some(send) = targeted(parts, event, &call).await?
            && !parts.store.approvals().is_granted(send.binding, now).await?
        {
            targets.withheld.push(send_channel(&call).to_owned());
        }
    }
    Ok(targets)
}

async fn approved(
    parts: &Parts,
    event: &Event,
    call: &ToolCall,
    approval: ApprovalId,
) -> Result<Option<TopicRef>, StoreError> {
    let Some(approval) = parts.store.approvals().find(approval).await? else { return Ok(None) };
    let in_time =
        approval.resolved_at.is_some_and(|at| at.after(parts.config.approval_ttl) > parts.clock.now());
    let is_covered = approval.status == ApprovalStatus::Approved
        && approval.event == event.id
        && approval.binding == binding_of_send(event, &approval.tool_arguments_json)
        && in_time;
    Ok(approved_target(call, &approval.tool_arguments_json).filter(|_| is_covered))
}

/// What an approval of words for another channel is bound to: channel, conversation and text.
fn binding_of_send(event: &Event, arguments_json: &str) -> [u8; 32] {
    bind(SEND_TOOL, arguments_json, &event.user_id, &event.topic, "2")
}
