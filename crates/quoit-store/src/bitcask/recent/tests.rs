use super::*;
use proptest::prelude::*;
use quoit_seam::{Disk, FaultyDisk};

fn file(chunk_bytes: usize, chunk_count_max: usize) -> (Arc<dyn DiskFile>, Arc<dyn DiskFile>) {
    let plain = FaultyDisk::new(1).open("file", true).expect("a new disk takes a file");
    let window = RecentWrites::of_size(WindowSize { chunk_bytes, chunk_count_max });
    (window.watch(Arc::clone(&plain)), plain)
}

fn read(file: &dyn DiskFile, offset: u64, size: usize) -> Vec<u8> {
    let mut buffer = vec![0; size];
    let answer = file.read_at_nowait(&mut buffer, offset).expect("reads go well");
    match answer {
        ReadAt::Read(count) => buffer.truncate(count),
        ReadAt::Kept => {}
        ReadAt::WouldBlock => panic!("memory never waits"),
    }
    buffer
}

#[derive(Clone, Debug)]
enum Step {
    Append(Vec<u8>),
    AppendParts(Vec<Vec<u8>>),
    Rewrite(prop::sample::Index, Vec<u8>),
    Truncate(prop::sample::Index),
    Read(prop::sample::Index, usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    let bytes = || prop::collection::vec(any::<u8>(), 1..40);
    prop_oneof![
        6 => bytes().prop_map(Step::Append),
        2 => prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..4)
            .prop_map(Step::AppendParts),
        1 => (any::<prop::sample::Index>(), bytes()).prop_map(|(at, bytes)| Step::Rewrite(at, bytes)),
        1 => any::<prop::sample::Index>().prop_map(Step::Truncate),
        6 => (any::<prop::sample::Index>(), 1..50usize).prop_map(|(at, size)| Step::Read(at, size)),
    ]
}

proptest! {
    #[test]
    fn a_watched_file_reads_as_the_file_itself(
        steps in prop::collection::vec(any_step(), 1..60),
        chunk_bytes in 1..32usize,
        chunk_count_max in 1..6usize,
    ) {
        let (watched, plain) = file(chunk_bytes, chunk_count_max);
        for step in steps {
            let size = plain.size_bytes().unwrap_or(0) as usize;
            match step {
                Step::Append(bytes) => watched.write_at(&bytes, size as u64).expect("room"),
                Step::AppendParts(parts) => {
                    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
                    watched.write_parts_at(&parts, size as u64).expect("room");
                }
                Step::Rewrite(at, bytes) => {
                    watched.write_at(&bytes, at.index(size + 1) as u64).expect("room");
                }
                Step::Truncate(at) => watched.truncate(at.index(size + 1) as u64).expect("room"),
                Step::Read(at, count) => {
                    let at = at.index(size + 1) as u64;
                    prop_assert_eq!(read(&*watched, at, count), read(&*plain, at, count));
                }
            }
            prop_assert_eq!(watched.size_bytes().ok(), plain.size_bytes().ok());
        }
    }
}

#[test]
fn what_was_written_lately_does_not_come_from_the_file() {
    let (watched, plain) = file(10, 2);
    watched.write_at(&[1; 25], 0).expect("room");
    plain.write_at(&[2; 25], 0).expect("room");
    assert_eq!(read(&*watched, 12, 8), [1; 8], "the second chunk");
    assert_eq!(read(&*watched, 15, 10), [1; 10], "over two chunks");
    assert_eq!(read(&*watched, 2, 8), [2; 8], "the first chunk was the oldest");
    assert_eq!(read(&*watched, 5, 10), [2; 10], "half of it was dropped");
}

#[test]
fn a_large_write_in_parts_is_not_kept_and_the_next_chunk_is() {
    let (watched, plain) = file(40, 8);
    watched.write_at(&[1; 8], 0).expect("room");
    watched.write_parts_at(&[&[2; 5], &[2; 95]], 8).expect("room");
    watched.write_at(&[3; 30], 108).expect("room");
    assert_eq!(read(&*watched, 0, 138), read(&*plain, 0, 138));
    plain.write_at(&[9; 138], 0).expect("room");
    assert_eq!(read(&*watched, 0, 8), [1; 8], "the bytes before it stay");
    assert_eq!(read(&*watched, 8, 100), [9; 100], "it comes from the file");
    assert_eq!(read(&*watched, 108, 12), [9; 12], "the rest of its last chunk does, too");
    assert_eq!(read(&*watched, 120, 18), [3; 18], "the next chunk is kept");
}

#[test]
fn a_small_write_in_parts_is_kept() {
    let (watched, plain) = file(40, 8);
    watched.write_parts_at(&[&[1; 3], &[], &[2; 4]], 0).expect("room");
    plain.write_at(&[9; 7], 0).expect("room");
    assert_eq!(read(&*watched, 0, 7), [1, 1, 1, 2, 2, 2, 2]);
}

#[test]
fn the_window_is_shared_by_files_and_bounded() {
    let window = RecentWrites::of_size(WindowSize { chunk_bytes: 10, chunk_count_max: 3 });
    let disk = FaultyDisk::new(1);
    for number in 0..20 {
        let name = format!("file{number}");
        let file = window.watch(disk.open(&name, true).expect("a new file"));
        file.write_at(&[number; 14], 0).expect("room");
        let kept: usize = window.chunks.lock().iter().map(|chunk| chunk.0.read().capacity()).sum();
        assert!(kept <= 30, "{kept}");
    }
}

#[test]
fn a_write_that_failed_leaves_nothing_to_read() {
    let disk = FaultyDisk::new(1);
    let plain = disk.open("file", true).expect("a new file");
    let watched = RecentWrites::of_size(WindowSize { chunk_bytes: 10, chunk_count_max: 3 })
        .watch(Arc::clone(&plain));
    watched.write_at(&[1; 8], 0).expect("room");
    disk.set_faults(|faults| faults.failing_writes = 1);
    assert!(watched.write_at(&[2; 8], 4).is_err());
    assert_eq!(read(&*watched, 0, 8), read(&*plain, 0, 8));
}

#[test]
fn less_than_a_chunk_is_no_window() {
    assert!(RecentWrites::new(0).is_none());
    assert!(RecentWrites::new(CHUNK_BYTES as u64 - 1).is_none());
    assert!(RecentWrites::new(CHUNK_BYTES as u64).is_some());
}
