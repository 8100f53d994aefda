//! Versions of the internode protocol that the programs of a run speak.
//!
//! The newer version is made up: it follows the newest released one, and data types stand for what it
//! adds.

use quoit_cluster::{PropertyNeed, VersionRange};

/// Versions that programs speak before they are upgraded.
pub const OLDER: VersionRange = VersionRange::CURRENT;
/// Versions that upgraded programs speak.
pub const NEWER: VersionRange = VersionRange { min: OLDER.min, max: OLDER.max + 1 };
/// Bucket properties that only the newer version knows.
pub const PROPERTY_NEEDS: &[PropertyNeed] = &[PropertyNeed {
    property: "data type",
    version: NEWER.max,
    is_in: |props| props.datatype.is_some(),
}];
