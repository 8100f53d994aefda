//! The authority of a cluster: made, told to all, rotated; tokens and their ends; members that are removed.

use super::*;
use crate::transport::{JoinProof, LinkMode, LinkSecurity};
use crate::{ChangeError, JoinError, StagedChange, TrustError};
use quoit_tls::nodes::JoinToken;

impl Town {
    async fn start_secured(&mut self, number: u8, mode: LinkMode) {
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

    async fn join_with(&self, number: u8, token: &str) -> Result<(), JoinError> {
        let proof = JoinProof::Token(token.parse::<JoinToken>().unwrap());
        self.control(number).join_by(&address(1), Some(&proof)).await
    }

    /// Nodes of a cluster that requires proofs, joined by one token.
    async fn closed(count: u8) -> Town {
        seed_elections(7);
        let mut town = Town::machines(count);
        for number in 1..=count {
            town.start_secured(number, LinkMode::Required).await;
        }
        town.until("the first has an authority", || town.links(1).issuing.is_some()).await;
        if count > 1 {
            let token = town.token(1, u32::from(count) - 1).await;
            for number in 2..=count {
                town.join_with(number, &token).await.unwrap();
                let joined = || town.state(number).members().get(town.state(1).node_id()).is_some();
                town.until("it has joined", joined).await;
            }
            town.commit(1).await;
            town.move_all().await;
        }
        town
    }

    fn holds(&self, number: u8) -> Option<String> {
        let name = name(number);
        let member = self.links(1).members.into_iter().find(|member| *member.name == *name);
        member.and_then(|member| member.authority)
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_join_by_a_token_and_all_hold_certificates() {
    let town = Town::closed(3).await;
    let issuing = town.links(1).issuing;
    town.until("all hold certificates", || (1..=3).all(|number| town.holds(number) == issuing))
        .await;
    let links = town.links(2);
    assert!(links.plain.is_empty());
    assert!(links.members.iter().all(|member| member.is_plain != Some(true)));
    assert_eq!(links.tokens[0].uses_left, 0);
}

#[tokio::test(start_paused = true)]
async fn tokens_that_are_used_up_revoked_or_of_another_cluster_let_nobody_in() {
    let mut town = Town::machines(4);
    for number in 1..=4 {
        town.start_secured(number, LinkMode::Required).await;
    }
    town.until("there are authorities", || town.links(1).issuing.is_some()).await;
    town.until("there are authorities", || town.links(4).issuing.is_some()).await;
    let without = town.control(2).join(&address(1)).await.unwrap_err();
    assert!(matches!(without, JoinError::Unreachable { .. }), "{without}");
    let once = town.token(1, 1).await;
    town.join_with(2, &once).await.unwrap();
    town.until("the use is known", || town.links(1).tokens[0].uses_left == 0).await;
    let used = town.join_with(3, &once).await.unwrap_err();
    assert!(matches!(used, JoinError::ProofRefused { .. }), "{used}");
    let revoked = town.token(1, 5).await;
    let id = town.links(1).tokens.iter().find(|token| token.uses_left == 5).unwrap().id.clone();
    town.control(1).revoke_token(&id).await.unwrap();
    let refused = town.join_with(3, &revoked).await.unwrap_err();
    assert!(refused.to_string().contains("was used or revoked"), "{refused}");
    let elsewhere = town.token(4, 1).await;
    assert!(town.join_with(3, &elsewhere).await.is_err());
    let unknown = town.control(1).revoke_token("0123").await.unwrap_err();
    assert!(matches!(unknown, ChangeError::Trust(TrustError::NoToken { .. })));
    let bounds = town.control(1).issue_token(0, Duration::from_secs(60)).await.unwrap_err();
    assert!(matches!(bounds, ChangeError::Trust(TrustError::TokenBounds { .. })));
    assert!(town.state(3).members().count() == 1, "it is alone as before");
}

#[tokio::test(start_paused = true)]
async fn an_authority_is_rotated_while_all_stay_connected_and_waits_for_who_is_away() {
    let mut town = Town::closed(3).await;
    let before = town.links(1).issuing;
    town.until("all hold certificates", || (1..=3).all(|number| town.holds(number) == before))
        .await;
    town.crash(3);
    town.control(1).rotate_authority().await.unwrap();
    town.until("two have taken it up", || town.links(1).awaited.len() == 1).await;
    assert_eq!(*town.links(1).awaited[0], name(3));
    let again = town.control(1).rotate_authority().await.unwrap_err();
    assert!(again.to_string().contains(&name(3)), "{again}");
    town.start(3).await;
    town.until("the old one is gone", || town.links(1).authorities.len() == 1).await;
    let after = town.links(1).issuing;
    assert_ne!(after, before);
    town.until("all hold new ones", || (1..=3).all(|number| town.holds(number) == after)).await;
    let (one, two) = (town.control(1), town.state(2).node_id());
    assert!(one.is_reachable(two) && town.links(1).plain.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_removed_member_is_refused_in_the_handshake_at_once() {
    let town = Town::closed(3).await;
    let third = town.state(3).node_id();
    town.control(1).stage(&StagedChange::ForceRemove { node: third }).await.unwrap();
    town.commit(1).await;
    town.until("it has gone", || town.control(3).departure().borrow().is_some()).await;
    let keys = town.security[&1].keys().unwrap();
    assert!(keys.trust.removed.contains(&third.to_string()));
}

#[tokio::test(start_paused = true)]
async fn a_node_goes_on_with_certificates_of_its_own_state_after_a_start() {
    let mut town = Town::closed(3).await;
    let second = town.state(2).node_id();
    town.crash(2);
    town.until("it is away", || !town.control(1).is_reachable(second)).await;
    town.start_secured(2, LinkMode::Required).await;
    town.until("it is back", || town.control(1).is_reachable(second)).await;
}

#[tokio::test(start_paused = true)]
async fn an_open_cluster_is_closed_step_by_step() {
    let mut town = Town::machines(3);
    for number in 1..=3 {
        town.start_secured(number, LinkMode::Plain).await;
    }
    town.join(2, 1).await.unwrap();
    town.join(3, 1).await.unwrap();
    town.commit(1).await;
    town.move_all().await;
    assert!(town.links(1).issuing.is_none(), "nobody needs an authority");
    for number in 1..=3 {
        town.control(number).set_link_mode(LinkMode::Both);
    }
    let all_hold = || (1..=3).all(|number| town.holds(number).is_some());
    town.until("all hold certificates", all_hold).await;
    let secured = || {
        (1..=3).all(|number| {
            town.links(number).members.iter().all(|member| member.is_plain != Some(true))
        })
    };
    town.until("all connections have TLS", secured).await;
    for number in 1..=3 {
        town.control(number).set_link_mode(LinkMode::Required);
    }
    let second = town.state(2).node_id();
    town.until("they are connected", || town.control(1).is_reachable(second)).await;
    town.control(1).rotate_authority().await.unwrap();
    town.until("the old one is gone", || town.links(1).authorities.len() == 1).await;
}

/// A token is no way to become a member that there is already.
#[tokio::test(start_paused = true)]
async fn a_token_brings_no_certificate_of_a_present_member() {
    let mut town = Town::closed(2).await;
    let token = town.token(1, 3).await;
    let second = town.state(2).node_id();
    // While it lives, nobody else is heard who calls himself so.
    town.crash(2);
    town.until("it is away", || !town.control(1).is_reachable(second)).await;
    town.nodes.push(Node { number: 3, disk: FaultyDisk::new(3), process: None });
    town.security.insert(3, Arc::new(LinkSecurity::new(LinkMode::Required, None)));
    town.start_as(3, Settings { new_node_id: second, ..settings() }).await;
    let refused = town.join_with(3, &token).await.unwrap_err().to_string();
    assert!(refused.contains("already"), "{refused}");
    assert!(town.links(1).tokens.iter().any(|token| token.uses_left == 3), "and is not used up");
}
