//! Encoding of staged changes, layouts, copies of partitions and raises as messages.

use super::NValRaise;
use crate::NodeId;
use crate::id_bytes::{id_bytes, node_id};
use crate::layouts::{Layouts, LostCopies, MemberReport};
use crate::staged::StagedChange;
use crate::trust::{Trust, decode_trust, encode_trust};
use bytes::Bytes;
use quoit_model::hash::Partition;
use quoit_model::layout::Layout;
use quoit_wire::internode::control::{
    ClusterMessage, Copies, LostMessage, NodeSet, RaisedMessage, ServedLayouts, StagedKind,
    StagedMessage, StagedMessages,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) fn encode_staged(staged: &[StagedChange]) -> StagedMessages {
    StagedMessages { staged: staged.iter().map(encode_staged_change).collect() }
}

fn encode_staged_change(change: &StagedChange) -> StagedMessage {
    let kind = match change {
        StagedChange::Join { .. } => StagedKind::Join,
        StagedChange::Leave { .. } => StagedKind::Leave,
        StagedChange::ForceRemove { .. } => StagedKind::ForceRemove,
        StagedChange::Replace { .. } => StagedKind::Replace,
        StagedChange::ForceReplace { .. } => StagedKind::ForceReplace,
        StagedChange::Location { .. } => StagedKind::Location,
        StagedChange::Capacity { .. } => StagedKind::Capacity,
    };
    let (location, capacity) = match change {
        StagedChange::Location { location, .. } => (location.as_deref().unwrap_or_default(), 0),
        StagedChange::Capacity { capacity, .. } => ("", *capacity),
        _ => ("", 0),
    };
    StagedMessage {
        kind: kind.into(),
        node: id_bytes(change.node()),
        newcomer: change.newcomer().map(id_bytes).unwrap_or_default(),
        location: location.to_owned(),
        capacity,
    }
}

pub(crate) fn decode_staged(message: &StagedMessages) -> Result<Vec<StagedChange>, String> {
    message.staged.iter().map(decode_staged_change).collect()
}

fn decode_staged_change(message: &StagedMessage) -> Result<StagedChange, String> {
    let node = node_id(&message.node)?;
    let newcomer = || node_id(&message.newcomer);
    Ok(match message.kind() {
        StagedKind::None => {
            return Err("a staged change is of a kind that only newer versions know".to_owned());
        }
        StagedKind::Join => StagedChange::Join { node },
        StagedKind::Leave => StagedChange::Leave { node },
        StagedKind::ForceRemove => StagedChange::ForceRemove { node },
        StagedKind::Replace => StagedChange::Replace { old: node, new: newcomer()? },
        StagedKind::ForceReplace => StagedChange::ForceReplace { old: node, new: newcomer()? },
        StagedKind::Location => {
            let location = (!message.location.is_empty()).then(|| message.location.as_str().into());
            StagedChange::Location { node, location }
        }
        StagedKind::Capacity => StagedChange::Capacity { node, capacity: message.capacity },
    })
}

pub(crate) fn decode_layout(bytes: &[u8]) -> Result<Arc<Layout>, String> {
    Layout::decode(bytes).map(Arc::new).map_err(|error| format!("a layout: {error}"))
}

pub(crate) fn encode_copies(node: NodeId, partitions: &[Partition]) -> Copies {
    let partitions = partitions.iter().map(|partition| u32::from(partition.0)).collect();
    Copies { node: id_bytes(node), partitions }
}

pub(crate) fn decode_copies(message: &Copies) -> Result<(NodeId, Vec<Partition>), String> {
    let partition = |number: &u32| match u16::try_from(*number) {
        Ok(number) => Ok(Partition(number)),
        Err(_) => Err(format!("there is no partition {number}")),
    };
    let partitions = message.partitions.iter().map(partition).collect::<Result<_, _>>()?;
    Ok((node_id(&message.node)?, partitions))
}

pub(crate) fn encode_served(node: NodeId, served: MemberReport) -> ServedLayouts {
    let MemberReport { writes: layout_version, reads: reads_version, raises_known, raises_filled } =
        served;
    let node = id_bytes(node);
    ServedLayouts { node, layout_version, reads_version, raises_known, raises_filled }
}

pub(crate) fn decode_served(message: &ServedLayouts) -> Result<(NodeId, MemberReport), String> {
    let served = MemberReport {
        writes: message.layout_version,
        reads: message.reads_version,
        raises_known: message.raises_known,
        raises_filled: message.raises_filled,
    };
    Ok((node_id(&message.node)?, served))
}

/// Encodes the part of the cluster's state that is not members, layouts or buckets.
pub(crate) fn encode_cluster<'a>(
    removed: impl Iterator<Item = (NodeId, &'a Arc<str>)>,
    staged: &[StagedChange],
    layouts: &Layouts,
    raises: &[NValRaise],
    trust: &Trust,
) -> ClusterMessage {
    let mut incomplete: BTreeMap<NodeId, Vec<Partition>> = BTreeMap::new();
    for (partition, node) in layouts.incomplete() {
        incomplete.entry(node).or_default().push(partition);
    }
    let (removed, removed_names) =
        removed.map(|(id, name)| (id_bytes(id), name.to_string())).unzip();
    ClusterMessage {
        removed: Some(NodeSet { nodes: removed }),
        removed_names,
        staged: Some(encode_staged(staged)),
        n_val: layouts.n_val(),
        incomplete: incomplete.iter().map(|(node, copies)| encode_copies(*node, copies)).collect(),
        acknowledged: layouts
            .acknowledgements()
            .map(|(node, served)| encode_served(node, served))
            .collect(),
        lost: encode_lost(layouts.lost_state()),
        raised: raises.iter().map(encode_raised).collect(),
        trust: (*trust != Trust::default()).then(|| encode_trust(trust)),
    }
}

fn encode_raised(raise: &NValRaise) -> RaisedMessage {
    let bucket = raise.bucket.as_deref();
    RaisedMessage {
        bucket_type: Bytes::copy_from_slice(&raise.bucket_type),
        bucket: bucket.map(Bytes::copy_from_slice),
        filled_n_val: raise.filled_n_val,
        since: raise.since,
    }
}

fn decode_raised(message: &RaisedMessage) -> NValRaise {
    NValRaise {
        bucket_type: message.bucket_type[..].into(),
        bucket: message.bucket.as_ref().map(|bucket| bucket[..].into()),
        filled_n_val: message.filled_n_val,
        since: message.since,
    }
}

fn encode_lost(lost: &LostCopies) -> Option<LostMessage> {
    let numbers: BTreeSet<(NodeId, u64)> =
        lost.copies.iter().map(|((_, node), number)| (*node, *number)).collect();
    let of = |node: NodeId, number: u64| {
        let is_of = |each: &(&(Partition, NodeId), &u64)| each.0.1 == node && *each.1 == number;
        lost.copies.iter().filter(is_of).map(|((partition, _), _)| *partition).collect::<Vec<_>>()
    };
    let message = LostMessage {
        copies: numbers.iter().map(|(node, n)| encode_copies(*node, &of(*node, *n))).collect(),
        numbers: numbers.iter().map(|(_, number)| *number).collect(),
        loss_count: lost.loss_count,
        unsure: lost.unsure.iter().map(|partition| u32::from(partition.0)).collect(),
    };
    (*lost != LostCopies::default()).then_some(message)
}

fn decode_lost(message: &LostMessage) -> Result<LostCopies, String> {
    let mut lost = LostCopies { loss_count: message.loss_count, ..LostCopies::default() };
    if message.copies.len() != message.numbers.len() {
        return Err("losses without a number".to_owned());
    }
    for (copies, number) in message.copies.iter().zip(&message.numbers) {
        let (node, partitions) = decode_copies(copies)?;
        let copies = partitions.into_iter().map(|partition| ((partition, node), *number));
        lost.copies.extend(copies);
    }
    let unsure = message.unsure.iter().map(|number| u16::try_from(*number).map(Partition));
    lost.unsure = unsure.collect::<Result<_, _>>().map_err(|fault| fault.to_string())?;
    Ok(lost)
}

/// Decoded content of the message that [`encode_cluster`] makes.
pub(crate) struct Cluster {
    /// Removed nodes with their names. A name is empty if it is not known.
    pub(crate) removed: Vec<(NodeId, Arc<str>)>,
    pub(crate) staged: Vec<StagedChange>,
    /// `None` while the cluster has only the layout that it was founded with.
    pub(crate) layouts: Option<Layouts>,
    pub(crate) lost: LostCopies,
    pub(crate) raises: Vec<NValRaise>,
    pub(crate) trust: Trust,
}

pub(crate) fn decode_cluster(
    message: &ClusterMessage,
    layouts: Vec<Arc<Layout>>,
) -> Result<Cluster, String> {
    let removed = message.removed.iter().flat_map(|set| &set.nodes);
    // Older versions store no names.
    let names = message.removed_names.iter().map(String::as_str).chain(std::iter::repeat(""));
    let removed = removed.zip(names).map(|(id, name)| Ok((node_id(id)?, Arc::from(name))));
    let mut incomplete = BTreeSet::new();
    for copies in &message.incomplete {
        let (node, partitions) = decode_copies(copies)?;
        incomplete.extend(partitions.into_iter().map(|partition| (partition, node)));
    }
    let acknowledged = message.acknowledged.iter().map(decode_served).collect::<Result<_, _>>()?;
    let layouts = match layouts.is_empty() {
        true => None,
        false => Some(Layouts::restored(layouts, message.n_val, incomplete, acknowledged)?),
    };
    Ok(Cluster {
        removed: removed.collect::<Result<_, String>>()?,
        staged: message.staged.as_ref().map(decode_staged).transpose()?.unwrap_or_default(),
        layouts,
        lost: message.lost.as_ref().map(decode_lost).transpose()?.unwrap_or_default(),
        raises: message.raised.iter().map(decode_raised).collect(),
        trust: message.trust.as_ref().map(decode_trust).transpose()?.unwrap_or_default(),
    })
}
