//! Messages by which nodes compare and repair their copies.

use bytes::Bytes;
use prost::Message;
use quoit_wire::internode::exchange::{
    Compare, Compared, Descend, Descended, Differences, KnownRecord, Pull, Pulled, Ranges,
};
use quoit_wire::internode::ranges::{
    CompareRanges, FieldRanges, FieldStep, RangesCompared, RangesRead, RangesTaken, ReadRanges,
    RecordRanges, TakeRanges,
};
use quoit_wire::internode::staging::{
    DropStaging, FinishStaging, OpenStaging, PagesStaged, StagePages, StagedPage, StagingDecision,
    StagingDropped, StagingFinished, StagingOpened,
};
use quoit_wire::internode::transfer::DeliveredRecord;

use crate::Target;

pub(crate) const TARGET: Target = Target { name: "exchange-messages", run, seeds };

/// Checks that a decoded message survives being encoded and decoded again. The first byte chooses the kind.
fn run(input: &[u8]) {
    let Some((kind, message)) = input.split_first() else { return };
    match kind % 20 {
        0 => check::<Compare>(message),
        1 => check::<Compared>(message),
        2 => check::<Descend>(message),
        3 => check::<Descended>(message),
        4 => check::<Pull>(message),
        5 => check::<Pulled>(message),
        6 => check::<CompareRanges>(message),
        7 => check::<RangesCompared>(message),
        8 => check::<ReadRanges>(message),
        9 => check::<RangesRead>(message),
        10 => check::<TakeRanges>(message),
        11 => check::<RangesTaken>(message),
        12 => check::<OpenStaging>(message),
        13 => check::<StagingOpened>(message),
        14 => check::<StagePages>(message),
        15 => check::<PagesStaged>(message),
        16 => check::<FinishStaging>(message),
        17 => check::<StagingFinished>(message),
        18 => check::<DropStaging>(message),
        _ => check::<StagingDropped>(message),
    }
}

fn check<M: Message + Default + PartialEq>(bytes: &[u8]) {
    let Ok(message) = M::decode(bytes) else { return };
    let again = M::decode(&message.encode_to_vec()[..]).expect("what was sent is understood");
    assert!(message == again, "a message changes by being sent");
}

fn seeds() -> Vec<Vec<u8>> {
    let compare = Compare {
        layout_version: 3,
        hour_min: 480_000,
        partitions: vec![0, 1, 63],
        classes: vec![8, 0, 40],
        digests: vec![1, 2, 3],
    };
    let compared = Compared { differing: vec![8, 0, 32], not_comparable: vec![1] };
    let ranges = Ranges {
        partition: 5,
        n_val_class: 3,
        split: vec![1],
        parts: (0..16).collect(),
        listed: vec![16],
        counts: vec![2],
        tags: vec![7, 9],
        states: vec![1, 2],
    };
    let descend = Descend { layout_version: 3, hour_min: 480_000, salt: 7, ranges: vec![ranges] };
    let differences = Differences {
        parts: vec![1 << 15],
        overfull: vec![0],
        counts: vec![1],
        tags: vec![7],
        states: vec![1],
    };
    let descended = Descended { differences: vec![differences] };
    let key = Bytes::from_static(b"key");
    let known = KnownRecord { key: key.clone(), digest: 5, clock: Bytes::from_static(b"clock") };
    let (tags, known) = (vec![14], vec![known]);
    let pull = Pull { partition: 5, layout_version: 3, tags, known, with_tombstones: true };
    let record = DeliveredRecord { key, digest: 5, size_bytes: 10, ..DeliveredRecord::default() };
    let pulled = Pulled { records: vec![record], wanted: vec![0], tag_count: 1 };
    let ranges = vec![1 << 8, 1 << 8 | 1];
    let step = FieldStep { name: Bytes::from_static(b"tags"), kind: 1 };
    let fields = vec![FieldRanges { path: vec![step], ranges: vec![2, 3] }];
    let key = Bytes::from_static(b"key");
    let of = RecordRanges { key, partition: 5, layout_version: 3, ranges, fields };
    let compare_ranges = CompareRanges { of: of.clone(), digests: vec![1, 2] };
    let ranges_compared = RangesCompared { differing: vec![1], item_counts: vec![7] };
    let take_ranges = TakeRanges { of: of.clone(), rest: 9 };
    let messages = [
        compare.encode_to_vec(),
        compared.encode_to_vec(),
        descend.encode_to_vec(),
        descended.encode_to_vec(),
        pull.encode_to_vec(),
        pulled.encode_to_vec(),
        compare_ranges.encode_to_vec(),
        ranges_compared.encode_to_vec(),
        ReadRanges { of }.encode_to_vec(),
        RangesRead { rest: 9 }.encode_to_vec(),
        take_ranges.encode_to_vec(),
        RangesTaken { is_stale: true }.encode_to_vec(),
    ];
    let messages = messages.into_iter().chain(staging_seeds());
    (0..).zip(messages).map(|(kind, message)| [vec![kind], message].concat()).collect()
}

fn staging_seeds() -> Vec<Vec<u8>> {
    let key = Bytes::from_static(b"key");
    let open = OpenStaging {
        partition: 5,
        layout_version: 3,
        key: key.clone(),
        digest: 7,
        is_minimum_rate: true,
    };
    let room = StagingDecision::Open.into();
    let opened = StagingOpened { room, staging: 9, pressure_percent: 10 };
    let pages = vec![
        StagedPage { branch: 0, first: 0, size_bytes: 1_400 },
        StagedPage { branch: 3, first: 1 << 63, size_bytes: 0 },
    ];
    let stage = StagePages { staging: 9, pages, is_minimum_rate: false };
    let record = DeliveredRecord { key, digest: 5, size_bytes: 10, ..DeliveredRecord::default() };
    let finish = FinishStaging { staging: 9, layout_version: 3, record };
    vec![
        open.encode_to_vec(),
        opened.encode_to_vec(),
        stage.encode_to_vec(),
        PagesStaged { is_lost: true, pressure_percent: 10 }.encode_to_vec(),
        finish.encode_to_vec(),
        StagingFinished { room: StagingDecision::Known.into() }.encode_to_vec(),
        DropStaging { staging: 9 }.encode_to_vec(),
        StagingDropped {}.encode_to_vec(),
    ]
}
