use super::*;
use crate::config::{Config, Pacing, Settings, Target, TargetKeys};
use std::path::Path;

fn config(urls: &[&str], options: &LoadOptions) -> Config {
    let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
    let toml = configuration(&urls, options).expect("a load");
    let mut settings = Settings::default();
    settings.add(Path::new(LINE_FILE), toml.as_bytes()).expect("TOML");
    let config = Config::from_settings(settings).expect("a configuration");
    assert_eq!(config.warnings, [""; 0], "{toml}");
    config
}

fn fault(url: &str, options: &LoadOptions) -> String {
    configuration(&[url.to_owned()], options).expect_err("no load").to_string()
}

#[test]
fn a_line_becomes_a_configuration_that_is_read_without_a_warning() {
    let options = LoadOptions {
        get: Some(3),
        delete: Some(1),
        rate_per_s: Some(5000.0),
        workers: Some(50),
        spread: Some(KeySpread::EightyTwenty),
        ..LoadOptions::default()
    };
    let config = config(&["pb://a:17/maps/b", "pb://[::1]/maps/b"], &options);
    assert_eq!((config.driver.as_str(), config.worker_count), ("riakc_pb", 50));
    assert!(matches!(config.pacing, Pacing::Open { rate_per_s: 5000.0, .. }));
    let target = |host: &str, port| Target { host: host.to_owned(), port };
    let targets = config
        .targets(TargetKeys { ips: "riakc_pb_ips", port: "riakc_pb_port", default_port: 1 })
        .expect("targets");
    assert_eq!(targets, [target("a", 17), target("::1", 8087)]);
    assert_eq!(config.operations.len(), 2);
}

#[test]
fn every_protocol_has_its_driver_and_four_reads_to_a_write() {
    for (url, driver) in [
        ("pb://h", "riakc_pb"),
        ("http://h/b", "http_raw"),
        ("https://h:1/t/b", "http_raw"),
        ("redis://h", "redis"),
        ("memcached://h", "memcached"),
    ] {
        let config = config(&[url], &LoadOptions::default());
        assert_eq!((config.driver.as_str(), config.pacing), (driver, Pacing::Max), "{url}");
        let weights: Vec<_> = config.operations.iter().map(|entry| entry.weight).collect();
        assert_eq!(weights, [80, 20], "{url}");
    }
    let http = config(&["http://h"], &LoadOptions::default());
    let targets = http
        .targets(TargetKeys { ips: "http_raw_ips", port: "http_raw_port", default_port: 1 })
        .expect("targets");
    assert_eq!(targets[0].port, 8098);
}

#[test]
fn named_workloads_are_mixes_and_spreads() {
    let of = |workload, url: &str| {
        let options = LoadOptions { workload: Some(workload), ..LoadOptions::default() };
        config(&[url], &options)
    };
    let insertion = of(Workload::YcsbD, "pb://h");
    let inserts: Vec<_> = insertion.operations.iter().map(|entry| entry.inserts).collect();
    assert_eq!(inserts, [false, true]);
    assert_eq!(insertion.operations[1].operation, crate::term::Term::atom("put"));
    assert!(insertion.inserted_keys().is_some());
    assert!(of(Workload::YcsbA, "redis://h").inserted_keys().is_none());
    for workload in [Workload::YcsbB, Workload::YcsbC, Workload::YcsbF] {
        of(workload, "http://h");
    }
    of(Workload::YcsbE, "pb://h");
    let scans = LoadOptions { workload: Some(Workload::YcsbE), ..LoadOptions::default() };
    assert_eq!(fault("http://h", &scans), LoadOptionsError::WorkloadUnsupported.to_string());
    let weighted = LoadOptions { get: Some(1), ..scans };
    assert!(fault("pb://h", &weighted).contains("leave out --get"));
}

#[test]
fn a_fill_writes_each_key_once() {
    let fill = LoadOptions { fills: true, keys: Some(50), ..LoadOptions::default() };
    let config = config(&["pb://h"], &fill);
    assert_eq!(config.key_generator.dimension(), Some(50));
    assert_eq!(config.length, crate::config::RunLength::Unlimited);
    let beside = LoadOptions { workload: Some(Workload::YcsbA), ..fill };
    assert!(fault("pb://h", &beside).contains("leave out --workload"));
}

#[test]
fn a_line_that_describes_no_load_is_told_with_the_remedy() {
    let none = LoadOptions::default();
    for (url, expected) in [
        (
            "ftp://h",
            "ftp is not a protocol of this program: write pb, http, https, redis or memcached",
        ),
        ("pb://", "write for example"),
        ("pb://h:99999", "write for example"),
        ("pb://u:p@h", "QUOIT_USER"),
        ("pb://h/a/b/c", "TYPE/BUCKET"),
        ("pb://h/b?timeout=1", "neither ? nor #"),
    ] {
        assert!(fault(url, &none).contains(expected), "{url}: {}", fault(url, &none));
    }
    let nothing = LoadOptions { get: Some(0), ..LoadOptions::default() };
    assert!(fault("pb://h", &nothing).contains("all weights are 0"));
    let update = LoadOptions { update: Some(1), ..LoadOptions::default() };
    assert_eq!(fault("redis://h", &update), LoadOptionsError::NoUpdate.to_string());
    let urls = ["pb://h".to_owned(), "http://h".to_owned()];
    let differ = configuration(&urls, &none).expect_err("two protocols");
    assert!(differ.to_string().contains("differ in protocol or bucket"), "{differ}");
}
