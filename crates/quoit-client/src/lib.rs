//! An asynchronous client of Quoit, and of every server that speaks Riak KV's Protocol Buffers
//! interface.
//!
//! ```no_run
//! use quoit_client::{Bucket, Client, Content, LatestModified, UpdateOptions};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), quoit_client::Error> {
//!     let client = Client::builder().node("127.0.0.1:8087").build()?;
//!
//!     let nara = Bucket::new("cities").key("Nara");
//!     client.put(&nara, Content::text("population 367353")).await?;
//!
//!     if let Some(object) = client.get(&nara).await? {
//!         for sibling in &object.siblings {
//!             println!("{}", sibling.value.escape_ascii());
//!         }
//!     }
//!
//!     // Reads, changes and writes back; tries again if another client wrote in between.
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
//! A [`Client`] has a bounded pool of connections to each of its nodes. Requests go to the reachable nodes
//! in turn. On a node, a request takes an idle connection; else it opens a new one, up to the bound; else
//! it shares the least busy connection. A shared connection has several requests in flight, and their
//! answers come in the order of the requests. The client does not use an unreachable node for a back-off
//! time, which doubles with each failure. Every bound is a method of [`ClientBuilder`].
//!
//! With [`ClientBuilder::replica_aware`] the client learns the cluster's layout and sends requests about a
//! key straight to a replica of the key. That saves a hop inside the cluster. It makes no other difference,
//! since every node serves every key.
//!
//! # Failures
//!
//! Every request ends within its timeout, with an answer or with an [`Error`] that says whether the server
//! may have carried it out. The client tries a request again on another node if the server has certainly not
//! carried it out, except after a refused login. After a broken connection, and when a node does not answer
//! within [`ClientBuilder::attempt_timeout`], it also repeats idempotent requests: reads, deletes with a
//! context, and changes of bucket properties. It never sends any other write twice unless the options of the
//! write allow it.
//!
//! # Concurrent writes
//!
//! A bucket that keeps siblings (`allow_mult`) loses no concurrent write. A read returns the siblings and a
//! [`Context`]. A write with that context replaces the siblings that were read, and nothing else.
//! [`Client::get_resolved`] and [`Client::update`] do this with a [`Resolver`].
//!
//! # Data types
//!
//! Buckets of a type with the property `datatype` hold counters, sets, maps and HyperLogLogs, which merge
//! concurrent changes by themselves. [`Client::fetch`] reads such a record and [`Client::update_data_type`]
//! changes it by a [`DataTypeUpdate`]. [`Client::data_type_page`], [`Client::data_type_size`],
//! [`Client::set_contains`] and [`Client::map_field`] read a part of a large set or map.
//!
//! # Secondary indexes
//!
//! [`Content::indexes`] holds the index entries under which queries find an object. An [`IndexQuery`] asks
//! for one term, a range of terms, or a range of keys in order. [`Client::query_page`] returns the matches
//! in pages, [`Client::query`] as a stream.
//!
//! # Logins
//!
//! With [`ClientBuilder::login`] each connection begins TLS and logs in. A [`Login`] checks the node's
//! certificate against the certificate authorities of its [`TlsSettings`], and can show a client
//! certificate.
//!
//! # Limits
//!
//! The client does not speak HTTP. For full control over one connection, and for requests that have no
//! method here, there is [`Connection`] with the messages of [`wire`].
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

mod answer;
mod client;
mod connection;
mod data_type;
mod dead_peer;
mod error;
mod layout;
mod location;
mod login;
mod node;
mod object;
mod options;
mod pipeline;
mod pool;
mod resolve;
mod routing;
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
pub use login::{ClientStream, Credentials, Login, LoginSettings};
pub use object::{Content, Context, Link, Object};
pub use options::{DataTypeOptions, DeleteOptions, FetchOptions, GetOptions, PutOptions};
pub use quoit_model::key::{BucketRef, KeyRef};
pub use quoit_tls::{ClientSettings as TlsSettings, TlsError};
pub use quoit_wire as wire;
pub use quoit_wire::Quorum;
pub use resolve::{LatestModified, Resolver};
