//! Hash trees by which Riak compares clusters, in the administration API: one tree for all records of
//! buckets with the same `n_val`.

use super::{allow, error};
use crate::http::{HttpConnection, Method, Refusal, query_value};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use quoit_core::{RequestError, TreeClock};
use quoit_model::context::encode_riak_context;
use quoit_model::segments::{Segments, TreeSize};
use serde_json::{Value, json};

/// Largest number of branches or segments in a request.
const NUMBER_COUNT_MAX: usize = 1_024;

impl HttpConnection {
    /// Answers a request below `/admin/v1/trees`.
    pub(super) async fn trees(
        &self,
        method: Method,
        names: &[&[u8]],
        query: &[u8],
    ) -> Result<Value, Refusal> {
        let [n_val, what] = names else { return Err(no_tree()) };
        allow(method, &[Method::Get, Method::Head])?;
        let n_val = std::str::from_utf8(n_val).ok().and_then(|text| text.parse().ok());
        let n_val: u32 = n_val.filter(|n_val| *n_val > 0).ok_or_else(no_tree)?;
        let store = &self.context.store;
        match *what {
            b"root" => {
                let root = store.riak_trees().root(n_val).await.map_err(|fault| failed(&fault))?;
                Ok(json!({"n_val": n_val, "root": STANDARD.encode(root)}))
            }
            b"branches" => {
                let numbers = numbers(query, "branches")?;
                let branches = store.riak_trees().branches(n_val, &numbers).await;
                let branches = branches.map_err(|fault| failed(&fault))?;
                let branch = |(number, branch): (&u32, &bytes::Bytes)| {
                    let leaves = STANDARD.encode(branch);
                    json!({"branch": number, "leaves": leaves})
                };
                let branches: Vec<Value> = numbers.iter().zip(&branches).map(branch).collect();
                Ok(json!({"n_val": n_val, "branches": branches}))
            }
            b"clocks" => {
                let segments = Segments::new(TreeSize::Large, numbers(query, "segments")?);
                let segments =
                    segments.map_err(|fault| error(400, "invalid_fold", &fault.to_string()))?;
                let clocks = store.riak_trees().clocks(n_val, &segments, None).await;
                let clocks = clocks.map_err(|fault| failed(&fault))?;
                let keys: Vec<Value> = clocks.iter().map(clock_json).collect();
                Ok(json!({"n_val": n_val, "keys": keys}))
            }
            _ => Err(no_tree()),
        }
    }
}

fn clock_json(clock: &TreeClock) -> Value {
    let name = |name: &[u8]| percent_encode(name, NON_ALPHANUMERIC).to_string();
    json!({
        "type": name(&clock.bucket_type),
        "bucket": name(&clock.bucket),
        "key": name(&clock.key),
        "vclock": STANDARD.encode(encode_riak_context(&clock.clock)),
        "modified_secs": clock.modified_secs,
    })
}

fn no_tree() -> Refusal {
    error(404, "no_tree", "wanted trees/N_VAL/root, trees/N_VAL/branches or trees/N_VAL/clocks")
}

fn failed(fault: &RequestError) -> Refusal {
    error(503, "unavailable", &fault.to_string())
}

/// The comma-separated numbers of a query parameter.
fn numbers(query: &[u8], name: &str) -> Result<Vec<u32>, Refusal> {
    let given = query_value(query, name).unwrap_or_default();
    let given = String::from_utf8_lossy(&given);
    let numbers: Option<Vec<u32>> = given.split(',').map(|number| number.parse().ok()).collect();
    let numbers = numbers.filter(|numbers| numbers.len() <= NUMBER_COUNT_MAX);
    numbers.ok_or_else(|| {
        let message =
            format!("{name}={given}: wanted up to {NUMBER_COUNT_MAX} numbers, with commas between");
        error(400, "invalid_fold", &message)
    })
}
