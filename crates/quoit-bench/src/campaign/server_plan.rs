//! The servers of a cell, as the key `server` describes them.

use super::fields::{FieldReader, unsigned};
use crate::config::ValueForm;
use crate::term::Term;
use std::path::PathBuf;

/// Maximum number of nodes in a cluster.
const NODES_MAX: u16 = 64;

/// The servers that a cell needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPlan {
    /// Path of the program that the nodes run; `None` for this program.
    pub program: Option<PathBuf>,
    /// Storage engine of all nodes; `None` for the default.
    pub engine: Option<String>,
    /// Number of nodes in each cluster.
    pub node_count: u16,
    /// Number of clusters, 1 or 2.
    pub cluster_count: u16,
    /// True if two clusters replicate to each other.
    pub is_linked: bool,
    /// Settings of all nodes, as `key=value`.
    pub settings: Vec<String>,
    /// Bucket types to create: name and data type.
    pub bucket_types: Vec<(String, String)>,
    /// Protocol Buffers and HTTP addresses of servers that are already running. If set, no server is
    /// started.
    pub running: Option<(Vec<String>, Vec<String>)>,
}

const PROGRAM: ValueForm = ValueForm { name: "program", expected: "a path in quotes" };

const ENGINE: ValueForm =
    ValueForm { name: "engine", expected: "the name of an engine, such as bitcask" };

const NODES: ValueForm = ValueForm { name: "nodes", expected: "a number from 1 to 64" };

const CLUSTERS: ValueForm = ValueForm { name: "clusters", expected: "1 or 2" };

const LINKED: ValueForm = ValueForm { name: "linked", expected: "true or false" };

const SETTINGS: ValueForm =
    ValueForm { name: "settings", expected: "a list of texts \"key=value\"" };

const BUCKET_TYPES: ValueForm =
    ValueForm { name: "bucket_types", expected: "a list of {Name, DataType} such as {sets, set}" };

const RUNNING: ValueForm = ValueForm {
    name: "running",
    expected: "{[\"host:port\", ...], [\"host:port\", ...]}: Protocol Buffers, and HTTP",
};

impl ServerPlan {
    /// Reads the value of `server`, in which the values of axes are already substituted.
    pub(super) fn read(term: &Term) -> Result<Self, String> {
        let mut fields = FieldReader::of(term, "server")?;
        let plan = Self {
            program: fields.optional(PROGRAM, text)?.map(PathBuf::from),
            engine: fields.optional(ENGINE, word)?,
            node_count: fields.optional(NODES, |term| unsigned(term, 1..=NODES_MAX))?.unwrap_or(1),
            cluster_count: fields.optional(CLUSTERS, |term| unsigned(term, 1..=2))?.unwrap_or(1),
            is_linked: fields
                .optional(LINKED, |term| match term.as_atom()? {
                    "true" => Some(true),
                    "false" => Some(false),
                    _ => None,
                })?
                .unwrap_or(false),
            settings: fields
                .optional(SETTINGS, |term| {
                    let texts = texts(term)?;
                    texts.iter().all(|text| text.contains('=')).then_some(texts)
                })?
                .unwrap_or_default(),
            bucket_types: fields.optional(BUCKET_TYPES, types)?.unwrap_or_default(),
            running: fields.optional(RUNNING, |term| {
                let [pb, http] = term.as_tuple()? else { return None };
                Some((texts(pb)?, texts(http)?))
            })?,
        };
        fields.finish()?;
        if plan.is_linked && plan.cluster_count != 2 {
            return Err("server: linked is true, which takes {clusters, 2}".to_owned());
        }
        Ok(plan)
    }

    /// Number of nodes in all clusters.
    pub fn nodes_in_all(&self) -> u16 {
        self.node_count * self.cluster_count
    }
}

/// A text in quotes, not empty.
fn text(term: &Term) -> Option<String> {
    term.as_text().filter(|text| !text.is_empty())
}

/// An atom or a text.
fn word(term: &Term) -> Option<String> {
    term.as_atom().map(str::to_owned).or_else(|| text(term))
}

fn texts(term: &Term) -> Option<Vec<String>> {
    term.as_list()?.iter().map(text).collect()
}

fn types(term: &Term) -> Option<Vec<(String, String)>> {
    let pair = |term: &Term| match term.as_tuple()? {
        [name, data_type] => Some((word(name)?, word(data_type)?)),
        _ => None,
    };
    term.as_list()?.iter().map(pair).collect()
}
