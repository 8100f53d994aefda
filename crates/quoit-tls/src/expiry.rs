//! Ends of validity, and warnings before them.

use crate::certificate::Certificate;
use crate::files::RevocationList;
use crate::instant::Instant;
use std::path::{Path, PathBuf};

/// Number of days before the end of a validity from which a warning is given.
pub const EXPIRY_WARNING_DAYS: i64 = 30;

/// End of the validity of a certificate or a revocation list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expiry {
    /// The file; `None` for a certificate that the cluster's own authority has issued.
    pub file: Option<PathBuf>,
    /// Subject of the certificate, or issuer of the list.
    pub subject: String,
    /// End of the validity.
    pub not_after: Instant,
    /// True if it is that of a revocation list.
    pub is_list: bool,
}

impl Expiry {
    pub(crate) fn of(file: &Path, certificate: &Certificate) -> Expiry {
        Expiry { file: Some(file.to_owned()), ..Expiry::made(certificate) }
    }

    /// Returns the end of the validity of a certificate that is not from a file.
    #[must_use]
    pub fn made(certificate: &Certificate) -> Expiry {
        Expiry {
            file: None,
            subject: certificate.subject.clone(),
            not_after: certificate.not_after,
            is_list: false,
        }
    }

    pub(crate) fn of_list(file: &Path, list: &RevocationList) -> Option<Expiry> {
        let not_after = list.next_update?;
        let subject = list.issuer.clone();
        Some(Expiry { file: Some(file.to_owned()), subject, not_after, is_list: true })
    }

    /// Returns the number of whole days until the end; negative if it has passed.
    #[must_use]
    pub fn days_left(&self, now: Instant) -> i64 {
        self.not_after.days_after(now)
    }

    /// Returns a warning if the end is near or has passed.
    #[must_use]
    pub fn warning(&self, now: Instant) -> Option<String> {
        let days = self.days_left(now);
        if days >= EXPIRY_WARNING_DAYS {
            return None;
        }
        let what = if self.is_list { "revocation list" } else { "certificate" };
        let end = if now > self.not_after {
            format!("has expired on {}", self.not_after)
        } else {
            format!("expires in {days} days, on {}", self.not_after)
        };
        let file =
            self.file.as_ref().map_or_else(String::new, |file| format!("{}: ", file.display()));
        Some(format!("{file}the {what} of '{}' {end}: renew it", self.subject))
    }
}
