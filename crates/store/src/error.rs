//! Errors of object storage, with the user's remedies.

use std::fmt;

/// A failure.
///
/// It never has credentials in it, nor a server's text about them; it names the URL only if that
/// itself is at fault.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(Kind);

/// The kind of a failure.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// The URL cannot be used.
    Url { url: String, why: &'static str },
    /// This program was built without object storage.
    #[cfg(not(feature = "object-storage"))]
    NotBuilt,
    /// The settings from the environment cannot be used.
    Settings(String),
    /// There is no such bucket.
    NoBucket,
    /// There is no such object.
    NotFound,
    /// The server knows the credentials and refuses, or does not know them.
    Denied(String),
    /// The object is there, or has been replaced, against the condition of the request.
    Precondition,
    /// The server has no TLS, and unencrypted access was not allowed.
    PlainHttp,
    /// The server lists the same again and again.
    ListedAgain,
    /// The server gives no answer.
    Unreachable(String),
    /// The server answers that it cannot do it.
    Refused(String),
    /// Something else, in words.
    Other(String),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url { url, why } if url.contains(char::is_control) => write!(f, "{url:?}: {why}"),
            Self::Url { url, why } => write!(f, "{url}: {why}"),
            #[cfg(not(feature = "object-storage"))]
            Self::NotBuilt => f.write_str("this histeqd was built without object storage (the feature object-storage, which --features full has)"),
            Self::Settings(why) if why.contains("No CA certificates") => {
                write!(f, "{why}; install them (apt-get install ca-certificates), or name a file of them in SSL_CERT_FILE")
            }
            Self::Settings(why) => write!(f, "the settings in the environment cannot be used: {why}"),
            Self::NoBucket => f.write_str("there is no such bucket; check its name, the region (AWS_REGION) and the endpoint (AWS_ENDPOINT_URL)"),
            Self::NotFound => f.write_str("there is no such object"),
            Self::Denied(why) => write!(
                f,
                "access denied ({why}); check the credentials in the environment (such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY) and their permissions"
            ),
            Self::Precondition => f.write_str("the object was replaced meanwhile"),
            Self::PlainHttp => f.write_str(
                "the endpoint is a plain http:// address, without TLS; set AWS_ALLOW_HTTP=true (for Azure AZURE_ALLOW_HTTP=true) if the network can be trusted, or use an https:// address",
            ),
            Self::ListedAgain => f.write_str(
                "the server repeats its continuation token, so its listing never ends; report this to the server's operator",
            ),
            Self::Unreachable(why) => {
                write!(f, "the server cannot be reached ({why}); check the network and the endpoint (AWS_ENDPOINT_URL), then run the same command again")
            }
            Self::Refused(why) => write!(f, "the server answered {why}"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl Error {
    pub(crate) fn new(kind: Kind) -> Self {
        Self(kind)
    }

    pub(crate) fn url(url: &str, why: &'static str) -> Self {
        Self(Kind::Url { url: url.to_owned(), why })
    }

    /// Returns whether the server or the bucket is the cause.
    ///
    /// Until that has passed, all other requests to the bucket fail as well.
    pub fn concerns_bucket(&self) -> bool {
        matches!(self.0, Kind::NoBucket | Kind::PlainHttp | Kind::Unreachable(_))
    }

    /// Returns whether access was denied.
    pub fn is_denied(&self) -> bool {
        matches!(self.0, Kind::Denied(_))
    }

    /// Returns whether the request may have succeeded all the same: its answer may be lost.
    pub fn is_in_doubt(&self) -> bool {
        match &self.0 {
            Kind::Unreachable(_) => true,
            Kind::Refused(why) => why.starts_with('5'),
            _ => false,
        }
    }

    /// Returns whether there is no such object, in a bucket that is there.
    #[cfg(feature = "object-storage")]
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self.0, Kind::NotFound)
    }

    /// Returns whether the object was not in the expected state.
    pub fn is_precondition(&self) -> bool {
        matches!(self.0, Kind::Precondition)
    }
}
