use super::{first, located, members, node, ring};
use crate::layout::{Layout, LayoutDecodeError};

#[test]
fn the_stored_form_is_the_documented_one() {
    let mut members = vec![located(0, "b"), located(1, "a"), located(2, "b")];
    members[1].capacity = 300;
    members[2].location = None;
    let layout = first(&members, ring(8));
    let mut ids: Vec<_> = members.iter().map(|member| (member.id, member)).collect();
    ids.sort_by_key(|(id, _)| *id);
    let mut expected = vec![1, 1, 8, 4, 3, 2, 1, b'a', 1, b'b', 3];
    for (id, member) in ids {
        expected.extend(id.0);
        match member.capacity {
            300 => expected.extend([0xac, 0x02]),
            _ => expected.push(100),
        }
        expected.push(match member.location.as_deref() {
            None => 0,
            Some("a") => 1,
            Some(_) => 2,
        });
    }
    for partition in layout.partitions() {
        expected.extend(layout.primaries(partition, 4).iter().map(|node| *node as u8));
    }
    assert_eq!(layout.encode(), expected);
    assert_eq!(Layout::decode(&expected), Ok(layout));
}

#[test]
fn positions_take_two_bytes_with_more_than_256_nodes() {
    let narrow = first(&members(0..256), ring(64));
    let wide = first(&members(0..257), ring(64));
    assert_eq!(wide.encode().len() - narrow.encode().len(), 18 + 64 * 4);
    assert_eq!(Layout::decode(&narrow.encode()), Ok(narrow));
    assert_eq!(Layout::decode(&wide.encode()), Ok(wide));
}

/// The positions after the balanced ones are not stored. If their order changed, nodes of two
/// releases would disagree about it.
#[test]
fn the_order_of_fallbacks_never_changes() {
    let mut uneven = members(0..7);
    uneven.sort_by_key(|member| member.id);
    uneven[4].capacity = 250;
    uneven[5].capacity = 50;
    let mut bytes = first(&uneven, ring(8)).encode();
    let table = bytes.len() - 8 * 4;
    bytes[table..].copy_from_slice(&[0, 1, 2, 3].repeat(8));
    let layout = Layout::decode(&bytes).unwrap();
    let stand_ins: Vec<&[u16]> =
        layout.partitions().map(|partition| &layout.order(partition)[4..]).collect();
    let expected =
        [[6, 4, 5], [4, 5, 6], [4, 6, 5], [4, 6, 5], [4, 6, 5], [4, 6, 5], [6, 4, 5], [4, 6, 5]];
    assert_eq!(stand_ins, expected);
}

#[test]
fn every_cut_and_every_wrong_piece_is_an_error() {
    let layout = first(&[located(0, "a"), located(1, "b")], ring(8));
    let bytes = layout.encode();
    for end in 1..bytes.len() {
        let error = Layout::decode(&bytes[..end]).unwrap_err();
        assert!(matches!(error, LayoutDecodeError::Damaged { .. }), "{end}: {error}");
    }
    let wrong = |change: &dyn Fn(&mut Vec<u8>), words: &str| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        let error = Layout::decode(&bytes).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    wrong(&|bytes| bytes[0] = 9, "format 9");
    wrong(&|bytes| bytes[2] = 9, "no ring has this size");
    wrong(&|bytes| bytes[3] = 0, "no layout has such nodes or rules");
    wrong(&|bytes| bytes[7] = b'b', "locations are not in order");
    wrong(&|bytes| bytes[7] = 0xff, "not UTF-8");
    wrong(&|bytes| bytes.push(0), "goes on after its end");
    wrong(&|bytes| *bytes.last_mut().unwrap() = 2, "not distinct nodes");
    let last = bytes.len() - 1;
    wrong(&|bytes| bytes[last] = bytes[last - 1], "not distinct nodes");
    let ids = (11, 11 + 18);
    wrong(&|bytes| bytes.copy_within(ids.0..ids.0 + 16, ids.1), "no layout has such nodes");
    wrong(&|bytes| bytes[ids.0] = 0xff, "nodes are not in order");
    wrong(&|bytes| bytes[ids.0 + 16] = 0, "no layout has such nodes");
    wrong(&|bytes| bytes[ids.0 + 17] = 3, "no such location");
    assert!(matches!(Layout::decode(&[]), Err(LayoutDecodeError::Damaged { .. })));
    assert_eq!(Layout::single(node(1), ring(8)).encode().len(), 7 + 18 + 8);
}
