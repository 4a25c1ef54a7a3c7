//! F-X4: homes that cannot be used. One line with the reason, an exit code, and no panic.

use super::Setting;
use crate::faults::client::Client;
use crate::faults::history::{Known, SentEvent};
use crate::faults::report::Findings;
use crate::faults::server::{Home, Refused, wait};
use anyhow::{Context, Result};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// More connections than a process with 64 descriptors can hold.
const CONNECTIONS: usize = 90;
const FOREIGN_USER: u32 = 54_321;

pub(super) fn all(setting: &Setting<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    let program = &setting.programs.shipped;
    for (what, options) in [
        ("a read-only home", "size=4m,ro"),
        ("a home without room", "size=64k"),
        ("a home without inodes", "size=4m,nr_inodes=4"),
    ] {
        let home = Home::new(program, 1)?;
        match Mount::of(&home.path(), options)? {
            Some(_mount) => refuses(what, &home, &mut findings)?,
            None => findings.skip("F-X4 file systems", "the right to mount"),
        }
    }
    let home = Home::new(program, 1)?;
    if std::os::unix::fs::chown(home.path(), Some(FOREIGN_USER), None).is_ok() {
        refuses("a home of another user", &home, &mut findings)?;
    } else {
        findings.skip("F-X4 a home of another user", "root");
    }
    without_home(program, &mut findings)?;
    few_descriptors(program, &mut findings)?;
    Ok(findings)
}

fn refuses(what: &str, home: &Home, findings: &mut Findings) -> Result<()> {
    match home.start()? {
        Ok(_) => findings.violation(format!("{what}: the server starts")),
        Err(refused) => findings.demand(refused.is_one_line(), || format!("{what}: {refused:?}")),
    }
    Ok(())
}

fn without_home(program: &Path, findings: &mut Findings) -> Result<()> {
    let mut child =
        Command::new(program).arg("serve").env_clear().stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let ended = wait(&mut child, Duration::from_secs(10))?;
    if ended.is_none() {
        child.kill()?;
    }
    let output = child.wait_with_output()?;
    let refused = Refused { ended, stderr: String::from_utf8_lossy(&output.stderr).into_owned() };
    findings.demand(refused.is_one_line(), || format!("HOME unset: {refused:?}"));
    Ok(())
}

/// With 64 descriptors the server starts, survives more connections than it can hold, and answers again.
fn few_descriptors(program: &Path, findings: &mut Findings) -> Result<()> {
    let mut home = Home::new(program, 1)?;
    home.wrapper = ["/bin/sh", "-c", "ulimit -n 64; exec \"$0\" \"$@\""].iter().map(Into::into).collect();
    let mut server = match home.start()? {
        Ok(server) => server,
        Err(refused) => {
            findings.demand(refused.is_one_line(), || format!("ulimit -n 64: {refused:?}"));
            return Ok(());
        }
    };
    let crowd: Vec<_> =
        (0..CONNECTIONS).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, server.port))).collect();
    drop(crowd);
    let mut client = Client::new("delta", false, Instant::now());
    let event = SentEvent {
        source: "delta".to_owned(),
        external_id: "after the crowd".to_owned(),
        topic: "topic".to_owned(),
        text: "hello".to_owned(),
    };
    let started = Instant::now();
    let mut known = Known::Unknown;
    while known == Known::Unknown && started.elapsed() < Duration::from_secs(15) {
        known = client.ingest(server.port, &event);
        std::thread::sleep(Duration::from_millis(50));
    }
    findings.demand(known != Known::Unknown, || "ulimit -n 64: no answer after a crowd left".to_owned());
    findings.demand(!server.has_ended()?, || "ulimit -n 64: the server ended".to_owned());
    findings.demand(!home.stderr().contains("internal_error"), || "ulimit -n 64: a panic".to_owned());
    Ok(())
}

/// A small file system over a folder, for as long as the value lives.
pub(super) struct Mount(PathBuf);

impl Mount {
    /// `None` without the right to mount.
    pub(super) fn of(folder: &Path, options: &str) -> Result<Option<Self>> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "none"]).arg(folder);
        match mount.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status() {
            Ok(status) if status.success() => Ok(Some(Self(folder.to_owned()))),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context("cannot start mount"),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: a reader of the database may not have closed it yet.
        let unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} stays mounted; unmount it by hand", self.0.display());
        }
    }
}
