//! Settings of the driver `http_raw`.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{Config, ConfigError, Target, TargetKeys};
use crate::driver::disconnect::Disconnect;
use crate::driver::http_link::{ENCODED_PATH, PATH, append_to_path, read_headers, read_use_ssl};
use crate::keygen::{Key, KeyKind};
use crate::login::HttpSecurity;

/// The settings that all workers share.
#[derive(Debug)]
pub(in crate::driver) struct HttpRawPlan {
    pub(super) targets: Vec<Target>,
    pub(super) security: Option<Arc<HttpSecurity>>,
    /// For each target the header lines of every request: `Host:` and the extra headers.
    common_headers: Vec<Vec<u8>>,
    /// Path before the key, ending in a slash.
    pub(super) key_prefix: Vec<u8>,
    pub(super) bucket_path: Vec<u8>,
    pub(super) params: Vec<u8>,
    pub(super) timeout: Duration,
    pub(super) disconnect: Disconnect,
    pub(super) key_kind: KeyKind,
    pub(super) is_verified: bool,
    /// Files that `put_file` stores, in order of their names; `None` without `file_dir`.
    pub(super) files: Option<Vec<PathBuf>>,
}

#[expect(clippy::indexing_slicing, reason = "workers take numbers of targets of their plan")]
impl HttpRawPlan {
    /// The target with a number.
    pub(super) fn target(&self, number: usize) -> &Target {
        &self.targets[number]
    }

    /// The header lines of every request to the target with a number.
    pub(super) fn headers(&self, number: usize) -> &[u8] {
        &self.common_headers[number]
    }
}

/// Writes prefix, key and parameters. Only bytes that a path cannot contain are percent-encoded. A `%` in a
/// string key counts as the beginning of an existing encoding.
pub(super) fn write_path(path: &mut Vec<u8>, plan: &HttpRawPlan, key: &Key) {
    path.clear();
    path.extend_from_slice(&plan.key_prefix);
    if plan.key_kind == KeyKind::Integer {
        write!(path, "{}", key.integer()).expect("writing to a vector does not fail");
    }
    let kept = if plan.key_kind == KeyKind::String { ENCODED_PATH } else { PATH };
    append_to_path(path, key.bytes(), kept);
    path.extend_from_slice(&plan.params);
}

pub(super) fn read_plan(config: &Config) -> Result<HttpRawPlan, ConfigError> {
    let settings = &config.settings;
    let targets = config.targets(TargetKeys {
        ips: "http_raw_ips",
        port: "http_raw_port",
        default_port: 8098,
    })?;
    let security = read_use_ssl(settings)?;
    let is_path =
        |text: &String| text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic());
    let expected_path = "write a path such as \"/riak/test\", percent-encoded";
    let path = settings.read("http_raw_path", "/riak/test".to_owned(), expected_path, |term| {
        term.as_text().filter(is_path)
    })?;
    let expected_params = "write parameters such as \"?r=1&w=1\", percent-encoded";
    let params = settings.read("http_raw_params", String::new(), expected_params, |term| {
        term.as_text().filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()))
    })?;
    let extra_headers = read_headers(settings, "http_raw_append_headers")?;
    let common_headers = targets
        .iter()
        .map(|target| [format!("Host: {target}\r\n").into_bytes(), extra_headers.clone()].concat())
        .collect();
    let bucket_path = path.trim_end_matches('/').as_bytes().to_vec();
    Ok(HttpRawPlan {
        targets,
        security,
        common_headers,
        key_prefix: [&bucket_path[..], b"/"].concat(),
        bucket_path,
        params: params.into_bytes(),
        timeout: settings.time_limit("http_raw_request_timeout", Duration::from_secs(5))?,
        disconnect: Disconnect::read(settings, "http_raw_disconnect_frequency")?,
        key_kind: config.key_generator.kind(),
        is_verified: config.verify.is_some(),
        files: read_files(config)?,
    })
}

/// The files of the directory `file_dir`, in order of their names, without subdirectories.
fn read_files(config: &Config) -> Result<Option<Vec<PathBuf>>, ConfigError> {
    let Some(term) = config.settings.get("file_dir") else { return Ok(None) };
    let Some(directory) = term.as_text() else {
        return Err(config.settings.value_error("file_dir", "write a path"));
    };
    let files = || {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.is_file() {
                files.push(path);
            }
        }
        files.sort();
        Ok::<_, std::io::Error>(files)
    };
    match files() {
        Ok(files) => Ok(Some(files)),
        Err(error) => {
            let expected = format!("the directory cannot be read: {error}");
            Err(config.settings.value_error("file_dir", expected))
        }
    }
}
