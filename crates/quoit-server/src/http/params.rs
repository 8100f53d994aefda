//! Query parameters of object requests.

use super::uri;
use quoit_core::{ReadOptions, WriteOptions};
use quoit_model::props::{Quorum, SyncOnWrite};

/// Parameters of an object request in its query string.
#[derive(Clone, Debug, Default)]
pub struct ObjectParams {
    r: Option<Quorum>,
    w: Option<Quorum>,
    dw: Option<Quorum>,
    rw: Option<Quorum>,
    pw: Option<Quorum>,
    node_confirms: Option<Quorum>,
    pr: Option<Quorum>,
    sync_on_write: Option<SyncOnWrite>,
    basic_quorum: Option<bool>,
    notfound_ok: Option<bool>,
    timeout_ms: Option<u32>,
    /// Store the value with the given version vector unchanged.
    pub as_is: bool,
    /// Answer a write with the object.
    pub return_body: bool,
    /// The tag of the wanted sibling.
    pub vtag: Option<Vec<u8>>,
}

/// Parameters as they are in the query, the first of each name.
#[derive(Default)]
struct Raw<'q> {
    values: [Option<std::borrow::Cow<'q, [u8]>>; NAMES.len()],
}

/// Names in the order in which faults are reported.
const NAMES: [&str; 14] = [
    "timeout",
    "r",
    "w",
    "dw",
    "rw",
    "pw",
    "node_confirms",
    "pr",
    "sync_on_write",
    "basic_quorum",
    "notfound_ok",
    "asis",
    "returnbody",
    "vtag",
];

impl<'q> Raw<'q> {
    fn of(query: &'q [u8]) -> Self {
        let mut raw = Self::default();
        for (name, value) in uri::query_pairs(query) {
            let mut known = raw.values.iter_mut().zip(&NAMES);
            if let Some((first, _)) = known.find(|(_, known)| *known.as_bytes() == *name) {
                first.get_or_insert(value);
            }
        }
        raw
    }

    fn get(&self, name: &str) -> Option<&[u8]> {
        let (value, _) = self.values.iter().zip(&NAMES).find(|(_, known)| **known == name)?;
        value.as_deref()
    }
}

impl ObjectParams {
    /// Parses a query string. Unknown parameters are ignored.
    ///
    /// # Errors
    ///
    /// The text for the client.
    pub fn parse(query: &[u8]) -> Result<Self, String> {
        if query.is_empty() {
            return Ok(Self::default());
        }
        let raw = Raw::of(query);
        let mut faults = String::new();
        let timeout_ms = raw.get("timeout").map(parse_timeout).transpose()?;
        let mut quorum = |name| {
            raw.get(name).and_then(|text| {
                parse_quorum(text).unwrap_or_else(|| {
                    faults.push_str(&format!(
                        "{name} query parameter must be an integer or one of the following words: \
                         'one', 'quorum' or 'all'\n"
                    ));
                    None
                })
            })
        };
        let mut params = Self {
            r: quorum("r"),
            w: quorum("w"),
            dw: quorum("dw"),
            rw: quorum("rw"),
            pw: quorum("pw"),
            node_confirms: quorum("node_confirms"),
            pr: quorum("pr"),
            timeout_ms,
            ..Self::default()
        };
        if let Some(text) = raw.get("sync_on_write") {
            match parse_sync(text) {
                Some(mode) => params.sync_on_write = mode,
                None => faults.push_str(
                    "sync_on_write query parameter must be one of the following words: \
                     [default,backend,one,all]\n",
                ),
            }
        }
        let mut boolean = |name| {
            raw.get(name).and_then(|text| {
                parse_boolean(text).unwrap_or_else(|| {
                    faults.push_str(&format!("{name} query parameter must be true or false\n"));
                    None
                })
            })
        };
        params.basic_quorum = boolean("basic_quorum");
        params.notfound_ok = boolean("notfound_ok");
        params.as_is = boolean("asis") == Some(true);
        params.return_body = raw.get("returnbody") == Some(b"true");
        params.vtag = raw.get("vtag").map(<[u8]>::to_vec);
        if faults.is_empty() { Ok(params) } else { Err(faults) }
    }

    /// Makes a timeout of 0 mean no timeout, as for data types.
    pub fn disable_zero_timeout(&mut self) {
        self.timeout_ms = self.timeout_ms.filter(|timeout_ms| *timeout_ms > 0);
    }

    /// The options of a read.
    pub fn read_options(&self) -> ReadOptions {
        ReadOptions {
            r: self.r,
            pr: self.pr,
            node_confirms: self.node_confirms,
            basic_quorum: self.basic_quorum,
            notfound_ok: self.notfound_ok,
            timeout_ms: self.timeout_ms,
            ..ReadOptions::default()
        }
    }

    /// The options of a write.
    pub fn write_options(&self) -> WriteOptions {
        WriteOptions {
            w: self.w,
            dw: self.dw,
            pw: self.pw,
            node_confirms: self.node_confirms,
            sync_on_write: self.sync_on_write,
            timeout_ms: self.timeout_ms,
            ..WriteOptions::default()
        }
    }

    /// The combined quorum of a delete.
    pub const fn rw(&self) -> Option<Quorum> {
        self.rw
    }
}

/// Parses a quorum. `Some(None)` stands for the bucket's property, `None` for invalid text. As in Riak, a
/// number may have a plus sign.
fn parse_quorum(text: &[u8]) -> Option<Option<Quorum>> {
    let unsigned = text.strip_prefix(b"+").unwrap_or(text);
    Some(Some(match text {
        b"default" => return Some(None),
        b"one" => Quorum::One,
        b"quorum" => Quorum::Quorum,
        b"all" => Quorum::All,
        _ if !unsigned.is_empty() && unsigned.iter().all(u8::is_ascii_digit) => {
            // A number that does not fit is larger than any n_val, so the store refuses it for that reason.
            let number = std::str::from_utf8(unsigned).ok()?.parse().unwrap_or(u32::MAX);
            Quorum::Count(number)
        }
        _ => return None,
    }))
}

fn parse_boolean(text: &[u8]) -> Option<Option<bool>> {
    match text.to_ascii_lowercase().as_slice() {
        b"true" => Some(Some(true)),
        b"false" => Some(Some(false)),
        b"default" => Some(None),
        _ => None,
    }
}

fn parse_sync(text: &[u8]) -> Option<Option<SyncOnWrite>> {
    match text.to_ascii_lowercase().as_slice() {
        b"default" => Some(None),
        b"backend" => Some(Some(SyncOnWrite::Backend)),
        b"one" => Some(Some(SyncOnWrite::One)),
        b"all" => Some(Some(SyncOnWrite::All)),
        _ => None,
    }
}

/// Parses a timeout in milliseconds, also one with a plus sign, as Riak does. A number that does not fit
/// saturates at `u32::MAX`.
///
/// # Errors
///
/// The text for the client.
pub fn parse_timeout(text: &[u8]) -> Result<u32, String> {
    let unsigned = text.strip_prefix(b"+").unwrap_or(text);
    if !unsigned.is_empty() && unsigned.iter().all(u8::is_ascii_digit) {
        let number = std::str::from_utf8(unsigned).ok().and_then(|digits| digits.parse().ok());
        return Ok(number.unwrap_or(u32::MAX));
    }
    Err(format!("Bad timeout value {}\n", erlang_string(text)))
}

/// Prints text as Erlang prints a string: quoted, or as a list of its bytes.
pub fn erlang_string(text: &[u8]) -> String {
    let printed = crate::erlang_text::binary(text);
    let inner = printed.trim_start_matches("<<").trim_end_matches(">>");
    if inner.starts_with('"') { inner.to_owned() } else { format!("[{inner}]") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(query: &str) -> String {
        ObjectParams::parse(query.as_bytes()).expect_err("a fault")
    }

    #[test]
    fn quorums_are_words_or_numbers() {
        let params =
            ObjectParams::parse(b"r=one&w=quorum&dw=all&pr=0&pw=3&rw=default").expect("ok");
        assert_eq!(params.r, Some(Quorum::One));
        assert_eq!(params.w, Some(Quorum::Quorum));
        assert_eq!(params.dw, Some(Quorum::All));
        assert_eq!(params.pr, Some(Quorum::Count(0)));
        assert_eq!(params.pw, Some(Quorum::Count(3)));
        assert_eq!(params.rw, None);
    }

    #[test]
    fn the_number_of_a_quorum_may_have_a_plus_sign() {
        let params = ObjectParams::parse(b"r=%2B2&pw=%2B99999999999").expect("ok");
        assert_eq!(params.r, Some(Quorum::Count(2)));
        assert_eq!(params.pw, Some(Quorum::Count(u32::MAX)));
    }

    #[test]
    fn a_bad_quorum_is_named() {
        for value in ["x", "ONE", "1.5", "", "-1", "%2B", "%2B%2B2", "%2B-2", "%2Bone"] {
            let expected = "pr query parameter must be an integer or one of the following words: \
                            'one', 'quorum' or 'all'\n";
            assert_eq!(fault(&format!("pr={value}")), expected);
        }
        let both = fault("pr=x&dw=y");
        assert!(both.starts_with("dw ") && both.contains("\npr "), "all are named: {both}");
    }

    #[test]
    fn booleans_have_any_case() {
        let params = ObjectParams::parse(b"basic_quorum=FALSE&notfound_ok=default").expect("ok");
        assert_eq!((params.basic_quorum, params.notfound_ok), (Some(false), None));
        assert_eq!(fault("notfound_ok=1"), "notfound_ok query parameter must be true or false\n");
    }

    #[test]
    fn a_bad_timeout_is_printed_as_it_came() {
        assert_eq!(fault("timeout=x"), "Bad timeout value \"x\"\n");
        assert_eq!(fault("timeout=-1&r=x"), "Bad timeout value \"-1\"\n");
        assert_eq!(fault("timeout="), "Bad timeout value []\n");
        assert_eq!(fault("timeout=a%22b"), "Bad timeout value \"a\\\"b\"\n");
    }

    #[test]
    fn sync_on_write_is_one_of_four_words() {
        assert!(ObjectParams::parse(b"sync_on_write=one").is_ok());
        assert!(fault("sync_on_write=two").contains("[default,backend,one,all]\n"));
    }
}
