//! The nodes of a development cluster as a table.

use super::node::Node;
use quoit_cli::columns::columns;

/// State of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// It serves.
    Up,
    /// Its process has ended, as described.
    Ended(String),
}

/// One line for each node, below a heading.
pub(super) fn table(nodes: &[(Node, State)]) -> String {
    let heading = ["name", "pb", "http", "node", "pid", "state", "data"].map(str::to_owned);
    let rows = nodes.iter().map(|(node, state)| {
        let record = node.record.clone();
        let state = match state {
            State::Up => "up".to_owned(),
            State::Ended(how) => how.clone(),
        };
        let data = node.place.data_dir().display().to_string();
        [record.name, record.pb, record.http, record.node, record.pid.to_string(), state, data]
    });
    columns(std::iter::once(heading).chain(rows))
}
