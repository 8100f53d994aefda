//! Whole runs of the load generator, by driver.

mod http;
mod null;
mod support;
