//! A package for Red Hat and its kin.

use crate::contents::{Contents, DESCRIPTION, FILES_UNIX_SECS, HOMEPAGE, SUMMARY, VERSION};
use anyhow::Result;
use rpm::{BuildConfig, CompressionType, FileOptions, PackageBuilder};

const POST_INSTALL: &str = "systemd-sysusers quoit.conf || :\nsystemctl daemon-reload || :\n\
     systemctl preset quoit.service || :\n";
const BEFORE_REMOVAL: &str =
    "if [ \"$1\" = 0 ]; then systemctl disable --now quoit.service || :; fi\n";
const AFTER_REMOVAL: &str = "systemctl daemon-reload || :\n\
     if [ \"$1\" -ge 1 ]; then systemctl try-restart quoit.service || :; fi\n";

/// Makes the package; gives its name, too.
pub(crate) fn build(contents: &Contents) -> Result<(String, Vec<u8>)> {
    let mut builder = PackageBuilder::new("quoit", VERSION, "Apache-2.0", contents.arch, SUMMARY);
    // No time of its own: the same input gives the same bytes.
    builder.using_config(
        BuildConfig::default().compression(CompressionType::Gzip).source_date(FILES_UNIX_SECS),
    );
    builder.description(DESCRIPTION).url(HOMEPAGE).build_host("localhost");
    for entry in &contents.entries {
        let path = entry.path.replace("/zsh/vendor-completions/", "/zsh/site-functions/");
        let options = FileOptions::new(path).permissions(u16::try_from(entry.mode)?);
        let options = if entry.is_config { options.config().noreplace() } else { options };
        builder.with_file_contents(entry.bytes.clone(), options)?;
    }
    builder.post_install_script(POST_INSTALL);
    builder.pre_uninstall_script(BEFORE_REMOVAL);
    builder.post_uninstall_script(AFTER_REMOVAL);
    let mut bytes = Vec::new();
    builder.build()?.write(&mut bytes)?;
    Ok((format!("quoit-{VERSION}-1.{}.rpm", contents.arch), bytes))
}
