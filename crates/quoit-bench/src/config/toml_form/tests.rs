use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::config::{Settings, to_toml};
use crate::term::parse_terms;

fn term_of(toml: &str) -> Term {
    let text = format!("key = {toml}");
    let mut entries = read(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
    entries.pop().expect("an entry").term
}

fn error_of(toml: &str) -> String {
    match read(toml.as_bytes()) {
        Ok(entries) => panic!("{toml} must be refused: {entries:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_kind_of_term_has_a_spelling() {
    for (erlang, toml) in [
        ("max", "\"max\""),
        ("true", "true"),
        ("'riak@127.0.0.1'", "{ atom = \"riak@127.0.0.1\" }"),
        ("'Content-Type'", "{ atom = \"Content-Type\" }"),
        ("\"/riak/test\"", "\"/riak/test\""),
        ("\"test\"", "{ string = \"test\" }"),
        ("\"\"", "\"\""),
        ("\"a\\\"b\\\\\"", "'a\"b\\'"),
        ("<<\"test\">>", "{ binary = \"test\" }"),
        ("<<1,255>>", "{ binary = [1, 255] }"),
        ("<<>>", "{ binary = \"\" }"),
        ("-5", "-5"),
        ("0.5", "0.5"),
        ("1.0e300", "1e300"),
        ("{uniform_int,10}", "[\"uniform_int\", 10]"),
        ("{800000,400000,key_order}", "[800000, 400000, \"key_order\"]"),
        ("{\"10.0.0.1\",[8091,8092]}", "[\"10.0.0.1\", [8091, 8092]]"),
        ("{42,23,12}", "{ tuple = [42, 23, 12] }"),
        ("{}", "{ tuple = [] }"),
        ("[]", "[]"),
        ("[{get,4},{put,1}]", "[[\"get\", 4], [\"put\", 1]]"),
        ("[\"10.0.0.1\",\"10.0.0.2\"]", "[\"10.0.0.1\", \"10.0.0.2\"]"),
        ("[o_sync,{expiry_secs,5}]", "{ list = [\"o_sync\", [\"expiry_secs\", 5]] }"),
        ("[a|b]", "{ list = [\"a\"], tail = \"b\" }"),
        ("#{a => 1}", "{ map = [[\"a\", 1]] }"),
    ] {
        let term = parse_terms(&format!("{erlang}.")).expect(erlang)[0].term.clone();
        assert_eq!(write_value(&term), toml, "{erlang}");
        assert_eq!(term_of(toml).to_string(), erlang);
    }
}

#[test]
fn toml_has_shorter_ways() {
    for (toml, erlang) in [
        ("{ get = 4, put = 1 }", "[{get,4},{put,1}]"),
        ("1_000_000", "1000000"),
        ("0xff", "255"),
        ("'it is'", "\"it is\""),
        ("{ auto_reconnect = true }", "[{auto_reconnect,true}]"),
    ] {
        assert_eq!(term_of(toml).to_string(), erlang, "{toml}");
    }
    let entries = read(b"mode = 'max'\n[operations]\nput = 1\nget = 2\n").expect("a section");
    assert_eq!(entries[1].term.to_string(), "[{put,1},{get,2}]");
}

#[test]
fn errors_name_line_and_column() {
    for (toml, expected) in [
        ("a = 1\nb = ", "2:5: "),
        ("a = 1\nb = [1, 1979-05-27]", "2:9: a date can't be a value"),
        ("a = nan", "1:5: the number does not fit"),
        ("\u{e9} = 1", "1:1: "),
        ("a = { binary = [256] }", "1:16: bytes are integers from 0 to 255"),
        ("a = { tuple = 5 }", "1:15: an array was expected"),
        ("a = { string = 5 }", "1:16: string needs a text"),
        ("a = { map = [5] }", "1:13: a map is an array"),
        ("a = { list = [], tail = 1 }", "1:5: a list with a tail"),
        ("a = 1\na = 2", "2:1: "),
    ] {
        let error = error_of(toml);
        assert!(error.starts_with(expected), "{toml}: {error}");
    }
    let error = match read(b"a = 1\nb = '\xff'") {
        Ok(_) => panic!("not UTF-8"),
        Err(error) => error.to_string(),
    };
    assert_eq!(error, "2:6: the file is not UTF-8, as TOML has to be");
}

fn settings(name: &str, text: &str) -> Settings {
    let mut settings = Settings::default();
    settings.add(Path::new(name), text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    settings
}

#[test]
fn converting_keeps_comments_order_and_the_last_of_each_key() {
    let erlang = "%% Two nodes.\n\n{mode, max}. {duration, 1}.\n%% Again:\n{duration, 2}.\n\
                  [{driver, null}, {a, \"b\"}].\n% The end.\n";
    let toml = to_toml(Path::new("a.config"), erlang.as_bytes()).expect("TOML");
    let expected = "# Two nodes.\n\nmode = \"max\"\n# Again:\nduration = 2\ndriver = \"null\"\n\
                    a = { string = \"b\" }\n# The end.\n";
    assert_eq!(toml, expected);
}

#[test]
fn long_lists_have_a_line_for_each_element() {
    let operations: Vec<Term> =
        (0..9).map(|n| Term::Tuple(vec![Term::atom("operation"), Term::Integer(n)])).collect();
    let toml = write_pair("operations", &Term::List(operations));
    assert!(toml.starts_with("operations = [\n    [\"operation\", 0],\n"), "{toml}");
    assert!(toml.ends_with("    [\"operation\", 8],\n]"), "{toml}");
}

#[test]
fn values_that_are_too_deep_for_toml_are_refused() {
    let erlang = format!("{{a, {}1{}}}.", "[".repeat(150), "]".repeat(150));
    let error = to_toml(Path::new("a.config"), erlang.as_bytes()).expect_err("too deep");
    assert!(error.to_string().contains("TOML cannot hold it"), "{error}");
}

/// Any term that the parser can return, nested no deeper than TOML allows.
fn terms() -> impl Strategy<Value = Term> {
    let leaf = prop_oneof![
        any::<i128>().prop_map(Term::Integer),
        any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(Term::Float),
        "[a-z][a-z0-9_]{0,8}|true|[ -~]{0,6}|\\PC{0,4}".prop_map(Term::Atom),
        "[a-z]{0,4}|[ -~]{0,9}|\\PC{0,4}|[\\x00-\\x1f]{0,3}".prop_map(Term::String),
        proptest::collection::vec(any::<u8>(), 0..6).prop_map(Term::Binary),
        "[a-z]{1,5}".prop_map(|text| Term::Binary(text.into_bytes())),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let many = || proptest::collection::vec(inner.clone(), 0..5);
        prop_oneof![
            many().prop_map(Term::Tuple),
            many().prop_map(Term::List),
            (inner.clone(), many()).prop_map(|(tail, mut elements)| {
                elements.push(Term::Integer(1));
                match tail {
                    Term::List(_) | Term::String(_) | Term::ImproperList(..) => {
                        Term::List(elements)
                    }
                    tail => Term::ImproperList(elements, Box::new(tail)),
                }
            }),
            proptest::collection::btree_map(inner.clone(), inner.clone(), 0..4)
                .prop_map(|pairs| Term::Map(pairs.into_iter().collect())),
        ]
    })
}

/// A text of the term's variants, which equality ignores: a string equals the list of its characters.
fn shape(term: &Term) -> String {
    format!("{term:?}")
}

proptest! {
    #[test]
    fn every_term_reads_back_from_toml(term in terms()) {
        let toml = write_value(&term);
        prop_assert_eq!(shape(&term_of(&toml)), shape(&term), "{}", toml);
    }

    #[test]
    fn a_configuration_is_the_same_in_toml(
        pairs in proptest::collection::btree_map("[a-z][a-z_]{0,12}|[ -~]{1,5}", terms(), 0..6),
    ) {
        let pair = |(key, value): (&String, &Term)| {
            format!("{}.\n", Term::Tuple(vec![Term::atom(key), value.clone()]))
        };
        let erlang: String = pairs.iter().map(pair).collect();
        let toml = to_toml(Path::new("a.config"), erlang.as_bytes()).expect("TOML");
        let (from_erlang, from_toml) = (settings("a.config", &erlang), settings("a.toml", &toml));
        for (key, _) in from_erlang.keys() {
            prop_assert_eq!(from_toml.get(key), from_erlang.get(key), "{}", &toml);
        }
        prop_assert_eq!(from_toml.keys().count(), from_erlang.keys().count());
    }

    #[test]
    fn reading_never_panics(text in "\\PC{0,60}", bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let _ = read(text.as_bytes());
        let _ = read(&bytes);
    }
}
