//! The client and its operations, by subject.

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
use crate::pool::{Pool, Repeat};
use quoit_wire::messages::{RpbPingReq, RpbPingResp};
use std::sync::Arc;

/// A client of a cluster, or of one node. Clones share its connections.
///
/// Futures of its operations may be dropped at any point: the request may still be carried out,
/// its answer is thrown away, and the connection stays good.
#[derive(Debug, Clone)]
pub struct Client {
    pool: Arc<Pool>,
}

impl Client {
    /// Settings for a client.
    #[must_use]
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A client of one node, with default settings.
    ///
    /// # Errors
    ///
    /// None that depend on the node: nothing is connected yet.
    pub fn connect_to(address: impl Into<String>) -> Result<Client, Error> {
        Client::builder().node(address).build()
    }

    pub(crate) fn new(pool: Pool) -> Client {
        Client { pool: Arc::new(pool) }
    }

    /// Asks one node whether it is there.
    ///
    /// # Errors
    ///
    /// [`Error`] if none answers.
    pub async fn ping(&self) -> Result<(), Error> {
        self.pool.call::<_, RpbPingResp>(&RpbPingReq {}, Repeat::Safe, None, None).await.map(drop)
    }
}
