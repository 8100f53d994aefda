use super::*;
use crate::BucketName;
use crate::job::Job;
use crate::map::MapFunction;
use proptest::prelude::*;
use quoit_model::etf::Term;
use serde_json::{Value, json};

const LIMIT: usize = 1 << 20;

fn erlang(function: &str) -> Value {
    json!({"language": "erlang", "module": "riak_kv_mapreduce", "function": function})
}

fn pipeline(query: Value) -> Pipeline {
    let document = json!({"inputs": "b", "query": query}).to_string();
    Pipeline::new(Job::from_json(document.as_bytes()).expect("a job").phases, LIMIT)
}

fn keys(count: usize) -> Vec<Input> {
    let key = |number: usize| Input::new(BucketName::untyped("b"), number.to_string().into());
    (0..count).map(key).collect()
}

/// Runs the phases over keys whose objects have their keys as values. Reduce scripts return their inputs.
/// Returns the largest number of inputs in one call of a script, and the outputs by phase.
fn run(
    mut pipeline: Pipeline,
    batches: Vec<Vec<Input>>,
) -> Result<(usize, Vec<Outputs>), PhaseFault> {
    let mut batches = batches.into_iter();
    let (mut all, mut largest) = (Vec::<Outputs>::new(), 0);
    loop {
        match pipeline.next_step()? {
            PipelineStep::Input => match batches.next() {
                Some(inputs) => pipeline.feed(inputs)?,
                None => pipeline.end_input(),
            },
            PipelineStep::Map { phase, inputs } => {
                assert!(inputs.len() <= MAP_BATCH_COUNT);
                let outputs = match &pipeline.phases()[phase].kind {
                    PhaseKind::Map(function) => {
                        let values =
                            inputs.iter().map(|input| function.apply_to_value(input.key.clone()));
                        values.flat_map(|outputs| outputs.expect("a value")).collect()
                    }
                    _ => inputs.into_iter().map(|input| Datum::Key(Box::new(input))).collect(),
                };
                pipeline.mapped(phase, outputs)?;
            }
            PipelineStep::Reduce { phase, values } => {
                largest = largest.max(values.len());
                pipeline.reduced(phase, values)?;
            }
            PipelineStep::Done => break,
        }
        for Outputs { phase, data } in pipeline.take_outputs() {
            match all.iter_mut().find(|outputs| outputs.phase == phase) {
                Some(outputs) => outputs.data.extend(data),
                None => all.push(Outputs { phase, data }),
            }
        }
    }
    for Outputs { phase, data } in pipeline.take_outputs() {
        all.push(Outputs { phase, data });
    }
    assert_eq!(pipeline.held_bytes(), 0, "nothing is left");
    Ok((largest, all))
}

fn data(outputs: &[Outputs], phase: usize) -> Vec<Datum> {
    let of = outputs.iter().filter(|outputs| outputs.phase == phase);
    of.flat_map(|outputs| outputs.data.clone()).collect()
}

#[test]
fn without_phases_the_inputs_are_the_result() {
    let (_, outputs) = run(pipeline(json!([])), vec![keys(3)]).expect("it runs");
    let expected: Vec<Datum> =
        keys(3).into_iter().map(|input| Datum::Key(Box::new(input))).collect();
    assert_eq!(data(&outputs, 0), expected);
}

#[test]
fn kept_phases_put_out_what_they_pass_on() {
    let mut map = erlang("map_object_value");
    map["keep"] = true.into();
    let query = json!([{"map": map}, {"reduce": erlang("reduce_count_inputs")}]);
    let (_, outputs) = run(pipeline(query), vec![keys(2), keys(3)]).expect("it runs");
    assert_eq!(data(&outputs, 0).len(), 5);
    assert_eq!(data(&outputs, 1), [Datum::Term(Term::Integer(5))]);
}

#[test]
fn reduce_phases_run_without_any_input() {
    let query = json!([{"map": erlang("map_object_value")}, {"reduce": erlang("reduce_sum")}]);
    let (_, outputs) = run(pipeline(query), vec![]).expect("it runs");
    assert_eq!(data(&outputs, 1), [Datum::Term(Term::Integer(0))]);
    let script = json!([{"reduce": {"language": "javascript", "name": "f"}}]);
    let mut pipeline = pipeline(script);
    pipeline.end_input();
    let Ok(PipelineStep::Reduce { phase: 0, values }) = pipeline.next_step() else {
        panic!("a call")
    };
    assert!(values.is_empty());
}

#[test]
fn what_is_no_key_fails_the_phase_that_would_read_it() {
    let query = json!([{"map": erlang("map_object_value")}, {"map": erlang("map_object_value")}]);
    let fault = run(pipeline(query), vec![keys(1)]).expect_err("no key");
    assert_eq!((fault.phase, fault.input.as_str()), (1, "<<\"0\">>"));
}

#[test]
fn what_is_kept_has_a_limit() {
    let query = json!([{"reduce": erlang("reduce_sort")}]);
    let batches = (0..20).map(|_| keys(1000)).collect();
    let fault = run(pipeline(query), batches).expect_err("too much");
    assert!(fault.error.contains("mapreduce.job.maximum_memory"), "{fault}");
}

#[test]
fn what_waits_does_not_grow_with_the_inputs() {
    let query =
        json!([{"map": erlang("map_object_value")}, {"reduce": erlang("reduce_count_inputs")}]);
    let mut pipeline = pipeline(query);
    let mut highest = 0;
    for _ in 0..100 {
        pipeline.feed(keys(1000)).expect("room");
        while let PipelineStep::Map { phase, inputs } = pipeline.next_step().expect("no fault") {
            highest = highest.max(pipeline.held_bytes());
            let PhaseKind::Map(function @ MapFunction::ObjectValue(_)) =
                &pipeline.phases()[phase].kind
            else {
                panic!("a map phase")
            };
            let values: Vec<Datum> = inputs
                .iter()
                .flat_map(|input| function.apply_to_value(input.key.clone()).expect("a value"))
                .collect();
            pipeline.mapped(phase, values).expect("room");
        }
    }
    assert!(highest < 1000 * 400, "{highest} bytes");
}

proptest! {
    #[test]
    fn the_result_is_the_same_however_inputs_come(
        batches in prop::collection::vec(0..50usize, 0..20),
        batch_count in 1..30usize,
    ) {
        let total: usize = batches.iter().sum();
        let script = json!({"language": "javascript", "name": "f",
            "arg": {"reduce_phase_batch_size": batch_count}});
        let query = json!([{"link": {}}, {"map": erlang("map_object_value")}, {"reduce": script},
            {"reduce": erlang("reduce_count_inputs")}]);
        let batches = batches.into_iter().map(keys).collect();
        let (largest, outputs) = run(pipeline(query), batches).expect("it runs");
        prop_assert_eq!(data(&outputs, 3), [Datum::Term(Term::Integer(total as i128))]);
        prop_assert!(largest <= total);
    }
}
