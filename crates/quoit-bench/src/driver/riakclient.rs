//! The driver `riakclient`. In basho_bench it reaches Riak's nodes through distributed Erlang. Here the
//! same operations go to the same hosts over Protocol Buffers.

use quoit_client::Quorum;

use super::riakc_pb::{self, PbOperation, RiakcPb, check_keys, read_quorum};
use super::{Driver, Inputs, Outcome, StartError, SystemRequirements, check_values_are_bytes};
use crate::config::{Config, ConfigError, Settings, Target};
use crate::term::Term;
use crate::worker_place::WorkerPlace;

/// One worker: a connection to one node.
#[derive(Debug)]
pub(super) struct RiakClient(RiakcPb);

impl Driver for RiakClient {
    const NAME: &'static str = "riakclient";
    const OPERATIONS: &'static str = "get, put, update, delete";

    type Operation = PbOperation;
    type Plan = riakc_pb::PbPlan;

    fn plan(config: &Config) -> Result<Self::Plan, ConfigError> {
        check_values_are_bytes(config, Self::NAME)?;
        check_keys(config, Self::NAME)?;
        let settings = &config.settings;
        let replies = read_quorum(settings, "riakclient_replies", Quorum::Count(2))?;
        let bucket = settings.bytes("riakclient_bucket", b"test")?.into();
        let mut targets = config.overrides(None);
        if targets.is_empty() {
            targets = read_nodes(settings)?;
        }
        Ok(riakc_pb::PbPlan::of_bucket(targets, bucket, replies))
    }

    fn system_requirements(plan: &Self::Plan) -> SystemRequirements {
        RiakcPb::system_requirements(plan)
    }

    fn notices(plan: &Self::Plan) -> Vec<String> {
        let addresses: Vec<String> =
            Self::system_requirements(plan).targets.iter().map(Target::to_string).collect();
        let addresses = addresses.join(", ");
        let unused = "cookies and names of Erlang nodes are not used";
        vec![format!("riakclient speaks Protocol Buffers here, to {addresses}; {unused}")]
    }

    fn operation(plan: &Self::Plan, term: &Term) -> Option<PbOperation> {
        use PbOperation::{Delete, Get, Put, Update};
        let offered = |operation: &PbOperation| matches!(operation, Get | Put | Update | Delete);
        RiakcPb::operation(plan, term).filter(offered)
    }

    fn draws_values(operation: PbOperation) -> bool {
        RiakcPb::draws_values(operation)
    }

    async fn connect(plan: &Self::Plan, place: WorkerPlace) -> Result<Self, StartError> {
        RiakcPb::connect(plan, place).await.map(Self)
    }

    async fn perform(
        &mut self,
        plan: &Self::Plan,
        operation: PbOperation,
        inputs: &mut Inputs,
    ) -> Outcome {
        self.0.perform(plan, operation, inputs).await
    }
}

/// The hosts of the nodes, in the order of the list.
fn read_nodes(settings: &Settings) -> Result<Vec<Target>, ConfigError> {
    let key = "riakclient_nodes";
    let expected = "write a list of node names such as ['riak@127.0.0.1']";
    let port = settings.integer("riakclient_pb_port", 8087, 1..=u16::MAX)?;
    let nodes = settings.read(key, Vec::new(), expected, |term| {
        let target_of = |node: &Term| {
            let (_, host) = node.as_atom()?.split_once('@')?;
            (!host.is_empty()).then(|| Target { host: host.to_owned(), port })
        };
        term.as_list()?.iter().map(target_of).collect()
    })?;
    if nodes.is_empty() { Err(settings.value_error(key, expected)) } else { Ok(nodes) }
}
