//! Nodes that the data needs, independent of the rate.

use super::{CapacityError, CapacityOptions};

/// The number of nodes that one requirement needs.
#[derive(Debug, PartialEq)]
pub(super) struct Need {
    pub(super) nodes: u64,
    /// The requirement, as the beginning of a sentence.
    pub(super) text: String,
}

/// The nodes for the data and for the keys, as far as these are required.
pub(super) fn resource_needs(options: &CapacityOptions) -> Result<Vec<Need>, CapacityError> {
    let mut needs = Vec::new();
    let copies = u64::from(options.copies);
    match (options.data_bytes, options.disk_bytes) {
        (Some(data_bytes), Some(disk_bytes)) => {
            let usable = (disk_bytes as f64 * options.fill).max(1.0);
            let nodes = quoit_number::whole((data_bytes as f64 * copies as f64 / usable).ceil());
            let text = format!(
                "{} of data in {copies} copies, disks of {} filled to {:.0} %",
                size(data_bytes),
                size(disk_bytes),
                options.fill * 100.0
            );
            needs.push(Need { nodes: nodes.max(1), text });
        }
        (Some(_), None) => return Err(CapacityError::Incomplete("--data", "--disk")),
        (None, _) => {}
    }
    match (options.keys, options.memory_bytes) {
        (Some(keys), Some(memory_bytes)) => {
            let needed = keys as f64 * copies as f64 * options.key_bytes as f64;
            let nodes = quoit_number::whole((needed / memory_bytes.max(1) as f64).ceil());
            let per_gib = (1_u64 << 30) / options.key_bytes.max(1);
            let text = format!(
                "{keys} keys in {copies} copies, {} bytes of memory each ({per_gib} keys for each GiB), \
                 in {}",
                options.key_bytes,
                size(memory_bytes)
            );
            needs.push(Need { nodes: nodes.max(1), text });
        }
        (Some(_), None) => return Err(CapacityError::Incomplete("--keys", "--memory")),
        (None, _) => {}
    }
    Ok(needs)
}

/// A size in the decimal unit in which it was probably given.
fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] =
        [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000)];
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_keys_need_as_many_nodes_as_hold_their_copies() {
        let options = CapacityOptions {
            data_bytes: Some(2_000_000_000_000),
            disk_bytes: Some(1_000_000_000_000),
            keys: Some(1_000_000_000),
            memory_bytes: Some(8_000_000_000),
            ..CapacityOptions::default()
        };
        let needs = resource_needs(&options).expect("whole needs");
        // 6 TB on nodes with 0.7 TB each; 72 GB in nodes with 8 GB each.
        assert_eq!(needs.iter().map(|need| need.nodes).collect::<Vec<_>>(), [9, 9]);
        assert!(
            needs[0].text.starts_with("2 TB of data in 3 copies, disks of 1 TB filled to 70 %")
        );
        let half = CapacityOptions { data_bytes: Some(1), ..CapacityOptions::default() };
        assert!(resource_needs(&half).expect_err("no disk").to_string().contains("--disk"));
        assert_eq!(resource_needs(&CapacityOptions::default()).expect("nothing"), []);
    }
}
