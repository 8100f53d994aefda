//! The vote of a node whose log says that it has none.
//!
//! Voters change in two entries: the joint one, by which majorities of the old and of the new voters are
//! needed, and the final one, by which the old ones do not count. A node goes by the last such entry of its
//! log, committed or not. So when the leader dies between sending the final entry and having it committed,
//! the entry may lie only on nodes from which it takes the vote. The new voters still need them, by the joint
//! entry; they refuse, because their log is longer; and they do not stand themselves, because they are no
//! voters any more. Nobody could ever lead again.
//!
//! Such a node therefore answers candidates as though its log ended before the final entry. That is safe: it
//! acknowledged nothing behind that place in a way that counts, for by the final entry it does not vote. A
//! candidate that lacks the final entry although it is committed needs a majority of the new voters, and one
//! of those has it and refuses.

use super::file::{CommitError, ControlFile};
use super::types::{LogId, RaftId};
use openraft::{Instant, RaftState};

/// Index of the entry that takes the node's vote, if it is the last one about voters and not known to be
/// committed.
pub(crate) fn demoted_at<I: Instant>(own: RaftId, state: &RaftState<RaftId, (), I>) -> Option<u64> {
    let effective = state.membership_state.effective();
    let is_voter = effective.membership().voter_ids().any(|voter| voter == own);
    let entry = effective.log_id().as_ref()?;
    (!is_voter && state.committed.as_ref() < Some(entry)).then_some(entry.index)
}

/// The end of the log that a candidate is to be taken to have, whose log ends at `last`: this node's own end
/// if the candidate's is as long as this node's log before the entry at `demoted_at`.
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
