//! Hashes of passwords: PBKDF2 as in Riak, and Argon2id for new passwords.

use crate::hex;
use argon2::{Algorithm, Argon2, Params, Version};
use pbkdf2::pbkdf2_hmac;
use serde::{Deserialize, Serialize};
use sha1::Sha1;
use sha2::{Sha256, Sha512};
use std::fmt;
use subtle::ConstantTimeEq;
use thiserror::Error;

/// Maximum length of a password, in bytes.
const PASSWORD_BYTES_MAX: usize = 1024;
/// Maximum number of PBKDF2 iterations of a hash. It costs more than a second for each login on a slow
/// core.
const ITERATIONS_MAX: u32 = 2_000_000;
/// Minimum and maximum memory of an Argon2id hash, in KiB.
const MEMORY_KIB_MIN: u32 = 8;
const MEMORY_KIB_MAX: u32 = 256 << 10;
/// Maximum number of passes of an Argon2id hash.
const PASSES_MAX: u32 = 16;
/// Allowed lengths of hashes and salts, in bytes.
const HASH_BYTES: std::ops::RangeInclusive<usize> = 16..=64;
const SALT_BYTES: std::ops::RangeInclusive<usize> = 8..=64;

/// Random bytes for the hash of a new password.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Salt(pub [u8; 16]);

/// Cost of hashing new passwords.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HashingCost {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Number of passes over the memory.
    pub passes: u32,
}

impl Default for HashingCost {
    /// The minimum that OWASP recommends for Argon2id: 19 MiB and two passes.
    fn default() -> Self {
        Self { memory_kib: 19 << 10, passes: 2 }
    }
}

/// A password in clear text. Its debug output does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Takes a password as entered by an operator.
    ///
    /// # Errors
    ///
    /// [`PasswordError::TooLong`] if it has more than 1024 bytes.
    pub fn new(text: &str) -> Result<Self, PasswordError> {
        if text.len() > PASSWORD_BYTES_MAX {
            return Err(PasswordError::TooLong);
        }
        Ok(Self(text.to_owned()))
    }

    /// Hashes the password with Argon2id. With the default cost it takes 19 MiB of memory and tens of
    /// milliseconds of processor time.
    ///
    /// # Errors
    ///
    /// [`PasswordError::HashingCost`] if the cost is out of bounds.
    pub fn hashed(&self, salt: Salt, cost: HashingCost) -> Result<PasswordHash, PasswordError> {
        let mut hash = PasswordHash {
            form: HashAlgorithm::Argon2id { memory_kib: cost.memory_kib, passes: cost.passes },
            salt: salt.0.to_vec(),
            hash: vec![0; 20],
        };
        hash.check()?;
        hash.hash = hash.of(self.0.as_bytes()).ok_or(PasswordError::HashingCost)?;
        Ok(hash)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Password(...)")
    }
}

/// Reason why a password or a hash is refused. Displayed for operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum PasswordError {
    /// The password is too long.
    #[error("the password has more than {PASSWORD_BYTES_MAX} bytes; choose a shorter one")]
    TooLong,
    /// The text of the hash has another form.
    #[error(
        "password_hash has the form pbkdf2:sha:ITERATIONS:SALT:HASH (or sha256, sha512 in the place of sha), \
         salt and hash in hexadecimal digits"
    )]
    Form,
    /// The hash costs more or less than is allowed, or its salt or hash is too short or too long.
    #[error(
        "the hash is out of bounds: PBKDF2 may have 1 to {ITERATIONS_MAX} iterations, Argon2id \
         {MEMORY_KIB_MIN} to {MEMORY_KIB_MAX} KiB of memory and 1 to {PASSES_MAX} passes, the salt 8 to 64 \
         bytes, and the hash 16 to 64 bytes"
    )]
    HashingCost,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum HmacFunction {
    Sha,
    Sha256,
    Sha512,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum HashAlgorithm {
    Pbkdf2 { function: HmacFunction, iterations: u32 },
    Argon2id { memory_kib: u32, passes: u32 },
}

/// A salted hash of a password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasswordHash {
    form: HashAlgorithm,
    #[serde(with = "hex")]
    salt: Vec<u8>,
    #[serde(with = "hex")]
    hash: Vec<u8>,
}

impl PasswordHash {
    /// Parses a hash in Riak's form: `pbkdf2:sha:65536:SALT:HASH`, with salt and hash in hexadecimal
    /// digits.
    ///
    /// # Errors
    ///
    /// [`PasswordError`] if the text has another form, or if the hash would make logins too expensive.
    pub fn parse(text: &str) -> Result<Self, PasswordError> {
        let parts: Vec<_> = text.split(':').collect();
        let ["pbkdf2", function, iterations, salt, hash] = parts.as_slice() else {
            return Err(PasswordError::Form);
        };
        let function = match *function {
            "sha" | "sha1" => HmacFunction::Sha,
            "sha256" => HmacFunction::Sha256,
            "sha512" => HmacFunction::Sha512,
            _ => return Err(PasswordError::Form),
        };
        let iterations = iterations.parse().map_err(|_| PasswordError::Form)?;
        let bytes = |text| hex::unhex(text).ok_or(PasswordError::Form);
        let form = HashAlgorithm::Pbkdf2 { function, iterations };
        let parsed = Self { form, salt: bytes(salt)?, hash: bytes(hash)? };
        parsed.check()?;
        Ok(parsed)
    }

    /// Refuses hashes that would make logins too expensive.
    pub(crate) fn check(&self) -> Result<(), PasswordError> {
        let is_affordable = match self.form {
            HashAlgorithm::Pbkdf2 { iterations, .. } => (1..=ITERATIONS_MAX).contains(&iterations),
            HashAlgorithm::Argon2id { memory_kib, passes } => {
                (MEMORY_KIB_MIN..=MEMORY_KIB_MAX).contains(&memory_kib)
                    && (1..=PASSES_MAX).contains(&passes)
            }
        };
        let is_sized =
            SALT_BYTES.contains(&self.salt.len()) && HASH_BYTES.contains(&self.hash.len());
        if is_affordable && is_sized { Ok(()) } else { Err(PasswordError::HashingCost) }
    }

    /// Returns true if the hash is that of this password. Takes tens of milliseconds of processor time,
    /// and for Argon2id up to 256 MiB of memory (19 MiB by default). The comparison takes constant time.
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
            HashAlgorithm::Pbkdf2 { function, iterations } => {
                let hmac = match function {
                    HmacFunction::Sha => pbkdf2_hmac::<Sha1>,
                    HmacFunction::Sha256 => pbkdf2_hmac::<Sha256>,
                    HmacFunction::Sha512 => pbkdf2_hmac::<Sha512>,
                };
                hmac(password, &self.salt, iterations, &mut hash);
            }
            HashAlgorithm::Argon2id { memory_kib, passes } => {
                let params = Params::new(memory_kib, passes, 1, Some(hash.len())).ok()?;
                let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
                argon2.hash_password_into(password, &self.salt, &mut hash).ok()?;
            }
        }
        Some(hash)
    }

    /// Returns a keyed digest of a password and this hash. With it a caller recognizes a password that was
    /// verified before, without storing the password. Costs one iteration of PBKDF2.
    #[must_use]
    pub fn token(&self, key: &[u8; 32], password: &[u8]) -> [u8; 32] {
        let mut token = [0; 32];
        let mut salt = key.to_vec();
        salt.extend_from_slice(&self.salt);
        salt.extend_from_slice(&self.hash);
        pbkdf2_hmac::<Sha256>(password, &salt, 1, &mut token);
        token
    }

    /// Returns the hash in hexadecimal digits, as shown in tables.
    #[must_use]
    pub fn shown(&self) -> String {
        hex::hex(&self.hash)
    }

    /// Returns the name of the algorithm.
    #[must_use]
    pub const fn algorithm(&self) -> &'static str {
        match self.form {
            HashAlgorithm::Pbkdf2 { .. } => "pbkdf2",
            HashAlgorithm::Argon2id { .. } => "argon2id",
        }
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PasswordHash({})", self.algorithm())
    }
}
