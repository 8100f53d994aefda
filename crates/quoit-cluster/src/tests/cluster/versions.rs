//! Nodes of two versions in one cluster, and what waits until all are of the newer one.

use super::*;
use crate::tests::{untyped, updates};
use crate::{Departure, OpenError, StagedChange};
use quoit_model::props::TypeState;
use quoit_wire::internode::{
    VERSION_GRANTS, VERSION_MARKS, VERSION_MAX, VERSION_READS_TOLD, VersionRange,
};
use serde_json::json;

const OLD: VersionRange = VersionRange { min: 1, max: 1 };
/// Members of these don't keep which layouts the others read by.
const READS_UNTOLD: VersionRange = VersionRange { min: 1, max: VERSION_READS_TOLD - 1 };
/// Members of these don't keep it of a member that leaves that it is marked as absent.
const MARKS_FORGOTTEN: VersionRange = VersionRange { min: 1, max: VERSION_MARKS - 1 };

fn old() -> Settings {
    Settings { versions: OLD, ..settings() }
}

fn newest_version(town: &Town, seen_by: u8, of: u8) -> u32 {
    town.state(seen_by).members().get(id(of)).unwrap().versions.max
}

/// A cluster in which the bucket type `sets` is created.
async fn with_sets(count: u8, settings: impl Fn(u8) -> Settings) -> Town {
    let town = Town::with(count, settings).await;
    for number in 2..=count {
        town.join(number, 1).await.unwrap();
    }
    if count > 1 {
        town.commit(1).await;
        town.move_all().await;
    }
    let props = updates(json!({"datatype": "set"}));
    town.control(1).create_type(b"sets", &props).await.unwrap();
    town.until_equal().await;
    town
}

fn is_outdated(departure: Option<&Departure>) -> bool {
    let words = departure.map(ToString::to_string).unwrap_or_default();
    words.contains("data type of bucket type sets needs version 2")
        && words.contains("internode.version.maximum")
}

#[tokio::test(start_paused = true)]
async fn data_types_wait_until_the_last_member_speaks_version_2() {
    let mut town = with_sets(3, |number| if number == 1 { settings() } else { old() }).await;
    town.control(1).create_type(b"plain", &updates(json!({"n_val": 2}))).await.unwrap();
    town.control(1).activate_type(b"plain").await.unwrap();
    for (upgraded, waits_for) in
        [(None, "n2@test, n3@test. Upgrade"), (Some(2), "it: n3@test. Upgrade")]
    {
        if let Some(number) = upgraded {
            town.crash(number);
            town.start(number).await;
            town.until("the version is known", || newest_version(&town, 1, number) == VERSION_MAX)
                .await;
        }
        assert_eq!(town.state(1).type_state(b"sets"), TypeState::Created);
        let refused = town.control(1).activate_type(b"sets").await.unwrap_err().to_string();
        assert!(
            refused.starts_with("sets has been created but cannot be activated yet"),
            "{refused}"
        );
        assert!(refused.contains(waits_for), "{refused}");
        let lacking = town.state(1).type_status(b"sets").unwrap().lacking;
        assert_eq!(lacking.unwrap().to_string(), refused);
    }
    town.crash(3);
    town.start(3).await;
    town.until("the version is known", || newest_version(&town, 1, 3) == VERSION_MAX).await;
    assert_eq!(town.state(1).type_state(b"sets"), TypeState::Ready);
    town.control(1).activate_type(b"sets").await.unwrap();
    assert_eq!(town.state(1).type_status(b"sets").unwrap().lacking, None);
}

#[tokio::test(start_paused = true)]
async fn members_that_go_back_to_version_1_are_waited_for_again() {
    let mut town = with_sets(3, |_| settings()).await;
    assert_eq!(town.state(1).type_state(b"sets"), TypeState::Ready);
    town.crash(3);
    town.start_with(3, old()).await;
    town.until("the version is known", || newest_version(&town, 1, 3) == 1).await;
    town.control(1).activate_type(b"sets").await.unwrap_err();
    // A node that was away counts as what it was.
    town.crash(3);
    town.control(1).activate_type(b"sets").await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn what_a_member_does_not_tell_others_find_in_its_greeting() {
    let mut town = with_sets(3, |_| settings()).await;
    town.crash(3);
    // The program of version 1 says nothing of versions but in greetings.
    let host = town.network.host("n3");
    let listener = host.bind(&address(3)).await.unwrap();
    let silent =
        InternodeSettings { versions: OLD, ..InternodeSettings::new(id(3), name(3), 99, 99) };
    let silent = Internode::new(silent, host);
    silent.set_cluster(Some(town.state(1).cluster_id()));
    silent.serve(listener).unwrap();
    town.until("the version is known", || newest_version(&town, 1, 3) == 1).await;
    town.control(1).activate_type(b"sets").await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn nodes_of_version_1_are_not_let_in_where_data_types_are_active() {
    let mut town = with_sets(3, |_| settings()).await;
    town.nodes.push(Node { number: 4, disk: FaultyDisk::new(4), process: None });
    town.start_with(4, old()).await;
    town.join(4, 1).await.unwrap();
    town.control(1).clear_staged().await.unwrap();
    town.until("it is alone again", || town.state(4).members().count() == 1).await;
    town.crash(3);
    town.control(1).activate_type(b"sets").await.unwrap();
    let refused = town.join(4, 1).await.unwrap_err().to_string();
    assert!(refused.contains("refuses: n4@test speaks no newer version"), "{refused}");
    assert!(refused.contains("data type of bucket type sets needs version 2"), "{refused}");
    // It does not know yet what was activated while it was away.
    town.start_with(3, old()).await;
    let departure = town.control(3).departure();
    town.until("it stops", || is_outdated(departure.borrow().as_ref())).await;
    assert!(town.state(3).active_types().next().is_none());
    // Those who know are not even started.
    town.crash(2);
    let refused = ControlPlane::open(Arc::new(town.node(2).disk.clone()), old()).unwrap_err();
    assert!(matches!(refused, OpenError::Outdated(_)), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_node_brings_no_data_types_to_members_that_do_not_know_them() {
    let mut town = with_sets(2, |_| old()).await;
    town.nodes.push(Node { number: 3, disk: FaultyDisk::new(3), process: None });
    town.start(3).await;
    let props = updates(json!({"datatype": "set"}));
    town.control(3).create_type(b"sets", &props).await.unwrap();
    town.join(3, 1).await.unwrap();
    assert!(town.control(1).clear_staged().await.is_ok());
    town.until("it is alone again", || town.state(3).members().count() == 1).await;
    town.control(3).activate_type(b"sets").await.unwrap();
    let refused = town.join(3, 1).await.unwrap_err().to_string();
    assert!(refused.contains("n1@test speaks no newer version"), "{refused}");
    // The member that is asked speaks it, another one does not.
    town.crash(1);
    town.start(1).await;
    town.until("the version is known", || newest_version(&town, 1, 1) == VERSION_MAX).await;
    let refused = town.join(3, 1).await.unwrap_err().to_string();
    assert!(refused.contains("do not speak it: n2@test. Upgrade"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn what_a_node_activates_while_it_joins_comes_along_or_keeps_it_out() {
    for (theirs, is_known) in [(VersionRange::CURRENT, true), (OLD, false)] {
        let mut town = with_sets(2, |_| Settings { versions: theirs, ..settings() }).await;
        town.nodes.push(Node { number: 3, disk: FaultyDisk::new(3), process: None });
        town.start(3).await;
        let props = updates(json!({"datatype": "set"}));
        town.control(3).create_type(b"sets", &props).await.unwrap();
        // The cluster's answer takes longer than the activation.
        town.network.set_delay("n1", "n3", Duration::from_millis(200));
        let at_n1 = address(1);
        let (joined, activated) = tokio::join!(town.control(3).join(&at_n1), async {
            sleep(Duration::from_millis(250)).await;
            town.control(3).activate_type(b"sets").await
        });
        town.network.set_delay("n1", "n3", Duration::ZERO);
        activated.unwrap();
        assert_eq!(joined.is_ok(), is_known, "{joined:?}");
        assert_eq!(town.control(3).awaits_cluster(), is_known);
        // Nobody takes the word of a node that does not belong to the cluster.
        sleep(PATIENCE).await;
        assert!(town.control(1).departure().borrow().is_none());
        let is_active = town.state(1).active_types().any(|(name, _)| name == b"sets");
        assert_eq!(is_active, is_known);
        assert_eq!(town.state(3).members().count(), if is_known { 3 } else { 1 });
    }
}

#[tokio::test(start_paused = true)]
async fn what_reads_go_by_is_forgotten_while_a_member_does_not_keep_it() {
    let mut town = Town::joined(4).await;
    town.nodes.push(Node { number: 5, disk: FaultyDisk::new(5), process: None });
    town.start(5).await;
    town.join(5, 1).await.unwrap();
    town.commit(1).await;
    let reads = |town: &Town, number: u8| {
        town.state(1).layouts().served(id(number)).map_or(0, |served| served.reads)
    };
    let all_told = |town: &Town| (1..=5).all(|number| reads(town, number) > 0);
    town.until("all tell what they read by", || all_told(&town)).await;
    town.crash(4);
    town.start_with(4, Settings { versions: READS_UNTOLD, ..settings() }).await;
    let none_told = || (1..=5).all(|number| reads(&town, number) == 0);
    town.until("it is forgotten", none_told).await;
    town.until("nobody is waited for", || {
        (1..=5).all(|number| !town.state(1).is_behind(id(number)))
    })
    .await;
    assert!(none_told(), "what is told is not kept");
    town.crash(4);
    town.start(4).await;
    town.until("all tell it again", || all_told(&town)).await;
    assert!(town.state(1).layouts().is_moving());
    town.move_all().await;
}

#[tokio::test(start_paused = true)]
async fn members_that_leave_are_marked_as_absent_while_all_members_keep_that() {
    let mut town = Town::joined(4).await;
    town.until_equal().await;
    town.control(1).stage(&StagedChange::Leave { node: id(4) }).await.unwrap();
    town.commit(1).await;
    town.crash(4);
    town.until("it is seen to be away", || !town.control(1).is_reachable(id(4))).await;
    let is_marked = |town: &Town| town.state(1).members().get(id(4)).unwrap().is_down;
    for range in [MARKS_FORGOTTEN, VersionRange::CURRENT] {
        town.crash(3);
        town.start_with(3, Settings { versions: range, ..settings() }).await;
        town.until("the version is known", || newest_version(&town, 1, 3) == range.max).await;
        let marked = town.control(1).mark_down(id(4)).await;
        if range == MARKS_FORGOTTEN {
            let refused = marked.unwrap_err().to_string();
            assert!(refused.contains("an older version: n3@test. Upgrade"), "{refused}");
            assert!(refused.contains("`cluster force-remove n4@test`"), "{refused}");
        } else {
            marked.unwrap();
        }
        assert_eq!(is_marked(&town), range != MARKS_FORGOTTEN);
    }
    town.crash(3);
    town.start_with(3, Settings { versions: MARKS_FORGOTTEN, ..settings() }).await;
    town.until("the mark is dropped", || !is_marked(&town)).await;
    // Of a full member all keep it.
    town.crash(2);
    town.until("it is seen to be away", || !town.control(1).is_reachable(id(2))).await;
    town.control(1).mark_down(id(2)).await.unwrap();
    assert!(town.state(1).members().get(id(2)).unwrap().is_down);
}

#[tokio::test(start_paused = true)]
async fn conditional_writes_need_no_grants_before_all_members_know_of_them() {
    let before = VersionRange { min: 1, max: VERSION_GRANTS - 1 };
    let older = || Settings { versions: before, ..settings() };
    let of = |number| if number == 1 { settings() } else { older() };
    let mut town = Town::with(2, of).await;
    town.join(2, 1).await.unwrap();
    town.commit(1).await;
    town.move_all().await;
    let required = || updates(json!({"conditional_put_mode": "require_token"}));
    let control = Arc::clone(town.control(1));
    control.create_type(b"strict", &required()).await.unwrap();
    control.create_type(b"plain", &updates(json!({}))).await.unwrap();
    control.activate_type(b"plain").await.unwrap();
    let refused = [
        control.activate_type(b"strict").await.unwrap_err(),
        control.update_type(b"plain", &required()).await.unwrap_err(),
        control.set_bucket_props(untyped("b"), &required()).await.unwrap_err(),
    ];
    for refused in refused.map(|refused| refused.to_string()) {
        let expected = "conditional_put_mode=require_token needs version 11 of the protocol between nodes, \
                        and these members do not speak it: n2@test. Upgrade";
        assert!(refused.contains(expected), "{refused}");
    }
    let preferred = updates(json!({"conditional_put_mode": "prefer_token"}));
    control.set_bucket_props(untyped("b"), &preferred).await.unwrap();
    town.crash(2);
    town.start(2).await;
    town.until("the version is known", || newest_version(&town, 1, 2) == VERSION_MAX).await;
    control.activate_type(b"strict").await.unwrap();
    control.reset_bucket_props(untyped("b")).await.unwrap();
    town.until_equal().await;
    // A type or a bucket alone keeps nodes of older versions out.
    let open = |town: &Town| {
        let disk = Arc::new(town.node(2).disk.clone());
        ControlPlane::open(disk, older()).map(|_| ()).unwrap_err().to_string()
    };
    town.crash(2);
    assert!(open(&town).contains("of bucket type strict needs version 11"), "{}", open(&town));
    town.start(2).await;
    control.update_type(b"strict", &preferred).await.unwrap();
    control.set_bucket_props(untyped("b"), &required()).await.unwrap();
    town.until_equal().await;
    town.crash(2);
    assert!(open(&town).contains("of bucket b needs version 11"), "{}", open(&town));
}
