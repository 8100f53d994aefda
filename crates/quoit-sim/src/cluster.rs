//! A cluster in a simulated world.

use crate::boot::{self, Surroundings};
use crate::check::{self, Violation, check};
use crate::client::{Client, Ground};
use crate::faults::{LATENCY_US, Planned, plan};
use crate::finish::read_back;
use crate::form::form;
use crate::history::History;
use crate::machine::{Disks, Machine};
use crate::names::policies;
use crate::network::Ways;
use crate::random::Random;
use crate::run::Settings;
use crate::time::SimTime;
use crate::trace::Trace;
use parking_lot::Mutex;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use turmoil::Sim;

/// Simulated time goes on in steps of so many microseconds.
const TICK_US: u64 = 2_000;
/// What goes wrong goes wrong within so many microseconds.
const FAULTS_UNTIL_US: u64 = 20_000_000;
/// Segments on their way over one connection, and connections waiting to be accepted.
const SEGMENTS_MAX: usize = 4_096;
/// A run that takes longer, in simulated time, hangs.
const LONGEST: Duration = Duration::from_secs(600);
/// A process that could not start is tried again after so long.
const RESTART_PAUSE: Duration = Duration::from_millis(500);

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The cluster comes together.
    Form,
    /// Clients work and things go wrong.
    Work,
    /// Clients are done; everything has to be mended.
    Mend,
    /// Nothing is wrong any more.
    Calm,
}

/// The world of one run.
pub struct Cluster {
    settings: Settings,
    pub(crate) sim: Sim<'static>,
    pub(crate) ground: Ground,
    pub(crate) ways: Ways,
    around: Surroundings,
    stage: Arc<Mutex<Stage>>,
    verdict: Arc<Mutex<Result<(), Violation>>>,
    planned: Vec<Planned>,
}

impl Cluster {
    /// Builds the world of a seed; nothing has happened yet.
    pub fn new(seed: u64, settings: &Settings) -> Self {
        let time = SimTime::default();
        let trace = Trace::new(time.clone(), settings.line_count_max, settings.tell);
        let machine = |index| {
            let disks = Disks::new(&mut Random::new(seed, "disk", index as u64));
            Arc::new(Machine::new(index, disks, &time))
        };
        let machine_count = settings.machine_count_of(seed);
        let machines: Arc<[_]> = (0..machine_count).map(machine).collect();
        let history = History { keys: policies(settings.key_count), ..History::default() };
        let history = Arc::new(Mutex::new(history));
        let ground = Ground { machines, history, time, trace, planted: settings.planted };
        let ways = Ways::default();
        let is_calm = Arc::new(AtomicBool::new(false));
        let planted = settings.planted;
        let around = Surroundings { seed, planted, is_calm, ways: ways.clone() };
        let mut builder = turmoil::Builder::new();
        builder
            .rng_seed(Random::new(seed, "turmoil", 0).number())
            .tick_duration(Duration::from_micros(TICK_US))
            .simulation_duration(LONGEST)
            .max_message_latency(Duration::from_micros(LATENCY_US))
            .tcp_capacity(SEGMENTS_MAX)
            .enable_random_order();
        let mut random = Random::new(seed, "faults", 0);
        let planned = plan(&mut random, machine_count, settings.with_rot, FAULTS_UNTIL_US);
        let mut cluster = Self {
            settings: *settings,
            sim: builder.build(),
            ground,
            ways,
            around,
            stage: Arc::new(Mutex::new(Stage::Form)),
            verdict: Arc::new(Mutex::new(Ok(()))),
            planned,
        };
        cluster.add_hosts();
        cluster
    }

    /// The story of the run.
    pub const fn trace(&self) -> &Trace {
        &self.ground.trace
    }

    fn add_hosts(&mut self) {
        for machine in self.ground.machines.iter() {
            let (machine, trace) = (Arc::clone(machine), self.ground.trace.clone());
            let around = self.around.clone();
            self.sim.host(machine.name.clone(), move || {
                let (machine, trace) = (Arc::clone(&machine), trace.clone());
                let around = around.clone();
                async move {
                    live(&machine, &around, &trace).await;
                    Ok(())
                }
            });
        }
        let (ground, settings, seed) = (self.ground.clone(), self.settings, self.around.seed);
        let (stage, verdict) = (Arc::clone(&self.stage), Arc::clone(&self.verdict));
        self.sim.client("clients", async move {
            let result = drive(ground, settings, seed, stage).await;
            *verdict.lock() = result;
            Ok(())
        });
    }

    /// Lets it all happen, and judges.
    ///
    /// # Errors
    ///
    /// The first violation.
    pub fn run(&mut self) -> Result<(), Violation> {
        let mut planned = std::mem::take(&mut self.planned).into_iter().peekable();
        let mut began_us = 0;
        loop {
            self.ground.time.advance_us(TICK_US);
            let now_us = self.ground.time.now_us();
            let stage = *self.stage.lock();
            if stage == Stage::Form {
                began_us = now_us;
            }
            while stage == Stage::Work
                && let Some(Planned { fault, .. }) =
                    planned.next_if(|planned| began_us + planned.at_us <= now_us)
            {
                self.apply(fault);
            }
            if stage == Stage::Mend {
                self.mend();
                self.around.is_calm.store(true, Ordering::Relaxed);
                *self.stage.lock() = Stage::Calm;
            }
            match self.sim.step() {
                Ok(false) => {}
                Ok(true) => break,
                Err(error) => {
                    return Err(Violation::new(check::Fault::Broken, error.to_string()));
                }
            }
        }
        self.verdict.lock().clone()?;
        check(&self.ground.history.lock())
    }
}

/// The life of a machine's process, as a supervisor would have it.
async fn live(machine: &Machine, around: &Surroundings, trace: &Trace) {
    loop {
        match boot::start(machine, around).await {
            Ok(store) => {
                trace.note(&machine.name, "serves");
                tokio::spawn(Arc::clone(&store).run_background());
                machine.serve(store).await;
                pending::<()>().await;
            }
            Err(error) => trace.note(&machine.name, &format!("can't start: {error}")),
        }
        tokio::time::sleep(RESTART_PAUSE).await;
    }
}

/// What the clients do, from the first request to the last read.
async fn drive(
    ground: Ground,
    settings: Settings,
    seed: u64,
    stage: Arc<Mutex<Stage>>,
) -> Result<(), Violation> {
    form(&ground).await?;
    *stage.lock() = Stage::Work;
    let clients = (1..=settings.client_count).map(|number| {
        let client = Client::new(number, seed, ground.clone());
        tokio::spawn(client.run(settings.operation_count))
    });
    for client in clients.collect::<Vec<_>>() {
        if let Err(error) = client.await {
            return Err(Violation::new(check::Fault::Broken, error.to_string()));
        }
    }
    *stage.lock() = Stage::Mend;
    while *stage.lock() != Stage::Calm {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    read_back(&ground).await
}
