//! Encoding of changes as messages of the log, and of the rows of the control file.

use crate::change::{Change, Decision};
use crate::id_bytes::{id_bytes, node_id};
use crate::members::{Addresses, Member, MemberStatus};
use crate::state::cluster_codec::{
    decode_copies, decode_layout, decode_served, decode_staged, encode_copies, encode_served,
    encode_staged,
};
use crate::trust::{decode_trust, encode_trust};
use bytes::Bytes;
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE};
use quoit_model::props::{BucketProps, BucketType, TypeState};
use quoit_wire::internode::control::{
    ChangeMessage, Decision as DecisionMessage, Empty, LayoutMessage, MemberMessage, MemberRemoval,
    MemberStatusMessage, NodeLoss, PropsMessage, Rule,
};
use quoit_wire::internode::{VERSION_MIN, VersionRange};
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub(crate) fn encode_decision(decision: &Decision) -> DecisionMessage {
    DecisionMessage {
        base: decision.base,
        changes: decision.changes.iter().map(encode_change).collect(),
    }
}

pub(crate) fn decode_decision(message: &DecisionMessage) -> Result<Decision, String> {
    let changes = message.changes.iter().map(decode_change).collect::<Result<_, _>>()?;
    Ok(Decision { base: message.base, changes })
}

pub(crate) fn encode_change(change: &Change) -> ChangeMessage {
    let bytes = |name: &Arc<[u8]>| Bytes::copy_from_slice(name);
    let mut message = ChangeMessage::default();
    match change {
        Change::PutType { name, bucket_type } => {
            let json = encode_type(bucket_type);
            message.put_type =
                Some(PropsMessage { bucket_type: bytes(name), bucket: Bytes::new(), json });
        }
        Change::PutBucket { bucket_type, bucket, props } => {
            let (bucket_type, bucket) = (bytes(bucket_type), bytes(bucket));
            let json = encode_props(props);
            message.put_bucket = Some(PropsMessage { bucket_type, bucket, json });
        }
        Change::RemoveBucket { bucket_type, bucket } => {
            let (bucket_type, bucket) = (bytes(bucket_type), bytes(bucket));
            message.remove_bucket = Some(PropsMessage { bucket_type, bucket, json: String::new() });
        }
        Change::PutMember(member) => message.put_member = Some(encode_member(member)),
        Change::RemoveMember { id, for_ever } => {
            message.remove_member = Some(MemberRemoval { id: id_bytes(*id), for_ever: *for_ever });
        }
        Change::Stage { staged } => message.stage = Some(encode_staged(staged)),
        Change::PutLayout { layout, n_vals } => {
            let layout = Bytes::from(layout.encode());
            let (n_val, smaller) = n_vals.split_last().unwrap_or((&1, &[]));
            let smaller_n_vals = smaller.to_vec();
            message.put_layout = Some(LayoutMessage { layout, n_val: *n_val, smaller_n_vals });
        }
        Change::Copied { node, partitions } => {
            message.copied = Some(encode_copies(*node, partitions));
        }
        Change::Lost { node, n_vals } => {
            message.lost = Some(NodeLoss { node: id_bytes(*node), n_vals: n_vals.clone() });
        }
        Change::AcceptLosses => message.accept_losses = Some(Empty {}),
        Change::PutTrust(trust) => message.put_trust = Some(encode_trust(trust)),
        Change::ServedLayouts { node, served } => {
            message.serves = Some(encode_served(*node, *served))
        }
        Change::Rule(rule) => {
            let (key, json) = rule.encode();
            message.put_rule = Some(Rule { key, json });
        }
    }
    message
}

pub(crate) fn decode_change(message: &ChangeMessage) -> Result<Change, String> {
    if let Some(named) = &message.put_type {
        return decode_type(EncodedEntry { key: &named.bucket_type, value: named.json.as_bytes() });
    }
    if let Some(named) = &message.put_bucket {
        let bucket = BucketRef { bucket_type: &named.bucket_type, bucket: &named.bucket };
        return decode_bucket(bucket, named.json.as_bytes());
    }
    if let Some(named) = &message.remove_bucket {
        let bucket_type = named.bucket_type[..].into();
        return Ok(Change::RemoveBucket { bucket_type, bucket: named.bucket[..].into() });
    }
    if let Some(member) = &message.put_member {
        return Ok(Change::PutMember(Arc::new(decode_member(member)?)));
    }
    if let Some(MemberRemoval { id, for_ever }) = &message.remove_member {
        return Ok(Change::RemoveMember { id: node_id(id)?, for_ever: *for_ever });
    }
    if let Some(staged) = &message.stage {
        return Ok(Change::Stage { staged: decode_staged(staged)? });
    }
    if let Some(LayoutMessage { layout, n_val, smaller_n_vals }) = &message.put_layout {
        let n_vals = smaller_n_vals.iter().chain([n_val]).copied().collect();
        return Ok(Change::PutLayout { layout: decode_layout(layout)?, n_vals });
    }
    if let Some(copies) = &message.copied {
        let (node, partitions) = decode_copies(copies)?;
        return Ok(Change::Copied { node, partitions });
    }
    if let Some(NodeLoss { node, n_vals }) = &message.lost {
        return Ok(Change::Lost { node: node_id(node)?, n_vals: n_vals.clone() });
    }
    if let Some(Empty {}) = &message.accept_losses {
        return Ok(Change::AcceptLosses);
    }
    if let Some(trust) = &message.put_trust {
        return Ok(Change::PutTrust(Arc::new(decode_trust(trust)?)));
    }
    if let Some(serves) = &message.serves {
        let (node, served) = decode_served(serves)?;
        return Ok(Change::ServedLayouts { node, served });
    }
    if let Some(Rule { key, json }) = &message.put_rule {
        return decode_rule(key, json.as_deref());
    }
    Err("a change is of a kind that only newer versions know; upgrade this node".to_owned())
}

pub(crate) fn encode_member(member: &Member) -> MemberMessage {
    let status = match member.status {
        MemberStatus::Joining => MemberStatusMessage::Joining,
        MemberStatus::Valid if member.is_down => MemberStatusMessage::Down,
        MemberStatus::Valid => MemberStatusMessage::Valid,
        MemberStatus::Leaving => MemberStatusMessage::Leaving,
        MemberStatus::Exiting => MemberStatusMessage::Exiting,
    };
    MemberMessage {
        id: Bytes::copy_from_slice(&member.id.0),
        name: member.name.to_string(),
        node_address: member.addresses.node.to_string(),
        pb_address: member.addresses.pb.to_string(),
        http_address: member.addresses.http.to_string(),
        status: status.into(),
        location: member.location.as_deref().unwrap_or_default().to_owned(),
        capacity: member.capacity,
        version_min: member.versions.min,
        version_max: member.versions.max,
        is_down: member.is_down && member.status != MemberStatus::Valid,
    }
}

pub(crate) fn decode_member(message: &MemberMessage) -> Result<Member, String> {
    let text = |text: &str| Arc::from(text);
    let status = match message.status() {
        MemberStatusMessage::None => {
            return Err(format!("member {} has no status", message.name));
        }
        MemberStatusMessage::Joining => MemberStatus::Joining,
        MemberStatusMessage::Valid | MemberStatusMessage::Down => MemberStatus::Valid,
        MemberStatusMessage::Leaving => MemberStatus::Leaving,
        MemberStatusMessage::Exiting => MemberStatus::Exiting,
    };
    Ok(Member {
        id: node_id(&message.id)?,
        name: text(&message.name),
        addresses: Addresses {
            node: text(&message.node_address),
            pb: text(&message.pb_address),
            http: text(&message.http_address),
        },
        status,
        is_down: message.is_down || message.status() == MemberStatusMessage::Down,
        location: (!message.location.is_empty()).then(|| text(&message.location)),
        capacity: message.capacity,
        // Control files of the first builds have no versions; the fields read as 0.
        versions: VersionRange {
            min: message.version_min.max(VERSION_MIN),
            max: message.version_max.max(VERSION_MIN),
        },
    })
}

/// Decodes a rule of security. Without `json` the rule is removed.
pub(crate) fn decode_rule(key: &str, json: Option<&str>) -> Result<Change, String> {
    let rule = quoit_security::Change::decode(key, json).map_err(|fault| fault.to_string())?;
    Ok(Change::Rule(rule))
}

/// Encodes the state and the properties of a bucket type as JSON.
pub(crate) fn encode_type(bucket_type: &BucketType) -> String {
    json!({"state": bucket_type.state.as_str(), "props": bucket_type.props.to_json()}).to_string()
}

/// Encodes the properties of a bucket as JSON.
pub(crate) fn encode_props(props: &BucketProps) -> String {
    Value::Object(props.to_json()).to_string()
}

/// Key and value of a row of the control file, or of the same part of a message.
#[derive(Clone, Copy)]
pub(crate) struct EncodedEntry<'e> {
    pub(crate) key: &'e [u8],
    pub(crate) value: &'e [u8],
}

/// Decodes a bucket type: its name, and its state and properties as JSON.
pub(crate) fn decode_type(entry: EncodedEntry<'_>) -> Result<Change, String> {
    let EncodedEntry { key: name, value: json } = entry;
    let shown = String::from_utf8_lossy(name);
    let object = decode_object(json).map_err(|error| format!("bucket type {shown}: {error}"))?;
    let state = object
        .get("state")
        .and_then(Value::as_str)
        .and_then(TypeState::from_stored)
        .ok_or_else(|| format!("bucket type {shown} has no state"))?;
    let props = object
        .get("props")
        .and_then(Value::as_object)
        .ok_or_else(|| format!("bucket type {shown} has no properties"))?;
    let props = BucketProps::typed_from_json(props)
        .map_err(|error| format!("bucket type {shown}: {error}"))?;
    let bucket_type = BucketType { state, props: Arc::new(props) };
    Ok(Change::PutType { name: name.into(), bucket_type })
}

pub(crate) fn decode_bucket(bucket: BucketRef<'_>, json: &[u8]) -> Result<Change, String> {
    let BucketRef { bucket_type, bucket } = bucket;
    let shown = || String::from_utf8_lossy(bucket);
    let object = decode_object(json).map_err(|error| format!("bucket {}: {error}", shown()))?;
    let props = if bucket_type == DEFAULT_BUCKET_TYPE {
        BucketProps::untyped_from_json(&object)
    } else {
        BucketProps::typed_from_json(&object)
    };
    let props = props.map_err(|error| format!("bucket {}: {error}", shown()))?;
    let (bucket_type, bucket) = (bucket_type.into(), bucket.into());
    Ok(Change::PutBucket { bucket_type, bucket, props: Arc::new(props) })
}

fn decode_object(json: &[u8]) -> Result<Map<String, Value>, serde_json::Error> {
    serde_json::from_slice(json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeId;

    #[test]
    fn changes_of_newer_versions_are_refused_and_not_skipped() {
        let refused = decode_change(&ChangeMessage::default()).unwrap_err();
        assert!(refused.contains("upgrade this node"), "{refused}");
    }

    #[test]
    fn members_come_back_as_they_were() {
        let member = Member {
            id: NodeId([3; 16]),
            name: "quoit@a".into(),
            addresses: Addresses { node: "a:1".into(), pb: "a:2".into(), http: "".into() },
            status: MemberStatus::Leaving,
            is_down: true,
            location: Some("rack 1".into()),
            capacity: 50,
            versions: VersionRange { min: 2, max: 7 },
        };
        assert_eq!(decode_member(&encode_member(&member)).unwrap(), member);
        let nameless = Member { location: None, status: MemberStatus::Valid, ..member };
        assert_eq!(decode_member(&encode_member(&nameless)).unwrap(), nameless);
        assert_eq!(encode_member(&nameless).status(), MemberStatusMessage::Down);
        let silent = MemberMessage { version_min: 0, version_max: 0, ..encode_member(&nameless) };
        assert_eq!(decode_member(&silent).unwrap().versions, VersionRange { min: 1, max: 1 });
    }
}
