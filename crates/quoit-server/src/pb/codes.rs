//! Properties of a request that follow from its message code alone.

use super::fault::Fault;
use crate::turn::Weight;
use quoit_wire::MessageCode;

/// The weight in a connection's turn of a request that is not answered in place.
pub(super) fn weight_of(code: u8) -> Weight {
    use MessageCode as M;
    match MessageCode::from_byte(code) {
        Some(
            M::ListBucketsReq
            | M::ListKeysReq
            | M::IndexReq
            | M::CSBucketReq
            | M::CoverageReq
            | M::MapRedReq,
        ) => Weight::Heavy,
        _ => Weight::General,
    }
}

pub(super) fn unknown_code(code: u8) -> Fault {
    Fault::Text(format!("Unknown message code: {code}"))
}

/// True if the code is the answer of a service that has a request code, too. Other answers are treated as
/// unknown codes, as in Riak: an error in general, and matches with their objects (`IndexBodyResp`), whose
/// code is not among those of Riak's index service.
pub(super) fn is_response(code: MessageCode) -> bool {
    use MessageCode as M;
    matches!(
        code,
        M::PingResp
            | M::GetClientIdResp
            | M::SetClientIdResp
            | M::GetServerInfoResp
            | M::GetResp
            | M::PutResp
            | M::DelResp
            | M::ListBucketsResp
            | M::ListKeysResp
            | M::GetBucketResp
            | M::SetBucketResp
            | M::MapRedResp
            | M::IndexResp
            | M::ResetBucketResp
            | M::GetBucketKeyPreflistResp
            | M::GetLayoutResp
            | M::CSBucketResp
            | M::CounterUpdateResp
            | M::CounterGetResp
            | M::CoverageResp
            | M::DtFetchResp
            | M::DtUpdateResp
            | M::DtQueryResp
            | M::QueueTakeResp
            | M::ClusterDigestsResp
            | M::QueuePutResp
            | M::DeleteSeenResp
            | M::CopyPageResp
            | M::BucketTypesResp
            | M::CopyRangesResp
            | M::FetchResp
            | M::PushResp
            | M::MembershipResp
            | M::AaeFoldTreeResp
            | M::AaeFoldKeyValueResp
            | M::AaeFoldKeyCountResp
            | M::AaeFoldListBucketsResp
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_but_those_that_are_unknown_codes_is_an_answer() {
        use MessageCode as M;
        let unknown = [M::ErrorResp, M::IndexBodyResp, M::AuthResp];
        for code in (0..=u8::MAX).filter_map(MessageCode::from_byte) {
            let is_answer = code.name().ends_with("Resp") && !unknown.contains(&code);
            assert_eq!(is_response(code), is_answer, "{code:?}");
        }
    }
}
