//! Built-in checks of values before they are stored (property `precommit`).

use crate::coordinator::Coordinator;
use crate::coordinator::put::PutRequest;
use crate::error::RequestError;
use crate::placement::bucket_props;
use quoit_model::props::{BucketProps, PrecommitCheck};
use serde::de::IgnoredAny;

impl Coordinator {
    /// Checks a client's value as its bucket wants it. Where there is no check, it looks at the
    /// properties.
    pub(crate) fn check_precommit(&self, request: &PutRequest<'_>) -> Result<(), RequestError> {
        let state = self.local.control.read();
        // The write reports a fault of the name.
        match bucket_props(&state, request.key.bucket) {
            Ok(props) if !props.precommit.is_empty() && !request.deleted => {
                check(props, &request.value)
            }
            _ => Ok(()),
        }
    }
}

/// Whether a bucket wants its values checked.
pub(crate) const fn has_checks(props: &BucketProps) -> bool {
    !props.precommit.is_empty()
}

fn check(props: &BucketProps, value: &[u8]) -> Result<(), RequestError> {
    for check in props.precommit.iter().filter_map(PrecommitCheck::of) {
        match check {
            PrecommitCheck::ValidJson => {
                serde_json::from_slice::<IgnoredAny>(value).map_err(|fault| {
                    RequestError::Precommit(format!(
                        "quoit:valid_json: the value is no JSON: {fault}"
                    ))
                })?;
            }
            PrecommitCheck::MaxBytes(bytes_max) if value.len() as u64 > bytes_max => {
                return Err(RequestError::Precommit(format!(
                    "quoit:max_bytes_{bytes_max}: the value has {} bytes",
                    value.len()
                )));
            }
            PrecommitCheck::MaxBytes(_) | PrecommitCheck::None => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_model::props::CommitHook;
    use serde_json::json;

    fn checked(function: &str, value: &str) -> Result<(), String> {
        let hook = CommitHook::from_json(&json!({"mod": "quoit", "fun": function}));
        let props =
            BucketProps { precommit: vec![hook.expect("a hook")], ..BucketProps::untyped() };
        check(&props, value.as_bytes()).map_err(|fault| fault.to_string())
    }

    #[test]
    fn values_are_checked_as_the_bucket_says() {
        assert_eq!(checked("valid_json", "{\"a\": [1]}"), Ok(()));
        for bad in ["", "{", "{}x", "\u{0}"] {
            assert!(checked("valid_json", bad).is_err(), "{bad:?}");
        }
        assert_eq!(checked("max_bytes_3", "abc"), Ok(()));
        let fault = checked("max_bytes_3", "abcd").expect_err("too long");
        assert!(fault.contains("quoit:max_bytes_3") && fault.contains("4 bytes"), "{fault}");
    }
}
