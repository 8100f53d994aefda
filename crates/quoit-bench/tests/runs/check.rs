//! `quoit bench check`: the plan of a configuration.

use crate::support::{plan_with, try_check, try_run};

/// The text after the name of a line in the plan.
fn line(config: &str, name: &str) -> String {
    let plan = try_check(config).unwrap_or_else(|error| panic!("{config}: {error}"));
    let found = plan.lines().find_map(|line| {
        let (first, rest) = line.split_once(' ')?;
        (first == name).then(|| rest.trim().to_owned())
    });
    found.unwrap_or_else(|| panic!("no line {name} in\n{plan}"))
}

#[test]
fn what_was_copied_out_of_a_mail_or_a_page_is_mended_with_a_remark() {
    let text = try_check(
        "{driver, null}. {operations, [{do_something, 1}]}.
        {value\\_generator, {fixed\\_bin, 7}}.\n{pb_ips, [ ... ]}.",
    )
    .expect("a plan");
    assert!(text.contains("is read as `_`") && text.contains("`pb_ips` is left out"), "{text}");
    assert!(text.contains("7 bytes"), "{text}");
}

#[test]
fn the_plan_tells_what_would_run() {
    let config = "{mode, {rate, 10}}. {concurrent, 20}. {duration, 2}. {client_threads, 1}.
        {driver, basho_bench_driver_riakc_pb}. {riakc_pb_replies, one}. {riakc_pb_dw, 2}.
        {riakc_pb_ips, [{10,0,0,1}, {\"b\", [5, 6]}]}.
        {key_generator, {int_to_bin_bigendian, {uniform_int, 1000}}}.
        {value_generator, {fixed_bin, 2048}}.
        {operations, [{get, 4}, {mine, put, 4}, {delete, 1}]}.";
    for (name, text) in [
        ("driver", "riakc_pb"),
        ("targets", "b:5, b:6, 10.0.0.1:8087"),
        ("durability", "puts ask for w one, dw 2; deletes for rw one"),
        ("workers", "20 on 1 threads, 10 op/s each at most"),
        ("duration", "2 min"),
        ("operations", "get 44.4 %, mine (put) 44.4 %, delete 11.1 %"),
        ("keys", "{int_to_bin_bigendian,{uniform_int,1000}}: binaries, about 1000 distinct"),
        ("values", "{fixed_bin,2048}: 2048 bytes"),
        ("random", "seed {42,23,12}, xoshiro256++"),
        ("data", "about 2.0 MB of values when every key is written"),
        ("expected", "200 op/s at most, 24000 operations in all"),
    ] {
        assert_eq!(line(config, name), text);
    }
}

#[test]
fn the_sizes_of_values_are_told() {
    for (generator, text) in [
        ("{exponential_bin, 1000, 2000}", "at least 1000 bytes, 3000 on average"),
        ("{semi_compressible, 8000, 2000, 10, 0.2}", "at least 8000 bytes, 28000 on average"),
        ("{uniform_bin, 3, 6}", "4 to 6 bytes"),
        ("{uniform_int, 6}", "integers 1 to 6"),
        ("{fixed_bin, 9, 0}", "9 bytes, always the same"),
        ("{bin_seed, 9}", "9 bytes, always the same"),
        ("{poisson_bin, 20}", "20 bytes on average"),
        ("{var_bin_set, 10, 20, 5}", "one of 5 values, 15 bytes on average"),
        ("{keygen, {uniform_int, 5}}", "what that key generator gives"),
    ] {
        let config = format!(
            "{{driver, null}}. {{operations, [{{do_something, 1}}]}}. {{value_generator, {generator}}}."
        );
        let values = line(&config, "values");
        assert!(values.ends_with(&format!(": {text}")), "{values}");
    }
}

#[test]
fn a_search_for_the_knee_is_told_as_one() {
    let config = "{driver, null}. {operations, [{do_something, 1}]}. {duration, 5}.
        {mode, {knee, [{p99_ms, 10}, {from, 500}, {step, \"4s\"}]}}.";
    assert!(line(config, "workers").ends_with("rates from 500 op/s in all on, constant"));
    assert_eq!(line(config, "duration"), "steps of 4s, until the knee is found");
    assert_eq!(line(config, "expected"), "the highest rate with a 99th percentile of at most 10ms");
}

#[test]
fn durations_and_warnings_are_shown() {
    let config = "{driver, null}. {operations, [{do_something, 1}]}. {zzz, 1}. {duration, ";
    assert_eq!(line(&format!("{config} 120}}."), "duration"), "2 h");
    assert_eq!(line(&format!("{config} 0.5}}."), "duration"), "30 s");
    assert!(line(&format!("{config} infinity}}."), "duration").starts_with("until it is stopped"));
    let warm = format!("{{warmup, \"5s\"}}. {config} 2}}.");
    assert_eq!(line(&warm, "duration"), "2 min, after 5s that are not counted");
    let warning = line(&format!("{config} 1}}."), "warning:");
    assert!(warning.contains("the key `zzz` is not known"), "{warning}");
}

#[test]
fn what_cannot_run_is_refused_and_a_run_of_it_leaves_nothing() {
    for (config, expected) in [
        ("{driver, riakc_ts}.", "driver riakc_ts is not offered"),
        (
            "{driver, null}. {operations, [{do_some, 1}]}.",
            "test.config:1:31: the driver null has no operation `do_some`: it has absolutely_nothing",
        ),
        ("{riakc_pb_ips, []}. {driver, riakc_pb}. {key_generator, <<\"a\">>}.", "write a list of"),
    ] {
        let error = try_check(config).expect_err(config).to_string();
        assert!(error.contains(expected), "{config}: {error}");
        let mut results = None;
        let refused = try_run(config, |options| results = options.results_dir.clone());
        assert!(refused.is_err() && !results.unwrap().exists(), "{config}");
    }
}

#[test]
fn servers_of_the_command_line_go_to_the_list_that_they_name() {
    let plan = |config: &str, targets: &[&str]| {
        let targets = targets.iter().map(|target| (*target).to_owned()).collect();
        plan_with(config, |options| options.targets = targets)
    };
    let targets = |config: &str, targets: &[&str]| {
        let plan = plan(config, targets).expect("a plan");
        plan.lines()
            .find_map(|line| line.strip_prefix("targets      "))
            .expect("targets")
            .to_owned()
    };
    let nhs =
        "{driver, nhs}. {operations, [{get_unique, 1}]}. {pb_ips, [\"a\"]}. {http_ips, [\"b\"]}.
        {replpb_ips, [\"c\"]}. {http_port, 80}.";
    assert_eq!(targets(nhs, &[]), "a:8087; http b:80; replpb c:8087");
    assert_eq!(targets(nhs, &["x:1"]), "x:1; http x:80; replpb c:8087");
    assert_eq!(
        targets(nhs, &["x:1", "http=y:2", "http=y:3", "replpb=z:4"]),
        "x:1; http y:2, y:3; replpb z:4"
    );
    assert_eq!(targets(nhs, &["pb=x:1"]), "x:1; http b:80; replpb c:8087");
    let queries = "{driver, '2i'}. {operations, [{get_pb, 1}]}. {pb_ips, [\"a\"]}.";
    assert_eq!(targets(queries, &["x:1", "http=y:2"]), "x:1; http y:2");
    for (config, target, told) in [
        (nhs, "web=x:1", "the driver nhs has no list of servers `web`: it has pb, http, replpb"),
        (queries, "replpb=x:1", "the driver 2i has no list of servers `replpb`: it has pb, http"),
        ("{operations, [{get, 1}]}.", "http=x:1", "it has one list: write HOST:PORT alone"),
        ("{driver, null}. {operations, [{do_something, 1}]}.", "x:1", "null has no servers"),
        (nhs, "pb=x", "the target `pb=x` is not valid: write host:port"),
    ] {
        let error = plan(config, &[target]).expect_err(target).to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn keys_of_places_that_the_driver_does_not_read_are_told_where_it_goes_to_its_defaults() {
    let config = |rest: &str| {
        format!(
            "{{driver, riakc_pb}}. {{key_generator, {{int_to_bin_bigendian, {{uniform_int, 9}}}}}}. {rest}"
        )
    };
    let told = "test.config:1:81: pb_ips is a key of other drivers: riakc_pb does not read it";
    let plan = try_check(&config("{pb_ips, [\"a\"]}.")).expect("a plan");
    assert!(plan.contains(told), "{plan}");
    // A file that is shared by several drivers is not such a case.
    let both = "{pb_ips, [\"a\"]}. {riakc_pb_ips, [\"b\"]}. {pb_port, 1}. {riakc_pb_port, 2}.";
    let plan = try_check(&config(both)).expect("a plan");
    assert!(!plan.contains("does not read"), "{plan}");
    let run =
        try_run("{driver, null}. {operations, [{do_something, 1}]}. {redis_port, 1}.", |options| {
            options.duration = Some("10ms".to_owned());
        });
    assert!(run.expect("a run").shown.contains("redis_port is a key of other drivers"));
}
