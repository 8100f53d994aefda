//! Runs whose requests are sent directly to a node that holds the key.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use quoit_bench::run::RunError;
use quoit_client::wire::messages::{
    RpbGetLayoutResp, RpbGetResp, RpbLayoutNode, RpbLayoutRule, RpbListKeysResp, RpbPutResp,
};
use quoit_client::{BucketRef, Layout};

use crate::pb_server::{PbServer, Reply, Seen, ServerBehavior, append};
use crate::support::{run, try_run};

/// Two nodes. Partition p is only on node p modulo 2.
struct PbNodes {
    nodes: [PbServer; 2],
    layout: Layout,
}

impl PbNodes {
    /// Starts the nodes. The second node closes the connection at each request that `ends` is true for.
    fn start(ends: fn(&Seen) -> bool) -> Self {
        let layout: Arc<OnceLock<RpbGetLayoutResp>> = Arc::default();
        let start = |ends: fn(&Seen) -> bool| {
            let layout = layout.clone();
            PbServer::answering(move |request, _| {
                let mut answer = Vec::new();
                match request {
                    request if ends(&request) => return Reply::End,
                    Seen::Layout(_) => append(&mut answer, layout.get().unwrap()),
                    Seen::Get(_) => append(&mut answer, &RpbGetResp::default()),
                    Seen::ListKeys(_) => {
                        let done = Some(true);
                        append(&mut answer, &RpbListKeysResp { keys: Vec::new(), done });
                    }
                    _ => append(&mut answer, &RpbPutResp::default()),
                }
                Reply::Bytes(answer)
            })
        };
        let nodes = [start(|_| false), start(ends)];
        let told = told(&nodes);
        layout.set(told.clone()).unwrap();
        Self { nodes, layout: Layout::from_wire(told).unwrap().unwrap() }
    }

    fn config(&self, operation: &str) -> String {
        config(&self.nodes[0], operation)
    }

    /// The keys that a node was asked for, and those of them that it does not hold.
    fn keys_at(&self, place: u16) -> (BTreeSet<Bytes>, BTreeSet<Bytes>) {
        let seen = self.nodes[usize::from(place)].seen().into_iter();
        let keys = seen.filter_map(|request| match request {
            Seen::Get(get) => Some(get.key),
            Seen::Put(put) => put.key,
            _ => None,
        });
        let keys: BTreeSet<Bytes> = keys.collect();
        let test = BucketRef::untyped(b"test");
        let foreign = |key: &&Bytes| self.layout.replicas(test.key(key)) != [place];
        let foreign = keys.iter().filter(foreign).cloned().collect();
        (keys, foreign)
    }
}

fn told(nodes: &[PbServer]) -> RpbGetLayoutResp {
    let node = |node: &PbServer| RpbLayoutNode {
        name: Bytes::from_static(b"n"),
        address: Bytes::from(node.address.to_string()),
    };
    let rule = RpbLayoutRule { bucket_type: "default".into(), n_val: 1, ..Default::default() };
    RpbGetLayoutResp {
        tag: Bytes::from_static(b"tag"),
        ring_size: Some(64),
        nodes: nodes.iter().map(node).collect(),
        primaries: Some((0..64u16).flat_map(|p| (p % 2).to_be_bytes()).collect()),
        rules: vec![rule],
    }
}

fn config(server: &PbServer, operation: &str) -> String {
    let port = server.address.port();
    format!(
        "{{mode, max}}. {{driver, basho_bench_driver_riakc_pb}}. {{concurrent, 2}}.
         {{key_generator, {{int_to_bin_bigendian, {{sequential_int, 200}}}}}}.
         {{value_generator, {{fixed_bin, 10}}}}. {{operations, [{{{operation}, 1}}]}}.
         {{riakc_pb_ips, [{{127,0,0,1}}]}}. {{riakc_pb_port, {port}}}.
         {{riakc_pb_replica_aware, true}}."
    )
}

#[test]
fn every_request_goes_to_a_node_that_holds_its_key() {
    for operation in ["get", "put", "update"] {
        let cluster = PbNodes::start(|_| false);
        let run = run(&cluster.config(operation));
        assert_eq!(run.report.total.error_count(), 0);
        let mut all = BTreeSet::new();
        for place in [0, 1] {
            let (mut keys, foreign) = cluster.keys_at(place);
            assert_eq!(foreign, BTreeSet::new(), "{operation} at {place}");
            assert!(keys.len() > 50, "{} keys at {place}", keys.len());
            all.append(&mut keys);
        }
        assert_eq!(all.len(), 200);
    }
}

#[test]
fn operations_go_on_elsewhere_when_a_node_dies() {
    let cluster = PbNodes::start(|_| true);
    let run = run(&cluster.config("get"));
    assert_eq!(run.report.total.error_count(), 0);
    let (_, foreign) = cluster.keys_at(0);
    assert!(!foreign.is_empty(), "keys of the dead node were read at the other");
}

/// A worker that does not notice the loss would hold its thread for ever, so the run has a time limit.
#[test]
fn operations_without_a_key_go_on_elsewhere_when_a_node_dies() {
    let cluster = PbNodes::start(|request| matches!(request, Seen::ListKeys(_)));
    let config = cluster.config("get").replace("[{get, 1}]", "[{get, 1}, {listkeys, 1}]");
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || ended.send(run(&config).report.total.error_count()));
    let error_count = end.recv_timeout(Duration::from_secs(60)).expect("the run ends");
    assert_eq!(error_count, 0);
    let lists = |server: &PbServer| {
        server.seen().iter().filter(|request| matches!(request, Seen::ListKeys(_))).count()
    };
    assert!(
        lists(&cluster.nodes[1]) > 0,
        "a list was asked of the node that closes its connection"
    );
    assert!(lists(&cluster.nodes[0]) > 0, "lists were asked of the other node");
}

#[test]
fn a_server_without_layouts_is_told_before_the_run() {
    let server = PbServer::start(|_| ServerBehavior::Answer);
    let Err(error @ RunError::Start { .. }) = try_run(&config(&server, "get"), |_| {}) else {
        panic!("it ran")
    };
    let error = error.to_string();
    assert!(error.contains("sends no layout of its cluster: Unknown message code: 160"), "{error}");
    assert!(error.contains("riakc_pb_replica_aware = false"), "{error}");
}
