//! Erlang terms as text, the syntax of basho_bench's configurations.

use quoit_bench::term::{parse_bytes, parse_terms};

use crate::Target;
use crate::targets::bench_configs;

pub(crate) const TARGET: Target = Target { name: "erlang-terms", run, seeds };

/// Checks that printed terms parse to the same terms.
fn run(input: &[u8]) {
    let Ok(terms) = parse_bytes(input) else { return };
    let text: String = terms.iter().map(|located| format!("{}.\n", located.term)).collect();
    let again = parse_terms(&text).unwrap_or_else(|error| panic!("{error}, in: {text}"));
    let same = again.iter().map(|one| &one.term).eq(terms.iter().map(|one| &one.term));
    assert!(same, "terms change by being printed: {text}");
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = bench_configs::seeds();
    let terms: [&[u8]; 3] = [
        b"%% coding: latin-1\n{a, 'B c', \"t\\x{263a}\\n\", $a, $\\s, 16#ff, -1.5e-3, [a|b]}.\n",
        b"#{a => 1, <<\"b\">> => [1,2|[3]]}. <<1, 2:16, \"x\">>. [].\n",
        b"\xef\xbb\xbf{\"one \" \"two\", 1_000, [[[[]]]]}. % end",
    ];
    seeds.extend(terms.map(<[u8]>::to_vec));
    seeds
}
