//! `$CORTEX_HOME/credentials`: the owner's token and, when none was configured, the ingest key (D26).

use crate::exit::Failure;
use crate::home::{Home, HomeError, write_private};
use rand::RngCore;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const DEFAULT_PROFILE: &str = "default";
const KEY_BYTES: usize = 32;

/// The file as it stands, secrets wrapped.
#[derive(Debug)]
pub(crate) struct Credentials {
    path: PathBuf,
    file: CredentialsFile,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct CredentialsFile {
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ingest_api_key: Option<Secret>,
    /// What the tokens of questions are made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    approval_secret: Option<Secret>,
    /// What a newer version wrote here stays.
    #[serde(flatten)]
    more: serde_json::Map<String, serde_json::Value>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Profile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<Secret>,
    #[serde(flatten)]
    more: serde_json::Map<String, serde_json::Value>,
}

/// A secret that this file, and nothing else, may write down.
#[derive(Debug, Clone, Deserialize)]
struct Secret(SecretString);

impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.expose_secret())
    }
}

impl Credentials {
    /// What the home has; empty when it has none.
    pub(crate) fn read(home: &Home) -> Result<Self, Failure> {
        let path = home.path().join("credentials");
        let file = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| Failure::Coded {
                code: "credentials_broken",
                message: format!(
                    "{}: line {}, column {} is not what it should be; repair it, or move it away and start again",
                    path.display(),
                    error.line(),
                    error.column()
                ),
            })?,
            Err(error) if error.kind() == ErrorKind::NotFound => CredentialsFile::default(),
            Err(error) => return Err(HomeError::from_io(&path, error).into()),
        };
        Ok(Self { path, file })
    }

    /// Makes what is missing: the token always, the ingest key unless one is configured.
    pub(crate) fn read_or_create(home: &Home, key_is_configured: bool) -> Result<Self, Failure> {
        let mut credentials = Self::read(home)?;
        let profile = credentials.file.profiles.entry(DEFAULT_PROFILE.to_owned()).or_default();
        let mut changed = false;
        if profile.token.is_none() {
            profile.token = Some(fresh_secret("cxt_"));
            changed = true;
        }
        if credentials.file.ingest_api_key.is_none() && !key_is_configured {
            credentials.file.ingest_api_key = Some(fresh_secret("cxk_"));
            changed = true;
        }
        if credentials.file.approval_secret.is_none() {
            credentials.file.approval_secret = Some(fresh_secret("cxa_"));
            changed = true;
        }
        if changed {
            credentials.save()?;
        } else {
            credentials.tighten()?;
        }
        Ok(credentials)
    }

    pub(crate) fn token(&self) -> Option<&SecretString> {
        self.default_profile().and_then(|profile| profile.token.as_ref()).map(|token| &token.0)
    }

    pub(crate) fn server_url(&self) -> Option<&str> {
        self.default_profile().and_then(|profile| profile.server_url.as_deref())
    }

    pub(crate) fn ingest_api_key(&self) -> Option<&SecretString> {
        self.file.ingest_api_key.as_ref().map(|key| &key.0)
    }

    pub(crate) fn approval_secret(&self) -> Option<&SecretString> {
        self.file.approval_secret.as_ref().map(|secret| &secret.0)
    }

    /// Notes where this home's server listens.
    pub(crate) fn remember_url(&mut self, url: &str) -> Result<(), Failure> {
        if self.server_url() == Some(url) {
            return Ok(());
        }
        let profile = self.file.profiles.entry(DEFAULT_PROFILE.to_owned()).or_default();
        profile.server_url = Some(url.to_owned());
        self.save()
    }

    fn default_profile(&self) -> Option<&Profile> {
        self.file.profiles.get(DEFAULT_PROFILE)
    }

    fn save(&self) -> Result<(), Failure> {
        let mut bytes = serde_json::to_vec_pretty(&self.file)
            .map_err(|error| Failure::Coded { code: "credentials_broken", message: error.to_string() })?;
        bytes.push(b'\n');
        Ok(write_private(&self.path, &bytes)?)
    }

    /// A file that others could read is closed to them.
    fn tighten(&self) -> Result<(), Failure> {
        let close = || -> std::io::Result<()> {
            let mut permissions = std::fs::metadata(&self.path)?.permissions();
            if permissions.mode() & 0o077 != 0 {
                permissions.set_mode(0o600);
                std::fs::set_permissions(&self.path, permissions)?;
            }
            Ok(())
        };
        close().map_err(|error| HomeError::from_io(&self.path, error).into())
    }
}

fn fresh_secret(prefix: &str) -> Secret {
    let mut bytes = [0_u8; KEY_BYTES];
    rand::rng().fill_bytes(&mut bytes);
    let mut text = String::from(prefix);
    for byte in bytes {
        // Writing to a string cannot fail.
        write!(text, "{byte:02x}").unwrap_or_default();
    }
    Secret(SecretString::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;

    #[test]
    fn secrets_that_are_made_here_are_known_for_secrets() {
        for prefix in ["cxt_", "cxk_", "cxa_"] {
            let fresh = fresh_secret(prefix);
            let secret = secrecy::ExposeSecret::expose_secret(&fresh.0);
            assert_eq!(cortex_types::without_secrets(secret), cortex_types::SECRET_MASK);
        }
    }

    #[test]
    fn what_is_there_stays_and_what_is_missing_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::choose(Some(folder.path()), &Environment::default()).unwrap();
        let path = folder.path().join("credentials");
        std::fs::write(&path, r#"{"profiles":{"default":{"token":"mine","note":1}},"later":[2]}"#).unwrap();

        let credentials = Credentials::read_or_create(&home, false).unwrap();
        assert_eq!(credentials.token().unwrap().expose_secret(), "mine");
        assert!(credentials.ingest_api_key().unwrap().expose_secret().len() >= 64);
        let secret = credentials.approval_secret().unwrap().expose_secret().to_owned();
        let again = Credentials::read_or_create(&home, false).unwrap();
        assert_eq!(again.approval_secret().unwrap().expose_secret(), secret);

        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("\"note\": 1") && text.contains("\"later\""), "{text}");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn every_secret_that_is_made_here_looks_like_one() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::choose(Some(folder.path()), &Environment::default()).unwrap();
        Credentials::read_or_create(&home, false).unwrap();
        let text = std::fs::read_to_string(folder.path().join("credentials")).unwrap();
        let masked = cortex_types::without_secrets(&text);
        assert_eq!(masked.matches(cortex_types::SECRET_MASK).count(), 3, "{masked}");
        // Whoever makes another kind of them puts its beginning into the one list.
        let calls: Vec<&str> = include_str!("credentials.rs").split("fresh_secret(\"").skip(1).collect();
        assert_eq!(calls.len(), 3);
        for call in calls {
            let made = fresh_secret(call.split('"').next().unwrap());
            assert_eq!(cortex_types::without_secrets(made.0.expose_secret()), cortex_types::SECRET_MASK);
        }
    }

    #[test]
    fn no_ingest_key_is_made_when_one_is_configured() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::choose(Some(folder.path()), &Environment::default()).unwrap();
        let credentials = Credentials::read_or_create(&home, true).unwrap();
        assert!(credentials.token().is_some() && credentials.ingest_api_key().is_none());
    }
}
