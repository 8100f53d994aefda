mod files;
mod in_toml;

use std::path::Path;
use std::time::Duration;

use super::*;
use crate::term::Term;

fn settings(text: &str) -> Settings {
    let mut settings = Settings::default();
    settings.add(Path::new("a.config"), text.as_bytes()).expect(text);
    settings
}

fn config(text: &str) -> Config {
    Config::from_settings(settings(text)).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str) -> String {
    match Config::from_settings(settings(text)) {
        Ok(_) => panic!("{text} must be refused"),
        Err(error) => error.to_string(),
    }
}

fn targets(text: &str) -> Vec<String> {
    let config = config(text);
    let targets = config
        .targets(TargetKeys { ips: "http_raw_ips", port: "http_raw_port", default_port: 8098 })
        .expect(text);
    targets.iter().map(Target::to_string).collect()
}

#[test]
fn an_empty_file_gives_the_defaults() {
    let config = config("");
    assert_eq!(config.pacing, Pacing::Rate(5.0));
    assert_eq!(config.length, RunLength::For(Duration::from_secs(300)));
    assert_eq!((config.worker_count, config.driver.as_str()), (3, "http_raw"));
    let operations: Vec<(String, u32)> =
        config.operations.iter().map(|entry| (entry.label.to_string(), entry.weight)).collect();
    assert_eq!(
        operations,
        [("get".to_owned(), 4), ("put".to_owned(), 4), ("delete".to_owned(), 1)]
    );
    assert_eq!(config.key_generator.dimension(), Some(100_000));
    assert_eq!(config.estimated_size_bytes(), Some(10_000_000));
    assert_eq!(config.report_interval, Duration::from_secs(10));
    assert_eq!((config.seed, config.random_kind), (Seed([42, 23, 12]), RandomKind::Xoshiro));
    assert_eq!(config.log_level, LogLevel::Debug);
    assert!(!config.shutdown_on_error && config.warnings.is_empty());
    assert_eq!(config.results_dir, PathBuf::from("tests"));
}

#[test]
fn the_size_of_the_data_is_the_number_of_keys_times_the_mean_of_a_value() {
    let estimate = |values: &str| {
        let keys = "{key_generator, {sequential_int, 1000}}.";
        config(&format!("{keys} {{value_generator, {values}}}.")).estimated_size_bytes()
    };
    assert_eq!(estimate("{fixed_bin, 10}"), Some(10_000));
    assert_eq!(estimate("{exponential_bin, 10, 20}"), Some(30_000));
    assert_eq!(estimate("{keygen, {sequential_int, 5}}"), None);
    assert_eq!(config("{key_generator, {pareto_int, 9}}.").estimated_size_bytes(), None);
}

#[test]
fn a_search_for_the_knee_has_a_bound_and_defaults() {
    let second = Duration::from_secs(1);
    let knee = |mode: &str| config(&format!("{{mode, {mode}}}.")).knee.expect(mode);
    let plan = knee("{knee, [{p99_ms, 2.5}]}");
    assert_eq!((plan.p99_max, plan.from_per_s), (Duration::from_micros(2500), 1000.0));
    assert_eq!((plan.step, plan.arrivals), (10 * second, Arrivals::Constant));
    let plan = knee("{knee, [{from, 50}, poisson, {step, \"2s\"}, {p99_ms, 20}]}");
    assert_eq!((plan.step, plan.arrivals, plan.from_per_s), (2 * second, Arrivals::Poisson, 50.0));
    assert_eq!(config("{mode, max}.").knee, None);
    for mode in
        ["{knee, []}", "{knee, [{p99_ms, 0}]}", "{knee, [{p99_ms, 1}, {step, 0}]}", "{knee}"]
    {
        assert!(error(&format!("{{mode, {mode}}}.")).contains("{knee, [{p99_ms, 10}"), "{mode}");
    }
}

#[test]
fn a_warm_up_is_a_time_with_its_unit_or_seconds() {
    for (warmup, ms) in [("\"10s\"", 10_000), ("\"500ms\"", 500), ("3", 3000), ("0", 0)] {
        let read = config(&format!("{{warmup, {warmup}}}.")).warmup;
        assert_eq!(read, Duration::from_millis(ms), "{warmup}");
    }
    for warmup in ["infinity", "-1", "\"infinity\"", "\"ten\"", "1e9"] {
        assert!(error(&format!("{{warmup, '{warmup}'}}.")).contains("time with its unit"));
    }
}

#[test]
fn events_and_watched_servers_are_read_in_erlang_and_toml() {
    let erlang = "{events, [{\"60s\", kill, \"pkill x\"}, {90, \"full load\"}]}.
        {watch, [\"a:1\", \"[::1]:2\"]}.";
    let toml = "events = [[\"60s\", \"kill\", \"pkill x\"], [90, \"full load\"]]
        watch = [\"a:1\", \"[::1]:2\"]";
    let of_toml =
        Config::of_text(ConfigText { name: "load.toml", text: toml }).expect("a configuration");
    for read in [config(erlang), of_toml] {
        let [kill, mark] = &read.events[..] else { panic!("{:?}", read.events) };
        assert_eq!((kill.at, kill.name.as_str()), (Duration::from_secs(60), "kill"));
        assert_eq!(kill.action, EventAction::Command("pkill x".to_owned()));
        assert_eq!((mark.name.as_str(), &mark.action), ("full load", &EventAction::Mark));
        let watched: Vec<String> = read.watched.iter().map(ToString::to_string).collect();
        assert_eq!(watched, ["a:1", "[::1]:2"]);
    }
    for events in
        ["[{kill, \"1s\"}]", "[{\"1s\", \"a, b\"}]", "[{\"1s\", kill, \"\"}]", "[{\"1s\"}]"]
    {
        let told = error(&format!("{{events, {events}}}."));
        assert!(told.contains("{\"30s\", name, \"command\"}"), "{events}: {told}");
    }
    assert!(error("{watch, [\"host\"]}.").contains("host:port"));
}

#[test]
fn modes_are_read_in_every_spelling() {
    let open = |arrivals| Pacing::Open { rate_per_s: 500.0, arrivals };
    for (mode, pacing) in [
        ("max", Pacing::Max),
        ("{max}", Pacing::Max),
        ("{rate, max}", Pacing::Max),
        ("{rate, 10}", Pacing::Rate(10.0)),
        ("{rate, 0.5}", Pacing::Rate(0.5)),
        ("{open_rate, 500}", open(Arrivals::Constant)),
        ("{open_rate, 500.0, constant}", open(Arrivals::Constant)),
        ("{open_rate, 500, poisson}", open(Arrivals::Poisson)),
    ] {
        assert_eq!(config(&format!("{{mode, {mode}}}.")).pacing, pacing, "{mode}");
    }
    for mode in ["fast", "{rate, 0}", "{rate, -1}", "5", "{rate}"] {
        assert!(error(&format!("{{mode, {mode}}}.")).contains("write max, {rate, max}"), "{mode}");
    }
}

#[test]
fn durations_are_minutes_in_files_and_have_units_on_the_command_line() {
    let length = |seconds: f64| RunLength::For(Duration::from_secs_f64(seconds));
    assert_eq!(config("{duration, 2}.").length, length(120.0));
    assert_eq!(config("{duration, 0.5}.").length, length(30.0));
    assert_eq!(config("{duration, infinity}.").length, RunLength::Unlimited);
    assert!(error("{duration, 0}.").contains("a.config:1:12: duration is 0: write minutes"));
    for (text, expected) in [
        ("500ms", length(0.5)),
        ("60s", length(60.0)),
        ("2m", length(120.0)),
        ("1.5h", length(5400.0)),
        ("3", length(180.0)),
        (" 1 s ", length(1.0)),
        ("infinity", RunLength::Unlimited),
    ] {
        assert_eq!(RunLength::parse(text).expect(text), expected, "{text}");
    }
    for text in ["", "s", "-1s", "0s", "5x", "1e99h", "nan", "inf"] {
        assert!(RunLength::parse(text).is_err(), "{text}");
    }
}

#[test]
fn targets_come_in_reverse_and_ports_in_order() {
    assert_eq!(targets(""), ["127.0.0.1:8098"]);
    assert_eq!(targets("{http_raw_port, 1}."), ["127.0.0.1:1"]);
    assert_eq!(
        targets(
            "{http_raw_ips, [\"a\", {10,0,0,1}, {\"b\", 5}, {{10,0,0,2}, [7,8]},
             {0,0,0,0,0,0,0,1}, {\"::2\", 9}]}."
        ),
        ["[::2]:9", "[::1]:8098", "10.0.0.2:7", "10.0.0.2:8", "b:5", "10.0.0.1:8098", "a:8098"]
    );
    // A list of small ports looks like a string to Erlang; it must be read as ports.
    assert_eq!(targets("{http_raw_ips, [{\"a\", [80, 81]}]}."), ["a:80", "a:81"]);
    for list in ["[]", "\"127.0.0.1\"", "[{\"a\", 0}]", "[{\"a\", 65536}]", "[5]", "[{1,2,3}]"] {
        let config = config(&format!("{{http_raw_ips, {list}}}."));
        let read = config.targets(TargetKeys {
            ips: "http_raw_ips",
            port: "http_raw_port",
            default_port: 8098,
        });
        assert!(read.is_err_and(|error| error.to_string().contains("{\"host\", Port}")), "{list}");
    }
}

#[test]
fn targets_of_the_command_line_are_parsed() {
    let parsed = |text: &str| Target::parse(text).map(|target| (target.host, target.port));
    assert_eq!(parsed("a.b:80").expect("a name"), ("a.b".to_owned(), 80));
    assert_eq!(parsed("[::1]:80").expect("an address"), ("::1".to_owned(), 80));
    for text in ["a", "a:", ":80", "a:0", "a:x", ""] {
        assert!(parsed(text).is_err(), "{text}");
    }
}

#[test]
fn operations_have_labels_and_weights() {
    let config = config(
        "{operations, [{get, 1}, {{put_pb, 5}, 2}, {mine, {search, \"x y\"}, 0},
          {<<\"b/c\">>, put, 1}, {\"d.e\", put, 1}]}.",
    );
    let labels: Vec<String> =
        config.operations.iter().map(|entry| file_label(&entry.label)).collect();
    assert_eq!(labels, ["get", "put-pb-5", "mine", "b-c", "d-e"]);
    assert_eq!(config.operations[2].operation.to_string(), "{search,\"x y\"}");
    assert_eq!(file_label(&Term::atom("get_existing")), "get-existing");
    for (list, expected) in [
        ("[]", "1:14: operations is []: there is nothing to do"),
        ("[{get, 0}]", "1:14: operations is [{get,0}]: no weight is above 0"),
        ("get", "1:14: operations is get: write a list of {Operation, Weight}"),
        ("[{a, 1}, get]", "1:23: entry 2 of operations is get: write {Operation, Weight} or"),
        (
            "[{a, 1},\n {get, -1}]",
            "2:2: entry 2 of operations is {get,-1}: a weight is not negative",
        ),
        ("[{get, 1.5}]", "1:15: entry 1 of operations is {get,1.5}: the weight is an integer"),
        ("[{a,b,1,2}]", "1:15: entry 1 of operations is {a,b,1,2}: write {Operation, Weight} or"),
        ("[{a, 9999999999}]", "a weight goes up to 4294967295"),
        ("[{a, 4294967295}, {b, 1}]", "the sum of all weights goes up to"),
    ] {
        let error = error(&format!("{{operations, {list}}}."));
        assert!(error.contains(expected), "{list}: {error}");
    }
}

#[test]
fn the_last_setting_of_a_key_wins_and_lists_are_flattened() {
    let config = config(
        "{concurrent, 1}. [{concurrent, 2}, [{mode, max}], {report_interval, 3}]. not_a_pair.
         {a, b, c}. {report_interval, 4}. {\"string_key\", 1}.",
    );
    assert_eq!((config.worker_count, config.pacing), (2, Pacing::Max));
    assert_eq!(config.report_interval, Duration::from_secs(4));
    // Terms that are ignored as in basho_bench get a warning: `{operations, [...], x}` was meant to be a
    // mix.
    let told = ["1:74: `not_a_pair`", "2:10: `{a,b,c}`", "2:43: `{\"string_key\",1}`"];
    assert_eq!(config.warnings.len(), told.len());
    for (warning, told) in config.warnings.iter().zip(told) {
        assert_eq!(*warning, format!("a.config:{told} is no {{key, value}} and is ignored"));
    }
}

#[test]
fn unknown_keys_and_keys_without_effect_are_told_with_their_place() {
    let config =
        config("{mode, max}.\n{concurent, 5}. {pre_hook, {m, f}}. {zzz, 1}. {stats, riemann}.");
    let told = config.warnings.join("\n");
    for expected in [
        "a.config:2:2: the key `concurent` is not known and is ignored: did you mean `concurrent`?",
        "a.config:2:38: the key `zzz` is not known and is ignored",
        "a.config:2:28: pre_hook has no effect: the Erlang function m:f is not run",
        "a.config:2:55: stats riemann is not written to",
    ] {
        assert!(told.contains(expected), "{told}");
    }
    assert_eq!(config.warnings.len(), 4);
}

#[test]
fn a_directory_of_erlang_sources_is_told_to_have_no_effect() {
    let directory = tempfile::tempdir().expect("a directory");
    let warnings = |text: &str| {
        let path = directory.path().join("a.config");
        std::fs::write(&path, text).expect("a file");
        Config::load(&[path]).expect(text).warnings.join("\n")
    };
    let told = warnings("{source_dir, \"deps/gen\"}.");
    assert!(told.contains(":1:14: source_dir has no effect"), "{told}");
    assert!(told.contains("Erlang sources are not run"), "{told}");
    std::fs::write(directory.path().join("k.js"), "function key(worker) { return () => 1; }")
        .expect("x");
    let used = format!("{{source_dir, {:?}}}.", directory.path().display().to_string());
    let script = "{key_generator, {script, \"k.js\", key, []}}.";
    assert_eq!(warnings(&format!("{used} {script}")), "");
}

#[test]
fn keys_that_ask_for_nothing_are_passed_over_in_silence() {
    let read = config(
        "{distribute_work, false}. {remote_nodes, []}. {source_dir, \"\"}. {measurements, []}.
         {app_run_mode, included}. {code_paths, [\"deps\"]}. {test_id, x}. {stats, {csv}}.
         {value_generator_blob_file, undefined}. {sequential_int_state_dir, \"\"}.",
    );
    assert!(read.warnings.is_empty(), "{:?}", read.warnings);
    let told = |text: &str| config(text).warnings.join("\n");
    assert!(told("{distribute_work, true}.").contains("all workers run in this process"));
    assert!(told("{measurements, [{cpu, 1000}]}.").contains("are not taken"));
}

#[test]
fn commands_run_around_a_run_and_erlang_functions_do_not() {
    let config = config("{pre_hook, {shell, \"make load\"}}. {post_hook, {shell, stop}}.");
    assert_eq!(config.hooks.before.as_deref(), Some("make load"));
    assert_eq!(config.hooks.after, None);
    assert!(config.warnings[0].contains("the Erlang function shell:stop is not run"));
    assert!(error("{pre_hook, \"make load\"}.").contains("write {shell, \"command\"}"));
}

#[test]
fn sequences_are_kept_only_below_an_absolute_path() {
    let told = |text: &str| config(text).warnings.join("\n");
    assert_eq!(told("{sequential_int_state_dir, \"/var/tmp/x\"}."), "");
    let relative = told("{sequential_int_state_dir, \"state\"}.");
    assert!(relative.contains("is the relative path state, and positions are not saved"));
}

#[test]
fn generators_that_may_not_be_meant_are_told() {
    let told = |text: &str| config(text).warnings.join("\n");
    let sequence = "{key_generator, {sequential_int, 5}}.";
    assert!(told(sequence).contains("a.config:1:17: `{sequential_int,5}`: each of the 3 workers"));
    assert_eq!(told(&format!("{sequence} {{concurrent, 1}}.")), "");
    let small = "{value_generator_source_size, 100}. {value_generator, {fixed_bin, ";
    assert!(told(&format!("{small} 100}}}}.")).contains("cut from 100 random bytes"));
    assert_eq!(told(&format!("{small} 99}}}}.")), "");
}

#[test]
fn values_of_the_wrong_kind_are_refused_with_place_and_remedy() {
    for (text, expected) in [
        ("{concurrent, 0}.", "a.config:1:14: concurrent is 0: write an integer from 1 to 100000"),
        ("\n{concurrent, many}.", "a.config:2:14: concurrent is many"),
        ("{report_interval, 0}.", "write an integer from 1"),
        ("{driver, \"null\"}.", "write the name of a driver"),
        ("{rng_seed, {1, 2}}.", "write {A, B, C} of integers, or now"),
        ("{rng, best}.", "write default or as183"),
        ("{log_level, loud}.", "write debug, info"),
        ("{shutdown_on_error, yes}.", "write true or false"),
        ("{value_generator_source_size, big}.", "write a number of bytes"),
        ("{value_generator_source_size, 0}.", "write a number of bytes from 1"),
        (
            "{key_generator, {uniform_int}}.",
            "a.config:1:17: key_generator: `{uniform_int}` should be",
        ),
        (
            "{value_generator, {fixed, 5}}.",
            "a.config:1:19: value_generator: `{fixed,5}` is not a generator",
        ),
    ] {
        let error = error(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn the_driver_is_named_with_or_without_its_prefix() {
    assert_eq!(config("{driver, basho_bench_driver_riakc_pb}.").driver, "riakc_pb");
    assert_eq!(config("{driver, riakc_pb}.").driver, "riakc_pb");
}

#[test]
fn the_seed_can_be_the_time() {
    assert_eq!(config("{rng_seed, {-1, 2, 3}}.").seed, Seed([-1, 2, 3]));
    assert_ne!(config("{rng_seed, now}.").seed, Seed::default());
}

#[test]
fn the_example_configurations_are_read_without_a_warning() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs");
    let mut count = 0;
    for entry in std::fs::read_dir(directory).expect("the directory of examples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "js") {
            continue;
        }
        let config = Config::load(std::slice::from_ref(&path))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(config.warnings.is_empty(), "{}: {:?}", path.display(), config.warnings);
        count += 1;
    }
    assert_eq!(count, 17);
}
