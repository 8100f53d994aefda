use super::majority::{GrantAnswer, GrantDecision, decide};
use super::table::{GRANT_COUNT_MAX, GrantNumber, GrantTable, LEASE_US};
use crate::error::{QuorumKind, RequestError};
use crate::votes::{NodeIndex, Voters};
use bytes::Bytes;
use proptest::prelude::*;

const PRIMARY_COUNT: usize = 3;
const WRITER_COUNT: usize = 4;

fn record() -> Bytes {
    Bytes::from_static(b"record")
}

fn voters(nodes: &[NodeIndex]) -> Voters {
    Voters::assign(nodes.iter().copied(), nodes.len() as u32, false, |_| true)
}

/// A primary: its table of grants, and the writes in its copy. Its numbers continue after a restart.
#[derive(Default)]
struct Primary {
    table: GrantTable,
    copy: Vec<usize>,
    last_number: u64,
}

/// A conditional write that creates the record, so it is made only if no primary has shown another write.
#[derive(Clone, Default)]
struct Writer {
    granted: [Option<GrantNumber>; PRIMARY_COUNT],
    has_seen_others: bool,
    has_decided: bool,
    taken: [bool; PRIMARY_COUNT],
}

#[derive(Clone, Debug)]
enum Step {
    /// A primary receives a writer's request for a grant.
    Grant(usize, usize),
    /// A writer makes its event if it has enough grants.
    Decide(usize),
    /// A primary receives a writer's object, however late.
    Take(usize, usize),
    /// A writer that has not decided gives a grant back.
    Release(usize, usize),
    /// A primary restarts and forgets its grants.
    Restart(usize),
    Pass(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    let (writer, primary) = (0..WRITER_COUNT, 0..PRIMARY_COUNT);
    prop_oneof![
        6 => (writer.clone(), primary.clone()).prop_map(|(w, p)| Step::Grant(w, p)),
        4 => writer.clone().prop_map(Step::Decide),
        6 => (writer.clone(), primary.clone()).prop_map(|(w, p)| Step::Take(w, p)),
        1 => (writer, primary.clone()).prop_map(|(w, p)| Step::Release(w, p)),
        1 => primary.prop_map(Step::Restart),
        3 => prop_oneof![Just(1), Just(LEASE_US)].prop_map(Step::Pass),
    ]
}

/// Runs the steps and returns the number of acknowledged writes. With `is_fenced`, primaries check grants
/// when they take a write.
fn acknowledged(steps: &[Step], is_fenced: bool) -> usize {
    let mut primaries: [Primary; PRIMARY_COUNT] = Default::default();
    let mut writers = vec![Writer::default(); WRITER_COUNT];
    let mut now_us = 0;
    let layouts = [voters(&[0, 1, 2])];
    for step in steps {
        match *step {
            Step::Grant(w, p) if !writers[w].has_decided => {
                let primary = &mut primaries[p];
                primary.last_number += 1;
                let number = GrantNumber(primary.last_number);
                if primary.table.grant(&record(), number, now_us) {
                    writers[w].granted[p] = Some(number);
                    writers[w].has_seen_others |= !primary.copy.is_empty();
                }
            }
            Step::Decide(w) => {
                let answers: Vec<(NodeIndex, GrantAnswer)> = (0..PRIMARY_COUNT)
                    .filter(|p| writers[w].granted[*p].is_some())
                    .map(|p| (p as NodeIndex, GrantAnswer::Granted { is_complete: true }))
                    .collect();
                let is_granted = matches!(decide(3, &layouts, 0, &answers), GrantDecision::Granted);
                writers[w].has_decided |= is_granted && !writers[w].has_seen_others;
            }
            Step::Take(w, p) if writers[w].has_decided => {
                let Some(number) = writers[w].granted[p] else { continue };
                let primary = &mut primaries[p];
                let has_begun = primary.table.begin(&record(), number);
                if has_begun || !is_fenced {
                    primary.copy.push(w);
                    writers[w].taken[p] = true;
                }
                if has_begun {
                    let next = GrantNumber(u64::MAX);
                    let later_us = now_us + LEASE_US;
                    assert!(!primary.table.grant(&record(), next, later_us), "it is writing");
                    primary.table.end(&record(), number);
                }
            }
            Step::Release(w, p) if !writers[w].has_decided => {
                if let Some(number) = writers[w].granted[p].take() {
                    primaries[p].table.release(&record(), number);
                }
            }
            Step::Restart(p) => primaries[p].table = GrantTable::default(),
            Step::Pass(time_us) => now_us += time_us,
            Step::Grant(..) | Step::Take(..) | Step::Release(..) => {}
        }
    }
    let is_acknowledged =
        |writer: &&Writer| writer.taken.iter().filter(|taken| **taken).count() > 1;
    writers.iter().filter(is_acknowledged).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn at_most_one_of_the_writes_based_on_one_version_is_acknowledged(
        steps in prop::collection::vec(any_step(), 10..80),
    ) {
        prop_assert!(acknowledged(&steps, true) <= 1);
    }
}

#[test]
fn a_write_that_stalls_past_its_lease_is_refused_where_another_was_granted() {
    let stalled = [
        Step::Grant(0, 0),
        Step::Grant(0, 1),
        Step::Decide(0),
        Step::Pass(LEASE_US),
        Step::Grant(1, 1),
        Step::Grant(1, 2),
        Step::Decide(1),
        Step::Take(1, 1),
        Step::Take(1, 2),
        Step::Take(0, 0),
        Step::Take(0, 1),
    ];
    assert_eq!(acknowledged(&stalled, true), 1);
    assert_eq!(acknowledged(&stalled, false), 2, "without the check of grants both are taken");
}

#[test]
fn a_restarted_primary_takes_no_write_under_a_grant_that_it_has_forgotten() {
    let restarted = [
        Step::Grant(0, 0),
        Step::Grant(0, 1),
        Step::Decide(0),
        Step::Restart(1),
        Step::Grant(1, 1),
        Step::Grant(1, 2),
        Step::Decide(1),
        Step::Restart(1),
        Step::Take(0, 0),
        Step::Take(0, 1),
        Step::Take(1, 2),
    ];
    assert_eq!(acknowledged(&restarted, true), 0);
    assert_eq!(acknowledged(&restarted, false), 1);
}

#[test]
fn a_majority_is_needed_in_every_layout_and_of_complete_copies_in_that_for_reads() {
    let layouts = [voters(&[0, 1, 2]), voters(&[0, 3, 4])];
    let granted = |node, is_complete| (node, GrantAnswer::Granted { is_complete });
    let decided = |answers: &[(NodeIndex, GrantAnswer)]| match decide(3, &layouts, 0, answers) {
        GrantDecision::Granted => "granted",
        GrantDecision::HeldByOther => "taken",
        GrantDecision::NoMajority(RequestError::Unsatisfied {
            kind: QuorumKind::Pw,
            wanted: 2,
            ..
        }) => "no majority",
        GrantDecision::NoMajority(fault) => panic!("{fault}"),
    };
    assert_eq!(decided(&[granted(0, true), granted(1, true), granted(3, false)]), "granted");
    assert_eq!(decided(&[granted(0, true), granted(1, true)]), "no majority");
    assert_eq!(decided(&[granted(1, true), granted(3, false), granted(4, false)]), "no majority");
    assert_eq!(decided(&[granted(0, true), granted(1, false), granted(3, true)]), "no majority");
    assert_eq!(
        decided(&[granted(0, true), granted(1, true), (3, GrantAnswer::HeldByOther)]),
        "taken"
    );
    assert_eq!(
        decided(&[granted(0, true), granted(1, true), (3, GrantAnswer::Failed)]),
        "no majority"
    );
}

#[test]
fn a_primary_that_answers_twice_grants_once() {
    let layouts = [voters(&[0, 1, 2])];
    let twice = [(0, GrantAnswer::Granted { is_complete: true }); 2];
    assert!(matches!(decide(3, &layouts, 0, &twice), GrantDecision::NoMajority(_)));
}

#[test]
fn a_full_table_forgets_what_has_run_out_and_else_grants_nothing() {
    let mut table = GrantTable::default();
    for number in 0..GRANT_COUNT_MAX as u64 {
        let record = Bytes::copy_from_slice(&number.to_be_bytes());
        assert!(table.grant(&record, GrantNumber(number), 0));
    }
    assert!(!table.grant(&record(), GrantNumber(u64::MAX), LEASE_US - 1));
    assert!(table.grant(&record(), GrantNumber(u64::MAX), LEASE_US));
    assert!(!table.begin(&0_u64.to_be_bytes(), GrantNumber(0)), "it was forgotten");
}
