//! The connectors' door: seed 003's walk and everything around it.

mod binding;
mod budget;
mod clients;
mod delivery;
mod frames;
mod limits;
mod name;
mod neighbour;
mod people;
mod receipts;
mod restart;
mod siblings;
mod stranger;
mod walk;

use cortex_testkit::ServerSetup;
use serde_json::json;

/// A model that wants to make a schedule, whatever it is told: a person is asked.
fn asking() -> ServerSetup {
    let arguments = json!({ "cron": "0 9 * * *", "what": "stretch", "timezone": "UTC" });
    ServerSetup::scripted(json!({
        "answers": [{ "when": { "afterTool": "schedule.create" }, "say": "There you are." }],
        "otherwise": { "toolCalls": [{ "name": "schedule.create", "arguments": arguments }] },
    }))
}
