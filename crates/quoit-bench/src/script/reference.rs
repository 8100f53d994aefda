//! The notation of a script's function in a configuration.

use serde_json::{Map, Value as Json};

use crate::term::Term;

/// A file, a function in it, and its arguments.
#[derive(Debug, Clone)]
pub struct ScriptReference {
    /// The file as written, or the name of an Erlang module, which lacks the extension of scripts.
    pub file: String,
    /// Name of the function.
    pub function: String,
    /// Arguments after the worker's number, as a list in JSON.
    pub(super) arguments: String,
    /// True for `{function, Module, Function, Arguments}`, which is an Erlang function in basho_bench.
    pub is_module: bool,
}

impl ScriptReference {
    /// Parses `{script, "file", Function, [Argument, ...]}`. The name of the first element is not checked.
    pub(crate) fn of_script(term: &Term) -> Option<Self> {
        let [_, file, function, arguments] = term.as_tuple()? else { return None };
        let file = file.as_text().filter(|file| !file.is_empty())?;
        Self::new(file, function, arguments, false)
    }

    /// Parses `{function, Module, Function, [Argument, ...]}`.
    pub(crate) fn of_module(term: &Term) -> Option<Self> {
        let [_, module, function, arguments] = term.as_tuple()? else { return None };
        // A module is a file name without directories.
        let module = module.as_atom().filter(|name| !name.contains(['/', '\0']))?;
        Self::new(module.to_owned(), function, arguments, true)
    }

    fn new(file: String, function: &Term, arguments: &Term, is_module: bool) -> Option<Self> {
        let function = function.as_atom().map(str::to_owned).or_else(|| function.as_text())?;
        if !is_identifier(&function) {
            return None;
        }
        let arguments: Option<Vec<Json>> = arguments.as_list()?.iter().map(argument_of).collect();
        let arguments = Json::Array(arguments?).to_string();
        Some(Self { file, function, arguments, is_module })
    }

    /// The name of the file. That of a module gets the extension of scripts.
    pub(super) fn file_name(&self) -> String {
        if self.is_module { format!("{}.js", self.file) } else { self.file.clone() }
    }
}

/// True if a text is an identifier of JavaScript, in ASCII letters.
fn is_identifier(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '$';
    text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

/// Converts a term to JSON. `None` if it contains integers or bytes that JavaScript can't represent
/// exactly.
fn argument_of(term: &Term) -> Option<Json> {
    Some(match term {
        Term::Integer(number) => {
            let number = i64::try_from(*number).ok()?;
            Json::from(Some(number).filter(|number| number.unsigned_abs() < 1 << 53)?)
        }
        Term::Float(number) => Json::from(*number),
        Term::Atom(name) if name == "true" => Json::Bool(true),
        Term::Atom(name) if name == "false" => Json::Bool(false),
        Term::Atom(name) if name == "undefined" => Json::Null,
        Term::Atom(text) | Term::String(text) => Json::from(text.as_str()),
        Term::Binary(bytes) => Json::from(std::str::from_utf8(bytes).ok()?),
        Term::Tuple(elements) | Term::List(elements) => {
            Json::Array(elements.iter().map(argument_of).collect::<Option<_>>()?)
        }
        Term::Map(pairs) => {
            let pair = |(key, value): &(Term, Term)| {
                let key = key.as_atom().map(str::to_owned).or_else(|| key.as_text())?;
                Some((key, argument_of(value)?))
            };
            Json::Object(pairs.iter().map(pair).collect::<Option<Map<_, _>>>()?)
        }
        Term::ImproperList(..) => return None,
    })
}
