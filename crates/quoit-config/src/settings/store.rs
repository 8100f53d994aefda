//! Settings of the replicated store, from the configuration.

use super::Settings;
use quoit_core::{
    Blocking, DeleteMode, ExchangeSettings, HintCountMax, Limits, PageRecordsMax, ReapRecordLimits,
    RequestLogSettings, StoreSettings, TransferLimits, TransferShareMin,
};

impl Settings {
    /// Settings of the replicated store.
    pub fn store(&self) -> StoreSettings {
        let (limits, transfers) = (Limits::default(), TransferLimits::default());
        let (exchanges, reap_records) = (ExchangeSettings::default(), ReapRecordLimits::default());
        let bytes = |name: &str, default: u64| self.size_bytes(name).unwrap_or(default);
        let count = |name: &str, default: u32| {
            self.integer(name).and_then(|number| u32::try_from(number).ok()).unwrap_or(default)
        };
        StoreSettings {
            limits: Limits {
                object_size_bytes_max: bytes("object.size.maximum", limits.object_size_bytes_max),
                object_size_bytes_warning: bytes(
                    "object.size.warning_threshold",
                    limits.object_size_bytes_warning,
                ),
                sibling_count_max: count("object.siblings.maximum", limits.sibling_count_max),
                sibling_count_warning: count(
                    "object.siblings.warning_threshold",
                    limits.sibling_count_warning,
                ),
                concurrent_request_count_max: count(
                    "max_concurrent_requests",
                    limits.concurrent_request_count_max,
                ),
            },
            page_records_max: PageRecordsMax::default(),
            delete_mode: match self.get("delete_mode") {
                Some("keep") => DeleteMode::Keep,
                Some("immediate") => DeleteMode::Immediate,
                Some(text) => {
                    text.parse().map_or_else(|_| DeleteMode::default(), DeleteMode::AfterMs)
                }
                None => DeleteMode::default(),
            },
            ttl_secs_default: self
                .duration("bitcask.expiry")
                .map(|age| u32::try_from(age.as_secs()).unwrap_or(u32::MAX)),
            blocking: Blocking::Pool,
            transfer_limits: TransferLimits {
                partition_count_max: count("transfer_limit", transfers.partition_count_max),
                bytes_per_sec_max: bytes("transfer_rate", transfers.bytes_per_sec_max),
                inbound: self.flag("handoff.inbound"),
                outbound: self.flag("handoff.outbound"),
            },
            transfer_share_min: TransferShareMin(self.percent("transfer_share.minimum")),
            request_log: RequestLogSettings {
                slow_count_max: count("slow_log.maximum", 100) as usize,
                key_count_max: count("hot_keys.maximum", 100) as usize,
            },
            hint_count_max: self
                .integer("hints.maximum")
                .and_then(|count| usize::try_from(count).ok())
                .map_or_else(HintCountMax::default, HintCountMax),
            reap_records: ReapRecordLimits {
                count_max: self
                    .integer("reaped.maximum")
                    .and_then(|count| usize::try_from(count).ok())
                    .unwrap_or(reap_records.count_max),
                ..reap_records
            },
            exchanges: ExchangeSettings {
                active: self.get("anti_entropy") != Some("passive")
                    || self.get("tictacaae_active") == Some("active"),
                count_max: count("anti_entropy.concurrency_limit", exchanges.count_max),
                interval: self
                    .duration("anti_entropy.trigger_interval")
                    .unwrap_or(exchanges.interval),
                verified_bytes_per_sec: bytes("verify_rate", exchanges.verified_bytes_per_sec),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Sources, load};

    #[test]
    fn copies_are_compared_unless_both_of_riaks_settings_say_no() {
        let active = |lines: &[&str]| {
            let command_line = lines.iter().map(|line| (*line).to_owned()).collect();
            let sources = Sources { command_line, ..Sources::default() };
            load(&sources).expect("a good configuration").store().exchanges.active
        };
        assert!(active(&[]));
        assert!(active(&["anti_entropy = active-debug"]));
        assert!(active(&["tictacaae_active = passive"]));
        assert!(active(&["anti_entropy = passive", "tictacaae_active = active"]));
        assert!(!active(&["anti_entropy = passive"]));
    }
}
