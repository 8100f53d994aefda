//! Notes about generators that are valid, but possibly not intended.

use crate::term::Term;

/// Notes on the generators of a term, outermost first, for a run of `worker_count` workers.
pub(crate) fn notes(term: &Term, worker_count: u32) -> Vec<String> {
    let mut notes = Vec::new();
    collect(term, worker_count, &mut notes);
    notes
}

fn collect(term: &Term, worker_count: u32, notes: &mut Vec<String>) {
    let Some(elements) = term.as_tuple() else { return };
    match elements.first().and_then(Term::as_atom) {
        Some("sequential_int" | "named_sequential_int") if worker_count > 1 => notes.push(format!(
            "`{term}`: each of the {worker_count} workers walks the whole range; for parts of it \
             write partitioned_sequential_int"
        )),
        Some("int_to_bin") => notes.push(format!(
            "`{term}` is the old name of int_to_bin_littleendian; name the byte order"
        )),
        _ => {}
    }
    elements.iter().for_each(|element| collect(element, worker_count, notes));
}
