//! Permissions of a user: an operator grants and revokes one after the other while nodes are cut off, and
//! every node is observed all the time.
//!
//! A client's connection keeps its decision until the epoch of the rules changes. The observer of a
//! node does the same with the same epoch. A node may use outdated rules if it reports that it is cut off,
//! and since when. In half of the runs it refuses new logins after it has been cut off for some time.

use crate::cut_off::{CutOffObservation, CutOffObserver};
use crate::finish::{answer, retry_until_success};
use crate::machine::{Machine, RequestOutcome};
use crate::random::Random;
use crate::run_context::RunContext;
use crate::stage::{Stage, broken};
use crate::violation::{Violation, ViolationKind};
use parking_lot::Mutex;
use quoit_core::ReplicatedStore;
use quoit_security::{BucketName, Command, CutOffLoginPolicy, Permission};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Commands that create the user, before its permissions are granted and revoked.
const USER: [&str; 3] = ["add-user shop", "add-source shop 10.0.0.0/8 trust", "enable"];
/// Maximum pause between two changes, in microseconds.
const PAUSE_US_MAX: u64 = 2_000_000;
/// Time limit of one attempt at a change. A node that reaches no majority would take longer to fail.
const TRY_LIMIT: Duration = Duration::from_secs(1);
/// Pause between two attempts at a change.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Pause between two observations of a node.
const OBSERVATION_PAUSE: Duration = Duration::from_millis(100);
/// A node has paused if it took longer than this to answer, or if its last observation was longer ago,
/// in microseconds.
const OBSERVATION_US_MAX: u64 = 300_000;
/// Time within which a node with outdated rules has to report that it is cut off, in microseconds.
/// Messages that a cut has held back may be older than the node takes them for.
const TOLD_WITHIN_US: u64 = 3_000_000;
/// Percentage of runs whose nodes refuse logins while they are cut off.
const REFUSING_PERCENT: u64 = 50;
/// Range of the times after which these nodes refuse logins, in microseconds.
const REFUSED_AFTER_US: Range<u64> = 1_000_000..12_000_000;
/// Time within which a change takes effect on every node that can learn of it, in microseconds.
const LIMIT_US: u64 = 5_000_000;

/// The permissions as the cluster has acknowledged them. Each is on a bucket of its own, so that a node's
/// decisions show which changes it knows.
#[derive(Debug, Default)]
struct AgreedPermissions {
    /// Number of permissions requested so far.
    count: u32,
    /// Number of the last permission, and the time when its grant was acknowledged; `None` once its
    /// revocation is requested.
    granted: Option<(u32, u64)>,
    /// Numbers of revoked permissions, and the times when their revocations were acknowledged.
    revoked: Vec<(u32, u64)>,
}

/// The permissions of a run.
#[derive(Clone)]
pub struct Permissions {
    agreed: Arc<Mutex<AgreedPermissions>>,
    /// Setting of all nodes.
    while_cut_off: CutOffLoginPolicy,
}

impl Permissions {
    /// Creates the state of a seed's run before the user exists.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, "logins while cut off", 0);
        let is_refusing = random.percent(REFUSING_PERCENT);
        let after = Duration::from_micros(random.within(REFUSED_AFTER_US));
        let while_cut_off = CutOffLoginPolicy { refuses_after: is_refusing.then_some(after) };
        Self { agreed: Arc::default(), while_cut_off }
    }

    /// Creates the user, without permissions.
    ///
    /// # Errors
    ///
    /// When a command does not succeed in time, although no fault has happened yet.
    pub async fn begin(&self, run_context: &RunContext) -> Result<(), Violation> {
        let first = &run_context.in_service()[0];
        for words in USER {
            retry_until_success(run_context, words, || run(first, words)).await?;
        }
        Ok(())
    }

    /// Grants and revokes permissions in turn while clients work.
    async fn change(self, seed: u64, run_context: RunContext, is_working: impl Fn() -> bool) {
        let mut random = Random::new(seed, "rights", 0);
        loop {
            let number = self.agreed.lock().count;
            self.agreed.lock().count += 1;
            let on = format!("on default carts{number}");
            tell(&run_context, &mut random, format!("grant riak_kv.get {on} to shop")).await;
            self.agreed.lock().granted = Some((number, run_context.time.now_us()));
            sleep(Duration::from_micros(random.below(PAUSE_US_MAX))).await;
            self.agreed.lock().granted = None;
            tell(&run_context, &mut random, format!("revoke riak_kv.get {on} from shop")).await;
            self.agreed.lock().revoked.push((number, run_context.time.now_us()));
            sleep(Duration::from_micros(random.below(PAUSE_US_MAX))).await;
            if !is_working() {
                return;
            }
        }
    }

    /// Starts tasks that change permissions and observe every machine while clients work.
    pub fn watch_all(
        &self,
        seed: u64,
        run_context: &RunContext,
        stage: &Arc<Mutex<Stage>>,
    ) -> WatchTasks {
        let is_working = {
            let stage = Arc::clone(stage);
            move || *stage.lock() == Stage::Work
        };
        let changing = self.clone().change(seed, run_context.clone(), is_working.clone());
        let watch = |machine: &Arc<Machine>| {
            let watch = Watch::new(self.clone(), run_context.clone(), Arc::clone(machine));
            tokio::spawn(watch.run(is_working.clone()))
        };
        WatchTasks {
            changing: tokio::spawn(changing),
            watching: run_context.machines.iter().map(watch).collect(),
        }
    }

    /// Waits until every node applies the acknowledged permissions and reaches a majority, after all
    /// faults were repaired.
    ///
    /// # Errors
    ///
    /// When a node does not in time, or a watch has found a violation.
    pub async fn come_to_rest(
        &self,
        run_context: &RunContext,
        watched: WatchTasks,
    ) -> Result<(), Violation> {
        watched.changing.await.map_err(broken)?;
        for watching in watched.watching {
            watching.await.map_err(broken)??;
        }
        let count = self.agreed.lock().count;
        for machine in run_context.in_service() {
            let settle = || async {
                let outcome = self.observe(&machine, Connection::default(), count).await;
                let RequestOutcome::Answer(observation) = outcome else {
                    return Err("no node answers".to_owned());
                };
                if observation.is_excused() && run_context.in_service().len() > 1 {
                    return Err("it is cut off".to_owned());
                }
                match self.outdated(&observation.connection, u64::MAX) {
                    None if observation.cut_off.is_at_rest() => Ok(()),
                    None => Err(format!(
                        "it is not as before it was cut off: {:?}",
                        observation.cut_off
                    )),
                    Some(outdated) => Err(outdated),
                }
            };
            retry_until_success(run_context, &format!("rights at {}", machine.name), settle)
                .await?;
        }
        Ok(())
    }

    /// Reads a node's rules as a connection does before each request, for `count` buckets, and observes
    /// whether the node is cut off and accepts logins.
    async fn observe(
        &self,
        machine: &Machine,
        mut connection: Connection,
        count: u32,
    ) -> RequestOutcome<PermissionsObservation> {
        let while_cut_off = self.while_cut_off;
        let observe = move |store: Arc<ReplicatedStore>| async move {
            let control = store.control();
            let epoch = control.security_epoch().load(Ordering::Acquire);
            let state = control.read();
            if epoch != connection.epoch {
                connection.epoch = epoch;
                let permissions = state.security().permissions_of("shop").unwrap_or_default();
                let may_get = |number: &u32| {
                    let bucket = format!("carts{number}");
                    let bucket = BucketName { bucket_type: b"default", bucket: bucket.as_bytes() };
                    permissions.on(bucket).contains(Permission::Get)
                };
                connection.allowed = (0..count).filter(may_get).collect();
            }
            let is_alone = state.members().count() < 2;
            let cut_off = CutOffObservation::at(control, while_cut_off);
            PermissionsObservation { connection, is_alone, cut_off }
        };
        machine.ask(observe).await
    }

    /// Describes a decision that contradicts a change which was acknowledged before a time; `None` if
    /// there is none.
    fn outdated(&self, connection: &Connection, before_us: u64) -> Option<String> {
        let agreed = self.agreed.lock();
        let is_old = |(_, at_us): &&(u32, u64)| *at_us < before_us;
        let mut revoked = agreed.revoked.iter().filter(is_old).map(|(number, _)| number);
        if let Some(number) = revoked.find(|number| connection.allowed.contains(number)) {
            return Some(format!("allows carts{number}, which was revoked"));
        }
        let (number, _) = agreed.granted.as_ref().filter(is_old)?;
        let is_refused = !connection.allowed.contains(number);
        is_refused.then(|| format!("refuses carts{number}, which was granted"))
    }
}

/// Running tasks that change permissions and observe machines.
pub struct WatchTasks {
    changing: JoinHandle<()>,
    watching: Vec<JoinHandle<Result<(), Violation>>>,
}

/// The observation of one machine.
struct Watch {
    permissions: Permissions,
    run_context: RunContext,
    machine: Arc<Machine>,
    connection: Connection,
    /// Time of the last answer, in simulated microseconds.
    observed_at_us: u64,
    /// Time since when the node has run without a pause.
    ran_since_us: u64,
    /// Time since when the node has used outdated rules without reporting that it is cut off.
    silent_since_us: Option<u64>,
    observer: CutOffObserver,
}

impl Watch {
    fn new(permissions: Permissions, run_context: RunContext, machine: Arc<Machine>) -> Self {
        let connection = Connection::default();
        let observer = CutOffObserver::new(permissions.while_cut_off);
        let (observed_at_us, ran_since_us, silent_since_us) = (0, 0, None);
        Self {
            permissions,
            run_context,
            machine,
            connection,
            observed_at_us,
            ran_since_us,
            silent_since_us,
            observer,
        }
    }

    /// Observes the node again and again while clients work.
    async fn run(mut self, is_working: impl Fn() -> bool) -> Result<(), Violation> {
        while is_working() {
            sleep(OBSERVATION_PAUSE).await;
            let asked_at_us = self.run_context.time.now_us();
            let boot = self.machine.boot_count();
            if boot != self.connection.boot {
                self.connection = Connection { boot, ..Connection::default() };
                self.ran_since_us = asked_at_us;
                self.observer.begin_anew();
            }
            // The next permission is included, because it may be granted while this request is on its
            // way.
            let count = self.permissions.agreed.lock().count + 1;
            let asked =
                self.permissions.observe(&self.machine, self.connection.clone(), count).await;
            let RequestOutcome::Answer(observation) = asked else { continue };
            if self.machine.boot_count() == boot {
                self.judge(observation, asked_at_us)?;
            }
        }
        Ok(())
    }

    fn judge(
        &mut self,
        observation: PermissionsObservation,
        asked_at_us: u64,
    ) -> Result<(), Violation> {
        let now_us = self.run_context.time.now_us();
        let has_paused = now_us - asked_at_us > OBSERVATION_US_MAX
            || asked_at_us - self.observed_at_us > OBSERVATION_US_MAX;
        if has_paused {
            self.ran_since_us = now_us;
            self.observer.begin_anew();
        }
        self.observed_at_us = now_us;
        let judged = self.observer.judge(observation.cut_off, asked_at_us..=now_us);
        judged.map_err(|fault| fault.of(&self.machine.name))?;
        let is_excused = observation.is_excused();
        self.connection = observation.connection;
        let outdated = |limit_us: u64| {
            let before_us = now_us.saturating_sub(limit_us);
            self.permissions.outdated(&self.connection, before_us)
        };
        if is_excused || outdated(LIMIT_US - TOLD_WITHIN_US).is_none() {
            self.silent_since_us = None;
            return Ok(());
        }
        // A violation needs a change that was acknowledged five seconds ago, a node that has run without
        // a pause since, and three seconds without a report.
        let Some(outdated) = outdated(LIMIT_US) else {
            self.silent_since_us.get_or_insert(now_us);
            return Ok(());
        };
        let since_us = *self.silent_since_us.get_or_insert(now_us);
        if now_us < (since_us + TOLD_WITHIN_US).max(self.ran_since_us + LIMIT_US) {
            return Ok(());
        }
        let text = format!("{} {outdated}, and does not say that it is cut off", self.machine.name);
        Err(Violation::new(ViolationKind::StaleRights, text))
    }
}

/// Decisions that a connection of the user has cached, for one process of a node.
#[derive(Debug, Clone, Default)]
struct Connection {
    boot: u64,
    /// Epoch of the rules of these decisions; 0 = no decisions yet.
    epoch: u64,
    /// Numbers of the buckets on which the user has its permission.
    allowed: BTreeSet<u32>,
}

/// Result of an observation of a node.
#[derive(Debug)]
struct PermissionsObservation {
    connection: Connection,
    /// True if the node has not joined the cluster.
    is_alone: bool,
    cut_off: CutOffObservation,
}

impl PermissionsObservation {
    /// True if the node may use outdated rules.
    const fn is_excused(&self) -> bool {
        self.is_alone || self.cut_off.is_cut_off()
    }
}

/// Sends a command to some node, again and again until it is acknowledged.
async fn tell(run_context: &RunContext, random: &mut Random, words: String) {
    run_context.trace.note("rights", &words);
    loop {
        let machines = run_context.in_service();
        let machine = random.pick(&machines);
        let Err(failure) = run(machine, &words).await else { break };
        run_context.trace.note("rights", &format!("at {} -> {failure}", machine.name));
        sleep(RETRY_PAUSE).await;
    }
    run_context.trace.note("rights", "acknowledged");
}

async fn run(machine: &Machine, words: &str) -> Result<(), String> {
    let words: Vec<&str> = words.split(' ').collect();
    let command = Command::parse(&words).expect("the words are right");
    let run = move |store: Arc<ReplicatedStore>| async move {
        let run = store.control().run(quoit_cluster::Command::Security(&command));
        // An attempt must not take effect after it was given up, when the permission has changed again.
        let ended = timeout(TRY_LIMIT, run).await.map_err(|_| "no answer".to_owned())?;
        ended.map_err(|error| error.to_string())
    };
    answer(machine.ask(run).await)
}
