//! Operations on a generator and all generators inside it.

use std::io;
use std::path::Path;

use super::{Integers, KeyGenerator, Role, SequenceSettings};
use crate::notices::Notices;
use crate::script::{ScriptError, Scripts};
use crate::valgen::{SourceKind, Sources};
use crate::worker_place::WorkerPlace;

impl KeyGenerator {
    /// The key generators directly inside this one.
    fn inner(&self) -> impl Iterator<Item = &KeyGenerator> {
        let (first, second) = match self {
            Self::IntegerToBinary { inner, .. }
            | Self::IntegerToString(inner)
            | Self::Retyped(_, inner)
            | Self::ExternalTerm(inner)
            | Self::Formatted { inner, .. }
            | Self::Split { inner, .. }
            | Self::Digest(_, inner)
            | Self::Base64 { inner, .. } => (Some(inner.as_ref()), None),
            Self::Joined { parts, .. } => (Some(&parts.0), Some(&parts.1)),
            Self::Values(values) => (values.keys(), None),
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// As `inner`, mutable.
    fn inner_mut(&mut self) -> impl Iterator<Item = &mut KeyGenerator> {
        let (first, second) = match self {
            Self::IntegerToBinary { inner, .. }
            | Self::IntegerToString(inner)
            | Self::Retyped(_, inner)
            | Self::ExternalTerm(inner)
            | Self::Formatted { inner, .. }
            | Self::Split { inner, .. }
            | Self::Digest(_, inner)
            | Self::Base64 { inner, .. } => (Some(inner.as_mut()), None),
            Self::Joined { parts, .. } => {
                let (first, second) = parts.as_mut();
                (Some(first), Some(second))
            }
            Self::Values(values) => (values.keys_mut(), None),
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// Prepares the generator for a worker: selects its part of a partitioned sequence, and takes the
    /// source of bytes of an inner value generator.
    pub fn start(&mut self, place: WorkerPlace, sources: &Sources) {
        match self {
            Self::Integers(Integers::Sequence(sequence)) => sequence.start(place),
            Self::Inserter(inserter) => inserter.start(place),
            Self::Values(values) => values.take_source(sources),
            Self::Script(values) => values.start(place),
            _ => {}
        }
        self.inner_mut().for_each(|inner| inner.start(place, sources));
    }

    /// Applies the settings of sequences.
    pub fn configure_sequences(&mut self, settings: &SequenceSettings) {
        if let Self::Integers(Integers::Sequence(sequence)) = self {
            sequence.configure(settings);
        }
        self.inner_mut().for_each(|inner| inner.configure_sequences(settings));
    }

    /// Sets the receiver of notices of all sequences inside.
    pub(crate) fn set_notices(&mut self, notices: &Notices) {
        if let Self::Integers(Integers::Sequence(sequence)) = self {
            sequence.set_notices(notices);
        }
        self.inner_mut().for_each(|inner| inner.set_notices(notices));
    }

    /// Reads the scripts that keys come from. A generator without its script has no keys.
    ///
    /// # Errors
    ///
    /// When a script cannot be run.
    pub(crate) fn load_scripts(
        &mut self,
        scripts: &mut Scripts,
        role: Role,
    ) -> Result<(), ScriptError> {
        if let Self::Script(values) = self {
            values.load(scripts, role.remedy())?;
        }
        self.inner_mut().try_for_each(|inner| inner.load_scripts(scripts, role))
    }

    /// Opens the files that keys are read from. A generator without its file has no keys.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or is empty; the error comes with the path.
    pub fn open_files(&self) -> Result<(), (&Path, io::Error)> {
        if let Self::Lines(lines) = self {
            lines.open().map_err(|error| (lines.path(), error))?;
        }
        self.inner().try_for_each(Self::open_files)
    }

    /// True if keys are lines of a file, which all workers of a process share.
    pub(crate) fn reads_lines(&self) -> bool {
        matches!(self, Self::Lines(_)) || self.inner().any(Self::reads_lines)
    }

    /// The sources of bytes that inner value generators need.
    pub(crate) fn source_kinds(&self) -> Vec<SourceKind> {
        let own = match self {
            Self::Values(values) => values.own_source_kind(),
            _ => None,
        };
        own.into_iter().chain(self.inner().flat_map(Self::source_kinds)).collect()
    }
}
