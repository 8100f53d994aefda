//! Keys that begin with a time in seconds, like those of a published Erlang module that inserts a fixed
//! number of keys per second.

use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::random::Random;
use crate::worker_place::WorkerPlace;

/// Number of possible suffixes within one second, for each key of the second.
const SUFFIXES_PER_KEY: u64 = 10_000;

/// Keys of the form `<unix seconds>_<uniform 1..=10000 * rate>`. The seconds begin at the current time and
/// grow by one after every `rate` keys, however long these take.
#[derive(Debug, Clone)]
pub struct Inserter {
    /// Number of keys with the same second.
    rate: u64,
    /// True if the rate is that of all workers together.
    is_shared: bool,
    place: WorkerPlace,
    /// The second of the next key. `None` before the first key, which takes the current time.
    second: Option<u64>,
    /// Number of keys that this worker still generates within the second.
    left: u64,
}

impl Inserter {
    pub(super) fn new(rate: u64, is_shared: bool) -> Self {
        let place = WorkerPlace { number: 1, count: 1 };
        Self { rate, is_shared, place, second: None, left: 0 }
    }

    pub(super) fn start(&mut self, place: WorkerPlace) {
        self.place = place;
    }

    /// Replaces `bytes` by the next key.
    pub(super) fn next(&mut self, random: &mut Random, bytes: &mut Vec<u8>) {
        let second = match self.second {
            None => {
                self.left = self.share();
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
            }
            Some(second) if self.left == 0 => {
                self.left = self.share();
                second + 1
            }
            Some(second) => second,
        };
        self.second = Some(second);
        self.left = self.left.saturating_sub(1);
        let suffix = random.uniform(SUFFIXES_PER_KEY * self.rate);
        bytes.clear();
        write!(bytes, "{second}_{suffix}").expect("writing to a vector does not fail");
    }

    /// Number of keys that this worker generates within a second, at least one.
    fn share(&self) -> u64 {
        if !self.is_shared {
            return self.rate;
        }
        let (number, count) = (u64::from(self.place.number), u64::from(self.place.count));
        (self.rate / count + u64::from(number <= self.rate % count)).max(1)
    }
}
