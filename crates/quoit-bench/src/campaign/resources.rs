//! The disk and memory that a cell needs, and that the machine has.

use super::fields::{FieldReader, unsigned};
use super::server_plan::ServerPlan;
use crate::config::ValueForm;
use crate::output::text::size_text;
use crate::term::Term;
use std::path::Path;

/// Memory that a node needs without data, in bytes.
const NODE_MEMORY_BYTES: u64 = 60_000_000;

/// Needs of a cell in addition to the basic needs of its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ResourceNeeds {
    disk_bytes: u64,
    memory_bytes: u64,
}

/// Free disk and memory of a machine; `None` if unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FreeResources {
    disk_bytes: Option<u64>,
    memory_bytes: Option<u64>,
}

impl ResourceNeeds {
    /// Reads the value of `needs`, in which the values of axes are already substituted.
    pub(super) fn read(term: &Term) -> Result<Self, String> {
        let mut fields = FieldReader::of(term, "needs")?;
        let bytes = |term: &Term| unsigned(term, 0..=u64::MAX >> 1);
        let mut of = |name| {
            let form = ValueForm { name, expected: "a number of bytes" };
            fields.optional(form, bytes).map(Option::unwrap_or_default)
        };
        let (disk_bytes, memory_bytes) = (of("disk")?, of("memory")?);
        fields.finish()?;
        Ok(Self { disk_bytes, memory_bytes })
    }

    /// The reason why the machine has too little free disk space or memory for a cell; `None` if it has
    /// enough or the free amounts are unknown.
    pub(super) fn shortage(&self, server: &ServerPlan, free: FreeResources) -> Option<String> {
        if server.running.is_some() {
            return None;
        }
        let nodes = u64::from(server.nodes_in_all());
        let memory_bytes = self.memory_bytes.max(nodes * NODE_MEMORY_BYTES);
        for (what, needed, free) in [
            ("of the disk", self.disk_bytes, free.disk_bytes),
            ("of memory", memory_bytes, free.memory_bytes),
        ] {
            if let Some(free) = free.filter(|free| needed > *free) {
                let (needed, free) = (size_text(needed), size_text(free));
                return Some(format!(
                    "it needs {needed} {what}, and {free} are free: take a smaller --scale, or --force"
                ));
            }
        }
        None
    }
}

impl FreeResources {
    /// Determines the free memory of this machine, and the free space on the disk of an existing directory.
    pub(super) fn measure(directory: &Path) -> Self {
        let disk_bytes = rustix::fs::statvfs(directory).ok();
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            disk_bytes: disk_bytes.map(|room| room.f_bavail.saturating_mul(room.f_frsize)),
            memory_bytes: available_bytes(&meminfo),
        }
    }
}

fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::parse_terms;

    fn read(text: &str) -> Result<ResourceNeeds, String> {
        ResourceNeeds::read(&parse_terms(&format!("{text}.")).expect("a term")[0].term)
    }

    fn servers(text: &str) -> ServerPlan {
        ServerPlan::read(&parse_terms(&format!("{text}.")).expect("a term")[0].term)
            .expect("servers")
    }

    #[test]
    fn a_cell_that_needs_more_than_there_is_is_told_with_both_figures() {
        let needs = read("[{disk, 60000000000}]").expect("needs");
        let room =
            |disk, memory| FreeResources { disk_bytes: Some(disk), memory_bytes: Some(memory) };
        let one = servers("[{nodes, 1}]");
        let told = needs.shortage(&one, room(50_000_000_000, 1 << 40)).expect("a lack");
        assert!(told.contains("of the disk") && told.contains("--force"), "{told}");
        assert_eq!(needs.shortage(&one, room(1 << 40, 1 << 40)), None);
        let many = servers("[{nodes, 14}]");
        let told =
            needs.shortage(&many, room(1 << 40, 500_000_000)).expect("nodes take memory, too");
        assert!(told.contains("of memory"), "{told}");
        let elsewhere = servers(r#"[{running, {["a:1"], []}}]"#);
        assert_eq!(needs.shortage(&elsewhere, room(0, 0)), None);
        let unknown = FreeResources { disk_bytes: None, memory_bytes: None };
        assert_eq!(needs.shortage(&many, unknown), None);
        assert!(read("[{disk, much}]").expect_err("no bytes").contains("number of bytes"));
        assert!(read("[{disc, 1}]").expect_err("unknown").contains("did you mean disk?"));
    }

    #[test]
    fn the_memory_that_is_available_is_read() {
        assert_eq!(available_bytes("MemTotal: 9 kB\nMemAvailable:    8 kB\n"), Some(8192));
        assert_eq!(available_bytes("MemTotal: 9 kB\n"), None);
    }
}
