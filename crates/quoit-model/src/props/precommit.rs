//! Checks that a bucket may have before its values are stored: built-in functions, named as commit hooks.

use super::{CommitHook, InvalidProps, PropUpdates, Reason};
use serde_json::Value;

/// The module of the built-in checks.
const MODULE: &str = "quoit";
/// A function of Riak's that names no check: tests of clients set it.
const NO_CHECK: (&str, &str) = ("riak_kv_util", "noop");

/// Beginnings of the names of Riak's modules.
const RIAKS_MODULES: [&str; 2] = ["riak_", "yz_"];

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
    /// Checks that the hooks that are set can be run: writes of the bucket would go unchecked otherwise, or
    /// untold. Post-commit hooks that do nothing in a Riak node, or whose work is done in other ways here,
    /// are kept as they are: names of functions in JavaScript, and functions of Riak's own modules.
    ///
    /// # Errors
    ///
    /// When one can't, with its name.
    pub fn check_hooks(&self) -> Result<(), InvalidProps> {
        for hook in self.hooks("precommit") {
            if PrecommitCheck::of(&hook).is_none() {
                let hook = hook.to_json().to_string();
                return Err(InvalidProps::one("precommit", Reason::UnknownHook { hook }));
            }
        }
        for hook in self.hooks("postcommit") {
            if !is_without_effect(&hook) {
                let hook = hook.to_json().to_string();
                return Err(InvalidProps::one("postcommit", Reason::PostcommitHook { hook }));
            }
        }
        Ok(())
    }

    fn hooks(&self, name: &str) -> impl Iterator<Item = CommitHook> {
        let hooks = match self.get(name) {
            Some(Value::Array(hooks)) => hooks.as_slice(),
            _ => &[],
        };
        hooks.iter().filter_map(CommitHook::from_json)
    }
}

/// Whether nobody misses a post-commit hook: Riak runs functions in JavaScript before a commit alone, and its
/// own modules are those of replication and Search.
fn is_without_effect(hook: &CommitHook) -> bool {
    match hook {
        CommitHook::ModFun(function) => {
            RIAKS_MODULES.iter().any(|prefix| function.module.starts_with(prefix))
        }
        _ => true,
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
        PropUpdates::from(props).check_hooks()
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
    fn post_commit_hooks_of_users_are_refused_with_a_word_on_the_change_feed() {
        let check = |hook: Value| {
            let Value::Object(props) = json!({"postcommit": [hook]}) else { panic!("an object") };
            PropUpdates::from(props).check_hooks()
        };
        assert_eq!(check(json!({"name": "Js.hook"})), Ok(()));
        assert_eq!(check(json!({"mod": "riak_repl_leader", "fun": "postcommit"})), Ok(()));
        let fault =
            check(json!({"mod": "m", "fun": "f"})).expect_err("it can't be run").to_string();
        assert!(fault.contains("postcommit") && fault.contains("change feed"), "{fault}");
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
