//! Applies faults to the world of a run, and repairs them.

use crate::cluster::Cluster;
use crate::engine::EngineKind;
use crate::faults::{LATENCY_US, MachineFault};
use crate::losses::{DiskLoss, lose_segments};
use crate::machine::{Machine, MachineUse};
use crate::network::LinkDirection;
use crate::orders::Order;
use crate::random::Random;
use crate::versions::NEWER;
use quoit_seam::Disk;
use std::sync::Arc;
use std::time::Duration;

impl Cluster {
    /// Applies a fault, or its end. Faults of machines that are not in service have no effect.
    pub(crate) fn apply(&mut self, fault: MachineFault) {
        if fault
            .machine()
            .is_some_and(|place| self.machine(place).machine_use() != MachineUse::InService)
        {
            return;
        }
        self.note_disturbance(fault);
        match fault {
            MachineFault::Kill(place) => {
                self.note(place, "KILL");
                self.stop(place, true);
            }
            MachineFault::PowerLoss(place) => {
                self.note(place, "POWER LOSS");
                let now_us = self.run_context.time.now_us();
                self.run_context.history.lock().hardships.power_losses_us.push(now_us);
                self.hold(place);
                self.stop(place, false);
            }
            MachineFault::Start(place) => self.start(place),
            MachineFault::Stall(place, is_stalled) => self.stall(place, is_stalled),
            MachineFault::Cut { from, to, is_cut } => self.cut(from, to, is_cut),
            MachineFault::Latency(us_max) => {
                let text = format!("MESSAGES TAKE up to {} ms", us_max / 1_000);
                self.run_context.trace.note("net", &text);
                self.sim.set_max_message_latency(Duration::from_micros(us_max));
            }
            MachineFault::Clock(place, skew_us) => {
                self.note(place, &format!("CLOCK {:+} ms", skew_us / 1_000));
                self.run_context.history.lock().hardships.are_clocks_wrong = true;
                self.machine(place).clock.set_skew_us(skew_us);
            }
            MachineFault::SlowDisk(place, delay_us) => {
                self.note(place, &format!("DISK TAKES up to {} ms", delay_us / 1_000));
                self.machine(place).disk_delay.set_us_max(delay_us);
            }
            MachineFault::HangDisk(place, is_hung) => {
                self.note(place, if is_hung { "DISK HANGS" } else { "DISK GOES ON" });
                self.machine(place).disk_delay.set_hung(is_hung);
            }
            MachineFault::Stop(place) => {
                self.note(place, "STOP");
                self.machine(place).request_stop();
            }
            MachineFault::LoseFiles(place, number) => self.lose(place, |machine| {
                let mut random = Random::new(number, "lost files", 0);
                Some(lose_segments(&machine.disks().data, &mut random))
            }),
            MachineFault::CopyData(place) => {
                self.note(place, "DATA COPIED");
                self.machine(place).copy_data();
            }
            MachineFault::RestoreData(place) => self.lose(place, |machine| {
                let told = "an older copy is restored".to_owned();
                machine.restore_data().then_some(DiskLoss { told, is_noticed: false })
            }),
            MachineFault::DiskSpace(place, room_bytes) => {
                self.note(place, &format!("DISK HAS ROOM for {room_bytes:?} bytes"));
                self.machine(place).disks().set_room(room_bytes);
            }
            MachineFault::ColdReads(place, one_in) => {
                self.note(place, &format!("COLD READS, one in {one_in}"));
                let disks = self.machine(place).disks();
                disks.set_faults(|faults| faults.would_block_one_in = one_in);
            }
            MachineFault::Upgrade(place) => self.upgrade(place),
            MachineFault::Rot(place, number) => self.rot(place, number),
        }
    }

    /// Carries out the operator's orders, and switches off retired machines.
    pub(crate) fn carry_out_orders(&mut self) {
        for order in self.run_context.orders.take() {
            match order {
                Order::SwitchOn(place) => {
                    self.note(place, "SWITCHED ON");
                    let machine = self.machine(place);
                    machine.set_machine_use(MachineUse::InService);
                    self.add_host(&machine);
                    let held = self.held.iter().copied().collect::<Vec<_>>();
                    held.into_iter().for_each(|other| self.hold(other));
                }
                Order::SwitchOff(place) => {
                    self.note(place, "SWITCHED OFF");
                    self.machine(place).set_machine_use(MachineUse::Retired);
                    self.disturb(place);
                }
                Order::Wipe { place, is_isolated } => self.wipe(place, is_isolated),
                Order::Isolate { place, is_isolated } => self.isolate(place, is_isolated),
                Order::Cut { from, to, is_cut } => {
                    self.disturb(from);
                    self.disturb(to);
                    self.cut(from, to, is_cut);
                }
                Order::Start(place) => self.start(place),
                Order::Destroy(place) => {
                    self.note(place, "DESTROYED");
                    let now_us = self.run_context.time.now_us();
                    self.run_context.history.lock().hardships.losses_us.push(now_us);
                    self.disturb(place);
                    self.machine(place).set_machine_use(MachineUse::Retired);
                }
            }
        }
        for machine in Arc::clone(&self.run_context.machines).iter() {
            let name = machine.name.as_str();
            if machine.machine_use() == MachineUse::Retired && self.sim.is_host_running(name) {
                self.stop(machine.index, true);
            }
        }
    }

    /// Repairs all faults, upgrades the machines with older programs and starts the machines that are
    /// off.
    pub(crate) fn mend(&mut self) {
        self.run_context.trace.note("run", "MEND EVERYTHING");
        self.sim.set_max_message_latency(Duration::from_micros(LATENCY_US));
        let machines = self.run_context.in_service();
        self.isolated.clear();
        for one in self.run_context.machines.iter() {
            for other in self.run_context.machines.iter() {
                let (from, to) = (one.name.clone(), other.name.clone());
                self.blocked_links.set_blocked(LinkDirection { from, to }, false);
            }
        }
        for machine in &machines {
            let place = machine.index;
            machine.clock.set_skew_us(0);
            machine.disk_delay.set_us_max(0);
            machine.disk_delay.set_hung(false);
            machine.disks().set_room(None);
            machine.disks().set_faults(|faults| faults.would_block_one_in = 0);
            machine.set_stalled(false);
            self.release(place);
            if machine.versions() != NEWER {
                self.upgrade(place);
            }
            self.start(place);
        }
    }

    /// Starts nodes again that have stopped by themselves, as their log asks operators to do. Such a node
    /// began to stop because of a wrong clock, before the clock was repaired.
    pub(crate) fn start_again(&mut self) {
        for machine in self.run_context.in_service() {
            if machine.is_stopping() && machine.is_closed() {
                self.start(machine.index);
            }
        }
    }

    fn machine(&self, place: usize) -> Arc<Machine> {
        Arc::clone(&self.run_context.machines[place])
    }

    fn note(&self, place: usize, text: &str) {
        self.run_context.trace.note(&self.machine(place).name, text);
    }

    fn stall(&mut self, place: usize, is_stalled: bool) {
        self.note(place, if is_stalled { "STALL" } else { "GO ON" });
        self.machine(place).set_stalled(is_stalled);
        if is_stalled { self.hold(place) } else { self.release(place) }
    }

    /// Notes that the end of a process loses writes like a power failure: `innostore` collects writes in
    /// memory, and its worker waits for the disk before it hands them to the operating system.
    fn note_lost_memory(&self, place: usize) {
        let is_awaited = self.machine(place).disk_delay.is_awaited();
        if is_awaited && self.environment.engine_kind == EngineKind::Innostore {
            let now_us = self.run_context.time.now_us();
            self.run_context.history.lock().hardships.power_losses_us.push(now_us);
        }
    }

    fn stop(&mut self, place: usize, keeps_power: bool) {
        if keeps_power {
            self.note_lost_memory(place);
        }
        let machine = self.machine(place);
        if !machine.is_closed() {
            self.run_context.history.lock().hardships.has_process_ended = true;
        }
        machine.stop(keeps_power);
        machine.disk_delay.set_hung(false);
        self.sim.crash(machine.name.as_str());
    }

    fn start(&mut self, place: usize) {
        let machine = self.machine(place);
        if machine.is_stopping() {
            // A process that was told to stop and has not ended by now is killed.
            self.stop(place, true);
        }
        if !self.sim.is_host_running(machine.name.as_str()) {
            self.note(place, "START");
            if self.damaged.contains(&place) {
                // An index that is rebuilt from damaged files can't distinguish damaged records from
                // missing ones.
                self.note_lost_files(false);
            }
            self.release(place);
            self.sim.bounce(machine.name.as_str());
        }
    }

    fn upgrade(&mut self, place: usize) {
        self.note(place, "UPGRADE");
        self.machine(place).set_versions(NEWER);
        self.stop(place, true);
        self.start(place);
    }

    /// Holds back all messages from and to a machine.
    fn hold(&mut self, place: usize) {
        self.held.insert(place);
        let machine = self.machine(place);
        for other in self.others(place) {
            self.sim.hold(machine.name.as_str(), other.name.as_str());
        }
    }

    /// Releases the messages from and to a machine.
    fn release(&mut self, place: usize) {
        self.held.remove(&place);
        let machine = self.machine(place);
        for other in self.others(place) {
            self.sim.release(machine.name.as_str(), other.name.as_str());
        }
    }

    /// Returns the other machines that were ever switched on.
    fn others(&self, place: usize) -> impl Iterator<Item = &Arc<Machine>> {
        let machines = self.run_context.machines.iter();
        machines
            .filter(move |other| other.index != place && other.machine_use() != MachineUse::Spare)
    }

    fn cut(&self, from: usize, to: usize, is_cut: bool) {
        if !is_cut && (self.isolated.contains(&from) || self.isolated.contains(&to)) {
            return;
        }
        let [from, to] = [from, to].map(|place| self.machine(place).name.clone());
        let direction = LinkDirection { from, to };
        let LinkDirection { from, to } = &direction;
        let text = if is_cut { "CUT" } else { "JOINED" };
        self.run_context.trace.note("net", &format!("{text} from {from} to {to}"));
        self.blocked_links.set_blocked(direction, is_cut);
    }

    /// Records the machines that may fail to answer because of a fault.
    fn note_disturbance(&self, fault: MachineFault) {
        match fault {
            MachineFault::Kill(place)
            | MachineFault::PowerLoss(place)
            | MachineFault::Stall(place, true)
            | MachineFault::Stop(place)
            | MachineFault::Upgrade(place) => self.disturb(place),
            MachineFault::Cut { from, to, is_cut: true } => {
                self.disturb(from);
                self.disturb(to);
            }
            _ => {}
        }
    }

    fn disturb(&self, place: usize) {
        let now_us = self.run_context.time.now_us();
        self.run_context.history.lock().hardships.disturbances.push((now_us, place));
    }

    /// Records that a disk has lost synced data, and whether its node can notice the loss.
    fn note_lost_files(&self, is_noticed: bool) {
        let now_us = self.run_context.time.now_us();
        let hardships = &mut self.run_context.history.lock().hardships;
        hardships.files_lost_us.push(now_us);
        if !is_noticed {
            hardships.unnoticed_losses_us.push(now_us);
        }
    }

    /// Applies a loss of data to the disk of a machine that is off. A process that is stopping is ended
    /// first; if a process still runs, nothing happens.
    fn lose(&mut self, place: usize, lose: impl FnOnce(&Machine) -> Option<DiskLoss>) {
        let machine = self.machine(place);
        if machine.store().is_some() {
            return;
        }
        if machine.is_stopping() {
            self.stop(place, true);
        }
        if self.sim.is_host_running(machine.name.as_str()) {
            return;
        }
        if let Some(DiskLoss { told, is_noticed }) = lose(&machine) {
            self.note(place, &format!("DISK FORGETS: {told}"));
            machine.engine_model().lock().void();
            self.note_lost_files(is_noticed);
        }
    }

    /// Ends the process of a machine and takes its whole directory.
    fn wipe(&mut self, place: usize, is_isolated: bool) {
        let machine = self.machine(place);
        self.note(place, "DIRECTORY GONE");
        self.stop(place, true);
        machine.wipe();
        let now_us = self.run_context.time.now_us();
        self.run_context.history.lock().hardships.losses_us.push(now_us);
        self.disturb(place);
        if is_isolated {
            self.isolate(place, true);
        }
    }

    /// Holds all messages from and to a machine back, or releases them.
    fn isolate(&mut self, place: usize, is_isolated: bool) {
        if is_isolated {
            self.isolated.insert(place);
        } else {
            self.isolated.remove(&place);
        }
        self.disturb(place);
        for other in 0..self.run_context.machines.len() {
            if other != place {
                self.cut(place, other, is_isolated);
                self.cut(other, place, is_isolated);
            }
        }
    }

    /// Flips a bit in a file of the engine.
    fn rot(&mut self, place: usize, number: u64) {
        let disk = self.machine(place).disks().data;
        let names = disk.list().unwrap_or_default();
        let Some(name) = names.get(quoit_number::index(number) % names.len().max(1)) else {
            return;
        };
        let size_bytes = disk.bytes(name).map_or(0, |bytes| bytes.len());
        if size_bytes > 0 {
            let offset = quoit_number::index(number >> 16) % size_bytes;
            self.note(place, &format!("BIT FLIPS in {name} at {offset}"));
            self.run_context.history.lock().hardships.is_disk_damaged = true;
            self.damaged.insert(place);
            self.machine(place).engine_model().lock().void();
            disk.flip_bit(name, offset, quoit_number::low_u32(number >> 8) % 8);
        }
    }
}
