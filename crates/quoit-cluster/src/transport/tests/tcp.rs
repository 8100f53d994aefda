//! Calls over real sockets.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_call_at_once_over_tcp() {
    let mut nodes = Vec::new();
    let mut all = Vec::new();
    for number in [1, 2] {
        let listener = TokioNetwork.bind("127.0.0.1:0").await.unwrap();
        all.push((id(number), listener.local_address().unwrap().into(), name(number).into()));
        let node = Internode::new(settings(number), Arc::new(TokioNetwork));
        node.set_cluster(Some(CLUSTER));
        node.register(1..=99, Arc::new(TestService));
        node.serve(listener).unwrap();
        nodes.push(node);
    }
    nodes.iter().for_each(|node| node.set_peers(&all));
    let peer = nodes[0].peer(id(2)).unwrap();
    let mut tasks = Vec::new();
    for task in 0..32_u32 {
        let peer = Arc::clone(&peer);
        tasks.push(tokio::spawn(async move {
            for call in 0..50_u32 {
                let payload = [&task.to_be_bytes()[..], &call.to_be_bytes()].concat();
                let lane = if call % 10 == 0 { Lane::Large } else { Lane::Small };
                let limit = Duration::from_secs(20);
                let reply = peer.call(ECHO, &(), &payload, lane, limit).await.unwrap();
                assert_eq!(reply.payload, payload);
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(peer.pending_count(), 0);
}
