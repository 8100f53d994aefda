//! Decoding of HyperLogLogs: `{hyper, P, {hyper_binary, Registers}}`.

use super::terms::{binary, list, number, shape, tuple};
use super::{ReadResult, Term};
use crate::hll::{HyperLogLog, Precision, Register};
use quoit_number::low_u16;

pub(super) fn hll(term: Term) -> ReadResult<HyperLogLog> {
    let [hyper, bits, registers] = tuple(term, "{hyper, P, Registers}")?;
    let [backend, registers] = tuple(registers, "{hyper_binary, Registers}")?;
    if !hyper.is_atom(b"hyper") || !backend.is_atom(b"hyper_binary") {
        return Err(shape("{hyper, P, {hyper_binary, Registers}}"));
    }
    let bits = u8::try_from(number(&bits, "a precision")?).ok();
    let precision = bits.and_then(Precision::new).ok_or_else(|| shape("a precision of 4 to 16"))?;
    let forms = "{buffer, Pairs, _, _, _} or {dense, Bits, Pairs, _, _}";
    let [form, first, second, ..]: [Term; 5] = tuple(registers, forms)?;
    let registers = if form.is_atom(b"buffer") {
        listed(first)?
    } else if form.is_atom(b"dense") {
        let packed = binary(first)?;
        if packed.len() != precision.register_count() / 4 * 3 {
            return Err(shape("six bits for each register"));
        }
        let mut registers = listed(second)?;
        registers.extend(unpacked(&packed));
        registers
    } else {
        return Err(shape(forms));
    };
    HyperLogLog::from_registers(precision, registers)
        .ok_or_else(|| shape("registers that the precision has"))
}

/// Reads a list of pairs of index and value.
fn listed(term: Term) -> ReadResult<Vec<Register>> {
    let register = |pair| {
        let [index, value] = tuple(pair, "{Index, Value} of a register")?;
        let index = u16::try_from(number(&index, "the index of a register")?);
        let value = u8::try_from(number(&value, "the value of a register")?);
        match (index, value) {
            (Ok(index), Ok(value)) => Ok(Register { index, value }),
            _ => Err(shape("{Index, Value} of a register")),
        }
    };
    list(term)?.into_iter().map(register).collect()
}

/// Registers of six bits each, highest bits first: four in three bytes. There are at most
/// 65 536.
fn unpacked(packed: &[u8]) -> impl Iterator<Item = Register> {
    let values = packed.chunks_exact(3).flat_map(|bytes| {
        let bits = bytes.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        [18, 12, 6, 0].map(|place| (bits >> place & 0x3f) as u8)
    });
    let numbered = values.enumerate().filter(|(_, value)| *value > 0);
    numbered.map(|(index, value)| Register { index: low_u16(index as u64), value })
}
