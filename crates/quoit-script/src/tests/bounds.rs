//! Built-in functions of the language that would otherwise run forever or very long.

use super::{
    Duration, QuickJs, ScriptCall, ScriptEngine, ScriptLimits, ended_in_time, job, limits, map,
    null, source,
};

#[test]
fn lists_that_only_say_to_be_long_end_within_the_time_of_a_call() {
    let of_lists = [
        "concat.call(new Array(4294967295), 1)",
        "copyWithin.call({length: 9e15}, 1, 0)",
        "fill.call(Object.defineProperty(new Uint8Array(1), 'length', {value: 9e15}), 1)",
        "filter.call({length: 9e15}, String)",
        "flat.call([new Array(4294967295)])",
        "flatMap.call([1], function() { return new Array(4294967295); })",
        "forEach.call({length: 9e15}, String)",
        "includes.call({length: 9e15}, 1)",
        "indexOf.call({length: 9e15}, 1)",
        "join.call({length: 9e15}, '')",
        "lastIndexOf.call({length: 9e15}, 1)",
        "reduce.call({length: 9e15}, String, '')",
        "reverse.call({get length() { return 9e15; }})",
        "shift.call({length: 9e15})",
        "slice.call({length: 9e15})",
        "some.call({length: 9e15}, String)",
        "sort.call({length: 9e15})",
        "splice.call({length: 9e15}, 0, 9e15)",
        "toLocaleString.call({length: 9e15})",
        "toString.call(new Array(4294967295))",
        "unshift.call({length: 9e14}, 1)",
    ];
    let of_lists = of_lists.map(|call| format!("Array.prototype.{call}"));
    let of_iterators = [
        "new Set(Array.prototype.values.call({length: 9e15}))",
        "new Set(arguments[Symbol.iterator].call({length: 9e15}))",
        "Array.prototype.values.call({length: 9e15}).drop(1e15).next()",
    ];
    for call in of_lists.into_iter().chain(of_iterators.map(str::to_owned)) {
        let fault = ended_in_time(&format!("function() {{ return [{call}]; }}"));
        assert!(fault.message.contains("mapreduce.javascript.call_timeout"), "{call}: {fault}");
    }
}

#[test]
fn searches_that_would_compare_for_hours_are_refused() {
    for (call, words) in [
        ("'a'.repeat(1 << 20).indexOf('a'.repeat(1 << 19) + 'b')", "too long"),
        ("'a'.repeat(1 << 20).lastIndexOf('b' + 'a'.repeat(1 << 19))", "too long"),
        ("'a'.repeat(1 << 20).includes(new String('a'.repeat(1 << 19) + 'b'))", "too long"),
        ("'a'.repeat(1 << 20).replaceAll('a'.repeat(1 << 19) + 'b', '')", "too long"),
        ("'a'.repeat(1 << 20).split(new String('a'.repeat(1 << 19) + 'b'))", "too long"),
        ("('a' + '\\u0316\\u0301'.repeat(1 << 16)).normalize('NFD')", "too many marks"),
        ("('a' + '\\u0316\\u0301'.repeat(1 << 16)).localeCompare('b')", "too many marks"),
        ("JSON.stringify({}, new Array(4294967295))", "too many names"),
        ("new Proxy([], {})", "Proxy is not defined"),
    ] {
        let fault = ended_in_time(&format!("function() {{ return [{call}]; }}"));
        assert!(fault.message.contains(words), "{call}: {fault}");
    }
}

#[test]
fn an_exception_that_does_not_tell_its_name_ends_within_the_time_of_a_call() {
    let fault = ended_in_time(
        "function() { var error = new Error(); Object.defineProperty(error, 'name', \
         {get: function() { for (;;) {} }}); throw error; }",
    );
    assert!(fault.message.contains("mapreduce.javascript.call_timeout"), "{fault}");
}

/// Calls each function with a list, which QuickJS's own implementation handles, and with an array-like
/// object, which the replacement handles. Both must have the same result.
const COMPARISON: &str = r#"function() {
    function same(one, other, about) {
        var texts = [one, other].map(function (value) { return JSON.stringify(value); });
        if (texts[0] !== texts[1]) { throw new Error(about + ": " + texts.join(" and ")); }
    }
    function descending(one, other) { return other - one; }
    var calls = [["slice"], ["slice", 1], ["slice", -2], ["slice", 0, -1], ["slice", 3, 2], ["splice"],
        ["splice", 1], ["splice", 1, 1], ["splice", 0, 2, "p", "q", "r"], ["splice", -1, 5, "z"],
        ["reverse"], ["shift"], ["unshift", "u", "v"], ["unshift"], ["join"], ["join", "-"],
        ["join", undefined], ["toString"], ["copyWithin", 0, 1], ["copyWithin", 1, 0],
        ["copyWithin", -2, 0, 2], ["fill", 7], ["fill", 7, 1, -1], ["toReversed"], ["toSorted"], ["sort"],
        ["toSorted", descending], ["sort", descending], ["toSpliced", 1, 1, "n"], ["flat"],
        ["toLocaleString"]];
    var count = 0;
    [[], [1], [3, 1, 2], [5, , 4, undefined, 1, 10, 9, 4], [30, 20, 11, 20]].forEach(function (list) {
        calls.forEach(function (call) {
            var name = call[0], rest = call.slice(1);
            if (name === "toString") { return; }
            var real = list.slice(), like = {length: list.length};
            Object.keys(list).forEach(function (at) { like[at] = list[at]; });
            var made = [real, like].map(function (each) {
                var result = Array.prototype[name].apply(each, rest);
                return result === each ? "itself" : result;
            });
            same(made[0], made[1], name);
            same([real.length, Object.entries(real)], [like.length, Object.entries(like).filter(
                function (entry) { return entry[0] !== "length"; })], name);
            count++;
        });
    });
    return [count];
}"#;

#[test]
fn functions_of_lists_do_the_same_for_long_ones_and_short_ones() {
    assert_eq!(map("x", source(COMPARISON), "null").as_deref(), Ok("[150]"));
    for (call, expected) in [
        ("[1].concat(2, [3, [4]], 'x')", r#"[1,2,3,[4],"x"]"#),
        ("[[, 1].concat([, 2]).length]", "[4]"),
        ("[1, [2, [3, [4]]]].flat(Infinity)", "[1,2,3,4]"),
        ("[1, 2].flatMap(function(x) { return [x, x * 2]; })", "[1,2,2,4]"),
        ("Array.prototype.with.call({length: 2, 0: 1, 1: 2}, -1, 9)", "[1,9]"),
        ("Array.prototype.slice.call(arguments, 2)", "[null]"),
        ("[[1, 2].toString(), String([]), [[1, [2]], 3].join(';')]", r#"["1,2","","1,2;3"]"#),
        ("[...[1, 2], ...new Set([3]), ...new Map([[4, 5]]).keys()]", "[1,2,3,4]"),
        ("'a-b-c'.split('-')", r#"["a","b","c"]"#),
        ("'a1b2'.split(/\\d/)", r#"["a","b",""]"#),
        ("'a,b,c'.split(',', 2)", r#"["a","b"]"#),
        ("['abc'.split(), 'abc'.split('')]", r#"[["abc"],["a","b","c"]]"#),
        ("['aXbX'.replace('X', 'y'), 'aXbX'.replace(/X/g, 'y')]", r#"["aybX","ayby"]"#),
        ("['aXbX'.replaceAll('X', function(x) { return x + x; })]", r#"["aXXbXX"]"#),
        ("['abcabc'.indexOf('c', 3), 'abcabc'.lastIndexOf('c', 4), 'a1'.indexOf(1)]", "[5,2,1]"),
        (
            "['abcabc'.lastIndexOf('c'), 'abc'.includes('d'), 'null'.replace(null, 1)]",
            r#"[5,false,"1"]"#,
        ),
        ("['\\u00e9'.normalize('NFD').length, 'a'.localeCompare('b')]", "[2,-1]"),
        (
            "[String.raw`a\\n${1}b`, JSON.stringify({a: 1, b: 2}, ['a'])]",
            r#"["a\\n1b","{\"a\":1}"]"#,
        ),
    ] {
        let text = format!("function() {{ return {call}; }}");
        assert_eq!(map("x", source(&text), "null").as_deref(), Ok(expected), "{call}");
    }
    for call in [
        "'a'.includes(/a/)",
        "String.prototype.indexOf.call(null, 'a')",
        "'a'.replaceAll(/a/, 'b')",
        "[3, 1].sort(5)",
        "Array.prototype.slice.call(null)",
        "[1].with(5, 1)",
    ] {
        let fault = ended_in_time(&format!("function() {{ return [{call}]; }}"));
        assert!(fault.message.contains("Error"), "{call}: {fault}");
    }
}

const LONG_LIST: &str = "function() {
    var list = [], at;
    for (at = 0; at < 70000; at++) { list.push(at * 7919 % 70000); }
    var sorted = list.slice().sort(function(one, other) { return one - other; });
    for (at = 0; at < 70000; at++) { if (sorted[at] !== at) { throw new Error('at ' + at); } }
    var taken = list.splice(10, 60000);
    return [list.length, taken.length, list.reverse()[9999] === 0, taken.concat(list).length];
}";

#[test]
fn a_long_list_is_sorted_and_taken_apart() {
    let time_max = Duration::from_secs(20);
    let engine = QuickJs::new(ScriptLimits {
        call_time_max: time_max,
        job_time_max: time_max,
        memory_bytes_max: 32 << 20,
        jobs_memory_bytes_max: 32 << 20,
        ..limits()
    });
    let scripts = vec![(3, source(LONG_LIST), null())];
    let mut session = engine.open(&job(1), scripts).expect("it compiles");
    let lists = session.call(3, ScriptCall::Reduce("[]".into())).expect("it runs");
    assert_eq!(lists, ["[10000,60000,true,70000]"]);
}
