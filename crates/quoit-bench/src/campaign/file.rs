//! The contents of a campaign's file.

use super::error::CampaignError;
use super::fields::pairs;
use super::figure::{CampaignFigure, FORMS};
use super::matrix::{CELLS_MAX, MatrixAxis, combinations, read_axes};
use super::published::{PublishedSet, read_published};
use crate::config::{SettingPlace, Settings, ValueForm};
use crate::names::nearest;
use crate::term::Term;
use std::path::{Path, PathBuf};

/// The keys of a campaign.
pub(super) const KEYS: [&str; 16] = [
    "title",
    "about",
    "source",
    "matrix",
    "server",
    "common",
    "load",
    "warm",
    "run",
    "growth",
    "events",
    "needs",
    "watch",
    "figures",
    "published",
    "differences",
];

/// A campaign: loads, servers, variants, and the published figures to compare with.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// Name of the file without its extension.
    pub name: String,
    /// Title of one line.
    pub title: String,
    /// A paragraph for people.
    pub about: String,
    /// Source of its published figures.
    pub source: String,
    /// Text of the file.
    pub text: String,
    /// Axes of the matrix.
    pub(super) axes: Vec<MatrixAxis>,
    /// Figures that are reported in addition to the usual ones.
    pub(super) figures: Vec<CampaignFigure>,
    pub(super) published: Vec<PublishedSet>,
    /// Differences from the published experiment other than machine and scale.
    pub(super) differences: Vec<String>,
    /// True if the resource use of the nodes is read each second.
    pub(super) is_watched: bool,
    pub(super) settings: Settings,
    file: PathBuf,
}

impl Campaign {
    /// Parses a campaign from the text of a file.
    ///
    /// # Errors
    ///
    /// When the text is not a campaign. Cells are only checked when they are built.
    pub fn parse(file: &Path, text: &[u8]) -> Result<Self, CampaignError> {
        let is_toml = file.extension().is_some_and(|end| end.eq_ignore_ascii_case("toml"));
        if is_toml {
            return Err(CampaignError::Toml(file.to_owned()));
        }
        let mut settings = Settings::default();
        settings.add(file, text)?;
        check_keys(&settings)?;
        let reader = CampaignReader { settings: &settings, file };
        let matrix =
            |term: &Term| read_axes(term).map_err(|expected| format!("matrix: {expected}"));
        let campaign = Self {
            name: file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            title: reader.text(ValueForm { name: "title", expected: "a line in quotes" })?,
            about: reader.optional_text("about")?,
            source: reader.optional_text("source")?,
            text: String::from_utf8_lossy(text).into_owned(),
            axes: reader.optional("matrix", matrix)?.unwrap_or_default(),
            figures: reader.optional("figures", read_figures)?.unwrap_or_default(),
            published: reader.optional("published", read_published)?.unwrap_or_default(),
            differences: reader.optional("differences", read_texts)?.unwrap_or_default(),
            is_watched: settings.boolean("watch", true)?,
            file: file.to_owned(),
            settings: settings.clone(),
        };
        campaign.check(&reader)?;
        Ok(campaign)
    }

    /// Checks the conditions that involve more than one key.
    fn check(&self, reader: &CampaignReader<'_>) -> Result<(), CampaignError> {
        let has = |key| self.settings.get(key).is_some();
        let fault = |key: &str, problem: String| {
            Err(CampaignError::Value { place: self.settings.place(key), problem })
        };
        match (has("run"), has("growth")) {
            (false, false) => {
                let expected = "the keys of a configuration, or {growth, [...]}";
                return Err(reader.missing(ValueForm { name: "run", expected }));
            }
            (true, true) => {
                return fault("growth", "growth: a campaign has either run or growth".to_owned());
            }
            _ => {}
        }
        if !has("server") {
            let expected = "a list such as [{nodes, 1}]";
            return Err(reader.missing(ValueForm { name: "server", expected }));
        }
        let cells: usize = self.axes.iter().map(|axis| axis.values.len()).product();
        if cells > CELLS_MAX {
            return fault("matrix", format!("matrix: it has {cells} cells: {CELLS_MAX} at most"));
        }
        let cells = combinations(&self.axes);
        match self.published.iter().find_map(|set| set.stray(&cells)) {
            Some(stray) => fault("published", format!("published: no cell has {stray}")),
            None => Ok(()),
        }
    }

    /// Place of a key's setting.
    pub(super) fn place(&self, key: &str) -> SettingPlace {
        self.settings.place(key)
    }

    /// Path of the file, as it was given.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

/// Reads the keys of a campaign, with their places for errors.
struct CampaignReader<'a> {
    settings: &'a Settings,
    file: &'a Path,
}

impl CampaignReader<'_> {
    fn optional<T>(
        &self,
        key: &str,
        read: impl Fn(&Term) -> Result<T, String>,
    ) -> Result<Option<T>, CampaignError> {
        let Some(term) = self.settings.get(key) else { return Ok(None) };
        let fault = |problem| CampaignError::Value { place: self.settings.place(key), problem };
        read(term).map(Some).map_err(fault)
    }

    fn optional_text(&self, key: &str) -> Result<String, CampaignError> {
        let read = |term: &Term| {
            term.as_text().ok_or_else(|| format!("{key} is {term}: write a text in quotes"))
        };
        // A text that spans several lines of the file is one paragraph.
        let text = self.optional(key, read)?.unwrap_or_default();
        Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    fn text(&self, form: ValueForm) -> Result<String, CampaignError> {
        match self.optional_text(form.name)? {
            text if text.is_empty() => Err(self.missing(form)),
            text => Ok(text),
        }
    }

    fn missing(&self, form: ValueForm) -> CampaignError {
        let ValueForm { name: key, expected } = form;
        CampaignError::Missing { file: self.file.to_owned(), key, expected }
    }
}

fn check_keys(settings: &Settings) -> Result<(), CampaignError> {
    match settings.keys().find(|(key, _)| !KEYS.contains(key)) {
        None => Ok(()),
        Some((key, place)) => {
            let hint = nearest(key, &KEYS)
                .map_or_else(String::new, |name| format!(": did you mean `{name}`?"));
            let known = KEYS.join(", ");
            Err(CampaignError::UnknownKey { place, key: key.to_owned(), hint, known })
        }
    }
}

fn read_figures(term: &Term) -> Result<Vec<CampaignFigure>, String> {
    let fault = |term: &Term| format!("figures: {term}: write a list of {FORMS}");
    let list = term.as_list().ok_or_else(|| fault(term))?;
    list.iter().map(|term| CampaignFigure::read(term).ok_or_else(|| fault(term))).collect()
}

fn read_texts(term: &Term) -> Result<Vec<String>, String> {
    let fault = || "differences: write a list of texts in quotes".to_owned();
    let one_line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let texts = term.as_list().ok_or_else(fault)?;
    texts.iter().map(|text| text.as_text().map(one_line).ok_or_else(fault)).collect()
}

/// The keys of a phase: those of `common`, overridden by the phase's own.
pub(super) fn phase_keys(
    common: Option<&Term>,
    own: &Term,
    phase: &str,
) -> Result<Vec<(String, Term)>, String> {
    let read = |term: &Term, of: &str| {
        pairs(term).ok_or_else(|| format!("{of}: write a list of the keys of a configuration"))
    };
    let mut keys = match common {
        Some(common) => read(common, "common")?,
        None => Vec::new(),
    };
    for (key, value) in read(own, phase)? {
        keys.retain(|(known, _)| *known != key);
        keys.push((key, value));
    }
    Ok(keys)
}
