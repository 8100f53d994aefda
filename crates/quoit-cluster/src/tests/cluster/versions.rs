//! Nodes of several versions in one cluster, and features that wait until all members have the newer
//! version.
//!
//! The newer versions are made up: version 2 adds data types, version 3 adds conditional
//! writes that need grants.

use super::*;
use crate::tests::{untyped, updates};
use crate::{Departure, OpenError, PropertyNeed};
use quoit_model::props::{ConditionalPutMode, TypeState};
use quoit_wire::internode::VersionRange;
use serde_json::json;

const NEEDS: &[PropertyNeed] = &[
    PropertyNeed { property: "data type", version: 2, is_in: |props| props.datatype.is_some() },
    PropertyNeed {
        property: "conditional_put_mode=require_token",
        version: 3,
        is_in: |props| props.conditional_put_mode() == ConditionalPutMode::RequireToken,
    },
];

/// Settings of a node that speaks the versions up to `newest`.
fn up_to(newest: u32) -> Settings {
    Settings { versions: VersionRange::up_to(newest), property_needs: NEEDS, ..settings() }
}

fn old() -> Settings {
    up_to(1)
}

fn new() -> Settings {
    up_to(3)
}

fn newest_version(cluster: &TestCluster, seen_by: u8, of: u8) -> u32 {
    cluster.state(seen_by).members().get(id(of)).unwrap().versions.max
}

/// Starts a cluster with the created bucket type `sets`.
async fn with_sets(count: u8, settings: impl Fn(u8) -> Settings) -> TestCluster {
    let cluster = TestCluster::with(count, settings).await;
    for number in 2..=count {
        cluster.join(number, 1).await.unwrap();
    }
    if count > 1 {
        cluster.commit(1).await;
        cluster.move_all().await;
    }
    let props = updates(json!({"datatype": "set"}));
    cluster.control(1).create_type(b"sets", &props).await.unwrap();
    cluster.until_equal().await;
    cluster
}

fn is_outdated(departure: Option<&Departure>) -> bool {
    let words = departure.map(ToString::to_string).unwrap_or_default();
    words.contains("data type of bucket type sets needs version 2")
        && words.contains("internode.version.maximum")
}

#[tokio::test(start_paused = true)]
async fn data_types_wait_until_the_last_member_speaks_version_2() {
    let mut cluster = with_sets(3, |number| if number == 1 { new() } else { old() }).await;
    cluster.control(1).create_type(b"plain", &updates(json!({"n_val": 2}))).await.unwrap();
    cluster.control(1).activate_type(b"plain").await.unwrap();
    for (upgraded, waits_for) in
        [(None, "n2@test, n3@test. Upgrade"), (Some(2), "it: n3@test. Upgrade")]
    {
        if let Some(number) = upgraded {
            cluster.crash(number);
            cluster.start_with(number, new()).await;
            cluster
                .until("the version is known", || newest_version(&cluster, 1, number) == 3)
                .await;
        }
        assert_eq!(cluster.state(1).type_state(b"sets"), TypeState::Created);
        let refused = cluster.control(1).activate_type(b"sets").await.unwrap_err().to_string();
        assert!(
            refused.starts_with("sets has been created but cannot be activated yet"),
            "{refused}"
        );
        assert!(refused.contains(waits_for), "{refused}");
        let lacking = cluster.state(1).type_status(b"sets").unwrap().lacking;
        assert_eq!(lacking.unwrap().to_string(), refused);
    }
    cluster.crash(3);
    cluster.start_with(3, new()).await;
    cluster.until("the version is known", || newest_version(&cluster, 1, 3) == 3).await;
    assert_eq!(cluster.state(1).type_state(b"sets"), TypeState::Ready);
    cluster.control(1).activate_type(b"sets").await.unwrap();
    assert_eq!(cluster.state(1).type_status(b"sets").unwrap().lacking, None);
}

#[tokio::test(start_paused = true)]
async fn members_that_go_back_to_version_1_are_waited_for_again() {
    let mut cluster = with_sets(3, |_| new()).await;
    assert_eq!(cluster.state(1).type_state(b"sets"), TypeState::Ready);
    cluster.crash(3);
    cluster.start_with(3, old()).await;
    cluster.until("the version is known", || newest_version(&cluster, 1, 3) == 1).await;
    cluster.control(1).activate_type(b"sets").await.unwrap_err();
    // A node that is down counts with the version that it had.
    cluster.crash(3);
    cluster.control(1).activate_type(b"sets").await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn what_a_member_does_not_tell_others_find_in_its_greeting() {
    let mut cluster = with_sets(3, |_| new()).await;
    cluster.crash(3);
    // A program of version 1 sends its version only in greetings.
    let host = cluster.network.host("n3");
    let listener = host.bind(&address(3)).await.unwrap();
    let silent = InternodeSettings {
        versions: old().versions,
        ..InternodeSettings::new(id(3), name(3), 99, JitterSeed(99))
    };
    let silent = Internode::new(silent, host);
    silent.set_cluster(Some(cluster.state(1).cluster_id()));
    silent.serve(listener).unwrap();
    cluster.until("the version is known", || newest_version(&cluster, 1, 3) == 1).await;
    cluster.control(1).activate_type(b"sets").await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn nodes_of_version_1_are_not_let_in_where_data_types_are_active() {
    let mut cluster = with_sets(3, |_| new()).await;
    cluster.nodes.push(Node { number: 4, disk: FaultyDisk::new(4), process: None });
    cluster.start_with(4, old()).await;
    cluster.join(4, 1).await.unwrap();
    cluster.control(1).clear_staged().await.unwrap();
    cluster.until("it is alone again", || cluster.state(4).members().count() == 1).await;
    cluster.crash(3);
    cluster.control(1).activate_type(b"sets").await.unwrap();
    let refused = cluster.join(4, 1).await.unwrap_err().to_string();
    assert!(refused.contains("refuses: n4@test speaks no newer version"), "{refused}");
    assert!(refused.contains("data type of bucket type sets needs version 2"), "{refused}");
    // It does not know yet what was activated while it was down.
    cluster.start_with(3, old()).await;
    let departure = cluster.control(3).departure();
    cluster.until("it stops", || is_outdated(departure.borrow().as_ref())).await;
    assert!(cluster.state(3).active_types().next().is_none());
    // A node that knows of the activation does not even start.
    cluster.crash(2);
    let refused = ControlPlane::open(Arc::new(cluster.node(2).disk.clone()), old()).unwrap_err();
    assert!(matches!(refused, OpenError::Outdated(_)), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_node_brings_no_data_types_to_members_that_do_not_know_them() {
    let mut cluster = with_sets(2, |_| old()).await;
    cluster.nodes.push(Node { number: 3, disk: FaultyDisk::new(3), process: None });
    cluster.start_with(3, new()).await;
    let props = updates(json!({"datatype": "set"}));
    cluster.control(3).create_type(b"sets", &props).await.unwrap();
    cluster.join(3, 1).await.unwrap();
    assert!(cluster.control(1).clear_staged().await.is_ok());
    cluster.until("it is alone again", || cluster.state(3).members().count() == 1).await;
    cluster.control(3).activate_type(b"sets").await.unwrap();
    let refused = cluster.join(3, 1).await.unwrap_err().to_string();
    assert!(refused.contains("n1@test speaks no newer version"), "{refused}");
    // The member that is asked speaks the version, but another one does not.
    cluster.crash(1);
    cluster.start_with(1, new()).await;
    cluster.until("the version is known", || newest_version(&cluster, 1, 1) == 3).await;
    let refused = cluster.join(3, 1).await.unwrap_err().to_string();
    assert!(refused.contains("do not speak it: n2@test. Upgrade"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn what_a_node_activates_while_it_joins_comes_along_or_keeps_it_out() {
    for (theirs, is_known) in [(3, true), (1, false)] {
        let mut cluster = with_sets(2, |_| up_to(theirs)).await;
        cluster.nodes.push(Node { number: 3, disk: FaultyDisk::new(3), process: None });
        cluster.start_with(3, new()).await;
        let props = updates(json!({"datatype": "set"}));
        cluster.control(3).create_type(b"sets", &props).await.unwrap();
        // The cluster's answer takes longer than the activation.
        cluster.network.set_delay("n1", "n3", Duration::from_millis(200));
        let at_n1 = address(1);
        let (joined, activated) = tokio::join!(cluster.control(3).join(&at_n1), async {
            sleep(Duration::from_millis(250)).await;
            cluster.control(3).activate_type(b"sets").await
        });
        cluster.network.set_delay("n1", "n3", Duration::ZERO);
        activated.unwrap();
        assert_eq!(joined.is_ok(), is_known, "{joined:?}");
        assert_eq!(cluster.control(3).awaits_cluster(), is_known);
        // Messages of a node that does not belong to the cluster have no effect on its members.
        sleep(PATIENCE).await;
        assert!(cluster.control(1).departure().borrow().is_none());
        let is_active = cluster.state(1).active_types().any(|(name, _)| name == b"sets");
        assert_eq!(is_active, is_known);
        assert_eq!(cluster.state(3).members().count(), if is_known { 3 } else { 1 });
    }
}

#[tokio::test(start_paused = true)]
async fn conditional_writes_need_no_grants_before_all_members_know_of_them() {
    let older = || up_to(2);
    let of = |number| if number == 1 { new() } else { older() };
    let mut cluster = TestCluster::with(2, of).await;
    cluster.join(2, 1).await.unwrap();
    cluster.commit(1).await;
    cluster.move_all().await;
    let required = || updates(json!({"conditional_put_mode": "require_token"}));
    let control = Arc::clone(cluster.control(1));
    control.create_type(b"strict", &required()).await.unwrap();
    control.create_type(b"plain", &updates(json!({}))).await.unwrap();
    control.activate_type(b"plain").await.unwrap();
    let refused = [
        control.activate_type(b"strict").await.unwrap_err(),
        control.update_type(b"plain", &required()).await.unwrap_err(),
        control.set_bucket_props(untyped("b"), &required()).await.unwrap_err(),
    ];
    for refused in refused.map(|refused| refused.to_string()) {
        let expected = "conditional_put_mode=require_token needs version 3 of the protocol between nodes, \
                        and these members do not speak it: n2@test. Upgrade";
        assert!(refused.contains(expected), "{refused}");
    }
    let preferred = updates(json!({"conditional_put_mode": "prefer_token"}));
    control.set_bucket_props(untyped("b"), &preferred).await.unwrap();
    cluster.crash(2);
    cluster.start_with(2, new()).await;
    cluster.until("the version is known", || newest_version(&cluster, 1, 2) == 3).await;
    control.activate_type(b"strict").await.unwrap();
    control.reset_bucket_props(untyped("b")).await.unwrap();
    cluster.until_equal().await;
    // An active type or a bucket alone suffices to refuse nodes of older versions.
    let open = |cluster: &TestCluster| {
        let disk = Arc::new(cluster.node(2).disk.clone());
        ControlPlane::open(disk, older()).map(|_| ()).unwrap_err().to_string()
    };
    cluster.crash(2);
    assert!(open(&cluster).contains("of bucket type strict needs version 3"), "{}", open(&cluster));
    cluster.start_with(2, new()).await;
    control.update_type(b"strict", &preferred).await.unwrap();
    control.set_bucket_props(untyped("b"), &required()).await.unwrap();
    cluster.until_equal().await;
    cluster.crash(2);
    assert!(open(&cluster).contains("of bucket b needs version 3"), "{}", open(&cluster));
}
