//! MapReduce jobs in JSON and as external terms. They run on a few keys whose objects have their keys as
//! values.

use crate::Target;
use bytes::Bytes;
use quoit_mapreduce::{
    BucketName, Datum, Input, Inputs, Job, JobFault, PhaseFault, PhaseKind, Pipeline, PipelineStep,
    append_json,
};

pub(crate) const JSON: Target = Target { name: "mapreduce-jobs", run: run_json, seeds: json_seeds };
pub(crate) const TERMS: Target =
    Target { name: "mapreduce-terms", run: run_terms, seeds: term_seeds };

/// Most memory that a job may hold, in bytes.
const HELD_BYTES_MAX: usize = 1 << 16;
/// Most steps of a job that are run.
const STEP_COUNT_MAX: usize = 1_000;

fn run_json(input: &[u8]) {
    follow(Job::from_json(input));
}

fn run_terms(input: &[u8]) {
    follow(Job::from_term(&Bytes::copy_from_slice(input)));
}

/// Checks that a job ends or fails with a message, that its outputs can be encoded, and that it keeps to
/// its memory limit.
fn follow(job: Result<Job, JobFault>) {
    match job {
        Ok(job) => {
            let _ = (job.inputs.describe(), job.buckets());
            if let Err(fault) = run(&job) {
                assert!(fault.document().is_object());
            }
        }
        Err(fault) => assert!(!fault.printed().is_empty() && !fault.http_text().is_empty()),
    }
}

fn run(job: &Job) -> Result<(), PhaseFault> {
    let keys = ["a", "user-10", "%41", "\u{e9}"]
        .map(|key| Input::new(BucketName::untyped("b"), Bytes::from(key)));
    let mut inputs = match &job.inputs {
        Inputs::Keys(keys) => Some(keys.iter().take(100).cloned().collect()),
        Inputs::Filtered(_, filter) => {
            let accepts = |key: &Input| filter.accepts(&key.key).unwrap_or(false);
            Some(keys.into_iter().filter(accepts).collect())
        }
        _ => Some(keys.to_vec()),
    };
    let mut pipeline = Pipeline::new(job.phases.clone(), HELD_BYTES_MAX);
    for _ in 0..STEP_COUNT_MAX {
        match pipeline.next_step()? {
            PipelineStep::Done => break,
            PipelineStep::Input => match inputs.take() {
                Some(inputs) => pipeline.feed(inputs)?,
                None => pipeline.end_input(),
            },
            PipelineStep::Map { phase, inputs } => {
                let outputs = mapped(&pipeline.phases()[phase].kind, phase, inputs)?;
                pipeline.mapped(phase, outputs)?;
            }
            PipelineStep::Reduce { phase, mut values } => {
                values.truncate(1);
                pipeline.reduced(phase, values)?;
            }
        }
        for datum in pipeline.take_outputs().iter().flat_map(|outputs| &outputs.data) {
            let mut json = Vec::new();
            let _ = (append_json(&mut json, datum), datum.to_term());
        }
        assert!(pipeline.held_bytes() <= HELD_BYTES_MAX, "a job keeps more than it may");
    }
    Ok(())
}

fn mapped(kind: &PhaseKind, phase: usize, inputs: Vec<Input>) -> Result<Vec<Datum>, PhaseFault> {
    let mut outputs = Vec::new();
    for input in inputs {
        let made = match kind {
            PhaseKind::Map(function) if function.needs_object() => {
                Ok(vec![Datum::Key(Box::new(input.clone()))])
            }
            // Every other object is missing.
            PhaseKind::Map(function) if input.key.len() % 2 == 0 => {
                function.apply(input.clone(), None)
            }
            PhaseKind::Map(function) => function.apply_to_value(input.key.clone()),
            _ => Ok(vec![Datum::Key(Box::new(input.clone()))]),
        };
        let failed = |error| PhaseFault::new(phase, error, Some(&input.to_term()));
        outputs.extend(made.map_err(failed)?);
    }
    Ok(outputs)
}

fn json_seeds() -> Vec<Vec<u8>> {
    let jobs: [&[u8]; 5] = [
        br#"{"inputs":[["b","k"],["b","k",{"x":1}],["b","k",null,"t"]],"query":[{"link":{"tag":"t"}},
        {"map":{"language":"erlang","module":"riak_kv_mapreduce","function":"map_object_value",
        "arg":"filter_notfound","keep":true}},{"reduce":{"language":"erlang",
        "module":"riak_kv_mapreduce","function":"reduce_sort"}}],"timeout":1000}"#,
        br#"{"inputs":{"bucket":["t","b"],"key_filters":[["and",[["tokenize","-",2],["string_to_int"],
        ["between",1,20,true]],[["not",[["matches","^x"]]]]]]},"query":[]}"#,
        br#"{"inputs":{"bucket":"b","index":"n_int","start":1,"end":"5"},"query":[{"reduce":{
        "language":"javascript","name":"Riak.reduceSum","arg":{"reduce_phase_batch_size":2}}}]}"#,
        br#"{"inputs":["t","b"],"query":[{"map":{"language":"javascript","source":"f"}},{"map":{
        "language":"erlang","module":"riak_kv_mapreduce","function":"map_object_value_list"}}]}"#,
        br#"{"inputs":{"module":"quoit","function":"keys_with_prefix","arg":{"bucket":"b","prefix":"p"}},
        "query":[{"map":{"language":"erlang","module":"riak_kv_mapreduce","function":"map_identity"}},
        {"reduce":{"language":"erlang","module":"riak_kv_mapreduce","function":"reduce_set_union"}}]}"#,
    ];
    jobs.map(<[u8]>::to_vec).into()
}

fn term_seeds() -> Vec<Vec<u8>> {
    use quoit_model::etf::Term;
    let atom = |name: &str| Term::Atom(Bytes::copy_from_slice(name.as_bytes()));
    let binary = |name: &str| Term::Binary(Bytes::copy_from_slice(name.as_bytes()));
    let function = |kind: &str, name: &str, keep: &str| {
        let function = Term::Tuple(vec![atom("modfun"), atom("riak_kv_mapreduce"), atom(name)]);
        Term::Tuple(vec![atom(kind), function, atom("none"), atom(keep)])
    };
    let key = Term::Tuple(vec![binary("b"), binary("user-10")]);
    let inputs = [
        binary("b"),
        Term::Tuple(vec![binary("t"), binary("b")]),
        Term::List(vec![key.clone(), Term::Tuple(vec![key, Term::Integer(1)])]),
        Term::Tuple(vec![atom("index"), binary("b"), binary("f_bin"), binary("x")]),
    ];
    let query = Term::List(vec![
        function("map", "map_object_value", "false"),
        function("reduce", "reduce_count_inputs", "true"),
    ]);
    let job = |inputs: Term| {
        let entry = |name: &str, value: Term| Term::Tuple(vec![atom(name), value]);
        let document = Term::List(vec![
            entry("inputs", inputs),
            entry("query", query.clone()),
            entry("timeout", Term::Integer(1_000)),
        ]);
        let mut encoded = Vec::new();
        document.encode_into(&mut encoded);
        encoded
    };
    inputs.map(job).into()
}
