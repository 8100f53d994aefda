//! Configuration files of a node.

use std::path::Path;

use quoit_config::{parse_text, settings_of};

use crate::Target;

pub(crate) const TARGET: Target = Target { name: "configuration", run, seeds };

/// Checks that a file is accepted or refused with a message, and that accepted settings can be used. Every
/// file that it includes is the file itself.
fn run(input: &[u8]) {
    let mut read = |_: &Path| Ok(input.to_vec());
    let entries = match parse_text(Path::new("quoit.conf"), input, &mut read) {
        Ok(entries) => entries,
        Err(fault) => return assert!(!fault.to_string().is_empty()),
    };
    match settings_of(entries) {
        Ok(settings) => {
            let _ = (settings.storage(), settings.store(), settings.server(), settings.log_level());
            for (name, entry) in settings.entries() {
                assert_eq!(
                    settings.get(name),
                    Some(entry.value.as_str()),
                    "{name} reads otherwise"
                );
            }
        }
        Err(fault) => assert!(!fault.to_string().is_empty()),
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let files: [&[u8]; 5] = [
        b"# a comment\nnodename = riak@127.0.0.1\nring_size = 64 # more\n\ndelete_mode = 3000\n",
        b"object.size.maximum = 50MB\nobject.siblings.maximum = 100\ndelete_mode=keep\n",
        b"storage_backend = memory\nbitcask.expiry = 1d12h\nsecure_referer_check = off\n",
        b"\xef\xbb\xbfrequest.maximum_size=1GB\nlistener.http.internal = [::1]:8098\nlog.level=notice\n",
        b"anti_entropy.tree.expiry = 1w\nbuckets.default.pr = quorum\ninclude more.conf\n",
    ];
    files.map(<[u8]>::to_vec).into()
}
