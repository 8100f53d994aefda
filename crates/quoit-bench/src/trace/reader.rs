//! Reading a trace line by line, so that it need not fit in memory.

use super::{TraceError, TracedKind, TracedOperation};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum length of a line, in bytes.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Maximum number of operations that are spread over one second together. Further ones of the same second
/// form another group.
const GROUP_MAX: usize = 1 << 20;
/// Columns of a trace with a header.
const COLUMNS: [&str; 4] = ["time", "operation", "key", "value_size"];
/// Number of fields in a line of Twitter's cache traces.
const TWITTER_FIELDS: usize = 7;

/// The format of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TraceForm {
    /// With a header; times are in seconds with fractions.
    Timed,
    /// Twitter's format, whose times are whole seconds. The operations of a second are spread evenly over
    /// it.
    Twitter,
}

/// Reads the operations of a trace in the order of the file, with their line numbers.
pub struct TraceReader {
    path: PathBuf,
    lines: Box<dyn BufRead + Send>,
    line_number: u64,
    read_bytes: u64,
    /// Size of the file; `None` if it is not a regular file.
    size_bytes: Option<u64>,
    form: TraceForm,
    first_at: Option<Duration>,
    /// Operations of one second, ready to be returned.
    ready: VecDeque<(u64, TracedOperation)>,
    /// The first operation of the next second, or the fault that follows.
    next: Result<Option<(u64, TracedOperation)>, TraceError>,
}

impl std::fmt::Debug for TraceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceReader").field("path", &self.path).finish_non_exhaustive()
    }
}

impl TraceReader {
    /// Opens a trace and reads its first operation.
    ///
    /// # Errors
    ///
    /// When the file can't be read, has no operation, or its first line does not have the form of a trace.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file =
            File::open(path).map_err(|error| TraceError::File { path: path.to_owned(), error })?;
        let size_bytes =
            file.metadata().ok().filter(std::fs::Metadata::is_file).map(|file| file.len());
        let reader = Self::new(path, Box::new(BufReader::with_capacity(1 << 18, file)))?;
        Ok(Self { size_bytes, ..reader })
    }

    /// Share of the file that was read so far, from 0 to 1; `None` if it is not a regular file.
    pub fn progress(&self) -> Option<f64> {
        let size_bytes = self.size_bytes.filter(|size_bytes| *size_bytes > 0)?;
        Some((self.read_bytes as f64 / size_bytes as f64).min(1.0))
    }

    /// Reads a trace from `lines`. `path` is used in errors.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn new(path: &Path, lines: Box<dyn BufRead + Send>) -> Result<Self, TraceError> {
        let mut reader = Self {
            path: path.to_owned(),
            lines,
            line_number: 0,
            read_bytes: 0,
            size_bytes: None,
            form: TraceForm::Timed,
            first_at: None,
            ready: VecDeque::new(),
            next: Ok(None),
        };
        let first = reader.line()?.ok_or_else(|| TraceError::Empty(path.to_owned()))?;
        let fields: Vec<&str> = first.split(',').map(str::trim).collect();
        if fields == COLUMNS {
            reader.next = Ok(reader.operation()?);
        } else if fields.len() == TWITTER_FIELDS {
            reader.form = TraceForm::Twitter;
            reader.next = Ok(Some((1, reader.parse(&first)?)));
        } else {
            return Err(reader.fault("the first line is neither".to_owned()));
        }
        if matches!(reader.next, Ok(None)) {
            return Err(TraceError::Empty(path.to_owned()));
        }
        Ok(reader)
    }

    /// Path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The next operation with its line number; `None` at the end.
    ///
    /// # Errors
    ///
    /// When the file can't be read, or a line does not have the form of a trace.
    pub fn next_operation(&mut self) -> Result<Option<(u64, TracedOperation)>, TraceError> {
        if self.ready.is_empty() {
            self.read_group()?;
        }
        let Some((line, mut operation)) = self.ready.pop_front() else { return Ok(None) };
        let first_at = *self.first_at.get_or_insert(operation.at);
        // Lines of several clients may be slightly out of order. An operation before the first one is due
        // at once.
        operation.at = operation.at.saturating_sub(first_at);
        Ok(Some((line, operation)))
    }

    /// Reads one operation or, if times are whole seconds, all operations of one second.
    fn read_group(&mut self) -> Result<(), TraceError> {
        let Some(first) = std::mem::replace(&mut self.next, Ok(None))? else { return Ok(()) };
        let at = first.1.at;
        self.ready.push_back(first);
        loop {
            let next = self.operation();
            let may_be_same = self.form == TraceForm::Twitter && self.ready.len() < GROUP_MAX;
            match next {
                Ok(Some(operation)) if may_be_same && operation.1.at == at => {
                    self.ready.push_back(operation);
                }
                // A fault is returned after the operations before it.
                next => {
                    self.next = next;
                    break;
                }
            }
        }
        let count = quoit_number::length_u32(self.ready.len());
        for (index, (_, operation)) in (0_u32..).zip(&mut self.ready) {
            operation.at += Duration::from_secs(1) * index / count;
        }
        Ok(())
    }

    fn operation(&mut self) -> Result<Option<(u64, TracedOperation)>, TraceError> {
        while let Some(line) = self.line()? {
            if !line.trim().is_empty() {
                return Ok(Some((self.line_number, self.parse(&line)?)));
            }
        }
        Ok(None)
    }

    /// The next line without its line break.
    fn line(&mut self) -> Result<Option<String>, TraceError> {
        let mut bytes = Vec::new();
        let mut limited = std::io::Read::take(&mut self.lines, LINE_BYTES_MAX as u64);
        let read = limited.read_until(b'\n', &mut bytes);
        read.map_err(|error| TraceError::File { path: self.path.clone(), error })?;
        if bytes.is_empty() {
            return Ok(None);
        }
        self.line_number += 1;
        self.read_bytes += bytes.len() as u64;
        if bytes.len() == LINE_BYTES_MAX && bytes.last() != Some(&b'\n') {
            return Err(self.fault(format!("the line has more than {LINE_BYTES_MAX} bytes")));
        }
        let text = String::from_utf8(bytes);
        let mut text = text.map_err(|_| self.fault("the line is no UTF-8".to_owned()))?;
        text.truncate(text.trim_end_matches(['\n', '\r']).len());
        Ok(Some(text))
    }

    fn parse(&self, line: &str) -> Result<TracedOperation, TraceError> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let (time, word, key, size) = match (self.form, &fields[..]) {
            (TraceForm::Timed, [time, word, key, size]) => (time, word, key, size),
            (TraceForm::Timed, [time, word, key]) => (time, word, key, &""),
            (TraceForm::Twitter, [time, key, _, size, _, word, _]) => (time, word, key, size),
            _ => return Err(self.fault(format!("the line has {} fields", fields.len()))),
        };
        let seconds: Option<f64> = time.parse().ok().filter(|s: &f64| *s >= 0.0 && *s < 1e12);
        let seconds = seconds.ok_or_else(|| self.fault(format!("time is {time:?}")))?;
        let kind = TracedKind::of_word(word);
        let kind = kind.ok_or_else(|| {
            self.fault(format!("operation is {word:?}, and known are get, put and delete"))
        })?;
        if key.is_empty() {
            return Err(self.fault("the key is empty".to_owned()));
        }
        let value_bytes = match (kind, *size) {
            (TracedKind::Put, size) => {
                size.parse().map_err(|_| self.fault(format!("value_size is {size:?}")))?
            }
            _ => 0,
        };
        let at = Duration::from_secs_f64(seconds);
        Ok(TracedOperation { at, kind, key: key.as_bytes().to_vec(), value_bytes })
    }

    fn fault(&self, problem: String) -> TraceError {
        TraceError::Line { path: self.path.clone(), line: self.line_number.max(1), problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_is_the_share_of_a_file_that_was_read() {
        let text = "time,operation,key,value_size\n1,get,a,\n2,get,b,\n3,get,c,\n";
        assert_eq!(open(text).expect("a trace").progress(), None, "its length is not known");
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("t.csv");
        std::fs::write(&path, text).expect("a file");
        let mut reader = TraceReader::open(&path).expect("a trace");
        let mut shares = Vec::new();
        while reader.next_operation().expect("an operation").is_some() {
            shares.push(reader.progress().expect("a share"));
        }
        assert_eq!(shares.len(), 3);
        assert!(shares.is_sorted() && shares[0] > 0.5 && shares[0] < 1.0, "{shares:?}");
        assert_eq!(shares[2], 1.0);
    }

    fn open(text: &str) -> Result<TraceReader, TraceError> {
        let bytes = text.as_bytes().to_vec();
        TraceReader::new(Path::new("t.csv"), Box::new(std::io::Cursor::new(bytes)))
    }

    /// Line number, time in milliseconds, kind, key, and size of the value.
    type Read = (u64, u128, TracedKind, String, u64);

    fn all(text: &str) -> Result<Vec<Read>, String> {
        let mut reader = open(text).map_err(|fault| fault.to_string())?;
        let mut operations = Vec::new();
        while let Some((line, operation)) =
            reader.next_operation().map_err(|fault| fault.to_string())?
        {
            let TracedOperation { at, kind, key, value_bytes } = operation;
            let key = String::from_utf8(key).expect("a text");
            operations.push((line, at.as_millis(), kind, key, value_bytes));
        }
        Ok(operations)
    }

    #[test]
    fn times_count_from_the_first_operation_and_lines_from_one() {
        let text =
            "time,operation,key,value_size\n10.5,get,a,\n10.75, PUT ,b,300\r\n\n10.6,delete,c\n";
        let expected = [
            (2, 0, TracedKind::Get, "a", 0),
            (3, 250, TracedKind::Put, "b", 300),
            (5, 100, TracedKind::Delete, "c", 0),
        ];
        let expected =
            expected.map(|(line, ms, kind, key, size)| (line, ms, kind, key.to_owned(), size));
        assert_eq!(all(text).expect("a trace"), expected);
    }

    #[test]
    fn whole_seconds_of_twitters_traces_are_spread_over_the_second() {
        let text =
            "5,k1,2,100,7,get,0\n5,k2,2,200,7,set,3600\n7,k3,2,0,8,delete,0\n7,k4,2,9,8,incr,0\n";
        let times: Vec<(u128, TracedKind, u64)> = all(text)
            .expect("a trace")
            .into_iter()
            .map(|(_, ms, kind, _, size)| (ms, kind, size))
            .collect();
        let expected = [
            (0, TracedKind::Get, 0),
            (500, TracedKind::Put, 200),
            (2000, TracedKind::Delete, 0),
            (2500, TracedKind::Put, 9),
        ];
        assert_eq!(times, expected);
    }

    #[test]
    fn operations_before_a_fault_are_given_out() {
        let mut reader =
            open("5,k1,2,1,7,get,0\n5,k2,2,1,7,get,0\n5,k3,2,1,7,fly,0\n").expect("a trace");
        for key in ["k1", "k2"] {
            let (_, operation) =
                reader.next_operation().expect("no fault yet").expect("an operation");
            assert_eq!(operation.key, key.as_bytes());
        }
        assert!(reader.next_operation().is_err());
    }

    #[test]
    fn faults_name_the_line_the_value_and_the_form() {
        let header = "time,operation,key,value_size\n";
        for (text, line, words) in [
            ("a,b\n", 1, "the first line is neither"),
            (&format!("{header}x,get,k,\n"), 2, "time is \"x\""),
            (&format!("{header}-1,get,k,\n"), 2, "time is \"-1\""),
            (&format!("{header}1,get,k,\n2,fly,k,\n"), 3, "operation is \"fly\""),
            (&format!("{header}1,put,k,many\n"), 2, "value_size is \"many\""),
            (&format!("{header}1,put,k\n"), 2, "value_size is \"\""),
            (&format!("{header}1,get,,\n"), 2, "the key is empty"),
            (&format!("{header}1,get\n"), 2, "the line has 2 fields"),
        ] {
            let told = all(text).expect_err(text);
            assert!(told.starts_with(&format!("t.csv:{line}: {words}")), "{told}");
            assert!(told.contains("time,operation,key,value_size"), "{told}");
        }
        for empty in ["", header] {
            assert!(
                all(empty).expect_err("no operation").contains("has no operation"),
                "{empty:?}"
            );
        }
    }
}
