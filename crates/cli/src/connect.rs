//! Finds the server and the token: flags, environment, this home's running server, its credentials, its settings (D26).

use crate::config::host_address;
use crate::context::Context;
use crate::credentials::Credentials;
use crate::daemon;
use crate::exit::Failure;
use cortex_api::Client;
use cortex_models::stranger_at;
use secrecy::SecretString;
use std::net::SocketAddr;

/// The code of the refusal to talk to another user's program.
pub(crate) const FOREIGN_SERVER: &str = "foreign_server";
/// The system account that a server may have of its own.
const ACCOUNT: &str = "cortex";

/// A client for the server that is meant. Where another user of this machine listens, there is none: neither the token nor
/// what would be said is for them.
pub(crate) fn client(context: &Context) -> Result<Client, Failure> {
    let home = context.home()?;
    let credentials = Credentials::read(&home)?;
    let named = context.environment.get_filled("CORTEX_SERVER_URL");
    let url = match (context.flags.is_empty(), named, daemon::listening(&home), credentials.server_url()) {
        (false, _, _, _) => configured_url(context)?,
        (true, Some(url), _, _) => url.to_owned(),
        (true, None, Some(listening), _) => listening.url(),
        (true, None, None, Some(url)) => url.to_owned(),
        (true, None, None, None) => configured_url(context)?,
    };
    refuse_stranger(&url, stranger_at(&url, ACCOUNT))?;
    let token = match context.environment.get_filled("CORTEX_TOKEN") {
        Some(token) => Some(SecretString::from(token)),
        None if may_have_token(&url, credentials.server_url()) => credentials.token().cloned(),
        None => None,
    };
    Ok(Client::new(&url, token)?)
}

fn configured_url(context: &Context) -> Result<String, Failure> {
    let effective = context.config()?;
    let settings = crate::assemble::settings(&effective)?;
    let ip = host_address(&settings.host).unwrap_or(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));
    Ok(daemon::url_of(SocketAddr::new(ip, settings.port)))
}

/// While no server runs, its port is free for every user of this machine to take.
fn refuse_stranger(url: &str, stranger: Option<u32>) -> Result<(), Failure> {
    let Some(user) = stranger else { return Ok(()) };
    let message = format!(
        "another user of this machine (uid {user}) listens at {url}, so nothing was sent; \
         start your server at another port (`cortex start --port <port>`), or run this as the user of that server"
    );
    Err(Failure::Coded { code: FOREIGN_SERVER, message })
}

/// A token is for the server it was made for, and for this machine; a server elsewhere must not learn it.
fn may_have_token(url: &str, own_url: Option<&str>) -> bool {
    let is_local = reqwest::Url::parse(url)
        .ok()
        .and_then(|url| url.host_str().and_then(host_address))
        .is_some_and(|address| address.is_loopback());
    is_local || own_url.is_some_and(|own| own.trim_end_matches('/') == url.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_to_another_user_of_this_machine() {
        assert!(refuse_stranger("http://127.0.0.1:9", None).is_ok());
        let told = refuse_stranger("http://127.0.0.1:9", Some(1001)).unwrap_err().to_string();
        assert!(told.starts_with("foreign_server: another user of this machine (uid 1001)"), "{told}");
        assert!(told.contains("nothing was sent") && !told.contains('\n'), "{told}");
    }

    #[test]
    fn a_token_is_never_sent_to_a_foreign_server() {
        assert!(may_have_token("http://127.0.0.1:9", None));
        assert!(may_have_token("http://localhost:9/", None));
        assert!(may_have_token("http://[::1]:9", None));
        assert!(may_have_token("https://mine.example/", Some("https://mine.example")));
        assert!(!may_have_token("https://other.example", Some("https://mine.example")));
        assert!(!may_have_token("http://localhost.example:9", None));
    }
}
