//! The authority of a cluster: creation, rotation, tokens and their ends, removed members.

use super::*;
use crate::transport::{InternodeTlsMode, JoinProof, LinkSecurity};
use crate::{ChangeError, JoinError, StagedChange, TrustError};
use quoit_tls::nodes::JoinToken;

/// Delay of each message, in the test that needs one.
const MESSAGE_DELAY: Duration = Duration::from_millis(20);

impl TestCluster {
    async fn start_secured(&mut self, number: u8, mode: InternodeTlsMode) {
        self.security.insert(number, Arc::new(LinkSecurity::new(mode, None)));
        self.start(number).await;
    }

    fn links(&self, number: u8) -> crate::LinkView {
        self.control(number).link_view().unwrap()
    }

    async fn token(&self, number: u8, nodes: u32) -> String {
        let hour = Duration::from_secs(3600);
        self.control(number).issue_token(nodes, hour).await.unwrap().secret_text
    }

    /// Has a node ask the first one for a certificate.
    async fn enrol(&self, number: u8, token: &str) -> Result<(), JoinError> {
        let proof = JoinProof::Token(token.parse::<JoinToken>().unwrap());
        let control = self.control(number);
        let internode = control.link().internode().unwrap();
        control.ask_certificate(&internode, &address(1), &proof).await
    }

    async fn join_with(&self, number: u8, token: &str) -> Result<(), JoinError> {
        let proof = JoinProof::Token(token.parse::<JoinToken>().unwrap());
        self.control(number).join_by(&address(1), Some(&proof)).await
    }

    /// Starts nodes of a cluster that requires TLS, joined with one token.
    async fn closed(count: u8) -> TestCluster {
        seed_elections(7);
        let mut cluster = TestCluster::machines(count);
        for number in 1..=count {
            cluster.start_secured(number, InternodeTlsMode::Required).await;
        }
        cluster.until("the first has an authority", || cluster.links(1).issuing.is_some()).await;
        if count > 1 {
            let token = cluster.token(1, u32::from(count) - 1).await;
            for number in 2..=count {
                cluster.join_with(number, &token).await.unwrap();
                let joined =
                    || cluster.state(number).members().get(cluster.state(1).node_id()).is_some();
                cluster.until("it has joined", joined).await;
            }
            cluster.commit(1).await;
            cluster.move_all().await;
        }
        cluster
    }

    fn holds(&self, number: u8) -> Option<String> {
        let name = name(number);
        let member = self.links(1).members.into_iter().find(|member| *member.name == *name);
        member.and_then(|member| member.authority)
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_join_by_a_token_and_all_hold_certificates() {
    let cluster = TestCluster::closed(3).await;
    let issuing = cluster.links(1).issuing;
    cluster
        .until("all hold certificates", || (1..=3).all(|number| cluster.holds(number) == issuing))
        .await;
    let links = cluster.links(2);
    assert!(links.plain.is_empty());
    assert!(links.members.iter().all(|member| member.is_plain != Some(true)));
    assert_eq!(links.tokens[0].uses_left, 0);
}

#[tokio::test(start_paused = true)]
async fn tokens_that_are_used_up_revoked_or_of_another_cluster_let_nobody_in() {
    let mut cluster = TestCluster::machines(4);
    for number in 1..=4 {
        cluster.start_secured(number, InternodeTlsMode::Required).await;
    }
    cluster.until("there are authorities", || cluster.links(1).issuing.is_some()).await;
    cluster.until("there are authorities", || cluster.links(4).issuing.is_some()).await;
    let without = cluster.control(2).join(&address(1)).await.unwrap_err();
    assert!(matches!(without, JoinError::Unreachable { .. }), "{without}");
    let once = cluster.token(1, 1).await;
    cluster.join_with(2, &once).await.unwrap();
    cluster.until("the use is known", || cluster.links(1).tokens[0].uses_left == 0).await;
    let used = cluster.join_with(3, &once).await.unwrap_err();
    assert!(used.to_string().contains("was used by as many nodes"), "{used}");
    let revoked = cluster.token(1, 5).await;
    let id = cluster.links(1).tokens.iter().find(|token| token.uses_left == 5).unwrap().id.clone();
    cluster.control(1).revoke_token(&id).await.unwrap();
    let refused = cluster.join_with(3, &revoked).await.unwrap_err();
    assert!(refused.to_string().contains("was revoked"), "{refused}");
    let elsewhere = cluster.token(4, 1).await;
    assert!(cluster.join_with(3, &elsewhere).await.is_err());
    let unknown = cluster.control(1).revoke_token("0123").await.unwrap_err();
    assert!(matches!(unknown, ChangeError::Trust(TrustError::NoToken { .. })));
    let bounds = cluster.control(1).issue_token(0, Duration::from_secs(60)).await.unwrap_err();
    assert!(matches!(bounds, ChangeError::Trust(TrustError::TokenBounds { .. })));
    assert!(cluster.state(3).members().count() == 1, "it is alone as before");
}

/// The answer with a node's certificate may be lost.
#[tokio::test(start_paused = true)]
async fn a_used_up_token_serves_again_the_node_that_has_used_it_and_no_other() {
    let mut cluster = TestCluster::machines(3);
    for number in 1..=3 {
        cluster.start_secured(number, InternodeTlsMode::Required).await;
    }
    cluster.until("there is an authority", || cluster.links(1).issuing.is_some()).await;
    let once = cluster.token(1, 1).await;
    cluster.enrol(2, &once).await.unwrap();
    let another = cluster.token(1, 1).await;
    let id = another.parse::<JoinToken>().unwrap().id().unwrap();
    let is_known = || cluster.security[&1].keys().unwrap().trust.tokens.contains_key(&id);
    cluster.until("the node goes by the newest tokens", is_known).await;
    cluster.enrol(2, &once).await.expect("it gets another certificate");
    let refused = cluster.enrol(3, &once).await.unwrap_err().to_string();
    assert!(refused.contains("was used by as many nodes"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn an_authority_is_rotated_while_all_stay_connected_and_waits_for_who_is_away() {
    let mut cluster = TestCluster::closed(3).await;
    let before = cluster.links(1).issuing;
    cluster
        .until("all hold certificates", || (1..=3).all(|number| cluster.holds(number) == before))
        .await;
    cluster.crash(3);
    cluster.control(1).rotate_authority().await.unwrap();
    cluster.until("two have taken it up", || cluster.links(1).awaited.len() == 1).await;
    assert_eq!(*cluster.links(1).awaited[0], name(3));
    let again = cluster.control(1).rotate_authority().await.unwrap_err();
    assert!(again.to_string().contains(&name(3)), "{again}");
    cluster.start(3).await;
    cluster.until("the old one is gone", || cluster.links(1).authorities.len() == 1).await;
    let after = cluster.links(1).issuing;
    assert_ne!(after, before);
    cluster
        .until("all hold new ones", || (1..=3).all(|number| cluster.holds(number) == after))
        .await;
    let (one, two) = (cluster.control(1), cluster.state(2).node_id());
    assert!(one.is_reachable(two) && cluster.links(1).plain.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_removed_member_is_refused_in_the_handshake_at_once() {
    let cluster = TestCluster::closed(3).await;
    let third = cluster.state(3).node_id();
    cluster.control(1).stage(&StagedChange::ForceRemove { node: third }).await.unwrap();
    cluster.commit(1).await;
    cluster.until("it has gone", || cluster.control(3).departure().borrow().is_some()).await;
    let keys = cluster.security[&1].keys().unwrap();
    assert!(keys.trust.removed.contains(&third.to_string()));
}

#[tokio::test(start_paused = true)]
async fn a_node_goes_on_with_certificates_of_its_own_state_after_a_start() {
    let mut cluster = TestCluster::closed(3).await;
    let second = cluster.state(2).node_id();
    cluster.crash(2);
    cluster.until("it is away", || !cluster.control(1).is_reachable(second)).await;
    cluster.start_secured(2, InternodeTlsMode::Required).await;
    cluster.until("it is back", || cluster.control(1).is_reachable(second)).await;
}

#[tokio::test(start_paused = true)]
async fn an_open_cluster_is_closed_step_by_step() {
    let mut cluster = TestCluster::machines(3);
    for number in 1..=3 {
        cluster.start_secured(number, InternodeTlsMode::Plain).await;
    }
    cluster.join(2, 1).await.unwrap();
    cluster.join(3, 1).await.unwrap();
    cluster.commit(1).await;
    cluster.move_all().await;
    assert!(cluster.links(1).issuing.is_none(), "nobody needs an authority");
    for number in 1..=3 {
        cluster.control(number).set_link_mode(InternodeTlsMode::Both);
    }
    let all_hold = || (1..=3).all(|number| cluster.holds(number).is_some());
    cluster.until("all hold certificates", all_hold).await;
    let secured = || {
        (1..=3).all(|number| {
            cluster.links(number).members.iter().all(|member| member.is_plain != Some(true))
        })
    };
    cluster.until("all connections have TLS", secured).await;
    for number in 1..=3 {
        cluster.control(number).set_link_mode(InternodeTlsMode::Required);
    }
    let second = cluster.state(2).node_id();
    cluster.until("they are connected", || cluster.control(1).is_reachable(second)).await;
    cluster.control(1).rotate_authority().await.unwrap();
    cluster.until("the old one is gone", || cluster.links(1).authorities.len() == 1).await;
}

/// If a write of a node reaches no replica but its own, the acknowledged write can be lost.
#[tokio::test(start_paused = true)]
async fn a_node_that_requires_tls_from_now_on_is_never_without_another() {
    let mut cluster = TestCluster::machines(3);
    for number in 1..=3 {
        cluster.start_secured(number, InternodeTlsMode::Plain).await;
    }
    cluster.join(2, 1).await.unwrap();
    cluster.join(3, 1).await.unwrap();
    cluster.commit(1).await;
    cluster.move_all().await;
    for number in 2..=3 {
        cluster.control(number).set_link_mode(InternodeTlsMode::Both);
    }
    cluster.until("all hold certificates", || (1..=3).all(|n| cluster.holds(n).is_some())).await;
    let others = [2, 3].map(|number| cluster.state(number).node_id());
    let reachable =
        || others.iter().filter(|other| cluster.control(1).is_reachable(**other)).count();
    let own = cluster.state(1).node_id();
    let reaching =
        || [2, 3].into_iter().filter(|other| cluster.control(*other).is_reachable(own)).count();
    cluster.until("all reach each other", || reachable() == 2 && reaching() == 2).await;
    let is_plain = || cluster.links(1).members.iter().any(|member| member.is_plain == Some(true));
    assert!(is_plain(), "it is connected without TLS before");
    // A node that is being dialed again is unreachable for that time. Without a delay the loop
    // below would not see it.
    for other in [2, 3].map(|number| format!("n{number}")) {
        cluster.network.set_delay("n1", &other, MESSAGE_DELAY);
        cluster.network.set_delay(&other, "n1", MESSAGE_DELAY);
    }
    cluster.control(1).set_link_mode(InternodeTlsMode::Required);
    let internode = cluster.control(1).link().internode().unwrap();
    let is_entered_plain = || internode.inbound_nodes().into_values().any(|one| one.is_to_end);
    let mut looks = 0;
    while is_plain() || is_entered_plain() {
        assert_eq!(reachable(), 2, "it reaches both others");
        assert_eq!(reaching(), 2, "both others reach it");
        looks += 1;
        sleep(Duration::from_millis(1)).await;
    }
    assert!(looks > 0, "the looks see the change");
}

/// A token does not help to impersonate a member.
#[tokio::test(start_paused = true)]
async fn a_token_brings_no_certificate_of_a_present_member() {
    let mut cluster = TestCluster::closed(2).await;
    let token = cluster.token(1, 3).await;
    let second = cluster.state(2).node_id();
    // While the member is alive, no other node can connect with its identity.
    cluster.crash(2);
    cluster.until("it is away", || !cluster.control(1).is_reachable(second)).await;
    cluster.nodes.push(Node { number: 3, disk: FaultyDisk::new(3), process: None });
    cluster.security.insert(3, Arc::new(LinkSecurity::new(InternodeTlsMode::Required, None)));
    cluster.start_as(3, Settings { new_node_id: second, ..settings() }).await;
    let refused = cluster.join_with(3, &token).await.unwrap_err().to_string();
    assert!(refused.contains("already"), "{refused}");
    assert!(cluster.links(1).tokens.iter().any(|token| token.uses_left == 3), "and is not used up");
}
