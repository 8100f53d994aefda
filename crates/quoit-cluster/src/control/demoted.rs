//! Answers to candidates from a node that is about to lose its vote: the last entry about voters in its log
//! removes it from the voters, and is not known to be committed.
//!
//! The voters change in two entries: a joint one, under which a decision needs a majority of the old
//! voters and one of the new voters, and a final one, under which only the new voters count. As in Raft, a
//! node follows the last such entry of its log, committed or not. If the leader dies before the final
//! entry is committed, that entry may exist only on nodes that it removes. The new voters still follow the
//! joint entry and need votes of the removed nodes. The removed nodes would refuse those candidates,
//! because their own logs are longer, and would not become candidates themselves, because they are no
//! longer voters. No node could be elected again.
//!
//! Therefore a removed node compares a candidate's log with its own log up to, but not including, the final
//! entry. This is safe. Under the final entry this node has no vote, so none of its acknowledgements after
//! that position counted towards a majority. If the final entry is committed after all, a candidate without
//! it still needs a majority of the new voters, and one of them has the entry and refuses.

use super::file::{CommitError, ControlFile};
use super::types::{LogId, RaftId};
use openraft::{Instant, RaftState};

/// Returns the index of the last entry about voters if it removes this node from the voters and is
/// not known to be committed.
pub(crate) fn demoted_at<I: Instant>(own: RaftId, state: &RaftState<RaftId, (), I>) -> Option<u64> {
    let effective = state.membership_state.effective();
    let is_voter = effective.membership().voter_ids().any(|voter| voter == own);
    let entry = effective.log_id().as_ref()?;
    (!is_voter && state.committed.as_ref() < Some(entry)).then_some(entry.index)
}

/// Returns the end of log to assume for a candidate whose log ends at `last`. If the candidate's log
/// reaches this node's log before the entry at `demoted_at`, the result is at least the end of this node's
/// own log, so that the candidate passes Raft's comparison.
pub(crate) fn end_to_compare(
    file: &ControlFile,
    demoted_at: u64,
    last: Option<LogId>,
) -> Result<Option<LogId>, CommitError> {
    let Some(index) = demoted_at.checked_sub(1) else { return Ok(last) };
    let before = file.log_entries(index..=index)?.first().map(|entry| entry.log_id);
    let before = before.or(file.purged()?.filter(|purged| purged.index == index));
    let own = file.last_log_entry()?.map(|entry| entry.log_id);
    Ok(if before.is_some() && last >= before { last.max(own) } else { last })
}
