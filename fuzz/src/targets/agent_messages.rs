//! Messages between a coordinator and agents of the load generator.

use crate::Target;
use quoit_bench::link::{
    FRAME_BYTES_MAX, FromAgent, FromCoordinator, LinkError, RunOrder, ShareEnd, ShareResult,
    StatsForm, WindowForm, decode_frame, encode_frame,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) const TARGET: Target = Target { name: "agent-messages", run, seeds };

/// Checks that a frame of either side is decoded or refused, that a decoded message survives being encoded
/// and decoded again, and that a frame's length does not exceed the input.
fn run(input: &[u8]) {
    read::<FromAgent>(input);
    read::<FromCoordinator>(input);
}

fn read<M: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(input: &[u8]) {
    match decode_frame::<M>(input) {
        Ok(Some((message, length))) => {
            assert!(length <= input.len());
            let again = encode_frame(&message).expect("a message that was read can be written");
            let read = decode_frame::<M>(&again).expect("what was written can be read");
            assert_eq!(read, Some((message, again.len())));
        }
        Ok(None) => assert!(input.len() < 4 + FRAME_BYTES_MAX),
        Err(LinkError::TooLong { bytes, .. }) => assert!(bytes > FRAME_BYTES_MAX as u64),
        Err(LinkError::Malformed(_)) => {}
        Err(other) => panic!("a fault of a connection without one: {other}"),
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let stats = StatsForm {
        counts: vec![(1000, 2), (2047, 1)],
        sum_ns: (0, 4047),
        min_ns: 1000,
        max_ns: 2047,
        error_count: 1,
    };
    let window =
        WindowForm { operations: vec![stats.clone()], canary: stats, ..WindowForm::default() };
    let end = FromAgent::EndRequested { end: ShareEnd::Failed, reason: "a script".to_owned() };
    let of_agents = [
        FromAgent::Greeting { protocol: 1, version: "1.0".to_owned() },
        FromAgent::Second { second: 3, window: Box::new(window) },
        FromAgent::Passed { seconds: 4, loads: Vec::new() },
        end,
        FromAgent::Done(ShareResult { gaps: vec![(0, 5)], ..ShareResult::default() }),
    ];
    let order = RunOrder { shares: 2, files: vec!["keys.js".to_owned()], ..RunOrder::default() };
    let of_coordinators = [
        FromCoordinator::AskClock,
        FromCoordinator::File { index: 0, bytes: b"text".to_vec() },
        FromCoordinator::Order(Box::new(order)),
        FromCoordinator::Start { at_ns: 5 },
    ];
    let of_agents = of_agents.iter().filter_map(|message| encode_frame(message).ok());
    of_agents
        .chain(of_coordinators.iter().filter_map(|message| encode_frame(message).ok()))
        .collect()
}
