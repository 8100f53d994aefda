//! Preparation that runs once before the workers start.

use super::REPL_CONNECT_TIMEOUT;
use super::plan::NhsPlan;
use crate::config::Target;
use crate::driver::http_link::{HttpLink, Method, SEGMENT, append_to_path};
use crate::driver::pb_link::PbLink;
use crate::http::HttpRequest;
use crate::term::Term;
use crate::worker_place::WorkerPlace;

/// Sets the properties of both buckets over HTTP and looks for the second cluster. Returns a notice for
/// each step that failed.
pub(super) async fn prepare(plan: &NhsPlan) -> Vec<String> {
    let first = WorkerPlace { number: 1, count: 1 };
    let target = first.choose(&plan.http_targets);
    let mut notices = Vec::new();
    if let Err(reason) = set_properties(plan, target, &mut notices).await {
        notices.push(format!("{target} does not answer ({reason}): buckets stay as they are"));
    }
    let repl_target = first.choose(&plan.repl_targets);
    let notice = match PbLink::open(repl_target, REPL_CONNECT_TIMEOUT).await {
        Err(error) => {
            Some(format!("no second cluster ({error}): put_unique_checkrepl is a plain put_unique"))
        }
        // If the addresses are the same, the notices about the settings already say so.
        Ok(second) if plan.checks_replication && plan.notices().is_empty() => {
            let is_first = is_first_cluster(plan, second).await;
            is_first.then(|| {
                format!(
                    "{repl_target} of replpb_ips belongs to the cluster of pb_ips: put_unique_checkrepl \
                     measures no replication"
                )
            })
        }
        Ok(_) => None,
    };
    notices.extend(notice);
    notices
}

/// True if the server of `second` belongs to the cluster that is written to, that is, if both layouts share
/// a node. False if a server sends no layout, as Riak's: such servers are only told apart by their
/// addresses.
async fn is_first_cluster(plan: &NhsPlan, mut second: PbLink) -> bool {
    let target = (WorkerPlace { number: 1, count: 1 }).choose(&plan.pb_targets);
    let Ok(mut first) = PbLink::open(target, REPL_CONNECT_TIMEOUT).await else { return false };
    let layouts = (
        first.layout(None, REPL_CONNECT_TIMEOUT).await,
        second.layout(None, REPL_CONNECT_TIMEOUT).await,
    );
    let (Ok(Some(first)), Ok(Some(second))) = layouts else { return false };
    first.nodes().iter().any(|node| second.nodes().contains(node))
}

/// Sets the properties of both buckets. Gives up at the first request without a response.
async fn set_properties(
    plan: &NhsPlan,
    target: &Target,
    notices: &mut Vec<String>,
) -> Result<(), Term> {
    let mut link = HttpLink::new(plan.security.clone());
    for bucket in [&plan.record_bucket, &plan.document_bucket] {
        let confirms = format!("{{\"props\":{{\"node_confirms\":{}}}}}", plan.node_confirms);
        let sync = format!("{{\"props\":{{\"sync_on_write\":\"{}\"}}}}", bucket.sync);
        for props in [confirms, sync] {
            let status = put_props(&mut link, target, plan, &bucket.name, &props).await?;
            if !(200..300).contains(&status) {
                let name = String::from_utf8_lossy(&bucket.name);
                notices.push(format!("bucket {name} does not take {props}: status {status}"));
            }
        }
    }
    Ok(())
}

/// Sets properties of a bucket and returns the status of the response.
async fn put_props(
    link: &mut HttpLink,
    target: &Target,
    plan: &NhsPlan,
    bucket: &[u8],
    props: &str,
) -> Result<u16, Term> {
    let mut head = b"PUT /buckets/".to_vec();
    append_to_path(&mut head, bucket, SEGMENT);
    let length = props.len();
    let rest = format!(
        "/props HTTP/1.1\r\nHost: {target}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    head.extend_from_slice(rest.as_bytes());
    let request = HttpRequest { head: &head, body: props.as_bytes() };
    let response = link.request(target, plan.http_timeout, Method::Put, request).await?;
    Ok(response.status)
}
