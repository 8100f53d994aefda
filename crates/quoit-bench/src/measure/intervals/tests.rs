use std::time::{Instant, SystemTime};

use proptest::prelude::*;

use super::*;
use crate::measure::Window;
use crate::measure::tests::closed_loop;
use crate::reported_operation::ReportedOperation;
use crate::term::Term;

const SECOND: Duration = Duration::from_secs(1);

fn operations() -> Vec<ReportedOperation> {
    let named = |name: &str| ReportedOperation {
        label: Term::atom(name),
        operation: Term::atom(name),
        file_label: name.to_owned(),
    };
    vec![named("get"), named("put")]
}

/// Latencies of gets in microseconds, and the number of failed puts.
type SampledSecond = (Vec<u64>, u64);

fn window_of((latencies_us, failed): &SampledSecond) -> Window {
    let (mut window, base) = (Window::new(2), Instant::now());
    for us in latencies_us {
        let latency = Duration::from_micros(*us);
        window.record(0, &closed_loop(latency, base + latency));
    }
    (0..*failed).for_each(|_| window.record_error(1, Term::atom("timeout"), SECOND));
    window
}

/// Writes a log with one sample in each second.
fn written(samples: &[SampledSecond]) -> tempfile::TempDir {
    let run = tempfile::tempdir().expect("a directory");
    let mut writer =
        IntervalWriter::create(run.path(), &operations(), SystemTime::now()).expect("logs");
    for (second, sample) in (0..).zip(samples) {
        let start = SECOND * second;
        writer.append(&(start..start + SECOND), &window_of(sample)).expect("a second");
    }
    run
}

fn intervals(run: &Path, label: &str) -> Vec<Interval> {
    let reader = IntervalReader::open(run, label).expect("a log");
    reader.collect::<Result<_, _>>().expect("whole intervals")
}

#[test]
fn a_log_gives_back_what_was_written() {
    let run = written(&[(vec![10, 20, 4_000_000], 0), (vec![], 0), (vec![7], 3)]);
    assert_eq!(file_labels(run.path()).expect("labels"), ["get", "put"]);
    let get = intervals(run.path(), "get");
    assert_eq!(get.iter().map(|one| one.start).collect::<Vec<_>>(), [Duration::ZERO, 2 * SECOND]);
    assert_eq!(get[0].length, SECOND);
    let latencies = get[0].stats.latencies();
    assert_eq!((latencies.count, latencies.min_us, latencies.max_us), (3, 10, 4_000_000));
    assert_eq!(latencies.mean_us, 4_000_030.0 / 3.0);
    let put = intervals(run.path(), "put");
    assert_eq!(put.len(), 1);
    assert_eq!((put[0].stats.count(), put[0].stats.error_count()), (0, 3));
    let failed = intervals(run.path(), "breakdown/failed-put");
    assert_eq!((failed[0].start, failed[0].stats.count()), (2 * SECOND, 3));
    assert_eq!(failed[0].stats.latencies().min_us, 1_000_000);
    let service = intervals(run.path(), "breakdown/service-get");
    assert_eq!(service.iter().map(|one| one.stats.count()).sum::<u64>(), 4);
    assert_eq!(service[0].stats.latencies().max_us, 2_000_000);
}

#[test]
fn other_tools_can_read_the_log() {
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    let run = written(&[(vec![10, 20], 0), (vec![30], 1)]);
    let text = std::fs::read(path_of(run.path(), "get")).expect("the log");
    let entries: Vec<_> =
        IntervalLogIterator::new(&text).collect::<Result<_, _>>().expect("the standard format");
    assert!(matches!(entries[0], LogEntry::StartTime(_)));
    assert!(matches!(entries[1], LogEntry::BaseTime(_)));
    let LogEntry::Interval(second) = &entries[3] else { panic!("{entries:?}") };
    assert_eq!((second.start_timestamp(), second.duration()), (SECOND, SECOND));
    assert_eq!(second.max(), 30_015.0, "nanoseconds, as the histogram rounds them");
}

#[test]
fn a_log_that_was_cut_short_ends_at_its_last_whole_interval() {
    let run = written(&[(vec![10], 0), (vec![20], 0)]);
    let path = path_of(run.path(), "get");
    let text = std::fs::read(&path).expect("the log");
    for cut in 1..60 {
        std::fs::write(&path, &text[..text.len() - cut]).expect("a shorter log");
        assert_eq!(intervals(run.path(), "get").len(), 1, "without the last {cut} bytes");
    }
}

#[test]
fn a_damaged_log_is_an_error_with_its_line() {
    let run = written(&[(vec![10], 0)]);
    let path = path_of(run.path(), "get");
    let text = std::fs::read_to_string(&path).expect("the log");
    for (from, to) in [("successful=1", "successful=2"), ("sum_ns=", "sum="), (",HISTF", ",HISTx")]
    {
        assert!(text.contains(from), "{text}");
        std::fs::write(&path, text.replace(from, to)).expect("a damaged log");
        let error = IntervalReader::open(run.path(), "get").expect("a log").next();
        let error = error.expect("an outcome").expect_err("damage").to_string();
        assert!(error.contains("get.hlog line "), "{error}");
    }
}

#[test]
fn a_run_without_logs_has_no_labels() {
    let run = tempfile::tempdir().expect("a directory");
    assert!(file_labels(run.path()).expect("no labels").is_empty());
    assert!(matches!(IntervalReader::open(run.path(), "get"), Err(IntervalError::File { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn the_sum_of_the_intervals_is_the_total_exactly(
        samples in prop::collection::vec(
            (prop::collection::vec(1_u64..100_000_000, 0..40), 0_u64..3),
            1..12,
        ),
    ) {
        let run = written(&samples);
        let mut whole = Window::new(2);
        samples.iter().for_each(|sample| whole.add(&window_of(sample)));
        for (index, label) in ["get", "put"].into_iter().enumerate() {
            let sum = total(run.path(), label).expect("a log");
            let expected = &whole.operations()[index];
            prop_assert_eq!(sum.latencies(), expected.latencies());
            prop_assert_eq!(sum.exact_ns(), expected.exact_ns());
            prop_assert_eq!(sum.error_count(), expected.error_count());
            prop_assert_eq!(sum.histogram_ns(), expected.histogram_ns());
        }
    }
}
