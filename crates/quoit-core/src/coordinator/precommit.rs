//! Pre-commit hooks: the built-in checks of values before they are stored, and the refusal of writes whose
//! bucket has a hook that this server can't run (property `precommit`).
//!
//! The node that a client asks checks puts and updates of data types, before another node coordinates them.
//! The coordinator of a delete runs the hooks: of one with a context at once, of one without when it knows
//! that there is something to delete. Riak has no hooks in buckets that are written once: there only the
//! built-in checks run. Objects from other clusters were checked where they were written.

use crate::coordinator::Coordinator;
use crate::error::RequestError;
use crate::placement::bucket_props;
use crate::stats::Counter;
use quoit_model::key::BucketRef;
use quoit_model::props::{BucketProps, PrecommitCheck};
use serde::de::IgnoredAny;

impl Coordinator {
    /// Runs the pre-commit hooks of a bucket. `value` is the value to be stored; `None` for deletes and for
    /// operations on data types, which the built-in checks let pass. A bucket without hooks costs one look at
    /// its properties.
    ///
    /// # Errors
    ///
    /// - [`RequestError::Precommit`] if a check does not let the value pass;
    /// - [`RequestError::HookNotRun`] if the bucket has a hook that this server can't run.
    pub(crate) fn run_precommit(
        &self,
        bucket: BucketRef<'_>,
        value: Option<&[u8]>,
    ) -> Result<(), RequestError> {
        let state = self.local.control.read();
        // The write reports a fault of the name.
        let result = bucket_props(&state, bucket).map_or(Ok(()), |props| run(props, value));
        self.count_refusal(&result);
        result
    }

    /// Counts a write that a pre-commit hook has refused.
    pub(crate) fn count_refusal<T>(&self, result: &Result<T, RequestError>) {
        if matches!(result, Err(RequestError::Precommit(_) | RequestError::HookNotRun(_))) {
            self.local.stats.count(Counter::PrecommitFailures);
        }
    }
}

/// Runs the pre-commit hooks of a bucket; see [`Coordinator::run_precommit`].
pub(crate) fn run(props: &BucketProps, value: Option<&[u8]>) -> Result<(), RequestError> {
    for hook in &props.precommit {
        match (PrecommitCheck::of(hook), value) {
            (Some(check), Some(value)) => {
                check_value(check, value).map_err(RequestError::Precommit)?;
            }
            (Some(_), None) => {}
            (None, _) if props.is_write_once() => {}
            (None, _) => return Err(RequestError::HookNotRun(hook.clone())),
        }
    }
    Ok(())
}

fn check_value(check: PrecommitCheck, value: &[u8]) -> Result<(), String> {
    match check {
        PrecommitCheck::ValidJson => match serde_json::from_slice::<IgnoredAny>(value) {
            Ok(_) => Ok(()),
            Err(fault) => Err(format!("quoit:valid_json: the value is not JSON: {fault}")),
        },
        PrecommitCheck::MaxBytes(bytes_max) if value.len() as u64 > bytes_max => {
            Err(format!("quoit:max_bytes_{bytes_max}: the value has {} bytes", value.len()))
        }
        PrecommitCheck::MaxBytes(_) | PrecommitCheck::None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_model::props::CommitHook;
    use serde_json::json;

    fn props_with(module: &str, function: &str) -> BucketProps {
        let hook = CommitHook::from_json(&json!({"mod": module, "fun": function}));
        BucketProps { precommit: vec![hook.expect("a hook")], ..BucketProps::untyped() }
    }

    fn checked(function: &str, value: &str) -> Result<(), String> {
        run(&props_with("quoit", function), Some(value.as_bytes()))
            .map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_hook_that_cannot_be_run_refuses_writes_and_deletes() {
        let props = props_with("m", "f");
        for value in [Some(b"value".as_slice()), None] {
            let fault = run(&props, value).expect_err("it can't be run");
            assert!(matches!(fault, RequestError::HookNotRun(_)), "{fault:?}");
            assert!(fault.to_string().contains(r#"{"fun":"f","mod":"m"}"#), "{fault}");
        }
    }

    #[test]
    fn buckets_that_are_written_once_run_the_built_in_checks_alone() {
        let write_once = |props| BucketProps { write_once: Some(true), ..props };
        assert!(run(&write_once(props_with("m", "f")), Some(b"value")).is_ok());
        let checked = run(&write_once(props_with("quoit", "valid_json")), Some(b"value"));
        assert!(matches!(checked, Err(RequestError::Precommit(_))), "{checked:?}");
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
