//! Random histories of one key, checked against a naive model that keeps everything, and against a correct
//! store.

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// Number of clients, each with one operation in flight.
const CLIENT_COUNT: usize = 4;

#[derive(Debug, Clone)]
enum ModelStep {
    BeginPut {
        with_context: bool,
    },
    BeginDelete,
    BeginRead,
    /// The store performs the operation.
    Apply,
    /// The operation is acknowledged, or its read is answered with some value.
    End(Index),
    /// The client gives up.
    TimeOut,
    /// The store performs an operation whose client has given up.
    ApplyLate(Index),
}

fn steps() -> impl Strategy<Value = Vec<(usize, ModelStep)>> {
    let step = prop_oneof![
        3 => any::<bool>().prop_map(|with_context| ModelStep::BeginPut { with_context }),
        1 => Just(ModelStep::BeginDelete),
        4 => Just(ModelStep::BeginRead),
        6 => Just(ModelStep::Apply),
        8 => any::<Index>().prop_map(ModelStep::End),
        1 => Just(ModelStep::TimeOut),
        1 => any::<Index>().prop_map(ModelStep::ApplyLate),
    ];
    prop::collection::vec((0..CLIENT_COUNT, step), 0..90)
}

fn verifier(semantics: Semantics) -> Arc<Verifier> {
    let settings = VerifySettings { semantics, is_fresh: true, ..VerifySettings::default() };
    Verifier::new(settings, &std::env::temp_dir()).expect("a temporary file")
}

fn as_slices<'a>(values: &'a [&Vec<u8>]) -> impl Iterator<Item = &'a [u8]> {
    values.iter().map(|value| value.as_slice())
}

/// A write in the naive model, which never forgets one.
struct Known {
    start: usize,
    /// Time of the acknowledgement; `None` for a write in doubt.
    end: Option<usize>,
    /// The value; `None` for a delete.
    value: Option<Vec<u8>>,
}

/// The definition of a correct read: the value found is that of a write that may be the last one. A write
/// can't be the last one if an acknowledged write started after its acknowledgement and ended before the
/// read started.
fn is_possible(known: &[Known], read_start: usize, found: Option<&Vec<u8>>) -> bool {
    let is_replaced = |one: &Known| {
        let Some(end) = one.end else { return false };
        let ended = |other: &Known| other.end.is_some_and(|end| end < read_start);
        known.iter().any(|other| other.start > end && ended(other))
    };
    known.iter().any(|one| one.value.as_ref() == found && !is_replaced(one))
}

/// An operation in flight in the naive model.
enum Going {
    Write(Write, usize),
    Read(Read, usize),
}

/// An operation in flight in the model store.
enum Pending {
    Put { write: Write, value: Vec<u8>, covers: Vec<Vec<u8>>, is_applied: bool },
    Delete { write: Write, is_applied: bool },
    Read { read: Read, seen: Option<Vec<Vec<u8>>> },
}

/// An operation whose client has given up, which may still take effect.
enum Late {
    Put { value: Vec<u8>, covers: Vec<Vec<u8>> },
    Delete,
}

/// A correct store of one key.
struct ModelStore {
    semantics: Semantics,
    values: Vec<Vec<u8>>,
}

impl ModelStore {
    fn put(&mut self, value: &[u8], covers: &[Vec<u8>]) {
        match self.semantics {
            Semantics::Register => self.values.clear(),
            Semantics::Siblings => self.values.retain(|old| !covers.contains(old)),
        }
        self.values.push(value.to_vec());
    }
}

/// A complete history of a correct store.
struct ModelRun {
    verifier: Arc<Verifier>,
    store: ModelStore,
    clients: [Option<Pending>; CLIENT_COUNT],
    contexts: [Option<(Context, Vec<Vec<u8>>)>; CLIENT_COUNT],
    late: Vec<Late>,
    written: Vec<Vec<u8>>,
    had_doubt: bool,
}

impl ModelRun {
    fn new(semantics: Semantics) -> Self {
        Self {
            verifier: verifier(semantics),
            store: ModelStore { semantics, values: Vec::new() },
            clients: Default::default(),
            contexts: Default::default(),
            late: Vec::new(),
            written: Vec::new(),
            had_doubt: false,
        }
    }

    fn step(&mut self, client: usize, step: &ModelStep) {
        let slot = &mut self.clients[client];
        match step {
            ModelStep::BeginPut { with_context } if slot.is_none() => {
                let context = self.contexts[client].take().filter(|_| *with_context);
                let write = self.verifier.begin_put(b"k", context.as_ref().map(|(c, _)| c));
                let value = write.value(32);
                self.written.push(value.clone());
                let covers = context.map_or(Vec::new(), |(_, values)| values);
                *slot = Some(Pending::Put { write, value, covers, is_applied: false });
            }
            ModelStep::BeginDelete if slot.is_none() => {
                let write = self.verifier.begin_delete(b"k");
                *slot = Some(Pending::Delete { write, is_applied: false });
            }
            ModelStep::BeginRead if slot.is_none() => {
                *slot = Some(Pending::Read { read: self.verifier.begin_read(b"k"), seen: None });
            }
            ModelStep::Apply => self.apply(client),
            ModelStep::End(_) => {
                self.apply(client);
                self.end(client);
            }
            ModelStep::TimeOut => self.time_out(client),
            ModelStep::ApplyLate(which) if !self.late.is_empty() => {
                match self.late.remove(which.index(self.late.len())) {
                    Late::Put { value, covers } => self.store.put(&value, &covers),
                    Late::Delete => self.store.values.clear(),
                }
            }
            _ => {}
        }
    }

    fn apply(&mut self, client: usize) {
        match &mut self.clients[client] {
            Some(Pending::Put { value, covers, is_applied, .. }) if !*is_applied => {
                self.store.put(value, covers);
                *is_applied = true;
            }
            Some(Pending::Delete { is_applied, .. }) if !*is_applied => {
                self.store.values.clear();
                *is_applied = true;
            }
            Some(Pending::Read { seen, .. }) => {
                seen.get_or_insert_with(|| self.store.values.clone());
            }
            _ => {}
        }
    }

    fn end(&mut self, client: usize) {
        match self.clients[client].take() {
            Some(Pending::Put { write, .. } | Pending::Delete { write, .. }) => write.acknowledge(),
            Some(Pending::Read { read, seen }) => {
                let seen = seen.unwrap_or_default();
                let context = read.found(seen.iter().map(Vec::as_slice));
                self.contexts[client] = Some((context, seen));
            }
            None => {}
        }
    }

    fn time_out(&mut self, client: usize) {
        match self.clients[client].take() {
            Some(Pending::Put { value, covers, is_applied: false, .. }) => {
                self.late.push(Late::Put { value, covers });
                self.had_doubt = true;
            }
            Some(Pending::Delete { is_applied: false, .. }) => {
                self.late.push(Late::Delete);
                self.had_doubt = true;
            }
            Some(Pending::Put { .. } | Pending::Delete { .. }) => self.had_doubt = true,
            Some(Pending::Read { .. }) | None => {}
        }
    }

    /// Ends all operations in flight.
    fn quiet(&mut self) {
        for client in 0..CLIENT_COUNT {
            self.apply(client);
            self.end(client);
        }
    }

    /// Reads the current state of the store.
    fn read(&self) -> Context {
        self.verifier.begin_read(b"k").found(self.store.values.iter().map(Vec::as_slice))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_register_is_judged_as_the_definition_says(steps in steps()) {
        let verifier = verifier(Semantics::Register);
        let mut known = vec![Known { start: 0, end: Some(0), value: None }];
        let mut clients: [Option<Going>; CLIENT_COUNT] = Default::default();
        let mut faults = 0;
        for (now, (client, step)) in (1..).zip(steps) {
            let slot = &mut clients[client];
            match (&step, slot.take()) {
                (ModelStep::BeginPut { .. } | ModelStep::BeginDelete, None) => {
                    let is_put = !matches!(step, ModelStep::BeginDelete);
                    let write = match is_put {
                        true => verifier.begin_put(b"k", None),
                        false => verifier.begin_delete(b"k"),
                    };
                    let value = is_put.then(|| write.value(32));
                    *slot = Some(Going::Write(write, known.len()));
                    known.push(Known { start: now, end: None, value });
                }
                (ModelStep::BeginRead, None) => *slot = Some(Going::Read(verifier.begin_read(b"k"), now)),
                (ModelStep::End(_), Some(Going::Write(write, index))) => {
                    write.acknowledge();
                    known[index].end = Some(now);
                }
                (ModelStep::End(which), Some(Going::Read(read, start))) => {
                    // Any value that was ever written, or none.
                    let found = known[which.index(known.len())].value.clone();
                    read.found(found.iter().map(Vec::as_slice));
                    let is_fault = verifier.report().fault_count() > faults;
                    faults = verifier.report().fault_count();
                    prop_assert_eq!(is_fault, !is_possible(&known, start, found.as_ref()));
                }
                (ModelStep::TimeOut, Some(_)) => {}
                (_, going) => *slot = going,
            }
        }
    }

    #[test]
    fn a_correct_store_has_no_faults(
        steps in steps(),
        semantics in prop_oneof![Just(Semantics::Register), Just(Semantics::Siblings)],
    ) {
        let mut run = ModelRun::new(semantics);
        for (client, step) in &steps {
            run.step(*client, step);
            let report = run.verifier.report();
            prop_assert!(report.is_clean(), "{:?}", report.cases);
        }
        run.quiet();
        run.read();
        let report = run.verifier.report();
        prop_assert!(report.is_clean(), "{:?}", report.cases);
    }

    #[test]
    fn a_value_that_goes_missing_or_comes_back_is_found_out(
        steps in steps(),
        which in any::<Index>(),
    ) {
        let mut run = ModelRun::new(Semantics::Siblings);
        steps.iter().for_each(|(client, step)| run.step(*client, step));
        run.quiet();
        // One more acknowledged write makes sure that the key has a value.
        let context = run.read();
        let newest = run.verifier.begin_put(b"k", Some(&context));
        let value = newest.value(32);
        newest.acknowledge();
        prop_assert!(run.verifier.report().is_clean());
        if !run.had_doubt {
            run.verifier.begin_read(b"k").found([]);
            prop_assert_eq!(run.verifier.report().fault_count(), 1, "the newest is missing");
            if !run.written.is_empty() {
                let old = &run.written[which.index(run.written.len())];
                run.verifier.begin_read(b"k").found(as_slices(&[&value, old]));
                prop_assert_eq!(run.verifier.report().fault_count(), 2, "an old one is back");
            }
        }
    }
}
