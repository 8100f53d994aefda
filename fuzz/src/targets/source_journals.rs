//! The journal of the writes that are still to be sent to other clusters.

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "source-journals",
    run: quoit_core::fuzz_source_journal,
    seeds: quoit_core::source_journal_samples,
};
