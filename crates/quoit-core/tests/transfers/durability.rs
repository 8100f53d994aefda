//! Acknowledged writes, and the disks that have them.

use crate::fixture::{TestCluster, key};
use quoit_testkit::put_of;
use std::sync::Arc;
use std::time::Duration;

/// `dw` is a quorum: two of three. One disk is not enough, whether it is the coordinator's or not, and
/// replicas that have the value without their disks do not count.
#[tokio::test(start_paused = true)]
async fn a_put_is_acknowledged_when_as_many_disks_as_dw_wants_have_it() {
    let cluster = TestCluster::joined_on_strict_disks(3).await;
    for (name, [first, second]) in [("own first", [1, 2]), ("own last", [2, 1]), ("others", [3, 2])]
    {
        let store = Arc::clone(cluster.store(1));
        let put = tokio::spawn(async move { store.put(put_of(key(name), "value")).await });
        cluster.until("all replicas have it", || cluster.holders(name).len() == 3).await;
        cluster.sync_log(first);
        cluster.pass(Duration::from_secs(1)).await;
        assert!(!put.is_finished(), "{name}: acknowledged with one disk");
        cluster.sync_log(second);
        put.await.unwrap().unwrap();
        (1..=3).for_each(|number| cluster.sync(number));
    }
}
