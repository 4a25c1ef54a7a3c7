//! TLS for what goes out: the machine's trusted certificates, with a provider of our own choice.

use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use std::sync::Arc;

/// A configuration that trusts what the machine trusts; nothing at all on a machine without certificates,
/// where plain HTTP still works. `None` only when TLS itself cannot be set up.
pub(crate) fn client_config() -> Option<ClientConfig> {
    let builder = || {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
    };
    match builder().and_then(|builder| builder.with_platform_verifier()) {
        Ok(builder) => Some(builder.with_no_client_auth()),
        Err(error) => {
            tracing::warn!(%error, "no trusted certificates on this machine; tools cannot speak https");
            let builder = builder().ok()?;
            Some(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
        }
    }
}
