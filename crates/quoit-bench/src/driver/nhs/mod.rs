//! The driver of a mixed workload modelled on a national health service.
//!
//! Records are updated and read again and again; documents are written once. Optionally the driver measures
//! the time until a document arrives in a second, replicated cluster.

mod background;
mod documents;
mod keys;
mod plan;
mod prepare;
mod records;
#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use quoit_client::wire::messages::{RpbContent, RpbGetReq, RpbGetResp, RpbPutReq, RpbPutResp};
use rand::rngs::StdRng;

use self::background::{Background, BackgroundQuery, QueriedCluster};
use self::keys::WorkerIdentity;
use self::plan::NhsPlan;
use super::http_link::HttpLink;
use super::indexes;
use super::pb_link::{PbLink, Reconnects};
use super::pb_replicas::{PbLinks, Routing};
use super::{Driver, Inputs, Outcome, StartError, SystemRequirements, key_bytes};
use crate::config::{Config, ConfigError, Target};
use crate::term::Term;
use crate::worker_place::WorkerPlace;

/// Time limit for connecting to the second cluster.
const REPL_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Buckets of `put_unique_bet365`, which measures the cost of long names. Each worker uses one.
const LONG_BUCKETS: [&str; 2] = [
    "documents_in_a_bucket_with_a_long_name_first",
    "documents_in_a_bucket_with_a_long_name_second",
];

/// One worker: its connections and its progress.
#[derive(Debug)]
pub(super) struct Nhs {
    pb: PbLinks,
    /// The connection to the second cluster, if it could be reached.
    repl: Option<PbLink>,
    http: HttpLink,
    http_target: Target,
    identity: WorkerIdentity,
    long_bucket: &'static str,
    background: Background,
    /// The cluster that background queries go to.
    asked: Rc<QueriedCluster>,
    /// Generator of documents. It is not seeded, because values never are.
    strong: StdRng,
    /// Number of records written.
    record_count: u64,
    /// Number of the next document to be written. Documents in the long bucket take numbers as well, as in
    /// basho_bench, so in a mix with them some numbers have no document in the document bucket.
    next_document: u64,
    /// Number of the oldest document that is not deleted.
    oldest_document: u64,
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NhsOperation {
    GetRecord,
    GetRecordByHttp,
    UpdateRecord {
        with_indexes: bool,
    },
    PutDocument {
        with_check: bool,
    },
    PutDocumentInLongBucket,
    GetDocument,
    DeleteDocument,
    GetGenerated,
    UpdateGenerated,
    QueryPostcodes,
    QueryBirths,
    /// Reads a generated key. From time to time one worker does it with the parameter that forces a
    /// comparison of hash trees.
    ForceExchange,
    Background(BackgroundQuery),
}

impl Driver for Nhs {
    const NAME: &'static str = "nhs";
    const OPERATIONS: &'static str = "alwaysget_pb, alwaysget_http, alwaysget_updatewithout2i, \
         alwaysget_updatewith2i, put_unique, put_unique_checkrepl, put_unique_bet365, get_unique, \
         delete_unique, get_pb, update_with2i, postcodequery_http, dobquery_http, force_aae, list_keys, \
         aae_query, segment_fold";

    const TARGET_LISTS: &'static [&'static str] = &["pb", "http", "replpb"];

    type Operation = NhsOperation;
    type Plan = NhsPlan;

    fn plan(config: &Config) -> Result<NhsPlan, ConfigError> {
        NhsPlan::read(config, Self::NAME)
    }

    fn system_requirements(plan: &NhsPlan) -> SystemRequirements {
        plan.system_requirements()
    }

    fn notices(plan: &NhsPlan) -> Vec<String> {
        plan.notices()
    }

    fn operation(_: &NhsPlan, term: &Term) -> Option<NhsOperation> {
        Some(match term.as_atom()? {
            "alwaysget_pb" => NhsOperation::GetRecord,
            "alwaysget_http" => NhsOperation::GetRecordByHttp,
            "alwaysget_updatewithout2i" => NhsOperation::UpdateRecord { with_indexes: false },
            "alwaysget_updatewith2i" => NhsOperation::UpdateRecord { with_indexes: true },
            "put_unique" => NhsOperation::PutDocument { with_check: false },
            "put_unique_checkrepl" => NhsOperation::PutDocument { with_check: true },
            "put_unique_bet365" => NhsOperation::PutDocumentInLongBucket,
            "get_unique" => NhsOperation::GetDocument,
            "delete_unique" => NhsOperation::DeleteDocument,
            "get_pb" => NhsOperation::GetGenerated,
            "update_with2i" => NhsOperation::UpdateGenerated,
            "postcodequery_http" => NhsOperation::QueryPostcodes,
            "dobquery_http" => NhsOperation::QueryBirths,
            "force_aae" => NhsOperation::ForceExchange,
            "list_keys" => NhsOperation::Background(BackgroundQuery::ListKeys),
            "aae_query" => NhsOperation::Background(BackgroundQuery::CountRecords),
            "segment_fold" => NhsOperation::Background(BackgroundQuery::FetchSegments),
            _ => return None,
        })
    }

    fn missing(term: &Term) -> Option<&'static str> {
        Some(match term.as_atom()? {
            "alwaysget_updatewith2i_http" => "use alwaysget_updatewith2i, which speaks PB",
            "put_unique_http" => "use put_unique, which speaks PB",
            "get_unique_http" => "use get_unique, which speaks PB",
            "delete_unique_http" => "use delete_unique, which speaks PB",
            _ => return None,
        })
    }

    fn draws_values(operation: NhsOperation) -> bool {
        matches!(operation, NhsOperation::UpdateRecord { .. } | NhsOperation::UpdateGenerated)
    }

    async fn prepare(plan: &NhsPlan) -> Vec<String> {
        prepare::prepare(plan).await
    }

    async fn connect(plan: &NhsPlan, place: WorkerPlace) -> Result<Self, StartError> {
        let repl_target = place.choose(&plan.repl_targets);
        Ok(Self {
            pb: PbLinks::open(&plan.pb_targets, place, plan.pb_timeout, Routing::Target).await?,
            repl: PbLink::open(repl_target, REPL_CONNECT_TIMEOUT).await.ok(),
            http: HttpLink::new(plan.security.clone()),
            http_target: place.choose(&plan.http_targets).clone(),
            background: Background::new(place),
            asked: Rc::new(QueriedCluster {
                target: place.choose(&plan.pb_targets).clone(),
                bucket: plan.record_bucket.name.clone(),
                timeout: plan.fold_timeout,
                notices: plan.notices.clone(),
            }),
            identity: WorkerIdentity::new(place.number, &plan.node_name),
            long_bucket: *place.choose(&LONG_BUCKETS),
            strong: rand::make_rng(),
            record_count: 0,
            next_document: 1,
            oldest_document: 1,
        })
    }

    async fn perform(
        &mut self,
        plan: &NhsPlan,
        operation: NhsOperation,
        inputs: &mut Inputs,
    ) -> Outcome {
        let is_reading =
            matches!(operation, NhsOperation::GetRecord | NhsOperation::GetRecordByHttp);
        if is_reading && self.record_count <= plan.records.count_min {
            return Outcome::Silent;
        }
        let mut generated = None;
        let operation = match operation {
            NhsOperation::ForceExchange
                if !self.background.is_to_force(std::time::Instant::now()) =>
            {
                NhsOperation::GetGenerated
            }
            operation => operation,
        };
        if draws_key(operation) {
            match inputs.next_key() {
                Ok(key) => {
                    generated = Some(Bytes::copy_from_slice(&key_bytes(plan.key_kind, key)));
                }
                Err(_) => return Outcome::Stop,
            }
        }
        let updates =
            matches!(operation, NhsOperation::UpdateRecord { .. } | NhsOperation::UpdateGenerated);
        let value = if updates { inputs.next_shared_bytes() } else { Ok(Bytes::new()) };
        let Ok(value) = value else { return Outcome::Stop };
        let done = match operation {
            NhsOperation::GetRecord => self.get_record(plan, inputs).await,
            NhsOperation::GetRecordByHttp => self.get_record_by_http(plan, inputs).await,
            NhsOperation::UpdateRecord { with_indexes } => {
                self.update_record(plan, inputs, value, with_indexes).await
            }
            NhsOperation::PutDocument { with_check } => self.put_document(plan, with_check).await,
            NhsOperation::PutDocumentInLongBucket => self.put_in_long_bucket(plan).await,
            NhsOperation::GetDocument => self.get_document(plan, inputs).await,
            NhsOperation::DeleteDocument => self.delete_document(plan).await,
            NhsOperation::GetGenerated => {
                let key = generated.unwrap_or_default();
                self.get(plan, &plan.record_bucket.name, key).await.map(drop)
            }
            NhsOperation::UpdateGenerated => {
                self.update_generated(plan, generated.unwrap_or_default(), inputs, value).await
            }
            NhsOperation::ForceExchange => {
                self.force_exchange(plan, &generated.unwrap_or_default()).await
            }
            NhsOperation::Background(query) => {
                self.background.start(query, &self.asked);
                Ok(())
            }
            NhsOperation::QueryPostcodes => {
                let query = indexes::postcode_path(inputs.random());
                self.query(plan, &query).await
            }
            NhsOperation::QueryBirths => {
                let query = indexes::birth_path(inputs.random());
                self.query(plan, &query).await
            }
        };
        match done {
            Ok(()) => Outcome::Success,
            Err(reason) => Outcome::Failure(reason),
        }
    }
}

impl Nhs {
    /// Reconnects if an earlier operation lost the connection.
    async fn ready(&mut self, plan: &NhsPlan) -> Result<(), Term> {
        if self.pb.is_down() {
            self.pb.reconnect(&mut Reconnects::within(plan.pb_timeout)).await?;
        }
        Ok(())
    }

    async fn get(
        &mut self,
        plan: &NhsPlan,
        bucket: &Bytes,
        key: Bytes,
    ) -> Result<RpbGetResp, Term> {
        self.ready(plan).await?;
        let request = RpbGetReq { bucket: bucket.clone(), key, ..RpbGetReq::default() };
        Ok(self.pb.link().call(&request, plan.pb_timeout).await?)
    }

    async fn put(
        &mut self,
        plan: &NhsPlan,
        bucket: &Bytes,
        key: Bytes,
        vclock: Option<Bytes>,
        content: RpbContent,
    ) -> Result<(), Term> {
        self.ready(plan).await?;
        let content_type = Some(Bytes::from_static(b"application/octet-stream"));
        let content = RpbContent { content_type, ..content };
        let (bucket, key) = (bucket.clone(), Some(key));
        let request = RpbPutReq { bucket, key, vclock, content, ..RpbPutReq::default() };
        let _: RpbPutResp = self.pb.link().call(&request, plan.pb_timeout).await?;
        Ok(())
    }
}

/// True if the operation uses a key of the generator.
fn draws_key(operation: NhsOperation) -> bool {
    use NhsOperation::{ForceExchange, GetGenerated, UpdateGenerated};
    matches!(operation, GetGenerated | UpdateGenerated | ForceExchange)
}

fn not_found(key: &Bytes) -> Term {
    Term::Tuple(vec![Term::atom("not_found"), Term::Binary(key.to_vec())])
}
