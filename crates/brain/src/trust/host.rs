//! Hosts in arguments and in a person's own words. They are found by what a value is, whatever its key is called.

use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use url::{Host, Url, form_urlencoded};

/// Arguments whose whole value is a host, even one that looks like none.
const HOST_KEYS: [&str; 10] =
    ["url", "uri", "host", "hostname", "domain", "site", "server", "endpoint", "link", "href"];

/// Ends of file names that are the end of no host: no top-level domain is called so.
const FILE_ENDINGS: [&str; 41] = [
    "bak", "bin", "cfg", "conf", "css", "csv", "db", "doc", "docx", "eml", "exe", "gif", "gz", "htm", "html",
    "ics", "ini", "jpeg", "jpg", "js", "json", "log", "odt", "pdf", "png", "ppt", "pptx", "sql", "svg",
    "tar", "tmp", "toml", "ts", "txt", "vcf", "wav", "webp", "xls", "xlsx", "xml", "yaml",
];

/// How much of one message is searched for hosts.
const SEARCHED_BYTES_MAX: usize = 32 * 1024;

/// A host that a call would reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundHost {
    pub(super) host: String,
    /// As it was written, where that is a word of its own and no address.
    word: Option<String>,
}

/// Arguments, as far as hosts can stand in them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Argument {
    Text(String),
    List(Vec<Argument>),
    Fields(BTreeMap<String, Argument>),
    Other(IgnoredAny),
}

/// Every host in the arguments of a call.
pub(super) fn hosts_of(arguments_json: &str) -> Vec<FoundHost> {
    let arguments = serde_json::from_str(arguments_json).unwrap_or(Argument::Other(IgnoredAny));
    let mut hosts = Vec::new();
    collect("", &arguments, &mut hosts);
    hosts
}

fn collect(key: &str, argument: &Argument, hosts: &mut Vec<FoundHost>) {
    match argument {
        Argument::Text(text) => hosts.extend(hosts_in(key, text)),
        Argument::List(items) => items.iter().for_each(|item| collect(key, item, hosts)),
        Argument::Fields(fields) => fields.iter().for_each(|(key, field)| {
            hosts.extend(hosts_in("", key));
            collect(key, field, hosts);
        }),
        Argument::Other(IgnoredAny) => {}
    }
}

/// Every host of a text: of the whole value, of every address inside it, and of every word that looks like one, also
/// where it is written as a part of an address is.
fn hosts_in(key: &str, text: &str) -> Vec<FoundHost> {
    let is_bare = HOST_KEYS.contains(&key.to_ascii_lowercase().as_str()) && !text.contains("://");
    let whole = match host_of(text) {
        Some(host) => Some(host),
        None if is_bare => host_of(&format!("http://{}", text.trim().trim_start_matches('/'))),
        None => None,
    };
    let mut hosts: Vec<FoundHost> = whole.into_iter().map(|host| FoundHost { host, word: None }).collect();
    hosts.extend(plain_hosts(text));
    if text.contains('%') {
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            hosts.extend(plain_hosts(&name));
            hosts.extend(plain_hosts(&value));
        }
    }
    hosts
}

fn plain_hosts(text: &str) -> Vec<FoundHost> {
    let addresses = text.match_indices("://").filter_map(|(at, _)| {
        let scheme =
            text[..at].rfind(|letter: char| !letter.is_ascii_alphanumeric()).map_or(0, |end| end + 1);
        // The letter before the scheme may be longer than a byte.
        let start = (scheme..=at).find(|start| text.is_char_boundary(*start))?;
        let rest = &text[start..];
        host_of(&rest[..rest.find(|letter: char| letter.is_whitespace()).unwrap_or(rest.len())])
    });
    let addresses = addresses.map(|host| FoundHost { host, word: None });
    let is_end = |letter: char| is_end_of_word(letter) || matches!(letter, '=' | '&');
    let words = text.split(is_end).map(trimmed).filter(|word| !word.contains("://"));
    addresses.chain(words.flat_map(hosts_of_word)).collect()
}

/// Hosts of a word that is no address, such as `example.com/x`, `git@example.com:x` or `\\example.com\x`.
fn hosts_of_word(word: &str) -> Vec<FoundHost> {
    let found = |host| FoundHost { host, word: Some(word.to_owned()) };
    let rest = word.trim_start_matches(['/', '\\', '@']);
    let authority = &rest[..rest.find(['/', '\\', '?', '#', '%']).unwrap_or(rest.len())];
    if let Ok(address @ Host::Ipv6(_)) = Host::parse(&format!("[{authority}]")) {
        // `::` alone is what programs write between words, too.
        return if authority.len() > 2 { vec![found(address.to_string())] } else { Vec::new() };
    }
    authority.split([':', '@']).filter_map(bare_host).map(found).collect()
}

/// The host that a text without scheme, port and path is, if it looks like one.
fn bare_host(text: &str) -> Option<String> {
    if text.eq_ignore_ascii_case("localhost") {
        return Some("localhost".to_owned());
    }
    let url = Url::parse(&format!("http://{text}/")).ok()?;
    let looks_like_one = match url.host()? {
        // 3.14 would be an address to a browser; to everybody else it is a number.
        Host::Ipv4(_) => text.split('.').count() == 4 || text.starts_with("0x"),
        Host::Ipv6(_) => true,
        Host::Domain(name) => {
            let (start, end) = name.trim_end_matches('.').rsplit_once('.')?;
            let is_word = end.len() >= 2 && end.chars().all(|letter| letter.is_ascii_alphabetic());
            !start.is_empty() && (is_word || end.starts_with("xn--")) && !FILE_ENDINGS.contains(&end)
        }
    };
    looks_like_one.then(|| host_of(url.as_str())).flatten()
}

/// The host of an address as a request would reach it, without `www.`.
fn host_of(address: &str) -> Option<String> {
    let url = Url::parse(address).ok()?;
    let host = match url.host()? {
        Host::Domain(name) => name.trim_end_matches('.').to_ascii_lowercase(),
        address @ (Host::Ipv4(_) | Host::Ipv6(_)) => address.to_string(),
    };
    Some(host.strip_prefix("www.").map_or(host.clone(), str::to_owned)).filter(|host| !host.is_empty())
}

/// Whether the person wrote this host, alone or in an address, or the very word that holds it.
pub(super) fn is_named(found: &FoundHost, own_words: &[String]) -> bool {
    own_words.iter().any(|message| {
        words_of(message).any(|word| {
            found.word.as_deref() == Some(word) || named_by(word).is_some_and(|named| named == found.host)
        })
    })
}

/// Every host that the person wrote.
pub(super) fn named_hosts(own_words: &[String]) -> Vec<String> {
    own_words.iter().flat_map(|message| words_of(message).filter_map(named_by)).collect()
}

fn words_of(message: &str) -> impl Iterator<Item = &str> {
    let searched = &message[..message.floor_char_boundary(SEARCHED_BYTES_MAX)];
    searched.split(is_end_of_word).map(trimmed).filter(|word| word.contains('.') || word.contains(':'))
}

fn named_by(word: &str) -> Option<String> {
    // An address in a mail is a person, not a host.
    let is_address = word.contains("://");
    let written = if is_address { word.to_owned() } else { format!("http://{word}") };
    (is_address || !word.contains('@')).then(|| host_of(&written)).flatten()
}

fn is_end_of_word(letter: char) -> bool {
    letter.is_whitespace() || "<>\"'`()[]{},;|".contains(letter)
}

fn trimmed(word: &str) -> &str {
    word.trim_end_matches(['.', ':', '!', '?', '*', '_'])
}
