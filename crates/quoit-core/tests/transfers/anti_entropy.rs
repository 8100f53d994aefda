use crate::fixture::{TestCluster, id, key, key_in};
use quoit_cluster::StagedChange;
use quoit_core::{Counter, ExchangeSettings, PutRequest, StoreSettings};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

const COUNT: usize = 100;

/// Time in which every node has compared its copies with every other node.
const ROUND: Duration = Duration::from_secs(100);

fn total(cluster: &TestCluster, counter: Counter) -> u64 {
    let of = |number| cluster.store(number).stats().snapshot().total(counter);
    cluster.running().into_iter().map(of).sum()
}

fn name(index: usize) -> String {
    format!("key {index}")
}

#[tokio::test(start_paused = true)]
async fn what_a_primary_has_lost_is_given_back_without_a_read() {
    let cluster = TestCluster::joined(5).await;
    cluster.put_many(1, COUNT).await;
    let lost: Vec<String> =
        (0..COUNT).map(name).filter(|name| cluster.primaries(1, name).contains(&id(3))).collect();
    lost.iter().for_each(|name| cluster.lose(3, name));
    cluster.pass(ROUND).await;
    for name in (0..COUNT).map(name) {
        assert_eq!(cluster.holders(&name), cluster.primaries(1, &name), "{name}");
    }
    assert!(total(&cluster, Counter::ExchangeKeysRepaired) >= lost.len() as u64);
    assert_eq!(total(&cluster, Counter::ExchangeErrors), 0);
    let repaired: u64 = (1..=5)
        .flat_map(|number| cluster.store(number).anti_entropy().stats().partitions)
        .map(|partition| partition.repaired_max)
        .sum();
    assert!(repaired > 0);
}

#[tokio::test(start_paused = true)]
async fn copies_beyond_the_n_val_that_the_layout_was_made_with_are_given_back_what_they_lost() {
    let cluster = TestCluster::joined(6).await;
    cluster.create_type("many", json!({"n_val": 5})).await;
    let names: Vec<String> = (0..COUNT).map(name).collect();
    for name in &names {
        cluster.put_in(1, "many", name, "v").await;
    }
    let mut lost_count = 0;
    for name in &names {
        let key = key_in("many", name);
        let beyond = &cluster.primaries_of(1, key, 5) - &cluster.primaries_of(1, key, 3);
        assert_eq!(beyond.len(), 2);
        for node in beyond {
            cluster.lose_at(node.0[0], key);
            lost_count += 1;
        }
    }
    cluster.pass(ROUND).await;
    for name in &names {
        let key = key_in("many", name);
        assert_eq!(cluster.holders_of(key), cluster.primaries_of(1, key, 5), "{name}");
    }
    assert!(total(&cluster, Counter::ExchangeKeysRepaired) >= lost_count);
    assert_eq!(total(&cluster, Counter::ExchangeErrors), 0);
}

/// All n_vals from 15 on share a class. Here are more replicas than that.
#[tokio::test(start_paused = true)]
async fn replicas_after_the_fifteenth_are_compared() {
    let cluster = TestCluster::joined(17).await;
    cluster.create_type("wide", json!({"n_val": 17})).await;
    let name = name(0);
    let key = key_in("wide", &name);
    cluster.put_in(1, "wide", &name, "v").await;
    cluster.until("all have it", || cluster.holders_of(key).len() == 17).await;
    let beyond = &cluster.primaries_of(1, key, 17) - &cluster.primaries_of(1, key, 16);
    let last = beyond.first().expect("there are 17").0[0];
    cluster.lose_at(last, key);
    cluster.pass(ROUND).await;
    assert_eq!(cluster.holders_of(key).len(), 17);
}

#[tokio::test(start_paused = true)]
async fn equal_copies_cost_one_message() {
    let cluster = TestCluster::joined(3).await;
    cluster.put_many(1, COUNT).await;
    cluster.pass(ROUND).await;
    let in_sync = total(&cluster, Counter::ExchangesInSync);
    assert!(in_sync >= 6, "{in_sync} exchanges");
    assert_eq!(total(&cluster, Counter::Exchanges), in_sync);
    for partition in cluster.store(1).anti_entropy().stats().partitions {
        assert!(partition.all_ago.is_some_and(|ago| ago < ROUND), "{partition:?}");
        assert!(partition.last_ago <= partition.all_ago, "{partition:?}");
    }
}

/// Two nodes compare a partition only by the records of which both are primaries.
#[tokio::test(start_paused = true)]
async fn copies_of_nodes_that_share_a_part_of_their_records_are_equal() {
    let cluster = TestCluster::joined(5).await;
    cluster.put_many(1, COUNT).await;
    cluster.until_moved(1, COUNT).await;
    let counts =
        || (total(&cluster, Counter::Exchanges), total(&cluster, Counter::ExchangesInSync));
    let before = counts();
    cluster.pass(ROUND).await;
    let after = counts();
    assert!(after.0 - before.0 >= 20, "each node begins an exchange with each other one");
    assert_eq!(after.0 - before.0, after.1 - before.1);
}

#[tokio::test(start_paused = true)]
async fn what_a_node_has_missed_gets_to_it_without_a_read() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.put_many(1, COUNT).await;
    cluster.kill(3);
    for index in 0..10 {
        cluster.update(1, &name(index), "new").await;
        cluster.delete(1, &name(10 + index)).await;
        cluster.put(1, &name(COUNT + index), "more").await;
    }
    cluster.start(3).await;
    cluster.pass(ROUND).await;
    for index in 0..10 {
        let found = |index| cluster.stored(3, key(&name(index)));
        assert_eq!(found(index).unwrap().siblings[0].value, "new");
        assert!(found(10 + index).is_none_or(|object| object.is_tombstone()));
        assert_eq!(found(COUNT + index).unwrap().siblings[0].value, "more");
    }
}

/// The node that has merged the versions sends the result back, and no other exchange follows.
#[tokio::test(start_paused = true)]
async fn one_exchange_makes_siblings_of_concurrent_values_on_both_sides() {
    let exchanges = ExchangeSettings { active: false, ..ExchangeSettings::default() };
    let settings = StoreSettings { exchanges, ..StoreSettings::default() };
    let cluster = TestCluster::joined_with(2, settings).await;
    cluster.create_type("siblings", json!({"allow_mult": true})).await;
    let (place, other) = (key_in("siblings", "key"), key_in("siblings", "other"));
    cluster.put_in(1, "siblings", "key", "one").await;
    cluster.put_in(2, "siblings", "other", "two").await;
    let is_everywhere = |at| cluster.holders_of(at).len() == 2;
    cluster.until("both have both", || is_everywhere(place) && is_everywhere(other)).await;
    let two = cluster.record(2, other).expect("it is stored");
    cluster.restore_removed_at(2, place, &two);
    cluster.store(1).anti_entropy().request_exchange(&[cluster.partition_of(place)]);
    cluster.pass(ROUND).await;
    for number in [1, 2] {
        let object = cluster.stored(number, place).expect("it is stored");
        assert_eq!(object.siblings.len(), 2, "node {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn values_that_know_nothing_of_each_other_become_siblings_on_all_copies() {
    let cluster = TestCluster::joined(3).await;
    cluster.create_type("siblings", json!({"allow_mult": true})).await;
    for other in [1, 2] {
        for (from, to) in [(other, 3), (3, other)] {
            cluster.network.silence(&format!("n{from}"), &format!("n{to}"));
        }
    }
    let place = key_in("siblings", "key");
    for (number, value) in [(1, "one"), (3, "three")] {
        let mut put = PutRequest::of(place, value.into());
        put.options.timeout_ms = Some(1_000);
        // The side with one node takes the write, and can't promise more.
        let _ = cluster.store(number).put(put).await;
    }
    for other in [1, 2] {
        for (from, to) in [(other, 3), (3, other)] {
            cluster.network.heal(&format!("n{from}"), &format!("n{to}"));
        }
    }
    cluster.pass(ROUND).await;
    for number in 1..=3 {
        let siblings = cluster.stored(number, place).unwrap().siblings;
        let values: BTreeSet<_> = siblings.iter().map(|sibling| sibling.value.clone()).collect();
        assert_eq!(values, BTreeSet::from(["one".into(), "three".into()]), "node {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_for_others_is_not_compared() {
    let mut cluster = TestCluster::joined(5).await;
    cluster.kill(5);
    cluster.put_many(1, COUNT).await;
    let before: Vec<_> = (0..COUNT).map(|index| cluster.holders(&name(index))).collect();
    cluster.pass(ROUND).await;
    let after: Vec<_> = (0..COUNT).map(|index| cluster.holders(&name(index))).collect();
    assert_eq!(before, after);
    assert_eq!(total(&cluster, Counter::ExchangeKeysRepaired), 0);
    assert!(total(&cluster, Counter::ExchangesInSync) > 0);
}

#[tokio::test(start_paused = true)]
async fn the_copies_of_a_removed_node_are_made_anew() {
    let mut cluster = TestCluster::joined(5).await;
    cluster.put_many(1, COUNT).await;
    let lost_count = cluster.copies_of(1, 5);
    cluster.kill(5);
    cluster.stage(StagedChange::ForceRemove { node: id(5) }).await;
    cluster.commit(1).await;
    cluster.pass(ROUND).await;
    for name in (0..COUNT).map(name) {
        let mut holders = cluster.holders(&name);
        holders.remove(&id(5));
        assert_eq!(holders, cluster.primaries(1, &name), "{name}");
    }
    assert_eq!(total(&cluster, Counter::CopiesRestored), lost_count);
}

#[tokio::test(start_paused = true)]
async fn records_follow_their_bucket_into_another_class() {
    let cluster = TestCluster::joined(5).await;
    cluster.create_type("kinds", json!({"n_val": 3})).await;
    cluster.put_in(1, "kinds", "key", "value").await;
    let place = key_in("kinds", "key");
    let primaries = cluster.primaries_of(1, place, 2);
    cluster.update_type("kinds", json!({"n_val": 2})).await;
    let primary = (1..=5).find(|number| primaries.contains(&id(*number))).unwrap();
    // One of them learns the new properties, and files further writes under the other class.
    let read = cluster.stored(primary, place).unwrap();
    let put = PutRequest { context: read.clock, ..PutRequest::of(place, "new".into()) };
    cluster.store(primary).put(put).await.unwrap();
    cluster.pass(ROUND).await;
    let repaired = total(&cluster, Counter::ExchangeKeysRepaired);
    cluster.pass(ROUND).await;
    assert_eq!(total(&cluster, Counter::ExchangeKeysRepaired), repaired, "it comes to an end");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_an_exchange_has_it_soon() {
    let cluster = TestCluster::joined(3).await;
    cluster.put_many(1, COUNT).await;
    cluster.pass(ROUND).await;
    let first = |cluster: &TestCluster| cluster.store(1).anti_entropy().stats().partitions[0];
    let (pause, partition) = (Duration::from_secs(6), first(&cluster).partition);
    cluster.pass(pause).await;
    cluster.store(1).anti_entropy().request_exchange(&[partition]);
    cluster.pass(pause).await;
    assert!(first(&cluster).all_ago <= Some(pause), "{:?}", first(&cluster));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_begins_no_exchanges_by_itself_begins_those_that_an_operator_asks_for() {
    let exchanges = ExchangeSettings { active: false, ..ExchangeSettings::default() };
    let settings = StoreSettings { exchanges, ..StoreSettings::default() };
    let cluster = TestCluster::joined_with(3, settings).await;
    cluster.put_many(1, COUNT).await;
    cluster.lose(3, &name(5));
    cluster.pass(ROUND).await;
    assert!(cluster.stored(3, key(&name(5))).is_none());
    let anti_entropy = cluster.store(3).anti_entropy();
    let partitions: Vec<_> =
        anti_entropy.stats().partitions.iter().map(|each| each.partition).collect();
    anti_entropy.request_exchange(&partitions);
    cluster.pass(Duration::from_secs(10)).await;
    assert!(cluster.stored(3, key(&name(5))).is_some());
}

#[tokio::test(start_paused = true)]
async fn what_rots_on_a_disk_is_found_and_healed_before_it_is_read() {
    let cluster = TestCluster::joined_on_disks(3).await;
    cluster.put_many(1, COUNT).await;
    cluster.rot(3);
    // A node begins to verify ten minutes after its start.
    let patience = Duration::from_secs(700);
    let healed = || total(&cluster, Counter::HealedRecords);
    cluster.until_within(patience, "most is healed", || healed() > COUNT as u64 / 2).await;
    cluster.pass(ROUND).await;
    assert_eq!(total(&cluster, Counter::DamagedRecords), healed());
    let readable = (0..COUNT).filter(|index| cluster.is_readable(3, &name(*index))).count();
    assert_eq!(readable, COUNT);
    let object = cluster.stored(3, key(&name(5))).unwrap();
    assert_eq!(object.siblings[0].value, "value 5");
}

#[tokio::test(start_paused = true)]
async fn a_damaged_record_counts_once_however_long_its_replicas_are_away() {
    let exchanges = ExchangeSettings { verified_bytes_per_sec: 0, ..ExchangeSettings::default() };
    let settings = StoreSettings { exchanges, ..StoreSettings::default() };
    let mut cluster = TestCluster::joined_on_disks_with(3, settings).await;
    cluster.put_many(1, COUNT).await;
    [1, 2].into_iter().for_each(|number| cluster.kill(number));
    cluster.rot(3);
    let is_met = |index: &usize| !cluster.is_readable(3, &name(*index));
    (0..COUNT).find(is_met).expect("one is damaged");
    cluster.pass(Duration::from_secs(15)).await;
    let damaged =
        |cluster: &TestCluster| cluster.store(3).stats().snapshot().total(Counter::DamagedRecords);
    let damaged_count = damaged(&cluster);
    assert!(damaged_count > 0);
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(damaged(&cluster), damaged_count);
    cluster.start(1).await;
    cluster.start(2).await;
    let healed = || cluster.store(3).stats().snapshot().total(Counter::HealedRecords);
    cluster.until("they are healed", || healed() == damaged_count).await;
    assert_eq!(damaged(&cluster), damaged_count);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_record_counts_once_however_many_rounds_of_verification_find_it() {
    let mut cluster = TestCluster::joined_on_disks(3).await;
    cluster.put_many(1, COUNT).await;
    [1, 2].into_iter().for_each(|number| cluster.kill(number));
    cluster.rot(3);
    let figure = |cluster: &TestCluster, counter| {
        let stats = cluster.store(3).stats().snapshot();
        stats.total(counter)
    };
    // The first round begins after ten minutes, and there are ten minutes between two rounds.
    cluster.pass(Duration::from_secs(1_000)).await;
    let damaged_count = figure(&cluster, Counter::DamagedRecords);
    assert!(damaged_count > 0);
    let verified_bytes = figure(&cluster, Counter::VerifiedBytes);
    cluster.pass(Duration::from_secs(2_000)).await;
    assert!(figure(&cluster, Counter::VerifiedBytes) > verified_bytes, "there was another round");
    assert_eq!(figure(&cluster, Counter::DamagedRecords), damaged_count);
}

#[tokio::test(start_paused = true)]
async fn damage_that_is_met_is_healed_within_seconds_and_more_is_looked_for() {
    let cluster = TestCluster::joined_on_disks(3).await;
    cluster.put_many(1, COUNT).await;
    cluster.rot(3);
    let met = (0..COUNT).find(|index| !cluster.is_readable(3, &name(*index))).unwrap();
    let healed = || total(&cluster, Counter::HealedRecords);
    cluster.until_within(Duration::from_secs(3), "one is healed", || healed() == 1).await;
    assert!(cluster.is_readable(3, &name(met)));
    let patience = Duration::from_secs(60);
    cluster.until_within(patience, "most is healed", || healed() > COUNT as u64 / 2).await;
    cluster.pass(ROUND).await;
    let readable = (0..COUNT).filter(|index| cluster.is_readable(3, &name(*index))).count();
    assert_eq!(readable, COUNT);
}

#[tokio::test(start_paused = true)]
async fn damage_that_is_met_while_the_other_replicas_are_away_is_healed_when_they_are_back() {
    let mut cluster = TestCluster::joined_on_disks(3).await;
    cluster.put_many(1, COUNT).await;
    cluster.rot(3);
    cluster.stop(1);
    cluster.stop(2);
    let met = (0..COUNT).find(|index| !cluster.is_readable(3, &name(*index))).unwrap();
    cluster.pass(ROUND).await;
    assert!(!cluster.is_readable(3, &name(met)));
    for number in [1, 2] {
        cluster.start(number).await;
    }
    cluster.until("it is healed", || cluster.is_readable(3, &name(met))).await;
}
