//! Every hostile URL is refused before a single connection, asked for directly and by a redirect.

use crate::egress_parts::{StubNetwork, bad_server, guard, percent_encoded};
use cortex_tools::{EgressError, FetchRequest, HostPolicy};
use std::sync::Arc;

/// Names an attacker owns, and what they answer.
const NAMES: &[(&str, &[&str])] = &[
    ("127.0.0.1.rebind.test", &["127.0.0.1"]),
    ("private.test", &["10.1.2.3"]),
    ("metadata.test", &["169.254.169.254"]),
    ("six.test", &["::1"]),
    ("mapped.test", &["::ffff:192.168.0.1"]),
    ("nat64.test", &["64:ff9b::7f00:1"]),
    ("mixed.test", &["1.1.1.1", "127.0.0.1"]),
    ("zero.test", &["0.0.0.0"]),
    ("unique-local.test", &["fd12:3456::1"]),
];

const HOSTILE: &[&str] = &[
    "http://127.0.0.1/",
    "http://127.0.0.1:8080/admin",
    "https://127.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.255.255.255/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://0177.0x0.0.01/",
    "http://127.0.0.1./",
    "http://%31%32%37.0.0.1/",
    "http://１２７.０.０.１/",
    "http://127。0。0。1/",
    "http://①②⑦.⓪.⓪.①/",
    "http:\\\\127.0.0.1\\",
    "http:127.0.0.1",
    "HTTP://127.0.0.1/",
    "  http://127.0.0.1/",
    "ht\ntp://127.0.0.1/",
    "http://0/",
    "http://0.0.0.0/",
    "http://0.0.0.0:7751/",
    "http://[::]/",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[64:ff9b:1::a00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[2001:0:7f00:1::]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25eth0]/",
    "http://[fec0::1]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://[ff02::1]/",
    "http://[2001:db8::1]/",
    "http://10.0.0.1/",
    "http://10.255.255.255/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.0.1/",
    "http://3232235521/",
    "http://100.64.0.1/",
    "http://100.100.100.200/latest/meta-data/",
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.170.2/v2/credentials",
    "http://0xA9FEA9FE/",
    "http://0251.0376.0251.0376/",
    "http://2852039166/",
    "http://192.0.0.192/",
    "http://168.63.129.16/",
    "http://198.18.0.1/",
    "http://192.0.2.1/",
    "http://203.0.113.5/",
    "http://224.0.0.1/",
    "http://239.255.255.250:1900/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://localhost/",
    "http://LOCALHOST:7751/",
    "http://localhost./",
    "http://a.localhost/",
    "http://ｌocalhost/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://router.local/",
    "http://nas.home.arpa/",
    "http://127.0.0.1.rebind.test/",
    "http://private.test/",
    "http://metadata.test/latest/meta-data/",
    "http://six.test/",
    "http://mapped.test/",
    "http://nat64.test/",
    "http://mixed.test/",
    "http://zero.test/",
    "http://unique-local.test/",
    "http://user:password@1.1.1.1/",
    "http://1.1.1.1@127.0.0.1/",
    "http://127.0.0.1#@1.1.1.1/",
    "http://127.0.0.1?@1.1.1.1/",
    "http://127.0.0.1\\@1.1.1.1/",
    "http://1.1.1.1:22/",
    "http://1.1.1.1:25/",
    "http://1.1.1.1:0/",
    "file:///etc/passwd",
    "file://localhost/etc/passwd",
    "ftp://1.1.1.1/",
    "gopher://1.1.1.1:6379/_FLUSHALL",
    "dict://1.1.1.1:11211/",
    "data:text/html,hi",
    "javascript:alert(1)",
    "unix:/var/run/docker.sock",
    "ws://127.0.0.1/",
    "jar:http://127.0.0.1!/",
    "//127.0.0.1/",
    "http://",
    "http:///",
    "http://[::1",
    "http://a b/",
    "",
];

/// The ways to be refused without having touched the network.
fn is_refusal(error: &EgressError) -> bool {
    match error {
        EgressError::BadUrl(_)
        | EgressError::Scheme(_)
        | EgressError::Credentials
        | EgressError::NotPublic { .. }
        | EgressError::ForeignPort(_) => true,
        EgressError::BadRequest(_)
        | EgressError::HostNotAllowed(_)
        | EgressError::SentOn(_)
        | EgressError::NoAddress(_)
        | EgressError::Unreachable(_)
        | EgressError::Tls { .. }
        | EgressError::Wire(_)
        | EgressError::Redirects
        | EgressError::Encoded(_)
        | EgressError::TooLarge { .. }
        | EgressError::TimedOut(_)
        | EgressError::Crowded(_) => false,
    }
}

fn network() -> Arc<StubNetwork> {
    let with_name = |network: StubNetwork, (name, answer): &(&str, &[&str])| network.answer(name, &[answer]);
    Arc::new(NAMES.iter().fold(StubNetwork::default(), with_name))
}

#[tokio::test]
async fn every_hostile_url_is_refused_before_a_connection() {
    let network = network();
    // A narrower policy opens nothing either.
    let narrow = HostPolicy::only(&["127.0.0.1", "localhost", "*.test", "10.0.0.1"]).unwrap();
    let egress = guard(&network, &["127.0.0.1:9".parse().unwrap()]);
    for url in HOSTILE {
        let error = egress.fetch(FetchRequest::get(url), &HostPolicy::AnyPublic).await.expect_err(url);
        assert!(is_refusal(&error), "{url:?}: {error:?}");
        let error = egress.fetch(FetchRequest::get(url), &narrow).await.expect_err(url);
        assert!(is_refusal(&error) || matches!(error, EgressError::HostNotAllowed(_)), "{url:?}: {error:?}");
    }
    assert!(HOSTILE.len() >= 60);
    assert_eq!(network.dialled(), []);
}

#[tokio::test]
async fn a_redirect_to_a_hostile_url_is_refused_on_its_hop() {
    let network = network();
    let server = bad_server().await;
    let egress = guard(&network, &[server]);
    let mut asked = 0;
    // A header cannot hold the odd letters, and an address without a scheme is one of the server itself.
    let can_be_sent = |url: &&&str| url.is_ascii() && !url.contains('\n') && url.contains("://");
    for url in HOSTILE.iter().filter(can_be_sent) {
        let start = format!("http://{server}/redirect?{}", percent_encoded(url.trim()));
        let error = egress.fetch(FetchRequest::get(&start), &HostPolicy::AnyPublic).await.expect_err(url);
        assert!(is_refusal(&error), "{url:?}: {error:?}");
        asked += 1;
    }
    assert!(asked >= 60, "{asked}");
    assert_eq!(network.dialled(), vec![server; asked], "only the first hop was ever dialled");
}
