//! Configuration files under random changes. The fuzz crate can't see into a program, so its
//! runner comes here.

use super::parse::{Line, Origin, setting};
use super::settings::{Sources, load};
use quoit_fuzz::Target;
use quoit_fuzz::smoke::{Plan, run};
use std::path::Path;
use std::time::Duration;

const TARGET: Target = Target { name: "configuration", run: take_or_refuse, seeds };

/// Whatever the lines are, they are taken or refused in words, and what was taken can be used.
fn take_or_refuse(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let is_setting =
        |line: &&str| matches!(setting(line, Origin::CommandLine), Ok(Some(Line::Setting(_))));
    let command_line: Vec<String> = text.lines().filter(is_setting).map(str::to_owned).collect();
    match load(&Sources { command_line, ..Sources::default() }) {
        Ok(settings) => drop((settings.storage(), settings.store(), settings.server())),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let files: [&[u8]; 4] = [
        b"# a comment\nnodename = riak@127.0.0.1\nring_size = 64 # more\n\ndelete_mode = 3000\n",
        b"object.size.maximum = 50MB\nobject.siblings.maximum = 100\ndelete_mode=keep\n",
        b"storage_backend = memory\nbitcask.expiry = 1d12h\nsecure_referer_check = off\n",
        b"\xef\xbb\xbfrequest.maximum_size=1GB\nlistener.http.internal = [::1]:8098\ninclude x\n",
    ];
    files.map(<[u8]>::to_vec).into()
}

#[test]
fn any_configuration_is_taken_or_refused_in_words() {
    let plan = Plan {
        random_count: 4_000,
        time_max: Duration::from_secs(4),
        seed: 1,
        corpus: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus"),
    };
    let report = run(&TARGET, &plan, |_| {}).expect("the kept inputs can be read");
    if let Some(failure) = report.failure {
        let input = String::from_utf8_lossy(&failure.input);
        panic!("{}: {}: {input:?}", failure.origin, failure.said);
    }
}
