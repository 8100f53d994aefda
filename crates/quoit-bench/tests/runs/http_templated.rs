//! Whole runs of the driver of any HTTP server.

use std::sync::Arc;

use crate::support::{HttpServer, Run, response, run, try_run};

fn config(servers: &[&HttpServer], operations: &str, rest: &str) -> String {
    let ports: Vec<u16> = servers.iter().map(|server| server.address.port()).collect();
    let (first, last) = (ports[0], ports[ports.len() - 1]);
    format!(
        "{{mode, max}}. {{driver, basho_bench_driver_http}}. {{concurrent, 1}}.
         {{key_generator, {{sequential_int, 10}}}}. {{value_generator, {{fixed_bin, 50}}}}.
         {{generators, [{{number, {{key_generator, {{sequential_int, 10}}}}}},
                        {{name, {{key_generator, {{int_to_str, {{sequential_int, 10}}}}}}}},
                        {{blob, {{value_generator, {{fixed_bin, 20}}}}}}]}}.
         {{values, [{{fixed, \"always this\"}}, {{key, key_generator}}, {{value, value_generator}},
                    {{blob, blob}}, {{made, {{\"<~s:~4..0B>\", [name, number]}}}}]}}.
         {{headers, [{{plain, [{{'Content-Type', \"text/plain\"}}]}}]}}.
         {{targets, [{{root, {{\"127.0.0.1\", {first}, \"/\"}}}},
                     {{numbered, {{\"127.0.0.1\", {first}, {{\"/n/~w?x=a b\", [number]}}}}}},
                     {{both, [{{\"127.0.0.1\", {first}, \"/first\"}},
                              {{\"127.0.0.1\", {last}, \"/last\"}}]}}]}}.
         {{operations, [{{{operations}, 1}}]}}. {rest}"
    )
}

fn counts(run: &Run) -> (u64, u64) {
    (run.report.total.success_count(), run.report.total.error_count())
}

fn answering(status: &'static str) -> HttpServer {
    HttpServer::start(Arc::new(move |_, _| response(status, "", b"")))
}

#[test]
fn paths_are_made_of_generators_until_they_end() {
    let server = answering("200 OK");
    assert_eq!(counts(&run(&config(&[&server], "{get, numbered}", ""))), (10, 0));
    let seen = server.seen();
    assert_eq!((seen[9].method.as_str(), seen[9].path.as_str()), ("GET", "/n/9?x=a%20b"));
    assert_eq!(seen[0].headers["host"], server.address.to_string());
    assert!(!seen[0].headers.contains_key("content-length"));
}

#[test]
fn values_are_literals_keys_values_generated_or_formatted() {
    let server = answering("204 No Content");
    let put = |value: &str| {
        let before = server.seen().len();
        let operation = format!("{{put, numbered, {value}}}");
        assert_eq!(counts(&run(&config(&[&server], &operation, ""))), (10, 0), "{value}");
        server.seen()[before + 3].body.clone()
    };
    assert_eq!(put("fixed"), b"always this");
    assert_eq!(put("key"), b"3");
    assert_eq!(put("value").len(), 50);
    assert_eq!(put("blob").len(), 20);
}

#[test]
fn a_format_takes_generators_of_all_kinds() {
    let server = answering("201 Created");
    assert_eq!(counts(&run(&config(&[&server], "{post, root, made, plain}", ""))), (10, 0));
    let seen = server.seen();
    assert_eq!((seen[9].method.as_str(), &seen[9].body[..]), ("POST", &b"<9:0009>"[..]));
    assert_eq!(seen[9].headers["content-type"], "text/plain");
}

#[test]
fn templates_are_filled_by_the_generators_of_the_run_and_headers_may_be_atoms() {
    let server = answering("201 Created");
    let port = server.address.port();
    let changes = format!(
        "{{targets, [{{keyed, {{\"127.0.0.1\", {port}, {{\"no-slash/~w\", key_generator}}}}}}]}}.
         {{values, [{{made, {{\"~s-~w\", [value_generator, number]}}}}]}}.
         {{value_generator, {{fixed_bin, 3, 97}}}}.
         {{headers, [{{json, [{{'Content-Type', 'application/json'}}, {{'X-Count', 7}}]}}]}}."
    );
    let run = run(&config(&[&server], "{post, keyed, made, json}", &changes));
    assert_eq!(counts(&run), (10, 0));
    let seen = server.seen();
    assert_eq!((seen[9].path.as_str(), &seen[9].body[..]), ("/no-slash/9", &b"aaa-9"[..]));
    assert_eq!(seen[9].headers["content-type"], "application/json");
    assert_eq!(seen[9].headers["x-count"], "7");
}

#[test]
fn lists_of_targets_are_taken_in_turn() {
    let servers = [answering("404 Not Found"), answering("404 Not Found")];
    let config = config(&[&servers[0], &servers[1]], "{delete, both, nothing_known}", "");
    let run = try_run(&config, |options| options.duration = Some("200ms".to_owned())).unwrap();
    assert_eq!(run.report.total.error_count(), 0);
    let counts = servers.each_ref().map(|server| server.seen().len());
    assert!(counts[0] > 0 && counts[0].abs_diff(counts[1]) <= 1, "{counts:?}");
    assert_eq!(servers[1].seen()[0].path, "/last");
}

#[test]
fn each_method_has_its_statuses() {
    for (status, ok) in [
        ("200 OK", [true, true, true]),
        ("202 Accepted", [false, true, true]),
        ("300 Multiple Choices", [true, false, false]),
        ("404 Not Found", [true, false, true]),
        ("410 Gone", [false, false, true]),
        ("500 Internal Server Error", [false, false, false]),
    ] {
        let server = answering(status);
        let operations = ["{get, numbered}", "{put, numbered, fixed}", "{delete, numbered}"];
        for (operation, is_ok) in operations.iter().zip(ok) {
            let expected = if is_ok { (10, 0) } else { (0, 10) };
            let run = run(&config(&[&server], operation, ""));
            assert_eq!(counts(&run), expected, "{status} {operation}");
        }
    }
}

#[test]
fn settings_and_operations_that_cannot_be_are_refused() {
    let server = answering("200 OK");
    for (rest, expected) in [
        ("{operations, [{{get, nowhere}, 1}]}.", "{get, Target}"),
        ("{operations, [{{put, root}, 1}]}.", "{put, Target, Value}"),
        ("{operations, [{get, 1}]}.", "{get, Target}"),
        ("{values, [{bad, {\"~w ~w\", [number]}}]}.", "a directive for each generator"),
        ("{values, [{bad, {\"~w\", [unknown]}}]}.", "{\"Format\", [Generator, ...]}"),
        (
            "{targets, [{a, {\"host\", 80, \"/\"}}, {b, {80}}]}.",
            "an element of targets is {b,{80}}: ",
        ),
        ("{targets, []}. {operations, [{{get, root}, 1}]}.", "{get, Target}"),
        ("{headers, [{h, [{'A', \"x\\r\\n\"}]}]}.", "'Header-Name'"),
        ("{generators, [{g, {key_generator, {nothing}}}]}. {values, []}.", "generators"),
    ] {
        let config = config(&[&server], "{get, root}", rest);
        let error = try_run(&config, |_| {}).err().expect(rest).to_string();
        assert!(error.contains(expected), "{rest}: {error}");
    }
}
