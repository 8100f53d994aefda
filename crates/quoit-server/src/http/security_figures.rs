//! Metrics of logins, permissions and TLS.

use super::metrics::{FamilyKind, MetricsText};
use crate::context::ServerContext;
use quoit_tls::Instant;

pub(super) fn security_metrics(text: &mut MetricsText, context: &ServerContext) {
    let control = context.store.control();
    let is_enabled = control.read().security().is_enabled();
    text.gauge("quoit_security_enabled", "1 while clients have to log in.", is_enabled.into());
    text.gauge(
        "quoit_open_listeners",
        "Listeners for clients that other machines may reach without a login.",
        context.open_listeners().len() as u64,
    );
    text.gauge(
        "quoit_open_internode",
        "1 while other machines may reach the listener for nodes without a proof of membership.",
        context.open_internode().is_some().into(),
    );
    plaintext_metrics(text, context);
    text.gauge(
        "quoit_security_cut_off",
        "1 while rights may have been changed on other nodes without this node knowing.",
        control.is_cut_off().into(),
    );
    text.gauge(
        "quoit_security_cut_off_seconds",
        "Seconds for which rights may have been changed on other nodes without this node knowing.",
        control.cut_off_for().map_or(0, |lasts| lasts.as_secs().max(1)),
    );
    let figures = context.security.figures();
    text.gauge(
        "quoit_unauthenticated_connections",
        "Connections that have not logged in.",
        figures.unauthenticated as u64,
    );
    text.counter("quoit_logins", "Logins.", figures.logins);
    text.counter("quoit_failed_logins", "Logins that were refused.", figures.failed_logins);
    text.counter("quoit_denied_requests", "Requests without their right.", figures.denied);
    text.counter(
        "quoit_turned_away_connections",
        "Connections closed because too many had not logged in.",
        figures.turned_away,
    );
    text.counter("quoit_tls_handshakes", "TLS handshakes.", figures.handshakes);
    text.counter(
        "quoit_tls_failed_handshakes",
        "TLS handshakes that failed.",
        figures.failed_handshakes,
    );
    text.counter(
        "quoit_tls_refused_certificates",
        "TLS handshakes that failed for the certificate of the client.",
        figures.refused_certificates,
    );
    let now = Instant::now();
    let days = context.security.expiry().iter().map(|expiry| expiry.days_left(now)).min();
    if let Some(days) = days {
        text.family(
            "quoit_certificate_expiry_days",
            "Days until the first certificate or list for clients expires.",
            FamilyKind::Gauge,
        );
        text.line(format_args!("quoit_certificate_expiry_days {days}"));
    }
}

/// Adds the figures of clients without TLS that are served although security is on.
fn plaintext_metrics(text: &mut MetricsText, context: &ServerContext) {
    let clear = context.security.plaintext_clients();
    text.gauge(
        "quoit_clear_clients_served",
        "1 while clients in clear are served without a login although security is on.",
        (context.is_secured() && context.security.serves_plaintext()).into(),
    );
    text.counter(
        "quoit_clear_client_connections",
        "Connections of clients in clear that were served so.",
        clear.values().map(|link| link.connection_count).sum(),
    );
    text.gauge("quoit_clear_client_hosts", "Addresses that they came from.", clear.len() as u64);
}
