//! Cells of a campaign, in which the values of axes and scaled numbers are substituted.

use super::error::CampaignError;
use super::event::{CellEvent, read_cell_events};
use super::fields::{FieldReader, unsigned};
use super::file::{Campaign, phase_keys};
use super::matrix::{Coordinates, cell_label, combinations, put_in, transform};
use super::resources::ResourceNeeds;
use super::scale::CampaignScale;
use super::server_plan::ServerPlan;
use super::servers::NodeAddresses;
use crate::cli::check_text;
use crate::config::{ConfigText, ValueForm};
use crate::growth::GrowthKind;
use crate::output::text::clock_text;
use crate::term::Term;
use std::fmt::Write as _;
use std::time::Duration;

/// A cell of the matrix: one experiment.
#[derive(Debug, Clone)]
pub struct CampaignCell {
    /// Name of the cell and of its directory.
    pub label: String,
    /// Names of the axes, each with the label of the cell's value.
    pub(super) coordinates: Vec<(String, String)>,
    pub(super) server: ServerPlan,
    /// The loads, in the order in which they run. The last one is measured.
    pub(super) phases: Vec<CellPhase>,
    pub(super) events: Vec<CellEvent>,
    pub(super) needs: ResourceNeeds,
    /// True if the resource use of the nodes is read each second.
    pub(super) is_watched: bool,
}

/// One load of a cell.
#[derive(Debug, Clone)]
pub(super) struct CellPhase {
    /// Name of the phase: `load`, `warm`, `run` or `growth`.
    pub(super) name: &'static str,
    pub(super) load: PhaseLoad,
    /// Duration of the load; `None` if it is not known in advance.
    pub(super) length: Option<Duration>,
}

/// The kind of load of a phase.
#[derive(Debug, Clone)]
pub(super) enum PhaseLoad {
    /// The keys of a configuration, in which `{servers, ...}` stands for addresses.
    Configuration(Vec<(String, Term)>),
    /// The experiment with growing data types.
    Growth { kind: GrowthKind, item_count: u64, container_count: u64 },
}

impl CampaignCell {
    /// Total duration of the loads, as far as it is known.
    pub(super) fn length(&self) -> Duration {
        self.phases.iter().filter_map(|phase| phase.length).sum()
    }

    /// The cell in one line: its servers, its loads and its events.
    pub(super) fn told(&self) -> String {
        let ServerPlan { engine, node_count, cluster_count, running, .. } = &self.server;
        let of = if *node_count == 1 { "node" } else { "nodes" };
        let mut text = match (running, cluster_count) {
            (Some((pb, http)), _) => {
                format!("{}: {} running servers", self.label, pb.len().max(http.len()))
            }
            (None, 1) => format!("{}: {node_count} {of}", self.label),
            (None, count) => format!("{}: {count} clusters of {node_count} {of}", self.label),
        };
        if let Some(engine) = engine {
            let _ = write!(text, " on {engine}");
        }
        for phase in &self.phases {
            let length =
                phase.length.map_or_else(String::new, |length| format!(" {}", clock_text(length)));
            let _ = write!(text, ", {}{length}", phase.name);
        }
        for event in &self.events {
            let _ = write!(text, ", {} at {}", event.name, clock_text(event.at));
        }
        text
    }
}

impl Campaign {
    /// All cells of the matrix at a scale.
    ///
    /// # Errors
    ///
    /// When a cell has no servers or no load that can be run.
    pub fn cells(&self, scale: CampaignScale) -> Result<Vec<CampaignCell>, CampaignError> {
        combinations(&self.axes).iter().map(|coordinates| self.cell(coordinates, scale)).collect()
    }

    fn cell(
        &self,
        coordinates: &Coordinates<'_>,
        scale: CampaignScale,
    ) -> Result<CampaignCell, CampaignError> {
        let label = cell_label(coordinates);
        let fault = |key: &str| {
            let (place, cell) = (self.place(key), label.clone());
            move |problem| CampaignError::CellValue { place, cell, problem }
        };
        let get = |key: &str| -> Result<Option<Term>, CampaignError> {
            let term = self.settings.get(key).map(|term| put_in(term, coordinates, scale));
            term.transpose().map_err(fault(key))
        };
        let server = get("server")?.unwrap_or_else(|| Term::List(Vec::new()));
        let server = ServerPlan::read(&server).map_err(fault("server"))?;
        let common = get("common")?;
        let mut phases = Vec::new();
        for name in ["load", "warm", "run"] {
            let Some(term) = get(name)? else { continue };
            let mut keys = phase_keys(common.as_ref(), &term, name).map_err(fault(name))?;
            let length = scale.lengths(&mut keys);
            let load = PhaseLoad::Configuration(keys);
            phases.push(CellPhase { name, load, length });
        }
        if let Some(term) = get("growth")? {
            phases.push(read_growth(&term).map_err(fault("growth"))?);
        }
        let measured = phases.last().and_then(|phase| phase.length);
        let events = match get("events")? {
            Some(term) => read_cell_events(&term, scale, measured).map_err(fault("events"))?,
            None => Vec::new(),
        };
        let needs = get("needs")?
            .map_or_else(|| Ok(ResourceNeeds::default()), |term| ResourceNeeds::read(&term));
        let needs = needs.map_err(fault("needs"))?;
        let coordinates = coordinates
            .iter()
            .map(|(axis, value)| (axis.name.clone(), value.label.clone()))
            .collect();
        let is_watched = self.is_watched;
        let cell = CampaignCell { label, coordinates, server, phases, events, needs, is_watched };
        self.check_phases(&cell)?;
        Ok(cell)
    }

    /// Checks that the phases of a cell are valid configurations, with placeholder addresses for servers
    /// that do not exist yet.
    fn check_phases(&self, cell: &CampaignCell) -> Result<(), CampaignError> {
        let nobody = NodeAddresses { pb: "127.0.0.1:1".to_owned(), http: "127.0.0.1:1".to_owned() };
        let cluster = vec![nobody; usize::from(cell.server.node_count)];
        let clusters = vec![cluster; usize::from(cell.server.cluster_count)];
        for phase in &cell.phases {
            let PhaseLoad::Configuration(keys) = &phase.load else { continue };
            let text = configuration(keys, &clusters);
            let text = text.map_err(|problem| CampaignError::CellValue {
                place: self.place(phase.name),
                cell: cell.label.clone(),
                problem: format!("{}: {problem}", phase.name),
            })?;
            let name = format!("{}-{}.config", cell.label, phase.name);
            check_text(ConfigText { name: &name, text: &text }).map_err(|error| {
                CampaignError::Phase {
                    place: self.place(phase.name),
                    phase: phase.name,
                    cell: cell.label.clone(),
                    error: Box::new(error),
                }
            })?;
        }
        Ok(())
    }
}

const GROWTH_TYPE: ValueForm = ValueForm { name: "type", expected: "sets or maps" };

fn read_growth(term: &Term) -> Result<CellPhase, String> {
    let mut fields = FieldReader::of(term, "growth")?;
    let kind = fields.required(GROWTH_TYPE, |term| match term.as_atom()? {
        "sets" => Some(GrowthKind::Sets),
        "maps" => Some(GrowthKind::Maps),
        _ => None,
    })?;
    let count = |term: &Term| unsigned(term, 1..=100_000_000);
    let above_zero = |name| ValueForm { name, expected: "a number above 0" };
    let item_count = fields.required(above_zero("items"), count)?;
    let container_count = fields.optional(above_zero("containers"), count)?.unwrap_or(1);
    fields.finish()?;
    let load = PhaseLoad::Growth { kind, item_count, container_count };
    Ok(CellPhase { name: "growth", load, length: None })
}

/// Writes a configuration. Addresses of servers replace `{servers, pb}`, `{servers, http}` and, for the
/// second cluster, `{servers, pb, 2}`.
pub(super) fn configuration(
    keys: &[(String, Term)],
    clusters: &[Vec<NodeAddresses>],
) -> Result<String, String> {
    let mut text = String::new();
    for (key, value) in keys {
        let value = transform(value, &|term| match term.as_tuple().unwrap_or_default() {
            [Term::Atom(word), rest @ ..] if word == "servers" => {
                addresses(term, rest, clusters).map(Some)
            }
            _ => Ok(None),
        })?;
        let _ = writeln!(text, "{{{}, {value}}}.", Term::atom(key));
    }
    Ok(text)
}

fn addresses(term: &Term, rest: &[Term], clusters: &[Vec<NodeAddresses>]) -> Result<Term, String> {
    let fault =
        || format!("{term}: write {{servers, pb}}, {{servers, http}} or {{servers, pb, 2}}");
    let (protocol, number) = match rest {
        [Term::Atom(protocol)] => (protocol, 1_usize),
        [Term::Atom(protocol), number] => (protocol, unsigned(number, 1..=2).ok_or_else(fault)?),
        _ => return Err(fault()),
    };
    let missing = || format!("{term}: there is 1 cluster: add {{clusters, 2}} to server");
    let cluster = clusters.get(number - 1).ok_or_else(missing)?;
    let address = |node: &NodeAddresses| {
        let address = match protocol.as_str() {
            "pb" => &node.pb,
            "http" => &node.http,
            _ => return Err(fault()),
        };
        let parted = address.rsplit_once(':').and_then(|(host, port)| {
            Some((host.trim_matches(['[', ']']).to_owned(), port.parse::<u16>().ok()?))
        });
        let (host, port) =
            parted.ok_or_else(|| format!("{address} is not of the form HOST:PORT"))?;
        Ok(Term::Tuple(vec![Term::String(host), Term::Integer(i128::from(port))]))
    };
    cluster.iter().map(address).collect::<Result<_, _>>().map(Term::List)
}
