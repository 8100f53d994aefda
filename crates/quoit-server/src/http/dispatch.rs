//! Requests by the resources that they name.

use super::connection::{HttpConnection, Request};
use super::head::Method;
use super::negotiate::accepts_media_type;
use super::refusal::Refusal;
use super::response::JSON;
use super::route::{RecordName, Route};

/// The answer to requests for Riak Search.
const NO_SEARCH: &str = "Search was removed from Riak with version 3 and is not part of this server; query \
                         secondary indexes or run MapReduce jobs instead\n";

impl HttpConnection {
    /// Answers a request by its resource. Boxes the futures of large and rare operations; otherwise the task
    /// of every idle connection would reserve space for them.
    pub(super) async fn answer_route(
        &mut self,
        request: &Request,
        route: Route<'_>,
        method: Method,
        query: &[u8],
    ) -> Result<(), Refusal> {
        match route {
            Route::Object(name) => match method {
                Method::Put | Method::Post => {
                    self.put_object(request, &name.bucket, Some(&name.key), query).await
                }
                Method::Delete => self.delete_object(request, &name, query).await,
                _ => self.get_object(request, &name, query).await,
            },
            Route::Keys(bucket) if method == Method::Post => {
                self.put_object(request, &bucket, None, query).await
            }
            Route::OldBucket(bucket) => match method {
                Method::Post => self.put_object(request, &bucket, None, query).await,
                Method::Put => Box::pin(self.put_props(request, &bucket)).await,
                _ => self.old_bucket(request, &bucket, query).await,
            },
            Route::Keys(bucket) => self.list_keys(request, &bucket, query).await,
            Route::Buckets(bucket_type) => self.list_buckets(&bucket_type, request, query).await,
            Route::Props(bucket) => match method {
                Method::Put => Box::pin(self.put_props(request, &bucket)).await,
                Method::Delete => Box::pin(self.reset_props(request, &bucket)).await,
                _ => self.get_props(request, &bucket),
            },
            Route::TypeProps(name) => match method {
                Method::Put => Box::pin(self.put_type_props(request, &name)).await,
                _ => self.get_type_props(request, &name),
            },
            Route::Walk(name, steps) => Box::pin(self.walk(request, &name, &steps)).await,
            Route::Preflist(name) => self.preflist(request, &name),
            Route::Root => self.root(request),
            Route::Ping => self.ping(request),
            Route::Livez => self.livez(),
            Route::Readyz => self.readyz(),
            Route::Stats => self.stats(request).await,
            Route::Metrics => self.metrics(request).await,
            Route::Admin(parts) => Box::pin(self.admin(request, method, &parts, query)).await,
            Route::Changes(bucket) => self.changes(&bucket, query).await,
            Route::Index(bucket, names) => self.index_query(request, &bucket, &names, query).await,
            Route::Search => Err(Refusal::Text(404, NO_SEARCH.into())),
            Route::Mapred => Box::pin(self.mapred(request, method, query)).await,
            Route::Fold(_) | Route::Membership
                if !accepts_media_type(request.head.get_list("accept").as_deref(), JSON) =>
            {
                Err(Refusal::Page(406))
            }
            Route::Fold(fold) => Box::pin(self.fold(&fold, query)).await,
            Route::Queue(name) => self.queue(request, &name, method, query).await,
            Route::Membership => {
                self.membership();
                Ok(())
            }
            Route::Datatype(bucket, Some(key)) if method != Method::Post => {
                self.get_datatype(request, &RecordName { bucket, key }, query).await
            }
            Route::Datatype(bucket, key) => {
                self.post_datatype(request, &bucket, key.as_deref(), query).await
            }
            Route::Counter(name) if method == Method::Post => {
                self.post_counter(request, &name, query).await
            }
            Route::Counter(name) => self.get_counter(request, &name, query).await,
        }
    }
}
