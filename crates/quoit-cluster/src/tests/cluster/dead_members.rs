//! Members that die at any stage of their membership, voters or not: the remedies that operators are given
//! work, and later changes of layout finish.

use super::*;
use crate::{Departure, MemberStatus, StagedChange};

/// Stage of the membership of the member that dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MemberStage {
    /// It waits for the commit.
    Joining,
    /// It replaces another member, and has none of the data yet.
    Newcomer,
    Valid,
    Leaving,
    Exiting,
    /// Another node replaces it.
    Replaced,
    /// It was marked as down before it was asked to leave.
    LeavingDown,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Remedy {
    Down,
    ForceRemove,
}

/// A node that has not joined.
const SPARE: u8 = 5;
/// A further node, whose join is the later change of layout.
const LATER: u8 = 6;

/// Four members, three of them voters, and two nodes that are alone.
struct DeadMemberCluster {
    cluster: TestCluster,
    victim: u8,
    asker: u8,
}

impl DeadMemberCluster {
    async fn new(stage: MemberStage, votes: bool) -> Self {
        let cluster = TestCluster::joined(4).await;
        let voters = || cluster.control(1).voters_and_starts().unwrap().0.nodes;
        cluster.until("three vote", || voters().len() == 3).await;
        let is_voter = |number: &u8| voters().contains(&id(*number));
        let victim = (1..=4).find(|number| is_voter(number) == votes).unwrap();
        let asker = (1..=4).find(|number| *number != victim && is_voter(number)).unwrap();
        let victim = match stage {
            MemberStage::Joining | MemberStage::Newcomer => SPARE,
            _ => victim,
        };
        let mut scene = Self { cluster, victim, asker };
        for number in [SPARE, LATER] {
            let disk = FaultyDisk::new(u64::from(number));
            scene.cluster.nodes.push(Node { number, disk, process: None });
            scene.cluster.start(number).await;
        }
        scene
    }

    fn status(&self) -> Option<(MemberStatus, bool)> {
        let state = self.cluster.state(self.asker);
        state.members().get(id(self.victim)).map(|member| (member.status, member.is_down))
    }

    async fn stage(&self, change: StagedChange) {
        self.cluster.control(self.asker).stage(&change).await.unwrap();
    }

    async fn join(&self, number: u8) {
        self.cluster.join(number, self.asker).await.unwrap();
    }

    async fn die(&mut self) {
        self.cluster.crash(self.victim);
        let (control, victim) = (Arc::clone(self.cluster.control(self.asker)), id(self.victim));
        self.cluster.until("it is seen to be away", || !control.is_reachable(victim)).await;
    }

    /// Brings the victim to the stage at which it dies, and crashes it.
    async fn reach(&mut self, stage: MemberStage) {
        let (node, asker) = (id(self.victim), self.asker);
        // It has records that belong to others, so that it does not leave by itself.
        self.cluster.control(self.victim).set_drained_by_layout(0);
        match stage {
            MemberStage::Joining => self.join(self.victim).await,
            MemberStage::Valid => {}
            MemberStage::Newcomer | MemberStage::Replaced => {
                self.join(SPARE).await;
                let old = if stage == MemberStage::Newcomer { asker % 4 + 1 } else { self.victim };
                self.stage(StagedChange::Replace { old: id(old), new: id(SPARE) }).await;
                self.cluster.commit(asker).await;
            }
            MemberStage::Leaving | MemberStage::Exiting => {
                self.stage(StagedChange::Leave { node }).await;
                self.cluster.commit(asker).await;
            }
            MemberStage::LeavingDown => {
                self.die().await;
                self.cluster.control(asker).mark_down(node).await.unwrap();
                self.stage(StagedChange::Leave { node }).await;
                self.cluster.commit(asker).await;
                assert_eq!(self.status(), Some((MemberStatus::Leaving, true)));
                return;
            }
        }
        if stage == MemberStage::Exiting {
            self.move_all().await;
            let exits = || self.status() == Some((MemberStatus::Exiting, false));
            self.cluster.until("it is about to go", exits).await;
        }
        self.die().await;
    }

    /// Completes all copies, after all running members have learned of the layout.
    async fn move_all(&self) {
        let cluster = &self.cluster;
        let newest = |number| cluster.state(number).layouts().newest().version();
        let is_member =
            |number: &u8| cluster.state(self.asker).members().get(id(*number)).is_some();
        let know = || {
            let mut members = cluster.running().filter(is_member);
            members.all(|number| newest(number) == newest(self.asker))
        };
        cluster.until("all know the layout", know).await;
        cluster.move_all().await;
    }

    /// Has another node join, and completes all copies.
    async fn later_change(&mut self) {
        self.join(LATER).await;
        self.cluster.commit(self.asker).await;
        self.move_all().await;
        assert!(self.cluster.state(self.asker).layouts().newest().node_index(id(LATER)).is_some());
    }
}

async fn check(stage: MemberStage, votes: bool, remedy: Remedy) {
    let mut scene = DeadMemberCluster::new(stage, votes).await;
    scene.reach(stage).await;
    let (control, node) = (Arc::clone(scene.cluster.control(scene.asker)), id(scene.victim));
    match remedy {
        Remedy::Down => control.mark_down(node).await.unwrap(),
        Remedy::ForceRemove if stage == MemberStage::Joining => {
            let remove = StagedChange::ForceRemove { node };
            let refusal = control.stage(&remove).await.unwrap_err().to_string();
            assert!(refusal.contains("`cluster clear`"), "{refusal}");
            control.clear_staged().await.unwrap();
        }
        Remedy::ForceRemove => {
            scene.stage(StagedChange::ForceRemove { node }).await;
            scene.cluster.commit(scene.asker).await;
            assert_eq!(scene.status(), None);
        }
    }
    if remedy == Remedy::Down && stage == MemberStage::Newcomer {
        // No other node gets the copies that it lacks in its place.
        scene.stage(StagedChange::ForceRemove { node }).await;
        scene.cluster.commit(scene.asker).await;
    }
    if remedy == Remedy::Down && stage == MemberStage::Joining {
        control.plan().unwrap();
        let refusal = control.commit_staged(None).await.unwrap_err().to_string();
        assert!(refusal.contains("`cluster clear`"), "{refusal}");
        control.clear_staged().await.unwrap();
    }
    scene.later_change().await;
    if remedy == Remedy::Down {
        scene.comes_back(stage).await;
    }
}

impl DeadMemberCluster {
    /// A member that was marked as down continues at its stage.
    async fn comes_back(&mut self, stage: MemberStage) {
        let victim = self.victim;
        match stage {
            MemberStage::Joining | MemberStage::Newcomer => {}
            MemberStage::Valid => {
                self.cluster.start(victim).await;
                let is_full = || self.status() == Some((MemberStatus::Valid, false));
                self.cluster.until("it is a full member", is_full).await;
            }
            MemberStage::Leaving
            | MemberStage::Exiting
            | MemberStage::Replaced
            | MemberStage::LeavingDown => {
                self.cluster.start(victim).await;
                let mut departure = self.cluster.control(victim).departure();
                let left = departure.wait_for(Option::is_some).await.unwrap().clone();
                assert_eq!(left, Some(Departure::Left));
                self.cluster.until("it is gone", || self.status().is_none()).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn remedies_unblock_changes_whenever_a_member_dies() {
    let stages = [
        MemberStage::Joining,
        MemberStage::Newcomer,
        MemberStage::Valid,
        MemberStage::Leaving,
        MemberStage::Exiting,
        MemberStage::Replaced,
        MemberStage::LeavingDown,
    ];
    for stage in stages {
        for votes in [true, false] {
            // A node that has just joined is not a voter.
            if votes && matches!(stage, MemberStage::Joining | MemberStage::Newcomer) {
                continue;
            }
            for remedy in [Remedy::Down, Remedy::ForceRemove] {
                println!("{stage:?}, votes: {votes}, {remedy:?}");
                check(stage, votes, remedy).await;
            }
        }
    }
}

/// The other members wait for a member that is not marked as down.
#[tokio::test(start_paused = true)]
async fn member_that_died_unmarked_is_waited_for() {
    for stage in [MemberStage::Valid, MemberStage::Leaving, MemberStage::Exiting] {
        let mut scene = DeadMemberCluster::new(stage, false).await;
        scene.reach(stage).await;
        scene.join(LATER).await;
        scene.cluster.commit(scene.asker).await;
        let running: Vec<u8> = scene.cluster.running().collect();
        for number in running {
            let state = scene.cluster.state(number);
            let missing = state.layouts().incomplete().filter(|(_, node)| *node == id(number));
            let missing: Vec<Partition> = missing.map(|(partition, _)| partition).collect();
            if !missing.is_empty() {
                scene.cluster.control(number).report_moved(&missing).await.unwrap();
            }
        }
        sleep(PATIENCE).await;
        assert!(scene.cluster.state(scene.asker).layouts().is_moving(), "{stage:?}");
        scene.cluster.control(scene.asker).mark_down(id(scene.victim)).await.unwrap();
        let cluster = &scene.cluster;
        cluster.until("it is done", || !cluster.state(scene.asker).layouts().is_moving()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_member_can_be_removed_when_no_more_layouts_are_possible() {
    let mut scene = DeadMemberCluster::new(MemberStage::Newcomer, false).await;
    scene.reach(MemberStage::Newcomer).await;
    let control = Arc::clone(scene.cluster.control(scene.asker));
    let mut refusal = None;
    for capacity in 101..=120 {
        scene.stage(StagedChange::Capacity { node: id(1), capacity }).await;
        control.plan().unwrap();
        if let Err(fault) = control.commit_staged(None).await {
            refusal = Some(fault.to_string());
            control.clear_staged().await.unwrap();
            break;
        }
    }
    let refusal = refusal.expect("layouts have a bound");
    assert!(refusal.contains("`cluster force-remove`"), "{refusal}");
    scene.stage(StagedChange::ForceRemove { node: id(scene.victim) }).await;
    scene.cluster.commit(scene.asker).await;
    scene.move_all().await;
    scene.later_change().await;
}
