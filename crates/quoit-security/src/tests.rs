use super::*;
use proptest::prelude::*;
use std::net::IpAddr;
use std::sync::Arc;

fn ran(commands: &[&str]) -> Security {
    let mut security = Security::default();
    for command in commands {
        if let Err(refusal) = run(&mut security, command) {
            panic!("{command}: {refusal}");
        }
    }
    security
}

fn run(security: &mut Security, command: &str) -> Result<(), Refusal> {
    let words: Vec<_> = command.split(' ').filter(|word| !word.is_empty()).collect();
    let command = Command::parse(&words)?;
    for change in security.decide(&command)? {
        let (key, value) = change.encode();
        let read = Change::decode(&key, value.as_deref()).expect("what was written is read");
        assert_eq!(read, change);
        security.apply(&read);
    }
    Ok(())
}

fn refused(security: &Security, command: &str) -> String {
    run(&mut security.clone(), command).expect_err(command).to_string()
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn names_are_kept_in_lower_case_and_some_are_refused() {
    let security = ran(&["add-user ALICE", "add-user müller", "add-user a/b", "add-group alice"]);
    assert!(security.user("alice").is_some() && security.user("ALICE").is_none());
    assert_eq!(refused(&security, "add-user Alice"), "This name is already in use");
    assert_eq!(refused(&security, "add-user a,b"), "Illegal character(s) in name");
    assert_eq!(refused(&security, "add-user a:b"), "Illegal character(s) in name");
    for name in ["all", "on", "to", "from", "any"] {
        let refusal = refused(&security, &format!("add-user {name}"));
        assert_eq!(refusal, "This name is reserved for system use");
    }
    assert_eq!(checked_name(""), Err(NameError::Illegal));
    assert_eq!(checked_name(&"x".repeat(256)), Err(NameError::TooLong));
}

#[test]
fn the_longest_prefix_wins_and_the_user_before_all() {
    let security = ran(&[
        "add-user u",
        "add-user v",
        "add-source all 0.0.0.0/0 password",
        "add-source u 10.0.0.0/8 certificate",
        "add-source all 10.0.0.0/8 trust",
        "add-source all 10.1.0.0/16 password",
    ]);
    let kind = |user: &str, from: &str| security.source_for(user, address(from)).map(|it| it.kind);
    assert_eq!(kind("u", "192.0.2.1"), Some(SourceKind::Password));
    assert_eq!(kind("u", "10.9.0.1"), Some(SourceKind::Certificate));
    assert_eq!(kind("v", "10.9.0.1"), Some(SourceKind::Trust));
    assert_eq!(kind("u", "10.1.0.1"), Some(SourceKind::Password));
    assert_eq!(kind("u", "::ffff:10.1.0.1"), Some(SourceKind::Password), "IPv4 within IPv6");
    assert_eq!(kind("u", "2001:db8::1"), None);
    assert_eq!(kind("nobody", "10.1.0.1"), None, "a source for all is for users that exist");
    assert_eq!(kind("all", "10.1.0.1"), None);
}

#[test]
fn blocks_of_addresses_are_read_as_riak_reads_them() {
    for (text, shown) in [
        ("127.0.0/8", "127.0.0.0/8"),
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("::1/128", "::1/128"),
        ("0.0.0.0/0", "0.0.0.0/0"),
    ] {
        assert_eq!(text.parse::<Cidr>().expect(text).to_string(), shown);
    }
    for text in ["127.0.0.1", "300.1.1.1/8", "127.0.0.1/x", "localhost/32", "::1/129", "1.2.3.4/33"]
    {
        let refusal = text.parse::<Cidr>().expect_err(text).to_string();
        assert!(refusal.contains(text), "{refusal}");
    }
}

#[test]
fn rights_come_from_the_user_its_groups_and_all() {
    let security = ran(&[
        "add-group g1",
        "add-group g2 groups=g1",
        "alter-group g1 groups=g2",
        "add-user u groups=g2,all",
        "grant riak_kv.get on default b to g1",
        "grant riak_kv.put on default to g2",
        "grant riak_kv.index on any to all",
        "grant riak_kv.delete on default b to u",
    ]);
    let permissions = security.permissions_of("u").expect("it exists");
    let on = |bucket_type, bucket| permissions.on(BucketName { bucket_type, bucket });
    let on_b = on(b"default", b"b");
    let names: Vec<_> = on_b.iter().map(Permission::name).collect();
    assert_eq!(names, ["riak_kv.get", "riak_kv.put", "riak_kv.delete", "riak_kv.index"]);
    assert!(on(b"default", b"c").contains(Permission::Put));
    assert!(!on(b"default", b"c").contains(Permission::Get));
    assert!(!on(b"other", b"b").contains(Permission::Put));
    assert!(permissions.on_type(b"other").contains(Permission::Index));
    assert!(permissions.on_any().contains(Permission::Index));
    assert!(!permissions.on_any().contains(Permission::Put));
    assert_eq!(security.permissions_of("nobody"), None);
}

#[test]
fn deleting_a_user_or_group_takes_what_belongs_to_it() {
    let mut security = ran(&[
        "add-group staff",
        "add-user alice groups=staff",
        "add-user bob",
        "add-source alice,bob 10.0.0.0/8 trust",
        "grant riak_kv.get on any to alice",
        "grant riak_kv.put on any to staff",
    ]);
    run(&mut security, "del-group staff").expect("it exists");
    assert!(security.user("alice").expect("it exists").groups.is_empty());
    run(&mut security, "del-user alice").expect("it exists");
    assert_eq!(security.sources().count(), 1);
    run(&mut security, "add-user alice").expect("the name is free");
    run(&mut security, "add-group staff").expect("the name is free");
    run(&mut security, "alter-user alice groups=staff").expect("both exist");
    let permissions = security.permissions_of("alice").expect("it exists");
    assert!(permissions.on_any().is_empty(), "what was granted to the old ones is gone");
}

#[test]
fn all_reasons_against_a_grant_are_told_at_once() {
    let security = ran(&["add-user staff", "add-group staff"]);
    assert_eq!(
        refused(&security, "grant riak_kv.fly on any to staff"),
        "Ambiguous names need to be prefixed with 'user/' or 'group/': staff\n\
         Permission not recognized: riak_kv.fly"
    );
    assert_eq!(
        refused(&security, "grant riak_kv.get in default b to staff"),
        "Usage: grant <permissions> on (<type> [bucket]|any) to <users>"
    );
    for bad in ["RIAK_KV.GET", "search.admin", "riak_ts.get", "a.b.c"] {
        let refusal = refused(&security, &format!("grant {bad} on any to user/staff"));
        assert_eq!(refusal, format!("Permission not recognized: {bad}"));
    }
    let bucket_named_to = ["grant", "riak_kv.get", "on", "default", "to", "to", "user/staff"];
    let Ok(Command::Grant { scope, .. }) = Command::parse(&bucket_named_to) else { panic!() };
    assert_eq!(scope, Scope::Bucket("default".into(), "to".into()));
}

#[test]
fn options_are_kept_in_riaks_order() {
    let security = ran(&["add-user alice colour=red Shape=ROUND"]);
    let options = &security.user("alice").expect("it exists").options;
    assert_eq!(*options, [("shape".into(), "ROUND".into()), ("colour".into(), "red".into())]);
    assert_eq!(
        refused(&security, "alter-user alice password"),
        "Invalid option \"password\", options are of the form key=value"
    );
    assert_eq!(
        refused(&security, "alter-user alice"),
        "Usage: quoit admin security alter-user <user> <option> [<option>=<value> [...]]"
    );
}

#[test]
fn sources_that_nobody_can_prove_are_refused() {
    let security = ran(&["add-user alice"]);
    let refusal = refused(&security, "add-source alice 127.0.0.1/32 nonsense");
    assert!(refusal.starts_with("Source not recognized: nonsense"), "{refusal}");
    let refusal = refused(&security, "add-source alice 127.0.0.1/32 pam service=riak");
    assert!(refusal.contains("pam") && refusal.contains("password"), "{refusal}");
    let refusal = refused(&security, "add-source all,alice 127.0.0.1/32 trust");
    assert_eq!(refusal, "User(s) not recognized: all");
}

#[test]
fn limits_are_reached_and_told_as_they_are() {
    let mut security = ran(&["add-user alice", "add-group g"]);
    let (alice, group) = (security.users["alice"].clone(), security.groups["g"].clone());
    let trust = Arc::new(Source { kind: SourceKind::Trust, options: Options::default() });
    let block = |number: usize| format!("10.{}.{}.0/24", number / 256, number % 256);
    security.users = (1..USERS_MAX).map(|number| (format!("u{number}"), alice.clone())).collect();
    security.groups = (1..GROUPS_MAX).map(|number| (format!("g{number}"), group.clone())).collect();
    let key = |number| SourceKey { user: None, cidr: block(number).parse().expect("a block") };
    security.sources = (1..SOURCES_MAX).map(|number| (key(number), Arc::clone(&trust))).collect();
    let of_bucket = |number| (Role::All, Scope::Bucket("t".into(), format!("b{number}")));
    security.grants = (1..GRANTS_MAX).map(|n| (of_bucket(n), PermissionSet::default())).collect();
    let groups = |count: usize| {
        let names: Vec<_> = (1..=count).map(|number| format!("g{number}")).collect();
        format!("alter-user u1 groups={}", names.join(","))
    };
    for (last, next, told) in [
        ("add-user x", "add-user y", "the maximum of 10000 users;"),
        ("add-group x", "add-group y", "the maximum of 10000 groups;"),
        (
            "add-source all 11.0.0.0/8 trust",
            "add-source all 12.0.0.0/8 trust",
            "the maximum of 20000 sources;",
        ),
        (
            "grant riak_kv.get on a to all",
            "grant riak_kv.get on b to all",
            "the maximum of 100000 grants;",
        ),
        (&groups(1000), &groups(1001), "the maximum of 1000 groups of one user or group;"),
    ] {
        run(&mut security, last).expect(last);
        let refusal = refused(&security, next);
        assert!(refusal.contains(told), "{refusal}");
    }
}

#[test]
fn riaks_hashes_and_new_ones_know_their_password() {
    // The salt of the RFC 6070 test with "password" and "salt" is shorter than the allowed minimum, so a
    // longer case of that RFC is used.
    let riaks = PasswordHash::parse(
        "pbkdf2:sha:4096:73616c7453414c5473616c7453414c5473616c7453414c5473616c7453414c5473616c74:\
         3d2eec4fe41c849b80c8d83662c0e44a8b291a964cf2f07038",
    );
    let riaks = riaks.expect("a hash");
    assert!(riaks.is_of(b"passwordPASSWORDpassword"));
    assert!(!riaks.is_of(b"passwordPASSWORDpasswors"));
    let cost = HashingCost { memory_kib: 64, passes: 1 };
    let new = Password::new("secret").expect("short").hashed(Salt([7; 16]), cost).expect("cheap");
    assert!(new.is_of(b"secret") && !new.is_of(b"Secret") && !new.is_of(b""));
    assert_eq!(new.shown().len(), 40);
    let empty = Password::new("").expect("short").hashed(Salt([7; 16]), cost).expect("cheap");
    assert!(empty.is_of(b"") && !empty.is_of(b"x"));
    assert_eq!(
        format!("{new:?} {:?}", Password::new("secret")),
        "PasswordHash(argon2id) Ok(Password(...))"
    );
    for text in
        ["pbkdf2:sha:0:73616c7473616c74:00", "pbkdf2:md5:1:00:00", "x", "pbkdf2:sha:1:zz:00"]
    {
        PasswordHash::parse(text).expect_err(text);
    }
    let dear = HashingCost { memory_kib: 1 << 30, passes: 1 };
    let refused = Password::new("x").expect("short").hashed(Salt([0; 16]), dear);
    assert_eq!(refused, Err(PasswordError::HashingCost));
    let told = PasswordError::HashingCost.to_string();
    assert!(told.contains("1 to 2000000 iterations") && told.contains("8 to 262144 KiB"), "{told}");
    assert!(told.contains("1 to 16 passes"), "{told}");
}

#[test]
fn rows_of_newer_versions_and_damaged_ones_are_refused() {
    for (key, value) in [
        ("later", Some("1")),
        ("user\0a", Some("{")),
        ("user\0a", Some("{\"groups\":[],\"options\":[],\"later\":1}")),
        ("grant\0user\0a", Some("[\"quoit.later\"]")),
        ("grant\0later\0a", Some("[]")),
        ("source\0a\0x", Some("{\"kind\":\"trust\",\"options\":[]}")),
    ] {
        let fault = Change::decode(key, value).expect_err(key).to_string();
        assert!(fault.contains(&key.replace('\0', "/")), "{fault}");
    }
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "G", "all", "to"]).prop_map(str::to_owned)
}

fn command() -> impl Strategy<Value = Vec<String>> {
    let permissions =
        prop::sample::select(vec!["riak_kv.get", "riak_kv.put,riak_kv.get", "quoit.fold"]);
    let scope = prop::sample::select(vec!["any", "t", "t x", "default b"]);
    let cidr = prop::sample::select(vec!["10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0", "::/0"]);
    let kind = prop::sample::select(vec!["trust", "password", "certificate"]);
    let split = |text: String| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    prop_oneof![
        (name(), name()).prop_map(|(a, b)| format!("add-user {a} groups={b}")),
        name().prop_map(|a| format!("add-group {a}")),
        (name(), name()).prop_map(|(a, b)| format!("alter-group {a} groups={b}")),
        name().prop_map(|a| format!("del-user {a}")),
        name().prop_map(|a| format!("del-group {a}")),
        (name(), cidr.clone(), kind).prop_map(|(a, c, k)| format!("add-source {a} {c} {k}")),
        (name(), cidr).prop_map(|(a, c)| format!("del-source {a} {c}")),
        (permissions.clone(), scope.clone(), name())
            .prop_map(|(p, s, a)| format!("grant {p} on {s} to {a}")),
        (permissions, scope, name()).prop_map(|(p, s, a)| format!("revoke {p} on {s} from {a}")),
        Just("enable".to_owned()),
        Just("disable".to_owned()),
    ]
    .prop_map(split)
}

/// Computes the permissions of a role on a bucket by looking at all grants.
fn naive(
    security: &Security,
    role: &Role,
    on: (&str, &str),
    seen: &mut Vec<Role>,
) -> PermissionSet {
    if seen.contains(role) {
        return PermissionSet::default();
    }
    seen.push(role.clone());
    let mut set = PermissionSet::default();
    for ((of, scope), permissions) in &security.grants {
        let applies = match scope {
            Scope::Any => true,
            Scope::Type(bucket_type) => bucket_type == on.0,
            Scope::Bucket(bucket_type, bucket) => (bucket_type.as_str(), bucket.as_str()) == on,
        };
        if applies && (of == role || *of == Role::All) {
            set = set.union(*permissions);
        }
    }
    let groups = match role {
        Role::User(name) => security.user(name).map(|user| &user.groups),
        Role::Group(name) => security.group(name).map(|group| &group.groups),
        Role::All => None,
    };
    for group in groups.into_iter().flatten() {
        set = set.union(naive(security, &Role::Group(group.clone()), on, seen));
    }
    set
}

proptest! {
    #[test]
    fn whatever_is_commanded_the_rules_stay_whole(
        commands in prop::collection::vec(command(), 0..40),
    ) {
        let mut security = Security::default();
        for words in &commands {
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            let _ = run(&mut security, &words.join(" "));
        }
        let mut copied = Security::default();
        for change in security.changes() {
            copied.apply(&change);
        }
        prop_assert_eq!(&copied, &security);
        for (_, user) in security.users() {
            prop_assert!(user.groups.iter().all(|group| security.group(group).is_some()));
        }
        for (key, _) in security.sources() {
            prop_assert!(key.user.as_ref().is_none_or(|user| security.user(user).is_some()));
        }
        for (user, _) in security.users() {
            let permissions = security.permissions_of(user).expect("it exists");
            for on in [("t", "x"), ("t", "y"), ("default", "b"), ("u", "x")] {
                let role = Role::User(user.to_owned());
                let bucket = BucketName { bucket_type: on.0.as_bytes(), bucket: on.1.as_bytes() };
                let naive = naive(&security, &role, on, &mut Vec::new());
                prop_assert_eq!(permissions.on(bucket), naive);
            }
        }
    }

    #[test]
    fn no_words_and_no_rows_make_it_panic(words in prop::collection::vec(".{0,12}", 0..8), key in ".{0,20}") {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        if let Ok(command) = Command::parse(&words) {
            let _ = Security::default().decide(&command);
        }
        let _ = Change::decode(&key, Some(&key));
        let _ = key.parse::<Cidr>();
        let _ = PasswordHash::parse(&key);
    }
}
