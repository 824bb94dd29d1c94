//! Names of delta files.

use crate::ids::{CheckpointId, CheckpointRef, Nonce};

const PREFIX: &str = "delta-";
const SUFFIX: &str = ".delta";
const QUARANTINED: &str = ".quarantined";

/// `delta-<number, 20 digits>-<nonce>.delta`, so that a listing is in order.
pub(super) fn delta_name(at: CheckpointRef) -> String {
    format!("{PREFIX}{:020}-{}{SUFFIX}", at.checkpoint.0, at.nonce)
}

pub(super) fn parse_delta_name(name: &str) -> Option<CheckpointRef> {
    let (number, nonce) = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.split_once('-')?;
    let number = CheckpointId(number.parse().ok()?);
    let nonce = Nonce(u128::from_str_radix(nonce, 16).ok()?.to_be_bytes());
    let at = CheckpointRef::new(number, nonce);
    // Only the spelling that we write, so that a file has one name.
    (delta_name(at) == name).then_some(at)
}

/// `<delta name>.quarantined` or `<delta name>.<copy>.quarantined`.
pub(super) fn parse_quarantined_name(name: &str) -> Option<CheckpointRef> {
    let name = name.strip_suffix(QUARANTINED)?;
    let end = name.find(SUFFIX)? + SUFFIX.len();
    parse_delta_name(name.get(..end)?)
}

pub(super) fn is_temporary(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(".tmp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back_and_no_other_spelling_is() {
        let at = CheckpointRef::new(CheckpointId(42), Nonce([0xab; 16]));
        let name = delta_name(at);
        assert_eq!(parse_delta_name(&name), Some(at));
        assert_eq!(parse_delta_name(&name.to_uppercase()), None);
        assert_eq!(parse_delta_name(&name.replace("00042", "42")), None);
        assert_eq!(parse_quarantined_name(&format!("{name}.quarantined")), Some(at));
        assert_eq!(parse_quarantined_name(&format!("{name}.2.quarantined")), Some(at));
        assert_eq!(parse_quarantined_name(&name), None);
    }
}
