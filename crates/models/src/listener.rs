//! Who listens on a port of this machine. A default address is open to every user here who comes first, and what answers there
//! would get whole prompts, so it is believed only from somebody who could read them anyway.

use reqwest::Url;
use std::net::IpAddr;

/// Accounts below this are made by the administrator, for services.
const PEOPLE_FROM: u32 = 1_000;
const ROOT: u32 = 0;
/// The state of a socket that listens.
const LISTEN: &str = "0A";

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
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| std::fs::read_to_string(table).ok());
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
