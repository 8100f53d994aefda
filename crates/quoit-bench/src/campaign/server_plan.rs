//! The servers of a cell, as the key `server` describes them.

use super::fields::{FieldReader, unsigned};
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

impl ServerPlan {
    /// Reads the value of `server`, in which the values of axes are already substituted.
    pub(super) fn read(term: &Term) -> Result<Self, String> {
        let mut fields = FieldReader::of(term, "server")?;
        let plan = Self {
            program: fields.optional("program", "a path in quotes", text)?.map(PathBuf::from),
            engine: fields.optional("engine", "the name of an engine, such as bitcask", word)?,
            node_count: fields
                .optional("nodes", "a number from 1 to 64", |term| unsigned(term, 1..=NODES_MAX))?
                .unwrap_or(1),
            cluster_count: fields
                .optional("clusters", "1 or 2", |term| unsigned(term, 1..=2))?
                .unwrap_or(1),
            is_linked: fields
                .optional("linked", "true or false", |term| match term.as_atom()? {
                    "true" => Some(true),
                    "false" => Some(false),
                    _ => None,
                })?
                .unwrap_or(false),
            settings: fields
                .optional("settings", "a list of texts \"key=value\"", |term| {
                    let texts = texts(term)?;
                    texts.iter().all(|text| text.contains('=')).then_some(texts)
                })?
                .unwrap_or_default(),
            bucket_types: fields
                .optional("bucket_types", "a list of {Name, DataType} such as {sets, set}", types)?
                .unwrap_or_default(),
            running: fields.optional(
                "running",
                "{[\"host:port\", ...], [\"host:port\", ...]}: Protocol Buffers, and HTTP",
                |term| {
                    let [pb, http] = term.as_tuple()? else { return None };
                    Some((texts(pb)?, texts(http)?))
                },
            )?,
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
