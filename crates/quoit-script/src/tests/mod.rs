mod bounds;
mod shares;

use super::*;
use crate::shares::RUNTIME_BYTES;
use crate::worker::ThrownError;
use quoit_mapreduce::{BucketName, FoundObject, Input, ScriptCall, term_from_json};
use quoit_model::object::{Object, Sibling};
use std::time::{Duration, Instant};

fn limits() -> ScriptLimits {
    ScriptLimits {
        call_time_max: Duration::from_millis(300),
        job_time_max: Duration::from_millis(700),
        memory_bytes_max: 8 << 20,
        jobs_memory_bytes_max: 12 << 20,
        output_bytes_max: 64 << 10,
    }
}

fn job(number: u8) -> Bytes {
    vec![number].into()
}

fn open(text: ScriptText, argument: &str) -> Result<Box<dyn ScriptSession>, ScriptFault> {
    open_within(limits(), text, argument)
}

fn open_within(
    limits: ScriptLimits,
    text: ScriptText,
    argument: &str,
) -> Result<Box<dyn ScriptSession>, ScriptFault> {
    let argument = term_from_json(&argument.parse::<serde_json::Value>().expect("JSON"));
    QuickJs::new(limits).open(&job(1), vec![(3, text, argument)])
}

fn source(text: &str) -> ScriptText {
    ScriptText::Source(text.to_owned())
}

fn reduce(values: &str, text: ScriptText, argument: &str) -> Result<String, ScriptFault> {
    let mut session = open(text, argument)?;
    let lists = session.call(3, ScriptCall::Reduce(Bytes::copy_from_slice(values.as_bytes())))?;
    Ok(String::from_utf8(lists[0].to_vec()).expect("text"))
}

fn input() -> Input {
    Input::new(BucketName::untyped("b"), "k".into())
}

fn object(value: &'static str) -> FoundObject {
    let sibling = Sibling { value: value.into(), ..Sibling::default() };
    let object = Object { siblings: [sibling].into_iter().collect(), ..Object::default() };
    FoundObject { input: input(), object }
}

fn map(value: &'static str, text: ScriptText, argument: &str) -> Result<String, ScriptFault> {
    map_in(open(text, argument)?, value)
}

fn map_in(mut session: Box<dyn ScriptSession>, value: &'static str) -> Result<String, ScriptFault> {
    let lists = session.call(3, ScriptCall::Map(vec![Ok(object(value))]))?;
    Ok(String::from_utf8(lists[0].to_vec()).expect("text"))
}

fn named(name: &str) -> ScriptText {
    ScriptText::Named(name.to_owned())
}

#[test]
fn built_in_functions_do_what_their_names_say() {
    for (name, values, argument, expected) in [
        ("Riak.reduceSum", "[1,2,3]", "null", "[6]"),
        ("Riak.reduceSum", "[]", "null", "[0]"),
        ("Riak.reduceSum", r#"[1,{"not_found":{"bucket":"b"}}]"#, "null", "[1]"),
        ("Riak.reduceMin", "[3,1,2]", "null", "[1]"),
        ("Riak.reduceMax", "[3,1,2]", "null", "[3]"),
        ("Riak.reduceMax", "[]", "null", "[]"),
        ("Riak.reduceSort", r#"["b","a"]"#, "null", r#"["a","b"]"#),
        ("Riak.reduceSort", "[1,2]", r#""function(a, b) { return b - a; }""#, "[2,1]"),
        ("Riak.reduceNumericSort", "[10,9]", "null", "[9,10]"),
        ("Riak.reduceLimit", "[1,2,3]", "2", "[1,2]"),
        ("Riak.reduceSlice", "[1,2,3]", "[1,2]", "[2]"),
        ("Riak.filterNotFound", r#"[{"not_found":{}},1]"#, "null", "[1]"),
    ] {
        assert_eq!(reduce(values, named(name), argument).as_deref(), Ok(expected), "{name}");
    }
    assert_eq!(map("x", named("Riak.mapValues"), "null").as_deref(), Ok(r#"["x"]"#));
    assert_eq!(
        map(r#"{"a":1}"#, named("Riak.mapValuesJson"), "null").as_deref(),
        Ok(r#"[{"a":1}]"#)
    );
    let fields = |argument| map(r#"{"a":1,"b":2}"#, named("Riak.mapByFields"), argument);
    assert_eq!(fields(r#"{"a":1}"#).as_deref(), Ok(r#"[{"a":1,"b":2}]"#));
    assert_eq!(fields(r#"{"a":2}"#).as_deref(), Ok("[]"));
}

#[test]
fn a_map_function_gets_the_object_its_key_data_and_the_argument() {
    let text = "function(v, data, arg) { return [v.bucket, v.key, v.values[0].data, data, arg]; }";
    let mut found = object("x");
    found.input.key_data = Some(Term::Integer(5));
    let mut session = open(source(text), "{\"a\":1}").expect("it compiles");
    let missing = Err(input());
    let lists = session.call(3, ScriptCall::Map(vec![Ok(found)])).expect("it runs");
    assert_eq!(lists, [Bytes::from(r#"["b","k","x",5,{"a":1}]"#)]);
    let text = "function(v, data) { return [v.not_found.key, data === undefined]; }";
    let mut session = open(source(text), "null").expect("it compiles");
    let lists = session.call(3, ScriptCall::Map(vec![missing])).expect("it runs");
    assert_eq!(lists, [Bytes::from(r#"["k",true]"#)]);
}

#[test]
fn what_does_not_compile_is_refused_at_once() {
    for bad in
        [source("function("), source("1 + 1"), named("Riak.none"), named("eval"), source("\0")]
    {
        let fault = open(bad.clone(), "null").map(drop).expect_err("no function");
        assert_eq!(fault.phase, 3, "{bad:?}");
        assert!(!fault.message.is_empty());
    }
    assert!(open(named("Riak.x;while(1);"), "null").is_err());
}

#[test]
fn bytes_that_are_not_text_are_an_error_of_their_phase() {
    let bytes = || Term::Binary(Bytes::from_static(b"\xff"));
    let text = || source("function(v, data, arg) { return [data]; }");
    let opened = QuickJs::new(limits()).open(&job(1), vec![(3, text(), bytes())]);
    assert_eq!(opened.map(drop).expect_err("an argument that is not text").phase, 3);
    let mut session = open(text(), "null").expect("it compiles");
    let mut found = object("x");
    found.input.key_data = Some(bytes());
    let called = session.call(3, ScriptCall::Map(vec![Ok(found)]));
    assert_eq!(called.expect_err("key data that is not text").phase, 3);
}

#[test]
fn exceptions_are_told_with_the_input_that_they_are_about() {
    let fault = map("x", source("function(v) { throw new TypeError('no'); }"), "null")
        .expect_err("it throws");
    assert_eq!((fault.message.as_str(), fault.phase), ("TypeError: no", 3));
    assert_eq!(fault.input, "{<<\"b\">>,<<\"k\">>}");
    let fault = map("no JSON", named("Riak.mapValuesJson"), "null").expect_err("it throws");
    assert!(fault.message.starts_with("SyntaxError"), "{fault}");
    let fault = map("x", source("function() { throw 'text'; }"), "null").expect_err("it throws");
    assert_eq!(fault.message, "thrown: text");
    let fault = map("x", source("function() { return 1; }"), "null").expect_err("no list");
    assert!(fault.message.contains("no list"), "{fault}");
    let fault = map("x", source("function() { return undefined; }"), "null").expect_err("no list");
    assert!(fault.message.contains("no list"), "{fault}");
}

fn ended_in_time(text: &str) -> ScriptFault {
    let begun = Instant::now();
    let fault = map("x", source(text), "null").expect_err("it ends");
    assert!(begun.elapsed() < Duration::from_secs(20), "{text}");
    fault
}

#[test]
fn endless_loops_end_within_the_time_of_a_call() {
    for text in [
        "function() { while (true) {} }",
        "function() { for (;;) { try { while (true) {} } catch (e) {} finally { } } }",
        "function() { var o = {toJSON: function() { while (true) {} }}; return [o]; }",
        "function() { return [/^(a+)+$/.test('a'.repeat(40) + 'b')]; }",
    ] {
        let fault = ended_in_time(text);
        assert!(fault.message.contains("mapreduce.javascript.call_timeout"), "{text}: {fault}");
    }
}

#[test]
fn calls_of_a_job_have_a_time_together() {
    let text =
        "function() { var until = Date.now() + 200; while (Date.now() < until) {} return []; }";
    let mut session = open(source(text), "null").expect("it compiles");
    let objects = std::iter::repeat_with(|| object("x")).take(10).map(Ok).collect();
    let fault = session.call(3, ScriptCall::Map(objects)).expect_err("too long");
    assert!(fault.message.contains("mapreduce.javascript.job_timeout"), "{fault}");
}

#[test]
fn memory_bombs_end_at_the_limit_of_memory() {
    // Long enough that no time limit is reached first on a slow machine.
    let (call_time_max, job_time_max) = (Duration::from_secs(60), Duration::from_secs(60));
    let limits = ScriptLimits { call_time_max, job_time_max, ..limits() };
    for text in [
        "function() { var s = 'x'; while (true) { s += s; } }",
        "function() { var a = []; while (true) { a.push(new Array(1000)); } }",
        "function() { var all = []; while (true) { try { all.push('x'.repeat(1 << 20) + all.length); } \
         catch (e) { throw e; } } }",
        "function() { return [new ArrayBuffer(1 << 30)]; }",
    ] {
        let fault = open_within(limits, source(text), "null")
            .and_then(|session| map_in(session, "x"))
            .expect_err("it ends");
        let is_told = ["memory", "too long", "invalid", "limit", "length"]
            .iter()
            .any(|word| fault.message.contains(word));
        assert!(is_told, "{text}: {fault}");
    }
}

fn null() -> Term {
    term_from_json(&serde_json::Value::Null)
}

/// A session of a job whose function has created a text of this many mebibytes and keeps it.
fn holding(
    engine: &QuickJs,
    number: u8,
    mebibytes: usize,
) -> Result<Box<dyn ScriptSession>, ScriptFault> {
    let text = format!("function() {{ kept = 'x'.repeat({mebibytes} << 20); return []; }}");
    let mut session = engine.open(&job(number), vec![(3, source(&text), null())])?;
    session.call(3, ScriptCall::Reduce("[]".into()))?;
    Ok(session)
}

#[test]
fn the_sessions_of_a_job_have_one_memory() {
    let engine = QuickJs::new(limits());
    let first = holding(&engine, 1, 5).expect("there is room");
    let fault = holding(&engine, 1, 5).err().expect("there is no more room");
    assert!(fault.message.contains("out of memory"), "{fault}");
    assert!(fault.message.contains("mapreduce.javascript.maximum_memory is 8388608"), "{fault}");
    drop(first);
    wait_for_memory(&engine);
    holding(&engine, 1, 5).expect("there is room again");
}

#[test]
fn an_error_without_memory_for_its_words_is_one_of_memory() {
    for message in ["", "Invalid error message"] {
        for name in ["InternalError", ""] {
            assert_eq!(ThrownError { name, message }.text(), "InternalError: out of memory");
        }
        assert_eq!(ThrownError { name: "Error", message }.text(), format!("Error: {message}"));
    }
    let overflow = ThrownError { name: "InternalError", message: "stack overflow" };
    assert_eq!(overflow.text(), "InternalError: stack overflow");
}

#[test]
fn a_runtime_fits_into_what_is_reserved_for_it() {
    let engine = QuickJs::new(limits());
    let _session = engine.open(&job(1), vec![(3, named("Riak.mapValues"), null())]).expect("room");
    assert!(engine.shares.used_bytes() <= RUNTIME_BYTES, "{}", engine.shares.used_bytes());
}

#[test]
fn no_runtime_is_made_without_memory_for_it() {
    let engine = QuickJs::new(limits());
    let _held: Vec<_> = (1..=2).map(|job| holding(&engine, job, 5).expect("room")).collect();
    let open = |number| engine.open(&job(number), vec![(3, source("function() {}"), null())]);
    let more: Vec<_> = (3..=9).map(open).collect();
    let fault = more.into_iter().find_map(Result::err);
    let message = fault.expect("there is no room for all").message;
    assert!(message.contains("no runtime"), "{message}");
    assert!(message.contains("mapreduce.javascript.jobs.maximum_memory"), "{message}");
}

#[test]
fn outputs_count_as_memory_until_the_next_call() {
    let engine = QuickJs::new(ScriptLimits { output_bytes_max: 8 << 20, ..limits() });
    // Short texts with many values, each of which takes memory when it is parsed.
    let text = "function(values) { return new Array(values[0]).fill(0); }";
    let mut session = engine.open(&job(1), vec![(3, source(text), null())]).expect("it compiles");
    for _ in 0..5 {
        session.call(3, ScriptCall::Reduce("[40000]".into())).expect("there is room for one");
    }
    let fault = session.call(3, ScriptCall::Reduce("[100000]".into())).expect_err("too many");
    assert!(fault.message.contains("mapreduce.javascript.maximum_memory"), "{fault}");
}

#[test]
fn all_jobs_have_one_memory_together() {
    let engine = QuickJs::new(limits());
    let held: Vec<_> = (1..=2).map(|job| holding(&engine, job, 5).expect("room")).collect();
    let fault = holding(&engine, 3, 5).err().expect("there is no more room");
    assert!(fault.message.contains("mapreduce.javascript.jobs.maximum_memory"), "{fault}");
    drop(held);
    wait_for_memory(&engine);
    holding(&engine, 3, 5).expect("there is room again");
}

/// Waits until no session holds memory: the threads of sessions end some time after the sessions.
fn wait_for_memory(engine: &QuickJs) {
    let begun = Instant::now();
    while engine.shares.used_bytes() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is given back");
        std::thread::yield_now();
    }
}

#[test]
fn calls_of_several_sessions_of_a_job_have_a_time_together() {
    let engine = QuickJs::new(limits());
    let text =
        "function() { var until = Date.now() + 250; while (Date.now() < until) {} return []; }";
    let call = || {
        let mut session = engine.open(&job(1), vec![(3, source(text), null())])?;
        session.call(3, ScriptCall::Reduce("[]".into())).map(|_| session)
    };
    let _sessions = [call().expect("there is time"), call().expect("there is time")];
    let fault = call().err().expect("there is no more time");
    assert!(fault.message.contains("mapreduce.javascript.job_timeout"), "{fault}");
}

#[test]
fn deep_recursion_ends_at_the_limit_of_the_stack() {
    for text in [
        "function f() { return f() + 1; }",
        "function() { var deep = []; for (var i = 0; i < 100000; i++) { deep = [deep]; } return deep; }",
    ] {
        let fault = ended_in_time(text);
        assert!(!fault.message.is_empty(), "{text}");
    }
}

#[test]
fn huge_outputs_are_refused() {
    let fault = ended_in_time("function() { return ['x'.repeat(100000)]; }");
    assert!(fault.message.contains("mapreduce.javascript.maximum_output"), "{fault}");
    let text = "function() { return ['x'.repeat(10000)]; }";
    let mut session = open(source(text), "null").expect("it compiles");
    let objects = std::iter::repeat_with(|| object("x")).take(10).map(Ok).collect();
    let fault = session.call(3, ScriptCall::Map(objects)).expect_err("all together");
    assert!(fault.message.contains("mapreduce.javascript.maximum_output"), "{fault}");
}

#[test]
fn nothing_of_the_machine_is_at_hand() {
    let text = "function() { return ['require', 'process', 'std', 'os', 'print', 'load', 'fetch', \
                'setTimeout', 'XMLHttpRequest', 'Deno', 'import'].filter(function(name) { \
                return (0, eval)('typeof ' + (name === 'import' ? 'undefined' : name)) !== \
                'undefined'; }); }";
    assert_eq!(map("x", source(text), "null").as_deref(), Ok("[]"));
}

#[test]
fn changed_prototypes_change_nothing_beyond_the_job() {
    let text = "function(v) { Array.prototype.toJSON = function() { return {}; }; \
                Object.prototype.values = 1; JSON.parse = null; Riak.mapValues = null; return [1]; }";
    let lists = map("x", source(text), "null").expect("it runs");
    assert_eq!(lists, "{}", "only its own outputs are changed; the job refuses what is no list");
    assert_eq!(map("x", named("Riak.mapValues"), "null").as_deref(), Ok(r#"["x"]"#));
}

#[test]
fn a_session_goes_on_after_its_limits_were_kept_and_ends_with_its_job() {
    let text = "function(v) { while (v.values[0].data === 'loop') {} return [1]; }";
    let mut session = open(source(text), "null").expect("it compiles");
    for _ in 0..3 {
        let lists = session.call(3, ScriptCall::Map(vec![Ok(object("x"))])).expect("it runs");
        assert_eq!(lists, [Bytes::from("[1]")]);
    }
    assert!(session.call(3, ScriptCall::Map(vec![Ok(object("loop"))])).is_err());
    assert!(session.call(4, ScriptCall::Reduce("[]".into())).is_err(), "no such phase");
}
