//! Greetings: which nodes are admitted, and the reasons for refusals.

use super::*;
use crate::transport::NodeClock;
use quoit_seam::ManualClock;
use quoit_wire::internode::{VERSION_MAX, VersionRange, code};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Returns the connection problem of a node with these settings at `host` that connects to node 2.
async fn problem_of(host: &str, newcomer: InternodeSettings, cluster: ClusterId) -> String {
    let network = MemoryNetwork::default();
    let _two = node(&network, 2).await;
    let newcomer = node_with(&network, host, newcomer).await;
    newcomer.set_cluster(Some(cluster));
    newcomer.set_peers(&members(&[2]));
    let peer = newcomer.peer(id(2)).unwrap();
    until("there is trouble", || peer.connection_problem().is_some()).await;
    assert!(!peer.is_up());
    peer.connection_problem().unwrap().to_string()
}

#[tokio::test(start_paused = true)]
async fn a_node_of_another_cluster_is_told_so() {
    let trouble = problem_of("n1", settings(1), ClusterId(*b"any other custer")).await;
    assert!(trouble.contains("n1 belongs to another cluster than n2"), "{trouble}");
}

#[tokio::test(start_paused = true)]
async fn versions_without_a_common_one_are_refused_with_both_ranges() {
    let mut newer = settings(1);
    newer.versions = VersionRange { min: VERSION_MAX + 1, max: VERSION_MAX + 2 };
    let trouble = problem_of("n1", newer, CLUSTER).await;
    assert!(
        trouble.contains(&format!("versions {} to {}", VERSION_MAX + 1, VERSION_MAX + 2))
            && trouble.contains(&format!("1 to {VERSION_MAX}")),
        "{trouble}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_newer_node_talks_to_an_older_one_in_a_version_of_both() {
    let network = MemoryNetwork::default();
    let mut newer = settings(1);
    newer.versions = VersionRange { min: 1, max: VERSION_MAX + 2 };
    let one = node_with(&network, "n1", newer).await;
    let two = node(&network, 2).await;
    one.set_peers(&members(&[1, 2]));
    two.set_peers(&members(&[1, 2]));
    let (older, newer) = (one.peer(id(2)).unwrap(), two.peer(id(1)).unwrap());
    assert_eq!(echo(&older, b"old").await.unwrap(), "old");
    assert_eq!(echo(&newer, b"new").await.unwrap(), "new");
    assert_eq!(
        (older.version_max(), newer.version_max()),
        (Some(VERSION_MAX), Some(VERSION_MAX + 2))
    );
    for peer in [older, newer] {
        assert!(peer.speaks(VERSION_MAX) && !peer.speaks(VERSION_MAX + 1), "{}", peer.name());
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_at_which_another_node_answers_now_is_found_out() {
    let network = MemoryNetwork::default();
    let (one, _two) = (node(&network, 1).await, node(&network, 2).await);
    one.set_peers(&[(id(3), "n2:1".into(), "n3".into())]);
    let peer = one.peer(id(3)).unwrap();
    until("there is trouble", || peer.connection_problem().is_some()).await;
    let trouble = peer.connection_problem().unwrap();
    assert!(trouble.contains("(n2), not 0303030303"), "{trouble}");
}

/// Settings of a node whose clock shows `SECS` seconds.
fn at<const SECS: u64>(number: u8) -> InternodeSettings {
    let clock = NodeClock(Arc::new(ManualClock::at(SECS * 1_000_000)));
    InternodeSettings { clock: Some(clock), ..settings(number) }
}

#[tokio::test(start_paused = true)]
async fn nodes_whose_clocks_are_far_apart_refuse_each_other_and_say_by_how_much() {
    let network = MemoryNetwork::default();
    let right = node_with(&network, "n1", at::<10_000>(1)).await;
    let ahead = node_with(&network, "n2", at::<13_600>(2)).await;
    let untold = node(&network, 3).await;
    for one in [&right, &ahead, &untold] {
        one.set_peers(&members(&[1, 2, 3]));
    }
    let expected = "the clock of n2 is 3600.0 s ahead of that of n1";
    for (one, other) in [(&right, 2), (&ahead, 1)] {
        let peer = one.peer(id(other)).unwrap();
        until("there is trouble", || peer.connection_problem().is_some()).await;
        assert!(
            peer.connection_problem().unwrap().contains(expected),
            "{:?}",
            peer.connection_problem()
        );
        assert!(peer.lasting_problem(ConnectionProblem::Clock, Duration::ZERO).is_some());
        assert!(
            peer.lasting_problem(ConnectionProblem::DuplicateIdentity, Duration::ZERO).is_none()
        );
        // A node that sends no time is accepted.
        echo(&one.peer(id(3)).unwrap(), b"x").await.unwrap();
        assert!(!peer.is_up());
    }
}

/// Admits no node, for this reason.
struct Closed(NotAdmitted);

impl Admission for Closed {
    fn admit(&self, _newcomer: &JoiningNode) -> Result<(), NotAdmitted> {
        Err(self.0.clone())
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_not_admitted_reads_why() {
    let network = MemoryNetwork::default();
    let (one, two) = (node(&network, 1).await, node(&network, 2).await);
    two.set_admission(Arc::new(Closed(NotAdmitted::KeptOut("n1 was removed".to_owned()))));
    one.set_peers(&members(&[1, 2]));
    let peer = one.peer(id(2)).unwrap();
    until("there is trouble", || peer.connection_problem().is_some()).await;
    assert_eq!(&*peer.connection_problem().unwrap(), "n1 was removed");
}

/// The dialer logs the first code at once, and the second one only if it lasts.
#[tokio::test(start_paused = true)]
async fn who_is_kept_out_and_who_is_not_known_yet_are_refused_by_different_codes() {
    let network = MemoryNetwork::default();
    let (one, two) = (node(&network, 1).await, node(&network, 2).await);
    let reasons = [
        (NotAdmitted::KeptOut("n1 was removed".to_owned()), code::NOT_ADMITTED),
        (NotAdmitted::Unknown("n1 is no member".to_owned()), code::CLUSTER),
    ];
    for (reason, expected) in reasons {
        two.set_admission(Arc::new(Closed(reason)));
        let refused = one.call_address("n2:1", ECHO, &(), b"", Duration::from_secs(5)).await;
        let Err(CallError::Refused { code, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(code, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_a_live_node_is_refused_and_the_original_goes_on() {
    let network = MemoryNetwork::default();
    let (original, two) = (node(&network, 1).await, node(&network, 2).await);
    original.set_peers(&members(&[1, 2]));
    two.set_peers(&members(&[1, 2]));
    let peer = original.peer(id(2)).unwrap();
    echo(&peer, b"x").await.unwrap();
    let mut copied = settings(1);
    copied.boot_id = 4711;
    let copy = node_with(&network, "n9", copied).await;
    copy.set_peers(&members(&[1, 2]));
    let of_copy = copy.peer(id(2)).unwrap();
    until("there is trouble", || of_copy.connection_problem().is_some()).await;
    let trouble = of_copy.connection_problem().unwrap();
    assert!(trouble.contains("in use by a live node at n1:1"), "{trouble}");
    assert!(trouble.contains("n1 at n9:1 runs on a copy of its data directory"), "{trouble}");
    assert!(peer.is_up());
    assert_eq!(echo(&peer, b"still here").await.unwrap(), "still here");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_restarted_elsewhere_is_taken_when_the_old_one_is_silent() {
    let network = MemoryNetwork::default();
    let (one, _two, peer) = two(&network).await;
    echo(&peer, b"x").await.unwrap();
    // The machine loses its power, so its connections are not reset.
    network.silence("n1", "n2");
    let mut restarted = settings(1);
    restarted.boot_id = 4711;
    let restarted = node_with(&network, "n9", restarted).await;
    restarted.set_peers(&members(&[1, 2]));
    let peer = restarted.peer(id(2)).unwrap();
    until("it is taken", || peer.is_up()).await;
    drop(one);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dials_itself_is_told_so() {
    let network = MemoryNetwork::default();
    let one = node(&network, 1).await;
    let error = one.call_address("n1:1", ECHO, &(), b"", Duration::from_secs(5)).await;
    assert!(error.unwrap_err().to_string().contains("this is n1 itself"));
}

#[tokio::test(start_paused = true)]
async fn a_guest_is_served_what_is_meant_for_guests_and_nothing_else() {
    let network = MemoryNetwork::default();
    let (one, two) = (node(&network, 1).await, node(&network, 2).await);
    one.set_cluster(None);
    two.register_for_guests(50..=59, Arc::new(TestService));
    let limit = Duration::from_secs(5);
    let refused = one.call_address("n2:1", 50, &(), b"", limit).await.unwrap_err();
    assert!(matches!(refused, CallError::Refused { code: 2000, .. }), "{refused}");
    let unknown = one.call_address("n2:1", ECHO, &(), b"", limit).await.unwrap_err();
    assert!(unknown.to_string().contains("does not serve method 0x0001"), "{unknown}");
    two.register_for_guests(ECHO..=ECHO, Arc::new(TestService));
    let (who, reply) = one.call_address("n2:1", ECHO, &(), b"hello", limit).await.unwrap();
    assert_eq!((who, &reply.payload[..]), (id(2), &b"hello"[..]));
    let nobody = one.call_address("n8:1", ECHO, &(), b"", limit).await.unwrap_err();
    assert!(matches!(nobody, CallError::Unreachable(_)), "{nobody}");
}

#[tokio::test(start_paused = true)]
async fn garbage_on_the_port_is_cut_off_and_does_no_harm() {
    let network = MemoryNetwork::default();
    let (_one, _two, peer) = two(&network).await;
    let garbage: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\nHost: n2\r\n\r\n",
        &[0; 100],
        &[0xff; 5000],
        &[0, 0, 0, 12, 2, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0],
    ];
    for bytes in garbage {
        let mut stream = network.host("x").connect("n2:1").await.unwrap();
        stream.writer.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        let end = timeout(Duration::from_secs(1), stream.reader.read_to_end(&mut answer)).await;
        assert!(end.is_ok(), "closed at once");
        assert!(answer.is_empty());
    }
    assert_eq!(echo(&peer, b"fine").await.unwrap(), "fine");
}

#[tokio::test(start_paused = true)]
async fn connections_that_say_nothing_are_bounded_in_number_and_time() {
    let network = MemoryNetwork::default();
    let mut few = settings(2);
    few.limits.strangers_max = 3;
    let _two = node_with(&network, "n2", few).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(network.host("x").connect("n2:1").await.unwrap());
    }
    // One byte a second does not keep a connection open.
    let mut slow = open.remove(0);
    tokio::spawn(async move {
        for byte in [0, 0, 0, 60, 1, 0, 0, 0, 0, 0, 0] {
            if slow.writer.write_all(&[byte]).await.is_err() {
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
        panic!("still connected after 10 s");
    });
    sleep(Duration::from_millis(10)).await;
    let mut fourth = network.host("x").connect("n2:1").await.unwrap();
    let closed = timeout(Duration::from_millis(100), fourth.reader.read(&mut [0; 1])).await;
    assert!(closed.is_ok(), "there are three already");
    sleep(Duration::from_secs(6)).await;
    let one = node(&network, 1).await;
    one.set_peers(&members(&[1, 2]));
    assert_eq!(echo(&one.peer(id(2)).unwrap(), b"x").await.unwrap(), "x");
    sleep(Duration::from_secs(6)).await;
}
