//! Scripts of a configuration: those of the generators, and `session`.

use std::path::{Path, PathBuf};

use super::pacing::Pacing;
use super::{Config, ConfigError, SettingPlace, Settings};
use crate::keygen::{KeyGenerator, KeyKind, Role};
use crate::script::{ScriptReference, ScriptedKind, Scripts, Session};
use crate::term::Term;

/// The expected form of `session`, for error messages.
const SESSION_EXPECTED: &str = "write {script, \"file.js\", Function, [Argument, ...]}";

impl Config {
    /// Reads `session`.
    ///
    /// # Errors
    ///
    /// When the value has another form, or the run's `mode` already decides when operations come.
    pub(super) fn read_session(&mut self) -> Result<(), ConfigError> {
        let key = "session";
        let reference = self.settings.read(key, None, SESSION_EXPECTED, |term| {
            let is_script = term.as_tuple()?.first()?.as_atom() == Some("script");
            ScriptReference::of_script(term).filter(|_| is_script).map(Some)
        })?;
        let Some(reference) = reference else { return Ok(()) };
        if self.knee.is_some() || !matches!(self.pacing, Pacing::Max | Pacing::Rate(_)) {
            let expected = "a session says when its operations come: take it out, or run it with mode max or \
                            {rate, N}";
            return Err(self.settings.value_error(key, expected));
        }
        if self.settings.get("key_generator").is_none() {
            // Drivers ask the generator what kind keys have. Sessions mostly name keys by texts.
            let numbers = self.key_term();
            let texts = Term::Tuple(vec![Term::atom("int_to_str"), numbers]);
            self.key_generator = KeyGenerator::parse(&texts).expect("the default is one of ours");
        }
        let kind_of = |kind: KeyKind| match kind {
            KeyKind::Integer => ScriptedKind::Integer,
            KeyKind::String | KeyKind::Binary => ScriptedKind::Bytes,
        };
        let key_kind = kind_of(self.key_generator.kind());
        let value_kind = kind_of(self.value_generator.kind());
        self.session = Some(Session::new(reference, key_kind, value_kind));
        Ok(())
    }

    /// Reads and compiles the scripts of the generators and of the session.
    ///
    /// # Errors
    ///
    /// When a script cannot be read or compiled, or lacks the function that the configuration calls.
    pub(super) fn load_scripts(&mut self) -> Result<(), ConfigError> {
        let source_dir = self.settings.text("source_dir", "")?;
        let mut paths = Vec::new();
        let settings = &self.settings;
        let mut load = |key: &'static str, load: &mut dyn FnMut(&mut Scripts) -> _| {
            let base = base_of(&source_dir, settings, key);
            let mut scripts = Scripts::new(base, self.script_faults.clone());
            let loaded: Result<(), _> = load(&mut scripts);
            paths.extend(scripts.paths().iter().cloned());
            loaded.map_err(|error| {
                let place = settings.place(key);
                ConfigError::Script { place, key, error: Box::new(error) }
            })
        };
        let (keys, values) = (&mut self.key_generator, &mut self.value_generator);
        load("key_generator", &mut |scripts| keys.load_scripts(scripts, Role::Keys))?;
        load("value_generator", &mut |scripts| match values.keys_mut() {
            Some(keys) => keys.load_scripts(scripts, Role::Values),
            None => Ok(()),
        })?;
        if let Some(session) = &mut self.session {
            load("session", &mut |scripts| session.load(scripts))?;
        }
        paths.sort_unstable();
        paths.dedup();
        if paths.is_empty() && !source_dir.is_empty() {
            let place = settings.place("source_dir");
            self.warnings.push(format!(
                "{place}source_dir has no effect: no script is read from {source_dir}, and Erlang sources \
                 are not run"
            ));
        }
        self.script_paths = paths;
        Ok(())
    }
}

/// The directory that relative paths of a key's scripts start from: `source_dir`, or the directory of the
/// configuration file.
pub(super) fn base_of(source_dir: &str, settings: &Settings, key: &str) -> PathBuf {
    match settings.place(key) {
        _ if !source_dir.is_empty() => PathBuf::from(source_dir),
        SettingPlace::Line { file, .. } => file.parent().map(Path::to_owned).unwrap_or_default(),
        SettingPlace::Option(_) | SettingPlace::Default => PathBuf::new(),
    }
}
