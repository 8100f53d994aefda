//! Runs that are refused.

use super::FINITE;
use crate::support::try_run;
use quoit_bench::run::RunError;

#[test]
fn what_cannot_be_run_is_refused_with_a_reason() {
    let check = |config: &str, expected: &str| {
        let error = match try_run(config, |_| {}) {
            Ok(_) => panic!("{config} must not run"),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(expected), "{config}: {error}");
    };
    check(
        "{driver, null}. {operations, [{do_somthing, 1}]}.",
        "test.config:1:31: the driver null has no operation `do_somthing`: it has absolutely_nothing",
    );
    check("{driver, nul}.", "driver nul is not offered: did you mean null?");
    check("{driver, cassandra}.", "driver cassandra is not offered: it speaks to another database");
    check("{mode, fast}.", "test.config:1:8: mode is fast: write max");
    check(
        "{mode, max}.\n{operations, [}.",
        "test.config:2:15: found `}` where a term was expected",
    );
    check("{driver, null}. {operations, [{do_something, 0}]}.", "no weight is above 0");
}

#[test]
fn a_name_that_is_taken_or_reserved_is_refused() {
    let named = |name: &str| {
        let config = format!("{FINITE} {{operations, [{{do_something, 1}}]}}.");
        try_run(&config, |options| options.name = Some(name.to_owned()))
    };
    assert!(matches!(named("current"), Err(RunError::Output(_))));
    assert!(matches!(named("a/b"), Err(RunError::Output(_))));
    let first = named("once").unwrap();
    let base = first.report.directory.parent().unwrap().to_owned();
    let config = format!("{FINITE} {{operations, [{{do_something, 1}}]}}.");
    let again = try_run(&config, |options| {
        options.name = Some("once".to_owned());
        options.results_dir = Some(base);
    });
    let error = again.err().unwrap().to_string();
    assert!(error.contains("already holds the results of a run"), "{error}");
}
