//! Erlang functions that are known by name, because published configurations call them.
//!
//! basho_bench calls `Module:Function(WorkerId, Arguments...)` to get a generator. Here each known function
//! is replaced by a generator of this crate. Any other function is looked up in a script, in which the user
//! provides it anew.

use super::inserter::Inserter;
use super::integer::Integers;
use super::{GeneratorError, KeyGenerator, shape_error};
use crate::names::nearest;
use crate::script::{ScriptReference, ScriptedKind, ScriptedValues};
use crate::term::Term;
use crate::valgen::ValueGenerator;

/// The use of a generator: as key or as value generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A key generator.
    Keys,
    /// A value generator.
    Values,
}

impl Role {
    /// Generators to suggest if a function does not exist.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            Self::Keys => "{int_to_bin_bigendian, {uniform_int, N}} or {to_str, Format, G}",
            Self::Values => "{exponential_bin, Min, Mean} or {keygen, G}",
        }
    }
}

/// `Module:Function` of all known functions.
const NAMES: [&str; 6] = [
    "basho_bench_keygen:new",
    "basho_bench_valgen:new",
    "basho_bench_driver_riakc_pb:mapred_valgen",
    "basho_bench_driver_riakc_pb:mapred_ordered_valgen",
    "voxer_gen1:inserter_keygen",
    "voxer_gen1:inserter_keygen2",
];

/// Maximum rate of the inserters, in keys per second.
const RATE_MAX: u64 = 1 << 40;

/// The generator that `{function, Module, Function, Arguments}` stands for.
pub(crate) fn parse_function(term: &Term, role: Role) -> Result<KeyGenerator, GeneratorError> {
    let Some([_, Term::Atom(module), Term::Atom(function), arguments]) = term.as_tuple() else {
        return Err(shape_error(term, "{function, Module, Function, [Argument, ...]}"));
    };
    let arguments = arguments.as_list().unwrap_or_default();
    let count_of = |max: u64, form: &str| {
        let [count] = arguments.as_slice() else { return Err(shape_error(term, form)) };
        let count = count.as_integer().and_then(|count| u64::try_from(count).ok());
        count.filter(|count| (1..=max).contains(count)).ok_or_else(|| shape_error(term, form))
    };
    let decimal =
        |integers| KeyGenerator::IntegerToString(Box::new(KeyGenerator::Integers(integers)));
    let name = format!("{module}:{function}");
    match name.as_str() {
        "basho_bench_keygen:new" | "basho_bench_valgen:new" => {
            let [inner] = arguments.as_slice() else {
                let form = format!("{{function, {module}, {function}, [Generator]}}");
                return Err(shape_error(term, form));
            };
            if module == "basho_bench_keygen" {
                return KeyGenerator::parse(inner);
            }
            Ok(KeyGenerator::Values(Box::new(ValueGenerator::parse(inner)?)))
        }
        "basho_bench_driver_riakc_pb:mapred_valgen" => {
            let form = format!("{{function, {module}, {function}, [Max]}}, Max at least 1");
            let count = count_of(i64::MAX.unsigned_abs(), &form)?;
            Ok(decimal(Integers::Uniform { start: 1, count }))
        }
        "basho_bench_driver_riakc_pb:mapred_ordered_valgen" => Ok(decimal(Integers::Counter(0))),
        "voxer_gen1:inserter_keygen" | "voxer_gen1:inserter_keygen2" => {
            let form = format!("{{function, {module}, {function}, [KeysPerSecond]}}");
            let rate = count_of(RATE_MAX, &form)?;
            Ok(KeyGenerator::Inserter(Inserter::new(rate, function == "inserter_keygen2")))
        }
        _ => match (nearest(&name, &NAMES), ScriptReference::of_module(term)) {
            (None, Some(reference)) => {
                let values = ScriptedValues::new(reference, ScriptedKind::Bytes);
                Ok(KeyGenerator::Script(Box::new(values)))
            }
            (nearest, _) => Err(GeneratorError::Function {
                term: Box::new(term.clone()),
                nearest,
                remedy: role.remedy(),
            }),
        },
    }
}

/// Parses `{script, "file", Function, Arguments}`, or `script_int` for a function that returns integers.
pub(crate) fn parse_script(term: &Term, name: &str) -> Result<KeyGenerator, GeneratorError> {
    let kind = if name == "script_int" { ScriptedKind::Integer } else { ScriptedKind::Bytes };
    let expected = format!(
        "{{{name}, \"file.js\", Function, [Argument, ...]}} with numbers, texts in UTF-8, lists and maps for \
         arguments"
    );
    let reference = ScriptReference::of_script(term).ok_or_else(|| shape_error(term, expected))?;
    Ok(KeyGenerator::Script(Box::new(ScriptedValues::new(reference, kind))))
}
