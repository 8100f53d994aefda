//! The first frames of a connection, by which both sides decide whether to talk.
//!
//! The dialer sends its greeting first. The listener checks it and answers with its own greeting or a
//! refusal. Each side checks the other's version, identity, clock, and the versions that active bucket
//! types need; the listener also checks the cluster and the membership.

use super::clocks::NodeTime;
use super::context::Context;
use super::error::Fault;
use super::network::Stream;
use super::security::{JoinProof, PeerProof, secured};
use super::service::{JoiningNode, NotAdmitted};
use super::{Lane, Window};
use crate::NodeId;
use bytes::{Bytes, BytesMut};
use prost::Message;
use quoit_wire::internode::{
    FrameKind, FramePrefix, HELLO_FRAME_BYTES_MAX, HELLO_MAGIC, Hello, InternodeDecoder,
    InternodeFrame, Refusal, append_frame, append_hello, code,
};
use std::future::Future;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// A connection that both sides have accepted.
pub(super) struct Greeted {
    pub(super) stream: Stream,
    /// Bytes that were read beyond the greeting.
    pub(super) input: BytesMut,
    /// The node at the other end.
    pub(super) newcomer: JoiningNode,
    /// The proof that the TLS handshake gave.
    pub(super) proven: PeerProof,
    /// The newest version that both sides speak.
    pub(super) version: u32,
    pub(super) lane: Lane,
    /// Bounds of the other side.
    pub(super) window: Window,
    /// Longest frame that both sides accept, in bytes.
    pub(super) frame_bytes_max: u32,
    /// Bytes of a stream that the other side accepts before it has used them.
    pub(super) stream_window_bytes: u32,
}

impl Greeted {
    fn new(
        context: &Context,
        stream: Stream,
        input: BytesMut,
        hello: &Hello,
        (version, proven): (u32, PeerProof),
    ) -> Greeted {
        Greeted {
            stream,
            input,
            newcomer: newcomer(hello),
            proven,
            version,
            lane: Lane::from_number(hello.lane),
            window: Window { bytes: hello.window_bytes, calls: hello.window_calls },
            frame_bytes_max: context.settings.limits.frame_bytes_max.min(hello.frame_bytes_max),
            stream_window_bytes: hello.stream_window_bytes,
        }
    }
}

/// The node to dial.
#[derive(Clone, Copy)]
pub(super) enum DialTarget<'a> {
    /// A member, dialed as a member.
    Member(NodeId),
    /// The same, but only with TLS.
    MemberByTls(NodeId),
    /// Any node at the address, dialed as a guest; optionally with a proof for nodes without a
    /// certificate.
    Anyone(Option<&'a JoinProof>),
}

impl DialTarget<'_> {
    /// Returns the member that must answer.
    const fn member(self) -> Option<NodeId> {
        match self {
            DialTarget::Member(expected) | DialTarget::MemberByTls(expected) => Some(expected),
            DialTarget::Anyone(_) => None,
        }
    }
}

/// Connects to `address`, with TLS as the mode says.
async fn connect(
    context: &Context,
    address: &str,
    whom: DialTarget<'_>,
) -> Result<(Stream, PeerProof), Fault> {
    let (limits, security) = (&context.settings.limits, &context.settings.security);
    let proof = match whom {
        DialTarget::Member(_) | DialTarget::MemberByTls(_) => None,
        DialTarget::Anyone(proof) => proof,
    };
    let (config, may_be_plain) = match (security.dialing(proof)?, whom) {
        ((None, _), DialTarget::MemberByTls(_)) => return Err(Fault::NoTls),
        ((config, _), DialTarget::MemberByTls(_)) => (config, false),
        (dialing, _) => dialing,
    };
    let mut reason = None;
    if let Some(config) = config {
        let stream = connect_plain(context, address).await?;
        let handshake = secured(config, stream);
        match within(limits.greeting_timeout, "handshake", handshake).await {
            Ok((stream, proven)) => return Ok((stream, checked(address, whom, proven)?)),
            Err(fault) if !may_be_plain => return Err(fault),
            Err(fault) => reason = Some(fault.to_string()),
        }
    }
    let stream = connect_plain(context, address).await?;
    security.note_dialed_plain(address, reason);
    Ok((stream, PeerProof::Nothing))
}

async fn connect_plain(context: &Context, address: &str) -> Result<Stream, Fault> {
    let connecting = async { Ok(context.network.connect(address).await?) };
    within(context.settings.limits.connect_timeout, "connection", connecting).await
}

/// Refuses the certificate of another member than the dialed one.
fn checked(address: &str, whom: DialTarget<'_>, proven: PeerProof) -> Result<PeerProof, Fault> {
    if let (Some(expected), PeerProof::Node(found)) = (whom.member(), proven)
        && found != expected
    {
        return Err(Fault::OtherNode { address: address.to_owned(), found, expected });
    }
    Ok(proven)
}

/// Dials `address` and exchanges greetings.
pub(super) async fn dial(
    context: &Context,
    address: &str,
    lane: Lane,
    whom: DialTarget<'_>,
) -> Result<Greeted, Fault> {
    let limits = &context.settings.limits;
    let (mut stream, proven) = connect(context, address, whom).await?;
    let expected = whom.member();
    let mut hello = context.hello(lane);
    hello.guest = expected.is_none();
    if let Some(expected) = expected {
        hello.expected_node_id = Bytes::copy_from_slice(&expected.0);
    }
    let mut input = BytesMut::new();
    let greeting = async {
        let mut bytes = Vec::new();
        append_hello(&mut bytes, &hello)?;
        stream.writer.write_all(&bytes).await?;
        stream.writer.flush().await?;
        let decoder = InternodeDecoder::new(HELLO_FRAME_BYTES_MAX);
        let frame = read_frame(&mut stream.reader, &mut input, decoder).await?;
        if frame.prefix.kind == FrameKind::Refusal as u8 {
            let Refusal { code, text } = Refusal::decode(frame.header).unwrap_or_default();
            return Err(Fault::Refused { code, text });
        }
        Ok(Hello::from_frame(frame)?)
    };
    let theirs = within(limits.greeting_timeout, "greeting", greeting).await?;
    let ours = context.settings.versions;
    let Some(version) = ours.common(theirs.versions()) else {
        return Err(Fault::Version { theirs: theirs.versions(), ours });
    };
    let found = node_id(&theirs.node_id);
    let expected = match proven {
        PeerProof::Node(proven) => Some(proven),
        _ => expected,
    };
    if let Some(expected) = expected.filter(|&expected| expected != found) {
        return Err(Fault::OtherNode { address: address.to_owned(), found, expected });
    }
    if let Some(complaint) = clock_complaint(context, &theirs) {
        return Err(Fault::Clock(complaint));
    }
    if let Err(fault) = check_versions(context, &newcomer(&theirs)) {
        return Err(Fault::Outdated(fault.to_string()));
    }
    Ok(Greeted::new(context, stream, input, &theirs, (version, proven)))
}

/// Exchanges greetings with a node that has connected. A refusal is sent before it is returned.
pub(super) async fn receive(
    context: &Context,
    stream: Stream,
    remote: &str,
) -> Result<Greeted, Fault> {
    let limits = &context.settings.limits;
    let securing = context.settings.security.accept(stream, remote);
    let (mut stream, proven) = within(limits.greeting_timeout, "handshake", securing).await?;
    let mut input = BytesMut::new();
    let greeting = async {
        let decoder = InternodeDecoder::new(HELLO_FRAME_BYTES_MAX);
        let frame = read_frame(&mut stream.reader, &mut input, decoder).await?;
        let theirs = Hello::from_frame(frame)?;
        let mut bytes = Vec::new();
        let verdict = check_proof(context, proven, &theirs).and_then(|()| check(context, &theirs));
        match &verdict {
            Ok(_) => {
                let lane = Lane::from_number(theirs.lane);
                append_hello(&mut bytes, &context.hello(lane))?;
            }
            Err(refusal) => {
                let prefix = FramePrefix::new(FrameKind::Refusal, HELLO_MAGIC);
                append_frame(&mut bytes, prefix, refusal, b"")?;
            }
        }
        stream.writer.write_all(&bytes).await?;
        stream.writer.flush().await?;
        match verdict {
            Ok(version) => Ok((theirs, version)),
            Err(Refusal { code, text }) => {
                stream.writer.shutdown().await?;
                Err(Fault::Refused { code, text })
            }
        }
    };
    let (theirs, version) = within(limits.greeting_timeout, "greeting", greeting).await?;
    Ok(Greeted::new(context, stream, input, &theirs, (version, proven)))
}

/// Checks that a greeting fits the proof of its connection.
fn check_proof(context: &Context, proven: PeerProof, theirs: &Hello) -> Result<(), Refusal> {
    let text = match proven {
        PeerProof::Nothing => return Ok(()),
        PeerProof::Node(node) if theirs.node_id == node.0[..] => return Ok(()),
        PeerProof::Node(node) => format!(
            "the certificate is that of node {node}, and the greeting that of {} ({})",
            node_id(&theirs.node_id),
            theirs.node_name
        ),
        PeerProof::Token(_) | PeerProof::Secret if theirs.guest => return Ok(()),
        PeerProof::Token(_) | PeerProof::Secret => format!(
            "{} has no certificate of this cluster: it has to join {} by its token first",
            theirs.node_name, context.settings.node_name
        ),
    };
    Err(Refusal { code: code::NOT_ADMITTED, text })
}

/// Checks whether the node with the greeting `theirs` may connect. Returns the version to speak
/// with it, or the refusal.
fn check(context: &Context, theirs: &Hello) -> Result<u32, Refusal> {
    let refusal = |code, text: String| Err(Refusal { code, text });
    let name = &theirs.node_name;
    let ours = context.settings.versions;
    let Some(version) = ours.common(theirs.versions()) else {
        let text = format!(
            "{name} speaks versions {} of the protocol between nodes, {} speaks {ours}; \
             upgrade the older one",
            theirs.versions(),
            context.settings.node_name,
        );
        return refusal(code::VERSION, text);
    };
    if context.inbounds.is_stopping() {
        return refusal(code::STOPPING, format!("{} is stopping", context.settings.node_name));
    }
    let newcomer = newcomer(theirs);
    context.check_identity(&newcomer)?;
    if let Some(complaint) = clock_complaint(context, theirs) {
        return refusal(code::CLOCK, complaint);
    }
    let own_id = context.settings.node_id;
    if !theirs.guest {
        if theirs.expected_node_id != own_id.0[..] {
            let text = format!(
                "this is {own_id} ({}), not {}: the address of that node has changed, or it has lost its \
                 data directory and is another node now. In that case let it join under another name and \
                 replace its old self: `cluster force-replace OLD-NAME NEW-NAME`",
                context.settings.node_name,
                node_id(&theirs.expected_node_id),
            );
            return refusal(code::NOT_ME, text);
        }
        let own_cluster = context.identity.read().cluster_id;
        if own_cluster.is_none_or(|own| theirs.cluster_id != own.0[..]) {
            let text = format!(
                "{name} belongs to another cluster than {}; join it first",
                context.settings.node_name
            );
            return refusal(code::CLUSTER, text);
        }
    }
    // This check comes last: only a member of the same cluster may be told that a node is too old for the
    // cluster.
    if let Err(fault) = check_versions(context, &newcomer) {
        return refusal(code::OUTDATED, fault.to_string());
    }
    let admission = context.admission.read().clone();
    match admission.map_or(Ok(()), |admission| admission.admit(&newcomer)) {
        Ok(()) => Ok(version),
        // Refused like a node of another cluster: a node that has just joined may not be known yet, so the
        // dialer logs this code only if it lasts.
        Err(NotAdmitted::Unknown(text)) => refusal(code::CLUSTER, text),
        Err(NotAdmitted::KeptOut(text)) => refusal(code::NOT_ADMITTED, text),
    }
}

fn check_versions(context: &Context, other: &JoiningNode) -> Result<(), NotAdmitted> {
    let admission = context.admission.read().clone();
    admission.map_or(Ok(()), |admission| admission.check_versions(other))
}

fn clock_complaint(context: &Context, theirs: &Hello) -> Option<String> {
    let own = &context.settings;
    let own_us = own.clock.as_ref().map(|clock| clock.0.unix_us());
    let peer = NodeTime::told(&theirs.node_name, theirs.unix_us);
    NodeTime { name: &own.node_name, unix_us: own_us }.complaint_about(&peer)
}

fn newcomer(hello: &Hello) -> JoiningNode {
    JoiningNode {
        node_id: node_id(&hello.node_id),
        node_name: hello.node_name.clone(),
        boot_id: hello.boot_id,
        address: hello.address.clone(),
        versions: hello.versions(),
        is_guest: hello.guest,
    }
}

/// Returns an identity whose length was checked; zeros if it is absent.
fn node_id(bytes: &[u8]) -> NodeId {
    NodeId(bytes.try_into().unwrap_or_default())
}

/// Reads one frame. Bytes that follow it may be left in `input`.
pub(super) async fn read_frame(
    reader: &mut (dyn AsyncRead + Send + Unpin),
    input: &mut BytesMut,
    decoder: InternodeDecoder,
) -> Result<InternodeFrame, Fault> {
    loop {
        if let Some(frame) = decoder.next_frame(input)? {
            return Ok(frame);
        }
        input.reserve(super::read_room(decoder, input));
        if reader.read_buf(input).await? == 0 {
            return Err(Fault::Closed);
        }
    }
}

async fn within<T>(
    limit: Duration,
    what: &'static str,
    future: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    match timeout(limit, future).await {
        Ok(result) => result,
        Err(_) => Err(Fault::timeout(what, limit)),
    }
}
