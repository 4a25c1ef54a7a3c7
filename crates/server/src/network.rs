//! Networks: the addresses that one stranger has.

use std::net::IpAddr;

/// One household has one IPv4 address, or 2^64 of IPv6; this machine has one share, though it has many addresses.
pub(crate) fn network_of(peer: IpAddr) -> IpAddr {
    match peer {
        _ if peer.to_canonical().is_loopback() => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V4(_) => peer,
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => IpAddr::V4(ip),
            None => {
                let [a, b, c, d, ..] = ip.segments();
                IpAddr::from([a, b, c, d, 0, 0, 0, 0])
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_network_are_one_stranger() {
        let check = |address: &str, expected: &str| {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(network_of(address).to_string(), expected);
        };
        check("192.0.2.7", "192.0.2.7");
        check("::ffff:192.0.2.7", "192.0.2.7");
        check("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::");
    }
}
