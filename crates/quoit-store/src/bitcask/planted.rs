//! Planted faults of the engine. The simulator plants them for its process, the crash tests for one thread,
//! because other tests run beside it.

#[cfg(test)]
use quoit_planted::PlantedFault;
#[cfg(not(test))]
pub(super) use quoit_planted::is_planted as has;

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<PlantedFault>> = const { std::cell::Cell::new(None) };
}

/// Plants a fault for this thread from now on.
#[cfg(test)]
pub(super) fn plant(fault: Option<PlantedFault>) {
    PLANTED.set(fault);
}

/// True if this fault is planted.
#[cfg(test)]
pub(super) fn has(fault: PlantedFault) -> bool {
    PLANTED.get() == Some(fault)
}
