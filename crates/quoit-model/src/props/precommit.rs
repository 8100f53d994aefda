//! Checks that a bucket may have before its values are stored: built-in functions, named as commit hooks.

use super::{CommitHook, InvalidProps, PropUpdates, Reason};
use serde_json::Value;

/// The module of the built-in checks.
const MODULE: &str = "quoit";
/// A function of Riak's that names no check: tests of clients set it.
const NO_CHECK: (&str, &str) = ("riak_kv_util", "noop");

/// A check of values before they are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrecommitCheck {
    /// `quoit:valid_json`: values are well-formed JSON.
    ValidJson,
    /// `quoit:max_bytes_N`: values have at most so many bytes.
    MaxBytes(u64),
    /// `riak_kv_util:noop`: all values pass.
    None,
}

impl PrecommitCheck {
    /// The check that a hook names; `None` for hooks that this server can't run.
    #[must_use]
    pub fn of(hook: &CommitHook) -> Option<Self> {
        let CommitHook::ModFun(function) = hook else { return None };
        match (function.module.as_str(), function.function.as_str()) {
            (MODULE, "valid_json") => Some(Self::ValidJson),
            (MODULE, name) => name
                .strip_prefix("max_bytes_")
                .and_then(|count| count.parse().ok())
                .map(Self::MaxBytes),
            other if other == NO_CHECK => Some(Self::None),
            _ => None,
        }
    }
}

impl PropUpdates {
    /// Checks that the pre-commit hooks that are set can be run: writes of the bucket would go unchecked
    /// otherwise.
    ///
    /// # Errors
    ///
    /// When one can't, with its name.
    pub fn check_precommit(&self) -> Result<(), InvalidProps> {
        let hooks = match self.get("precommit") {
            Some(Value::Array(hooks)) => hooks.as_slice(),
            _ => return Ok(()),
        };
        for hook in hooks.iter().filter_map(CommitHook::from_json) {
            if PrecommitCheck::of(&hook).is_none() {
                let hook = hook.to_json().to_string();
                return Err(InvalidProps::one("precommit", Reason::UnknownHook { hook }));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(hooks: Value) -> Result<(), InvalidProps> {
        let Value::Object(props) = json!({"precommit": hooks, "postcommit": [{"name": "Js.hook"}]})
        else {
            panic!("an object")
        };
        PropUpdates::from(props).check_precommit()
    }

    #[test]
    fn checks_are_known_by_their_names() {
        let of = |module: &str, function: &str| {
            let hook = CommitHook::from_json(&json!({"mod": module, "fun": function}));
            PrecommitCheck::of(&hook.expect("a hook"))
        };
        assert_eq!(of("quoit", "valid_json"), Some(PrecommitCheck::ValidJson));
        assert_eq!(of("quoit", "max_bytes_100"), Some(PrecommitCheck::MaxBytes(100)));
        assert_eq!(of("riak_kv_util", "noop"), Some(PrecommitCheck::None));
        for (module, function) in [("quoit", "max_bytes_"), ("quoit", "x"), ("m", "valid_json")] {
            assert_eq!(of(module, function), None);
        }
    }

    #[test]
    fn hooks_that_cannot_be_run_are_refused_by_name() {
        assert_eq!(check(json!([])), Ok(()));
        assert_eq!(check(json!([{"mod": "quoit", "fun": "valid_json"}])), Ok(()));
        for hook in [json!({"name": "Js.hook"}), json!({"mod": "m", "fun": "f"})] {
            let fault = check(json!([hook])).expect_err("it can't be run").to_string();
            assert!(fault.contains("precommit") && fault.contains(&hook.to_string()), "{fault}");
        }
    }
}
