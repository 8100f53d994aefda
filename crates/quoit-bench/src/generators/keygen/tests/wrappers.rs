//! Generators that turn the keys of another generator into texts and binaries.

use super::*;

#[test]
fn external_terms_are_those_of_erlang() {
    let of = |integer| wrapped("{term_to_bin, #}", integer);
    assert_eq!(of(7), [131, 97, 7]);
    assert_eq!(of(256), [131, 98, 0, 0, 1, 0]);
    assert_eq!(of(-1), [131, 98, 255, 255, 255, 255]);
    assert_eq!(of(1 << 32), [131, 110, 5, 0, 0, 0, 0, 0, 1]);
    assert_eq!(of(-(1 << 31) - 1), [131, 110, 4, 1, 1, 0, 0, 128]);
    assert_eq!(first("{term_to_bin, \"ab\"}"), [131, 107, 0, 2, 97, 98]);
    assert_eq!(first("{term_to_bin, \"\"}"), [131, 106]);
    assert_eq!(first("{term_to_bin, <<\"ab\">>}"), [131, 109, 0, 0, 0, 2, 97, 98]);
}

#[test]
fn integers_become_binaries() {
    assert_eq!(wrapped("{int_to_bin_bigendian, #}", 258), [0, 0, 1, 2]);
    assert_eq!(wrapped("{int_to_bin_littleendian, #}", 258), [2, 1, 0, 0]);
    assert_eq!(wrapped("{int_to_bin, #}", 258), [2, 1, 0, 0]);
    assert_eq!(wrapped("{{int_to_bin_bigendian, 16}, #}", 65_539), [0, 3]);
    assert_eq!(wrapped("{{int_to_bin_bigendian, 80}, #}", -2)[..3], [255, 255, 255]);
    assert_eq!(wrapped("{int_to_bin_bigendian, #}", 4_294_967_297), [0, 0, 0, 1]);
    assert_eq!(first("{uniform_int_bin, 1}"), 1_u32.to_ne_bytes());
}

#[test]
fn integers_become_text() {
    assert_eq!(wrapped("{int_to_str, #}", -12), b"-12");
    assert_eq!(wrapped("{str_to_bin, {int_to_str, #}}", 12), b"12");
    assert_eq!(first("{uniform_int_str, 1}"), b"1");
    assert_eq!(wrapped("{base64, {int_to_bin_bigendian, #}}", 1), b"AAAAAQ==");
    assert_eq!(
        wrapped("{concat_binary, <<\"key-\">>, {int_to_bin_bigendian, #}}", 1),
        b"key-\0\0\0\x01"
    );
    assert_eq!(wrapped("{concat_string, \"a\", {int_to_str, #}}", 1), b"a1");
}

#[test]
fn format_strings_print_as_erlangs() {
    for (format, integer, expected) in [
        ("key~w", 7, "key7"),
        ("~p~n", 7, "7\n"),
        ("~10..0B", 42, "0000000042"),
        ("~4.16.0b", 255, "00ff"),
        ("~4.16.0B", 255, "00FF"),
        ("~.2b", 5, "101"),
        ("~5B|", 42, "   42|"),
        ("~-5B|", 42, "42   |"),
        ("~3B", 12345, "***"),
        ("~8..0w", 7, "00000007"),
        ("~c~~", 97, "a~"),
        ("~3c", 97, "aaa"),
        ("~6..0B", -42, "000-42"),
    ] {
        let text = wrapped(&format!("{{to_binstr, \"{format}\", #}}"), integer);
        assert_eq!(String::from_utf8(text).unwrap(), expected, "{format}");
    }
    for (format, expected) in [
        ("<~s>", "<abc>"),
        ("~2s", "ab"),
        ("~5s", "  abc"),
        ("~-5s|", "abc  |"),
        ("~5.2s", "   ab"),
        ("~ts", "abc"),
        ("~p", "\"abc\""),
        ("~w", "[97,98,99]"),
    ] {
        let text = first(&format!("{{to_str, \"{format}\", \"abc\"}}"));
        assert_eq!(String::from_utf8(text).unwrap(), expected, "{format}");
    }
    assert_eq!(first("{to_str, \"~w\", <<\"a\">>}"), b"<<97>>");
    assert_eq!(first("{to_str, \"~p\", <<\"a\">>}"), b"<<\"a\">>");
}

#[test]
fn digests_are_those_of_the_standards() {
    let hex =
        |text: &str| -> String { first(text).iter().map(|byte| format!("{byte:02x}")).collect() };
    for (kind, of_abc) in [
        ("md4", "a448017aaf21d8525fc10ae87aa6729d"),
        ("md5", "900150983cd24fb0d6963f7d28e17f72"),
        ("ripemd160", "8eb208f7e05d987a9b044a8e98c6b087f15a0bfc"),
        ("sha", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        ("sha224", "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"),
        ("sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    ] {
        assert_eq!(hex(&format!("{{{{crypto_hash, {kind}}}, \"abc\"}}")), of_abc, "{kind}");
    }
    assert!(hex("{{crypto_hash, sha384}, <<\"abc\">>}").starts_with("cb00753f45a35e8bb5a03d69"));
    assert!(hex("{{crypto_hash, sha512}, <<\"abc\">>}").starts_with("ddaf35a193617abacc417349"));
}

#[test]
fn modulo_format_splits_by_successive_moduli() {
    let text = wrapped("{modulo_format, #, \"~2..0B/~2..0B/~B\", [100, 100, 100]}", 1_234_567);
    assert_eq!(text, b"67/45/23");
}
