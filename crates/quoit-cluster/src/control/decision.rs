//! Decisions: the effect of one entry of the log.

use crate::command::Change;

/// Changes that are made together or not at all.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Decision {
    /// Revision of the state that the decision was made on. On another one it has no effect and is to be
    /// made again. `None`: the changes hold on every state.
    pub(crate) base: Option<u64>,
    /// The changes, in order.
    pub(crate) changes: Vec<Change>,
}
