//! Whose the TCP sockets of this machine are, as the kernel tells it.
//!
//! It is asked for one connection or for one port, which costs the same however many sockets there are. Where it may not be
//! asked, all of its table is read: of a machine with ten thousand sockets that takes as long as a whole start.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Who holds a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    User(u32),
    /// It is not there, or no process has it any more.
    Nobody,
}

/// The state of a socket that listens.
const LISTEN: &str = "0A";
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// A socket can be passed over while others come and go, so one that is not found is looked for again.
const LOOKS: usize = 2;
/// What a socket has that no process holds any more; the system names root as its user.
const NO_INODE: &str = "0";

/// Who holds the client's end of a connection between two programs of this machine; the server's end is in this process. None
/// where the system does not tell, on other systems than Linux.
pub(crate) fn holder(client: SocketAddr, server: SocketAddr) -> Option<Holder> {
    asked::holder(client, server).or_else(|| read_holder(client, server))
}

/// The users who listen on a port, at whichever address of their own.
pub(crate) fn listeners(port: u16) -> Option<Vec<u32>> {
    asked::listeners(port).or_else(|| read_listeners(port))
}

fn read_holder(client: SocketAddr, server: SocketAddr) -> Option<Holder> {
    let mut is_told = false;
    for table in [TABLES; LOOKS].concat() {
        let Ok(table) = File::open(table) else { continue };
        is_told = true;
        let lines = BufReader::new(table).lines().map_while(Result::ok);
        if let Some(user) = lines.filter_map(|line| user_of_client(&line, client, server)).next() {
            return Some(Holder::User(user));
        }
    }
    is_told.then_some(Holder::Nobody)
}

fn read_listeners(port: u16) -> Option<Vec<u32>> {
    let tables = TABLES.map(|table| std::fs::read_to_string(table).ok());
    // Without IPv6 the second is missing.
    tables[0].as_ref()?;
    Some(tables.iter().flatten().flat_map(|table| users_of(table, port)).collect())
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

fn users_of(table: &str, port: u16) -> Vec<u32> {
    let user = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, of) = fields.get(1)?.rsplit_once(':')?;
        let is_there = *fields.get(3)? == LISTEN && u16::from_str_radix(of, 16).ok()? == port;
        fields.get(7).filter(|_| is_there)?.parse().ok()
    };
    table.lines().filter_map(user).collect()
}

#[cfg(not(target_os = "linux"))]
mod asked {
    use super::{Holder, SocketAddr};

    pub(super) fn holder(_client: SocketAddr, _server: SocketAddr) -> Option<Holder> {
        None
    }

    pub(super) fn listeners(_port: u16) -> Option<Vec<u32>> {
        None
    }
}

#[cfg(target_os = "linux")]
mod asked {
    use super::{Holder, SocketAddr};
    use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
    use netlink_packet_sock_diag::SockDiagMessage;
    use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP, TCP_LISTEN};
    use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
    use netlink_sys::protocols::NETLINK_SOCK_DIAG;
    use netlink_sys::{Socket, SocketAddr as KernelAddress};
    use std::net::IpAddr;

    /// More than one packet of the kernel holds.
    const PACKET_BYTES: usize = 64 * 1024;
    /// Packets of one answer; a port has few listeners.
    const PACKETS_MAX: usize = 64;
    /// A socket of whatever cookie.
    const ANY_COOKIE: [u8; 8] = [0xff; 8];

    /// What the kernel said of one socket.
    struct Found {
        id: SocketId,
        state: u8,
        user: u32,
        inode: u32,
    }

    pub(super) fn holder(client: SocketAddr, server: SocketAddr) -> Option<Holder> {
        let socket = connected()?;
        if let Some(found) = one(&socket, client, server)? {
            return Some(if found.inode == 0 { Holder::Nobody } else { Holder::User(found.user) });
        }
        // A kernel that cannot tell says the same as one that has no such socket. The server's end is there.
        one(&socket, server, client)?.map(|_| Holder::Nobody)
    }

    /// The end at `own` of a connection; `None` inside when the kernel knows none.
    fn one(socket: &Socket, own: SocketAddr, other: SocketAddr) -> Option<Option<Found>> {
        let (source, destination) = (own.ip().to_canonical(), other.ip().to_canonical());
        let id = SocketId {
            source_port: own.port(),
            destination_port: other.port(),
            source_address: source,
            destination_address: destination,
            interface_id: 0,
            cookie: ANY_COOKIE,
        };
        let found = ask(socket, family(source), StateFlags::all(), id, NLM_F_REQUEST)?.into_iter().next();
        // Where there is no such connection a listener on its port is named instead.
        let is_it = |found: &Found| {
            found.state != TCP_LISTEN
                && (found.id.source_port, found.id.destination_port) == (own.port(), other.port())
                && found.id.source_address.to_canonical() == source
                && found.id.destination_address.to_canonical() == destination
        };
        Some(found.filter(is_it))
    }

    pub(super) fn listeners(port: u16) -> Option<Vec<u32>> {
        let socket = connected()?;
        let mut users = Vec::new();
        for (family, nowhere) in [(AF_INET, SocketId::new_v4()), (AF_INET6, SocketId::new_v6())] {
            let id = SocketId { source_port: port, ..nowhere };
            let found = ask(&socket, family, StateFlags::LISTEN, id, NLM_F_REQUEST | NLM_F_DUMP);
            match found {
                // The kernel may look at more than it was asked for.
                Some(found) => users.extend(
                    found.iter().filter(|found| found.id.source_port == port).map(|found| found.user),
                ),
                // Without IPv6 nobody listens there; without IPv4 the kernel does not tell.
                None if family == AF_INET6 => {}
                None => return None,
            }
        }
        Some(users)
    }

    fn family(ip: IpAddr) -> u8 {
        if ip.is_ipv4() { AF_INET } else { AF_INET6 }
    }

    fn connected() -> Option<Socket> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG).ok()?;
        socket.bind_auto().ok()?;
        socket.connect(&KernelAddress::new(0, 0)).ok()?;
        Some(socket)
    }

    /// The sockets that the kernel names; none when it does not answer such questions.
    fn ask(
        socket: &Socket,
        family: u8,
        states: StateFlags,
        socket_id: SocketId,
        flags: u16,
    ) -> Option<Vec<Found>> {
        let extensions = ExtensionFlags::empty();
        let request = InetRequest { family, protocol: IPPROTO_TCP, extensions, states, socket_id };
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        let mut packet = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        socket.send(&bytes, 0).ok()?;
        let is_list = flags & NLM_F_DUMP == NLM_F_DUMP;
        let mut found = Vec::new();
        for _ in 0..PACKETS_MAX {
            let mut packet = Vec::with_capacity(PACKET_BYTES);
            socket.recv(&mut packet, 0).ok()?;
            match read(&packet, is_list, &mut found)? {
                Rest::Follows if is_list => {}
                Rest::Follows | Rest::Done => return Some(found),
            }
        }
        None
    }

    enum Rest {
        Follows,
        Done,
    }

    /// Takes the sockets out of a packet; none when the kernel refused. One that is asked for a list has none to refuse with: to
    /// it, no such entry means that it knows no such lists.
    fn read(mut packet: &[u8], is_list: bool, found: &mut Vec<Found>) -> Option<Rest> {
        const NO_SUCH_ENTRY: i32 = -2;
        while !packet.is_empty() {
            let message = NetlinkMessage::<SockDiagMessage>::deserialize(packet).ok()?;
            let length = (message.header.length as usize).next_multiple_of(4).max(4);
            #[expect(clippy::wildcard_enum_match_arm, reason = "a list of the kernel's that grows")]
            match message.payload {
                NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                    let header = response.header;
                    found.push(Found {
                        id: header.socket_id,
                        state: header.state,
                        user: header.uid,
                        inode: header.inode,
                    });
                }
                NetlinkPayload::Done(done) if done.code == 0 => return Some(Rest::Done),
                NetlinkPayload::Error(error) if !is_list && error.raw_code() == NO_SUCH_ENTRY => {
                    return Some(Rest::Done);
                }
                _ => return None,
            }
            packet = packet.get(length..).unwrap_or_default();
        }
        Some(Rest::Follows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1E45 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 111 1 0 100 0 0 10 0
   1: 0100007F:2CAA 00000000:0000 0A 00000000:00000000 00:00000000 00000000   998        0 112 1 0 100 0 0 10 0
   2: 0100007F:9C40 0100007F:1E45 01 00000000:00000000 00:00000000 00000000  1002        0 113 1 0 100 0 0 10 0
   3: 00000000000000000000000001000000:1E46 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 114 1
";

    #[test]
    fn only_sockets_that_listen_on_the_port_count() {
        assert_eq!(users_of(TABLE, 7749), [1001]);
        assert_eq!(users_of(TABLE, 7750), [0]);
        assert_eq!(users_of(TABLE, 11434), [998]);
        assert_eq!(users_of(TABLE, 40000), [] as [u32; 0]);
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

    type HolderOf = fn(SocketAddr, SocketAddr) -> Option<Holder>;
    type ListenersOn = fn(u16) -> Option<Vec<u32>>;

    #[test]
    fn asked_or_read_the_kernel_says_the_same_of_a_connection() {
        let own = Some(Holder::User(rustix::process::geteuid().as_raw()));
        let ways: [(&str, HolderOf); 2] = [("asked", asked::holder), ("read", read_holder)];
        for (way, holder) in ways {
            if way == "asked" && asked::listeners(1).is_none() || !std::path::Path::new(TABLES[0]).exists() {
                eprintln!("skipped: this system cannot be {way}");
                continue;
            }
            for address in ["127.0.0.1:0", "[::1]:0"] {
                // A machine may have no IPv6.
                let Ok(listener) = TcpListener::bind(address) else { continue };
                let server = listener.local_addr().unwrap();
                let client = TcpStream::connect(server).unwrap();
                let (accepted, peer) = listener.accept().unwrap();
                assert_eq!(holder(peer, server), own, "{way} {address}");
                assert_eq!(holder(server, peer), own, "{way} {address}: the other end");
                client.shutdown(std::net::Shutdown::Both).unwrap();
                drop(client);
                assert_eq!(holder(peer, server), Some(Holder::Nobody), "{way} {address}: it hung up");
                drop(accepted);
            }
        }
    }

    #[test]
    fn a_listener_on_the_port_of_a_client_is_not_the_client() {
        if asked::listeners(1).is_none() {
            eprintln!("skipped: this system cannot be asked");
            return;
        }
        let (listener, other) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let (server, no_client) = (listener.local_addr().unwrap(), other.local_addr().unwrap());
        let client = TcpStream::connect(server).unwrap();
        assert_eq!(read_holder(no_client, server), Some(Holder::Nobody));
        // The kernel has neither end of it, so it cannot be told from one that does not answer.
        assert_eq!(asked::holder(no_client, server), None);
        drop(client);
    }

    #[test]
    fn asked_or_read_the_kernel_names_who_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let own = rustix::process::geteuid().as_raw();
        let ways: [(&str, ListenersOn); 2] = [("asked", asked::listeners), ("read", read_listeners)];
        for (way, listeners) in ways {
            let Some(found) = listeners(port) else {
                eprintln!("skipped: this system cannot be {way}");
                continue;
            };
            assert_eq!(found, [own], "{way}");
        }
        drop(listener);
        assert_eq!(listeners(port), Some(Vec::new()), "nobody is there any more");
    }
}
