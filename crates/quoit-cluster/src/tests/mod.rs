//! Behaviour of the control plane.

mod buckets;
mod cluster;
mod damaged_files;
mod failing_disk;
mod model;
mod opening;
mod readers;
mod storage;
mod types;

use crate::{ControlPlane, NodeId, OpenError, Settings};
use quoit_model::hash::RingSize;
use quoit_model::key::BucketRef;
use quoit_model::props::{BucketProps, PropUpdates};
use quoit_seam::{Disk, RealDisk};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

const NODE_ID: NodeId = NodeId([7; 16]);

fn settings() -> Settings {
    Settings::new("quoit@127.0.0.1", NODE_ID)
}

/// A directory with a control file.
struct Fixture {
    directory: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("control.redb")
    }

    fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(RealDisk::open(self.directory.path()).unwrap())
    }

    fn open(&self) -> ControlPlane {
        ControlPlane::open(self.disk(), settings()).unwrap()
    }

    /// Opens the control plane of a node with these storage engines.
    fn open_with_backends(&self, names: &[&str]) -> ControlPlane {
        let backends = names.iter().map(|name| (*name).to_owned()).collect();
        ControlPlane::open(self.disk(), Settings { backends, ..settings() }).unwrap()
    }

    fn open_error(&self) -> OpenError {
        ControlPlane::open(self.disk(), settings()).map(|_| ()).unwrap_err()
    }

    fn open_with_ring(&self, ring_size: u16) -> Result<ControlPlane, OpenError> {
        let ring_size = Some(RingSize::new(ring_size).unwrap());
        ControlPlane::open(self.disk(), Settings { ring_size, ..settings() })
    }
}

fn updates(object: Value) -> PropUpdates {
    match object {
        Value::Object(map) => PropUpdates::from(map),
        other => panic!("not an object: {other}"),
    }
}

const fn typed(bucket_type: &'static str, bucket: &'static str) -> BucketRef<'static> {
    BucketRef { bucket_type: bucket_type.as_bytes(), bucket: bucket.as_bytes() }
}

fn untyped(bucket: &str) -> BucketRef<'_> {
    BucketRef::untyped(bucket.as_bytes())
}

/// Creates and activates the type `t`.
async fn with_active_type(control: &ControlPlane, props: Value) {
    control.create_type(b"t", &updates(props)).await.unwrap();
    control.activate_type(b"t").await.unwrap();
}
