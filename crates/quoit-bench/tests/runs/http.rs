//! Whole runs of the HTTP driver against a small server.

use std::sync::Arc;

use crate::support::{HttpServer, Run, errors_of, response, run, try_run};
use quoit_bench::run::RunError;

fn config(server: &HttpServer, rest: &str) -> String {
    let port = server.address.port();
    format!(
        "{{mode, max}}. {{driver, basho_bench_driver_http_raw}}. {{concurrent, 1}}.
         {{value_generator, {{fixed_bin, 1000}}}}. {{http_raw_ips, [\"127.0.0.1\"]}}.
         {{http_raw_port, {port}}}. {rest}"
    )
}

const TEN_KEYS: &str = "{key_generator, {int_to_str, {sequential_int, 10}}}.";

/// A run of one operation over ten keys.
fn run_operation(server: &HttpServer, operation: &str) -> Run {
    run(&config(server, &format!("{TEN_KEYS} {{operations, [{{{operation}, 1}}]}}.")))
}

#[test]
fn get_counts_a_missing_object_as_success_and_get_existing_does_not() {
    let server = HttpServer::store();
    let run = run_operation(&server, "get");
    assert_eq!((run.report.total.success_count(), run.report.total.error_count()), (10, 0));
    let seen = server.seen();
    assert_eq!(seen.len(), 10);
    assert_eq!((seen[3].method.as_str(), seen[3].path.as_str()), ("GET", "/riak/test/3"));
    assert_eq!(seen[3].headers["host"], server.address.to_string());

    let run = run_operation(&server, "get_existing");
    assert_eq!((run.report.total.success_count(), run.report.total.error_count()), (0, 10));
    let address = server.address;
    let expected = format!("{{not_found,\"\"http://{address}/riak/test/0\"\"}}");
    assert!(errors_of(&run).contains(&expected), "{}", errors_of(&run));
}

#[test]
fn update_gets_and_then_puts_with_the_clock_that_it_got() {
    let server = HttpServer::store();
    let run_of_updates = run_operation(&server, "update");
    assert_eq!(run_of_updates.report.total.success_count(), 10);
    run_operation(&server, "update");
    let seen = server.seen();
    let methods: Vec<&str> = seen.iter().map(|request| request.method.as_str()).collect();
    assert_eq!(methods, ["GET", "PUT"].repeat(20));
    let put = &seen[1];
    assert_eq!(put.path, "/riak/test/0");
    assert_eq!(put.body.len(), 1000);
    assert_eq!(put.headers["content-type"], "application/octet-stream");
    assert_eq!(put.headers["x-riak-clientid"], "AAAAAQ==");
    assert!(!put.headers.contains_key("x-riak-vclock"));
    assert_eq!(seen[21].headers["x-riak-vclock"], "clock-0");
    assert_ne!(seen[1].body, seen[3].body, "values are random");
}

#[test]
fn update_existing_fails_where_nothing_is() {
    let server = HttpServer::store();
    assert_eq!(run_operation(&server, "update_existing").report.total.error_count(), 10);
    run_operation(&server, "put");
    assert_eq!(run_operation(&server, "update_existing").report.total.success_count(), 10);
}

#[test]
fn put_insert_delete_and_stat_send_what_they_should() {
    let server = HttpServer::store();
    for operation in ["put", "insert", "delete", "delete"] {
        assert_eq!(
            run_operation(&server, operation).report.total.success_count(),
            10,
            "{operation}"
        );
    }
    let seen = server.seen();
    assert_eq!((seen[0].method.as_str(), seen[0].path.as_str()), ("PUT", "/riak/test/0"));
    assert_eq!((seen[10].method.as_str(), seen[10].path.as_str()), ("POST", "/riak/test"));
    assert_eq!(seen[10].body.len(), 1000);
    assert_eq!((seen[20].method.as_str(), seen[20].path.as_str()), ("DELETE", "/riak/test/0"));
    assert_eq!(seen[20].headers["x-riak-clientid"], "AAAAAQ==");
    let stats = HttpServer::start(Arc::new(|request, _| match request.path.as_str() {
        "/stats" => response("200 OK", "", b"{}"),
        _ => response("404 Not Found", "", b""),
    }));
    let run = try_run(&config(&stats, "{operations, [{stat, 1}]}."), |options| {
        options.duration = Some("50ms".to_owned());
    });
    let total = run.unwrap().report.total;
    assert!(total.success_count() > 0 && total.error_count() == 0);
}

#[test]
fn path_parameters_and_headers_are_added() {
    let server = HttpServer::store();
    let keys =
        "{key_generator, {concat_binary, <<\"a b/c%d\">>, {int_to_str, {sequential_int, 1}}}}.";
    run(&config(
        &server,
        &format!(
            "{keys} {{operations, [{{get, 1}}]}}. {{http_raw_path, \"/buckets/b/keys\"}}.
             {{http_raw_params, \"?r=1\"}}. {{http_raw_append_headers, [{{'X-Test', \"yes\"}}]}}."
        ),
    ));
    let seen = server.seen();
    assert_eq!(seen[0].path, "/buckets/b/keys/a%20b/c%25d0?r=1");
    assert_eq!(seen[0].headers["x-test"], "yes");
}

#[test]
fn other_statuses_are_errors_with_their_number() {
    let server =
        HttpServer::start(Arc::new(|_, _| response("503 Service Unavailable", "", b"busy")));
    let run = run_operation(&server, "get");
    assert_eq!(errors_of(&run), "\"{{get,get},{http_error,\"\"503\"\"}}\",\"10\"");
}

#[test]
fn chunked_bodies_siblings_and_bodies_until_close_are_read() {
    let server = HttpServer::start(Arc::new(|_, number| match number % 3 {
        0 => b"HTTP/1.1 300 Multiple Choices\r\nTransfer-Encoding: chunked\r\n\r\n\
               5\r\nhello\r\n1a;x=y\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nT: x\r\n\r\n"
            .to_vec(),
        1 => [b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(), response("200 OK", "", &[7; 100_000])]
            .concat(),
        _ => b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok".to_vec(),
    }));
    let run = run_operation(&server, "get");
    assert_eq!((run.report.total.success_count(), errors_of(&run)), (10, String::new()));
}

#[test]
fn a_closed_connection_is_tried_again_three_times_in_all() {
    // An empty answer closes the connection.
    let server = HttpServer::start(Arc::new(|_, number| match number {
        0 | 1 => Vec::new(),
        _ => response("200 OK", "", b"x"),
    }));
    assert_eq!(run_operation(&server, "get").report.total.success_count(), 10);
    assert_eq!(server.seen().len(), 12);
    let server = HttpServer::start(Arc::new(|_, _| Vec::new()));
    let run = run_operation(&server, "get");
    assert_eq!(errors_of(&run), "\"{{get,get},max_retries}\",\"10\"");
    assert_eq!(server.seen().len(), 30);
}

#[test]
fn a_timeout_is_an_error_and_not_tried_again() {
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let server = HttpServer::start(Arc::new(move |_, number| {
        if number == 0 {
            // Hold the answer until the test is over.
            let _ = held.lock().unwrap().recv();
        }
        response("200 OK", "", b"x")
    }));
    let rest =
        format!("{TEN_KEYS} {{operations, [{{get, 1}}]}}. {{http_raw_request_timeout, 100}}.");
    let run = run(&config(&server, &rest));
    assert_eq!(errors_of(&run), "\"{{get,get},{get,timeout}}\",\"1\"");
    assert_eq!(run.report.total.success_count(), 9);
    assert_eq!(server.seen().len(), 10);
    drop(hold);
}

#[test]
fn garbage_is_an_error() {
    let server = HttpServer::start(Arc::new(|_, _| b"SSH-2.0-OpenSSH\r\n\r\n".to_vec()));
    let run = run_operation(&server, "get");
    assert!(errors_of(&run).contains("{get,{bad_response,"), "{}", errors_of(&run));
}

#[test]
fn workers_take_all_targets_in_turn() {
    let servers = [HttpServer::store(), HttpServer::store()];
    let ports = servers.each_ref().map(|server| server.address.port());
    let targets = format!("{{http_raw_ips, [{{\"127.0.0.1\", [{}, {}]}}]}}.", ports[0], ports[1]);
    let rest = format!("{TEN_KEYS} {{operations, [{{put, 1}}]}}. {targets}");
    run(&config(&servers[0], &rest));
    assert_eq!(servers.map(|server| server.seen().len()), [5, 5]);
}

#[test]
fn targets_of_the_command_line_take_the_place_of_the_files() {
    let server = HttpServer::store();
    let rest = format!("{TEN_KEYS} {{operations, [{{put, 1}}]}}.");
    let elsewhere = config(&server, &rest).replace("127.0.0.1", "192.0.2.1");
    let run = try_run(&elsewhere, |options| options.targets = vec![server.address.to_string()]);
    assert_eq!(run.unwrap().report.total.success_count(), 10);
}

#[test]
fn connections_are_closed_as_often_as_asked() {
    let server = HttpServer::store();
    let rest = format!(
        "{TEN_KEYS} {{operations, [{{put, 1}}]}}. {{http_raw_disconnect_frequency, {{ops, 2}}}}."
    );
    let run = run(&config(&server, &rest));
    assert_eq!(run.report.total.success_count(), 10);
    assert_eq!(server.connection_count(), 5);
    let kept = HttpServer::store();
    run_operation(&kept, "put");
    assert_eq!(kept.connection_count(), 1);
}

#[test]
fn many_workers_share_the_work() {
    let server = HttpServer::store();
    let rest = "{key_generator, {int_to_str, {partitioned_sequential_int, 400}}}.
                {operations, [{update, 1}]}. {concurrent, 20}.";
    let run = run(&config(&server, rest));
    assert_eq!(run.report.total.success_count(), 400);
    let mut paths: Vec<String> = server.seen().into_iter().map(|request| request.path).collect();
    assert_eq!(paths.len(), 800);
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), 400);
    let mut clients: Vec<String> =
        server.seen().iter().filter_map(|r| r.headers.get("x-riak-clientid").cloned()).collect();
    clients.sort();
    clients.dedup();
    assert_eq!(clients.len(), 20);
}

#[test]
fn a_server_that_is_not_there_fails_the_start() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = format!("{{driver, http_raw}}. {{http_raw_port, {}}}.", closed.port());
    match try_run(&config, |_| {}) {
        Err(error @ RunError::Start { .. }) => {
            let text = error.to_string();
            assert!(text.contains(&closed.to_string()) && text.contains("is the server running"));
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("nothing is there"),
    }
}

#[test]
fn settings_that_the_driver_cannot_have_are_refused() {
    for (setting, expected) in [
        ("{http_use_ssl, true}.", "QUOIT_CACERT"),
        ("{http_use_ssl, perhaps}.", "{cacertfile, "),
        ("{http_raw_ips, []}.", "write a list of \"host\""),
        ("{http_raw_path, \"no slash\"}.", "write a path such as"),
        ("{http_raw_append_headers, [{'A', \"x\\r\\nB: y\"}]}.", "'Header-Name'"),
        ("{http_raw_disconnect_frequency, often}.", "{ops, N}"),
        ("{value_generator, {uniform_int, 5}}.", "stores bytes"),
        ("{operations, [{look, 1}]}.", "get, get_existing, update"),
    ] {
        let config = format!("{{driver, http_raw}}. {setting}");
        let error = try_run(&config, |_| {}).err().expect(setting).to_string();
        assert!(error.contains(expected), "{setting}: {error}");
    }
}

#[test]
fn files_are_put_under_their_names_until_there_are_no_more() {
    let server = HttpServer::store();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("b one.txt"), b"first").unwrap();
    std::fs::write(directory.path().join("c"), b"second").unwrap();
    std::fs::create_dir(directory.path().join("a")).unwrap();
    let path = directory.path().display().to_string();
    let run = run(&config(
        &server,
        &format!("{{file_dir, {path:?}}}. {{operations, [{{put_file, 1}}]}}."),
    ));
    assert_eq!((run.report.total.success_count(), run.report.total.error_count()), (2, 0));
    let seen: Vec<(String, Vec<u8>)> =
        server.seen().into_iter().map(|seen| (seen.path, seen.body)).collect();
    assert_eq!(seen[0], ("/riak/test/b%20one.txt".to_owned(), b"first".to_vec()));
    assert_eq!(seen[1], ("/riak/test/c".to_owned(), b"second".to_vec()));
    for (rest, expected) in [
        ("{operations, [{put_file, 1}]}.", "name the directory"),
        ("{file_dir, \"/no/such\"}. {operations, [{put_file, 1}]}.", "cannot be read"),
        ("{operations, [{{search, {\"title:a\", 12}}, 1}]}.", "Quoit has no search"),
    ] {
        let error = try_run(&config(&server, rest), |_| {}).err().expect(rest).to_string();
        assert!(error.contains(expected), "{error}");
    }
}
