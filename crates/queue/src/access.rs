//! Credentials for the server, from the environment variables that NATS's own command line reads.

use std::env;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::ConnectOptions;

use crate::error::QueueError;
use crate::place::Place;
use crate::tls::must_hold_certificates;

const USER: &str = "NATS_USER";
const PASSWORD: &str = "NATS_PASSWORD";
const TOKEN: &str = "NATS_TOKEN";
const CREDENTIALS: &str = "NATS_CREDS";
const NKEY: &str = "NATS_NKEY";
const AUTHORITY: &str = "NATS_CA";
const CERTIFICATE: &str = "NATS_CERT";
const KEY: &str = "NATS_KEY";

/// The interval at which the server is asked for a sign of life.
///
/// After two without an answer the connection is made anew: one to a machine that was cut off may
/// stay silent for minutes after the network is back.
const PING: Duration = Duration::from_secs(10);

/// Credentials for the server, and the authorities to trust.
#[derive(Clone, Default)]
pub struct Access {
    user: Option<(String, String)>,
    token: Option<String>,
    credentials: Option<PathBuf>,
    /// A file with the seed of an nkey.
    nkey: Option<PathBuf>,
    /// A file with certificates of authorities.
    authority: Option<PathBuf>,
    /// Files with the client's certificate and its key.
    certificate: Option<(PathBuf, PathBuf)>,
}

impl Access {
    /// Returns the settings of the environment.
    ///
    /// They are `NATS_USER` and `NATS_PASSWORD`, `NATS_TOKEN`, the files `NATS_CREDS` and
    /// `NATS_NKEY`, and for TLS the files `NATS_CA`, `NATS_CERT` and `NATS_KEY`. A user in the
    /// queue's address takes precedence.
    ///
    /// # Errors
    /// When a variable is set, and one without which it has no effect is not.
    pub fn from_env() -> Result<Self, QueueError> {
        Self::from(|name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
    }

    fn from(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<Self, QueueError> {
        let text = |name| variable(name).map(|value| value.to_string_lossy().into_owned());
        let user = match (text(USER), text(PASSWORD)) {
            (Some(user), password) => Some((user, password.unwrap_or_default())),
            (None, Some(_)) => return Err(QueueError::Incomplete(PASSWORD, USER)),
            (None, None) => None,
        };
        let certificate = match (variable(CERTIFICATE), variable(KEY)) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (Some(_), None) => return Err(QueueError::Incomplete(CERTIFICATE, KEY)),
            (None, Some(_)) => return Err(QueueError::Incomplete(KEY, CERTIFICATE)),
            (None, None) => None,
        };
        let (credentials, nkey) = (variable(CREDENTIALS), variable(NKEY));
        Ok(Self { user, token: text(TOKEN), credentials, nkey, authority: variable(AUTHORITY), certificate })
    }

    /// Returns the options for a connection.
    pub(crate) fn options(&self, place: &Place) -> Result<ConnectOptions, QueueError> {
        let unread = |variable, file: &PathBuf| {
            let file = file.clone();
            move |source| QueueError::Credentials { variable, file, source }
        };
        let mut options = ConnectOptions::new().name("histeqd").ping_interval(PING);
        if let Some((user, password)) = place.user().or_else(|| self.user.clone()) {
            options = options.user_and_password(user, password);
        }
        if let Some(token) = &self.token {
            options = options.token(token.clone());
        }
        if let Some(file) = &self.credentials {
            let text = std::fs::read_to_string(file).map_err(unread(CREDENTIALS, file))?;
            options = options.credentials(&text).map_err(unread(CREDENTIALS, file))?;
        }
        if let Some(file) = &self.nkey {
            let seed = std::fs::read_to_string(file).map_err(unread(NKEY, file))?;
            options = options.nkey(seed.trim().to_owned());
        }
        if let Some(file) = &self.authority {
            must_hold_certificates(file).map_err(unread(AUTHORITY, file))?;
            options = options.add_root_certificates(file.clone());
        }
        if let Some((certificate, key)) = self.certificate.clone() {
            must_hold_certificates(&certificate).map_err(unread(CERTIFICATE, &certificate))?;
            File::open(&key).map_err(unread(KEY, &key))?;
            options = options.add_client_certificate(certificate, key);
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_effect_alone_is_refused() {
        let access = |set: &[&str]| Access::from(|name| set.contains(&name).then(|| PathBuf::from("x")));
        assert!(access(&[]).is_ok_and(|access| access.user.is_none() && access.certificate.is_none()));
        assert_eq!(access(&[USER]).ok().and_then(|access| access.user), Some(("x".into(), String::new())));
        assert!(access(&[USER, PASSWORD, CERTIFICATE, KEY]).is_ok_and(|access| access.certificate.is_some()));
        for (set, why) in [
            (PASSWORD, "NATS_PASSWORD is set, and NATS_USER is not"),
            (CERTIFICATE, "NATS_CERT is set, and NATS_KEY is not"),
            (KEY, "NATS_KEY is set, and NATS_CERT is not"),
        ] {
            assert_eq!(access(&[set]).err().map(|why| why.to_string()).as_deref(), Some(why));
        }
    }
}
