//! Disks of a machine.

use crate::losses::DirectoryCopy;
use crate::random::Random;
use quoit_seam::{Faults, FaultyDisk};

/// The disks of a node, one for each of its directories. They outlive processes.
#[derive(Clone)]
pub struct Disks {
    /// Disk of the control plane.
    pub control: FaultyDisk,
    /// Disk of the store.
    pub data: FaultyDisk,
    /// Disk of the hints.
    pub hints: FaultyDisk,
    /// Disk of the reap records.
    pub reaped: FaultyDisk,
    /// Disk of the source queues.
    pub queues: FaultyDisk,
}

impl Disks {
    /// Creates empty disks whose faults follow from `random`.
    #[must_use]
    pub fn new(random: &mut Random) -> Self {
        let (control, data) = (random.number(), random.number());
        let disk = FaultyDisk::new;
        Self {
            control: disk(control),
            data: disk(data),
            hints: disk(control ^ data),
            reaped: disk(!(control ^ data)),
            queues: disk(control ^ !data.rotate_left(1)),
        }
    }

    /// Changes the faults of all disks.
    pub fn set_faults(&self, change: impl Fn(&mut Faults)) {
        self.each().iter().for_each(|disk| disk.set_faults(&change));
    }

    /// Limits each disk to `room_bytes` more bytes than it uses now; `None` removes the limit.
    pub fn set_room(&self, room_bytes: Option<u64>) {
        for disk in self.each() {
            let used_bytes = disk.used_bytes();
            let capacity_bytes = room_bytes.map(|room_bytes| used_bytes + room_bytes);
            disk.set_faults(|faults| faults.capacity_bytes = capacity_bytes);
        }
    }

    pub(crate) fn restarted(&self, restart: impl Fn(&FaultyDisk) -> FaultyDisk) -> Self {
        Self {
            control: restart(&self.control),
            data: restart(&self.data),
            hints: restart(&self.hints),
            reaped: restart(&self.reaped),
            queues: restart(&self.queues),
        }
    }

    /// Removes all files.
    pub(crate) fn wipe(&self) {
        for disk in self.each() {
            DirectoryCopy::default().restore(disk);
        }
    }

    const fn each(&self) -> [&FaultyDisk; 5] {
        [&self.control, &self.data, &self.hints, &self.reaped, &self.queues]
    }
}
