use std::fs;
use std::time::Duration;

use super::{
    FaultSlot, ScriptReference, ScriptedKind, ScriptedValue, ScriptedValues, Scripts, Session,
    SessionStep, SessionValue,
};
use crate::random::{Random, RandomKind, Seed};
use crate::term::{Term, parse_terms};
use crate::worker_place::WorkerPlace;

/// A script in a directory of its own.
struct Script {
    directory: tempfile::TempDir,
    faults: FaultSlot,
}

impl Script {
    fn of(text: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("a.js"), text).expect("a file");
        Self { directory, faults: FaultSlot::default() }
    }

    fn scripts(&self) -> Scripts {
        Scripts::new(self.directory.path().to_owned(), self.faults.clone())
    }

    fn try_values(&self, arguments: &str, kind: ScriptedKind) -> Result<ScriptedValues, String> {
        let mut values = ScriptedValues::new(reference(&format!("f, {arguments}")), kind);
        values.load(&mut self.scripts(), "").map_err(|error| error.to_string())?;
        Ok(values)
    }

    /// A generator of the values of `f` with these arguments.
    fn values(&self, arguments: &str, kind: ScriptedKind) -> ScriptedValues {
        self.try_values(arguments, kind).expect("a script")
    }

    fn session(&self) -> Session {
        let mut session =
            Session::new(reference("f, []"), ScriptedKind::Bytes, ScriptedKind::Integer);
        session.load(&mut self.scripts()).expect("a script");
        session
    }

    /// The fault of the run, as text.
    fn fault(&self) -> String {
        self.text_of(&self.faults.get().expect("a fault").to_string())
    }

    /// The text of a fault after the name of the file.
    fn text_of(&self, fault: &str) -> String {
        let path = self.directory.path().join("a.js").display().to_string();
        fault.strip_prefix(&path).expect("the name of the file").to_owned()
    }
}

fn term(text: &str) -> Term {
    parse_terms(text).expect("a term").remove(0).term
}

fn reference(rest: &str) -> ScriptReference {
    ScriptReference::of_script(&term(&format!("{{script, \"a.js\", {rest}}}.")))
        .expect("a reference")
}

fn random(worker: u32) -> Random {
    Random::new(RandomKind::default(), Seed::default(), worker)
}

fn integers(values: &mut ScriptedValues, random: &mut Random, count: usize) -> Vec<i64> {
    let mut next = || match values.next(random).expect("no fault").expect("a value") {
        ScriptedValue::Integer(number) => number,
        ScriptedValue::Bytes(bytes) => panic!("{bytes:?}"),
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn each_worker_has_a_function_and_variables_of_its_own() {
    let script = Script::of(
        "let calls = 0;
         function f(worker, step) {
           let n = worker * 100;
           return () => { calls++; n += step; return n + calls; };
         }",
    );
    let unstarted = script.values("[50]", ScriptedKind::Integer);
    let mut of_workers = [1, 2].map(|number| {
        let mut values = unstarted.clone();
        values.start(WorkerPlace { number, count: 2 });
        values
    });
    let mut random = random(1);
    assert_eq!(integers(&mut of_workers[0], &mut random, 3), [151, 202, 253]);
    assert_eq!(integers(&mut of_workers[1], &mut random, 2), [251, 302]);
    assert_eq!(integers(&mut of_workers[0], &mut random, 1), [304]);
    of_workers[0].start(WorkerPlace { number: 1, count: 2 });
    assert_eq!(integers(&mut of_workers[0], &mut random, 1), [151], "it begins anew");
}

#[test]
fn workers_of_other_threads_have_functions_of_their_own() {
    let script = Script::of("function f(worker) { let n = worker * 10; return () => ++n; }");
    let unstarted = script.values("[]", ScriptedKind::Integer);
    let of_thread = |number| {
        let mut values = unstarted.clone();
        move || {
            values.start(WorkerPlace { number, count: 4 });
            integers(&mut values, &mut random(number), 3)
        }
    };
    let threads = [1, 2, 3, 4].map(|number| std::thread::spawn(of_thread(number)));
    let drawn = threads.map(|thread| thread.join().expect("no panic"));
    assert_eq!(drawn, [[11, 12, 13], [21, 22, 23], [31, 32, 33], [41, 42, 43]]);
}

#[test]
fn scripts_draw_from_the_random_stream_of_their_worker() {
    let script = Script::of(
        "function f(worker) { const from = random(10) * 1000; return () => from + random(100); }",
    );
    let draw = |worker| {
        let mut random = random(worker);
        let mut values = script.values("[]", ScriptedKind::Integer);
        (integers(&mut values, &mut random, 5), random.uniform(1000))
    };
    let mut alone = random(3);
    let from: i64 = alone.uniform(10).cast_signed() * 1000;
    let expected: Vec<i64> = (0..5).map(|_| from + alone.uniform(100).cast_signed()).collect();
    assert_eq!(draw(3), (expected, alone.uniform(1000)), "and leave it behind their draws");
    assert_eq!(draw(3), draw(3));
    assert_ne!(draw(3), draw(4));
    let script = Script::of("function f(worker) { return () => Math.floor(Math.random() * 1e9); }");
    let floors =
        |worker| integers(&mut script.values("[]", ScriptedKind::Integer), &mut random(worker), 5);
    assert_eq!((floors(3), floors(3) == floors(4)), (floors(3), false));
}

#[test]
fn texts_bytes_and_numbers_are_bytes_and_nothing_is_the_end() {
    let script = Script::of(
        "function f(worker, list) { list.push(new Uint8Array([255])); return () => list.shift(); }",
    );
    let mut values = script.values("[[<<\"text\">>, \"ä\", 42]]", ScriptedKind::Bytes);
    let mut random = random(1);
    for expected in [&b"text"[..], "ä".as_bytes(), b"42", &[255]] {
        assert_eq!(values.next(&mut random), Ok(Some(ScriptedValue::Bytes(expected.to_vec()))));
    }
    assert_eq!(values.next(&mut random), Ok(None));
    assert_eq!(script.faults.get(), None, "an end is no fault");
}

#[test]
fn the_functions_that_are_added_are_bounded_and_draw_what_they_say() {
    let script = Script::of(
        "function f(worker) { return () => {
           const inRange = Math.random() < 1 && randomExponential(5) > 0 && random(1) === 1;
           const sizes = randomText(20).length === 20 && randomBytes(1000).length === 1000;
           return inRange && sizes ? workerCount() : -1;
         }; }",
    );
    let mut values = script.values("[]", ScriptedKind::Integer);
    values.start(WorkerPlace { number: 2, count: 7 });
    assert_eq!(integers(&mut values, &mut random(2), 1), [7]);
    for (call, expected) in [
        ("random(0)", "random(max) wants a number from 1"),
        ("random(NaN)", "random(max) wants a number from 1"),
        ("randomText(-1)", "a size is 0 to 67108864 bytes"),
        ("randomBytes(67108865)", "a size is 0 to 67108864 bytes"),
    ] {
        let script = Script::of(&format!("function f(worker) {{ return () => {call}; }}"));
        assert!(script.values("[]", ScriptedKind::Bytes).next(&mut random(1)).is_err());
        assert!(script.fault().contains(expected), "{}", script.fault());
    }
}

/// The fault of a function with this body, when it is called for a value.
fn fault_of(body: &str, kind: ScriptedKind) -> String {
    let script = Script::of(&format!("function f(worker) {{\n return () => {{\n {body}\n }};\n}}"));
    assert!(script.values("[]", kind).next(&mut random(1)).is_err(), "{body}");
    script.fault()
}

#[test]
fn a_fault_has_the_line_and_the_remedy() {
    for (body, expected) in [
        ("\n worker.foo();", ":4:9: TypeError: not a function"),
        ("throw new Error(\"no more\");", ":3:"),
        ("throw new Error(\"no more\");", ": Error: no more"),
        ("return nothing;", "ReferenceError: "),
        ("nothing = 1;", "ReferenceError: "),
        ("for (;;) {}", ": the call was cut after about 10000000 loops and calls"),
        ("try { for (;;) {} } catch (e) { return 1; }", ": the call was cut after"),
        ("const l = []; for (;;) { l.push(new Uint8Array(1 << 20)); }", "out of memory (256 MiB"),
        (
            "const g = () => 1 + g(); return g();",
            "functions call each other too deeply, use a loop",
        ),
        (
            "return {};",
            ": the function of f gave an object, where a text, bytes or an integer is wanted",
        ),
        ("return 0.5;", "gave the number 0.5, where"),
        ("return true;", "gave a value of the type bool, where"),
    ] {
        let fault = fault_of(body, ScriptedKind::Bytes);
        assert!(fault.contains(expected), "{body}: {fault}");
    }
    let fault = fault_of("return \"text\";", ScriptedKind::Integer);
    assert!(fault.contains("gave a text, where an integer is wanted"), "{fault}");
}

#[test]
fn built_in_functions_that_go_through_a_long_list_are_cut_too() {
    let fault = fault_of("return [].indexOf.call({length: 9e15}, 1);", ScriptedKind::Bytes);
    assert!(fault.contains("the call was cut"), "{fault}");
}

#[test]
fn the_first_fault_counts() {
    let script =
        Script::of("function f(worker) { return () => { throw new Error(`worker ${worker}`); }; }");
    let unstarted = script.values("[]", ScriptedKind::Bytes);
    for number in [4, 2] {
        let mut values = unstarted.clone();
        values.start(WorkerPlace { number, count: 4 });
        assert!(values.next(&mut random(1)).is_err());
    }
    assert!(script.fault().ends_with("worker 4"), "{}", script.fault());
}

#[test]
fn scripts_have_no_clock_and_share_nothing() {
    for expression in [
        "Date.now()",
        "new WeakRef({})",
        "performance.now()",
        "setTimeout(() => 1, 1)",
        "require(\"fs\")",
        "std.open(\"a\")",
        "globalThis.shared = 1",
        "(Array.prototype.shared = 1)",
        "(Math.shared = 1)",
    ] {
        let fault = fault_of(&format!("return {expression};"), ScriptedKind::Bytes);
        assert!(fault.contains("Error: "), "{expression}: {fault}");
    }
}

#[test]
fn a_script_that_is_not_there_or_lacks_its_function_is_told() {
    let script =
        Script::of("function f(worker) { return () => 1; }\nconst g = (worker, x) => () => x;");
    let load = |text: &str, is_module: bool| {
        let term = term(text);
        let reference = match is_module {
            true => ScriptReference::of_module(&term),
            false => ScriptReference::of_script(&term),
        };
        let mut values = ScriptedValues::new(reference.expect("a reference"), ScriptedKind::Bytes);
        values.load(&mut script.scripts(), "{uniform_int, N}").map_err(|error| error.to_string())
    };
    assert_eq!(load("{function, a, g, [5]}.", true), Ok(()), "a module is a file");
    for (text, is_module, expected) in [
        ("{script, \"b.js\", f, []}.", false, "b.js cannot be read: No such file"),
        (
            "{function, b, f, []}.",
            true,
            "b:f is Erlang code, which is not run: write the function f in",
        ),
        (
            "{function, b, f, []}.",
            true,
            "b.js, or use a built-in generator such as {uniform_int, N}",
        ),
        ("{script, \"a.js\", h, []}.", false, "TypeError: there is no function h"),
    ] {
        let error = load(text, is_module).expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
    for wrong in [
        "{script, \"\", f, []}.",
        "{script, \"a.js\", 'f()', []}.",
        "{script, \"a.js\", f, 5}.",
        "{script, \"a.js\", f, [<<255>>]}.",
        "{script, \"a.js\", f, [9007199254740993]}.",
    ] {
        assert!(ScriptReference::of_script(&term(wrong)).is_none(), "{wrong}");
    }
}

#[test]
fn a_script_that_is_none_or_makes_no_function_is_told_before_the_run() {
    for (text, expected) in [
        ("function f(worker) {\n  let x = ;\n}", ":2:11: SyntaxError: "),
        ("function f(worker) { return 5; }", "f gave a value of the type int: it is called once"),
        ("function f(worker) {\n  return worker.foo();\n}", ":2:"),
        ("for (;;) {}", "the call was cut"),
    ] {
        let script = Script::of(text);
        let error = script.try_values("[]", ScriptedKind::Bytes).expect_err(text);
        let told = script.text_of(&error);
        assert!(told.contains(expected), "{text}: {told}");
    }
}

#[test]
fn a_session_gives_operations_with_their_keys_values_and_pauses() {
    let script = Script::of(
        "function f(worker) { let n = 0; return (wasSuccess) => {
           n++;
           switch (n) {
             case 1: return \"login\";
             case 2: return {operation: \"get\", key: `cart-${worker}`, pauseMs: 1.5};
             case 3: return {operation: wasSuccess ? \"put\" : \"retry\", key: 7, value: 8};
           }
         }; }",
    );
    let mut session = script.session();
    session.start(WorkerPlace { number: 3, count: 3 });
    let mut random = random(3);
    let step = |operation: &str| SessionStep {
        operation: operation.to_owned(),
        key: None,
        value: None,
        pause: Duration::ZERO,
    };
    assert_eq!(session.next(&mut random, true), Ok(Some(step("login"))));
    let key = Some(SessionValue::Bytes("cart-3".into()));
    let pause = Duration::from_micros(1500);
    assert_eq!(
        session.next(&mut random, true),
        Ok(Some(SessionStep { key, pause, ..step("get") }))
    );
    let (key, value) = (Some(SessionValue::Bytes("7".into())), Some(SessionValue::Integer(8)));
    assert_eq!(
        session.next(&mut random, false),
        Ok(Some(SessionStep { key, value, ..step("retry") }))
    );
    assert_eq!(session.next(&mut random, true), Ok(None));
    assert_eq!(script.faults.get(), None);
}

#[test]
fn a_step_that_is_none_is_told() {
    for (step, expected) in [
        ("5", "gave an integer, where the name of an operation is wanted"),
        ("[\"get\"]", "where the name of an operation is wanted"),
        ("{key: 1}", "gave a step without the name of an operation"),
        ("{operation: 5}", "gave a step without the name of an operation"),
        ("{operation: \"get\", kye: 1}", "field kye: there are operation, key, value, pauseMs"),
        ("{operation: \"get\", value: \"x\"}", "as value gave a text, where an integer is wanted"),
        ("{operation: \"get\", pauseMs: -1}", "wants a pause of -1 ms"),
        (
            "{operation: \"get\", pauseMs: \"1\"}",
            "as pauseMs gave a text, where a number is wanted",
        ),
    ] {
        let script = Script::of(&format!("function f(worker) {{ return (ok) => ({step}); }}"));
        assert!(script.session().next(&mut random(1), true).is_err(), "{step}");
        assert!(script.fault().contains(expected), "{step}: {}", script.fault());
    }
}
