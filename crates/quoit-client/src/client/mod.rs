//! The client and its operations, one module for each subject.

mod builder;
mod data_type;
mod data_type_query;
mod index;
mod kv;
mod listing;
mod props;
mod update;

pub use data_type::{FetchedDataType, UpdatedDataType};
pub use data_type_query::{DataTypePage, FieldPath, FieldQueries, PageCursor};
pub use index::{IndexMatch, IndexPage, IndexQuery, IndexResults, Term};
pub use kv::{Fetched, Stored};
pub use listing::Listing;
pub use props::{BucketProps, PreflistItem, ServerInfo};
pub use update::UpdateOptions;

pub use builder::ClientBuilder;

use crate::error::Error;
use crate::pool::{Pool, Repeatable};
use quoit_wire::messages::{RpbPingReq, RpbPingResp};
use std::sync::Arc;

/// A client of a cluster, or of one node. Clones share its connections.
///
/// The future of an operation may be dropped at any point. The server may still carry the request out; its
/// answer is dropped, and the connection stays usable.
#[derive(Debug, Clone)]
pub struct Client {
    pool: Arc<Pool>,
}

impl Client {
    /// Makes a builder with default settings.
    #[must_use]
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A client of one node, with default settings. It connects with its first request.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] as [`ClientBuilder::build`]; the state of the node does not matter.
    pub fn connect_to(address: impl Into<String>) -> Result<Client, Error> {
        Client::builder().node(address).build()
    }

    pub(crate) fn new(pool: Pool) -> Client {
        Client { pool: Arc::new(pool) }
    }

    /// Checks that a node of the cluster answers.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn ping(&self) -> Result<(), Error> {
        self.pool
            .call::<_, RpbPingResp>(&RpbPingReq {}, Repeatable::Safe, None, None)
            .await
            .map(drop)
    }
}
