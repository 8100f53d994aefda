//! Security: an operator's commands, rows of rules, address blocks, password hashes, and credentials in
//! headers.

use crate::Target;
use quoit_security::{Change, Cidr, Command, PasswordHash, Security};
use quoit_server::Credentials;

pub(crate) const TARGET: Target = Target { name: "security", run, seeds };

/// Runs commands, one per line, and checks that their changes survive being encoded and decoded again. Also
/// runs the other parsers on the input.
fn run(input: &[u8]) {
    let _ = Credentials::of_header(input);
    let Ok(text) = std::str::from_utf8(input) else { return };
    let _ = (text.parse::<Cidr>(), PasswordHash::parse(text));
    if let Some((key, value)) = text.split_once('\n') {
        let _ = Change::decode(key, Some(value));
    }
    let mut security = Security::default();
    for line in text.lines().take(50) {
        let words: Vec<&str> = line.split(' ').collect();
        let Ok(mut command) = Command::parse(&words) else { continue };
        if let Some(settings) = command.settings_mut() {
            settings.password = None;
        }
        let Ok(changes) = security.decide(&command) else { continue };
        for change in changes {
            let (key, value) = change.encode();
            let read = Change::decode(&key, value.as_deref()).expect("a row of our own is read");
            assert_eq!(read, change, "a change differs by being written");
            security.apply(&read);
        }
    }
    for (user, _) in security.users() {
        assert!(security.permissions_of(user).is_some(), "a user has rights, if only none");
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 6] = [
        b"add-group g\nadd-user u groups=g colour=red\nadd-source u,v 10.0.0.0/8 password\n\
          grant riak_kv.get,riak_kv.put on default b to u\nrevoke riak_kv.get on any from all\nenable",
        b"add-user u password_hash=pbkdf2:sha:65536:00112233445566778899aabbccddeeff:\
          00112233445566778899aabbccddeeff00112233\ndel-user u\nciphers ECDHE-RSA-AES128-GCM-SHA256",
        b"Basic dXNlcjpwYXNz",
        b"::1/128",
        b"user\0alice\n{\"groups\":[\"g\"],\"options\":[[\"a\",\"b\"]]}",
        b"grant\0all\0\0default\0b\n[\"riak_kv.get\"]",
    ];
    texts.map(<[u8]>::to_vec).into()
}
