use super::*;
use crate::JobFault;
use crate::map::NotFoundPolicy;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use proptest::prelude::*;
use quoit_model::etf::Term;
use serde_json::{Value, json};
use std::io::Write;

fn job(document: Value) -> Result<Job, JobFault> {
    Job::from_json(document.to_string().as_bytes())
}

fn inputs(inputs: Value) -> Result<Inputs, JobFault> {
    job(json!({"inputs": inputs, "query": []})).map(|job| job.inputs)
}

fn phases(query: Value) -> Result<Vec<Phase>, JobFault> {
    job(json!({"inputs": "b", "query": query})).map(|job| job.phases)
}

/// The bucket TYPE/BUCKET.
fn name(path: &'static str) -> BucketName {
    let (bucket_type, bucket) = path.split_once('/').expect("a type and a bucket");
    BucketName { bucket_type: bucket_type.into(), bucket: bucket.into() }
}

#[test]
fn inputs_have_the_forms_that_clients_send() {
    assert_eq!(inputs(json!("b")), Ok(Inputs::Bucket(name("default/b"))));
    assert_eq!(inputs(json!(["t", "b"])), Ok(Inputs::Bucket(name("t/b"))));
    let Ok(Inputs::Keys(keys)) = inputs(json!([["b", "k"], ["b", "k", 1], ["b", "k", null, "t"]]))
    else {
        panic!("keys")
    };
    assert_eq!(keys[1].key_data, Some(Term::Integer(1)));
    assert_eq!(keys[2].bucket_type, "t");
    let index =
        |terms| Ok(Inputs::Index { bucket: name("default/b"), field: "f_bin".into(), terms });
    let one = inputs(json!({"bucket": "b", "index": "f_bin", "key": "x"}));
    assert_eq!(one, index(IndexTerms::One("x".into())));
    let range = inputs(json!({"bucket": "b", "index": "f_bin", "start": 1, "end": "5"}));
    assert_eq!(range, index(IndexTerms::Range("1".into(), "5".into())));
    let filtered = inputs(json!({"bucket": ["t", "b"], "key_filters": [["eq", "x"]]}));
    assert!(matches!(filtered, Ok(Inputs::Filtered(bucket, _)) if bucket == name("t/b")));
    let generated = inputs(json!({"module": "quoit", "function": "keys_with_prefix",
        "arg": {"bucket": "b", "prefix": "p"}}));
    let expected = Generator::KeysWithPrefix(name("default/b"), "p".into());
    assert_eq!(generated, Ok(Inputs::Generated(expected)));
}

#[test]
fn what_is_no_input_is_shown_with_the_forms_there_are() {
    assert_eq!(inputs(json!([])), Err(JobFault::Inputs("No inputs were given.".into())));
    for bad in
        [json!(1), json!({"bucket": "b"}), json!({"bucket": "b", "key_filters": []}), json!("")]
    {
        let fault = inputs(bad).expect_err("no inputs").http_text();
        let begin = "An error occurred parsing the \"inputs\" field.\n\
                     Unrecognized format of \"inputs\" field:";
        assert!(fault.starts_with(begin), "{fault}");
    }
    assert!(inputs(json!([["b", "k"], "x"])).is_err());
    assert!(inputs(json!([["b", 1]])).is_err());
    for search in [
        json!({"bucket": "b", "query": "q"}),
        json!({"index": "i", "query": "q"}),
        json!({"module": "yokozuna", "function": "mapred_search", "arg": ["i", "q"]}),
    ] {
        let fault = inputs(search).expect_err("search");
        assert!(fault.to_string().contains("Search"), "{fault}");
    }
    let unknown = inputs(json!({"module": "m", "function": "f", "arg": 1})).expect_err("unknown");
    assert!(unknown.to_string().contains("m:f"), "{unknown}");
}

fn map_of(more: Value) -> Value {
    let mut spec = json!({"language": "erlang", "module": "riak_kv_mapreduce",
        "function": "map_object_value"});
    for (name, value) in more.as_object().expect("an object") {
        spec[name] = value.clone();
    }
    json!([{"map": spec}])
}

#[test]
fn the_last_phase_is_kept_unless_it_says_otherwise() {
    let made = phases(json!([{"link": {}}, {"link": {"tag": "t", "bucket": "_"}}])).expect("valid");
    assert!(!made[0].keep && made[1].keep);
    assert_eq!(made[1].kind, PhaseKind::Link { bucket: None, tag: Some("t".into()) });
    assert!(!phases(json!([{"link": {"keep": false}}])).expect("valid")[0].keep);
    let fault = phases(json!([{"link": {"keep": 1}}])).expect_err("no flag").http_text();
    assert!(fault.contains("The \"keep\" field was not a boolean value in:"), "{fault}");
}

#[test]
fn functions_are_known_by_their_names_in_riak() {
    let made = phases(map_of(json!({"arg": "filter_notfound"}))).expect("valid");
    let expected = PhaseKind::Map(MapFunction::ObjectValue(NotFoundPolicy::Nothing));
    assert_eq!(made[0].kind, expected);
    let fault = phases(map_of(json!({"function": "f"}))).expect_err("unknown");
    assert_eq!(fault.document().expect("a phase")["phase"], 0);
    let fault = phases(map_of(json!({"function": "reduce_sum"}))).expect_err("no map function");
    assert!(fault.to_string().contains("riak_kv_mapreduce:reduce_sum"), "{fault}");
}

#[test]
fn phases_without_a_function_or_language_are_refused_in_the_words_of_riak() {
    for (query, words) in [
        (json!([{"map": {}}]), "No \"language\" was specified for the phase:"),
        (json!([{"map": {"language": "cobol"}}]), "Unknown language cobol in phase:"),
        (json!([{"map": {"language": "erlang"}}]), "No function specified in Erlang phase:"),
        (json!([{"filter": {}}]), "Unrecognized format of query phase:"),
        (json!([{"map": {}, "reduce": {}}]), "Unrecognized format of query phase:"),
        (json!([1]), "Unrecognized format of query phase:"),
        (json!({}), "The value of the \"query\" field was not a list:"),
    ] {
        let text = phases(query).expect_err("no phases").http_text();
        assert!(text.starts_with("An error occurred parsing the \"query\" field.\n"), "{text}");
        assert!(text.contains(words), "{text}");
    }
    let source = phases(json!([{"map": {"language": "erlang", "source": "fun() -> ok end."}}]));
    assert!(source.expect_err("Erlang").printed().starts_with("Erlang sources are not run"));
}

#[test]
fn scripts_have_a_name_a_source_or_a_place_and_reduce_in_batches() {
    let script = |spec: Value| {
        let mut spec = spec;
        spec["language"] = "javascript".into();
        let made = phases(json!([{"reduce": spec}])).expect("valid");
        match &made[0].kind {
            PhaseKind::Reduce(ReduceFunction::Script { script, batch_count }) => {
                (script.source.clone(), *batch_count)
            }
            other => panic!("{other:?}"),
        }
    };
    let named = ScriptSource::Named("Riak.reduceSum".into());
    assert_eq!(script(json!({"name": "Riak.reduceSum"})), (named, Some(20)));
    let anonymous = ScriptSource::Text("function(v) { return v; }".into());
    let whole =
        json!({"source": "function(v) { return v; }", "arg": {"reduce_phase_only_1": true}});
    assert_eq!(script(whole), (anonymous, None));
    let (stored, count) =
        script(json!({"bucket": "b", "key": "k", "arg": {"reduce_phase_batch_size": 3}}));
    assert!(matches!(stored, ScriptSource::Stored(input) if input.key == "k"));
    assert_eq!(count, Some(3));
}

#[test]
fn what_is_no_job_is_told_apart() {
    assert!(matches!(Job::from_json(b"{"), Err(JobFault::InvalidJson(_))));
    assert_eq!(Job::from_json(b"[]"), Err(JobFault::NotAnObject));
    assert_eq!(Job::from_json(b"{}"), Err(JobFault::MissingField));
    assert_eq!(Job::from_json(b"{\"inputs\":[]}"), Err(JobFault::MissingField));
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    assert!(matches!(Job::from_json(&deep), Err(JobFault::InvalidJson(_))));
}

#[test]
fn a_timeout_that_is_none_is_the_default() {
    for (timeout, expected) in [
        (json!(5), 5),
        (json!(0), 60_000),
        (json!(-1), 60_000),
        (json!("x"), 60_000),
        (json!(1.5), 1),
    ] {
        let made = job(json!({"inputs": "b", "query": [], "timeout": timeout}));
        assert_eq!(made.expect("a job").timeout_ms, expected);
    }
}

fn atom(name: &'static str) -> Term {
    Term::Atom(Bytes::from_static(name.as_bytes()))
}

fn binary(name: &'static str) -> Term {
    Term::Binary(Bytes::from_static(name.as_bytes()))
}

fn tuple(parts: &[Term]) -> Term {
    Term::Tuple(parts.to_vec())
}

fn term_document(inputs: Term, query: Vec<Term>) -> Bytes {
    let entry = |name, value| tuple(&[atom(name), value]);
    let document = Term::List(vec![entry("inputs", inputs), entry("query", Term::List(query))]);
    let mut encoded = Vec::new();
    document.encode_into(&mut encoded);
    encoded.into()
}

fn term_job(inputs: Term, query: Vec<Term>) -> Result<Job, JobFault> {
    Job::from_term(&term_document(inputs, query))
}

#[test]
fn jobs_in_terms_say_the_same() {
    let inputs = |term| term_job(term, vec![]).map(|job| job.inputs);
    assert_eq!(inputs(binary("b")), Ok(Inputs::Bucket(name("default/b"))));
    assert_eq!(inputs(tuple(&[binary("t"), binary("b")])), Ok(Inputs::Bucket(name("t/b"))));
    let key = tuple(&[binary("b"), binary("k")]);
    let typed =
        tuple(&[tuple(&[tuple(&[binary("t"), binary("b")]), binary("k")]), Term::Integer(1)]);
    let keys = Term::List(vec![key.clone(), tuple(&[key, binary("data")]), typed.clone()]);
    let Ok(Inputs::Keys(keys)) = inputs(keys) else { panic!("keys") };
    assert_eq!(keys[1].key_data, Some(binary("data")));
    assert_eq!((&keys[2].bucket_type[..], keys[2].to_term()), (&b"t"[..], typed));
    let index =
        tuple(&[atom("index"), binary("b"), binary("n_int"), Term::Integer(1), Term::Integer(5)]);
    let terms = IndexTerms::Range("1".into(), "5".into());
    let expected = Inputs::Index { bucket: name("default/b"), field: "n_int".into(), terms };
    assert_eq!(inputs(index), Ok(expected));
    let large = Term::BigInteger {
        negative: true,
        magnitude: vec![0; 17].into_iter().chain([1]).collect(),
    };
    let index = tuple(&[atom("index"), binary("b"), binary("n_int"), large]);
    let Ok(Inputs::Index { terms: IndexTerms::One(term), .. }) = inputs(index) else {
        panic!("an index")
    };
    assert_eq!(term, "-87112285931760246646623899502532662132736");
    let filter = Term::List(vec![Term::List(vec![binary("eq"), binary("x")])]);
    assert!(matches!(inputs(tuple(&[binary("b"), filter])), Ok(Inputs::Filtered(..))));
    assert!(inputs(tuple(&[atom("search"), binary("i"), binary("q")])).is_err());
}

#[test]
fn phases_in_terms_name_functions_and_scripts() {
    let function = |name| tuple(&[atom("modfun"), atom("riak_kv_mapreduce"), atom(name)]);
    let map = tuple(&[atom("map"), function("map_object_value"), atom("none"), atom("false")]);
    let reduce = tuple(&[atom("reduce"), function("reduce_sum"), atom("none"), atom("true")]);
    let link = tuple(&[atom("link"), atom("_"), binary("t"), atom("false")]);
    let job = term_job(binary("b"), vec![link, map, reduce]).expect("a job");
    let kept: Vec<bool> = job.phases.iter().map(|phase| phase.keep).collect();
    assert_eq!(kept, [false, false, true]);
    assert_eq!(job.phases[2].kind, PhaseKind::Reduce(ReduceFunction::Sum));
    assert_eq!(job.phases[0].kind, PhaseKind::Link { bucket: None, tag: Some("t".into()) });
    let js = tuple(&[atom("jsfun"), binary("Riak.mapValues")]);
    let script = tuple(&[atom("map"), js, atom("none"), atom("true")]);
    let job = term_job(binary("b"), vec![script]).expect("a job");
    assert_eq!(job.scripts().count(), 1);
    let erlang = tuple(&[atom("strfun"), binary("fun() -> ok end.")]);
    let source = tuple(&[atom("map"), erlang, atom("none"), atom("true")]);
    assert!(matches!(term_job(binary("b"), vec![source]), Err(JobFault::Phase { phase: 0, .. })));
    let short = tuple(&[atom("map"), function("map_identity"), atom("true")]);
    assert!(matches!(term_job(binary("b"), vec![short]), Err(JobFault::Query(_))));
}

#[test]
fn a_term_of_few_bytes_has_few_parts_and_the_memory_of_a_job_is_known_before_it_is_read() {
    let of_zeros = |count| term_document(Term::List(vec![Term::Integer(0); count]), vec![]);
    let dense = of_zeros(100_000);
    let Err(JobFault::InvalidTerm(why)) = Job::from_term(&dense) else { panic!("too many parts") };
    assert!(why.contains("parts"), "{why}");
    let mut inflated = (dense.len() as u32 - 1).to_be_bytes().to_vec();
    inflated.splice(..0, [131, b'P']);
    let mut deflater = ZlibEncoder::new(&mut inflated, Compression::best());
    deflater.write_all(&dense[1..]).expect("a vector takes all");
    deflater.finish().expect("a vector takes all");
    let compressed = Bytes::from(inflated);
    assert!(compressed.len() < dense.len() / 50, "{}", compressed.len());
    assert!(Job::term_bytes_max(&compressed) >= Job::term_bytes_max(&dense) - 100);
    assert!(matches!(Job::from_term(&compressed), Err(JobFault::InvalidTerm(_))));
    let key = tuple(&[binary("b"), binary("k")]);
    let keys = term_document(Term::List(vec![key; 10_000]), vec![]);
    assert!(Job::from_term(&keys).is_ok(), "short keys are none too many");
    assert!(Job::term_bytes_max(&keys) >= 10_000 * 3 * size_of::<Term>());
}

#[test]
fn the_memory_of_a_job_in_json_goes_by_its_values() {
    for (values, count) in [("0,", 1), ("[0],", 2), ("{\"\":0},", 3), ("[\"b\",\"k\"],", 3)] {
        let text = format!("{{\"inputs\":[{}0]}}", values.repeat(1_000));
        let bytes = Job::json_bytes_max(text.as_bytes());
        assert!(bytes >= 1_000 * count * 2 * size_of::<Term>(), "{values}: {bytes}");
        assert!(bytes <= 1_000 * (count * 96 + 3 * values.len()), "{values}: {bytes}");
    }
}

#[test]
fn the_first_of_two_members_with_one_name_counts() {
    let job = Job::from_json(br#"{"inputs":"a","inputs":"b","query":[],"timeout":1,"timeout":2}"#);
    let job = job.expect("a job");
    assert_eq!((job.inputs, job.timeout_ms), (Inputs::Bucket(name("default/a")), 1));
}

#[test]
fn a_job_tells_the_buckets_that_it_reads() {
    let query = json!([{"map": {"language": "javascript", "bucket": "code", "key": "f"}}]);
    let made = job(json!({"inputs": [["b", "1"], ["b", "2"], ["a", "1"]], "query": query}));
    let names = [name("default/a"), name("default/b"), name("default/code")];
    assert_eq!(made.expect("a job").buckets(), names);
}

proptest! {
    #[test]
    fn any_bytes_are_a_job_or_a_fault_with_texts(bytes: Vec<u8>) {
        let faults = [Job::from_json(&bytes).err(), Job::from_term(&bytes.clone().into()).err()];
        for fault in faults.into_iter().flatten() {
                prop_assert!(!fault.printed().is_empty() && !fault.http_text().is_empty());
        }
    }
}

#[test]
fn a_phase_that_was_sent_is_the_same_phase() {
    let map = |function: &str, arg: Value| {
        json!({"map": {"language": "erlang", "module": "riak_kv_mapreduce", "function": function,
            "arg": arg}})
    };
    let reduce = |function: &str| {
        json!({"reduce": {"language": "erlang", "module": "riak_kv_mapreduce",
            "function": function}})
    };
    let only_once = json!({"reduce_phase_only_1": true, "x": [1, 2.5, null]});
    let query = json!([
        map("map_identity", json!(null)),
        map("map_object_value", json!("filter_notfound")),
        map("map_object_value", json!("include_notfound")),
        map("map_object_value_list", json!("include_keydata")),
        map("map_object_value_list", json!({"sub": ["a", 1]})),
        {"map": {"language": "javascript", "name": "Riak.mapValues", "arg": {"do_prereduce": 1}}},
        {"map": {"language": "javascript", "source": "function(o) { return []; }"}},
        {"reduce": {"language": "javascript", "bucket": ["t", "b"], "key": "k", "arg": only_once}},
        {"reduce": {"language": "javascript", "name": "Riak.reduceSum", "keep": true}},
        reduce("reduce_identity"), reduce("reduce_set_union"), reduce("reduce_sum"),
        reduce("reduce_plist_sum"), reduce("reduce_sort"), reduce("reduce_count_inputs"),
        reduce("reduce_string_to_integer"),
        {"link": {"bucket": "b"}}, {"link": {"tag": "t", "keep": true}},
    ]);
    let document = json!({"inputs": "b", "query": query}).to_string();
    let job = Job::from_json(document.as_bytes()).expect("a job");
    assert_eq!(job.phases.len(), 18);
    for phase in job.phases {
        let mut sent = Vec::new();
        phase.to_term().encode_into(&mut sent);
        let read = Term::decode(&sent.into(), &quoit_model::etf::Limits::STORED).expect("a term");
        assert_eq!(Phase::from_term(0, &read), Ok(phase));
    }
}
