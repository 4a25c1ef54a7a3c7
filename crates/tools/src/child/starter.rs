//! The one thread that starts children. A child may ask the system to end it with its parent, and for the system that is the
//! thread that started it: threads of a runtime come and go, this one stays as long as the process.

use crate::descriptors;
use std::io;
use std::sync::LazyLock;
use std::sync::mpsc::{self, Sender};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

type Work = Box<dyn FnOnce() + Send>;

static STARTER: LazyLock<Option<Sender<Work>>> = LazyLock::new(|| {
    let (sender, work) = mpsc::channel::<Work>();
    let run = move || work.into_iter().for_each(|work| work());
    let started = std::thread::Builder::new().name("children".to_owned()).spawn(run);
    started.inspect_err(|error| tracing::error!(%error, "No thread can be started for children")).ok()?;
    Some(sender)
});

/// Starts a child from the lasting thread. Needs a Tokio runtime around it.
pub(super) fn start(mut command: Command) -> io::Result<Child> {
    let gone = || io::Error::other("no thread starts children");
    let runtime = Handle::try_current().map_err(io::Error::other)?;
    let (answer, started) = mpsc::sync_channel(1);
    let work = move || {
        let _runtime = runtime.enter();
        descriptors::keep_from_children();
        // Nobody waits for it any more: dropping it ends it.
        drop(answer.send(command.spawn()));
    };
    let starter = STARTER.as_ref().ok_or_else(gone)?;
    starter.send(Box::new(work)).map_err(|_| gone())?;
    started.recv().map_err(|_| gone())?
}
