//! Reads what strace wrote: system calls of several threads, some cut in two by others.
//!
//! Made for `strace -f -y -xx`: every string is hexadecimal, every descriptor carries its path.

use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::io::BufRead;

/// What is traced: everything that changes a file, and both ends of a conversation.
pub(crate) const CALLS: &str = "openat,open,creat,write,pwrite64,writev,pwritev,pwritev2,fsync,fdatasync,sync_file_range,\
    ftruncate,truncate,fallocate,rename,renameat,renameat2,unlink,unlinkat,sendto,sendmsg,recvfrom,read";

/// Something that happened, in the order in which it began; only a sync has a separate end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Happening {
    Created {
        path: String,
    },
    Wrote {
        path: String,
        offset: u64,
        bytes: Vec<u8>,
    },
    Truncated {
        path: String,
        length: u64,
    },
    Renamed {
        from: String,
        to: String,
    },
    Unlinked {
        path: String,
    },
    SyncBegan {
        thread: u32,
        path: String,
    },
    SyncEnded {
        thread: u32,
        path: String,
        worked: bool,
    },
    /// The server read this from a connection.
    Heard {
        socket: String,
        bytes: Vec<u8>,
    },
    /// The server began to write this to a connection: from here on the client may know it.
    Said {
        socket: String,
        bytes: Vec<u8>,
    },
}

/// Files whose writes must all be understood; anything else is ignored.
pub(crate) struct Reader<'a> {
    /// Paths below it are kept.
    home: &'a str,
    /// The first half of a call that another thread cut in two.
    begun: BTreeMap<u32, String>,
    happenings: Vec<Happening>,
}

/// A call as one line: name, arguments, and what it returned once it did.
struct Call<'a> {
    thread: u32,
    name: &'a str,
    arguments: &'a str,
    returned: Option<&'a str>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(home: &'a str) -> Self {
        Self { home, begun: BTreeMap::new(), happenings: Vec::new() }
    }

    pub(crate) fn read(mut self, lines: impl BufRead) -> Result<Vec<Happening>> {
        for line in lines.lines() {
            let line = line?;
            self.line(&line).with_context(|| format!("in the trace: {}", &line[..line.len().min(200)]))?;
        }
        Ok(self.happenings)
    }

    fn line(&mut self, line: &str) -> Result<()> {
        let (thread, rest) = line.split_once(' ').context("a line begins with a thread")?;
        let thread: u32 = thread.parse().context("a thread is a number")?;
        let rest = rest.trim_start();
        if rest.starts_with("+++") || rest.starts_with("---") {
            return Ok(());
        }
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            let (name, arguments) = begun.split_once('(').context("a call has arguments")?;
            self.began(&Call { thread, name, arguments, returned: None })?;
            self.begun.insert(thread, begun.to_owned());
            return Ok(());
        }
        if let Some(resumed) = rest.strip_prefix("<... ") {
            let (_, end) = resumed.split_once(" resumed>").context("a resumed call has an end")?;
            let begun = self.begun.remove(&thread).context("a resumed call was begun")?;
            let whole = begun + end;
            return self.ended(&call(thread, &whole)?);
        }
        let whole = call(thread, rest)?;
        self.began(&whole)?;
        self.ended(&whole)
    }

    /// Writes count from their beginning: the disk may have any part of them by then.
    fn began(&mut self, call: &Call<'_>) -> Result<()> {
        match call.name {
            "pwrite64" => {
                let Some(path) = self.ours(call.arguments) else { return Ok(()) };
                let offset =
                    numbers_behind_strings(call.arguments).nth(1).context("pwrite64 has an offset")?;
                let bytes = strings(call.arguments)?.concat();
                self.happenings.push(Happening::Wrote { path, offset, bytes });
            }
            "write" | "writev" | "sendto" | "sendmsg" => {
                if let Some(socket) = socket(call.arguments) {
                    let bytes = strings(call.arguments)?.concat();
                    self.happenings.push(Happening::Said { socket, bytes });
                } else if let Some(path) = self.ours(call.arguments).filter(|path| is_database(path)) {
                    bail!("{path} is written by {}, which the replay does not know", call.name);
                }
            }
            "ftruncate" => {
                let Some(path) = self.ours(call.arguments) else { return Ok(()) };
                let length = numbers_behind_strings(call.arguments).next().context("a length")?;
                self.happenings.push(Happening::Truncated { path, length });
            }
            "fsync" | "fdatasync" => {
                if let Some(path) = self.ours(call.arguments) {
                    self.happenings.push(Happening::SyncBegan { thread: call.thread, path });
                }
            }
            "pwritev" | "pwritev2" | "truncate" | "fallocate" | "sync_file_range" => {
                if let Some(path) = self.ours(call.arguments).filter(|path| is_database(path)) {
                    bail!("{path} is changed by {}, which the replay does not know", call.name);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn ended(&mut self, call: &Call<'_>) -> Result<()> {
        let worked =
            call.returned.is_some_and(|returned| !returned.starts_with('-') && !returned.starts_with('?'));
        match call.name {
            "fsync" | "fdatasync" => {
                if let Some(path) = self.ours(call.arguments) {
                    self.happenings.push(Happening::SyncEnded { thread: call.thread, path, worked });
                }
            }
            "openat" | "open" | "creat" if worked => {
                let creates = call.name == "creat" || call.arguments.contains("O_CREAT");
                let path = call.returned.and_then(|returned| self.ours(returned));
                if let Some(path) = path.filter(|_| creates) {
                    self.happenings.push(Happening::Created { path });
                }
            }
            "rename" | "renameat" | "renameat2" if worked => {
                let mut paths = strings(call.arguments)?.into_iter().map(text);
                if let (Some(from), Some(to)) = (paths.next(), paths.next()) {
                    self.happenings.push(Happening::Renamed { from, to });
                }
            }
            "unlink" | "unlinkat" if worked => {
                if let Some(path) = strings(call.arguments)?.into_iter().map(text).next() {
                    self.happenings.push(Happening::Unlinked { path });
                }
            }
            "recvfrom" | "read" if worked => {
                if let Some(socket) = socket(call.arguments) {
                    let bytes = strings(call.arguments)?.concat();
                    self.happenings.push(Happening::Heard { socket, bytes });
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The path of the descriptor that begins the arguments, if it lies in the home.
    fn ours(&self, arguments: &str) -> Option<String> {
        descriptor(arguments).filter(|path| path.starts_with(self.home))
    }
}

fn is_database(path: &str) -> bool {
    path.contains("cortex.db")
}

fn call(thread: u32, line: &str) -> Result<Call<'_>> {
    let (name, rest) = line.split_once('(').context("a call has arguments")?;
    let returns = |end: &usize| rest[end + 1..].trim_start().starts_with("= ");
    let end = rest.match_indices(')').map(|(end, _)| end).find(returns).context("a call returns")?;
    let returned = rest[end..].split_once("= ").map(|(_, returned)| returned);
    Ok(Call { thread, name, arguments: &rest[..end], returned })
}

/// `3<\x2f\x74>` and what follows: the path behind the first descriptor.
fn descriptor(arguments: &str) -> Option<String> {
    let (number, rest) = arguments.split_once('<')?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
    let (path, _) = rest.split_once('>')?;
    Some(text(unescape(path).ok()?))
}

fn socket(arguments: &str) -> Option<String> {
    descriptor(arguments).filter(|path| path.starts_with("socket:") || path.starts_with("TCP"))
}

/// Every quoted string of the arguments, in order.
fn strings(arguments: &str) -> Result<Vec<Vec<u8>>> {
    let mut parts = arguments.split('"').skip(1);
    let mut strings = Vec::new();
    while let Some(string) = parts.next() {
        ensure!(!parts.next().unwrap_or_default().starts_with("..."), "a string of the trace was cut short");
        strings.push(unescape(string)?);
    }
    Ok(strings)
}

/// The plain numbers behind the last string, or behind the descriptor when there is none.
fn numbers_behind_strings(arguments: &str) -> impl Iterator<Item = u64> {
    let behind = arguments.rsplit(['"', '>']).next().unwrap_or_default();
    behind.split(',').filter_map(|word| word.trim().parse().ok())
}

fn unescape(hexadecimal: &str) -> Result<Vec<u8>> {
    let bytes = hexadecimal.as_bytes();
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => bail!("a string of the trace is not hexadecimal"),
    };
    bytes
        .chunks(4)
        .map(|escape| match escape {
            [b'\\', b'x', high, low] => Ok(digit(*high)? << 4 | digit(*low)?),
            _ => bail!("a string of the trace is not hexadecimal"),
        })
        .collect()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> String {
        text.bytes().map(|byte| format!("\\x{byte:02x}")).collect()
    }

    fn read(lines: &[String]) -> Result<Vec<Happening>> {
        Reader::new("/h").read(lines.join("\n").as_bytes())
    }

    fn on_log(call: &str) -> String {
        format!("7 {}", call.replace("LOG", &format!("12<{}>", hex("/h/cortex.db-wal"))))
    }

    #[test]
    fn writes_truncates_and_syncs_of_the_home_are_read() {
        let log = "/h/cortex.db-wal".to_owned();
        let happenings = read(&[
            format!(
                "7 openat(AT_FDCWD<{}>, \"{}\", O_RDWR|O_CREAT, 0600) = 12<{}>",
                hex("/"),
                hex(&log),
                hex(&log)
            ),
            on_log(&format!("pwrite64(LOG, \"{}\", 2, 4096)     = 2", hex("ab"))),
            on_log("ftruncate(LOG, 17) = 0"),
            on_log("fsync(LOG) = 0"),
            format!("7 unlink(\"{}\") = 0", hex(&log)),
            "7 +++ exited with 0 +++".to_owned(),
        ]);
        assert_eq!(
            happenings.unwrap(),
            [
                Happening::Created { path: log.clone() },
                Happening::Wrote { path: log.clone(), offset: 4096, bytes: b"ab".to_vec() },
                Happening::Truncated { path: log.clone(), length: 17 },
                Happening::SyncBegan { thread: 7, path: log.clone() },
                Happening::SyncEnded { thread: 7, path: log.clone(), worked: true },
                Happening::Unlinked { path: log },
            ]
        );
    }

    #[test]
    fn a_call_cut_in_two_begins_where_it_began_and_ends_where_it_ended() {
        let log = "/h/cortex.db-wal".to_owned();
        let socket = hex("socket:[9]");
        let happenings = read(&[
            on_log("fsync(LOG <unfinished ...>"),
            format!("8 sendto(5<{socket}>, \"{}\", 2, MSG_NOSIGNAL, NULL, 0 <unfinished ...>", hex("ok")),
            "7 <... fsync resumed>) = -1 EIO (Input/output error) (INJECTED)".to_owned(),
            "8 <... sendto resumed>)   = 2".to_owned(),
            format!("8 recvfrom(5<{socket}>,  <unfinished ...>"),
            format!("8 <... recvfrom resumed>\"{}\", 8192, 0, NULL, NULL) = 3", hex("hey")),
        ]);
        assert_eq!(
            happenings.unwrap(),
            [
                Happening::SyncBegan { thread: 7, path: log.clone() },
                Happening::Said { socket: "socket:[9]".to_owned(), bytes: b"ok".to_vec() },
                Happening::SyncEnded { thread: 7, path: log, worked: false },
                Happening::Heard { socket: "socket:[9]".to_owned(), bytes: b"hey".to_vec() },
            ]
        );
    }

    #[test]
    fn the_parts_of_a_vector_are_one_answer() {
        let (socket, head, body) = (hex("socket:[9]"), hex("head"), hex("body"));
        let vector = format!("[{{iov_base=\"{head}\", iov_len=4}}, {{iov_base=\"{body}\", iov_len=4}}]");
        let happenings = read(&[format!("8 writev(5<{socket}>, {vector}, 2) = 8")]).unwrap();
        assert_eq!(
            happenings,
            [Happening::Said { socket: "socket:[9]".to_owned(), bytes: b"headbody".to_vec() }]
        );
    }

    #[test]
    fn a_failed_read_and_a_foreign_file_are_nothing() {
        let happenings = read(&[
            format!("8 recvfrom(5<{}>, 0x7f, 128, 0, NULL, NULL) = -1 EAGAIN (try again)", hex("socket:[9]")),
            format!("8 pwrite64(5<{}>, \"{}\", 1, 0) = 1", hex("/elsewhere"), hex("a")),
        ]);
        assert_eq!(happenings.unwrap(), []);
    }

    #[test]
    fn a_string_that_was_cut_short_is_an_error() {
        assert!(read(&[on_log(&format!("pwrite64(LOG, \"{}\"..., 4096, 0) = 4096", hex("ab")))]).is_err());
    }

    #[test]
    fn a_way_to_write_that_the_replay_does_not_know_is_an_error() {
        assert!(read(&[on_log(&format!("write(LOG, \"{}\", 1) = 1", hex("a")))]).is_err());
        assert!(read(&[on_log("fallocate(LOG, 0, 0, 4096) = 0")]).is_err());
    }
}
