//! Tools: one registry and one way to call them, whether built in, written in TypeScript or served over MCP.

mod awaiting;
mod calendar;
mod child;
mod descriptors;
mod egress;
mod http_get;
mod mcp;
mod registry;
mod schema;
mod skill;
mod time_now;
mod tls;
mod tool;
mod toolbox;
mod trust;
mod trusted_mcp;

pub use awaiting::{NewCode, NewOffer, NewTool};
pub use calendar::{
    CalendarEntry, CalendarFetch, CalendarFetchError, CalendarListing, CalendarLook, CalendarSource,
    CalendarSourceError, CalendarTools, FetchedCalendar, Validators,
};
pub use child::{ChildHost, ServerLimits, confinement_gaps, run_child_host};
pub use egress::{
    Egress, EgressConfig, EgressError, FetchRequest, FetchResponse, HostPattern, HostPatternError,
    HostPolicy, HostPort, HostPortError, Network, OverLimit, SystemNetwork,
};
pub use http_get::HttpGet;
pub use mcp::{McpServer, McpServerStatus, McpServers, McpServersError, McpSet, McpSettings, McpState};
pub use registry::{CheckedCall, Registry, RegistryBuilder, RegistryError, ToolProvider};
pub use schema::InputSchema;
pub use skill::{
    Place, SKILL_TYPES, Severity, Skill, SkillIsolation, SkillManifest, SkillOptions, SkillPermissions,
    SkillProblem, SkillSet, SkillState, TemplateFile, TrustError, check_skill, run_skill_child,
    skill_template,
};
pub use time_now::TimeNow;
pub use tls::tls_config;
pub use tool::{
    CallContext, Mutation, PreparedArguments, ToolCallError, ToolDefinition, ToolName, ToolNameError,
    ToolOutcome, ToolRunner, ToolSource,
};
pub use toolbox::{Toolbox, ToolboxConfig, ToolboxError};
pub use trust::{
    PinGroup, PinnedGroup, SeenTrust, StoredTrust, TrustStore, TrustStoreError, pin_group, trust_group,
};
