//! A function of a script as a configuration names it.

use serde_json::{Map, Value as Json};

use crate::term::Term;

/// A file, a function of it and its arguments.
#[derive(Debug, Clone)]
pub struct ScriptReference {
    /// The file as it is written, or a module of Erlang without the ending of scripts.
    pub file: String,
    /// Name of the function.
    pub function: String,
    /// Arguments behind the worker's number, as a list in JSON.
    pub(super) arguments: String,
    /// Written `{function, Module, Function, Arguments}`: in basho_bench the module is one of Erlang.
    pub is_module: bool,
}

impl ScriptReference {
    /// Reads `{script, "file", Function, [Argument, ...]}`, where the name of the first element is not looked
    /// at.
    pub(crate) fn of_script(term: &Term) -> Option<Self> {
        let [_, file, function, arguments] = term.as_tuple()? else { return None };
        let file = file.as_text().filter(|file| !file.is_empty())?;
        Self::new(file, function, arguments, false)
    }

    /// Reads `{function, Module, Function, [Argument, ...]}`.
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

    /// The name of the file: of a module, with the ending of scripts.
    pub(super) fn file_name(&self) -> String {
        if self.is_module { format!("{}.js", self.file) } else { self.file.clone() }
    }
}

/// Whether a text is a name of a function in JavaScript, of letters of ASCII.
fn is_identifier(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '$';
    text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

/// A term in JSON; nothing for integers and bytes that JavaScript could not have as they are.
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
