//! The directory of one run.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::OutputError;
use crate::config::ConfigText;

/// Name of the link in the base directory that points to the newest run.
const CURRENT: &str = "current";

/// The table of an experiment with growing data types.
pub(crate) const GROWTH_FILE: &str = "crdt-growth.csv";

/// Every run leaves one of these tables.
const TABLES: [&str; 2] = ["summary.csv", GROWTH_FILE];

/// A directory that belongs to one run.
#[derive(Debug, Clone)]
pub(crate) struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// Creates `base/name`, or `base/YYYYMMDD_HHMMSS` by local time, and points `base/current` at it.
    pub(crate) fn create(base: &Path, name: Option<&str>) -> Result<Self, OutputError> {
        if let Some(name) = name {
            let is_plain = !matches!(name, "" | "." | ".." | CURRENT) && !name.contains('/');
            if !is_plain {
                return Err(OutputError::Name(name.to_owned()));
            }
        }
        fs::create_dir_all(base).map_err(OutputError::write(base))?;
        let name = match name {
            Some(name) => name.to_owned(),
            None => Self::claim_time_stamp(base)?,
        };
        let path = base.join(&name);
        fs::create_dir_all(&path).map_err(OutputError::write(&path))?;
        if TABLES.iter().any(|name| path.join(name).exists()) {
            return Err(OutputError::Occupied(path));
        }
        point_link(base, &name)?;
        Ok(Self { path })
    }

    /// Creates a directory that is named after the local time and did not exist before.
    fn claim_time_stamp(base: &Path) -> Result<String, OutputError> {
        let stamp = jiff::Zoned::now().strftime("%Y%m%d_%H%M%S").to_string();
        let mut name = stamp.clone();
        for number in 2_u32.. {
            match fs::create_dir(base.join(&name)) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    name = format!("{stamp}_{number}");
                }
                made => {
                    made.map_err(OutputError::write(base.join(&name)))?;
                    break;
                }
            }
        }
        Ok(name)
    }

    /// Path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a configuration that exists in no file, and returns its name.
    pub(crate) fn write_config(&self, text: ConfigText<'_>) -> Result<String, OutputError> {
        let ConfigText { name, text } = text;
        let path = self.path.join(name);
        fs::write(&path, text).map_err(OutputError::write(path))?;
        Ok(name.to_owned())
    }

    /// Copies each configuration file to the directory. A file whose name is taken gets a number as prefix.
    /// Returns the names of the copies.
    pub(crate) fn copy_configs(&self, configs: &[PathBuf]) -> Result<Vec<String>, OutputError> {
        let mut names = Vec::new();
        for (index, config) in configs.iter().enumerate() {
            let Some(name) = config.file_name() else { continue };
            let mut name = name.to_owned();
            if self.path.join(&name).exists() {
                name = format!("{}-{}", index + 1, name.to_string_lossy()).into();
            }
            let copy = self.path.join(&name);
            fs::copy(config, &copy).map_err(OutputError::write(copy))?;
            names.push(name.to_string_lossy().into_owned());
        }
        Ok(names)
    }
}

/// Points the link in the base directory at the run with a name. Leaves anything that is not a link alone.
fn point_link(base: &Path, run: &str) -> Result<(), OutputError> {
    let link = &base.join(CURRENT);
    if link.is_symlink() {
        fs::remove_file(link).map_err(OutputError::write(link))?;
    }
    match std::os::unix::fs::symlink(run, link) {
        // Another run has created the link at the same moment, or a user's file has this name.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        linked => linked.map_err(OutputError::write(link)),
    }
}
