//! Dispatches other nodes' requests to the parts that answer them.

use super::ReplicatedStore;
use crate::refusal::{Refusal, refuse};
use quoit_cluster::{IncomingRequest, Responder, Service};
use quoit_wire::internode::grants::{METHOD_GRANT, METHOD_RELEASE};
use quoit_wire::internode::{
    changes, data, exchange, maps, operators, ranges, reap, replication, staging, transfer, trees,
};
use std::sync::{Arc, Weak};

/// Receives the data plane's requests for a store.
pub(super) struct StoreService {
    /// Weak, because the transport holds the service and the store holds the transport.
    pub(super) store: Weak<ReplicatedStore>,
}

impl Service for StoreService {
    fn serve(&self, request: IncomingRequest, reply: Responder) {
        let Some(store) = self.store.upgrade() else { return };
        let request = &request;
        macro_rules! part {
            ($part:ident) => {
                Arc::clone(&store.$part)
            };
        }
        match request.method {
            data::METHOD_FETCH => part!(replica_server).serve_fetch(request, reply),
            data::METHOD_STORE => part!(replica_server).serve_store(request, reply),
            data::METHOD_JOIN => part!(replica_server).serve_join(request, reply),
            data::METHOD_FORWARD => part!(coordinator).serve_forward(request, reply),
            data::METHOD_SCAN => part!(listings).serve_scan(request, reply),
            data::METHOD_LIST_BUCKETS => part!(listings).serve_list_buckets(request, reply),
            METHOD_GRANT => part!(grants).serve_grant(request, reply),
            METHOD_RELEASE => part!(grants).serve_release(request, reply),
            reap::METHOD_HOLD => part!(reaper).serve_hold(request, reply),
            reap::METHOD_REAP => part!(reaper).serve_reap(request, reply),
            reap::METHOD_TAKE_REAPED => part!(reaper).serve_take_reaped(request, reply),
            reap::METHOD_ASK_UNSETTLED => part!(reaper).serve_ask_unsettled(request, reply),
            transfer::METHOD_OFFER => part!(delivery).serve_offer(request, reply),
            transfer::METHOD_DELIVER => part!(delivery).serve_deliver(request, reply),
            transfer::METHOD_COMPLETE => part!(transfers).serve_complete(request, reply),
            operators::METHOD_ASK_TRANSFERS => part!(transfers).serve_ask_transfers(reply),
            operators::METHOD_SET_TRANSFERS => part!(transfers).serve_set_transfers(request, reply),
            exchange::METHOD_COMPARE => part!(anti_entropy).serve_compare(request, reply),
            exchange::METHOD_DESCEND => part!(anti_entropy).serve_descend(request, reply),
            exchange::METHOD_PULL => part!(anti_entropy).serve_pull(request, reply),
            ranges::METHOD_COMPARE_RANGES => {
                part!(anti_entropy).serve_compare_ranges(request, reply)
            }
            ranges::METHOD_READ_RANGES => part!(anti_entropy).serve_read_ranges(request, reply),
            ranges::METHOD_TAKE_RANGES => part!(anti_entropy).serve_take_ranges(request, reply),
            staging::METHOD_OPEN_STAGING => part!(delivery).serve_open_staging(request, reply),
            staging::METHOD_STAGE_PAGES => part!(delivery).serve_stage_pages(request, reply),
            staging::METHOD_FINISH_STAGING => part!(delivery).serve_finish_staging(request, reply),
            staging::METHOD_DROP_STAGING => part!(delivery).serve_drop_staging(request, reply),
            replication::METHOD_COMMAND => part!(replication).serve_command(request, reply),
            replication::METHOD_ASK_DIGESTS => part!(replication).serve_ask_digests(request, reply),
            changes::METHOD_ASK_CHANGES => part!(change_feeds).serve_ask(request, reply),
            trees::METHOD_ASK_TREE => part!(riak_trees).serve_ask_tree(request, reply),
            trees::METHOD_ASK_TREE_CLOCKS => {
                part!(riak_trees).serve_ask_tree_clocks(request, reply)
            }
            maps::METHOD_MAP => part!(listings).serve_map(request, reply),
            maps::METHOD_END_JOB => part!(listings).serve_end_job(request, reply),
            method => refuse(reply, &Refusal::Malformed(format!("no method {method:#06x}"))),
        }
    }
}
