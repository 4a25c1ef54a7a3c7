//! The log: one line for each thing handled, cleaned of secrets, to stderr or to a file that is kept small.

use crate::escape::for_log;
use crate::redact::{RedactingWriter, Redactor};
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{FormatFields, Writer, debug_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// A log file that has grown beyond this is put aside; one older file is kept.
const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Where log lines go.
#[derive(Debug)]
pub(crate) enum LogSink {
    Stderr,
    /// Stderr of a process whose parent keeps the log: without times.
    Parent,
    File(PathBuf),
}

/// Starts the log of this process.
pub(crate) fn start(level: &str, sink: LogSink, redactor: Redactor) -> io::Result<()> {
    let filter = filter(level.parse::<LevelFilter>().unwrap_or(LevelFilter::INFO));
    match sink {
        LogSink::Stderr => {
            let writer = Cleaning { redactor, open: io::stderr };
            let lines = tracing_subscriber::fmt::layer()
                .fmt_fields(fields())
                .with_ansi(io::stderr().is_terminal())
                .with_target(false)
                .with_writer(writer);
            tracing_subscriber::registry().with(filter).with(lines).init();
        }
        LogSink::Parent => {
            let writer = Cleaning { redactor, open: io::stderr };
            let lines = tracing_subscriber::fmt::layer()
                .fmt_fields(fields())
                .with_ansi(false)
                .with_target(false)
                .without_time()
                .with_writer(writer);
            tracing_subscriber::registry().with(filter).with(lines).init();
        }
        LogSink::File(path) => {
            let file: &'static Mutex<LogFile> = Box::leak(Box::new(Mutex::new(LogFile::open(&path)?)));
            let writer = Cleaning { redactor, open: move || SharedFile(file) };
            let lines = tracing_subscriber::fmt::layer()
                .fmt_fields(fields())
                .with_ansi(false)
                .with_target(false)
                .with_writer(writer);
            tracing_subscriber::registry().with(filter).with(lines).init();
        }
    }
    Ok(())
}

/// One event is one line, whoever wrote what is in it: breaks, escapes and marks of direction are spelled out.
fn fields() -> impl for<'writer> FormatFields<'writer> + Send + Sync + 'static {
    debug_fn(|writer: &mut Writer<'_>, field: &Field, said: &dyn std::fmt::Debug| {
        let said = format!("{said:?}");
        let said = for_log(&said);
        match field.name() {
            "message" => write!(writer, "{said}"),
            name => write!(writer, "{name}={said}"),
        }
    })
    .delimited(" ")
}

fn filter(level: LevelFilter) -> Targets {
    // Libraries are heard only when something is wrong, or when one looks closely.
    let others = if level >= LevelFilter::DEBUG { LevelFilter::INFO } else { LevelFilter::WARN };
    // The MCP client tells every request at info: nobody who looks at Cortex closely wants that.
    Targets::new()
        .with_default(others.min(level))
        .with_target("rmcp", LevelFilter::WARN.min(level))
        .with_target("cortex", level)
}

/// Puts a redactor before every writer it makes.
struct Cleaning<F> {
    redactor: Redactor,
    open: F,
}

impl<'a, W: Write, F: Fn() -> W> MakeWriter<'a> for Cleaning<F> {
    type Writer = RedactingWriter<W>;

    fn make_writer(&'a self) -> Self::Writer {
        RedactingWriter::new(self.redactor.clone(), (self.open)())
    }
}

#[derive(Clone, Copy)]
struct SharedFile(&'static Mutex<LogFile>);

impl Write for SharedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.lock() {
            Ok(mut file) => file.append(bytes),
            Err(_) => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct LogFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, bytes })
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes > LOG_BYTES_MAX {
            std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
            *self = Self::open(&self.path)?;
        }
        self.file.write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn libraries_are_heard_less_than_cortex_and_the_mcp_client_least() {
        let debug = filter(LevelFilter::DEBUG);
        assert!(debug.would_enable("cortex_tools::mcp", &Level::DEBUG));
        assert!(debug.would_enable("hyper", &Level::INFO) && !debug.would_enable("hyper", &Level::DEBUG));
        assert!(debug.would_enable("rmcp::service", &Level::WARN));
        assert!(!debug.would_enable("rmcp::service", &Level::INFO));
        assert!(!filter(LevelFilter::ERROR).would_enable("rmcp", &Level::WARN));
    }

    /// What a log shows of these events.
    fn logged(events: impl FnOnce()) -> String {
        static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());
        struct Kept;
        impl Write for Kept {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                LINES.lock().unwrap().extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let writer = Cleaning { redactor: Redactor::default(), open: || Kept };
        let lines = tracing_subscriber::fmt::layer()
            .fmt_fields(fields())
            .with_ansi(false)
            .with_target(false)
            .without_time()
            .with_writer(writer);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), events);
        String::from_utf8(LINES.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn an_event_is_one_line_and_nothing_in_it_acts() {
        let said = "a\n2026-01-01T00:00:00Z ERROR forged\u{1b}[2J\u{202e}";
        let lines = logged(|| {
            tracing::info!(skill = "s", "{said}");
            tracing::warn!(error = %said, text = said, "It broke");
        });
        let spelled = "a\\n2026-01-01T00:00:00Z ERROR forged\\u{1b}[2J\\u{202e}";
        let expected =
            format!(" INFO {spelled} skill=\"s\"\n WARN It broke error={spelled} text=\"{spelled}\"\n");
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_log_that_has_grown_is_put_aside_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cortex.log");
        File::create(&path).unwrap().set_len(LOG_BYTES_MAX + 1).unwrap();
        let mut log = LogFile::open(&path).unwrap();
        log.append(b"fresh\n").unwrap();
        log.append(b"line\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "fresh\nline\n");
        assert_eq!(std::fs::metadata(folder.path().join("cortex.log.1")).unwrap().len(), LOG_BYTES_MAX + 1);
    }
}
