//! An asynchronous client of Quoit, and of every server that speaks Riak KV's Protocol Buffers
//! interface.
//!
//! ```no_run
//! use quoit_client::{Client, Content, LatestModified, Location, UpdateOptions};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), quoit_client::Error> {
//!     let client = Client::builder().node("127.0.0.1:8087").build()?;
//!
//!     let nara = Location::new("cities", "Nara");
//!     client.put(&nara, Content::text("population 367353")).await?;
//!
//!     if let Some(object) = client.get(&nara).await? {
//!         for sibling in &object.siblings {
//!             println!("{}", sibling.value.escape_ascii());
//!         }
//!     }
//!
//!     // Read, change, write back; again if another client was faster.
//!     let options = UpdateOptions::default();
//!     client
//!         .update(&nara, &LatestModified, &options, |old| {
//!             let old = old.unwrap_or_default();
//!             let text = format!("{}, capital until 784", old.value.escape_ascii());
//!             Some(Content::text(text))
//!         })
//!         .await?;
//!
//!     client.delete(&nara).await
//! }
//! ```
//!
//! # Connections
//!
//! A [`Client`] has a bounded pool of connections to each of its nodes. Requests take turns
//! among the nodes that can be reached; each goes to an idle connection, or a new one while
//! there may be more, or shares the least busy one: several requests are then in flight on it,
//! and their answers come in order. A node that can't be reached is left alone for a while that
//! doubles with each failure. Every bound is a method of [`ClientBuilder`].
//!
//! With [`ClientBuilder::replica_aware`] the client learns the cluster's layout, and requests about
//! a key go straight to a node that holds it. That saves a hop inside the cluster; which node is
//! asked makes no other difference.
//!
//! # Failures
//!
//! Every request ends within its timeout, with an answer or an [`Error`] that says whether the
//! server may have carried it out. A request that was surely not carried out is tried again on
//! another node, and so are reads, also when a node does not answer within some seconds; a write is never
//! sent twice unless its options allow it.
//!
//! # Concurrent writes
//!
//! A bucket that keeps siblings (`allow_mult`) loses no concurrent write. A read gives the
//! siblings and a [`Context`]; the write that sends the context back replaces what was read, and
//! nothing else. [`Client::get_resolved`] and [`Client::update`] do this with a [`Resolver`].
//!
//! # Data types
//!
//! Buckets of a type with the property `datatype` hold counters, sets, maps and HyperLogLogs, which
//! merge concurrent changes by themselves. [`Client::fetch`] reads one,
//! [`Client::update_data_type`] changes it, [`DataTypeUpdate`] says how. Of large ones
//! [`Client::data_type_page`], [`Client::data_type_size`], [`Client::set_contains`] and
//! [`Client::map_field`] read a part.
//!
//! # Secondary indexes
//!
//! An object found by more than its key has entries in [`Content::indexes`]. [`IndexQuery`] asks for one
//! term or a range of them, or for keys in order; [`Client::query_page`] answers in pages,
//! [`Client::query`] as a stream.
//!
//! # Logins
//!
//! With [`ClientBuilder::login`] each connection begins TLS and logs in. [`Login`] holds the node against the
//! authorities of its [`TlsSettings`], and may show a certificate.
//!
//! # Limits
//!
//! No HTTP. For full control over one
//! connection, or for requests that have no method here, there is [`Connection`] with the
//! messages of [`wire`].

mod answer;
mod client;
mod connection;
mod data_type;
mod dead_peer;
mod error;
mod layout;
mod location;
mod node;
mod object;
mod options;
mod pipeline;
mod pool;
mod resolve;
mod routing;
mod secure;
mod settings;

pub use client::{
    BucketProps, Client, ClientBuilder, DataTypePage, Fetched, FetchedDataType, FieldPath,
    FieldQueries, IndexMatch, IndexPage, IndexQuery, IndexResults, Listing, PageCursor,
    PreflistItem, ServerInfo, Stored, Term, UpdateOptions, UpdatedDataType,
};
pub use connection::Connection;
pub use data_type::{DataTypeUpdate, DataTypeValue, FieldKind, MapUpdate, MapValue, SetUpdate};
pub use dead_peer::notice_dead_peer;
pub use error::{Error, ServerError};
pub use layout::{Layout, LayoutError, LayoutNode};
pub use location::{Bucket, Location};
pub use object::{Content, Context, Link, Object};
pub use options::{DataTypeOptions, DeleteOptions, FetchOptions, GetOptions, PutOptions};
pub use quoit_tls::{ClientSettings as TlsSettings, TlsError};
pub use quoit_wire as wire;
pub use quoit_wire::Quorum;
pub use resolve::{LatestModified, Resolver};
pub use secure::{ClientStream, Login, LoginSettings};
