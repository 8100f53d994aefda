//! Settings of the driver.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::text::{NamedGenerators, TemplateSources, TextTemplate};
use crate::config::{Config, ConfigError, Settings, Target, ValueForm};
use crate::driver::disconnect::Disconnect;
use crate::driver::http_link::{header_lines, read_headers, read_security};
use crate::keygen::{KeyGenerator, KeyKind};
use crate::login::HttpSecurity;
use crate::term::Term;
use crate::valgen::{SourceSettings, Sources};

/// The settings that all workers share.
#[derive(Debug)]
pub(in crate::driver) struct TemplatedPlan {
    /// Servers that requests go to.
    pub(super) servers: Vec<Target>,
    pub(super) targets: Vec<(Term, Vec<TargetPath>)>,
    pub(super) values: Vec<(Term, TextTemplate)>,
    /// Header lines, by name.
    pub(super) headers: Vec<(Term, Vec<u8>)>,
    pub(super) generators: NamedGenerators,
    /// Header lines that every request has.
    pub(super) common_headers: Vec<u8>,
    pub(super) timeout: Duration,
    pub(super) disconnect: Disconnect,
    pub(super) key_kind: KeyKind,
    pub(super) source: SourceSettings,
    pub(super) security: Option<Arc<HttpSecurity>>,
    /// Sources from which values are cut; created by the first worker.
    pub(super) sources: Mutex<Option<Sources>>,
}

/// A path on a server.
#[derive(Debug)]
pub(super) struct TargetPath {
    /// Index into the servers.
    pub(super) server: usize,
    pub(super) path: TextTemplate,
}

const GENERATORS: ValueForm = ValueForm {
    name: "generators",
    expected: "write a list of {Name, {key_generator, Generator}} or {Name, {value_generator, Generator}}",
};

const VALUES: ValueForm = ValueForm {
    name: "values",
    expected: "write a list of {Name, Value}, Value a text in quotes, the name of a generator, \
               key_generator, value_generator or {\"Format\", [Generator, ...]} with a directive for each \
               generator, key_generator and value_generator included",
};

const HEADERS: ValueForm = ValueForm {
    name: "headers",
    expected: "write a list of {Name, [{'Header-Name', \"value\"}, ...]}",
};

const TARGETS: ValueForm = ValueForm {
    name: "targets",
    expected: "write a list of {Name, Target} or {Name, [Target, ...]}, Target \
               {\"host\", Port, \"/path\"} or {\"host\", Port, {\"/path/~w\", [Generator, ...]}}",
};

impl TemplatedPlan {
    /// Reads the settings.
    pub(super) fn read(config: &Config) -> Result<Self, ConfigError> {
        let settings = &config.settings;
        let generators = read_generators(settings)?;
        let sources = TemplateSources { named: &generators, key_kind: config.key_generator.kind() };
        let values = read_named(settings, VALUES, |term| TextTemplate::of_value(term, sources))?;
        let headers = read_named(settings, HEADERS, header_lines)?;
        let mut servers = Vec::new();
        let targets = read_named(settings, TARGETS, |term| places_of(term, sources, &mut servers))?;
        let overrides = config.overrides(None);
        for (server, target) in servers.iter_mut().zip(overrides.iter().cycle()) {
            *server = target.clone();
        }
        Ok(Self {
            servers,
            targets,
            values,
            headers,
            generators,
            security: read_security(settings)?,
            common_headers: read_headers(settings, "http_append_headers")?,
            timeout: settings.time_limit("http_request_timeout", Duration::from_secs(5))?,
            disconnect: Disconnect::read(settings, "http_disconnect_frequency")?,
            key_kind: config.key_generator.kind(),
            source: config.source.clone(),
            sources: Mutex::new(None),
        })
    }
}

/// Reads a list of `{Name, Term}`, which must be set.
fn read_named<T>(
    settings: &Settings,
    form: ValueForm,
    mut read: impl FnMut(&Term) -> Option<T>,
) -> Result<Vec<(Term, T)>, ConfigError> {
    let ValueForm { name: key, expected } = form;
    let elements = settings.get(key).and_then(Term::as_list);
    let elements = elements.ok_or_else(|| settings.value_error(key, expected))?;
    let element = |(index, element): (usize, &Term)| {
        let named = match element.as_tuple() {
            Some([name, term]) => read(term).map(|term| (name.clone(), term)),
            _ => None,
        };
        named.ok_or_else(|| settings.element_error(key, index, element, expected))
    };
    elements.iter().enumerate().map(element).collect()
}

fn read_generators(settings: &Settings) -> Result<NamedGenerators, ConfigError> {
    let key = GENERATORS.name;
    let terms = read_named(settings, GENERATORS, |term| {
        let [kind, generator] = term.as_tuple()? else { return None };
        match kind.as_atom()? {
            "key_generator" => Some(generator.clone()),
            // Wrap the value generator in a key generator, so that both kinds have one type.
            "value_generator" => Some(Term::Tuple(vec![Term::atom("valgen"), generator.clone()])),
            _ => None,
        }
    })?;
    let parse = |(name, term): (Term, Term)| {
        let generator = KeyGenerator::parse(&term).map_err(|error| ConfigError::Generator {
            place: settings.place(key),
            key,
            error,
        })?;
        generator.open_files().map_err(|(path, error)| {
            settings.value_error(key, format!("{} cannot be read: {error}", path.display()))
        })?;
        Ok((name, generator))
    };
    terms.into_iter().map(parse).collect()
}

/// Reads one target or a list of them. New servers are appended to `servers`.
fn places_of(
    term: &Term,
    sources: TemplateSources<'_>,
    servers: &mut Vec<Target>,
) -> Option<Vec<TargetPath>> {
    let elements = match term {
        Term::List(elements) => elements.as_slice(),
        single => std::slice::from_ref(single),
    };
    let places: Option<Vec<TargetPath>> =
        elements.iter().map(|element| place_of(element, sources, servers)).collect();
    places.filter(|places| !places.is_empty())
}

fn place_of(
    term: &Term,
    sources: TemplateSources<'_>,
    servers: &mut Vec<Target>,
) -> Option<TargetPath> {
    let [host, port, path] = term.as_tuple()? else { return None };
    let port = u16::try_from(port.as_integer()?).ok().filter(|port| *port != 0)?;
    let server = Target { host: host.as_text().filter(|host| !host.is_empty())?, port };
    let path = TextTemplate::of_term(path, sources)?;
    let known = servers.iter().position(|other| *other == server);
    let server = known.unwrap_or_else(|| {
        servers.push(server);
        servers.len() - 1
    });
    Some(TargetPath { server, path })
}
