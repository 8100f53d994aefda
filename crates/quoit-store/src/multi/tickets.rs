//! One order of the writes of several engines.

use crate::engine::{Engine, Ticket};
use crate::error::StoreError;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

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
pub(super) struct Tickets(Mutex<State>);

impl Tickets {
    pub(super) fn new(engine_count: usize) -> Self {
        let waiting = (0..engine_count).map(|_| VecDeque::new()).collect();
        Self(Mutex::new(State { last: 0, waiting }))
    }

    /// The ticket among all engines' of a write that engines gave these tickets to.
    pub(super) fn issue(&self, of_engines: impl IntoIterator<Item = (usize, Ticket)>) -> Ticket {
        let mut state = self.0.lock();
        state.last += 1;
        let number = state.last;
        for (engine, ticket) in of_engines {
            let waiting = &mut state.waiting[engine];
            // Two threads may come here in another order than to the engine.
            let ticket = waiting.back().map_or(ticket, |last| ticket.max(last.1));
            waiting.push_back((number, ticket));
            if waiting.len() > REMEMBERED_MAX {
                let oldest = waiting.pop_front().map(|(number, _)| number);
                if let (Some(next), Some(oldest)) = (waiting.front_mut(), oldest) {
                    next.0 = oldest;
                }
            }
        }
        Ticket(number)
    }

    /// As `Engine::poll_durable`, of all engines.
    pub(super) fn poll(
        &self,
        engines: &[Arc<dyn Engine>],
        ticket: Ticket,
        waker: &Waker,
    ) -> Poll<Result<(), StoreError>> {
        let mut is_durable = true;
        for (place, engine) in engines.iter().enumerate() {
            let wanted = {
                let state = self.0.lock();
                let waiting = &state.waiting[place];
                let count = waiting.partition_point(|(number, _)| *number <= ticket.0);
                count.checked_sub(1).map(|last| waiting[last].1)
            };
            let Some(of_engine) = wanted else { continue };
            match engine.poll_durable(of_engine, waker) {
                Poll::Ready(Ok(())) => {
                    // By the engine's ticket: numbers may stand with later ones by now.
                    let waiting = &mut self.0.lock().waiting[place];
                    let count = waiting.partition_point(|each| each.1 <= of_engine);
                    waiting.drain(..count);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => is_durable = false,
            }
        }
        if is_durable { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}
