//! One call of a server's tool, and what is known about it when it goes wrong.

use super::content::flatten;
use super::offer::OfferedTool;
use crate::tool::{CallContext, Mutation, ToolCallError, ToolOutcome};
use cortex_types::limits::ERROR_CHARS_MAX;
use rmcp::model::{CallToolRequestParams, CallToolResponse, ErrorCode, ErrorData, JsonObject};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::{Peer, RoleClient, ServiceError};
use std::time::Duration;
use tokio::sync::Notify;

/// A connected server, as calls need it.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) peer: Peer<RoleClient>,
    /// Rung when a call found the connection broken.
    pub(super) broken: Notify,
}

/// What came of a call.
pub(super) enum Attempt {
    Ended(Result<ToolOutcome, ToolCallError>),
    /// The server cannot have heard of it.
    NotSent(String),
}

impl Line {
    pub(super) fn is_open(&self) -> bool {
        !self.peer.is_transport_closed()
    }

    pub(super) async fn call(
        &self,
        tool: &OfferedTool,
        arguments: JsonObject,
        context: &CallContext,
        timeout: Duration,
    ) -> Attempt {
        if !self.is_open() {
            return Attempt::NotSent("the MCP server is not connected".to_owned());
        }
        let params = CallToolRequestParams::new(tool.original.clone()).with_arguments(arguments);
        let unsure = |reason: String| match tool.definition.mutation {
            Mutation::ReadOnly => ToolCallError::Failed(reason),
            Mutation::Mutates | Mutation::Undeclared => ToolCallError::Unknown(reason),
        };
        // The server is told when a call is given up: rmcp sends that when the future is dropped.
        let answer = tokio::select! {
            answer = self.peer.call_tool_once(params) => answer,
            () = context.cancel.cancelled() => return Attempt::Ended(Err(unsure("cancelled".to_owned()))),
            () = tokio::time::sleep(timeout) => {
                return Attempt::Ended(Err(unsure(format!("timed out after {} ms", timeout.as_millis()))));
            }
        };
        match answer {
            Ok(response) => Attempt::Ended(outcome(response)),
            Err(error) => self.failure(error, unsure),
        }
    }

    fn failure(&self, error: ServiceError, unsure: impl Fn(String) -> ToolCallError) -> Attempt {
        match error {
            ServiceError::McpError(error) => Attempt::Ended(Err(refusal(&error))),
            ServiceError::TransportSend(error) => {
                self.broken.notify_one();
                let reason = cut(&format!("the MCP server did not answer: {}", causes(error.error.as_ref())));
                match how_far(&error) {
                    Reach::Nowhere => Attempt::NotSent(reason),
                    Reach::Refused => Attempt::Ended(Err(ToolCallError::Failed(reason))),
                    Reach::Unsure => Attempt::Ended(Err(unsure(reason))),
                }
            }
            ServiceError::TransportClosed => {
                self.broken.notify_one();
                Attempt::Ended(Err(unsure("the MCP server went away during the call".to_owned())))
            }
            other @ (ServiceError::UnexpectedResponse
            | ServiceError::SubscriptionLagged { .. }
            | ServiceError::Cancelled { .. }
            | ServiceError::Timeout { .. }
            | ServiceError::InputRequiredRoundsExceeded { .. }
            | _) => Attempt::Ended(Err(unsure(cut(&other.to_string())))),
        }
    }
}

/// How far a request came that was not answered.
enum Reach {
    Nowhere,
    Refused,
    Unsure,
}

fn how_far(error: &DynamicTransportError) -> Reach {
    match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::Client(error)) if error.is_connect() => Reach::Nowhere,
        Some(StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_)) => {
            Reach::Refused
        }
        Some(_) | None => Reach::Unsure,
    }
}

fn outcome(response: CallToolResponse) -> Result<ToolOutcome, ToolCallError> {
    match response {
        CallToolResponse::Complete(result) if result.is_error == Some(true) => {
            Err(ToolCallError::Failed(flatten(&result)))
        }
        CallToolResponse::Complete(result) => Ok(ToolOutcome { text: flatten(&result) }),
        CallToolResponse::InputRequired(_) => {
            Err(ToolCallError::Failed("the tool asks for more input, which cannot be given here".to_owned()))
        }
        CallToolResponse::Task(_) => {
            Err(ToolCallError::Unknown("the tool went on in the background".to_owned()))
        }
        _ => Err(ToolCallError::Unknown("the answer is of an unknown kind".to_owned())),
    }
}

/// The server answered that it will not, or that it failed.
fn refusal(error: &ErrorData) -> ToolCallError {
    let said = cut(&error.message);
    let is_before_the_run = [
        ErrorCode::PARSE_ERROR,
        ErrorCode::INVALID_REQUEST,
        ErrorCode::METHOD_NOT_FOUND,
        ErrorCode::INVALID_PARAMS,
    ]
    .contains(&error.code);
    if is_before_the_run { ToolCallError::NotRun(said) } else { ToolCallError::Failed(said) }
}

fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        line = format!("{line}: {cause}");
        source = cause.source();
    }
    line
}

fn cut(text: &str) -> String {
    text.chars().take(ERROR_CHARS_MAX).collect()
}
