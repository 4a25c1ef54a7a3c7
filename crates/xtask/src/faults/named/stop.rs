//! F-X3: SIGTERM in the middle of the load. The server finishes or parks what runs, ends with 0, and loses nothing.

use super::Setting;
use crate::faults::kills::{end_well, judge, wait_until_drained};
use crate::faults::load::{self, Door, Shape};
use crate::faults::report::Findings;
use crate::faults::server::{Home, Server};
use anyhow::Result;
use std::time::{Duration, Instant};

const STOPS: usize = 4;

pub(super) fn under_load(setting: &Setting<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    let home = Home::new(&setting.programs.shipped, 3)?;
    let door = Door::new(Instant::now());
    let shape = Shape { name: "stop", events: None, rest: Duration::from_millis(5), padding: 0 };
    let (server, history) = load::run(&door, shape, || conduct(&home, &door, &mut findings));
    end_well(server?, &mut findings)?;
    let mut judged = Findings::default();
    judge(&home, &history, &mut judged)?;
    findings.add(judged.without_figures());
    Ok(findings)
}

fn conduct(home: &Home, door: &Door, findings: &mut Findings) -> Result<Server> {
    for _ in 0..STOPS {
        let server = home.started()?;
        door.open_at(server.port);
        std::thread::sleep(Duration::from_millis(250));
        end_well(server, findings)?;
        door.no_server();
    }
    let server = home.started()?;
    door.open_at(server.port);
    door.stop_sending();
    wait_until_drained(&server, door)?;
    Ok(server)
}
