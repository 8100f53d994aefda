//! Configurations of the load generator.

use std::path::Path;

use quoit_bench::config::{Config, Settings, to_toml};

use crate::Target;

/// Configurations in Erlang terms.
pub(crate) const TERMS: Target = Target { name: "bench-configs", run: run_terms, seeds };

/// Configurations in TOML.
pub(crate) const TOML: Target =
    Target { name: "bench-configs-toml", run: run_toml, seeds: toml_seeds };

/// Checks that a configuration is accepted or refused with a message, and that it can be converted to TOML.
fn run_terms(input: &[u8]) {
    run("a.config", input);
    match to_toml(Path::new("a.config"), input) {
        Ok(toml) => run("a.toml", toml.as_bytes()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn run_toml(input: &[u8]) {
    run("a.toml", input);
}

fn run(name: &str, input: &[u8]) {
    let mut settings = Settings::default();
    let said = match settings.add(Path::new(name), input) {
        Ok(()) => Config::from_settings(settings).err(),
        Err(error) => Some(error),
    };
    if let Some(error) = said {
        assert!(!error.to_string().is_empty());
    }
}

/// The seeds of the other target, converted to TOML.
fn toml_seeds() -> Vec<Vec<u8>> {
    let tags = b"key_generator = [\"concat_binary\", { binary = [1, 2] }, { string = \"a\" }]\n\
                 unique = { tuple = [8000, 1] }\nlist = { list = [1], tail = { atom = \"A\" } }\n\
                 map = { map = [[1, 2]] }\n[operations]\nget = 1\nput = 0x2\n";
    let convert = |seed: Vec<u8>| to_toml(Path::new("a.config"), &seed).map(String::into_bytes);
    seeds().into_iter().filter_map(|seed| convert(seed).ok()).chain([tags.to_vec()]).collect()
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let configs: [&[u8]; 3] = [
        b"{mode, max}.\n{duration, 10}.\n{concurrent, 5}.\n\
          {driver, basho_bench_driver_http_raw}.\n{operations, [{get, 1}, {update, 2}]}.\n\
          {key_generator, {int_to_bin_bigendian, {uniform_int, 10000}}}.\n\
          {value_generator, {fixed_bin, 1000}}.\n{http_raw_ips, [\"127.0.0.1\"]}.\n\
          {http_raw_path, \"/riak/test\"}.\n",
        b"{mode, {rate, 50}}. {duration, infinity}. {driver, basho_bench_driver_riakc_pb}.\n\
          {key_generator, {to_binstr, \"key~8..0B\", {partitioned_sequential_int, 1, 1000}}}.\n\
          {value_generator, {exponential_bin, 1000, 10000}}. {riakc_pb_ips, [{127,0,0,1}]}.\n",
        b"{operations, [{put, 1}]}. {rng_seed, {42, 23, 12}}. {report_interval, 1}.\n\
          {key_generator, {truncated_pareto_int, 1000}}. {log_level, debug}.\n\
          {value_generator, {uniform_bin, 100, 200}}. {value_generator_source_size, 4096}.\n",
    ];
    configs.map(<[u8]>::to_vec).into()
}
