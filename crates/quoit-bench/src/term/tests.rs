use proptest::prelude::*;

use super::*;

fn term_of(text: &str) -> Term {
    let mut terms = parse_terms(text).expect(text);
    assert_eq!(terms.len(), 1, "{text}");
    terms.remove(0).term
}

/// Asserts that `text` (without its full stop) is printed as `printed`.
fn check(text: &str, printed: &str) {
    assert_eq!(term_of(&format!("{text}.")).to_string(), printed, "{text}");
}

fn check_error(text: &str, message: &str) {
    let error = parse_terms(text).expect_err(text).to_string();
    assert!(error.contains(message), "{text}: {error}");
}

#[test]
fn numbers_are_read_in_every_form() {
    check("123", "123");
    check("-5", "-5");
    check("+5", "5");
    check("- 5", "-5");
    check("16#ff", "255");
    check("16#FF", "255");
    check("2#1010", "10");
    check("36#z", "35");
    check("1_000_000", "1000000");
    check("$a", "97");
    check("$\\n", "10");
    check("$\\s", "32");
    check("$ ", "32");
    check("1.0", "1.0");
    check("-2.5e-3", "-0.0025");
    check("1.5E10", "15000000000.0");
    check("1.0e300", "1.0e300");
    check("-170141183460469231731687303715884105728", "-170141183460469231731687303715884105728");
}

#[test]
fn an_integer_before_a_full_stop_is_no_float() {
    assert_eq!(term_of("{a, 1}."), Term::Tuple(vec![Term::atom("a"), Term::Integer(1)]));
    assert_eq!(term_of("1. "), Term::Integer(1));
}

#[test]
fn numbers_that_erlang_refuses_are_refused() {
    check_error(".5 .", "digits on both sides of its point");
    check_error("1e5.", "`1e5` is not a number: a float has digits on both sides of its point");
    check_error("1.5e.", "digits on both sides");
    check_error("16#fg.", "`16#fg` is not a number of base 16");
    check_error("1#0.", "base `1`");
    check_error("170141183460469231731687303715884105728.", "does not fit");
    check_error("1.0e999.", "does not fit");
    check_error("1__0.", "1:2");
    check_error("96*1024.", "'*' begins no term");
}

#[test]
fn atoms_are_plain_or_quoted() {
    check("get", "get");
    check("'get'", "get");
    check("'riak@127.0.0.1'", "'riak@127.0.0.1'");
    check("a_B@9", "a_B@9");
    check("'end'", "'end'");
    check("''", "''");
    check("'it\\'s'", "'it\\'s'");
    check_error("end.", "an atom of that name needs quotes");
    check_error("{Mode, max}.", "`Mode` is a variable");
}

#[test]
fn strings_take_escapes_and_join() {
    assert_eq!(
        term_of(r#""\"\\\n\r\t\b\f\v\e\s\d\0\101\x41\x{263a}\^A\q"."#).as_text().unwrap(),
        "\"\\\n\r\t\u{8}\u{c}\u{b}\u{1b} \u{7f}\0AA\u{263a}\u{1}q"
    );
    check("\"a\" \"b\"\n\"c\"", "\"abc\"");
    check("\"two\nlines\"", "\"two\\nlines\"");
    check_error("\"open", "this \" is never closed");
    check_error("\"\\xz\".", "is not an escape sequence");
    check_error("\"\\x{110000}\".", "is not an escape sequence");
}

#[test]
fn a_string_is_the_list_of_its_code_points_but_remembers_its_quotes() {
    assert_eq!(term_of("\"ab\"."), term_of("[97, 98]."));
    assert!(matches!(term_of("\"ab\"."), Term::String(_)));
    assert!(matches!(term_of("[97, 98]."), Term::List(_)));
    assert_eq!(term_of("[97, 98].").as_text().unwrap(), "ab");
    assert_eq!(term_of("[]."), term_of("\"\"."));
    assert_eq!(term_of("[a | \"bc\"]."), term_of("[a, $b, $c]."));
}

#[test]
fn binaries_are_built_from_segments() {
    check("<<>>", "<<>>");
    check("<<\"text\">>", "<<\"text\">>");
    check("<<1,2,255>>", "<<1,2,255>>");
    check("<<5:16>>", "<<0,5>>");
    check("<<5:16/little>>", "<<5,0>>");
    check("<<-1:32/big-unsigned-integer>>", "<<255,255,255,255>>");
    check("<<\"a\",0,\"b\">>", "<<97,0,98>>");
    check("<<\"\u{e4}\"/utf8>>", "<<195,164>>");
    check("<<\"\u{e4}\">>", "<<228>>");
    check("<<\"ab\":16>>", "<<0,97,0,98>>");
    check("<<2:4, 3:4>>", "<<\"#\">>");
    check("<<1:4, \"\u{e4}\"/utf8, 2:4>>", "<<28,58,66>>");
    check("<<1.0/float>>", "<<63,240,0,0,0,0,0,0>>");
    check("<<1.0:32/float-little>>", "<<0,0,128,63>>");
    check("<<1:2/integer-unit:8>>", "<<0,1>>");
    check("<<16#10ffff/utf16>>", "<<219,255,223,255>>");
    check("<<258:12/little, 0:4>>", "<<2,16>>");
    check_error("<<1:3>>.", "fill up to 8");
    check_error("<<1.0>>.", "/float");
    check("<<3.4028234663852886e38:32/float>>", "<<127,127,255,255>>");
    check_error("<<3.5e38:32/float>>.", "does not fit into a float of 32 bits");
    check_error("<<1/wide>>.", "`wide` is not a type");
    check_error("<<1:99999999999>>.", "bits that are read");
    check_error("<<a>>.", "a number or a string");
}

#[test]
fn tuples_lists_and_maps_nest() {
    check("{}", "{}");
    check("{a, {b, [1, 2]}, \"x\"}", "{a,{b,[1,2]},\"x\"}");
    check("[]", "[]");
    check("[a | b]", "[a|b]");
    check("[a | [b, c]]", "[a,b,c]");
    check("[a, b | [c | d]]", "[a,b,c|d]");
    check("#{b => 1, a => #{}, b => 2}", "#{a => #{},b => 2}");
    check("(a)", "a");
    check_error("[a, ].", "found `]` where a term was expected");
    check_error("{a, }.", "found `}` where a term was expected");
    check_error("#{a => 1, }.", "a key of the map");
    check_error("{a b}.", "the atom `b`");
}

#[test]
fn comments_and_blanks_stand_anywhere() {
    let text = "% first\n{mode, % why\n max}.%last\n\n\t{duration,\r\n 5} .";
    let terms = parse_terms(text).unwrap();
    assert_eq!(terms.len(), 2);
    assert_eq!(terms[0].places.position, Position { line: 2, column: 1 });
    assert_eq!(terms[1].places.position, Position { line: 5, column: 2 });
}

#[test]
fn errors_name_line_and_column() {
    let error = parse_terms("{mode, max}.\n{duration, ,5}.").unwrap_err();
    assert_eq!(error.to_string(), "2:12: found `,` where a term was expected");
    let error = parse_terms("{mode, max}\n{duration, 5}.").unwrap_err();
    assert_eq!(error.position, Position { line: 2, column: 1 });
    check_error("{mode, max}", "found the end of the file where");
    check_error("a.b", "a full stop ends a term only before");
}

#[test]
fn what_was_left_out_is_pointed_to() {
    let error = parse_terms("{mode, max}.\n{pb_ips, [ ... ]}.").expect_err("no term").to_string();
    assert!(error.starts_with("2:12: ") && error.contains("stands for something"), "{error}");
}

#[test]
fn underscores_escaped_by_mail_programs_are_recognized() {
    check_error("{key\\_generator, 5}.", "replace every `\\_` by `_`");
    let plain = parse_terms("{key generator, 5}.").unwrap_err().to_string();
    assert!(!plain.contains("mail"), "{plain}");
}

#[test]
fn bytes_are_utf8_or_latin1() {
    let one = |bytes: &[u8]| parse_bytes(bytes).unwrap()[0].term.as_text().unwrap();
    assert_eq!(one("\"\u{e4}\".".as_bytes()), "\u{e4}");
    assert_eq!(one(b"\"\xe4\"."), "\u{e4}");
    assert_eq!(one("%% coding: latin-1\n\"\u{e4}\".".as_bytes()), "\u{c3}\u{a4}");
    assert_eq!(one("%% coding: utf-8\n\"\u{e4}\".".as_bytes()), "\u{e4}");
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| format!("{}{}.", "[".repeat(depth), "]".repeat(depth));
    assert!(parse_terms(&nested(NESTING_DEPTH_MAX)).is_ok());
    check_error(&nested(NESTING_DEPTH_MAX + 2), "nested deeper");
    check_error(&"{".repeat(1_000_000), "nested deeper");
    check_error(&"(".repeat(1_000_000), "nested deeper");
}

#[test]
fn terms_order_as_erlang_orders_them() {
    let ascending = [
        "-1.", "1.", "1.0.", "2.", "a.", "b.", "{}.", "{z}.", "{a,a}.", "{a,b}.", "#{}.",
        "#{a=>1}.", "[].", "[a|b].", "[a].", "[a,b].", "[b].", "<<>>.", "<<1>>.", "<<1,0>>.",
    ];
    let terms: Vec<Term> = ascending.iter().map(|text| term_of(text)).collect();
    for (i, a) in terms.iter().enumerate() {
        for (j, b) in terms.iter().enumerate() {
            assert_eq!(a.cmp(b), i.cmp(&j), "{a} {b}");
        }
    }
}

fn any_term() -> impl Strategy<Value = Term> {
    let text = || prop::collection::vec(any::<char>(), 0..6).prop_map(String::from_iter);
    let leaf = prop_oneof![
        any::<i128>().prop_map(Term::Integer),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Term::Float),
        text().prop_map(Term::Atom),
        "[a-z]{1,7}".prop_map(Term::Atom),
        text().prop_map(Term::String),
        prop::collection::vec(any::<u8>(), 0..6).prop_map(Term::Binary),
        "[ -~]{0,6}".prop_map(|text| Term::Binary(text.into_bytes())),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        let several = || prop::collection::vec(inner.clone(), 0..5);
        prop_oneof![
            several().prop_map(Term::Tuple),
            several().prop_map(Term::List),
            (prop::collection::vec(inner.clone(), 1..4), inner.clone()).prop_map(
                |(elements, tail)| match tail.as_list() {
                    None if !matches!(tail, Term::ImproperList(..)) => {
                        Term::ImproperList(elements, Box::new(tail))
                    }
                    _ => Term::List(elements),
                }
            ),
            prop::collection::btree_map(inner.clone(), inner.clone(), 0..4)
                .prop_map(|map| Term::Map(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(term in any_term()) {
        let text = format!("{term}.");
        let read = parse_terms(&text).map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
        prop_assert_eq!(read.len(), 1);
        prop_assert_eq!(format!("{:?}", read[0].term), format!("{term:?}"));
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_bytes(&bytes);
    }

    #[test]
    fn near_terms_never_panic(text in r#"[a-c0-9 .,{}\[\]<>|/:"'\\$%#=_@()xe-]{0,60}"#) {
        let _ = parse_terms(&text);
    }

    #[test]
    fn order_is_total(a in any_term(), b in any_term(), c in any_term()) {
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        if a <= b && b <= c {
            prop_assert!(a <= c);
        }
    }
}
