//! The files in which a node keeps reap records.

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "reap-records",
    run: quoit_core::fuzz_reap_records,
    seeds: quoit_core::reap_record_samples,
};
