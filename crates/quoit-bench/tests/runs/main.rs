//! Whole runs of the load generator, by driver.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod check;
mod convert;
mod engines;
mod expectations;
mod http;
mod http_templated;
mod index_queries;
mod memcached;
mod nhs;
mod null;
mod pb;
mod pb_replicas;
mod pb_server;
mod redis;
mod report;
mod scripts;
mod support;
mod truth;
mod verify;
