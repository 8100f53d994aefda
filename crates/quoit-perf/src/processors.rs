//! Assignment of processors: the driver and the servers run on different ones unless they are to share
//! them.
//!
//! The driver does not sleep, so it has the first processor for itself. Servers have all others.

use anyhow::{Context, Result, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::OnceLock;

/// The driver's processors.
static DRIVER: OnceLock<CpuSet> = OnceLock::new();

/// Pins this thread, and the servers that it starts, to all processors except the driver's, unless the
/// processors are shared.
pub(crate) fn reserve_driver_cpu(shared: bool) -> Result<()> {
    let all = sched_getaffinity(None).context("asking for the processors")?;
    if shared {
        println!("processors: {} for the driver and all servers\n", all.count());
        DRIVER.get_or_init(|| all);
        return Ok(());
    }
    let (mut driver, mut servers) = (CpuSet::new(), all);
    if let Some(first) = (0..CpuSet::MAX_CPU).find(|number| all.is_set(*number)) {
        driver.set(first);
        servers.unset(first);
    }
    if servers.count() == 0 {
        bail!("there is one processor; with --shared-processors driver and servers share it");
    }
    println!("processors: 1 for the driver, {} for the servers\n", servers.count());
    DRIVER.get_or_init(|| driver);
    sched_setaffinity(None, &servers).context("choosing the servers' processors")
}

/// Pins this thread to the driver's processor.
pub(crate) fn pin_to_driver_cpu() -> Result<()> {
    let driver = DRIVER.get().context("the processors are divided first")?;
    sched_setaffinity(None, driver).context("choosing the driver's processor")
}
