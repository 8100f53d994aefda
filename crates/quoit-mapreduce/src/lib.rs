//! MapReduce jobs as values: parsing of their documents (JSON and Erlang's external term format), key
//! filters, the built-in functions under their Riak names, and the pipeline that determines the next step.
//!
//! This crate reads no objects, clocks or sockets. `quoit-core` runs a job: it asks the [`Pipeline`] for
//! [`PipelineStep`], reads the objects that a map phase needs, and passes the outputs back to the pipeline.
//! Scripts are run by an implementation of [`ScriptEngine`] in another crate.
//!
//! ```
//! use quoit_mapreduce::{Job, Pipeline, PipelineStep};
//!
//! let document = br#"{"inputs": [["b", "k"]], "query": [{"reduce": {"language": "erlang",
//!     "module": "riak_kv_mapreduce", "function": "reduce_count_inputs"}}]}"#;
//! let job = Job::from_json(document).expect("a job");
//! let mut pipeline = Pipeline::new(job.phases.clone(), 1 << 20);
//! assert!(matches!(pipeline.next_step().expect("no phase fails"), PipelineStep::Input));
//! pipeline.end_input();
//! assert!(matches!(pipeline.next_step().expect("no phase fails"), PipelineStep::Done));
//! let outputs = pipeline.take_outputs();
//! assert_eq!(outputs[0].phase, 0);
//! ```
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

mod fault;
mod filter;
mod job;
mod map;
mod order;
mod pipeline;
mod print;
mod reduce;
mod script;
mod value;

pub use fault::{JobFault, PhaseFault};
pub use filter::{FilterFault, KeyFilter};
pub use job::{Generator, IndexTerms, Inputs, Job, Phase, PhaseKind, TIMEOUT_MS_DEFAULT};
pub use map::{LinkFilter, MapFunction, NotFoundPolicy, follow_links};
pub use pipeline::{MAP_BATCH_COUNT, Outputs, Pipeline, PipelineStep};
pub use print::print_term;
pub use reduce::{ReduceFunction, Reduction};
pub use script::{
    Script, ScriptCall, ScriptEngine, ScriptFault, ScriptKind, ScriptSession, ScriptSource,
    ScriptText,
};
pub use value::datum::Datum;
pub use value::found::FoundObject;
pub use value::input::{BucketName, Input};
pub use value::json::{NotUtf8, append_json, term_from_json};

/// Maximum nesting depth of a term or JSON document.
const DEPTH_MAX: u32 = 128;
