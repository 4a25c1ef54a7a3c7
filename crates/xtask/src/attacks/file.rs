//! Files: who may read what the server keeps, and whose files it runs.

use super::Attack;
use super::judgement::Judgement;
use super::target::{Arena, Setup};
use super::wire::Request;
use crate::faults::Extent;
use crate::faults::server::Home;
use anyhow::Result;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "nobody_else_reads_the_home", statement: "39", extent: Extent::Short, run: home_modes },
    Attack {
        name: "a_skill_that_others_can_write_is_not_loaded",
        statement: "31",
        extent: Extent::Short,
        run: open_skill,
    },
];

fn home_modes(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let mut home = Home::with_script(&arena.program, &super::target::script())?;
    home.wrapper = ["sh", "-c", "umask 000; exec \"$@\"", "sh"].map(Into::into).into();
    // The server makes its home itself, as on a first day.
    fs::remove_dir(home.path())?;
    let server = home.started()?;
    let health = Request::get("/health").send(server.port)?;
    judgement.control(health.code == 200, || format!("/health: {}", health.code));
    let made = fs::metadata(home.path())?.permissions().mode() & 0o777;
    judgement.demand(made == 0o700, || format!("the home has mode {made:o}"));
    let mut seen = 0;
    look(&home.path(), &mut |path, mode| {
        seen += 1;
        judgement.demand(mode & 0o077 == 0, || format!("{} has mode {mode:o}", path.display()));
    })?;
    judgement.control(seen > 3, || format!("only {seen} files were looked at"));
    Ok(())
}

fn look(folder: &Path, see: &mut impl FnMut(&Path, u32)) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let about = fs::symlink_metadata(&path)?;
        // A folder that is closed hides what is below it.
        if about.is_dir() && about.permissions().mode() & 0o077 != 0 {
            look(&path, see)?;
        } else if about.is_file() {
            see(&path, about.permissions().mode() & 0o777);
        }
    }
    Ok(())
}

/// Every file of a home, however deep.
pub(super) fn files_below(home: PathBuf) -> Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![home]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    Ok(files)
}

const MANIFEST: &str =
    r#"{"id": "notes", "name": "notes", "version": "0.1.0", "runtimeApiVersion": "1", "main": "main.js"}"#;
const MAIN: &str = "export default { listTools() { return [{ name: 'notes.list', description: 'Lists notes.', \
    inputSchema: { type: 'object' }, mutatesState: false }]; }, async execute() { return { content: 'none' }; } };";

fn open_skill(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let setup = || Setup {
        settings: json!({"skillDirs": ["skills"]}),
        files: vec![
            ("skills/notes/skill.json".to_owned(), MANIFEST.to_owned()),
            ("skills/notes/main.js".to_owned(), MAIN.to_owned()),
        ],
        ..Setup::default()
    };
    let loads = |modes: &[(&str, u32)]| -> Result<bool> {
        let target = arena.server_with(&setup())?;
        let path = target.home.path();
        drop(target.server);
        for (place, mode) in modes {
            fs::set_permissions(path.join(place), fs::Permissions::from_mode(*mode))?;
        }
        Ok(match target.home.start()? {
            Ok(server) => {
                let tools = Request::get("/api/v2/tools").owner().send(server.port)?;
                tools.text().contains("notes.list")
            }
            Err(_) => false,
        })
    };
    let closed = [("skills", 0o755), ("skills/notes", 0o755), ("skills/notes/main.js", 0o644)];
    judgement.control(loads(&closed)?, || "a closed skill does not load".to_owned());
    for (place, mode) in [
        ("skills/notes", 0o777),
        ("skills/notes", 0o775),
        ("skills/notes/main.js", 0o666),
        ("skills/notes/main.js", 0o664),
        ("skills/notes/skill.json", 0o666),
    ] {
        let loaded = loads(&[&closed[..], &[(place, mode)]].concat())?;
        judgement.demand(!loaded, || format!("{place} with mode {mode:o} is loaded"));
    }
    Ok(())
}
