//! TLS for what goes out: the machine's trusted certificates, with a provider of our own choice.
//!
//! The certificates are read when the first of them is needed. Reading and keeping them costs a start several times what
//! everything else of it takes, and a home that speaks to nobody never needs one.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_platform_verifier::Verifier;
use std::sync::{Arc, OnceLock};

/// A configuration that trusts what the machine trusts. On a machine without certificates nothing is trusted, and plain HTTP
/// still works. It fails only when TLS itself cannot be set up.
pub fn tls_config() -> Result<ClientConfig, Error> {
    config_trusting(MachineTrust::unread())
}

fn config_trusting(trust: MachineTrust) -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_provider(Arc::clone(&trust.provider));
    let builder = builder.with_safe_default_protocol_versions()?.dangerous();
    Ok(builder.with_custom_certificate_verifier(Arc::new(trust)).with_no_client_auth())
}

/// What the machine trusts, read once.
#[derive(Debug)]
struct MachineTrust {
    provider: Arc<CryptoProvider>,
    read: OnceLock<Verifier>,
}

impl MachineTrust {
    fn unread() -> Self {
        Self { provider: Arc::new(ring::default_provider()), read: OnceLock::new() }
    }

    fn verifier(&self) -> Result<&Verifier, Error> {
        if let Some(verifier) = self.read.get() {
            return Ok(verifier);
        }
        // A machine that has none may get some while we run, so a failure is not kept.
        let verifier = Verifier::new(Arc::clone(&self.provider)).inspect_err(|error| {
            tracing::warn!(%error, "There are no trusted certificates on this machine; https cannot be spoken");
        })?;
        Ok(self.read.get_or_init(|| verifier))
    }
}

impl ServerCertVerifier for MachineTrust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verifier()?.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use rustls::{ClientConnection, ServerConfig, ServerConnection};

    const HOST: &str = "example.org";

    /// Shakes hands with a server of this certificate, whose trust is as `trust` says.
    fn shake_hands(
        trust: MachineTrust,
        certificate: &rcgen::CertifiedKey<rcgen::KeyPair>,
    ) -> Result<(), Error> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certificate.signing_key.serialize_der()));
        let server = ServerConfig::builder_with_provider(Arc::clone(&trust.provider))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.cert.der().clone()], key)?;
        let client = config_trusting(trust)?;
        let mut client = ClientConnection::new(Arc::new(client), ServerName::try_from(HOST).unwrap())?;
        let mut server = ServerConnection::new(Arc::new(server))?;
        while client.is_handshaking() || server.is_handshaking() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).unwrap();
            server.read_tls(&mut bytes.as_slice()).unwrap();
            // The client says what is wrong; the server only hears that something is.
            drop(server.process_new_packets());
            let mut bytes = Vec::new();
            server.write_tls(&mut bytes).unwrap();
            client.read_tls(&mut bytes.as_slice()).unwrap();
            client.process_new_packets()?;
        }
        Ok(())
    }

    fn certificate(host: &str) -> rcgen::CertifiedKey<rcgen::KeyPair> {
        rcgen::generate_simple_self_signed([host.to_owned()]).unwrap()
    }

    /// As on a machine that trusts this certificate beside its own.
    fn trusting(certificate: &rcgen::CertifiedKey<rcgen::KeyPair>) -> MachineTrust {
        let trust = MachineTrust::unread();
        let roots = [certificate.cert.der().clone()];
        let verifier = Verifier::new_with_extra_roots(roots, Arc::clone(&trust.provider)).unwrap();
        trust.read.set(verifier).unwrap();
        trust
    }

    #[test]
    fn a_server_is_believed_by_a_certificate_that_the_machine_trusts_and_by_no_other() {
        let (own, other) = (certificate(HOST), certificate("elsewhere.org"));
        shake_hands(trusting(&own), &own).unwrap();
        let check = |trust: MachineTrust, shown| {
            let refused = shake_hands(trust, shown).unwrap_err();
            assert!(matches!(refused, Error::InvalidCertificate(_)), "{refused}");
        };
        check(trusting(&other), &other);
        check(trusting(&other), &own);
    }

    #[test]
    fn certificates_are_read_when_the_first_is_needed() {
        let trust = Arc::new(MachineTrust::unread());
        assert!(!trust.supported_verify_schemes().is_empty() && trust.read.get().is_none());
        let own = certificate(HOST);
        let name = ServerName::try_from(HOST).unwrap();
        trust.verify_server_cert(own.cert.der(), &[], &name, &[], UnixTime::now()).unwrap_err();
        // A machine without certificates reads none, and says so each time.
        assert_eq!(trust.read.get().is_some(), Verifier::new(Arc::clone(&trust.provider)).is_ok());
    }
}
