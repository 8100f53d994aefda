//! Settings from environment variables.

/// Variables with this prefix are settings: `QUOIT_RING_SIZE=128`. Two underscores stand for a dot.
const PREFIX: &str = "QUOIT_";

/// Variables with the prefix that are not settings of a node. The load generator sets the first one for
/// programs that it starts; commands that ask a node read the second one.
const OF_TOOLS: [&str; 2] = ["QUOIT_BENCH_DIR", "QUOIT_URL"];

/// An environment variable.
#[derive(Clone, Copy)]
pub(crate) struct Variable<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: &'a str,
}

impl Variable<'_> {
    /// The key that the variable sets, which may be unknown; `None` if the variable is not a setting.
    pub(crate) fn key(self) -> Option<String> {
        let name = self.name.strip_prefix(PREFIX)?;
        if OF_TOOLS.contains(&self.name) || self.is_service_link() {
            return None;
        }
        Some(name.to_ascii_lowercase().replace("__", "."))
    }

    /// True if Kubernetes sets the variable. It does so in all pods next to a service whose name begins
    /// with `quoit`, for the host, the ports, and for each port an address such as `tcp://10.0.0.1:8087`
    /// with its parts.
    fn is_service_link(self) -> bool {
        let Some(name) = self.name.strip_prefix(PREFIX) else { return false };
        let has = |part: &str| name.starts_with(part) || name.contains(&format!("_{part}"));
        let is_address = self.value.contains("://");
        let of_port = ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| name.contains(protocol));
        name == "SERVICE_HOST"
            || name.ends_with("_SERVICE_HOST")
            || has("SERVICE_PORT")
            || (has("PORT") && (is_address || (of_port && has("PORT_"))))
    }
}

/// The variable that sets a key.
pub(crate) fn name(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_underscores_of_a_variable_are_a_dot() {
        let variable = Variable { name: "QUOIT_LISTENER__HTTP__MAIN", value: "127.0.0.1:0" };
        assert_eq!(variable.key().as_deref(), Some("listener.http.main"));
    }

    #[test]
    fn variables_of_a_kubernetes_service_are_no_settings() {
        for (name, value) in [
            ("QUOIT_SERVICE_HOST", "10.0.0.1"),
            ("QUOIT_SERVICE_PORT", "8087"),
            ("QUOIT_SERVICE_PORT_PB", "8087"),
            ("QUOIT_PORT", "tcp://10.0.0.1:8087"),
            ("QUOIT_PORT_8087_TCP", "tcp://10.0.0.1:8087"),
            ("QUOIT_PORT_8087_TCP_ADDR", "10.0.0.1"),
            ("QUOIT_PORT_8087_TCP_PROTO", "tcp"),
            ("QUOIT_HEADLESS_SERVICE_HOST", "10.0.0.2"),
            ("QUOIT_HEADLESS_PORT_8098_TCP_PORT", "8098"),
        ] {
            assert_eq!(Variable { name, value }.key(), None, "{name}");
        }
        let setting = Variable { name: "QUOIT_HANDOFF__PORT", value: "8099" };
        assert_eq!(setting.key().as_deref(), Some("handoff.port"));
    }

    #[test]
    fn other_programs_variables_are_no_settings() {
        for (name, value) in
            [("PATH", "/bin"), ("QUOIT_BENCH_DIR", "/tmp"), ("QUOIT_URL", "db1:8098")]
        {
            assert_eq!(Variable { name, value }.key(), None, "{name}");
        }
    }
}
