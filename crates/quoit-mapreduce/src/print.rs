//! Erlang's notation of terms, for error messages.

use quoit_model::etf::Term;
use std::fmt::Write;

/// Approximate maximum length of a printed term in bytes; the rest is left out.
const PRINTED_MAX: usize = 4096;

/// Prints a term in Erlang's notation on one line, truncated if it is long.
#[must_use]
pub fn print_term(term: &Term) -> String {
    let mut out = String::new();
    print(&mut out, term);
    out
}

fn print(out: &mut String, term: &Term) {
    if out.len() > PRINTED_MAX {
        out.push_str("...");
        return;
    }
    match term {
        Term::Integer(integer) => {
            let _ = write!(out, "{integer}");
        }
        Term::BigInteger { negative, magnitude } => {
            let _ = write!(out, "{}16#", if *negative { "-" } else { "" });
            for byte in magnitude.iter().rev() {
                let _ = write!(out, "{byte:02X}");
            }
        }
        Term::Float(float) => {
            let _ = write!(out, "{float:?}");
        }
        Term::Atom(name) => print_atom(out, name),
        Term::Tuple(parts) => print_all(out, '{', parts, None, '}'),
        Term::List(parts) => print_all(out, '[', parts, None, ']'),
        Term::ImproperList(parts, tail) => print_all(out, '[', parts, Some(tail), ']'),
        Term::Text(text) => print_text(out, text),
        Term::Binary(bytes) => {
            out.push_str("<<");
            if !bytes.is_empty() {
                print_text(out, bytes);
            }
            out.push_str(">>");
        }
        Term::Map(pairs) => {
            out.push_str("#{");
            for (place, (name, value)) in pairs.iter().enumerate() {
                out.push_str(if place > 0 { "," } else { "" });
                print(out, name);
                out.push_str(" => ");
                print(out, value);
            }
            out.push('}');
        }
    }
}

fn print_all(out: &mut String, open: char, parts: &[Term], tail: Option<&Term>, close: char) {
    out.push(open);
    for (place, part) in parts.iter().enumerate() {
        out.push_str(if place > 0 { "," } else { "" });
        if out.len() > PRINTED_MAX {
            out.push_str("...");
            break;
        }
        print(out, part);
    }
    if let Some(tail) = tail {
        out.push('|');
        print(out, tail);
    }
    out.push(close);
}

fn print_atom(out: &mut String, name: &[u8]) {
    let is_plain = name.first().is_some_and(u8::is_ascii_lowercase)
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_@".contains(byte));
    let text = String::from_utf8_lossy(name);
    match is_plain {
        true => out.push_str(&text),
        false => {
            let _ = write!(out, "'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
        }
    }
}

/// Prints bytes as a quoted text if all are printable, otherwise as numbers.
fn print_text(out: &mut String, bytes: &[u8]) {
    let is_printable = |byte: &u8| matches!(byte, 0x20..=0x7e | b'\n' | b'\r' | b'\t');
    if bytes.iter().all(is_printable) {
        let text = String::from_utf8_lossy(bytes.get(..PRINTED_MAX).unwrap_or(bytes));
        let _ = write!(out, "{text:?}");
        return;
    }
    for (place, byte) in bytes.iter().take(PRINTED_MAX / 4).enumerate() {
        let _ = write!(out, "{}{byte}", if place > 0 { "," } else { "" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn terms_print_as_erlang_prints_them() {
        let binary = |text: &'static str| Term::Binary(Bytes::from_static(text.as_bytes()));
        let atom = |text: &'static str| Term::Atom(Bytes::from_static(text.as_bytes()));
        let name = Term::Tuple(vec![binary("b"), binary("k\"1")]);
        let term = Term::Tuple(vec![name, atom("undefined"), atom("Not Plain"), Term::Float(1.0)]);
        assert_eq!(print_term(&term), r#"{{<<"b">>,<<"k\"1">>},undefined,'Not Plain',1.0}"#);
        let list = Term::List(vec![Term::Integer(-3), Term::Binary(Bytes::from_static(&[0, 255]))]);
        assert_eq!(print_term(&list), "[-3,<<0,255>>]");
        assert_eq!(print_term(&binary("")), "<<>>");
    }

    #[test]
    fn a_long_term_is_cut_off() {
        let long = Term::List(vec![Term::Binary(Bytes::from_static(&[b'x'; 1000])); 100]);
        assert!(print_term(&long).len() < 3 * PRINTED_MAX);
    }
}
