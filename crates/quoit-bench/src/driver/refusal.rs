//! Messages for configurations that name a driver which does not exist.

use crate::config::{Config, ConfigError};
use crate::names::nearest;

/// The drivers, under the names that configurations can use.
const OFFERED: [&str; 18] = [
    "http_raw",
    "http",
    "riakc_pb",
    "riakc_dt_pb",
    "riakclient",
    "nhs",
    "2i",
    "bitcask",
    "eleveldb",
    "leveled",
    "innostore",
    "memory",
    "ets",
    "dets",
    "redis",
    "memcached",
    "null",
    "nullfile",
];

/// Drivers of basho_bench that are not offered, each with an alternative.
const REFUSED: [(&str, &str); 15] = [
    ("riakclient_sets", "use riakc_dt_pb, which reads and changes sets over Protocol Buffers"),
    ("bigset", "use riakc_dt_pb: every set of Quoit is one that may be large"),
    ("kv_backend", "the engines that run in this process are Quoit's own: use bitcask or memory"),
    ("shortcut", "data files of Riak are not written: load through riakc_pb, or use bitcask"),
    ("riakc_java", "it runs a Java client: use riakc_pb, which speaks the same protocol"),
    ("riakc_ts", "Quoit keeps no time series: use riakc_pb"),
    ("riakts", "Quoit keeps no time series: use riakc_pb"),
    ("ts", "Quoit keeps no time series: use riakc_pb"),
    ("cluster", "it works inside of Erlang nodes: use riakc_pb or http_raw"),
    ("cs", "it drives an object store over S3: use http_raw for HTTP"),
    ("cs2", "it drives an object store over S3: use http_raw for HTTP"),
    ("cassandra", "it speaks to another database: use riakc_pb"),
    ("cassandra_cql", "it speaks to another database: use riakc_pb"),
    ("hibari", "it speaks to another database: use riakc_pb"),
    ("carbon", "it sends metrics, not requests: use null to measure the load generator"),
];

/// The error for an unknown driver name.
pub(super) fn not_offered(config: &Config, name: &str) -> ConfigError {
    let known = REFUSED.iter().find(|(refused, _)| *refused == name);
    let remedy = match (known, nearest(name, &OFFERED)) {
        (Some((_, remedy)), _) => (*remedy).to_owned(),
        (None, Some(nearest)) => format!("did you mean {nearest}?"),
        (None, None) => format!("there are {}", OFFERED.join(", ")),
    };
    let place = config.settings.place("driver");
    ConfigError::Driver { place, name: name.to_owned(), remedy }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::driver::{Driver, DriverTask, with_named};

    struct Name;

    impl DriverTask for Name {
        type Output = &'static str;

        fn with<D: Driver>(self) -> &'static str {
            D::NAME
        }
    }

    fn look_up(name: &str) -> Result<&'static str, String> {
        let mut settings = Settings::default();
        let text = format!("{{driver, 'basho_bench_driver_{name}'}}.");
        settings.add("test.config".as_ref(), text.as_bytes()).expect("terms");
        let config = Config::from_settings(settings).expect("a configuration");
        with_named(&config, Name).map_err(|error| error.to_string())
    }

    #[test]
    fn every_offered_name_has_a_driver() {
        for name in OFFERED {
            assert!(look_up(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn every_refused_name_is_told_of_a_driver_that_there_is() {
        for (name, remedy) in REFUSED {
            let error = look_up(name).expect_err(name);
            assert!(error.contains(remedy), "{error}");
            let words = remedy.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            assert!(words.into_iter().any(|word| OFFERED.contains(&word)), "{remedy}");
        }
    }

    #[test]
    fn a_misspelt_name_is_told_of_the_right_one() {
        assert!(look_up("riackc_pb").is_err_and(|error| error.contains("did you mean riakc_pb?")));
        let all = look_up("something_else").expect_err("no such driver");
        assert!(all.contains("there are http_raw, http, riakc_pb"), "{all}");
    }
}
