use super::*;

fn verifier(semantics: Semantics) -> Arc<Verifier> {
    let settings = VerifySettings { semantics, is_fresh: true, ..VerifySettings::default() };
    Verifier::new(settings, &std::env::temp_dir()).expect("a temporary file")
}

fn put(verifier: &Arc<Verifier>, key: &[u8], context: Option<&Context>) -> Vec<u8> {
    let write = verifier.begin_put(key, context);
    let value = write.value(100);
    write.acknowledge();
    value
}

fn delete(verifier: &Arc<Verifier>, key: &[u8]) {
    verifier.begin_delete(key).acknowledge();
}

fn read(verifier: &Arc<Verifier>, key: &[u8], values: &[&Vec<u8>]) -> Context {
    verifier.begin_read(key).found(values.iter().map(|value| value.as_slice()))
}

/// The kinds of faults so far, in ascending order.
fn faults(verifier: &Verifier) -> Vec<Fault> {
    verifier.report().faults.into_keys().collect()
}

#[test]
fn a_value_is_known_by_every_byte() {
    for size in [0, 32, 33, 40, 100] {
        let mut value = Vec::new();
        write_value(&mut value, WriteIdentity { run: 7, key_hash: 8, sequence: 9 }, size);
        assert_eq!(value.len(), size.max(VALUE_SIZE_BYTES_MIN));
        assert_eq!(decode(&value, 7), DecodedValue::Own { key_hash: 8, sequence: 9 });
        assert_eq!(decode(&value, 6), DecodedValue::OtherRun);
        for index in 0..value.len() {
            let mut damaged = value.clone();
            damaged[index] ^= 0x40;
            let is_own = matches!(decode(&damaged, 7), DecodedValue::Own { .. });
            assert!(!is_own, "byte {index} of {size}");
        }
        value.pop();
        assert_eq!(decode(&value, 7), DecodedValue::Damaged, "cut short");
    }
    assert_eq!(decode(b"", 7), DecodedValue::Unknown);
    assert_eq!(decode(&[b'x'; 100], 7), DecodedValue::Unknown);
}

#[test]
fn a_correct_register_gives_no_fault() {
    let verifier = verifier(Semantics::Register);
    read(&verifier, b"a", &[]);
    let first = put(&verifier, b"a", None);
    read(&verifier, b"a", &[&first]);
    let second = put(&verifier, b"a", None);
    read(&verifier, b"a", &[&second]);
    delete(&verifier, b"a");
    read(&verifier, b"a", &[]);
    let third = put(&verifier, b"a", None);
    read(&verifier, b"a", &[&third]);
    let report = verifier.report();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.reads_checked, report.writes_acknowledged), (5, 4));
    assert_eq!(report.keys_written, 1);
}

#[test]
fn each_fault_of_a_register_is_told_by_its_name() {
    type Wrong = fn(&Arc<Verifier>);
    let wrong: [(Fault, Wrong); 8] = [
        (Fault::Lost, |v| {
            put(v, b"a", None);
            read(v, b"a", &[]);
        }),
        (Fault::Stale, |v| {
            let old = put(v, b"a", None);
            put(v, b"a", None);
            read(v, b"a", &[&old]);
        }),
        (Fault::Resurrected, |v| {
            let old = put(v, b"a", None);
            delete(v, b"a");
            read(v, b"a", &[&old]);
        }),
        (Fault::Corrupt, |v| {
            let mut value = put(v, b"a", None);
            value[50] ^= 1;
            read(v, b"a", &[&value]);
        }),
        (Fault::Corrupt, |v| drop(read(v, b"a", &[&b"something".to_vec()]))),
        (Fault::ForeignKey, |v| {
            put(v, b"a", None);
            let foreign = put(v, b"b", None);
            read(v, b"a", &[&foreign]);
        }),
        (Fault::NeverWritten, |v| {
            let other = verifier(Semantics::Register);
            read(v, b"a", &[&put(&other, b"a", None)]);
        }),
        (Fault::Siblings, |v| {
            let old = put(v, b"a", None);
            let new = put(v, b"a", None);
            read(v, b"a", &[&new, &old]);
        }),
    ];
    for (fault, act) in wrong {
        let verifier = verifier(Semantics::Register);
        act(&verifier);
        assert_eq!(faults(&verifier), [fault]);
        let case = &verifier.report().cases[0];
        assert_eq!((case.fault, case.key.as_str()), (fault, "a"));
        assert!(!case.expected.is_empty() && !case.found.is_empty(), "{case:?}");
    }
}

#[test]
fn a_write_in_doubt_may_be_found_or_not_and_no_older_one() {
    let verifier = verifier(Semantics::Register);
    let replaced = put(&verifier, b"a", None);
    let sure = put(&verifier, b"a", None);
    let doubtful = verifier.begin_put(b"a", None).value(50);
    read(&verifier, b"a", &[&sure]);
    read(&verifier, b"a", &[&doubtful]);
    let newer = put(&verifier, b"a", None);
    read(&verifier, b"a", &[&newer]);
    read(&verifier, b"a", &[&doubtful]);
    assert!(verifier.report().is_clean());
    assert_eq!(verifier.report().writes_in_doubt, 1);
    read(&verifier, b"a", &[&replaced]);
    assert_eq!(faults(&verifier), [Fault::Stale]);
    drop(verifier.begin_delete(b"a"));
    read(&verifier, b"a", &[]);
    assert_eq!(verifier.report().fault_count(), 1, "a delete in doubt may have happened");
}

#[test]
fn a_read_beside_a_write_may_find_either() {
    let verifier = verifier(Semantics::Register);
    let old = put(&verifier, b"a", None);
    let read_old = verifier.begin_read(b"a");
    let read_new = verifier.begin_read(b"a");
    let write = verifier.begin_put(b"a", None);
    let new = write.value(50);
    write.acknowledge();
    read_old.found([old.as_slice()]);
    read_new.found([new.as_slice()]);
    assert!(verifier.report().is_clean());
    read(&verifier, b"a", &[&old]);
    assert_eq!(faults(&verifier), [Fault::Stale], "it started after the acknowledgement");
}

#[test]
fn correct_siblings_give_no_fault() {
    let verifier = verifier(Semantics::Siblings);
    let first = put(&verifier, b"a", None);
    let second = put(&verifier, b"a", None);
    let context = read(&verifier, b"a", &[&second, &first]);
    // Another write, concurrent with the write that replaces both siblings.
    let merge = verifier.begin_put(b"a", Some(&context));
    let beside = put(&verifier, b"a", None);
    let merged = merge.value(70);
    merge.acknowledge();
    read(&verifier, b"a", &[&merged, &beside]);
    delete(&verifier, b"a");
    let nothing = read(&verifier, b"a", &[]);
    let last = put(&verifier, b"a", Some(&nothing));
    read(&verifier, b"a", &[&last]);
    assert!(verifier.report().is_clean(), "{:?}", verifier.report());
}

#[test]
fn each_fault_of_siblings_is_told_by_its_name() {
    type Wrong = fn(&Arc<Verifier>);
    let wrong: [(Fault, Wrong); 6] = [
        (Fault::Lost, |v| {
            let first = put(v, b"a", None);
            put(v, b"a", None);
            read(v, b"a", &[&first]);
        }),
        (Fault::Siblings, |v| {
            let first = put(v, b"a", None);
            let context = read(v, b"a", &[&first]);
            let second = put(v, b"a", Some(&context));
            read(v, b"a", &[&second, &first]);
        }),
        (Fault::Siblings, |v| {
            let value = put(v, b"a", None);
            read(v, b"a", &[&value, &value]);
        }),
        (Fault::Siblings, |v| {
            // The write is in doubt, and still can't coexist with the value that it replaces.
            let first = put(v, b"a", None);
            let context = read(v, b"a", &[&first]);
            let doubtful = v.begin_put(b"a", Some(&context)).value(40);
            read(v, b"a", &[&doubtful, &first]);
        }),
        (Fault::Stale, |v| {
            let first = put(v, b"a", None);
            let context = read(v, b"a", &[&first]);
            put(v, b"a", Some(&context));
            read(v, b"a", &[&first]);
        }),
        (Fault::Resurrected, |v| {
            let first = put(v, b"a", None);
            delete(v, b"a");
            read(v, b"a", &[&first]);
        }),
    ];
    for (fault, act) in wrong {
        let verifier = verifier(Semantics::Siblings);
        act(&verifier);
        assert_eq!(faults(&verifier), [fault]);
    }
}

#[test]
fn what_replaces_a_write_in_doubt_replaces_what_that_one_replaced() {
    let verifier = verifier(Semantics::Siblings);
    let first = put(&verifier, b"a", None);
    let context = read(&verifier, b"a", &[&first]);
    let doubtful = verifier.begin_put(b"a", Some(&context)).value(40);
    let context = read(&verifier, b"a", &[&doubtful]);
    let last = put(&verifier, b"a", Some(&context));
    read(&verifier, b"a", &[&last]);
    assert!(verifier.report().is_clean(), "{:?}", verifier.report());
    read(&verifier, b"a", &[&first]);
    assert_eq!(faults(&verifier), [Fault::Stale]);
}

#[test]
fn values_from_before_the_run_are_accepted_until_they_are_replaced() {
    let before = Verifier::new(VerifySettings::default(), &std::env::temp_dir()).expect("a file");
    let of_other_run = put(&before, b"a", None);
    let plain = b"plain bytes".to_vec();
    for semantics in [Semantics::Register, Semantics::Siblings] {
        let settings = VerifySettings { semantics, ..VerifySettings::default() };
        let verifier = Verifier::new(settings, &std::env::temp_dir()).expect("a file");
        read(&verifier, b"a", &[&of_other_run]);
        let context = read(&verifier, b"a", &[&plain]);
        let new = put(&verifier, b"a", Some(&context));
        read(&verifier, b"a", &[&new]);
        assert!(verifier.report().is_clean(), "{:?}", verifier.report());
        read(&verifier, b"a", &[&of_other_run]);
        read(&verifier, b"a", &[&plain]);
        assert_eq!(faults(&verifier), [Fault::Corrupt, Fault::NeverWritten]);
    }
}

#[test]
fn reads_that_may_be_behind_are_counted_until_the_read_back() {
    let settings = VerifySettings { may_read_behind: true, ..VerifySettings::default() };
    let verifier = Verifier::new(settings, &std::env::temp_dir()).expect("a file");
    let old = put(&verifier, b"a", None);
    put(&verifier, b"a", None);
    read(&verifier, b"a", &[&old]);
    assert!(verifier.report().is_clean());
    assert_eq!(verifier.report().reads_behind, 1);
    verifier.begin_read_back(b"a").found([old.as_slice()]);
    assert_eq!(faults(&verifier), [Fault::Stale]);
    assert!(verifier.report().cases[0].by_read_back);
}

#[test]
fn the_keys_that_were_written_are_kept_once_each() {
    let verifier = verifier(Semantics::Register);
    let key = |number: u32| format!("key-{number}").into_bytes();
    for number in (0..1000).chain(0..1000) {
        put(&verifier, &key(number), None);
        read(&verifier, &key(number + 1_000_000), &[]);
    }
    let keys = verifier.written_keys().expect("keys");
    assert_eq!(keys.left(), 1000);
    let keys: Vec<Vec<u8>> = keys.map(|key| key.expect("a key")).collect();
    assert_eq!(keys, (0..1000).map(key).collect::<Vec<_>>());
    put(&verifier, b"later", None);
    assert_eq!(verifier.written_keys().expect("keys").count(), 1001);
}

#[test]
fn many_writes_in_doubt_of_one_key_take_bounded_memory_and_give_no_false_alarm() {
    for semantics in [Semantics::Register, Semantics::Siblings] {
        let verifier = verifier(semantics);
        let sure = put(&verifier, b"a", None);
        let doubtful: Vec<Vec<u8>> =
            (0..1000).map(|_| verifier.begin_put(b"a", None).value(32)).collect();
        verifier.table.with(key_hash(b"a"), |history| assert!(history.write_count() <= 66));
        match semantics {
            Semantics::Register => {
                read(&verifier, b"a", &[&sure]);
                doubtful.iter().for_each(|value| drop(read(&verifier, b"a", &[value])));
            }
            Semantics::Siblings => {
                let all: Vec<&Vec<u8>> = doubtful.iter().chain([&sure]).collect();
                read(&verifier, b"a", &all);
            }
        }
        assert!(verifier.report().is_clean(), "{:?}", verifier.report());
    }
}

#[test]
fn only_the_first_cases_are_kept() {
    let verifier = verifier(Semantics::Register);
    put(&verifier, b"a\n", None);
    (0..50).for_each(|_| drop(read(&verifier, b"a\n", &[])));
    let report = verifier.report();
    assert_eq!((report.fault_count(), report.cases.len()), (50, 20));
    assert_eq!(report.cases[0].key, "a\\n");
    assert_eq!(
        (report.cases[0].expected.as_str(), report.cases[0].found.as_str()),
        ("write 1", "nothing")
    );
}
