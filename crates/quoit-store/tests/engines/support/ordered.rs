//! The engines on ordered stores, by name.

use quoit_seam::{Clock, Disk, Execution, RealDisk};
use quoit_store::error::StoreError;
use quoit_store::ordered::{
    LsmSettings, OrderedEngine, OrderedReport, OrderedSettings, TreeSettings,
};
use std::path::Path;
use std::sync::Arc;

/// All engines on ordered stores.
pub const ORDERED: [&str; 3] = ["leveldb", "leveled", "innostore"];

/// Opens an engine in a real directory. `innostore` gets the same cache size and minimum free space as the
/// others.
///
/// # Panics
///
/// If `engine` isn't the name of an engine on ordered stores.
pub fn open_ordered(
    engine: &str,
    directory: &Path,
    clock: Arc<dyn Clock>,
    execution: &dyn Execution,
    settings: OrderedSettings,
    of_trees: LsmSettings,
) -> Result<(OrderedEngine, OrderedReport), StoreError> {
    match engine {
        "leveldb" => OrderedEngine::open_leveldb(directory, clock, execution, settings, of_trees),
        "leveled" => OrderedEngine::open_leveled(directory, clock, execution, settings, of_trees),
        "innostore" => {
            let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(directory)?);
            let LsmSettings { cache_bytes, disk_free_bytes_min, .. } = of_trees;
            let of_tree = TreeSettings { cache_bytes, disk_free_bytes_min, ..Default::default() };
            OrderedEngine::open_innostore(&disk, clock, execution, settings, of_tree)
        }
        _ => panic!("{engine} is no engine on an ordered store"),
    }
}
