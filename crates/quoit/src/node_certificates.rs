//! Tells in time that a certificate of the cluster's own is about to expire.

use quoit_core::ReplicatedStore;
use quoit_tls::{EXPIRY_WARNING_DAYS, Instant};
use std::sync::Arc;
use std::time::Duration;

/// How often it is looked: an operator reads the log once a day.
const LOOK_INTERVAL: Duration = Duration::from_secs(86_400);

/// Looks at once and every day, for as long as it is polled.
pub(crate) async fn watch(store: Arc<ReplicatedStore>) {
    let mut looks = tokio::time::interval(LOOK_INTERVAL);
    loop {
        looks.tick().await;
        let Some(view) = store.control().link_view() else { continue };
        let now = Instant::now();
        let own = view.not_after.map(|end| ("the certificate for other nodes".to_owned(), end));
        let authorities = view.authorities.iter().map(|(id, end)| {
            (format!("the cluster's authority {id} (quoit admin cluster tls rotate)"), *end)
        });
        for (what, end) in own.into_iter().chain(authorities) {
            let days = end.days_after(now);
            if days < EXPIRY_WARNING_DAYS {
                tracing::warn!(days, "{what} expires on {end}");
            }
        }
    }
}
