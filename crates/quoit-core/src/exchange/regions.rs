//! Encoding of regions of a record in messages: ranges of items of a large set or map, or of its fields.

use crate::field_path::{path_message, read_path};
use crate::refusal::Refusal;
use bytes::Bytes;
use quoit_model::data_type::FieldName;
use quoit_model::data_type::pages::{
    COMPARED_RANGE_COUNT_MAX, HashRange, Region, SENT_RANGE_COUNT_MAX,
};
use quoit_wire::internode::ranges::{FieldRanges, RecordRanges};

/// Returns the message part that names a region of a record.
pub(super) fn region_message(
    key: Bytes,
    partition: u32,
    layout_version: u64,
    region: &Region,
) -> RecordRanges {
    let mut of = RecordRanges { key, partition, layout_version, ..RecordRanges::default() };
    region.each(&mut |path, ranges| match path {
        [] => of.ranges = numbers(ranges),
        path => of.fields.push(ranges_in_field(path, ranges)),
    });
    of
}

/// Returns the message part that names ranges of the items of a field.
pub(super) fn ranges_in_field(path: &[FieldName], ranges: &[HashRange]) -> FieldRanges {
    FieldRanges { path: path_message(path), ranges: numbers(ranges) }
}

fn numbers(ranges: &[HashRange]) -> Vec<u64> {
    ranges.iter().map(|range| range.number()).collect()
}

/// Reads the region that a message names; `None` if the message is malformed or has too many ranges.
pub(super) fn read_region(of: &RecordRanges) -> Option<Region> {
    let in_fields = of.fields.iter().map(|field| field.ranges.len()).sum::<usize>();
    if of.ranges.len() + in_fields > SENT_RANGE_COUNT_MAX || of.fields.len() > SENT_RANGE_COUNT_MAX
    {
        return None;
    }
    let mut region = Region::from(HashRange::in_order(&of.ranges)?);
    for field in &of.fields {
        let (path, ranges) = read_field(field)?;
        region.narrow(&path, ranges);
    }
    Some(region)
}

/// Reads the path of the field, which is empty for the record itself, and the ranges that a message asks
/// to compare; `None` if the message is malformed or has too many ranges.
pub(super) fn read_compared(of: &RecordRanges) -> Option<(Vec<FieldName>, Vec<HashRange>)> {
    let (path, ranges) = match &of.fields[..] {
        [] => (Vec::new(), HashRange::in_order(&of.ranges)?),
        [field] if of.ranges.is_empty() => read_field(field)?,
        _ => return None,
    };
    (ranges.len() <= COMPARED_RANGE_COUNT_MAX).then_some((path, ranges))
}

fn read_field(field: &FieldRanges) -> Option<(Vec<FieldName>, Vec<HashRange>)> {
    let path = read_path(&field.path).filter(|path| !path.is_empty())?;
    Some((path, HashRange::in_order(&field.ranges)?))
}

/// Returns the refusal of messages whose ranges can't be read.
pub(super) fn no_ranges() -> Refusal {
    Refusal::Malformed("the ranges can't be read".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_model::data_type::{FieldKind, MAP_DEPTH_MAX};
    use quoit_wire::internode::ranges::FieldStep;

    fn field(name: &'static str, kind: FieldKind) -> FieldName {
        FieldName::new(name, kind)
    }

    fn range(number: u64) -> HashRange {
        HashRange::new(number).expect("a range")
    }

    #[test]
    fn a_region_comes_back_from_its_message() {
        let mut region = Region::from(vec![range(4), range(6)]);
        let map = field("m", FieldKind::Map);
        region.narrow(std::slice::from_ref(&map), vec![range(8)]);
        region.narrow(&[map, field("tags", FieldKind::Set)], vec![range(2), range(3)]);
        region.narrow(&[field("n", FieldKind::Map), field("s", FieldKind::Set)], Vec::new());
        let of = region_message(Bytes::from_static(b"key"), 5, 3, &region);
        assert_eq!((of.ranges.len(), of.fields.len()), (2, 4));
        assert_eq!(read_region(&of), Some(region));
    }

    #[test]
    fn ranges_that_are_none_are_refused() {
        let good = ranges_in_field(&[field("s", FieldKind::Set)], &[range(2)]);
        let of = |fields, ranges| RecordRanges { fields, ranges, ..RecordRanges::default() };
        assert!(read_region(&of(vec![good.clone()], vec![1])).is_some());
        let compared = read_compared(&of(vec![good.clone()], Vec::new()));
        assert_eq!(compared, Some((vec![field("s", FieldKind::Set)], vec![range(2)])));
        assert!(read_compared(&of(vec![good.clone()], vec![1])).is_none());
        assert!(read_compared(&of(vec![good.clone(), good.clone()], Vec::new())).is_none());
        let flag = FieldStep { name: Bytes::new(), kind: 3 };
        let no_kind = FieldStep { name: Bytes::new(), kind: 5 };
        let deep = vec![good.path[0].clone(); MAP_DEPTH_MAX + 1];
        for bad in [
            FieldRanges { path: Vec::new(), ..good.clone() },
            FieldRanges { path: vec![no_kind], ..good.clone() },
            FieldRanges { path: vec![flag], ..good.clone() },
            FieldRanges { path: vec![good.path[0].clone(); 2], ..good.clone() },
            FieldRanges { path: deep, ..good.clone() },
            FieldRanges { ranges: vec![3, 2], ..good.clone() },
            FieldRanges { ranges: vec![2; SENT_RANGE_COUNT_MAX + 1], ..good },
        ] {
            assert!(read_region(&of(vec![bad], vec![1])).is_none());
        }
        assert!(read_region(&of(Vec::new(), vec![0])).is_none());
    }
}
