//! Users and rights: an operator grants one right after the other and revokes it while nodes are away, and
//! each node is looked at all the time.
//!
//! A connection of a client keeps what was decided for it until the epoch of the rules is another one; the
//! watch of a node does the same, by the same number. A node may be behind, if it says that it is, and since
//! when; in half of the runs it refuses new logins after a time.

use crate::cut_off::{CutOffLook, CutOffWitness};
use crate::finish::{answer, insist};
use crate::ground::Ground;
use crate::machine::{Asked, Machine};
use crate::random::Random;
use crate::stage::{Stage, broken};
use crate::violation::{Fault, Violation};
use parking_lot::Mutex;
use quoit_core::ReplicatedStore;
use quoit_security::{Command, Permission, WhileCutOff};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Commands that make the user of the runs, before its right comes and goes.
const USER: [&str; 3] = ["add-user shop", "add-source shop 10.0.0.0/8 trust", "enable"];
/// Longest pause between two changes, in microseconds.
const PAUSE_US_MAX: u64 = 2_000_000;
/// Time for one try of a change: a node that reaches no majority takes longer to say so.
const TRY_LIMIT: Duration = Duration::from_secs(1);
/// Pause between two tries of a change.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Pause between two looks at a node.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// A node whose answer to a look took longer, or that was looked at longer ago, has not run all the time.
const LOOK_US_MAX: u64 = 300_000;
/// A node that keeps what is outdated says so within so long, in microseconds: messages that were held back
/// may be older than what they say is.
const TOLD_WITHIN_US: u64 = 3_000_000;
/// Of a hundred runs so many have nodes that refuse logins while they are cut off.
const REFUSING_PERCENT: u64 = 50;
/// The time after which they do, in microseconds.
const REFUSED_AFTER_US: Range<u64> = 1_000_000..12_000_000;
/// A change counts within so long on every node that can learn of it, in microseconds.
const LIMIT_US: u64 = 5_000_000;

/// The rights as they were agreed on. Each is on a bucket of its own, so that a node shows which it knows.
#[derive(Debug, Default)]
struct Agreed {
    /// Rights that were asked for so far, from the first one.
    count: u32,
    /// The last right, and when it was acknowledged, until it is revoked.
    granted: Option<(u32, u64)>,
    /// Rights that were revoked, and when that was acknowledged.
    revoked: Vec<(u32, u64)>,
}

/// The rights of a run.
#[derive(Clone)]
pub struct Rights {
    agreed: Arc<Mutex<Agreed>>,
    /// The setting of all nodes.
    while_cut_off: WhileCutOff,
}

impl Rights {
    /// The rights of a seed's run, before the user is made.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, "logins while cut off", 0);
        let is_refusing = random.percent(REFUSING_PERCENT);
        let after = Duration::from_micros(random.within(REFUSED_AFTER_US));
        let while_cut_off = WhileCutOff { refuses_after: is_refusing.then_some(after) };
        Self { agreed: Arc::default(), while_cut_off }
    }

    /// Makes the user; it has no right yet.
    ///
    /// # Errors
    ///
    /// When a cluster in which nothing is wrong yet refuses.
    pub async fn begin(&self, ground: &Ground) -> Result<(), Violation> {
        let first = &ground.in_service()[0];
        for words in USER {
            insist(ground, words, || run(first, words)).await?;
        }
        Ok(())
    }

    /// Grants and revokes in turn as long as clients work.
    async fn change(self, seed: u64, ground: Ground, is_working: impl Fn() -> bool) {
        let mut random = Random::new(seed, "rights", 0);
        loop {
            let number = self.agreed.lock().count;
            self.agreed.lock().count += 1;
            let on = format!("on default carts{number}");
            tell(&ground, &mut random, format!("grant riak_kv.get {on} to shop")).await;
            self.agreed.lock().granted = Some((number, ground.time.now_us()));
            sleep(Duration::from_micros(random.below(PAUSE_US_MAX))).await;
            self.agreed.lock().granted = None;
            tell(&ground, &mut random, format!("revoke riak_kv.get {on} from shop")).await;
            self.agreed.lock().revoked.push((number, ground.time.now_us()));
            sleep(Duration::from_micros(random.below(PAUSE_US_MAX))).await;
            if !is_working() {
                return;
            }
        }
    }

    /// Changes rights, and looks at every machine, as long as clients work.
    pub fn watch_all(&self, seed: u64, ground: &Ground, stage: &Arc<Mutex<Stage>>) -> Watched {
        let is_working = {
            let stage = Arc::clone(stage);
            move || *stage.lock() == Stage::Work
        };
        let changing = self.clone().change(seed, ground.clone(), is_working.clone());
        let watch = |machine: &Arc<Machine>| {
            let watch = Watch::new(self.clone(), ground.clone(), Arc::clone(machine));
            tokio::spawn(watch.run(is_working.clone()))
        };
        Watched {
            changing: tokio::spawn(changing),
            watching: ground.machines.iter().map(watch).collect(),
        }
    }

    /// Waits until every node keeps what was agreed on and says that it reaches a majority, now that nothing
    /// is wrong any more.
    ///
    /// # Errors
    ///
    /// When one does not, or did not while clients worked.
    pub async fn come_to_rest(&self, ground: &Ground, watched: Watched) -> Result<(), Violation> {
        watched.changing.await.map_err(broken)?;
        for watching in watched.watching {
            watching.await.map_err(broken)??;
        }
        let count = self.agreed.lock().count;
        for machine in ground.in_service() {
            let settle = || async {
                let looking = self.look(&machine, Connection::default(), count).await;
                let Asked::Answer(look) = looking else {
                    return Err("no node answers".to_owned());
                };
                if look.is_excused() && ground.in_service().len() > 1 {
                    return Err("it is cut off".to_owned());
                }
                match self.outdated(&look.connection, u64::MAX) {
                    None if look.cut_off.is_at_rest() => Ok(()),
                    None => Err(format!("it is not as before it was cut off: {:?}", look.cut_off)),
                    Some(outdated) => Err(outdated),
                }
            };
            insist(ground, &format!("rights at {}", machine.name), settle).await?;
        }
        Ok(())
    }

    /// Looks at the rules as a connection does before each request, for so many buckets, and asks whether the
    /// node is cut off and takes logins.
    async fn look(
        &self,
        machine: &Machine,
        mut connection: Connection,
        count: u32,
    ) -> Asked<RightsLook> {
        let while_cut_off = self.while_cut_off;
        let look = move |store: Arc<ReplicatedStore>| async move {
            let control = store.control();
            let epoch = control.security_epoch().load(Ordering::Acquire);
            let state = control.read();
            if epoch != connection.epoch {
                connection.epoch = epoch;
                let rights = state.security().rights_of("shop").unwrap_or_default();
                let may_get = |number: &u32| {
                    let bucket = format!("carts{number}");
                    rights.on(b"default", bucket.as_bytes()).contains(Permission::Get)
                };
                connection.allowed = (0..count).filter(may_get).collect();
            }
            let is_alone = state.members().count() < 2;
            let cut_off = CutOffLook::at(control, while_cut_off);
            RightsLook { connection, is_alone, cut_off }
        };
        machine.ask(look).await
    }

    /// A decision of a connection that is not what was acknowledged before a time, in words.
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

/// Tasks that change rights and look at the machines.
pub struct Watched {
    changing: JoinHandle<()>,
    watching: Vec<JoinHandle<Result<(), Violation>>>,
}

/// The watch of one machine.
struct Watch {
    rights: Rights,
    ground: Ground,
    machine: Arc<Machine>,
    connection: Connection,
    /// The last answer, and when its node began to run without a pause.
    looked_at_us: u64,
    ran_since_us: u64,
    /// Since when the node keeps what is outdated and does not say so.
    silent_since_us: Option<u64>,
    witness: CutOffWitness,
}

impl Watch {
    fn new(rights: Rights, ground: Ground, machine: Arc<Machine>) -> Self {
        let connection = Connection::default();
        let witness = CutOffWitness::new(rights.while_cut_off);
        let (looked_at_us, ran_since_us, silent_since_us) = (0, 0, None);
        Self {
            rights,
            ground,
            machine,
            connection,
            looked_at_us,
            ran_since_us,
            silent_since_us,
            witness,
        }
    }

    /// Looks again and again while clients work.
    async fn run(mut self, is_working: impl Fn() -> bool) -> Result<(), Violation> {
        while is_working() {
            sleep(LOOK_PAUSE).await;
            let asked_at_us = self.ground.time.now_us();
            let boot = self.machine.boot_count();
            if boot != self.connection.boot {
                self.connection = Connection { boot, ..Connection::default() };
                self.ran_since_us = asked_at_us;
                self.witness.begin_anew();
            }
            // One more than was asked for: the next right may be granted on the way to the node.
            let count = self.rights.agreed.lock().count + 1;
            let asked = self.rights.look(&self.machine, self.connection.clone(), count).await;
            let Asked::Answer(look) = asked else { continue };
            if self.machine.boot_count() == boot {
                self.judge(look, asked_at_us)?;
            }
        }
        Ok(())
    }

    fn judge(&mut self, look: RightsLook, asked_at_us: u64) -> Result<(), Violation> {
        let now_us = self.ground.time.now_us();
        let has_paused =
            now_us - asked_at_us > LOOK_US_MAX || asked_at_us - self.looked_at_us > LOOK_US_MAX;
        if has_paused {
            self.ran_since_us = now_us;
            self.witness.begin_anew();
        }
        self.looked_at_us = now_us;
        let judged = self.witness.judge(look.cut_off, asked_at_us, now_us);
        judged.map_err(|fault| fault.of(&self.machine.name))?;
        let is_excused = look.is_excused();
        self.connection = look.connection;
        let outdated = |limit_us: u64| {
            let before_us = now_us.saturating_sub(limit_us);
            self.rights.outdated(&self.connection, before_us)
        };
        if is_excused || outdated(LIMIT_US - TOLD_WITHIN_US).is_none() {
            self.silent_since_us = None;
            return Ok(());
        }
        // Changes that were acknowledged five seconds ago count, and the node has run for as long.
        let Some(outdated) = outdated(LIMIT_US) else {
            self.silent_since_us.get_or_insert(now_us);
            return Ok(());
        };
        let since_us = *self.silent_since_us.get_or_insert(now_us);
        if now_us < (since_us + TOLD_WITHIN_US).max(self.ran_since_us + LIMIT_US) {
            return Ok(());
        }
        let text = format!("{} {outdated}, and does not say that it is cut off", self.machine.name);
        Err(Violation::new(Fault::StaleRights, text))
    }
}

/// Decisions of a connection of the user, in one life of a node.
#[derive(Debug, Clone, Default)]
struct Connection {
    boot: u64,
    /// The epoch of the rules that were looked at; 0 = none.
    epoch: u64,
    /// Numbers of the buckets on which the user has its right.
    allowed: BTreeSet<u32>,
}

/// A look at a node.
#[derive(Debug)]
struct RightsLook {
    connection: Connection,
    /// Whether the node has not joined the cluster.
    is_alone: bool,
    cut_off: CutOffLook,
}

impl RightsLook {
    /// Whether the node may be behind.
    const fn is_excused(&self) -> bool {
        self.is_alone || self.cut_off.is_cut_off()
    }
}

/// Has any node carry out a command, again and again until it is acknowledged.
async fn tell(ground: &Ground, random: &mut Random, words: String) {
    ground.trace.note("rights", &words);
    loop {
        let machines = ground.in_service();
        let machine = random.pick(&machines);
        let Err(failure) = run(machine, &words).await else { break };
        ground.trace.note("rights", &format!("at {} -> {failure}", machine.name));
        sleep(RETRY_PAUSE).await;
    }
    ground.trace.note("rights", "acknowledged");
}

async fn run(machine: &Machine, words: &str) -> Result<(), String> {
    let words: Vec<&str> = words.split(' ').collect();
    let command = Command::parse(&words).expect("the words are right");
    let run = move |store: Arc<ReplicatedStore>| async move {
        let run = store.control().run(quoit_cluster::Command::Security(&command));
        // A try that is given up ends: it would be made later, when the right has changed again.
        let ended = timeout(TRY_LIMIT, run).await.map_err(|_| "no answer".to_owned())?;
        ended.map_err(|error| error.to_string())
    };
    answer(machine.ask(run).await)
}
