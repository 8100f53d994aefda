//! Phases as terms, the form in which nodes send them to each other.

use super::{Phase, PhaseKind, phases};
use crate::fault::JobFault;
use crate::map::MapFunction;
use crate::reduce::ReduceFunction;
use crate::script::{Script, ScriptSource};
use crate::value::json::no_argument;
use bytes::Bytes;
use quoit_model::etf::Term;

const fn atom(name: &'static str) -> Term {
    Term::Atom(Bytes::from_static(name.as_bytes()))
}

impl Phase {
    /// Returns the phase as a term in Erlang's notation of jobs, which [`Phase::from_term`] parses.
    #[must_use]
    pub fn to_term(&self) -> Term {
        let any = |name: &Option<Bytes>| name.clone().map_or_else(|| atom("_"), Term::Binary);
        let (kind, first, second) = match &self.kind {
            PhaseKind::Map(MapFunction::Script(script)) => {
                (atom("map"), script_term(script), script.argument.clone())
            }
            PhaseKind::Reduce(ReduceFunction::Script { script, .. }) => {
                (atom("reduce"), script_term(script), script.argument.clone())
            }
            PhaseKind::Map(function) => {
                let argument = match function {
                    MapFunction::ObjectValue(missing) | MapFunction::ObjectValueList(missing) => {
                        missing.to_argument()
                    }
                    _ => no_argument(),
                };
                (atom("map"), self.named(), argument)
            }
            PhaseKind::Reduce(_) => (atom("reduce"), self.named(), no_argument()),
            PhaseKind::Link { bucket, tag } => (atom("link"), any(bucket), any(tag)),
        };
        let keep = atom(if self.keep { "true" } else { "false" });
        Term::Tuple(vec![kind, first, second, keep])
    }

    /// Parses a phase; `place` is its index among the phases of its job.
    ///
    /// # Errors
    ///
    /// The term is not a valid phase, or it names a function that this server does not have.
    pub fn from_term(place: usize, term: &Term) -> Result<Self, JobFault> {
        phases::from_term(place, term)
    }

    /// `{modfun, riak_kv_mapreduce, Function}`.
    fn named(&self) -> Term {
        let function = Term::Atom(Bytes::from_static(self.describe().as_bytes()));
        Term::Tuple(vec![atom("modfun"), atom("riak_kv_mapreduce"), function])
    }
}

fn script_term(script: &Script) -> Term {
    let text = |text: &str| Term::Binary(Bytes::copy_from_slice(text.as_bytes()));
    let (tag, source) = match &script.source {
        ScriptSource::Named(name) => (atom("jsfun"), text(name)),
        ScriptSource::Text(source) => (atom("jsanon"), text(source)),
        ScriptSource::Stored(input) => {
            let name = vec![input.bucket_term(), Term::Binary(input.key.clone())];
            (atom("jsanon"), Term::Tuple(name))
        }
    };
    Term::Tuple(vec![tag, source])
}
