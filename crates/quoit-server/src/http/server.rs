//! The list of resources, health checks, and preference lists.

use super::connection::{HttpConnection, Request};
use super::negotiate::{accepts_media_type, choose_media_type};
use super::refusal::Refusal;
use super::response::{HTML, JSON, TEXT, reply};
use super::route::RecordName;
use serde_json::json;

/// Names of resources and their paths. Clients detect features by them. If a name has several paths, the
/// preferred one comes last, because most JSON parsers keep the last of duplicate members.
const RESOURCES: [(&str, &str); 42] = [
    ("riak_kv_wm_buckets", "/riak"),
    ("riak_kv_wm_buckets", "/types"),
    ("riak_kv_wm_buckets", "/buckets"),
    ("riak_kv_wm_bucket_type", "/types"),
    ("riak_kv_wm_counter", "/buckets"),
    ("riak_kv_wm_crdt", "/types"),
    ("riak_kv_wm_index", "/types"),
    ("riak_kv_wm_index", "/buckets"),
    ("riak_kv_wm_keylist", "/riak"),
    ("riak_kv_wm_keylist", "/types"),
    ("riak_kv_wm_keylist", "/buckets"),
    ("riak_kv_wm_link_walker", "/riak"),
    ("riak_kv_wm_link_walker", "/types"),
    ("riak_kv_wm_link_walker", "/buckets"),
    ("riak_kv_wm_mapred", "/mapred"),
    ("riak_kv_wm_object", "/riak"),
    ("riak_kv_wm_object", "/types"),
    ("riak_kv_wm_object", "/buckets"),
    ("riak_kv_wm_ping", "/ping"),
    ("riak_kv_wm_preflist", "/types"),
    ("riak_kv_wm_preflist", "/buckets"),
    ("riak_kv_wm_props", "/riak"),
    ("riak_kv_wm_props", "/types"),
    ("riak_kv_wm_props", "/buckets"),
    ("riak_kv_wm_queue", "/membership_request"),
    ("riak_kv_wm_queue", "/queuename"),
    ("riak_kv_wm_aaefold", "/cachedtrees"),
    ("riak_kv_wm_aaefold", "/rangetrees"),
    ("riak_kv_wm_aaefold", "/rangerepl"),
    ("riak_kv_wm_aaefold", "/rangerepair"),
    ("riak_kv_wm_aaefold", "/siblings"),
    ("riak_kv_wm_aaefold", "/objectsizes"),
    ("riak_kv_wm_aaefold", "/objectstats"),
    ("riak_kv_wm_aaefold", "/tombs"),
    ("riak_kv_wm_aaefold", "/aaebucketlist"),
    ("riak_kv_wm_stats", "/stats"),
    ("quoit_livez", "/livez"),
    ("quoit_readyz", "/readyz"),
    ("quoit_metrics", "/metrics"),
    ("quoit_admin", "/admin/v1/ping"),
    ("quoit_admin", "/admin/v1/status"),
    ("quoit_admin", "/admin/v1/bucket-types"),
];

impl HttpConnection {
    /// Answers with the list of resources.
    pub(super) fn root(&mut self, request: &Request) -> Result<(), Refusal> {
        let offers = [HTML, JSON];
        let chosen = choose_media_type(request.head.get_list("accept").as_deref(), &offers);
        let chosen = chosen.ok_or(Refusal::Page(406))?;
        let document = if chosen == JSON { list_as_json() } else { list_as_html() };
        let links: Vec<_> =
            RESOURCES.iter().map(|(name, path)| format!("<{path}>; rel=\"{name}\"")).collect();
        reply(&mut self.out, self.form, 200)
            .varies_by_accept()
            .header("Link", links.join(", ").as_bytes())
            .content_type(chosen)
            .finish(document.as_bytes());
        Ok(())
    }

    /// Answers that the node is alive.
    pub(super) fn ping(&mut self, request: &Request) -> Result<(), Refusal> {
        if !accepts_media_type(request.head.get_list("accept").as_deref(), HTML) {
            return Err(Refusal::Page(406));
        }
        reply(&mut self.out, self.form, 200).content_type(HTML).finish(b"OK");
        Ok(())
    }

    /// Answers that the process responds, for supervisors that restart a process that does not.
    pub(super) fn livez(&mut self) -> Result<(), Refusal> {
        reply(&mut self.out, self.form, 200).content_type(TEXT).finish(b"alive\n");
        Ok(())
    }

    /// Answers whether the node serves clients, for load balancers. If it does not, the answer has a line for
    /// each reason.
    pub(super) fn readyz(&mut self) -> Result<(), Refusal> {
        let reasons = self.reasons_not_to_serve();
        if reasons.is_empty() {
            reply(&mut self.out, self.form, 200).content_type(TEXT).finish(b"ready\n");
            return Ok(());
        }
        let lines: String = reasons.iter().map(|reason| format!("{reason}\n")).collect();
        Err(Refusal::Text(503, lines.into()))
    }

    fn reasons_not_to_serve(&self) -> Vec<String> {
        let gate = self.context.readiness.refusal().map(|reason| reason.to_string());
        let stops = self.socket.is_stopping().then(|| "the node is stopping".to_owned());
        let failure = self.context.store.engine().stats().write_failure;
        let failure =
            failure.map(|failure| format!("the node takes no writes: {}", failure.reason));
        gate.into_iter().chain(stops).chain(failure).collect()
    }

    /// Answers with the preference list of a record.
    pub(super) fn preflist(
        &mut self,
        request: &Request,
        name: &RecordName<'_>,
    ) -> Result<(), Refusal> {
        self.check_origin(&request.head)?;
        if !accepts_media_type(request.head.get_list("accept").as_deref(), JSON) {
            return Err(Refusal::Page(406));
        }
        let places: Vec<_> = self
            .context
            .store
            .preflist(name.as_ref())?
            .into_iter()
            .map(|place| {
                let (node, primary) = (place.node, place.primary);
                json!({"partition": place.partition.0, "node": node, "primary": primary})
            })
            .collect();
        self.write_json(&json!({"preflist": places}));
        Ok(())
    }
}

fn list_as_json() -> String {
    let members: Vec<_> =
        RESOURCES.iter().map(|(name, path)| format!("\"{name}\":\"{path}\"")).collect();
    format!("{{{}}}", members.join(","))
}

fn list_as_html() -> String {
    let items: String = RESOURCES
        .iter()
        .map(|(name, path)| format!("<li><a href=\"{path}\">{name}</a></li>"))
        .collect();
    format!("<!DOCTYPE html><html><body><ul>{items}</ul></body></html>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn clients_that_keep_the_last_of_duplicate_names_see_the_present_urls() {
        let list: Value = serde_json::from_str(&list_as_json()).expect("JSON");
        assert_eq!(list["riak_kv_wm_buckets"], "/buckets");
        assert_eq!(list["riak_kv_wm_object"], "/buckets");
        assert_eq!(list["riak_kv_wm_bucket_type"], "/types");
        assert!(list_as_html().contains("riak_kv_wm_buckets"));
    }
}
