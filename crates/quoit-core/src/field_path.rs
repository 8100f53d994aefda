//! Paths to the fields of a map, in messages between nodes.

use quoit_model::data_type::{FieldKind, FieldName, MAP_DEPTH_MAX};
use quoit_wire::internode::ranges::FieldStep;

/// Encodes a field and the maps around it, the outermost first.
pub(crate) fn path_message(path: &[FieldName]) -> Vec<FieldStep> {
    let step = |name: &FieldName| FieldStep { name: name.name.clone(), kind: name.kind as u32 };
    path.iter().map(step).collect()
}

/// Decodes a path, which is empty for the record itself; `None` if it can't lead to a set or map.
pub(crate) fn read_path(steps: &[FieldStep]) -> Option<Vec<FieldName>> {
    if steps.len() > MAP_DEPTH_MAX {
        return None;
    }
    let step = |step: &FieldStep| {
        let kind = *FieldKind::ALL.get(usize::try_from(step.kind).ok()?)?;
        Some(FieldName { name: step.name.clone(), kind })
    };
    let path = steps.iter().map(step).collect::<Option<Vec<FieldName>>>()?;
    let Some((last, around)) = path.split_last() else { return Some(path) };
    let has_items = matches!(last.kind, FieldKind::Set | FieldKind::Map)
        && around.iter().all(|name| name.kind == FieldKind::Map);
    has_items.then_some(path)
}
