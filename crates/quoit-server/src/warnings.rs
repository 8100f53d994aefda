//! Warnings about a node's security, as texts for operators.

use crate::context::ServerContext;
use quoit_cluster::InternodeTlsMode;
use quoit_tls::{EXPIRY_WARNING_DAYS, Instant};

/// Number of clients without TLS that a warning names.
const NAMED_CLEAR_CLIENTS_MAX: usize = 8;

impl ServerContext {
    /// True if security is on.
    #[must_use]
    pub fn is_secured(&self) -> bool {
        self.store.control().read().security().is_enabled()
    }

    /// Changes whether clients without TLS are served without a login while security is on. When that is
    /// switched off, returns the addresses of the clients that were served in this way.
    pub fn serve_plaintext(&self, serves: bool) -> Vec<String> {
        self.security.serve_plaintext(self.store.control(), serves);
        if serves { Vec::new() } else { self.security.plaintext_clients().into_keys().collect() }
    }

    /// Client listeners that other machines can use without a login, because security is off or because
    /// clients without TLS are served anyway.
    #[must_use]
    pub fn open_listeners(&self) -> Vec<String> {
        if self.is_secured() && !self.security.serves_plaintext() {
            return Vec::new();
        }
        let reachable = self.reachable_from_afar.get();
        reachable.into_iter().flat_map(|all| &all.clients).map(ToString::to_string).collect()
    }

    /// The listener for other nodes, if other machines can reach it without proving that they are members.
    #[must_use]
    pub fn open_internode(&self) -> Option<String> {
        let address = self.reachable_from_afar.get()?.nodes?;
        let view = self.store.control().link_view()?;
        (view.mode != InternodeTlsMode::Required).then(|| address.to_string())
    }

    /// All warnings about security.
    #[must_use]
    pub fn security_warnings(&self) -> Vec<String> {
        let mut warnings = self.security_faults();
        warnings.extend(self.open_warnings());
        warnings
    }

    /// Security features that do not work, or that soon will not.
    #[must_use]
    pub fn security_faults(&self) -> Vec<String> {
        let now = Instant::now();
        let mut faults = self.security.warnings();
        faults.extend(self.security.expiry().iter().filter_map(|expiry| expiry.warning(now)));
        faults.extend(self.expiring_links(now));
        if self.is_secured() && !self.security.has_tls() {
            faults.push(
                "security is on and the node has no certificate: no client can log in; set ssl.certfile and \
                 ssl.keyfile and restart the node"
                    .to_owned(),
            );
        }
        faults
    }

    /// Warnings about listeners that are open to everybody, which an operator may intend.
    fn open_warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let open = self.open_listeners();
        if self.is_secured() && self.security.serves_plaintext() {
            warnings.push(self.plaintext_warning());
        } else if !open.is_empty() {
            warnings.push(format!(
                "{} can be reached by other machines and security is off: everybody who reaches them may \
                 read and write everything; see docs/security.md",
                open.join(", ")
            ));
        }
        if let Some(address) = self.open_internode() {
            warnings.push(format!(
                "{address} (listener.internode) can be reached by other machines and internode.tls is not \
                 required: everybody who reaches it may read and write everything; see \
                 docs/secure-a-cluster.md"
            ));
        }
        warnings
    }

    /// Certificates of the cluster's own authorities that expire soon.
    fn expiring_links(&self, now: Instant) -> Vec<String> {
        let Some(view) = self.store.control().link_view() else { return Vec::new() };
        let own = view.not_after.map(|end| {
            ("the node's certificate for other nodes, which it could not renew".to_owned(), end)
        });
        let authorities = view.authorities.iter().map(|(id, end)| {
            let remedy = "replace it by `quoit admin cluster tls rotate`";
            (format!("the cluster's authority {id} ({remedy})"), *end)
        });
        let all = own.into_iter().chain(authorities);
        let soon = all.filter(|(_, end)| end.days_after(now) < EXPIRY_WARNING_DAYS);
        soon.map(|(what, end)| format!("{what} expires in {} days, on {end}", end.days_after(now)))
            .collect()
    }

    /// The warning while clients without TLS are served without a login.
    fn plaintext_warning(&self) -> String {
        let mut hosts: Vec<String> = self.security.plaintext_clients().into_keys().collect();
        let more = hosts.len().saturating_sub(NAMED_CLEAR_CLIENTS_MAX);
        hosts.truncate(NAMED_CLEAR_CLIENTS_MAX);
        let mut who = if hosts.is_empty() { "none so far".to_owned() } else { hosts.join(", ") };
        if more > 0 {
            who.push_str(&format!(" and {more} more"));
        }
        format!(
            "listener.tls = both: clients in clear are served without a login although security is on \
             ({who}); set listener.tls = required when no client needs it any more"
        )
    }
}
