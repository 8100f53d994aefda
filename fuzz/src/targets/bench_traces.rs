//! Traces that the load generator replays.

use crate::Target;
use quoit_bench::trace::TraceReader;
use std::io::Cursor;
use std::path::Path;

pub(crate) const TARGET: Target = Target { name: "bench-traces", run, seeds };

/// Checks that a trace is read to its end or to its first fault, that the fault names the file, that keys
/// are shorter than the trace, and that there are no more operations than lines.
fn run(input: &[u8]) {
    let lines = Box::new(Cursor::new(input.to_vec()));
    let mut reader = match TraceReader::new(Path::new("trace.csv"), lines) {
        Ok(reader) => reader,
        Err(fault) => return assert_named(&fault.to_string()),
    };
    let line_count = input.split(|byte| *byte == b'\n').count() as u64;
    let mut operation_count = 0;
    loop {
        match reader.next_operation() {
            Ok(Some((line, operation))) => {
                operation_count += 1;
                assert!(line <= line_count && operation_count <= line_count);
                assert!(!operation.key.is_empty() && operation.key.len() < input.len());
            }
            Ok(None) => return,
            Err(fault) => return assert_named(&fault.to_string()),
        }
    }
}

fn assert_named(fault: &str) {
    assert!(fault.contains("trace.csv"), "{fault}");
}

fn seeds() -> Vec<Vec<u8>> {
    [
        "time,operation,key,value_size\n0.5,get,a,\n0.75,put,b,300\n1.5,delete,c\n",
        "5,k1,2,100,7,get,0\n5,k2,2,200,7,set,3600\n7,k3,2,0,8,delete,0\n7,k4,2,9,8,incr,0\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}
