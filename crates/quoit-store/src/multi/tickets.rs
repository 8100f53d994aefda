//! One order of the writes of several engines.

use crate::engine::Ticket;
use crate::error::StoreError;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::task::Poll;

/// Tickets of an engine that are remembered; the oldest of more are taken for later ones.
const REMEMBERED_MAX: usize = 1_024;

/// A write: its number among all engines', and the ticket of its engine.
type Numbered = (u64, Ticket);

#[derive(Default)]
struct State {
    last: u64,
    /// Writes of each engine that may not be durable yet, both numbers ascending.
    waiting: Vec<VecDeque<Numbered>>,
}

/// The order. A write costs a lock.
pub(super) struct Tickets {
    remembered_max: usize,
    state: Mutex<State>,
}

impl Tickets {
    pub(super) fn new(engine_count: usize) -> Self {
        Self::remembering(REMEMBERED_MAX, engine_count)
    }

    fn remembering(remembered_max: usize, engine_count: usize) -> Self {
        let waiting = (0..engine_count).map(|_| VecDeque::new()).collect();
        Self { remembered_max, state: Mutex::new(State { last: 0, waiting }) }
    }

    /// The ticket among all engines' of a write that engines gave these tickets to.
    pub(super) fn issue(&self, of_engines: impl IntoIterator<Item = (usize, Ticket)>) -> Ticket {
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        for (engine, ticket) in of_engines {
            let waiting = &mut state.waiting[engine];
            // Two threads may come here in another order than to the engine.
            let ticket = waiting.back().map_or(ticket, |last| ticket.max(last.1));
            waiting.push_back((number, ticket));
            if waiting.len() > self.remembered_max {
                let oldest = waiting.pop_front().map(|(number, _)| number);
                if let (Some(next), Some(oldest)) = (waiting.front_mut(), oldest) {
                    next.0 = oldest;
                }
            }
        }
        Ticket(number)
    }

    /// As `Engine::poll_durable`, of all engines; `poll_engine` asks the engine of a number. No lock is
    /// held while it does.
    pub(super) fn poll(
        &self,
        ticket: Ticket,
        mut poll_engine: impl FnMut(usize, Ticket) -> Poll<Result<(), StoreError>>,
    ) -> Poll<Result<(), StoreError>> {
        let engine_count = self.state.lock().waiting.len();
        let mut is_durable = true;
        for engine in 0..engine_count {
            let Some(wanted) = self.wanted(engine, ticket) else { continue };
            match poll_engine(engine, wanted) {
                Poll::Ready(Ok(())) => {
                    // By the engine's ticket: numbers may stand with later ones by now.
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

    /// The ticket up to which an engine must be durable for this one.
    fn wanted(&self, engine: usize, ticket: Ticket) -> Option<Ticket> {
        let state = self.state.lock();
        let waiting = &state.waiting[engine];
        let count = waiting.partition_point(|(number, _)| *number <= ticket.0);
        count.checked_sub(1).map(|last| waiting[last].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What happens to three engines, whose tickets are counted by themselves.
    #[derive(Clone, Debug)]
    enum Step {
        /// This many writes of an engine.
        Write(usize, u64),
        /// A write of all engines at once.
        WriteAll,
        /// An engine makes durable what it was given.
        Sync(usize),
        /// Somebody asks for a write, counted back from the last one; meanwhile an engine is given
        /// this many writes by another thread.
        Poll(u64, usize, u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let count = || prop_oneof![3 => 1..5_u64, 1 => 8..20_u64];
        prop_oneof![
            (0..3_usize, count()).prop_map(|(engine, count)| Step::Write(engine, count)),
            Just(Step::WriteAll),
            (0..3_usize).prop_map(Step::Sync),
            (0..30_u64, 0..3_usize, prop_oneof![Just(0), count()])
                .prop_map(|(back, engine, count)| Step::Poll(back, engine, count)),
        ]
    }

    /// Engines, and which of their tickets each write has.
    #[derive(Default)]
    struct Model {
        given: [u64; 3],
        durable: [u64; 3],
        writes: Vec<Vec<(usize, u64)>>,
    }

    impl Model {
        fn write(&mut self, tickets: &Tickets, engines: &[usize]) {
            let mut of_engines = Vec::new();
            for engine in engines {
                self.given[*engine] += 1;
                of_engines.push((*engine, self.given[*engine]));
            }
            let issued = of_engines.iter().map(|(engine, number)| (*engine, Ticket(*number)));
            let ticket = tickets.issue(issued);
            self.writes.push(of_engines);
            assert_eq!(ticket.0, u64::try_from(self.writes.len()).expect("fits"));
        }

        /// Whether all writes up to this number are durable.
        fn is_durable(&self, number: u64) -> bool {
            let up_to = usize::try_from(number).expect("fits");
            let mut of_writes = self.writes[..up_to].iter().flatten();
            of_writes.all(|(engine, ticket)| *ticket <= self.durable[*engine])
        }

        /// Asks for a write while another thread writes.
        fn poll(&mut self, tickets: &Tickets, number: u64, other: usize, count: u64) {
            let durable = self.durable;
            let mut is_written = false;
            let polled = tickets.poll(Ticket(number), |engine, wanted| {
                if engine == other && !is_written {
                    is_written = true;
                    (0..count).for_each(|_| self.write(tickets, &[other]));
                }
                if wanted.0 <= durable[engine] { Poll::Ready(Ok(())) } else { Poll::Pending }
            });
            if polled.is_ready() {
                assert!(self.is_durable(number), "write {number} is not durable");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn no_write_is_called_durable_before_its_engines_say_so(
            steps in proptest::collection::vec(step(), 1..30)
        ) {
            let (tickets, mut model) = (Tickets::remembering(8, 3), Model::default());
            for step in steps {
                match step {
                    Step::Write(engine, count) => {
                        (0..count).for_each(|_| model.write(&tickets, &[engine]));
                    }
                    Step::WriteAll => model.write(&tickets, &[0, 1, 2]),
                    Step::Sync(engine) => model.durable[engine] = model.given[engine],
                    Step::Poll(back, other, count) => {
                        let last = u64::try_from(model.writes.len()).expect("fits");
                        model.poll(&tickets, last.saturating_sub(back), other, count);
                    }
                }
            }
            // Once the engines have all, nobody waits for anything.
            model.durable = model.given;
            let last = Ticket(u64::try_from(model.writes.len()).expect("fits"));
            let polled = tickets.poll(last, |engine, wanted| {
                assert!(wanted.0 <= model.given[engine], "a ticket that was not given");
                Poll::Ready(Ok(()))
            });
            prop_assert!(polled.is_ready());
            let is_forgotten = tickets.state.lock().waiting.iter().all(VecDeque::is_empty);
            prop_assert!(is_forgotten);
        }
    }
}
