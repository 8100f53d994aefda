//! Clients that know the layout and send requests straight to a replica.

use crate::fake::{Fake, Request, error};
use bytes::Bytes;
use quoit_client::wire::messages::*;
use quoit_client::{
    Bucket, BucketRef, Client, ClientBuilder, Content, DeleteOptions, Error, Layout, LayoutError,
    Location, PutOptions,
};
use std::time::Duration;
use tokio::join;
use tokio::task::JoinSet;

/// A cluster of three nodes. Partition p is on the nodes p, p + 1 and p + 2, modulo 3. Keys of the bucket
/// `one` have one replica, all others have three.
struct Cluster {
    nodes: Vec<Fake>,
    layout: RpbGetLayoutResp,
}

impl Cluster {
    async fn start() -> Cluster {
        let nodes = vec![Fake::start().await, Fake::start().await, Fake::start().await];
        let addresses: Vec<_> = nodes.iter().map(|node| node.address.clone()).collect();
        Cluster { nodes, layout: layout(&addresses) }
    }

    /// Builder of a client that is given only the first node.
    fn builder(&self) -> ClientBuilder {
        let pause = Duration::from_secs(3600);
        Client::builder()
            .node(self.nodes[0].address.clone())
            .replica_aware(true)
            .layout_refresh(pause)
            .backoff(pause..=pause)
    }

    /// A client that has learned the layout with its first request.
    async fn client(&mut self, builder: ClientBuilder) -> Client {
        let client = builder.build().unwrap();
        let (location, holder) = self.key_on(0);
        assert_eq!(holder, 0);
        let node = &mut self.nodes[0];
        let learn = async {
            node.answer_next::<RpbGetLayoutReq, _>(&self.layout).await;
            serve::<RpbGetReq, RpbGetResp>(node).await;
        };
        join!(client.get(&location), learn).0.unwrap();
        client
    }

    /// A key whose only replica is this node.
    fn key_on(&self, place: u16) -> (Location, usize) {
        let layout = Layout::from_wire(self.layout.clone()).unwrap().unwrap();
        let holds = |key: &u32| {
            let key = key.to_string();
            layout.replicas(BucketRef::untyped(b"one").key(key.as_bytes())) == [place]
        };
        let key = (0..).find(holds).unwrap();
        (Bucket::new("one").key(key.to_string()), usize::from(place))
    }
}

fn layout(addresses: &[String]) -> RpbGetLayoutResp {
    let node = |address: &String| RpbLayoutNode {
        name: Bytes::from(format!("n@{address}")),
        address: Bytes::from(address.clone()),
    };
    let primaries = (0..8u16).flat_map(|p| [p % 3, (p + 1) % 3, (p + 2) % 3]);
    let rule = |bucket: Option<&'static str>, n_val| RpbLayoutRule {
        bucket_type: Bytes::from_static(b"default"),
        bucket: bucket.map(|name| Bytes::from_static(name.as_bytes())),
        n_val,
        bucket_only: None,
    };
    RpbGetLayoutResp {
        tag: Bytes::from(addresses.concat()),
        ring_size: Some(8),
        nodes: addresses.iter().map(node).collect(),
        primaries: Some(primaries.flat_map(u16::to_be_bytes).collect()),
        rules: vec![rule(None, 3), rule(Some("one"), 1)],
    }
}

/// Takes the next request, which must be a `Q`, and answers it with an empty `A`.
async fn serve<Q: Body, A: Body>(node: &mut Fake) -> Q {
    node.answer_next(&A::default()).await
}

/// The next request to either node.
async fn next_of(one: &mut Fake, other: &mut Fake) -> Request {
    tokio::select! {
        request = one.next() => request,
        request = other.next() => request,
    }
}

#[tokio::test]
async fn every_request_about_a_key_goes_to_its_replica() {
    let mut cluster = Cluster::start().await;
    let builder = cluster.builder();
    let client = cluster.client(builder).await;
    for place in [2, 0, 1, 2] {
        let (location, holder) = cluster.key_on(place);
        let node = &mut cluster.nodes[holder];
        join!(client.get(&location), serve::<RpbGetReq, RpbGetResp>(node)).0.unwrap();
        let put = client.put(&location, Content::new("v"));
        join!(put, serve::<RpbPutReq, RpbPutResp>(node)).0.unwrap();
        join!(client.delete(&location), serve::<RpbDelReq, RpbDelResp>(node)).0.unwrap();
    }
    assert!(cluster.nodes.iter_mut().all(Fake::is_quiet));
}

#[tokio::test]
async fn the_replica_with_the_fewest_requests_in_flight_is_asked() {
    let mut cluster = Cluster::start().await;
    let builder = cluster.builder();
    let client = cluster.client(builder).await;
    let location = Bucket::new("three").key("k");
    let reads: Vec<_> = (0..6)
        .map(|_| {
            let (client, location) = (client.clone(), location.clone());
            tokio::spawn(async move { client.get(&location).await })
        })
        .collect();
    for node in &mut cluster.nodes {
        let requests = [node.next().await, node.next().await];
        assert!(node.is_quiet(), "two of six each");
        for request in requests {
            request.answer(&RpbGetResp::default()).await;
        }
    }
    for read in reads {
        read.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn where_no_replica_can_be_reached_another_node_serves_the_request() {
    let mut cluster = Cluster::start().await;
    let builder = cluster.builder();
    let client = cluster.client(builder).await;
    cluster.nodes.remove(1).stop().await;
    let (location, _) = cluster.key_on(1);
    let [first, third] = &mut cluster.nodes[..] else { unreachable!() };
    let put = client.put(&location, Content::new("v"));
    let answer = async { next_of(first, third).await.answer(&RpbPutResp::default()).await };
    join!(put, answer).0.unwrap();
}

#[tokio::test]
async fn what_may_be_repeated_is_sent_to_another_node_when_the_connection_breaks() {
    let mut cluster = Cluster::start().await;
    let builder = cluster.builder().attempts_max(2);
    let client = cluster.client(builder).await;
    let (location, _) = cluster.key_on(2);
    let [first, second, third] = &mut cluster.nodes[..] else { unreachable!() };
    let resend = PutOptions { resend: true, ..Default::default() };
    let put = client.put_with(&location, Content::new("v"), &resend);
    let breaks = async {
        third.next().await.hang_up().await;
        assert_eq!(third.closed().await, 0);
        next_of(first, second).await.answer(&RpbPutResp::default()).await;
    };
    join!(put, breaks).0.unwrap();
    let resend = DeleteOptions { resend: true, ..Default::default() };
    let delete = client.delete_with(&location, &resend);
    let breaks = async {
        third.next().await.hang_up().await;
        assert_eq!(third.closed().await, 1);
        next_of(first, second).await.answer(&RpbDelResp {}).await;
    };
    join!(delete, breaks).0.unwrap();
    let put = client.put(&location, Content::new("v"));
    let (outcome, ()) = join!(put, async { third.next().await.hang_up().await });
    assert!(matches!(outcome, Err(Error::Lost { .. })), "{outcome:?}");
}

/// Answers every request: with this layout, and reads with this value.
async fn answer_all(mut node: Fake, layout: RpbGetLayoutResp, value: &'static str) {
    loop {
        let request = node.next().await;
        if request.frame.code == RpbGetLayoutReq::CODE as u8 {
            request.answer(&layout).await;
        } else {
            let content = RpbContent { value: value.into(), ..Default::default() };
            request.answer(&RpbGetResp { content: vec![content], ..Default::default() }).await;
        }
    }
}

#[tokio::test]
async fn a_new_layout_is_learnt_beside_the_requests() {
    let mut cluster = Cluster::start().await;
    let builder = cluster.builder().layout_refresh(Duration::ZERO);
    let client = cluster.client(builder).await;
    let (location, _) = cluster.key_on(2);
    let moved = [2, 1, 0].map(|place: usize| cluster.nodes[place].address.clone());
    let new = RpbGetLayoutResp { tag: Bytes::from_static(b"new"), ..layout(&moved) };
    let values = ["first", "second", "third"];
    let nodes = cluster.nodes.into_iter().zip(values);
    let serving: JoinSet<()> =
        nodes.map(|(node, value)| answer_all(node, new.clone(), value)).collect();
    while client.get(&location).await.unwrap().unwrap().siblings[0].value != "first" {}
    drop(serving);
}

#[tokio::test]
async fn a_layout_that_has_changed_is_asked_for_again_soon() {
    let mut cluster = Cluster::start().await;
    let builder = cluster.builder();
    let client = cluster.client(builder).await;
    let (location, _) = cluster.key_on(0);
    let new = RpbGetLayoutResp { tag: Bytes::from_static(b"new"), ..cluster.layout.clone() };
    let tag = new.tag.clone();
    let (told, mut tags) = tokio::sync::mpsc::unbounded_channel();
    let serving: JoinSet<()> = cluster
        .nodes
        .into_iter()
        .map(|mut node| {
            let (new, told) = (new.clone(), told.clone());
            async move {
                loop {
                    let request = node.next().await;
                    if request.frame.code == RpbGetLayoutReq::CODE as u8 {
                        told.send(request.message::<RpbGetLayoutReq>().known_tag).unwrap();
                        request.answer(&new).await;
                    } else {
                        request.answer(&RpbGetResp::default()).await;
                    }
                }
            }
        })
        .collect();
    assert_eq!(*client.layout().await.unwrap().tag(), tag);
    tags.recv().await.unwrap();
    // Without the change the client would wait an hour before it asks again.
    while tags.is_empty() {
        client.get(&location).await.unwrap();
    }
    assert_eq!(tags.recv().await.unwrap(), Some(tag));
    drop(serving);
}

#[tokio::test]
async fn a_node_that_left_the_layout_gets_no_more_requests() {
    let mut cluster = Cluster::start().await;
    let builder = cluster.builder();
    let client = cluster.client(builder).await;
    let stay = [0, 1, 0].map(|place: usize| cluster.nodes[place].address.clone());
    let new = layout(&stay);
    let [first, second, third] = &mut cluster.nodes[..] else { unreachable!() };
    let asked = async {
        let request = tokio::select! {
            request = next_of(first, second) => request,
            request = third.next() => request,
        };
        request.answer(&new).await;
    };
    join!(client.layout(), asked).0.unwrap();
    for _ in 0..6 {
        let serve = async { next_of(first, second).await.answer(&RpbPingResp {}).await };
        join!(client.ping(), serve).0.unwrap();
    }
}

#[tokio::test]
async fn a_request_goes_on_without_a_layout_that_does_not_come() {
    let mut fake = Fake::start().await;
    let client = Client::builder().node(fake.address.clone()).replica_aware(true).build().unwrap();
    let location = Bucket::new("b").key("k");
    let serve = async {
        let unanswered = fake.next().await;
        assert_eq!(unanswered.frame.code, RpbGetLayoutReq::CODE as u8);
        assert_eq!(fake.closed().await, unanswered.connection);
        serve::<RpbGetReq, RpbGetResp>(&mut fake).await;
    };
    join!(client.get(&location), serve).0.unwrap();
}

#[tokio::test]
async fn a_client_tells_the_layout_that_it_has() {
    let mut cluster = Cluster::start().await;
    let builder = cluster.builder();
    let client = cluster.client(builder).await;
    let [first, second, third] = &mut cluster.nodes[..] else { unreachable!() };
    let tag = cluster.layout.tag.clone();
    let asked = async {
        let request = tokio::select! {
            request = next_of(first, second) => request,
            request = third.next() => request,
        };
        request.answer(&RpbGetLayoutResp { tag: tag.clone(), ..Default::default() }).await;
        request.message::<RpbGetLayoutReq>()
    };
    let (layout, request) = join!(client.layout(), asked);
    assert_eq!(request.known_tag.as_ref(), Some(&tag));
    assert_eq!(*layout.unwrap().tag(), tag);
}

#[tokio::test]
async fn a_server_that_knows_no_layouts_is_used_all_the_same() {
    let mut riak = Fake::start().await;
    let client = Client::builder().node(riak.address.clone()).replica_aware(true).build().unwrap();
    let location = Bucket::new("b").key("k");
    let unknown = error("Unknown message code: 160");
    let refuse_and_serve = async {
        riak.answer_next::<RpbGetLayoutReq, _>(&unknown).await;
        serve::<RpbGetReq, RpbGetResp>(&mut riak).await;
    };
    join!(client.get(&location), refuse_and_serve).0.unwrap();
    join!(client.get(&location), serve::<RpbGetReq, RpbGetResp>(&mut riak)).0.unwrap();
    let refuse = riak.answer_next::<RpbGetLayoutReq, _>(&unknown);
    let outcome = join!(client.layout(), refuse).0;
    assert!(matches!(outcome, Err(Error::Server(_))), "{outcome:?}");
}

#[tokio::test]
async fn a_layout_that_contradicts_itself_is_refused() {
    let (mut fake, client) = Fake::with_client().await;
    let odd = RpbGetLayoutResp { ring_size: Some(7), ..Default::default() };
    let answer = fake.answer_next::<RpbGetLayoutReq, _>(&odd);
    let error = join!(client.layout(), answer).0.unwrap_err();
    assert!(matches!(error, Error::Layout { source: LayoutError::RingSize(7) }), "{error}");
    let answer = serve::<RpbGetLayoutReq, RpbGetLayoutResp>(&mut fake);
    let error = join!(client.layout(), answer).0.unwrap_err();
    assert!(matches!(error, Error::Layout { source: LayoutError::Nothing }), "{error}");
}
