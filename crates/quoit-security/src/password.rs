//! Hashes of passwords: PBKDF2 as Riak keeps them, and Argon2id for new ones.

use crate::hex;
use argon2::{Algorithm, Argon2, Params, Version};
use pbkdf2::pbkdf2_hmac;
use serde::{Deserialize, Serialize};
use sha1::Sha1;
use sha2::{Sha256, Sha512};
use std::fmt;
use subtle::ConstantTimeEq;
use thiserror::Error;

/// Longest password in bytes.
const PASSWORD_BYTES_MAX: usize = 1024;
/// Most iterations of PBKDF2 that a hash may ask for: above a second a login on a slow core.
const ITERATIONS_MAX: u32 = 2_000_000;
/// Most memory of Argon2id that a hash may ask for, in KiB.
const MEMORY_KIB_MAX: u32 = 256 << 10;
/// Most passes of Argon2id that a hash may ask for.
const PASSES_MAX: u32 = 16;
/// Shortest and longest hash and salt in bytes.
const HASH_BYTES: std::ops::RangeInclusive<usize> = 16..=64;
const SALT_BYTES: std::ops::RangeInclusive<usize> = 8..=64;

/// Random bytes for the hash of a new password.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Salt(pub [u8; 16]);

/// The cost of hashing new passwords.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over it.
    pub passes: u32,
}

impl Default for Cost {
    /// The minimum that OWASP recommends for Argon2id: 19 MiB, two passes.
    fn default() -> Self {
        Self { memory_kib: 19 << 10, passes: 2 }
    }
}

/// A password in clear. It is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// A password as an operator gave it.
    ///
    /// # Errors
    ///
    /// A password of more than 1024 bytes.
    pub fn new(text: &str) -> Result<Self, PasswordError> {
        if text.len() > PASSWORD_BYTES_MAX {
            return Err(PasswordError::TooLong);
        }
        Ok(Self(text.to_owned()))
    }

    /// Its hash. Takes the memory and tens of milliseconds of a processor that the cost says.
    ///
    /// # Errors
    ///
    /// A cost beyond the bounds.
    pub fn hashed(&self, salt: Salt, cost: Cost) -> Result<PasswordHash, PasswordError> {
        let mut hash = PasswordHash {
            form: Form::Argon2id { memory_kib: cost.memory_kib, passes: cost.passes },
            salt: salt.0.to_vec(),
            hash: vec![0; 20],
        };
        hash.check()?;
        hash.hash = hash.of(self.0.as_bytes()).ok_or(PasswordError::Cost)?;
        Ok(hash)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Password(...)")
    }
}

/// Why a password or a hash is refused. Displayed for operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum PasswordError {
    /// The password is too long.
    #[error("the password has more than {PASSWORD_BYTES_MAX} bytes; choose a shorter one")]
    TooLong,
    /// The text of a hash has another form.
    #[error(
        "password_hash has the form pbkdf2:sha:ITERATIONS:SALT:HASH (or sha256, sha512 in the place of sha), \
         salt and hash in hexadecimal digits"
    )]
    Form,
    /// The hash asks for more than is allowed, or its salt or hash is too short or too long.
    #[error(
        "the hash asks for too much: at most {ITERATIONS_MAX} iterations, a salt of 8 to 64 bytes and a hash \
         of 16 to 64 bytes are allowed"
    )]
    Cost,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum HmacOf {
    Sha,
    Sha256,
    Sha512,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Form {
    Pbkdf2 { function: HmacOf, iterations: u32 },
    Argon2id { memory_kib: u32, passes: u32 },
}

/// A salted hash of a password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasswordHash {
    form: Form,
    #[serde(with = "hex")]
    salt: Vec<u8>,
    #[serde(with = "hex")]
    hash: Vec<u8>,
}

impl PasswordHash {
    /// Reads a hash that Riak keeps: `pbkdf2:sha:65536:SALT:HASH`, salt and hash in hexadecimal digits.
    ///
    /// # Errors
    ///
    /// Another form, or a cost that a login must not have.
    pub fn parse(text: &str) -> Result<Self, PasswordError> {
        let parts: Vec<_> = text.split(':').collect();
        let ["pbkdf2", function, iterations, salt, hash] = parts.as_slice() else {
            return Err(PasswordError::Form);
        };
        let function = match *function {
            "sha" | "sha1" => HmacOf::Sha,
            "sha256" => HmacOf::Sha256,
            "sha512" => HmacOf::Sha512,
            _ => return Err(PasswordError::Form),
        };
        let iterations = iterations.parse().map_err(|_| PasswordError::Form)?;
        let bytes = |text| hex::unhex(text).ok_or(PasswordError::Form);
        let form = Form::Pbkdf2 { function, iterations };
        let parsed = Self { form, salt: bytes(salt)?, hash: bytes(hash)? };
        parsed.check()?;
        Ok(parsed)
    }

    /// Refuses what a login must not cost.
    pub(crate) fn check(&self) -> Result<(), PasswordError> {
        let is_affordable = match self.form {
            Form::Pbkdf2 { iterations, .. } => (1..=ITERATIONS_MAX).contains(&iterations),
            Form::Argon2id { memory_kib, passes } => {
                (8..=MEMORY_KIB_MAX).contains(&memory_kib) && (1..=PASSES_MAX).contains(&passes)
            }
        };
        let is_sized =
            SALT_BYTES.contains(&self.salt.len()) && HASH_BYTES.contains(&self.hash.len());
        if is_affordable && is_sized { Ok(()) } else { Err(PasswordError::Cost) }
    }

    /// Whether the hash is of this password. Takes tens of milliseconds of a processor, and up to 256 MiB of
    /// memory for a hash of Argon2id (19 MiB by default); the comparison takes the same time whatever
    /// differs.
    #[must_use]
    pub fn is_of(&self, password: &[u8]) -> bool {
        if password.len() > PASSWORD_BYTES_MAX {
            return false;
        }
        self.of(password).is_some_and(|hash| hash.ct_eq(&self.hash).into())
    }

    fn of(&self, password: &[u8]) -> Option<Vec<u8>> {
        let mut hash = vec![0; self.hash.len()];
        match self.form {
            Form::Pbkdf2 { function, iterations } => {
                let hmac = match function {
                    HmacOf::Sha => pbkdf2_hmac::<Sha1>,
                    HmacOf::Sha256 => pbkdf2_hmac::<Sha256>,
                    HmacOf::Sha512 => pbkdf2_hmac::<Sha512>,
                };
                hmac(password, &self.salt, iterations, &mut hash);
            }
            Form::Argon2id { memory_kib, passes } => {
                let params = Params::new(memory_kib, passes, 1, Some(hash.len())).ok()?;
                let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
                argon2.hash_password_into(password, &self.salt, &mut hash).ok()?;
            }
        }
        Some(hash)
    }

    /// A digest of a password and this hash under a secret key: tells whether the same password was right
    /// before without keeping it. Costs two digests.
    #[must_use]
    pub fn token(&self, key: &[u8; 32], password: &[u8]) -> [u8; 32] {
        let mut token = [0; 32];
        let mut salt = key.to_vec();
        salt.extend_from_slice(&self.salt);
        salt.extend_from_slice(&self.hash);
        pbkdf2_hmac::<Sha256>(password, &salt, 1, &mut token);
        token
    }

    /// The hash in hexadecimal digits, as tables show it.
    #[must_use]
    pub fn shown(&self) -> String {
        hex::hex(&self.hash)
    }

    /// The algorithm by its name.
    #[must_use]
    pub const fn algorithm(&self) -> &'static str {
        match self.form {
            Form::Pbkdf2 { .. } => "pbkdf2",
            Form::Argon2id { .. } => "argon2id",
        }
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PasswordHash({})", self.algorithm())
    }
}
