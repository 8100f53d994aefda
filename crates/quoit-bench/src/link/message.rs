//! The messages of both sides.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::form::{GapsForm, LoadForm, WindowForm};

/// Version of the protocol. Both sides have to have the same one, and be of the same version of the program:
/// draws and configurations are compared with those of one process.
pub const PROTOCOL: u32 = 1;

/// Messages of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromAgent {
    /// The first message.
    Greeting {
        /// [`PROTOCOL`].
        protocol: u32,
        /// Version of the program.
        version: String,
    },
    /// The agent does not do what was asked for. It closes the connection.
    Refused {
        /// Why, for people.
        reason: String,
    },
    /// The answer to [`FromCoordinator::AskClock`].
    Clock {
        /// Nanoseconds of the agent's own clock, which never goes back.
        agent_ns: u64,
        /// Nanoseconds since 1970 by its clock of the system.
        unix_ns: u64,
    },
    /// All workers of the share are connected.
    Ready,
    /// A sign of life.
    Alive,
    /// A second in which something was measured.
    Second {
        /// The second, from the start of the measurement.
        second: u64,
        /// Its counts.
        window: Box<WindowForm>,
    },
    /// Nothing more comes of the seconds before this one.
    Passed {
        /// Complete seconds.
        seconds: u64,
        /// The load of each thread so far.
        loads: Vec<LoadForm>,
    },
    /// A worker asks for the end of the whole run.
    EndRequested {
        /// How it shall end.
        end: ShareEnd,
        /// Why, for people; may be empty.
        reason: String,
    },
    /// All workers of the share have ended; the last message.
    Done(ShareResult),
}

/// Why a share asks for the end of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShareEnd {
    /// An operation failed, and the configuration has that end the run; or a script or trace has a fault.
    Failed,
    /// Workers crashed.
    Crashed,
}

/// Figures of a share that has ended.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ShareResult {
    /// From the start of the measurement to the end of the last operation, in nanoseconds.
    pub elapsed_ns: u64,
    /// Arrivals that were due and never started.
    pub unstarted: u64,
    /// Processor time of the agent from the start on, in nanoseconds.
    pub process_cpu_ns: u64,
    /// The load of each thread.
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
        /// [`PROTOCOL`].
        protocol: u32,
        /// Version of the program.
        version: String,
    },
    /// A question for the time.
    AskClock,
    /// A piece of a file that the configuration names. Files come one after the other, before the order.
    File {
        /// Number of the file, from 0.
        index: usize,
        /// The next bytes of it, in Base64.
        #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
        bytes: Vec<u8>,
    },
    /// The run.
    Order(Box<RunOrder>),
    /// Workers start.
    Start {
        /// When, by the agent's own clock.
        at_ns: u64,
    },
    /// Workers finish what they are at.
    Stop,
    /// A sign of life.
    Alive,
}

/// A share of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunOrder {
    /// Number of the share, from 0.
    pub share: u32,
    /// Number of shares.
    pub shares: u32,
    /// Names and contents of the configuration files, in their order.
    pub texts: Vec<(String, String)>,
    /// Names as the configuration writes them of the files that were sent, in their order.
    pub files: Vec<String>,
    /// Seed of all random streams.
    pub seed: [i64; 3],
    /// Length of the measurement in nanoseconds; nothing for a run without an end.
    pub length_ns: Option<u64>,
    /// Length of the warm-up in nanoseconds.
    pub warmup_ns: u64,
    /// Arrivals a second of the whole run, where that is an open loop.
    pub rate_per_s: Option<f64>,
    /// Servers instead of the configuration's, as the command line has them.
    pub targets: Vec<String>,
}

fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}
