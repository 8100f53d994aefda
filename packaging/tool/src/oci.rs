//! An image for containers: an OCI image layout in a tar file, which `podman load`, `skopeo` and `docker
//! load` take.
//!
//! It holds the program, its configuration and nothing else: no shell, no other program.

use crate::contents::{Contents, FILES_UNIX_SECS, VERSION, packed};
use anyhow::Result;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The user that the node runs as, and its group.
const USER: u64 = 10_001;
const DATA_DIR: &str = "var/lib/quoit";
/// Files of the packages that the image has.
const TAKEN: [&str; 2] = ["/usr/bin/quoit", "/etc/quoit/quoit.conf"];
const NANOSECONDS: u64 = 1_000_000_000;

struct Blob {
    digest: String,
    bytes: Vec<u8>,
}

impl Blob {
    fn new(bytes: Vec<u8>) -> Self {
        Self { digest: sha256(&bytes), bytes }
    }

    fn described(&self, media_type: &str) -> Value {
        let digest = format!("sha256:{}", self.digest);
        json!({"mediaType": media_type, "digest": digest, "size": self.bytes.len()})
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.digest)
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes the image; gives its name, too.
pub(crate) fn build(contents: &Contents) -> Result<(String, Vec<u8>)> {
    let arch = match contents.arch {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let plain = layer(contents)?;
    let unpacked = sha256(&plain);
    let layer = Blob::new(packed(&plain)?);
    let config = Blob::new(config(arch, &unpacked).to_string().into_bytes());
    let manifest = Blob::new(
        json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config.described("application/vnd.oci.image.config.v1+json"),
            "layers": [layer.described("application/vnd.oci.image.layer.v1.tar+gzip")],
        })
        .to_string()
        .into_bytes(),
    );
    let mut described = manifest.described("application/vnd.oci.image.manifest.v1+json");
    described["annotations"] = json!({
        "org.opencontainers.image.ref.name": VERSION,
        "io.containerd.image.name": format!("docker.io/library/quoit:{VERSION}"),
    });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [described],
    });
    let older = json!([{
        "Config": config.path(),
        "RepoTags": [format!("quoit:{VERSION}")],
        "Layers": [layer.path()],
    }]);
    let mut image = tar::Builder::new(Vec::new());
    add(&mut image, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#, 0o644, 0)?;
    add(&mut image, "index.json", index.to_string().as_bytes(), 0o644, 0)?;
    // For versions of docker that do not know the layout.
    add(&mut image, "manifest.json", older.to_string().as_bytes(), 0o644, 0)?;
    for blob in [&config, &manifest, &layer] {
        add(&mut image, &blob.path(), &blob.bytes, 0o644, 0)?;
    }
    Ok((format!("quoit-{VERSION}-{arch}.oci.tar"), image.into_inner()?))
}

/// The file system of the image.
fn layer(contents: &Contents) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for name in ["etc", "etc/quoit", "usr", "usr/bin", "var", "var/lib"] {
        directory(&mut archive, name, 0o755, 0)?;
    }
    directory(&mut archive, "tmp", 0o1777, 0)?;
    directory(&mut archive, DATA_DIR, 0o750, USER)?;
    let passwd = format!(
        "root:x:0:0:root:/:/sbin/nologin\nquoit:x:{USER}:{USER}:quoit:/{DATA_DIR}:/sbin/nologin\n"
    );
    add(&mut archive, "etc/passwd", passwd.as_bytes(), 0o644, 0)?;
    add(&mut archive, "etc/group", format!("root:x:0:\nquoit:x:{USER}:\n").as_bytes(), 0o644, 0)?;
    for entry in contents.entries.iter().filter(|entry| TAKEN.contains(&entry.path.as_str())) {
        add(&mut archive, entry.path.trim_start_matches('/'), &entry.bytes, entry.mode, 0)?;
    }
    Ok(archive.into_inner()?)
}

fn config(arch: &str, layer: &str) -> Value {
    let command = [
        "serve",
        "--config=/etc/quoit/quoit.conf",
        "--data-dir=/var/lib/quoit",
        "--pb=0.0.0.0:8087",
        "--http=0.0.0.0:8098",
        "--node=0.0.0.0:8099",
    ];
    json!({
        "architecture": arch,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Entrypoint": ["/usr/bin/quoit"],
            "Cmd": command,
            "Env": ["PATH=/usr/bin"],
            "WorkingDir": format!("/{DATA_DIR}"),
            "ExposedPorts": {"8087/tcp": {}, "8098/tcp": {}, "8099/tcp": {}},
            "Volumes": {format!("/{DATA_DIR}"): {}},
            "StopSignal": "SIGTERM",
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/quoit", "admin", "ping"],
                "Interval": 10 * NANOSECONDS,
                "Timeout": 5 * NANOSECONDS,
                "StartPeriod": 60 * NANOSECONDS,
                "Retries": 6,
            },
            "Labels": {
                "org.opencontainers.image.version": VERSION,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
        "history": [{"created_by": "quoit-package"}],
    })
}

fn header(size: u64, mode: u32, user: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(mode);
    header.set_uid(user);
    header.set_gid(user);
    header.set_mtime(FILES_UNIX_SECS.into());
    header
}

fn directory(archive: &mut tar::Builder<Vec<u8>>, name: &str, mode: u32, user: u64) -> Result<()> {
    let mut header = header(0, mode, user);
    header.set_entry_type(tar::EntryType::Directory);
    Ok(archive.append_data(&mut header, format!("{name}/"), &[][..])?)
}

fn add(
    archive: &mut tar::Builder<Vec<u8>>,
    name: &str,
    bytes: &[u8],
    mode: u32,
    user: u64,
) -> Result<()> {
    Ok(archive.append_data(&mut header(bytes.len() as u64, mode, user), name, bytes)?)
}
