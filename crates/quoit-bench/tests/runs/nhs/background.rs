//! Queries in the background.

use quoit_bench::cli::BenchOptions;
use quoit_bench::run::RunEnd;
use quoit_client::wire::messages::{
    RpbAaeFoldKeyCountResp, RpbAaeFoldKeyValueResp, RpbErrorResp, RpbGetResp, RpbKeysCount,
    RpbKeysValue, RpbListKeysResp,
};

use super::{Cluster, text};
use crate::pb_server::{PbServer, Reply, Seen, append};
use crate::support::try_run;

/// Runs a background operation until the log has its outcome. Returns the log and the requests that the
/// server saw.
fn run_in_background(operation: &str) -> (String, Vec<Seen>) {
    let results = tempfile::tempdir().unwrap();
    let log = results.path().join("run").join("console.log");
    let is_told = move || std::fs::read_to_string(&log).is_ok_and(|text| text.contains(" s: "));
    let pb = PbServer::answering(move |seen, _| {
        let mut answer = Vec::new();
        match seen {
            // The first failure ends the run.
            Seen::Get(_) if is_told() => {
                append(&mut answer, &RpbErrorResp { errmsg: "enough".into(), errcode: 0 });
            }
            Seen::Get(_) => append(&mut answer, &RpbGetResp::default()),
            Seen::ListKeys(_) => {
                let keys = vec!["a".into(), "b".into()];
                append(&mut answer, &RpbListKeysResp { keys, done: None });
                let keys = vec!["c".into()];
                append(&mut answer, &RpbListKeysResp { keys, done: Some(true) });
            }
            Seen::ObjectStats(_) => {
                let keys_count =
                    vec![RpbKeysCount { tag: "total_count".into(), order: None, count: 3 }];
                append(
                    &mut answer,
                    &RpbAaeFoldKeyCountResp { response_type: "stats".into(), keys_count },
                );
            }
            Seen::FetchClocks(_) => {
                let response_type = "clock".into();
                let keys_value = vec![RpbKeysValue::default(); 3];
                append(&mut answer, &RpbAaeFoldKeyValueResp { response_type, keys_value });
            }
            other => panic!("{other:?}"),
        }
        Reply::Bytes(answer)
    });
    let cluster = Cluster::with(pb);
    let rest = "{concurrent, 8}. {key_generator, {uniform_int, 40}}. {shutdown_on_error, true}.";
    let config = cluster.config(&format!("{{get_pb, 1}}, {{{operation}, 1}}"), rest);
    let change = |options: &mut BenchOptions| {
        options.results_dir = Some(results.path().to_owned());
        options.name = Some("run".to_owned());
        options.duration = Some("30s".to_owned());
    };
    let run = try_run(&config, change).unwrap();
    assert_eq!(run.report.end, RunEnd::Failed, "the log told it");
    let asked = cluster.pb.seen().into_iter().filter(|seen| !matches!(seen, Seen::Get(_)));
    (run.file("console.log"), asked.collect())
}

#[test]
fn one_worker_lists_and_folds_records_beside_the_operations() {
    for (operation, found) in
        [("list_keys", "3 keys"), ("aae_query", "3 keys"), ("segment_fold", "3 keys in 2 segments")]
    {
        let (log, asked) = run_in_background(operation);
        assert!(log.contains(&format!(" s: {found}\n")), "{log}");
        let begun = log.matches(&format!("{operation} begins")).count();
        assert!((1..=begun).contains(&asked.len()), "{} of {begun} begun", asked.len());
        let bucket = match &asked[0] {
            Seen::ListKeys(request) => &request.bucket,
            Seen::ObjectStats(request) => &request.bucket,
            Seen::FetchClocks(request) => {
                assert_eq!(
                    (&request.id_filter[..], request.filter_tree_size),
                    (&[1, 10_001][..], Some(2))
                );
                &request.bucket
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(text(bucket), "domainRecord");
    }
}
