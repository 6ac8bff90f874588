//! Passwords, of which only digests are kept.

use sha2::{Digest, Sha256};

use super::Rules;

/// Returns the SHA-256 of a password, in hexadecimal digits.
pub fn digest(password: &[u8]) -> String {
    Sha256::digest(password).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes this the only password; an empty one means that none is needed.
pub fn set_password(rules: &mut Rules, password: &[u8]) {
    rules.no_password = password.is_empty();
    rules.passwords = Vec::from_iter((!password.is_empty()).then(|| digest(password)));
}
