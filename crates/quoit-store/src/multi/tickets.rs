//! One order of the writes of several engines. A write waits only for its own engine, so an engine that
//! cannot sync does not block the writes of others.

use crate::engine::Ticket;
use crate::error::StoreError;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::task::Poll;

/// Maximum number of remembered tickets of an engine. Beyond it, the oldest write is merged with the next
/// one, and waits until that is durable.
const REMEMBERED_MAX: usize = 1_024;

/// Number of bits of a ticket that name the engine of its write; the number of the write is in the bits
/// above. At a hundred thousand writes a second the numbers last for eighty years.
const ENGINE_BITS: u32 = 16;

/// The engines whose writes a ticket covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CoveredWrites {
    All,
    One(usize),
}

/// A write: its number among the writes of all engines, and its ticket of its own engine.
type Numbered = (u64, Ticket);

fn ticket_of(number: u64, covered: CoveredWrites) -> Ticket {
    let named = match covered {
        CoveredWrites::All => 0,
        CoveredWrites::One(engine) => engine as u64 + 1,
    };
    assert!(named < 1 << ENGINE_BITS, "there are fewer engines than that: {named}");
    debug_assert!(number < 1 << (u64::BITS - ENGINE_BITS), "the number has the other bits");
    Ticket(number << ENGINE_BITS | named)
}

/// True if two writes of an engine are in the order in which they are remembered.
fn is_ordered(one: &Numbered, next: &Numbered) -> bool {
    one.0 < next.0 && one.1 <= next.1
}

fn parts(ticket: Ticket) -> (u64, CoveredWrites) {
    let named = (ticket.0 & ((1 << ENGINE_BITS) - 1)) as usize;
    let covered = named.checked_sub(1).map_or(CoveredWrites::All, CoveredWrites::One);
    (ticket.0 >> ENGINE_BITS, covered)
}

/// A ticket that covers two writes.
pub(super) fn joined(one: Ticket, other: Ticket) -> Ticket {
    let ((number, covered), (other_number, other_covered)) = (parts(one), parts(other));
    let covered = if covered == other_covered { covered } else { CoveredWrites::All };
    ticket_of(number.max(other_number), covered)
}

#[derive(Default)]
struct TicketState {
    last: u64,
    /// Writes of each engine that may not be durable yet. Both numbers ascend.
    waiting: Vec<VecDeque<Numbered>>,
}

/// The common order of writes. A write costs a lock.
pub(super) struct Tickets {
    remembered_max: usize,
    state: Mutex<TicketState>,
}

impl Tickets {
    pub(super) fn new(engine_count: usize) -> Self {
        let waiting = (0..engine_count).map(|_| VecDeque::new()).collect();
        let state = Mutex::new(TicketState { last: 0, waiting });
        Self { remembered_max: REMEMBERED_MAX, state }
    }

    /// The common ticket of a write for which an engine has returned `ticket`. It covers the earlier writes
    /// of that engine too.
    pub(super) fn issue(&self, engine: usize, ticket: Ticket) -> Ticket {
        let mut state = self.state.lock();
        state.last += 1;
        self.remember(&mut state, engine, ticket);
        ticket_of(state.last, CoveredWrites::One(engine))
    }

    /// The common ticket of a write for which all engines have returned tickets.
    pub(super) fn issue_of_all(&self, of_engines: Vec<Ticket>) -> Ticket {
        let mut state = self.state.lock();
        debug_assert_eq!(of_engines.len(), state.waiting.len(), "each engine has given a ticket");
        state.last += 1;
        for (engine, ticket) in of_engines.into_iter().enumerate() {
            self.remember(&mut state, engine, ticket);
        }
        ticket_of(state.last, CoveredWrites::All)
    }

    #[expect(clippy::indexing_slicing, reason = "tickets have numbers of engines")]
    fn remember(&self, state: &mut TicketState, engine: usize, ticket: Ticket) {
        let waiting = &mut state.waiting[engine];
        // Two threads may get here in another order than that of the engine's tickets.
        let ticket = waiting.back().map_or(ticket, |last| ticket.max(last.1));
        waiting.push_back((state.last, ticket));
        if waiting.len() > self.remembered_max {
            let oldest = waiting.pop_front().map(|(number, _)| number);
            if let (Some(next), Some(oldest)) = (waiting.front_mut(), oldest) {
                next.0 = oldest;
            }
        }
        debug_assert!(waiting.len() <= self.remembered_max, "remembered tickets are bounded");
        debug_assert!(
            waiting.iter().take(2).is_sorted_by(|one, next| is_ordered(one, next))
                && waiting.iter().rev().take(2).is_sorted_by(|next, one| is_ordered(one, next)),
            "both numbers ascend"
        );
    }

    /// Implements `PointAccess::poll_durable` for the engines that a ticket covers. `poll_engine` polls the
    /// engine with a number. No lock is held while it runs.
    #[expect(clippy::indexing_slicing, reason = "tickets have numbers of engines")]
    pub(super) fn poll(
        &self,
        ticket: Ticket,
        mut poll_engine: impl FnMut(usize, Ticket) -> Poll<Result<(), StoreError>>,
    ) -> Poll<Result<(), StoreError>> {
        let (number, covered) = parts(ticket);
        let engines = match covered {
            CoveredWrites::All => 0..self.state.lock().waiting.len(),
            CoveredWrites::One(engine) => engine..engine + 1,
        };
        let mut is_durable = true;
        for engine in engines {
            let Some(wanted) = self.wanted(engine, number) else { continue };
            match poll_engine(engine, wanted) {
                Poll::Ready(Ok(())) => {
                    // Removal goes by the engine's ticket, because a number may have been merged with a
                    // later write meanwhile.
                    let waiting = &mut self.state.lock().waiting[engine];
                    let count = waiting.partition_point(|each| each.1 <= wanted);
                    waiting.drain(..count);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => is_durable = false,
            }
        }
        if is_durable { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// The ticket up to which an engine must be durable so that its writes up to `number` are; `None` if
    /// they are known to be.
    #[expect(clippy::indexing_slicing, reason = "tickets have numbers of engines")]
    fn wanted(&self, engine: usize, number: u64) -> Option<Ticket> {
        let state = self.state.lock();
        debug_assert!(number <= state.last, "tickets are polled after they were given");
        let waiting = &state.waiting[engine];
        let count = waiting.partition_point(|(each, _)| *each <= number);
        count.checked_sub(1).map(|last| waiting[last].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Events of three engines, each with tickets of its own.
    #[derive(Clone, Debug)]
    enum Step {
        /// An engine makes this many writes.
        Write(usize, u64),
        /// A write of all engines at once.
        WriteAll,
        /// An engine makes its writes durable.
        Sync(usize),
        /// A caller polls a write, counted back from the last one. Meanwhile another thread makes this many
        /// writes in an engine.
        Poll(usize, usize, u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let count = || prop_oneof![3 => 1..5_u64, 1 => 8..20_u64];
        prop_oneof![
            (0..3_usize, count()).prop_map(|(engine, count)| Step::Write(engine, count)),
            Just(Step::WriteAll),
            (0..3_usize).prop_map(Step::Sync),
            (0..30_usize, 0..3_usize, prop_oneof![Just(0), count()])
                .prop_map(|(back, engine, count)| Step::Poll(back, engine, count)),
        ]
    }

    /// Engines, the common tickets of all writes with the engines' own numbers, and the durable numbers.
    #[derive(Default)]
    struct Model {
        given: [u64; 3],
        durable: [u64; 3],
        writes: Vec<(Ticket, Vec<(usize, u64)>)>,
    }

    impl Model {
        fn write(&mut self, tickets: &Tickets, engine: usize) {
            self.given[engine] += 1;
            let ticket = tickets.issue(engine, Ticket(self.given[engine]));
            self.writes.push((ticket, vec![(engine, self.given[engine])]));
        }

        fn write_all(&mut self, tickets: &Tickets) {
            self.given.iter_mut().for_each(|given| *given += 1);
            let ticket = tickets.issue_of_all(self.given.iter().copied().map(Ticket).collect());
            self.writes.push((ticket, self.given.into_iter().enumerate().collect()));
        }

        /// True if a write and the earlier writes of the same engines are durable.
        fn is_durable(&self, place: usize) -> bool {
            let of_engines = &self.writes[place].1;
            of_engines.iter().all(|(engine, number)| *number <= self.durable[*engine])
        }

        /// Polls a write while another thread writes. Engines that the write does not concern must not be
        /// polled, and the poll must not be ready before the write is durable.
        fn poll(&mut self, tickets: &Tickets, place: usize, other: usize, count: u64) {
            let durable = self.durable;
            let mut is_written = false;
            let ticket = self.writes[place].0;
            let of_engines = self.writes[place].1.clone();
            let polled = tickets.poll(ticket, |engine, wanted| {
                assert!(of_engines.iter().any(|(of, _)| *of == engine), "another engine is asked");
                if engine == other && !is_written {
                    is_written = true;
                    (0..count).for_each(|_| self.write(tickets, other));
                }
                if wanted.0 <= durable[engine] { Poll::Ready(Ok(())) } else { Poll::Pending }
            });
            if polled.is_ready() {
                assert!(self.is_durable(place), "write {place} is not durable");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn no_write_is_called_durable_before_its_engines_say_so(
            steps in proptest::collection::vec(step(), 1..30)
        ) {
            let (tickets, mut model) = (Tickets { remembered_max: 8, ..Tickets::new(3) }, Model::default());
            for step in steps {
                match step {
                    Step::Write(engine, count) => {
                        (0..count).for_each(|_| model.write(&tickets, engine));
                    }
                    Step::WriteAll => model.write_all(&tickets),
                    Step::Sync(engine) => model.durable[engine] = model.given[engine],
                    Step::Poll(back, other, count) => {
                        let last = model.writes.len().checked_sub(1 + back);
                        if let Some(place) = last {
                            model.poll(&tickets, place, other, count);
                        }
                    }
                }
            }
            // When the engines are durable, no caller waits.
            model.write_all(&tickets);
            let tickets_of_all = model.writes.iter().map(|(ticket, _)| *ticket);
            let last = tickets_of_all.reduce(joined).expect("at least one");
            let polled = tickets.poll(last, |engine, wanted| {
                assert!(wanted.0 <= model.given[engine], "a ticket that was not given");
                Poll::Ready(Ok(()))
            });
            prop_assert!(polled.is_ready());
            let is_forgotten = tickets.state.lock().waiting.iter().all(VecDeque::is_empty);
            prop_assert!(is_forgotten);
        }
    }

    #[test]
    fn joined_tickets_wait_for_the_engines_of_both() {
        let tickets = Tickets::new(3);
        let [first, second] = [0, 1].map(|engine| tickets.issue(engine, Ticket(5)));
        let later = tickets.issue(1, Ticket(6));
        assert_eq!(joined(second, later), later);
        let asked = |ticket: Ticket| {
            let mut asked = Vec::new();
            let polled = tickets.poll(ticket, |engine, wanted| {
                asked.push((engine, wanted.0));
                Poll::Pending
            });
            assert!(polled.is_pending());
            asked
        };
        assert_eq!(asked(later), [(1, 6)]);
        assert_eq!(asked(joined(later, first)), [(0, 5), (1, 6)]);
    }
}
