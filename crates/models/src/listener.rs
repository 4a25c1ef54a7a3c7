//! Whose the sockets of this machine are. A default address is open to every user here who comes first, and what answers there
//! would get whole prompts, so it is believed only from somebody who could read them anyway. In the same way a program that
//! connects to us is believed to be the owner's only if it runs as the owner.

use crate::socket_table::{self, Holder};
use reqwest::Url;
use std::net::{IpAddr, SocketAddr};

/// Accounts below this are made by the administrator, for services.
const PEOPLE_FROM: u32 = 1_000;
const ROOT: u32 = 0;

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
    socket_table::holder(client, server).map(|holder| holder == Holder::User(own))
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
    socket_table::listeners(url.port_or_known_default()?)
}

fn passwd() -> String {
    std::fs::read_to_string("/etc/passwd").unwrap_or_default()
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

    const PASSWD: &str =
        "root:x:0:0::/root:/bin/sh\nollama:x:998:998::/:/bin/false\nengram:x:1001:1001::/:/bin/sh\n";

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
    fn a_client_of_this_process_is_its_own_and_nobody_is_not() {
        if socket_table::listeners(1).is_none() {
            eprintln!("skipped: this system does not tell whose a socket is");
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
