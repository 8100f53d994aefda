//! Encodes the faults of forwarded requests, so that the sender can report them to its client as its own.

use crate::error::{DataTypeError, QuorumKind, RequestError, UnmetCondition};
use quoit_model::data_type::{ApplyError, FieldKind, FieldName, UpdateError};
use quoit_model::key::KeyError;
use quoit_model::props::{CommitHook, NValViolation};
use quoit_number::index;
use quoit_wire::internode::data::Fault;

const KEY_EMPTY_BUCKET: u32 = 1;
const KEY_EMPTY_KEY: u32 = 2;
const KEY_EMPTY_TYPE: u32 = 3;
const KEY_TOO_LARGE: u32 = 4;
const NO_SUCH_TYPE: u32 = 5;
const CONSISTENT: u32 = 6;
const N_VAL: u32 = 7;
const UNSATISFIED: u32 = 8;
const INSUFFICIENT_NODES: u32 = 9;
const INSUFFICIENT_VNODES: u32 = 10;
const ALL_NODES_DOWN: u32 = 11;
const UNMET: u32 = 12;
const CONTEXT: u32 = 13;
const VETOED: u32 = 14;
const TOO_LARGE: u32 = 15;
const TOO_MANY_SIBLINGS: u32 = 16;
const TIMEOUT: u32 = 17;
const OVERLOAD: u32 = 18;
const NO_SUCH_ELEMENT: u32 = 19;
const NO_SUCH_FIELD: u32 = 20;
const DATA_TYPE: u32 = 21;
const INSUFFICIENT_COVERAGE: u32 = 22;
const HOOK_NOT_RUN: u32 = 23;
/// Any other fault, of which only the text is sent.
const OTHER: u32 = 0;

const KINDS: [QuorumKind; 6] = [
    QuorumKind::R,
    QuorumKind::Pr,
    QuorumKind::W,
    QuorumKind::Dw,
    QuorumKind::Pw,
    QuorumKind::NodeConfirms,
];
const UNMETS: [UnmetCondition; 4] = [
    UnmetCondition::Exists,
    UnmetCondition::Modified,
    UnmetCondition::Missing,
    UnmetCondition::Http,
];

/// Encodes a fault as a number, the numbers that belong to it, and its text.
pub(super) fn encode(fault: &RequestError) -> Fault {
    let place = |found: Option<usize>| found.unwrap_or_default() as u64;
    let bytes = |bytes: &[u8]| -> Vec<u64> { bytes.iter().map(|byte| u64::from(*byte)).collect() };
    let (kind, numbers, text) = match fault {
        RequestError::Key(KeyError::EmptyBucket) => (KEY_EMPTY_BUCKET, vec![], String::new()),
        RequestError::Key(KeyError::EmptyKey) => (KEY_EMPTY_KEY, vec![], String::new()),
        RequestError::Key(KeyError::EmptyBucketType) => (KEY_EMPTY_TYPE, vec![], String::new()),
        RequestError::Key(KeyError::TooLarge { size_bytes }) => {
            (KEY_TOO_LARGE, vec![*size_bytes as u64], String::new())
        }
        RequestError::NoSuchType(name) => (NO_SUCH_TYPE, bytes(name), String::new()),
        RequestError::Consistent(name) => (CONSISTENT, bytes(name), String::new()),
        RequestError::NVal(fault) => (N_VAL, vec![u64::from(fault.n_val)], String::new()),
        RequestError::Unsatisfied { kind, wanted, got } => {
            let kind = place(KINDS.iter().position(|known| known == kind));
            (UNSATISFIED, vec![kind, u64::from(*wanted), u64::from(*got)], String::new())
        }
        RequestError::InsufficientNodes { have, wanted } => {
            (INSUFFICIENT_NODES, vec![u64::from(*have), u64::from(*wanted)], String::new())
        }
        RequestError::InsufficientVnodes { have, wanted } => {
            (INSUFFICIENT_VNODES, vec![u64::from(*have), u64::from(*wanted)], String::new())
        }
        RequestError::InsufficientCoverage => (INSUFFICIENT_COVERAGE, vec![], String::new()),
        RequestError::AllNodesDown => (ALL_NODES_DOWN, vec![], String::new()),
        RequestError::Unmet(unmet) => {
            (UNMET, vec![place(UNMETS.iter().position(|known| known == unmet))], String::new())
        }
        RequestError::Context(_) | RequestError::RemoteContext(_) => {
            (CONTEXT, vec![], fault.to_string())
        }
        RequestError::DataType(DataTypeError::Update(UpdateError::Apply(
            ApplyError::NoSuchElement { element },
        ))) => (NO_SUCH_ELEMENT, bytes(element), String::new()),
        RequestError::DataType(DataTypeError::Update(UpdateError::Apply(
            ApplyError::NoSuchField { field },
        ))) => {
            let kind = place(FieldKind::ALL.iter().position(|kind| *kind == field.kind));
            let name = bytes(&field.name);
            (NO_SUCH_FIELD, std::iter::once(kind).chain(name).collect(), String::new())
        }
        RequestError::DataType(_) | RequestError::RemoteDataType(_) => {
            (DATA_TYPE, vec![], fault.to_string())
        }
        RequestError::Vetoed(text) | RequestError::Precommit(text) => {
            (VETOED, vec![], text.clone())
        }
        RequestError::HookNotRun(hook) => (HOOK_NOT_RUN, vec![], hook.to_json().to_string()),
        RequestError::ObjectTooLarge { size_bytes } => {
            (TOO_LARGE, vec![*size_bytes], String::new())
        }
        RequestError::TooManySiblings(count) => {
            (TOO_MANY_SIBLINGS, vec![u64::from(*count)], String::new())
        }
        RequestError::Timeout => (TIMEOUT, vec![], String::new()),
        RequestError::Overload => (OVERLOAD, vec![], String::new()),
        RequestError::Key(KeyError::Torn)
        | RequestError::Store(_)
        | RequestError::Damaged(_)
        | RequestError::Remote(_) => (OTHER, vec![], fault.to_string()),
    };
    Fault { kind, numbers, text }
}

/// Decodes a fault. A kind that this release does not know, and numbers that do not fit their kind, become
/// [`RequestError::Remote`] with the fault's text.
pub(super) fn decode(fault: &Fault) -> RequestError {
    let number = |place: usize| fault.numbers.get(place).copied().unwrap_or_default();
    let count = |place: usize| u32::try_from(number(place)).unwrap_or(u32::MAX);
    let bytes = || -> Option<Vec<u8>> {
        fault.numbers.iter().map(|number| u8::try_from(*number).ok()).collect()
    };
    let apply =
        |fault: ApplyError| RequestError::from(DataTypeError::from(UpdateError::from(fault)));
    let known = match fault.kind {
        KEY_EMPTY_BUCKET => Some(KeyError::EmptyBucket.into()),
        KEY_EMPTY_KEY => Some(KeyError::EmptyKey.into()),
        KEY_EMPTY_TYPE => Some(KeyError::EmptyBucketType.into()),
        KEY_TOO_LARGE => Some(KeyError::TooLarge { size_bytes: index(number(0)) }.into()),
        NO_SUCH_TYPE => bytes().map(RequestError::NoSuchType),
        CONSISTENT => bytes().map(RequestError::Consistent),
        N_VAL => Some(NValViolation { n_val: count(0) }.into()),
        UNSATISFIED => KINDS.get(index(number(0))).map(|kind| RequestError::Unsatisfied {
            kind: *kind,
            wanted: count(1),
            got: count(2),
        }),
        INSUFFICIENT_NODES => {
            Some(RequestError::InsufficientNodes { have: count(0), wanted: count(1) })
        }
        INSUFFICIENT_VNODES => {
            Some(RequestError::InsufficientVnodes { have: count(0), wanted: count(1) })
        }
        INSUFFICIENT_COVERAGE => Some(RequestError::InsufficientCoverage),
        ALL_NODES_DOWN => Some(RequestError::AllNodesDown),
        UNMET => UNMETS.get(index(number(0))).map(|unmet| RequestError::Unmet(*unmet)),
        CONTEXT => Some(RequestError::RemoteContext(fault.text.clone())),
        NO_SUCH_ELEMENT => {
            bytes().map(|element| apply(ApplyError::NoSuchElement { element: element.into() }))
        }
        NO_SUCH_FIELD => FieldKind::ALL.get(index(number(0))).zip(bytes()).map(|(kind, bytes)| {
            let name: Vec<u8> = bytes.into_iter().skip(1).collect();
            let field = FieldName::new(name, *kind);
            apply(ApplyError::NoSuchField { field })
        }),
        DATA_TYPE => Some(RequestError::RemoteDataType(fault.text.clone())),
        VETOED => Some(RequestError::Vetoed(fault.text.clone())),
        HOOK_NOT_RUN => serde_json::from_str(&fault.text)
            .ok()
            .and_then(|hook| CommitHook::from_json(&hook))
            .map(RequestError::HookNotRun),
        TOO_LARGE => Some(RequestError::ObjectTooLarge { size_bytes: number(0) }),
        TOO_MANY_SIBLINGS => Some(RequestError::TooManySiblings(count(0))),
        TIMEOUT => Some(RequestError::Timeout),
        OVERLOAD => Some(RequestError::Overload),
        _ => None,
    };
    known.unwrap_or_else(|| RequestError::Remote(fault.text.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_no_bytes_make_no_name() {
        let fault = Fault { kind: NO_SUCH_TYPE, numbers: vec![0x174], text: "odd".to_owned() };
        assert!(matches!(decode(&fault), RequestError::Remote(text) if text == "odd"));
    }

    #[test]
    fn faults_say_the_same_on_the_other_side() {
        let mut faults = vec![
            RequestError::Key(KeyError::EmptyBucket),
            RequestError::Key(KeyError::EmptyKey),
            RequestError::Key(KeyError::EmptyBucketType),
            RequestError::Key(KeyError::TooLarge { size_bytes: 70_000 }),
            RequestError::NoSuchType(b"t\xff".to_vec()),
            RequestError::Consistent(b"c".to_vec()),
            RequestError::NVal(NValViolation { n_val: 3 }),
            RequestError::InsufficientNodes { have: 1, wanted: 2 },
            RequestError::InsufficientVnodes { have: 1, wanted: 2 },
            RequestError::InsufficientCoverage,
            RequestError::AllNodesDown,
            RequestError::RemoteContext("not a context".to_owned()),
            RequestError::Vetoed("no".to_owned()),
            RequestError::HookNotRun(CommitHook::JavaScript("Js.hook".to_owned())),
            RequestError::RemoteDataType("another type".to_owned()),
            RequestError::ObjectTooLarge { size_bytes: 9 },
            RequestError::TooManySiblings(101),
            RequestError::Timeout,
            RequestError::Overload,
            RequestError::Remote("disk full".to_owned()),
        ];
        let unsatisfied = |kind| RequestError::Unsatisfied { kind, wanted: 3, got: 1 };
        faults.extend(KINDS.map(unsatisfied));
        faults.extend(UNMETS.map(RequestError::Unmet));
        let missing = FieldKind::ALL
            .map(|kind| ApplyError::NoSuchField { field: FieldName::new(&b"f\xff"[..], kind) });
        let missing =
            missing.into_iter().chain([ApplyError::NoSuchElement { element: "e".into() }]);
        faults.extend(missing.map(|fault| DataTypeError::from(UpdateError::from(fault)).into()));
        for fault in faults {
            let back = decode(&encode(&fault));
            assert_eq!(format!("{back:?}"), format!("{fault:?}"));
        }
        let storage = RequestError::Damaged("cut off".to_owned());
        assert_eq!(decode(&encode(&storage)).to_string(), storage.to_string());
    }

    #[test]
    fn unknown_faults_keep_their_text() {
        let fault = Fault { kind: 999, numbers: vec![], text: "new".to_owned() };
        assert!(matches!(decode(&fault), RequestError::Remote(text) if text == "new"));
        let strange = Fault { kind: UNSATISFIED, numbers: vec![77], text: "odd".to_owned() };
        assert!(matches!(decode(&strange), RequestError::Remote(text) if text == "odd"));
    }

    #[test]
    fn faults_that_say_too_little_are_faults_all_the_same() {
        for kind in 0..64 {
            for numbers in [vec![], vec![1], vec![u64::MAX; 3]] {
                let fault = Fault { kind, numbers, text: "a fault".to_owned() };
                assert!(!decode(&fault).to_string().is_empty(), "{fault:?}");
            }
        }
    }
}
