//! Verified runs, against a correct store and against stores with deliberate faults.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use quoit_bench::cli::{ExitStatus, status_of};
use quoit_bench::run::RunSummary;
use quoit_bench::verify::{Fault, Semantics, Verifier, VerifySettings};
use quoit_client::wire::messages::{RpbContent, RpbDelResp, RpbGetResp, RpbPutResp};

use crate::pb_server::{PbServer, Reply, Seen, append};
use crate::support::{HttpServer, Run, response, try_run};

/// The fault of a store, which affects one key in three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoreFault {
    Not,
    /// Reads find nothing.
    Loses,
    /// Writes are acknowledged and discarded; the run itself reads nothing.
    Forgets,
    ReturnsOld,
    Corrupts,
    MixesUpKeys,
    InventsValues,
    AddsSiblings,
    Resurrects,
}

/// A store that is correct except for its fault.
struct Store {
    ill: StoreFault,
    semantics: Semantics,
    objects: Mutex<HashMap<Bytes, Object>>,
    /// A value of another run.
    invented: Vec<u8>,
}

#[derive(Default)]
struct Object {
    /// Live versions, by their numbers.
    siblings: Vec<(usize, Bytes)>,
    /// All versions that were ever written.
    versions: Vec<Bytes>,
}

impl Store {
    fn new(ill: StoreFault, semantics: Semantics) -> Self {
        let other = Verifier::new(VerifySettings::default(), &std::env::temp_dir()).unwrap();
        let invented = other.begin_put(b"k", None).value(100);
        Self { ill, semantics, objects: Mutex::default(), invented }
    }

    fn ill_for(&self, key: &[u8]) -> StoreFault {
        let is_chosen = key.last().is_some_and(|last| last.is_multiple_of(3));
        if is_chosen { self.ill } else { StoreFault::Not }
    }

    /// The values of a key, and the context that covers them.
    fn get(&self, key: &Bytes) -> (Vec<Bytes>, String) {
        let objects = self.objects.lock().unwrap();
        let Some(object) = objects.get(key) else { return (Vec::new(), String::new()) };
        let mut values: Vec<Bytes> =
            object.siblings.iter().map(|(_, value)| value.clone()).collect();
        let numbers: Vec<String> =
            object.siblings.iter().map(|(number, _)| number.to_string()).collect();
        let live = &object.siblings;
        let old = object.versions.iter().rfind(|old| live.iter().all(|(_, value)| value != *old));
        match (self.ill_for(key), values.first_mut(), old) {
            (StoreFault::Loses, Some(_), _) => values.clear(),
            (StoreFault::ReturnsOld, Some(_), Some(old)) => values = vec![old.clone()],
            (StoreFault::AddsSiblings, Some(_), Some(old)) => values.push(old.clone()),
            (StoreFault::Resurrects, None, Some(old)) => values.push(old.clone()),
            (StoreFault::Corrupts, Some(first), _) => {
                let mut bytes = first.to_vec();
                *bytes.last_mut().unwrap() ^= 1;
                *first = bytes.into();
            }
            (StoreFault::InventsValues, Some(first), _) => *first = self.invented.clone().into(),
            (StoreFault::MixesUpKeys, Some(first), _) => {
                let others = objects.iter().filter(|(other, _)| *other != key);
                let others = others.flat_map(|(_, object)| object.siblings.first());
                if let Some((_, value)) = others.into_iter().next() {
                    *first = value.clone();
                }
            }
            _ => {}
        }
        (values, format!("versions,{}", numbers.join(",")))
    }

    fn put(&self, key: &Bytes, value: Bytes, context: &str) {
        if self.ill_for(key) == StoreFault::Forgets {
            return;
        }
        let mut objects = self.objects.lock().unwrap();
        let object = objects.entry(key.clone()).or_default();
        let covered: Vec<usize> = context.split(',').filter_map(|n| n.parse().ok()).collect();
        match self.semantics {
            Semantics::Register => object.siblings.clear(),
            Semantics::Siblings => object.siblings.retain(|(number, _)| !covered.contains(number)),
        }
        object.siblings.push((object.versions.len(), value.clone()));
        object.versions.push(value);
    }

    fn delete(&self, key: &Bytes) {
        self.objects.lock().unwrap().entry(key.clone()).or_default().siblings.clear();
    }

    /// Starts a server for the store with the Protocol Buffers interface. With `hangs`, some requests are
    /// performed and not answered.
    fn over_pb(self, hangs: bool) -> PbServer {
        PbServer::answering(move |request, number| {
            let mut answer = Vec::new();
            match request {
                Seen::Get(get) => {
                    let (values, context) = self.get(&get.key);
                    let content = |value| RpbContent { value, ..RpbContent::default() };
                    let content = values.into_iter().map(content).collect();
                    let vclock = Some(Bytes::from(context));
                    append(&mut answer, &RpbGetResp { content, vclock, unchanged: None });
                }
                Seen::Put(put) => {
                    let context = put.vclock.as_deref().unwrap_or_default();
                    let context = String::from_utf8_lossy(context).into_owned();
                    self.put(&put.key.unwrap(), put.content.value, &context);
                    append(&mut answer, &RpbPutResp::default());
                }
                Seen::Delete(delete) => {
                    self.delete(&delete.key);
                    append(&mut answer, &RpbDelResp {});
                }
                other => unreachable!("no verified run does it: {other:?}"),
            }
            match (hangs, number % 97) {
                (true, 96) => Reply::Nothing,
                (true, 48) => Reply::End,
                _ => Reply::Bytes(answer),
            }
        })
    }

    fn over_http(self, breaks: bool) -> HttpServer {
        HttpServer::start(Arc::new(move |request, number| {
            let key = Bytes::copy_from_slice(request.path.rsplit('/').next().unwrap().as_bytes());
            let answer = match request.method.as_str() {
                "GET" => http_answer(self.get(&key)),
                "PUT" => {
                    let context = request.headers.get("x-riak-vclock").cloned().unwrap_or_default();
                    self.put(&key, request.body.clone().into(), &context);
                    response("204 No Content", "", b"")
                }
                _ => {
                    self.delete(&key);
                    response("204 No Content", "", b"")
                }
            };
            // An empty answer closes the connection.
            if breaks && number % 97 == 96 { Vec::new() } else { answer }
        }))
    }
}

fn http_answer((values, context): (Vec<Bytes>, String)) -> Vec<u8> {
    let clock = format!("X-Riak-Vclock: {context}\r\n");
    match values.as_slice() {
        [] => response("404 Object Not Found", "", b"not found\n"),
        [value] => response("200 OK", &clock, value),
        values => {
            let mut body = Vec::new();
            for value in values {
                body.extend_from_slice(b"\r\n--xyz\r\nContent-Type: text/plain\r\n\r\n");
                body.extend_from_slice(value);
            }
            body.extend_from_slice(b"\r\n--xyz--\r\n");
            let headers = format!("{clock}Content-Type: multipart/mixed; boundary=xyz\r\n");
            response("300 Multiple Choices", &headers, &body)
        }
    }
}

const MIX: &str = "[{get, 4}, {put, 2}, {update, 2}, {delete, 1}]";

fn run_with(driver: &str, port: u16, operations: &str, rest: &str) -> Run {
    let config = format!(
        "{{mode, max}}. {{driver, {driver}}}. {{riakc_pb_ips, [\"127.0.0.1\"]}}.
         {{http_raw_ips, [\"127.0.0.1\"]}}. {{riakc_pb_port, {port}}}. {{http_raw_port, {port}}}.
         {{key_generator, {{to_binstr, \"key-~w\", {{uniform_int, 12}}}}}}. {{operations, {operations}}}.
         {{value_generator, {{uniform_bin, 10, 300}}}}. {{pb_timeout_general, 300}}. {rest}"
    );
    try_run(&config, |options| options.duration = Some("200ms".to_owned())).unwrap()
}

fn run(driver: &str, store: Store, operations: &str, rest: &str, is_shaky: bool) -> Run {
    match driver {
        "riakc_pb" => {
            let server = store.over_pb(is_shaky);
            run_with(driver, server.address.port(), operations, rest)
        }
        _ => {
            let server = store.over_http(is_shaky);
            run_with(driver, server.address.port(), operations, rest)
        }
    }
}

fn faults(run: &Run) -> BTreeSet<Fault> {
    run.report.verification.as_ref().unwrap().faults.keys().copied().collect()
}

#[test]
fn a_correct_store_gives_no_false_alarm() {
    for driver in ["riakc_pb", "http_raw"] {
        for (semantics, verify) in [
            (Semantics::Register, "{verify, true}. {concurrent, 8}."),
            (Semantics::Siblings, "{verify, [siblings, fresh]}. {concurrent, 8}."),
        ] {
            let run = run(driver, Store::new(StoreFault::Not, semantics), MIX, verify, true);
            let report = run.report.verification.as_ref().unwrap();
            assert!(report.is_clean(), "{driver} {verify} {report:?}");
            assert!(report.reads_checked > 20 && report.writes_acknowledged > 20, "{report:?}");
            assert!(report.writes_in_doubt > 0, "{driver} {report:?}");
            assert_eq!(report.keys_read_back, report.keys_written);
            assert_eq!(status_of(&run.report), ExitStatus::Success);
            assert!(run.shown.contains("\nVerified: "), "{}", run.shown);
        }
    }
}

#[test]
fn every_store_fault_is_found_and_named() {
    let illnesses = [
        (StoreFault::Loses, Fault::Lost),
        (StoreFault::ReturnsOld, Fault::Stale),
        (StoreFault::Corrupts, Fault::Corrupt),
        (StoreFault::MixesUpKeys, Fault::ForeignKey),
        (StoreFault::InventsValues, Fault::NeverWritten),
        (StoreFault::AddsSiblings, Fault::Siblings),
        (StoreFault::Resurrects, Fault::Resurrected),
    ];
    for driver in ["riakc_pb", "http_raw"] {
        for semantics in [Semantics::Register, Semantics::Siblings] {
            let verify = match semantics {
                Semantics::Register => "{verify, [fresh]}. {concurrent, 1}.",
                Semantics::Siblings => "{verify, [fresh, siblings]}. {concurrent, 1}.",
            };
            // With siblings, plain puts would accumulate siblings.
            let mix = match semantics {
                Semantics::Register => MIX,
                Semantics::Siblings => "[{get, 4}, {update, 4}, {delete, 1}]",
            };
            for (ill, fault) in illnesses {
                let what = format!("{driver} {semantics:?} {ill:?}");
                // On a slow machine a short run may end before the store has shown its fault.
                let run = (0..10)
                    .map(|_| run(driver, Store::new(ill, semantics), mix, verify, false))
                    .find(|run| !faults(run).is_empty())
                    .expect(&what);
                assert_eq!(faults(&run), BTreeSet::from([fault]), "{what}");
                assert_eq!(status_of(&run.report), ExitStatus::Faults);
                assert_eq!(status_of(&run.report).code(), 3);
            }
        }
    }
}

#[test]
fn the_read_back_finds_lost_writes_that_no_operation_read() {
    let store = Store::new(StoreFault::Forgets, Semantics::Register);
    let run = run("riakc_pb", store, "[{put, 1}]", "{verify, true}.", false);
    let report = run.report.verification.as_ref().unwrap();
    assert_eq!((report.keys_written, report.keys_read_back), (12, 12));
    assert_eq!(report.faults.iter().collect::<Vec<_>>(), [(&Fault::Lost, &4)]);
    assert!(report.cases.iter().all(|case| case.by_read_back && case.found == "nothing"));
    assert!(run.shown.contains("VERIFICATION FAILED"), "{}", run.shown);
    assert!(run.shown.contains("lost at the end: key key-"), "{}", run.shown);
    let summary = RunSummary::read(&run.report.directory).unwrap();
    assert_eq!(summary.verification.as_ref(), Some(report));
    assert!(run.file("error.log").contains("VERIFICATION FAILED"));
}

#[test]
fn keys_that_cannot_be_read_back_are_not_accounted_for() {
    // The server disappears after a while. Nothing is wrong, but nothing can be verified either.
    let store = Store::new(StoreFault::Not, Semantics::Register);
    let server = PbServer::answering(move |request, _| match request {
        Seen::Put(put) => {
            store.put(&put.key.unwrap(), put.content.value, "");
            let mut answer = Vec::new();
            append(&mut answer, &RpbPutResp::default());
            Reply::Bytes(answer)
        }
        _ => Reply::End,
    });
    let run = run_with("riakc_pb", server.address.port(), "[{put, 1}]", "{verify, true}.");
    let report = run.report.verification.as_ref().unwrap();
    assert_eq!((report.fault_count(), report.keys_unread, report.keys_written), (0, 12, 12));
    assert_eq!(status_of(&run.report), ExitStatus::Faults);
}

#[test]
fn a_driver_that_cannot_verify_says_so() {
    let error = try_run("{driver, null}. {verify, true}.", |_| {}).err().unwrap().to_string();
    assert!(error.contains("http_raw and riakc_pb can"), "{error}");
    let error = try_run("{driver, riakc_pb}. {verify, [all]}.", |_| {}).err().unwrap().to_string();
    assert!(error.contains("siblings"), "{error}");
}
