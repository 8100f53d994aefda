//! Metrics of the security of connections between nodes, and of the audit log.

use super::metrics::{FamilyKind, MetricsText};
use crate::context::ServerContext;
use quoit_tls::Instant;

/// Adds the expiry of certificates, connections without TLS, and lines of the audit log.
pub(super) fn link_metrics(text: &mut MetricsText, context: &ServerContext) {
    let now = Instant::now();
    if let Some(view) = context.store.control().link_view() {
        let name = "quoit_certificate_expiry_seconds";
        text.family(
            name,
            "Seconds until a certificate of the cluster's own expires.",
            FamilyKind::Gauge,
        );
        let mut ends = vec![("node".to_owned(), view.not_after)];
        ends.extend(
            view.authorities.iter().map(|(id, end)| (format!("authority {id}"), Some(*end))),
        );
        for (what, end) in ends {
            let Some(end) = end else { continue };
            let left = end.unix_secs() - now.unix_secs();
            text.line(format_args!("{name}{{certificate=\"{what}\"}} {left}"));
        }
        let soon =
            [view.not_after].into_iter().chain(view.authorities.iter().map(|(_, end)| Some(*end)));
        let warned =
            soon.flatten().filter(|end| end.days_after(now) < quoit_tls::EXPIRY_WARNING_DAYS);
        text.gauge(
            "quoit_certificates_expiring",
            "Certificates of the cluster's own that expire within 30 days.",
            warned.count() as u64,
        );
        let plain = view.plain.values().map(|link| link.connection_count).sum();
        text.counter(
            "quoit_internode_plain_connections",
            "Connections between nodes without TLS while internode.tls is both.",
            plain,
        );
        text.gauge(
            "quoit_internode_plain_hosts",
            "Hosts that such connections came from or went to.",
            view.plain.len() as u64,
        );
    }
    let (recorded, lost) = context.audit.counts();
    text.counter("quoit_audit_lines", "Lines of the audit log.", recorded);
    text.counter(
        "quoit_audit_lines_lost",
        "Lines of the audit log that could not be written.",
        lost,
    );
    text.counter(
        "quoit_audit_refusals_passed_over",
        "Refused logins and operations that were too many within a second to be recorded.",
        context.audit.passed_over_count(),
    );
}
