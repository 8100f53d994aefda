//! The operations of the driver.

use super::data_types::DataTypeOperation;
use super::jobs::JobOperation;
use crate::term::Term;

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::driver) enum PbOperation {
    Get,
    GetExisting,
    Put,
    Update,
    UpdateExisting,
    UpdateWithIndexes,
    Delete,
    /// Reads at most this many objects, in key order, starting at a key.
    Scan {
        count_max: u32,
    },
    ListKeys,
    QueryPostcodes,
    QueryBirths,
    /// Queries the index of this number in the plan for a range of so many terms.
    QueryDrawn {
        index: usize,
        term_count: u64,
    },
    Job(JobOperation),
    PauseMinute,
    DataType(DataTypeOperation),
}

impl PbOperation {
    /// The operation that a term names, apart from the queries of the plan's indexes.
    pub(super) fn of(term: &Term) -> Option<Self> {
        if let Some(operation) = DataTypeOperation::of(term) {
            return Some(PbOperation::DataType(operation));
        }
        if let Some([name, count]) = term.as_tuple()
            && name.as_atom() == Some("scan")
        {
            let count_max = u32::try_from(count.as_integer()?).ok().filter(|count| *count > 0)?;
            return Some(PbOperation::Scan { count_max });
        }
        if let Some(operation) = JobOperation::of(term) {
            return Some(PbOperation::Job(operation));
        }
        Some(match term.as_atom()? {
            "get" => PbOperation::Get,
            "get_existing" => PbOperation::GetExisting,
            "put" => PbOperation::Put,
            "update" => PbOperation::Update,
            "update_existing" => PbOperation::UpdateExisting,
            "update_with2i" => PbOperation::UpdateWithIndexes,
            "delete" => PbOperation::Delete,
            "listkeys" => PbOperation::ListKeys,
            "query_postcode" => PbOperation::QueryPostcodes,
            "query_dob" => PbOperation::QueryBirths,
            "pause_minute" => PbOperation::PauseMinute,
            _ => return None,
        })
    }

    /// True if the operation uses a key of the generator.
    pub(super) fn draws_key(self) -> bool {
        use PbOperation::{Job, ListKeys, PauseMinute, QueryBirths, QueryDrawn, QueryPostcodes};
        match self {
            ListKeys | QueryPostcodes | QueryBirths | QueryDrawn { .. } | PauseMinute => false,
            Job(operation) => operation.draws_keys(),
            _ => true,
        }
    }
}
