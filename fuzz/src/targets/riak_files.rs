//! Data files of Riak's engines: Bitcask, LevelDB, leveled.

use crate::Target;

pub(crate) const BITCASK: Target =
    Target { name: "riak-bitcask-files", run: bitcask, seeds: bitcask_seeds };
pub(crate) const LEVELDB: Target =
    Target { name: "riak-leveldb-files", run: leveldb, seeds: leveldb_seeds };
pub(crate) const LEVELED: Target =
    Target { name: "riak-leveled-files", run: leveled, seeds: leveled_seeds };

fn bitcask(input: &[u8]) {
    quoit_riak_files::fuzz_bitcask_data(input);
    quoit_riak_files::fuzz_bitcask_hint(input);
}

fn leveldb(input: &[u8]) {
    quoit_riak_files::fuzz_leveldb_table(input);
    quoit_riak_files::fuzz_leveldb_log(input);
    quoit_riak_files::fuzz_sext(input);
}

fn leveled(input: &[u8]) {
    quoit_riak_files::fuzz_leveled_journal(input);
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// A record and its hint file.
fn bitcask_seeds() -> Vec<Vec<u8>> {
    [
        "67458a6300000001000500000001020001626b76",
        "000000010005000000140000000000000000020001626b0000000000007a8a45307fffffffffffffff",
    ]
    .map(bytes)
    .into()
}

/// Keys of an object and of an index entry, the manifest of a new database, and a batch of one put.
fn leveldb_seeds() -> Vec<Vec<u8>> {
    [
        "10000000030cb7800812b1000812b58008",
        "10000000050cb4800812b1000812b357ec569b700812bc000812b58008",
        "56f9b8f81c0001011a6c6576656c64622e42797465776973\
         65436f6d70617261746f72a49c8bbe08000102030900030404",
        "0100000000000000010000000101610162",
    ]
    .map(bytes)
    .into()
}

/// The key `{1, stnd, {o_rkv, <<"b">>, <<"k">>, null}}`, and an uncompressed value of one byte.
fn leveled_seeds() -> Vec<Vec<u8>> {
    [
        "836803610164000473746e6468046400056f5f726b766d00000001626d000000016b6400046e756c6c",
        "3583680200000000026800000002",
    ]
    .map(bytes)
    .into()
}
