//! Whether a fault is planted in the engine: by the simulator for its process, by the crash tests for the
//! thread of a test, which has others beside it.

#[cfg(test)]
use quoit_planted::PlantedFault;
#[cfg(not(test))]
pub(super) use quoit_planted::is_planted as has;

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<PlantedFault>> = const { std::cell::Cell::new(None) };
}

/// Plants a fault for what this thread does from now on.
#[cfg(test)]
pub(super) fn plant(fault: Option<PlantedFault>) {
    PLANTED.set(fault);
}

/// Whether this fault is planted.
#[cfg(test)]
pub(super) fn has(fault: PlantedFault) -> bool {
    PLANTED.get() == Some(fault)
}
