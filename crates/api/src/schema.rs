//! OpenAPI schemas of the shared enums, which know nothing of OpenAPI themselves.

use cortex_types::{
    ApprovalStatus, ChannelLayer, ChannelMode, FactSourceKind, FactTier, GardenerTask, InboxStatus, OpStatus,
    OutboxStatus, Priority, SlotOutcome,
};
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};

pub(crate) fn inbox_status() -> RefOr<Schema> {
    words(InboxStatus::ALL.iter().map(|status| status.as_str().to_owned()))
}

pub(crate) fn outbox_status() -> RefOr<Schema> {
    words(OutboxStatus::ALL.iter().map(|status| status.as_str().to_owned()))
}

pub(crate) fn gardener_task() -> RefOr<Schema> {
    words(GardenerTask::ALL.iter().map(|task| task.as_str().to_owned()))
}

pub(crate) fn fact_tier() -> RefOr<Schema> {
    words(FactTier::ALL.iter().map(|tier| tier.as_str().to_owned()))
}

pub(crate) fn fact_source_kind() -> RefOr<Schema> {
    words(FactSourceKind::ALL.iter().map(|kind| kind.as_str().to_owned()))
}

pub(crate) fn op_status() -> RefOr<Schema> {
    words(OpStatus::ALL.iter().map(|status| status.as_str().to_owned()))
}

pub(crate) fn approval_status() -> RefOr<Schema> {
    words(ApprovalStatus::ALL.iter().map(|status| status.as_str().to_owned()))
}

pub(crate) fn channel_mode() -> RefOr<Schema> {
    words(ChannelMode::ALL.iter().map(|mode| mode.as_str().to_owned()))
}

pub(crate) fn channel_layer() -> RefOr<Schema> {
    words(ChannelLayer::ALL.iter().map(|layer| layer.as_str().to_owned()))
}

pub(crate) fn slot_outcome() -> RefOr<Schema> {
    words(SlotOutcome::ALL.iter().map(|outcome| outcome.as_str().to_owned()))
}

pub(crate) fn catch_up() -> RefOr<Schema> {
    words(["once", "skip"].map(str::to_owned).into_iter())
}

pub(crate) fn priority() -> RefOr<Schema> {
    words(Priority::ALL.iter().map(|priority| {
        match priority {
            Priority::Urgent => "urgent",
            Priority::Normal => "normal",
            Priority::Background => "background",
        }
        .to_owned()
    }))
}

fn words(words: impl Iterator<Item = String>) -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(SchemaType::Type(Type::String)).enum_values(Some(words)).build().into()
}
