//! Commit hooks: the built-in checks of values before they are stored, and hooks that this server can't run.

use super::{CommitHook, PropUpdates};
use serde_json::Value;

/// Module name of the built-in checks.
const MODULE: &str = "quoit";
/// A function of Riak that checks nothing; tests of clients set it.
const NO_CHECK: (&str, &str) = ("riak_kv_util", "noop");

/// Prefixes of the names of Riak's own modules.
const RIAKS_MODULES: [&str; 2] = ["riak_", "yz_"];

/// A check of values before they are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrecommitCheck {
    /// `quoit:valid_json`: values must be well-formed JSON.
    ValidJson,
    /// `quoit:max_bytes_N`: values must have at most N bytes.
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
                // `parse` would take a sign, too.
                .filter(|count| count.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|count| count.parse().ok())
                .map(Self::MaxBytes),
            other if other == NO_CHECK => Some(Self::None),
            _ => None,
        }
    }
}

impl PropUpdates {
    /// Commit hooks among these properties that this server can't run, each with the name of its property.
    ///
    /// They are kept and shown like any other hook. A bucket with such a pre-commit hook refuses writes, as
    /// Riak does if the hook's module is missing. Post-commit hooks are never run. The answer leaves out
    /// hooks whose absence has no effect: Riak runs JavaScript functions only before a commit, and its own
    /// modules are those of replication and Search.
    pub fn hooks_not_run(&self) -> impl Iterator<Item = (&'static str, CommitHook)> {
        let precommit = self.hooks("precommit").filter(|hook| PrecommitCheck::of(hook).is_none());
        let postcommit = self.hooks("postcommit").filter(|hook| match hook {
            CommitHook::ModFun(function) => {
                !RIAKS_MODULES.iter().any(|prefix| function.module.starts_with(prefix))
            }
            CommitHook::JavaScript(_) => false,
        });
        precommit.map(|hook| ("precommit", hook)).chain(postcommit.map(|hook| ("postcommit", hook)))
    }

    fn hooks(&self, name: &str) -> impl Iterator<Item = CommitHook> {
        let hooks = match self.get(name) {
            Some(Value::Array(hooks)) => hooks.as_slice(),
            _ => &[],
        };
        hooks.iter().filter_map(CommitHook::from_json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hooks_not_run(props: Value) -> Vec<(&'static str, String)> {
        let Value::Object(props) = props else { panic!("an object") };
        let updates = PropUpdates::from(props);
        let named = updates.hooks_not_run().map(|(name, hook)| (name, hook.to_json().to_string()));
        named.collect()
    }

    #[test]
    fn checks_are_known_by_their_names() {
        let of = |module: &str, function: &str| {
            let hook = CommitHook::from_json(&json!({"mod": module, "fun": function}));
            PrecommitCheck::of(&hook.expect("a hook"))
        };
        assert_eq!(of("quoit", "valid_json"), Some(PrecommitCheck::ValidJson));
        assert_eq!(of("quoit", "max_bytes_100"), Some(PrecommitCheck::MaxBytes(100)));
        assert_eq!(of("quoit", "max_bytes_0"), Some(PrecommitCheck::MaxBytes(0)));
        assert_eq!(of("quoit", "max_bytes_007"), Some(PrecommitCheck::MaxBytes(7)));
        assert_eq!(of("riak_kv_util", "noop"), Some(PrecommitCheck::None));
        let unknown = [
            ("quoit", "max_bytes_"),
            ("quoit", "max_bytes_+5"),
            ("quoit", "x"),
            ("m", "valid_json"),
        ];
        for (module, function) in unknown {
            assert_eq!(of(module, function), None, "{function}");
        }
    }

    #[test]
    fn hooks_that_are_not_run_are_named_with_their_property() {
        let unknown = json!({"mod": "m", "fun": "f"});
        let script = json!({"name": "Js.hook"});
        let known = json!({"mod": "quoit", "fun": "valid_json"});
        let riaks = json!({"mod": "riak_repl_leader", "fun": "postcommit"});
        let props = json!({"precommit": [known, unknown, script],
            "postcommit": [riaks, script, unknown]});
        let (unknown, script) = (unknown.to_string(), script.to_string());
        let expected =
            [("precommit", unknown.clone()), ("precommit", script), ("postcommit", unknown)];
        assert_eq!(hooks_not_run(props), expected);
        assert_eq!(hooks_not_run(json!({"precommit": [], "n_val": 3})), []);
    }
}
