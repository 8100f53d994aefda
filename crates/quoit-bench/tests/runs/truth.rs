//! Comparisons of the load generator's results with the truth, which the server knows.

use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use quoit_bench::measure::Latencies;
use quoit_bench::run::{RunEnd, RunSummary};

use crate::support::{HttpServer, Run, response, run, try_run};

fn config(server: &HttpServer, rest: &str) -> String {
    let port = server.address.port();
    format!(
        "{{driver, http_raw}}. {{http_raw_ips, [\"127.0.0.1\"]}}. {{http_raw_port, {port}}}.
         {{key_generator, {{int_to_str, {{uniform_int, 1000}}}}}}. {{operations, [{{get, 1}}]}}.
         {rest}"
    )
}

/// Starts a server that answers request number n after `delay(n)`, and records the time that it really
/// took.
fn delaying(
    delay: impl Fn(usize) -> Duration + Send + Sync + 'static,
) -> (HttpServer, Arc<Mutex<Vec<f64>>>) {
    let taken_us = Arc::new(Mutex::new(Vec::new()));
    let taken = taken_us.clone();
    let server = HttpServer::start(Arc::new(move |_, number| {
        let start = Instant::now();
        sleep(delay(number));
        taken.lock().unwrap().push(start.elapsed().as_secs_f64() * 1e6);
        response("200 OK", "", b"x")
    }));
    (server, taken_us)
}

/// Delays that are uniform from 50 to 200 ms, in a scattered order.
fn uniform_delay(number: usize) -> Duration {
    Duration::from_micros(50_000 + (number as u64 * 611_953) % 150_001)
}

fn latencies(run: &Run) -> Latencies {
    run.report.total.operations()[0].latencies()
}

fn assert_near(what: &str, value: f64, truth: f64, share: f64) {
    assert!((value - truth).abs() <= share * truth, "{what}: {value} instead of {truth}");
}

/// The greatest relative difference between a percentile of the run and that of the server's delays.
fn difference_of_percentiles() -> f64 {
    let (server, taken_us) = delaying(uniform_delay);
    let keys = "{key_generator, {int_to_str, {partitioned_sequential_int, 1000}}}.";
    let run = run(&config(&server, &format!("{{mode, max}}. {{concurrent, 50}}. {keys}")));
    let mut taken_us = taken_us.lock().unwrap().clone();
    taken_us.sort_by(f64::total_cmp);
    assert_eq!(taken_us.len(), 1000);
    let latencies = latencies(&run);
    assert_eq!(latencies.count, 1000);
    let mean = taken_us.iter().sum::<f64>() / 1000.0;
    let pairs = [
        (latencies.min_us as f64, taken_us[0]),
        (latencies.mean_us, mean),
        (latencies.median_us as f64, taken_us[499]),
        (latencies.p95_us as f64, taken_us[949]),
        (latencies.p99_us as f64, taken_us[989]),
        (latencies.p99_9_us as f64, taken_us[998]),
        (latencies.max_us as f64, taken_us[999]),
    ];
    pairs.into_iter().map(|(value, truth)| (value - truth).abs() / truth).fold(0.0, f64::max)
}

/// Measures until a difference is small enough, at most five times. Other work of the machine can only
/// increase latencies and decrease rates, and does not do so every time.
fn assert_within(share: f64, measure: impl Fn() -> f64) {
    let mut differences = Vec::new();
    while differences.last().is_none_or(|last| *last > share) {
        assert!(differences.len() < 5, "{differences:?}, wanted is {share}");
        differences.push(measure());
    }
}

#[test]
fn percentiles_are_those_of_the_servers_delays() {
    assert_within(0.02, difference_of_percentiles);
}

/// The relative error of the rate of an open loop at 400 op/s with a warm-up of half a second.
fn difference_of_open_rate(mode: &str) -> f64 {
    let (server, _) = delaying(uniform_delay);
    let rest = format!("{{mode, {mode}}}. {{concurrent, 150}}. {{warmup, \"500ms\"}}.");
    let run = try_run(&config(&server, &rest), |options| options.duration = Some("2s".to_owned()));
    let run = run.unwrap();
    let summary = RunSummary::read(&run.report.directory).unwrap();
    assert_eq!(summary.mode.kind, "open_rate");
    // The warm-up is not counted: 500 ms at 400 op/s are 200 operations, fewer on a busy machine.
    let (sent, counted) = (server.seen().len() as u64, latencies(&run).count);
    if sent < counted + 130 {
        return f64::INFINITY;
    }
    (summary.successful_per_s / 400.0 - 1.0).abs()
}

#[test]
fn an_open_loop_has_the_rate_that_was_asked_for() {
    std::thread::scope(|scope| {
        scope.spawn(|| assert_within(0.01, || difference_of_open_rate("{open_rate, 400}")));
        // Two seconds of Poisson arrivals have 800 of them, with a standard deviation of 28.
        let poisson = "{open_rate, 400, poisson}";
        scope.spawn(move || assert_within(0.1, || difference_of_open_rate(poisson)));
    });
}

/// The relative difference between the rate of a closed loop and the rate that the server's delays allow.
fn difference_of_closed_rate() -> f64 {
    let (server, taken_us) = delaying(uniform_delay);
    let rest = "{mode, max}. {concurrent, 50}. {warmup, \"500ms\"}.";
    let run = try_run(&config(&server, rest), |options| options.duration = Some("3s".to_owned()));
    let run = run.unwrap();
    let taken_us = taken_us.lock().unwrap();
    let mean_s = taken_us.iter().sum::<f64>() / taken_us.len() as f64 / 1e6;
    let summary = RunSummary::read(&run.report.directory).unwrap();
    assert_eq!(summary.warmup_s, 0.5);
    (summary.successful_per_s * mean_s / 50.0 - 1.0).abs()
}

#[test]
fn a_closed_loop_has_the_rate_that_its_delays_allow() {
    assert_within(0.02, difference_of_closed_rate);
}

/// A server that answers within 10 ms, but stalls for two seconds from its first second on.
fn stalling() -> HttpServer {
    let first = Mutex::new(None);
    HttpServer::start(Arc::new(move |_, _| {
        let start = *first.lock().unwrap().get_or_insert_with(Instant::now);
        let stall = start + Duration::from_secs(1)..start + Duration::from_secs(3);
        sleep(Duration::from_millis(10));
        let now = Instant::now();
        if stall.contains(&now) {
            sleep(stall.end - now);
        }
        response("200 OK", "", b"x")
    }))
}

/// A run of four seconds against a server that stalls in its second and third second.
fn through_a_stall(rest: &str) -> Run {
    let server = stalling();
    let run = try_run(&config(&server, rest), |options| options.duration = Some("4s".to_owned()));
    run.unwrap()
}

#[test]
fn an_open_loop_keeps_its_schedule_through_a_stall_and_a_closed_loop_hides_it() {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // With 20 workers, most arrivals during the stall wait for a free one.
            let run = through_a_stall("{mode, {open_rate, 200}}. {concurrent, 20}.");
            let latencies = latencies(&run);
            // On a busy machine the run may end before the last arrivals have found a worker.
            let unstarted = run.report.unstarted;
            assert_eq!(latencies.count + unstarted, 800, "every arrival is served or told");
            assert!(unstarted <= 8, "{unstarted} arrivals were not served");
            // The 400 arrivals during the stall waited from 2 s down to 0 s. The greatest latency is 2 s,
            // and the 40th greatest (rank 760 of 800) is 1.8 s.
            assert_near("max", latencies.max_us as f64, 2.0e6, 0.03);
            assert_near("95th", latencies.p95_us as f64, 1.8e6, 0.03);
            assert_near("99th", latencies.p99_us as f64, 1.96e6, 0.03);
            assert!(latencies.min_us < 20_000, "{latencies:?}");
            assert_stall_is_told(&run, 400.0);
            // The waiting of arrivals is queueing; the 20 operations that had a worker have a long service.
            let summary = RunSummary::read(&run.report.directory).unwrap();
            let (queueing, service) = (summary.breakdown.queueing, summary.operations[0].service);
            assert_near("queueing", queueing.p95_us as f64, 1.8e6, 0.05);
            assert_near("service", service.max_us as f64, 2.0e6, 0.03);
            assert!(service.p95_us < 200_000, "{service:?}");
        });
        scope.spawn(|| {
            let run = through_a_stall("{mode, max}. {concurrent, 4}.");
            let latencies = latencies(&run);
            let is_hidden = latencies.p95_us < 100_000 && latencies.max_us > 1_900_000;
            assert!(is_hidden, "{latencies:?}");
            // The arrivals are counted at the rate outside of the stall.
            assert_stall_is_told(&run, latencies.count as f64);
        });
    });
}

/// Asserts that the run reports a stall of two seconds from the first second on, with this number of
/// arrivals.
fn assert_stall_is_told(run: &Run, arrivals: f64) {
    let stall = run.report.stalls.first().expect("a stall");
    assert_near("start", stall.start_s, 1.0, 0.1);
    assert_near("length", stall.length_s, 2.0, 0.03);
    assert_near("arrivals", stall.arrivals as f64, arrivals, 0.1);
    assert!(run.shown.contains("s without a success, from second 1."), "{}", run.shown);
    let page = std::fs::read_to_string(run.report.directory.join("report.html")).unwrap();
    assert!(page.contains(&stall.arrivals.to_string()), "{stall:?}");
}

/// One request in five is not answered within the time limit of half a second.
#[test]
fn timeouts_are_lower_bounds_of_percentiles() {
    let (server, _) =
        delaying(|number| Duration::from_millis(if number % 5 == 0 { 2000 } else { 10 }));
    let rest = "{mode, max}. {concurrent, 10}. {http_raw_request_timeout, 500}.";
    let run = try_run(&config(&server, rest), |options| options.duration = Some("2s".to_owned()));
    let run = run.unwrap();
    let summary = RunSummary::read(&run.report.directory).unwrap();
    let operation = &summary.operations[0];
    assert!(operation.failed > 5 && operation.latencies.max_us < 500_000, "{operation:?}");
    let attempts = operation.attempts.expect("failures");
    assert_eq!(attempts.latencies.count, operation.latencies.count + operation.failed);
    assert_near("least", attempts.earliest_failure_us as f64, 500_000.0, 0.05);
    assert!(attempts.latencies.p99_us >= attempts.earliest_failure_us, "{attempts:?}");
    assert!(
        run.shown.contains("≥") && run.shown.contains("failed operations count"),
        "{}",
        run.shown
    );
    let page = std::fs::read_to_string(run.report.directory.join("report.html")).unwrap();
    assert!(page.contains("≥ 5"), "the page has the bound");
    let tile = page.split("99 % within").nth(1).expect("a tile");
    assert!(tile.chars().take(60).any(|letter| letter == '≥'), "{}", &tile[..60]);
    assert!(page.contains("ends where failures begin"), "the line over percentiles");
    // The slowest hundredth of each period are timeouts too, of at least half a second.
    let p99s_us: Vec<u64> =
        run.rows("periods.csv").iter().map(|row| row[7].parse().expect("a number")).collect();
    assert!(p99s_us.len() >= 2 && p99s_us.iter().all(|us| *us > 490_000), "{p99s_us:?}");
}

/// Without a server everything is noise. A busy machine may delay operations and not the measurement of the
/// noise beside them, so the badge has several runs to appear.
#[test]
fn a_run_that_measures_the_client_says_so() {
    assert!((0..8).any(|_| says_that_it_measures_the_client()), "the badge");
}

/// Runs a load without a server. Returns true if its report has the badge of such a run.
fn says_that_it_measures_the_client() -> bool {
    let config = "{driver, null}. {mode, {open_rate, 1000}}. {concurrent, 4}.
        {operations, [{do_something, 1}]}.";
    let run = try_run(config, |options| options.duration = Some("2s".to_owned())).unwrap();
    let summary = RunSummary::read(&run.report.directory).unwrap();
    let floor = summary.client.noise_floor;
    assert!(floor.count > 100 && floor.median_us > 0, "{floor:?}");
    assert!(run.shown.contains("~ within the noise"), "{}", run.shown);
    let page = std::fs::read_to_string(run.report.directory.join("report.html")).unwrap();
    assert!(page.contains("class=\"noise\""), "grey figures");
    let is_told =
        page.contains("within the noise of the load generator") || page.contains(">client-bound<");
    is_told && !page.contains("not client-bound")
}

#[test]
fn arrivals_that_are_never_served_are_told() {
    let (server, _) = delaying(|_| Duration::from_millis(50));
    let rest = "{mode, {open_rate, 100}}. {concurrent, 1}.";
    let run = try_run(&config(&server, rest), |options| options.duration = Some("1s".to_owned()));
    let run = run.unwrap();
    let served = latencies(&run).count;
    assert!((10..=21).contains(&served), "{served}");
    assert_eq!(run.report.unstarted, 100 - served);
    assert!(run.shown.contains("were due and never started"), "{}", run.shown);
    let summary = RunSummary::read(&run.report.directory).unwrap();
    assert_eq!(summary.unstarted, run.report.unstarted);
}

#[test]
fn the_knee_of_a_server_is_found() {
    // With 4 workers of 10 ms each, some 380 operations per second are served without waiting.
    let (server, _) = delaying(|_| Duration::from_millis(10));
    let rest = "{mode, {knee, [{p99_ms, 100}, {from, 200}, {step, \"1s\"}]}}. {concurrent, 4}.
                {warmup, \"100ms\"}.";
    let run = run(&config(&server, rest));
    let base = run.report.directory.parent().unwrap();
    let steps = std::fs::read_to_string(base.join("knee.csv")).unwrap();
    let rows: Vec<Vec<&str>> =
        steps.lines().skip(1).map(|line| line.split(", ").collect()).collect();
    assert!(rows.len() >= 4, "{steps}");
    let within =
        rows.iter().filter(|row| row[5] == "true").map(|row| row[0].parse::<f64>().unwrap());
    let knee = within.fold(0.0, f64::max);
    assert!((200.0..=420.0).contains(&knee), "{steps}");
    assert!(run.shown.contains(&format!("Knee: {knee:.1} op/s")), "{}", run.shown);
    let summary = RunSummary::read(&run.report.directory).unwrap();
    assert_near("rate", summary.mode.rate_per_s.unwrap(), knee, 0.001);
    // A step beyond the bound took at least two samples, each with a directory.
    let beyond = rows.iter().position(|row| row[5] == "false").expect("a rate beyond");
    assert!(rows[beyond][6].parse::<u32>().unwrap() >= 2, "{steps}");
    assert!(base.join(format!("step-{:02}-2", beyond + 1)).is_dir(), "{steps}");
    for name in ["summary.svg", "report.html"] {
        let report = std::fs::read_to_string(base.join(name)).unwrap();
        assert!(report.contains("99th percentile"), "{name}");
    }
}

/// The error occurs while the load generator is saturated, in the first sample of the search.
#[test]
fn a_search_that_an_error_stops_tells_so_and_judges_no_rate() {
    let run =
        run("{driver, null}. {concurrent, 2}. {warmup, \"100ms\"}. {shutdown_on_error, true}.
         {mode, {knee, [{p99_ms, 100}, {from, 50000000}, {step, \"60s\"}]}}.
         {operations, [{do_something, 9}, {an_error, 1}]}.");
    assert_eq!(run.report.end, RunEnd::Failed);
    let told = "The search ended early, before 50000000.0 op/s was judged";
    assert!(run.shown.contains(told), "{}", run.shown);
    assert!(!run.shown.contains("beyond"), "{}", run.shown);
    let base = run.report.directory.parent().unwrap();
    assert!(!base.join("knee.csv").exists() && !base.join("report.html").exists());
    assert!(run.report.directory.join("report.html").exists());
}
