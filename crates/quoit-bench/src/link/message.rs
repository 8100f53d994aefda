//! The messages of both sides.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::form::{GapsForm, LoadForm, WindowForm};

/// Version of the protocol. Both sides must have the same protocol and the same version of the program,
/// because the results must be those of one process: configurations and random draws must not differ.
pub const PROTOCOL: u32 = 1;

/// Messages of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromAgent {
    /// The first message.
    Greeting {
        /// Version of the protocol, [`PROTOCOL`].
        protocol: u32,
        /// Version of the program.
        version: String,
    },
    /// The agent refuses a request, and closes the connection.
    Refused {
        /// The reason, for people.
        reason: String,
    },
    /// The answer to [`FromCoordinator::AskClock`].
    Clock {
        /// Time of the agent's monotonic clock, in nanoseconds.
        agent_ns: u64,
        /// Time of its system clock, in nanoseconds since 1970.
        unix_ns: u64,
    },
    /// All workers of the share are connected.
    Ready,
    /// Sent at intervals to show that the agent is alive.
    Alive,
    /// The measurements of a second in which something was measured.
    Second {
        /// Number of the second, from the start of the measurement.
        second: u64,
        /// Its measurements.
        window: Box<WindowForm>,
    },
    /// The seconds before this one are complete.
    Passed {
        /// Number of complete seconds.
        seconds: u64,
        /// Use of time of each thread so far.
        loads: Vec<LoadForm>,
    },
    /// A worker requests the end of the whole run.
    EndRequested {
        /// The kind of end.
        end: ShareEnd,
        /// The reason, for people; may be empty.
        reason: String,
    },
    /// All workers of the share have ended. This is the last message.
    Done(ShareResult),
}

/// The reason why a share requests the end of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShareEnd {
    /// An operation failed and the configuration ends the run at an error, or a script or trace has a
    /// fault.
    Failed,
    /// Workers crashed.
    Crashed,
}

/// The results of a share that has ended.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ShareResult {
    /// Time from the start of the measurement to the end of the last operation, in nanoseconds.
    pub elapsed_ns: u64,
    /// Number of arrivals that were due and never started.
    pub unstarted: u64,
    /// Processor time of the agent since the start, in nanoseconds.
    pub process_cpu_ns: u64,
    /// Use of time of each thread.
    pub loads: Vec<LoadForm>,
    /// Times without a success.
    pub gaps: GapsForm,
}

/// Messages of a coordinator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromCoordinator {
    /// The answer to the greeting.
    Hello {
        /// Version of the protocol, [`PROTOCOL`].
        protocol: u32,
        /// Version of the program.
        version: String,
    },
    /// A request for the time.
    AskClock,
    /// A piece of a file that the configuration refers to. Files are sent one after another, before the
    /// order.
    File {
        /// Number of the file, from 0.
        index: usize,
        /// The next bytes of the file, in Base64.
        #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
        bytes: Vec<u8>,
    },
    /// The run.
    Order(Box<RunOrder>),
    /// Start the workers.
    Start {
        /// Time of the start, on the agent's monotonic clock in nanoseconds.
        at_ns: u64,
    },
    /// Stop the workers after the operation that each is at.
    Stop,
    /// Sent at intervals to show that the coordinator is alive.
    Alive,
}

/// A share of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunOrder {
    /// Number of the share, from 0.
    pub share: u32,
    /// Number of shares.
    pub shares: u32,
    /// Names and contents of the configuration files, in order.
    pub texts: Vec<(String, String)>,
    /// The files that were sent, in order, under the names that the configuration uses.
    pub files: Vec<String>,
    /// Seed of all random streams.
    pub seed: [i64; 3],
    /// Length of the measurement in nanoseconds; `None` for a run without limit.
    pub length_ns: Option<u64>,
    /// Length of the warm-up in nanoseconds.
    pub warmup_ns: u64,
    /// Arrivals per second of the whole run, if it is an open loop.
    pub rate_per_s: Option<f64>,
    /// Servers of the command line, which replace those of the configuration.
    pub targets: Vec<String>,
}

fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}
