//! Whose the sockets of this machine are. A default address is open to every user here who comes first, and what answers there
//! would get whole prompts, so it is believed only from somebody who could read them anyway. In the same way a program that
//! connects to us is believed to be the owner's only if it runs as the owner.

use reqwest::Url;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Accounts below this are made by the administrator, for services.
const PEOPLE_FROM: u32 = 1_000;
const ROOT: u32 = 0;
/// The state of a socket that listens.
const LISTEN: &str = "0A";
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// A socket can be passed over while others come and go, so one that is not found is looked for again.
const LOOKS: usize = 2;
/// What a socket has that no process holds any more; the system names root as its user.
const NO_INODE: &str = "0";

/// Whether something at this address may be believed to be the service that it says it is: it is on this machine, and its
/// port belongs to this user, to root, or to the system account of that name.
pub fn is_believed(url: &Url, service: &str) -> bool {
    is_loopback(url) && !is_elsewhere(&listeners(url), service)
}

/// The user who listens there although the service is none of theirs, if there is one.
pub fn stranger_at(url: &str, service: &str) -> Option<u32> {
    let url = Url::parse(url).ok().filter(is_loopback)?;
    let strangers = strangers(&listeners(&url)?, &passwd(), rustix::process::geteuid().as_raw(), service);
    strangers.first().copied()
}

/// Whether the program that connected from `client` of this machine to `server` runs as the same user as this process. None
/// where the system does not tell, on other systems than Linux.
pub fn is_own_client(client: SocketAddr, server: SocketAddr) -> Option<bool> {
    let own = rustix::process::geteuid().as_raw();
    let mut is_told = false;
    for table in [TABLES; LOOKS].concat() {
        let Ok(table) = File::open(table) else { continue };
        is_told = true;
        let lines = BufReader::new(table).lines().map_while(Result::ok);
        if let Some(user) = lines.filter_map(|line| user_of_client(&line, client, server)).next() {
            return Some(user == own);
        }
    }
    is_told.then_some(false)
}

/// The user of the socket in this line, if it is the client's end of the connection and a process holds it.
fn user_of_client(line: &str, client: SocketAddr, server: SocketAddr) -> Option<u32> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let is_it = is_at(fields.next()?, client) && is_at(fields.next()?, server);
    if !is_it {
        return None;
    }
    let user = fields.nth(4)?.parse().ok()?;
    (fields.nth(1)? != NO_INODE).then_some(user)
}

/// Whether this is the address in the words of the table: hexadecimal, in 32-bit words of this machine's byte order.
fn is_at(field: &str, address: SocketAddr) -> bool {
    let Some((ip, port)) = field.rsplit_once(':') else { return false };
    if u16::from_str_radix(port, 16) != Ok(address.port()) {
        return false;
    }
    let word = |at: usize| u32::from_str_radix(ip.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let found = match ip.len() {
        8 => word(0).map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes))),
        32 => [0, 8, 16, 24].map(word).into_iter().collect::<Option<Vec<_>>>().and_then(|words| {
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            Some(IpAddr::V6(Ipv6Addr::from(bytes)))
        }),
        _ => None,
    };
    found.is_some_and(|found| found.to_canonical() == address.ip().to_canonical())
}

pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Where the system does not tell, on other systems than Linux, nobody is doubted.
fn is_elsewhere(listeners: &Option<Vec<u32>>, service: &str) -> bool {
    listeners.as_ref().is_some_and(|found| {
        !strangers(found, &passwd(), rustix::process::geteuid().as_raw(), service).is_empty()
    })
}

/// The users who listen on the port of an address, at whichever address of their own.
fn listeners(url: &Url) -> Option<Vec<u32>> {
    let port = url.port_or_known_default()?;
    let tables = TABLES.map(|table| std::fs::read_to_string(table).ok());
    // Without IPv6 the second is missing.
    tables[0].as_ref()?;
    Some(tables.iter().flatten().flat_map(|table| users_of(table, port)).collect())
}

fn passwd() -> String {
    std::fs::read_to_string("/etc/passwd").unwrap_or_default()
}

fn users_of(table: &str, port: u16) -> Vec<u32> {
    let user = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, of) = fields.get(1)?.rsplit_once(':')?;
        let is_there = *fields.get(3)? == LISTEN && u16::from_str_radix(of, 16).ok()? == port;
        fields.get(7).filter(|_| is_there)?.parse().ok()
    };
    table.lines().filter_map(user).collect()
}

fn strangers(users: &[u32], passwd: &str, own: u32, service: &str) -> Vec<u32> {
    let accounts = passwd.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let id: u32 = fields.nth(1)?.parse().ok()?;
        (name == service && id < PEOPLE_FROM).then_some(id)
    });
    let known: Vec<u32> = accounts.chain([own, ROOT]).collect();
    users.iter().copied().filter(|user| !known.contains(user)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1E45 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 111 1 0 100 0 0 10 0
   1: 0100007F:2CAA 00000000:0000 0A 00000000:00000000 00:00000000 00000000   998        0 112 1 0 100 0 0 10 0
   2: 0100007F:9C40 0100007F:1E45 01 00000000:00000000 00:00000000 00000000  1002        0 113 1 0 100 0 0 10 0
   3: 00000000000000000000000001000000:1E46 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 114 1
";
    const PASSWD: &str =
        "root:x:0:0::/root:/bin/sh\nollama:x:998:998::/:/bin/false\nengram:x:1001:1001::/:/bin/sh\n";

    #[test]
    fn only_sockets_that_listen_on_the_port_count() {
        assert_eq!(users_of(TABLE, 7749), [1001]);
        assert_eq!(users_of(TABLE, 7750), [0]);
        assert_eq!(users_of(TABLE, 11434), [998]);
        assert_eq!(users_of(TABLE, 40000), [] as [u32; 0]);
    }

    #[test]
    fn another_user_is_a_stranger_and_the_account_of_a_service_is_not() {
        let check = |users: &[u32], service: &str| strangers(users, PASSWD, 1000, service);
        assert_eq!(check(&[1000, 0], "engram"), [] as [u32; 0]);
        assert_eq!(check(&[1001], "engram"), [1001], "a person may have any name");
        assert_eq!(check(&[998], "ollama"), [] as [u32; 0]);
        assert_eq!(check(&[998], "engram"), [998]);
        assert_eq!(check(&[1000, 1001], "synapse"), [1001], "either may answer");
    }

    #[test]
    fn a_client_is_known_by_both_ends_and_only_while_somebody_holds_it() {
        let check = |line: &str, client: &str, server: &str| {
            user_of_client(line, client.parse().unwrap(), server.parse().unwrap())
        };
        let line = TABLE.lines().nth(3).unwrap();
        if cfg!(target_endian = "little") {
            assert_eq!(check(line, "127.0.0.1:40000", "127.0.0.1:7749"), Some(1002));
            assert_eq!(check(line, "[::ffff:127.0.0.1]:40000", "127.0.0.1:7749"), Some(1002));
            let six = "00000000000000000000000001000000";
            let other = line.replace("0100007F", six);
            assert_eq!(check(&other, "[::1]:40000", "[::1]:7749"), Some(1002));
            assert_eq!(check(&line.replace(" 113 ", " 0 "), "127.0.0.1:40000", "127.0.0.1:7749"), None);
        }
        for (client, server) in [
            ("127.0.0.1:7749", "127.0.0.1:40000"),
            ("127.0.0.1:40001", "127.0.0.1:7749"),
            ("127.0.0.2:40000", "127.0.0.1:7749"),
            ("127.0.0.1:40000", "127.0.0.2:7749"),
        ] {
            assert_eq!(check(line, client, server), None, "{client} to {server}");
        }
        assert_eq!(check(TABLE.lines().next().unwrap(), "127.0.0.1:40000", "127.0.0.1:7749"), None);
        assert_eq!(check("", "127.0.0.1:40000", "127.0.0.1:7749"), None);
    }

    #[test]
    fn a_client_of_this_process_is_its_own_and_nobody_is_not() {
        if !std::path::Path::new(TABLES[0]).exists() {
            eprintln!("skipped: this system has no {}", TABLES[0]);
            return;
        }
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A machine may have no IPv6.
            let Ok(listener) = std::net::TcpListener::bind(address) else { continue };
            let server = listener.local_addr().unwrap();
            let client = std::net::TcpStream::connect(server).unwrap();
            let (accepted, peer) = listener.accept().unwrap();
            assert_eq!(is_own_client(peer, server), Some(true), "{address}");
            assert_eq!(is_own_client(server, server), Some(false), "{address}: nobody is there");
            drop((client, accepted));
        }
    }

    #[test]
    fn a_listener_of_ours_is_believed_and_only_this_machine_is_looked_at() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let own = format!("http://{}", socket.local_addr().unwrap());
        assert!(is_believed(&Url::parse(&own).unwrap(), "engram") && stranger_at(&own, "engram").is_none());
        for (url, expected) in [
            ("http://localhost:7750", true),
            ("http://127.0.0.1:7750/v1", true),
            ("http://127.9.9.9", true),
            ("http://[::1]:11434", true),
            ("http://localhost.example.org", false),
            ("http://10.0.0.1", false),
            ("http://0.0.0.0", false),
            ("http://[::2]", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}
