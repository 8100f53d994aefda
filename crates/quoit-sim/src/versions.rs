//! The versions of the protocol between nodes that the programs of a run speak.
//!
//! The newer one is made up: it follows the newest that there is, and data types stand for what it adds.

use quoit_cluster::{PropertyNeed, VersionRange};

/// The versions that programs speak before they are upgraded.
pub const OLDER: VersionRange = VersionRange::CURRENT;
/// The versions that upgraded programs speak.
pub const NEWER: VersionRange = VersionRange { min: OLDER.min, max: OLDER.max + 1 };
/// The properties that only the newer version knows.
pub const PROPERTY_NEEDS: &[PropertyNeed] = &[PropertyNeed {
    property: "data type",
    version: NEWER.max,
    is_in: |props| props.datatype.is_some(),
}];
