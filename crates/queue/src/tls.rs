//! Faults of TLS, in words that show people the remedy.

use std::error::Error;
use std::fs;
use std::io;
use std::path::Path;

use async_nats::rustls::pki_types::CertificateDer;
use async_nats::rustls::pki_types::pem::PemObject;
use async_nats::rustls::{CertificateError, Error as TlsError};

/// Returns the reason for a failed connection and its remedy, if it is TLS.
pub(crate) fn fault(why: &(dyn Error + 'static)) -> Option<String> {
    Some(match cause(why)? {
        TlsError::InvalidCertificate(why) => of_certificate(why),
        TlsError::InvalidMessage(_) => {
            "it does not use TLS; use its TLS port, or nats:// on a trusted network".to_owned()
        }
        _ => return None,
    })
}

/// Returns the error of TLS that caused another one.
fn cause<'e>(why: &'e (dyn Error + 'static)) -> Option<&'e TlsError> {
    if let Some(found) = why.downcast_ref() {
        return Some(found);
    }
    // An I/O error does not name the error inside it as its source.
    let inner = why.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    inner.and_then(|inner| cause(inner)).or_else(|| cause(why.source()?))
}

fn of_certificate(why: &CertificateError) -> String {
    use CertificateError as Why;
    match why {
        Why::Expired | Why::ExpiredContext { .. } => {
            "its certificate has expired; renew it, or correct the clock of this machine".to_owned()
        }
        Why::NotValidYet | Why::NotValidYetContext { .. } => {
            "its certificate is not valid yet; check the clocks of both machines".to_owned()
        }
        Why::NotValidForName => "its certificate is for another name".to_owned(),
        Why::NotValidForNameContext { presented, .. } => {
            let names = presented.join(", ");
            format!("its certificate is for another name; use one of: {names}")
        }
        _ => {
            format!(
                "its certificate is not trusted here ({why}); if it is right, set NATS_CA to the certificate of its authority"
            )
        }
    }
}

/// Checks that a file holds certificates.
///
/// # Errors
/// When it cannot be read, or has no certificate.
pub(crate) fn must_hold_certificates(file: &Path) -> io::Result<()> {
    let content = fs::read(file)?;
    match CertificateDer::pem_slice_iter(&content).next() {
        Some(Ok(_)) => Ok(()),
        Some(Err(why)) => Err(io::Error::other(why)),
        None => Err(io::Error::other("there is no certificate in it")),
    }
}
