//! The directory of one run.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::OutputError;

/// The link in the base directory to the newest run.
const CURRENT: &str = "current";

/// The table of an experiment with data types that grow.
pub(crate) const GROWTH_FILE: &str = "crdt-growth.csv";

/// Each run leaves one of them.
const TABLES: [&str; 2] = ["summary.csv", GROWTH_FILE];

/// A directory that belongs to one run.
#[derive(Debug, Clone)]
pub(crate) struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// Makes `base/name`, or `base/YYYYMMDD_HHMMSS` of the local time, and points `base/current`
    /// at it.
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
        point_link(&base.join(CURRENT), Path::new(&name))?;
        Ok(Self { path })
    }

    /// Makes a directory that is named after the local time and is not there yet.
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

    /// Where the directory is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a configuration that is in no file; gives its name.
    pub(crate) fn write_config(&self, name: &str, text: &str) -> Result<String, OutputError> {
        let path = self.path.join(name);
        fs::write(&path, text).map_err(OutputError::write(path))?;
        Ok(name.to_owned())
    }

    /// Keeps a copy of each configuration file; a second one of the same name gets a number.
    /// Gives the names of the copies.
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

/// Makes the link anew; something that is no link is left alone.
fn point_link(link: &Path, run: &Path) -> Result<(), OutputError> {
    if link.is_symlink() {
        fs::remove_file(link).map_err(OutputError::write(link))?;
    }
    match std::os::unix::fs::symlink(run, link) {
        // Another run made it at the same moment, or it is the user's own file.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        linked => linked.map_err(OutputError::write(link)),
    }
}
