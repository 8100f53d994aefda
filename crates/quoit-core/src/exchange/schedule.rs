//! Decides with which node to begin an exchange, and when. Plain state, without I/O.

use quoit_cluster::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Pause before an exchange out of turn is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Pause before an exchange with a node that has come back: the hints and strays that other nodes kept
/// for it are delivered first. Each node waits for up to this time in addition, by its node id. Otherwise
/// two nodes would compare with a third at once, and send it the same records twice.
const RETURN_PAUSE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct ScheduledExchange {
    is_up: bool,
    is_running: bool,
    /// Time when the last exchange began.
    began: Option<Instant>,
    /// Time when an exchange is due out of turn.
    due: Option<Instant>,
    /// The value of `due` when the running exchange began; it is due again if that exchange fails.
    was_due: Option<Instant>,
}

impl ScheduledExchange {
    fn is_due(&self, now: Instant) -> bool {
        let is_rested = self.began.is_none_or(|began| began + RETRY_PAUSE <= now);
        is_rested && self.due.is_some_and(|due| due <= now)
    }
}

/// The schedule of a node's exchanges.
pub(super) struct Schedule {
    turns: BTreeMap<NodeId, ScheduledExchange>,
    /// Interval between exchanges in turn. `None` if the node only begins exchanges that are wanted.
    interval: Option<Duration>,
    return_pause: Duration,
    /// Time when the next exchange in turn begins.
    next: Option<Instant>,
}

impl Schedule {
    /// Returns a schedule by which an exchange begins every `interval`, with each other node in turn; without
    /// an interval, only exchanges that are wanted begin.
    pub(super) fn new(own: NodeId, interval: Option<Duration>, now: Instant) -> Self {
        let number = own.0.iter().fold(0u8, |sum, byte| sum.wrapping_mul(167).wrapping_add(*byte));
        let own_pause = RETURN_PAUSE * u32::from(number) / 256;
        let return_pause = RETURN_PAUSE + own_pause;
        let next = interval.map(|interval| now + interval + own_pause);
        Self { turns: BTreeMap::new(), interval, return_pause, next }
    }

    /// Sets the other members, and whether each can be reached. A node that can be reached again has its
    /// turn soon.
    pub(super) fn set_nodes(&mut self, nodes: &BTreeMap<NodeId, bool>, now: Instant) {
        self.turns.retain(|node, turn| turn.is_running || nodes.contains_key(node));
        for (node, is_up) in nodes {
            let turn = self.turns.entry(*node).or_default();
            if *is_up && !turn.is_up && self.interval.is_some() {
                turn.due = turn.due.or(Some(now + self.return_pause));
            }
            turn.is_up = *is_up;
        }
    }

    /// Makes an exchange with a node due now, out of turn.
    pub(super) fn want(&mut self, node: NodeId, now: Instant) {
        self.turns.entry(node).or_default().due = Some(now);
    }

    /// Returns the node with which an exchange should begin now, and notes that it has begun. Nodes that
    /// are due out of turn come first, then the node whose last exchange was longest ago.
    pub(super) fn begin(&mut self, now: Instant) -> Option<NodeId> {
        let free = self.turns.iter().filter(|(_, turn)| turn.is_up && !turn.is_running);
        let is_due = |turn: &ScheduledExchange| {
            turn.is_due(now) || self.next.is_some_and(|next| next <= now)
        };
        let ready = free.filter(|(_, turn)| is_due(turn));
        let (node, _) = ready.min_by_key(|(node, turn)| (!turn.is_due(now), turn.began, **node))?;
        let node = *node;
        self.next = self.interval.map(|interval| now + interval);
        let turn = self.turns.entry(node).or_default();
        (turn.is_running, turn.began, turn.was_due) = (true, Some(now), turn.due.take());
        Some(node)
    }

    /// Notes the end of an exchange. If it was out of turn and failed, it stays due.
    pub(super) fn end(&mut self, node: NodeId, succeeded: bool) {
        let turn = self.turns.get_mut(&node);
        debug_assert!(
            turn.as_ref().is_some_and(|turn| turn.is_running),
            "an exchange that ends has begun, and keeps its node in the schedule"
        );
        if let Some(turn) = turn {
            turn.is_running = false;
            if !succeeded {
                turn.due = turn.due.or(turn.was_due);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(15);

    fn node(number: u8) -> NodeId {
        NodeId([number; 16])
    }

    /// A schedule that has had one exchange with each of the nodes 1 to 3.
    fn schedule() -> (Schedule, Instant) {
        let start = Instant::now();
        let mut schedule = Schedule::new(node(9), Some(INTERVAL), start);
        schedule.set_nodes(&(1..=3).map(|number| (node(number), true)).collect(), start);
        let now = start + RETURN_PAUSE * 2;
        for number in 1..=3 {
            assert_eq!(schedule.begin(now), Some(node(number)), "each is met once");
            schedule.end(node(number), true);
        }
        (schedule, now)
    }

    #[test]
    fn each_node_has_its_turn() {
        let (mut schedule, mut now) = schedule();
        for number in [1, 2, 3, 1] {
            assert_eq!(schedule.begin(now), None);
            now += INTERVAL;
            assert_eq!(schedule.begin(now), Some(node(number)));
            schedule.end(node(number), true);
        }
    }

    #[test]
    fn exchanges_out_of_turn_go_first_and_again_after_a_failure() {
        let (mut schedule, mut now) = schedule();
        now += RETRY_PAUSE;
        schedule.want(node(3), now);
        assert_eq!(schedule.begin(now), Some(node(3)));
        assert_eq!(schedule.begin(now), None, "not twice at once");
        schedule.end(node(3), false);
        assert_eq!(schedule.begin(now), None, "not without a pause");
        now += RETRY_PAUSE;
        assert_eq!(schedule.begin(now), Some(node(3)));
        schedule.end(node(3), true);
        now += RETRY_PAUSE;
        assert_eq!(schedule.begin(now), None);
    }

    #[test]
    fn what_is_wanted_meanwhile_is_not_forgotten() {
        let (mut schedule, mut now) = schedule();
        now += INTERVAL;
        assert_eq!(schedule.begin(now), Some(node(1)));
        schedule.want(node(1), now);
        schedule.end(node(1), true);
        assert_eq!(schedule.begin(now + RETRY_PAUSE), Some(node(1)));
    }

    #[test]
    fn a_returning_node_gets_its_hints_before_an_exchange() {
        let (mut schedule, mut now) = schedule();
        let nodes = |is_up| (1..=3).map(|number| (node(number), is_up || number != 2)).collect();
        schedule.set_nodes(&nodes(false), now);
        for number in [1, 3, 1] {
            now += INTERVAL;
            assert_eq!(schedule.begin(now), Some(node(number)), "who is away is passed over");
            schedule.end(node(number), true);
        }
        schedule.set_nodes(&nodes(true), now);
        assert_eq!(schedule.begin(now + RETURN_PAUSE), None);
        assert_eq!(schedule.begin(now + RETURN_PAUSE * 2), Some(node(2)));
    }

    #[test]
    fn without_an_interval_only_wanted_exchanges_begin() {
        let start = Instant::now();
        let mut schedule = Schedule::new(node(9), None, start);
        schedule.set_nodes(&(1..=3).map(|number| (node(number), true)).collect(), start);
        let now = start + RETURN_PAUSE * 2 + INTERVAL;
        assert_eq!(schedule.begin(now), None);
        schedule.want(node(2), now);
        assert_eq!(schedule.begin(now), Some(node(2)));
        schedule.end(node(2), true);
        assert_eq!(schedule.begin(now + INTERVAL), None);
    }
}
