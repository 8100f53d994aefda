use super::*;
use proptest::prelude::*;

const SMALL: Limits = Limits { depth_max: 32, terms_max: 5000, inflated_bytes_max: 100_000 };

fn encoded(term: &Term) -> Bytes {
    let mut out = Vec::new();
    term.encode_into(&mut out);
    out.into()
}

fn any_term() -> impl Strategy<Value = Term> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from);
    let leaf = prop_oneof![
        any::<i128>().prop_map(Term::Integer),
        any::<i64>().prop_map(|integer| Term::Integer(integer.into())),
        (-300i128..300).prop_map(Term::Integer),
        (any::<bool>(), prop::collection::vec(1u8.., 17..300)).prop_map(|(negative, magnitude)| {
            Term::BigInteger { negative, magnitude: magnitude.into() }
        }),
        (-1e9..1e9).prop_map(Term::Float),
        bytes().prop_map(Term::Atom),
        bytes().prop_filter("empty", |text| !text.is_empty()).prop_map(Term::Text),
        bytes().prop_map(Term::Binary),
        Just(Term::List(Vec::new())),
    ];
    leaf.prop_recursive(4, 60, 6, |inner| {
        let some = |from| prop::collection::vec(inner.clone(), from..6);
        let not_text = |elements: &Vec<Term>| Term::List(elements.clone()).to_text().is_none();
        let proper_list = |tail: &Term| matches!(tail, Term::List(empty) if empty.is_empty());
        prop_oneof![
            some(0).prop_map(Term::Tuple),
            some(1).prop_filter("text", not_text).prop_map(Term::List),
            (some(1), inner.clone().prop_filter("proper", move |tail| !proper_list(tail)))
                .prop_map(|(elements, tail)| Term::ImproperList(elements, Box::new(tail))),
            prop::collection::vec((inner.clone(), inner.clone()), 0..4).prop_map(Term::Map),
        ]
    })
}

proptest! {
    #[test]
    fn every_term_comes_back(term in any_term()) {
        prop_assert_eq!(Term::decode(&encoded(&term), &SMALL), Ok(term));
    }

    #[test]
    fn a_term_cut_off_anywhere_is_an_error(term in any_term(), cut: prop::sample::Index) {
        let bytes = encoded(&term);
        prop_assert!(Term::decode(&bytes.slice(..cut.index(bytes.len())), &SMALL).is_err());
    }

    #[test]
    fn random_and_mutated_bytes_never_panic(
        term in any_term(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        mut random in prop::collection::vec(any::<u8>(), 1..200),
    ) {
        let mut bytes = encoded(&term).to_vec();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let _ = Term::decode(&bytes.into(), &SMALL);
        random[0] = ETF_VERSION;
        let _ = Term::decode(&random.into(), &SMALL);
    }
}

/// Checks that bytes in hexadecimal decode to a term, and that the term encodes to these bytes.
fn check(hex: &str, term: &Term) {
    let bytes = Bytes::from(from_hex(hex));
    assert_eq!(Term::decode(&bytes, &SMALL).as_ref(), Ok(term), "{hex}");
    assert_eq!(encoded(term), bytes, "{term:?}");
}

fn from_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|digit| *digit != b' ').collect();
    let text = |pair| std::str::from_utf8(pair).expect("ASCII");
    let byte = |pair| u8::from_str_radix(text(pair), 16).expect("hexadecimal");
    digits.chunks(2).map(byte).collect()
}

#[test]
fn terms_have_the_bytes_that_erlang_writes() {
    let text = |text: &'static str| Term::Text(text.into());
    check("83 61 ff", &Term::Integer(255));
    check("83 62 00000100", &Term::Integer(256));
    check("83 62 ffffffff", &Term::Integer(-1));
    check("83 62 80000000", &Term::Integer(i32::MIN.into()));
    check("83 6e 04 00 00000080", &Term::Integer(1 << 31));
    check("83 6e 05 00 00bec6da0e", &Term::Integer(63_800_000_000));
    check("83 6e 08 01 0000000000000080", &Term::Integer(i64::MIN.into()));
    check("83 64 0002 6f6b", &Term::Atom("ok".into()));
    check("83 6a", &Term::List(Vec::new()));
    check("83 6b 0002 6869", &text("hi"));
    check("83 6d 00000002 6869", &Term::Binary("hi".into()));
    check("83 68 01 6a", &Term::Tuple(vec![Term::List(Vec::new())]));
    check("83 6c 00000001 6d00000000 6a", &Term::List(vec![Term::Binary(Bytes::new())]));
    check(
        "83 6c 00000001 61 01 61 02",
        &Term::ImproperList(vec![Term::Integer(1)], Box::new(Term::Integer(2))),
    );
    check("83 46 3ff8000000000000", &Term::Float(1.5));
}

#[test]
fn other_forms_of_the_same_terms_are_read() {
    let decode = |hex| Term::decode(&Bytes::from(from_hex(hex)), &SMALL);
    for form in ["83 64 0002 6f6b", "83 73 02 6f6b", "83 76 0002 6f6b", "83 77 02 6f6b"] {
        assert_eq!(decode(form), Ok(Term::Atom("ok".into())));
    }
    assert_eq!(decode("83 6f 00000001 00 05"), Ok(Term::Integer(5)));
    assert_eq!(decode("83 69 00000001 61 05"), Ok(Term::Tuple(vec![Term::Integer(5)])));
    let spelled = decode("83 6c 00000002 61 68 61 69 6a").expect("a list");
    assert_eq!(spelled.to_text(), Some("hi".into()));
}

#[test]
fn long_strings_are_written_as_lists() {
    let long = Bytes::from(vec![b'x'; 65_536]);
    let bytes = encoded(&Term::Text(long.clone()));
    assert_eq!(bytes[1], tag::LIST);
    let limits = Limits { terms_max: 100_000, ..SMALL };
    let term = Term::decode(&bytes, &limits).expect("own encoding");
    assert_eq!(term.to_text(), Some(long));
    assert_eq!(encoded(&term), bytes);
}

fn compressed(term: &Term, size_delta: i64) -> Bytes {
    use std::io::Write;
    let plain = encoded(term).slice(1..);
    let told = (plain.len() as i64 + size_delta) as u32;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), Default::default());
    encoder.write_all(&plain).expect("memory");
    let body = encoder.finish().expect("memory");
    [&[ETF_VERSION, tag::COMPRESSED][..], &told.to_be_bytes(), &body].concat().into()
}

#[test]
fn compressed_terms_are_read_within_their_limit() {
    let term = Term::Binary(vec![7; 50_000].into());
    assert_eq!(Term::decode(&compressed(&term, 0), &SMALL).as_ref(), Ok(&term));
    let limits = Limits { inflated_bytes_max: 50_004, ..SMALL };
    let too_large = EtfError::TooLarge { size_bytes: 50_005, size_bytes_max: 50_004 };
    assert_eq!(Term::decode(&compressed(&term, 0), &limits), Err(too_large));
    for delta in [-1, 1] {
        let error = Term::decode(&compressed(&term, delta), &SMALL).expect_err("wrong size");
        assert!(matches!(error, EtfError::BadCompression { .. }), "{error}");
    }
    let bytes = compressed(&term, 0);
    assert!(Term::decode(&bytes.slice(..bytes.len() - 1), &SMALL).is_err());
}

#[test]
fn nesting_and_number_of_terms_are_bounded() {
    let nested = [vec![ETF_VERSION], [tag::SMALL_TUPLE, 1].repeat(100_000), vec![tag::NIL]];
    let error = Term::decode(&nested.concat().into(), &Limits::STORED);
    assert_eq!(error, Err(EtfError::TooDeep { depth_max: 256 }));
    let wide = [vec![ETF_VERSION, tag::LIST, 0, 0, 0x20, 0], vec![tag::NIL; 0x2001]];
    let error = Term::decode(&wide.concat().into(), &SMALL);
    assert_eq!(error, Err(EtfError::TooMany { terms_max: 5000 }));
}

#[test]
fn counts_beyond_the_input_reserve_nothing() {
    for head in [tag::LIST, tag::LARGE_TUPLE, tag::MAP, tag::BINARY, tag::LARGE_BIG] {
        let bytes = Bytes::from(vec![ETF_VERSION, head, 0xff, 0xff, 0xff, 0xff, tag::NIL]);
        assert!(matches!(Term::decode(&bytes, &SMALL), Err(EtfError::Truncated { .. })));
    }
}
