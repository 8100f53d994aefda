//! The file with the engines and the progress of a conversion.

use crate::error::StoreError;
use crate::output::{Output, TEMPORARY_SUFFIX};
use quoit_model::hash::Identity;
use quoit_seam::{Disk, RealDisk};
use std::path::Path;

/// Name of the file.
const STATE_NAME: &str = "CONVERSION";

const FORMAT: u32 = 1;

/// Upper bound of the size of the file, in bytes.
const SIZE_BYTES_MAX: usize = 4_096;

/// A conversion that has begun.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartedConversion {
    /// The engine whose data is moved.
    pub from: String,
    /// The engine that it is moved to.
    pub to: String,
    /// Name of the old directory in the base directory.
    pub old_name: String,
    /// Name of the new one there.
    pub new_name: String,
    /// True if the new data is complete, and therefore the valid data.
    pub is_complete: bool,
}

/// Contents of the state file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ConversionState {
    pub(super) started: StartedConversion,
    /// All records before this partition and identity were copied durably.
    pub(super) partition: u16,
    pub(super) identity: Identity,
    /// Number of copied records, and their bytes.
    pub(super) record_count: u64,
    pub(super) byte_count: u64,
    /// Number of pieces of records that could not be read.
    pub(super) damaged_count: u64,
    /// True if the new data lacks records of the old engine, because they could not be read.
    pub(super) lacks_records: bool,
}

impl ConversionState {
    fn text(&self) -> String {
        let StartedConversion { from, to, old_name, new_name, is_complete } = &self.started;
        let Self { partition, identity, record_count, byte_count, damaged_count, .. } = self;
        let lacking = u8::from(self.lacks_records);
        let phase = if *is_complete { "switch" } else { "copy" };
        let place = format!("partition {partition}\nidentity {}\n", identity.0);
        let counts = format!(
            "records {record_count}\nbytes {byte_count}\ndamaged {damaged_count}\nlacking {lacking}\n"
        );
        let names = format!("from {from}\nto {to}\nold {old_name}\nnew {new_name}\n");
        format!("format {FORMAT}\n{names}phase {phase}\n{place}{counts}")
    }

    /// Decodes the output of [`ConversionState::text`]. The error says what is wrong.
    fn read(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let mut value = |name: &str| {
            let line = lines.next().unwrap_or_default();
            let value = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(' '));
            value
                .map(str::to_owned)
                .ok_or_else(|| format!("there is {line:?} in the place of {name}"))
        };
        let number =
            |text: String| text.parse::<u64>().map_err(|_| format!("{text} is not a number"));
        let format = number(value("format")?)?;
        if format != u64::from(FORMAT) {
            return Err(format!(
                "format {format}, this release reads {FORMAT}: finish with the release that wrote it"
            ));
        }
        let started = StartedConversion {
            from: value("from")?,
            to: value("to")?,
            old_name: value("old")?,
            new_name: value("new")?,
            is_complete: value("phase")? == "switch",
        };
        let partition = number(value("partition")?)?;
        Ok(Self {
            started,
            partition: u16::try_from(partition).map_err(|_| "no such partition".to_owned())?,
            identity: Identity(number(value("identity")?)?),
            record_count: number(value("records")?)?,
            byte_count: number(value("bytes")?)?,
            damaged_count: number(value("damaged")?)?,
            lacks_records: number(value("lacking")?)? != 0,
        })
    }

    /// Replaces the contents of the file, durably.
    pub(super) fn write(&self, disk: &dyn Disk) -> Result<(), StoreError> {
        let mut output = Output::create(disk, STATE_NAME)?;
        output.push(self.text().as_bytes())?;
        output.finish()
    }

    /// Reads the state file of a directory; `None` if there is none.
    pub(super) fn load(directory: &Path) -> Result<Option<Self>, StoreError> {
        if !directory.join(STATE_NAME).exists() {
            return Ok(None);
        }
        let disk = RealDisk::open(directory)?;
        let mut bytes = vec![0; SIZE_BYTES_MAX];
        let count = disk.open(STATE_NAME, false)?.read_at(&mut bytes, 0)?;
        bytes.truncate(count);
        let text = String::from_utf8_lossy(&bytes);
        Self::read(&text).map(Some).map_err(|reason| StoreError::Corrupt {
            path: directory.join(STATE_NAME).display().to_string(),
            offset: 0,
            reason,
        })
    }

    /// True for the name of the file, and for that of an unfinished version of it.
    pub(super) fn is_name(name: &str) -> bool {
        name.strip_prefix(STATE_NAME)
            .is_some_and(|rest| rest.is_empty() || rest == TEMPORARY_SUFFIX)
    }

    /// Removes the file durably.
    pub(super) fn remove(disk: &dyn Disk) -> Result<(), StoreError> {
        disk.remove(STATE_NAME)?;
        Ok(disk.sync_directory()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let started = StartedConversion {
            from: "bitcask".into(),
            to: "leveldb".into(),
            old_name: "bitcask".into(),
            new_name: "a name".into(),
            is_complete: true,
        };
        let state = ConversionState {
            started,
            partition: 63,
            identity: Identity(u64::MAX),
            record_count: 1,
            byte_count: 2,
            damaged_count: 3,
            lacks_records: true,
        };
        let text = state.text();
        assert_eq!(ConversionState::read(&text), Ok(state.clone()));
        for end in 0..text.len() - 1 {
            let cut = ConversionState::read(&text[..end]);
            assert!(cut.is_err() || text[end..].trim_end().parse::<u64>().is_ok(), "{end}");
        }
        let newer = ConversionState::read(&text.replace("format 1", "format 2")).unwrap_err();
        assert!(newer.contains("finish with the release that wrote it"), "{newer}");
    }
}
