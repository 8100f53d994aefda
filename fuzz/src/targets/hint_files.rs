//! The file in which a node keeps its hints.

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "hint-files",
    run: quoit_core::fuzz_hint_file,
    seeds: quoit_core::hint_file_samples,
};
