//! Configurations in TOML.

use super::*;

/// The configuration in a TOML text.
fn toml(text: &str) -> Result<Config, ConfigError> {
    let mut settings = Settings::default();
    settings.add(Path::new("a.toml"), text.as_bytes())?;
    Config::from_settings(settings)
}

/// Everything that a configuration says, except the places of its settings.
fn said(config: &Config) -> String {
    let operations: Vec<String> = config
        .operations
        .iter()
        .map(|entry| format!("{} {} {}", entry.label, entry.operation, entry.weight))
        .collect();
    let targets = config
        .targets(TargetKeys { ips: "http_raw_ips", port: "http_raw_port", default_port: 8098 })
        .expect("targets");
    let rest = Config {
        settings: Settings::default(),
        operations: Vec::new(),
        warnings: Vec::new(),
        ..config.clone()
    };
    format!("{operations:?} {targets:?} {rest:?}")
}

#[test]
fn a_configuration_can_be_written_in_toml_as_one_would() {
    let erlang = config(
        "{mode, {rate, 10}}. {duration, 0.5}. {concurrent, 5}. {driver, http_raw}.
         {http_raw_ips, [\"localhost\", {\"10.0.0.1\", [8091, 8092]}, {\"10.0.0.2\", 8093}]}.
         {http_raw_path, \"/buckets/test/keys\"}. {test_dir, \"results\"}.
         {key_generator, {{int_to_bin_bigendian, 64}, {uniform_int, 1000}}}.
         {value_generator, {fixed_bin, 100}}. {operations, [{get, 4}, {mine, put, 1}]}.
         {rng_seed, {1, 2, 3}}. {shutdown_on_error, true}. {pre_hook, {shell, \"make it\"}}.",
    );
    let text = r#"
        mode = ["rate", 10]
        duration = 0.5
        concurrent = 5
        driver = "http_raw"
        http_raw_ips = ["localhost", ["10.0.0.1", [8091, 8092]], ["10.0.0.2", 8093]]
        http_raw_path = "/buckets/test/keys"
        test_dir = "results"
        key_generator = [["int_to_bin_bigendian", 64], ["uniform_int", 1000]]
        value_generator = ["fixed_bin", 100]
        operations = [["get", 4], ["mine", "put", 1]]
        rng_seed = [1, 2, 3]
        shutdown_on_error = true
        pre_hook = ["shell", "make it"]
    "#;
    let read = toml(text).expect("the same in TOML");
    assert!(read.warnings.is_empty(), "{:?}", read.warnings);
    assert_eq!(said(&read), said(&erlang));
    let open = toml("mode = [\"open_rate\", 500, \"poisson\"]").expect("an open loop");
    assert_eq!(open.pacing, config("{mode, {open_rate, 500, poisson}}.").pacing);
    let section = toml("[operations]\nput = 1\nget = 2\n").expect("a section");
    let labels: Vec<String> = section.operations.iter().map(|one| one.label.to_string()).collect();
    assert_eq!(labels, ["put", "get"]);
}

#[test]
fn texts_and_arrays_of_toml_are_what_their_keys_want() {
    let read =
        toml("riakc_pb_bucket = \"test\"\nlist = [\"a\", \"b\"]\nnames = [[\"X-A\", \"v\"]]")
            .expect("a configuration");
    let settings = &read.settings;
    assert_eq!(settings.bytes("riakc_pb_bucket", b"").expect("bytes"), b"test");
    let list = settings.read("list", None, "", |term| match term {
        Term::List(elements) => Some(Some(elements.len())),
        _ => None,
    });
    assert_eq!(list.expect("a list"), Some(2));
    let pairs = settings.read("names", None, "", |term| match term {
        Term::List(elements) => Some(Some(elements.first()?.as_tuple()?.len())),
        _ => None,
    });
    assert_eq!(pairs.expect("a list of tuples"), Some(2));
}

#[test]
fn mistakes_in_toml_are_told_in_toml() {
    for (text, expected) in [
        ("mode = [\"rate\", 0]", "a.toml:1:8: mode is [\"rate\", 0]: write max"),
        ("\nconcurrent = \"many\"", "a.toml:2:14: concurrent is \"many\": write an integer"),
        ("operations = [[\"get\", 1],\n  [\"put\"]]", "a.toml:2:3: entry 2 of operations is"),
        ("mode = max", "a.toml:1:8: "),
    ] {
        let error = toml(text).err().map(|error| error.to_string()).expect(text);
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    let hinted = toml("mode = 5").err().map(|error| error.to_string()).expect("no mode");
    assert!(hinted.ends_with("(in TOML {name, 1} is [\"name\", 1])"), "{hinted}");
    let told = toml("concurent = 5").expect("a configuration").warnings;
    assert!(told[0].starts_with("a.toml:1:1: the key `concurent` is not known"), "{told:?}");
}

#[test]
fn the_example_configurations_are_the_same_in_toml() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs");
    for entry in std::fs::read_dir(directory).expect("the directory of examples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "config") {
            let bytes = std::fs::read(&path).expect("an example");
            let converted = to_toml(&path, &bytes).unwrap_or_else(|error| panic!("{error}"));
            let from_toml = toml(&converted).unwrap_or_else(|error| panic!("{converted}: {error}"));
            let erlang = Config::load(&[path]).expect("an example");
            assert_eq!(said(&from_toml), said(&erlang), "{converted}");
        }
    }
}
