//! Files of the hashes from which the trees for Riak are built.

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "riak-tree-files",
    run: quoit_core::fuzz_riak_tree_file,
    seeds: quoit_core::riak_tree_file_samples,
};
