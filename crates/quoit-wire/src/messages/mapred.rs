//! MapReduce jobs. Their answers are streams: results of phases, then a frame with only `done`.

use super::declare::messages;

messages! {
    /// Runs a job.
    message RpbMapRedReq: MapRedReq {
        /// The job.
        required bytes request = 1;
        /// Its notation: `application/json` or `application/x-erlang-binary`.
        required bytes content_type = 2;
    }

    /// A part of the answer to [`RpbMapRedReq`].
    message RpbMapRedResp: MapRedResp {
        /// Index of the phase of the results, from 0.
        optional uint32 phase = 1;
        /// A list of results in the notation of the job.
        optional bytes response = 2;
        /// True in the last frame, absent otherwise.
        optional bool done = 3;
    }
}
