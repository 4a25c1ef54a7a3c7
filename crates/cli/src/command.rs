//! The commands, one file each.

mod approval;
mod backup;
mod bench;
mod channel;
mod chat;
mod child_host;
mod completions;
mod config;
mod connector;
mod context;
mod doctor;
mod eval;
mod gardener;
mod health;
mod inbox;
mod key;
mod logs;
mod man;
mod memory;
mod op;
mod outbox;
mod restart;
mod restore;
mod schedule;
mod send;
mod serve;
mod shadow;
mod skill;
mod skill_host;
mod start;
mod status;
mod stop;
mod trace;
mod usage;
mod version;

use crate::context::Context;
use crate::exit::{Exit, Failure};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(serve::Args),
    Start(start::Args),
    Stop(stop::Args),
    Restart(restart::Args),
    Status(status::Args),
    Health(health::Args),
    Doctor(doctor::Args),
    Logs(logs::Args),
    Send(send::Args),
    Chat(chat::Args),
    Inbox(inbox::Args),
    Outbox(outbox::Args),
    Memory(memory::Args),
    Ops(op::Args),
    Gardener(gardener::Args),
    Approvals(approval::Args),
    Schedule(schedule::Args),
    Skill(skill::Args),
    Trace(trace::Args),
    Channel(channel::Args),
    Connector(connector::Args),
    Shadow(shadow::Args),
    Context(context::Args),
    Usage(usage::Args),
    Config(config::Args),
    Key(key::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    Bench(bench::Args),
    #[command(hide = true)]
    Eval(eval::Args),
    Completions(completions::Args),
    Man(man::Args),
    Version(version::Args),
    #[command(hide = true)]
    ChildHost(child_host::Args),
    #[command(hide = true)]
    SkillHost(skill_host::Args),
}

impl Command {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        match self {
            Self::Serve(args) => serve::run(args, context),
            Self::Start(args) => start::run(args, context),
            Self::Stop(args) => stop::run(args, context),
            Self::Restart(args) => restart::run(args, context),
            Self::Status(args) => status::run(args, context),
            Self::Health(args) => health::run(args, context),
            Self::Doctor(args) => doctor::run(args, context),
            Self::Logs(args) => logs::run(args, context),
            Self::Send(args) => send::run(args, context),
            Self::Chat(args) => chat::run(args, context),
            Self::Inbox(args) => inbox::run(args, context),
            Self::Outbox(args) => outbox::run(args, context),
            Self::Memory(args) => memory::run(args, context),
            Self::Gardener(args) => gardener::run(args, context),
            Self::Ops(args) => op::run(args, context),
            Self::Approvals(args) => approval::run(args, context),
            Self::Schedule(args) => schedule::run(args, context),
            Self::Skill(args) => skill::run(args, context),
            Self::Trace(args) => trace::run(args, context),
            Self::Channel(args) => channel::run(args, context),
            Self::Connector(args) => connector::run(args, context),
            Self::Shadow(args) => shadow::run(args, context),
            Self::Context(args) => context::run(args, context),
            Self::Usage(args) => usage::run(args, context),
            Self::Config(args) => config::run(args, context),
            Self::Key(args) => key::run(args, context),
            Self::Backup(args) => backup::run(args, context),
            Self::Restore(args) => restore::run(args, context),
            Self::Bench(args) => bench::run(args, context),
            Self::Eval(args) => eval::run(args, context),
            Self::Completions(args) => completions::run(args, context),
            Self::Man(args) => man::run(args, context),
            Self::Version(args) => version::run(args, context),
            Self::ChildHost(args) => child_host::run(args),
            Self::SkillHost(args) => skill_host::run(args),
        }
    }
}
