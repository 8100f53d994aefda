//! Whole runs with keys, values and sessions from scripts.

use std::fs;

use quoit_bench::cli::BenchOptions;
use quoit_bench::run::RunEnd;

use crate::support::{HttpServer, Run, try_check, try_run};

/// Runs a configuration that is stored next to a script.
fn run_beside(script: &str, config: &str) -> Run {
    let directory = tempfile::tempdir().unwrap();
    let (script_path, path) =
        (directory.path().join("shop.js"), directory.path().join("shop.config"));
    fs::write(script_path, script).unwrap();
    fs::write(&path, format!("{config}\n{{value_generator_source_size, 100000}}.\n")).unwrap();
    let change = |options: &mut BenchOptions| options.config_paths = vec![path];
    try_run("", change).unwrap_or_else(|error| panic!("{config}: {error}"))
}

fn against(server: &HttpServer, rest: &str) -> String {
    let port = server.address.port();
    format!(
        "{{mode, max}}. {{driver, http_raw}}. {{http_raw_port, {port}}}. {{concurrent, 2}}. {rest}"
    )
}

#[test]
fn keys_and_values_come_from_a_script_beside_the_configuration_and_repeat() {
    let script = "function keys(worker, count) {
                    let n = 0;
                    return () => n++ < count ? `${worker}-${random(1000)}` : null;
                  }
                  function values(worker) { return () => `value of ${worker}`; }";
    let requests = || {
        let server = HttpServer::store();
        let config = "{operations, [{put, 1}]}. {key_generator, {script, \"shop.js\", keys, [20]}}.
                      {value_generator, {function, shop, values, []}}.";
        let run = run_beside(script, &against(&server, config));
        assert_eq!((run.report.end, run.report.total.success_count()), (RunEnd::Completed, 40));
        assert_eq!(run.file("shop.js"), script, "the directory of the run has the script");
        let mut seen: Vec<(String, String)> = server
            .seen()
            .into_iter()
            .map(|seen| (seen.path, String::from_utf8(seen.body).unwrap()))
            .collect();
        seen.sort();
        seen
    };
    let first = requests();
    assert!(
        first[0].0.starts_with("/riak/test/1-") && first[0].1 == "value of 1",
        "{:?}",
        first[0]
    );
    assert_eq!(first, requests(), "a seed gives the same run");
}

#[test]
fn a_session_says_the_operations_of_each_worker_in_their_order() {
    let script = "function visit(worker) {
                    const cart = `cart-${worker}`;
                    const steps = [
                      {operation: \"login\", key: `user-${worker}`},
                      {operation: \"read cart\", key: cart},
                      {operation: \"put\", key: cart, value: \"book\", pauseMs: 1},
                      (wasSuccess) => ({operation: \"read cart\", key: `${cart}-${wasSuccess}`}),
                    ];
                    return (wasSuccess) => {
                      const step = steps.shift();
                      return typeof step === \"function\" ? step(wasSuccess) : step;
                    };
                  }";
    let server = HttpServer::store();
    let config = "{operations, [{login, get_existing, 1}, {\"read cart\", get, 1}, {put, 0}]}.
                  {session, {script, \"shop.js\", visit, []}}.";
    let run = run_beside(script, &against(&server, config));
    assert_eq!(run.report.end, RunEnd::Completed);
    for worker in 1..=2 {
        let of_worker = |path: &str| path.contains(&format!("-{worker}"));
        let seen: Vec<(String, String)> = server
            .seen()
            .into_iter()
            .filter(|seen| of_worker(&seen.path))
            .map(|seen| (seen.method, seen.path.trim_start_matches("/riak/test/").to_owned()))
            .collect();
        let cart = format!("cart-{worker}");
        let expected = [
            ("GET", format!("user-{worker}")),
            ("GET", cart.clone()),
            ("PUT", cart.clone()),
            ("GET", format!("{cart}-true")),
        ];
        assert_eq!(seen, expected.map(|(method, path)| (method.to_owned(), path)));
    }
    assert_eq!(run.report.total.error_count(), 2, "nobody logs in");
    assert_eq!(run.sum("read-cart_latencies.csv", 2), 4);
}

#[test]
fn a_fault_of_a_script_ends_the_run_and_is_told_with_its_line() {
    for (script, session, expected) in [
        (
            "function f(w) { let n = 0; return () => {
             if (n++ > 5) throw new Error('enough'); return 'get'; }; }",
            true,
            "shop.js:2:",
        ),
        (
            "function f(w) { return () => 'sell'; }",
            true,
            "wants the operation sell, which the configuration does not list: it has get",
        ),
        ("function f(w) { return () => { for (;;) {} }; }", false, "the call was cut"),
    ] {
        let of_script = "{script, \"shop.js\", f, []}";
        let source = match session {
            true => format!("{{session, {of_script}}}."),
            false => format!("{{key_generator, {of_script}}}."),
        };
        let server = HttpServer::store();
        let run = run_beside(
            script,
            &against(&server, &format!("{{operations, [{{get, 1}}]}}. {source}")),
        );
        assert_eq!(run.report.end, RunEnd::Failed);
        assert!(run.shown.contains("error: ") && run.shown.contains(expected), "{}", run.shown);
    }
}

#[test]
fn scripts_that_cannot_be_are_refused_before_the_run() {
    for (config, expected) in [
        ("{key_generator, {script, \"none.js\", f, []}}.", "none.js cannot be read"),
        ("{key_generator, {function, none, f, []}}.", "none:f is Erlang code"),
        ("{key_generator, {script, f}}.", "{script, \"file.js\", Function, [Argument, ...]}"),
        ("{session, {function, shop, f, []}}.", "write {script, \"file.js\""),
        ("{mode, {open_rate, 5}}. {session, {script, \"a.js\", f, []}}.", "run it with mode max"),
    ] {
        let error = try_check(&format!(
            "{{mode, max}}. {{driver, null}}. {{operations, [{{get, 1}}]}}. {config}"
        ));
        let error = error.expect_err(config).to_string();
        assert!(error.contains(expected), "{config}: {error}");
    }
}
