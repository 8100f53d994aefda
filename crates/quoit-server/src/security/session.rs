//! The login of one connection, and its cached permissions.
//!
//! The control plane increments the security epoch with every change of security. A session stores the
//! epochs at which its cached decisions hold, so that a request needs one load and one comparison to find
//! out that they still hold.

use super::connection_security::ConnectionSecurity;
use super::login::Login;
use super::required_permission::{PermissionScope, RequiredPermission};
use crate::stream::Stream;
use quoit_cluster::ControlPlane;
use quoit_model::key::BucketRef;
use quoit_security::{BucketName, PermissionSet, UserPermissions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// An epoch that never occurs, so that the rules are checked next time.
const NEVER: u64 = 0;
/// Number of buckets whose permissions are cached.
const CACHED_BUCKET_COUNT: usize = 4;

/// State of a connection by the current rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AccessState {
    /// Nothing is checked: security is off, or the client is exempt.
    Open,
    /// The client has not logged in.
    Unauthenticated,
    /// The client has logged in.
    User,
    /// The client has logged in, but its user was deleted since.
    UserDeleted,
}

/// Cached permissions for one bucket.
struct CachedPermissions {
    bucket_type: Vec<u8>,
    bucket: Vec<u8>,
    permissions: PermissionSet,
}

impl CachedPermissions {
    fn is_of(&self, bucket: BucketRef<'_>) -> bool {
        self.bucket == bucket.bucket && self.bucket_type == bucket.bucket_type
    }

    /// Replaces the contents by those of another bucket, and reuses the allocations.
    fn replace(&mut self, bucket: BucketRef<'_>, permissions: PermissionSet) {
        self.bucket_type.clear();
        self.bucket_type.extend_from_slice(bucket.bucket_type);
        self.bucket.clear();
        self.bucket.extend_from_slice(bucket.bucket);
        self.permissions = permissions;
    }
}

/// The login of one connection, and its cached permissions.
pub(crate) struct Session {
    epoch: Arc<AtomicU64>,
    /// The epoch at which nothing is checked.
    open_at: u64,
    /// The epoch at which the rules were last read.
    seen_at: u64,
    /// The epoch at which the client is logged in as an existing user.
    user_at: u64,
    /// True for an operator at the administration socket.
    is_operator: bool,
    /// The switch that lets clients without TLS in; `None` if it does not apply to this connection.
    plaintext: Option<Arc<AtomicBool>>,
    /// True if the client is served only because of that switch.
    is_served_without_tls: bool,
    user: Option<User>,
}

struct User {
    name: Arc<str>,
    /// `None` if the user was deleted.
    permissions: Option<UserPermissions>,
    /// Permissions for the most recent buckets, at most [`CACHED_BUCKET_COUNT`].
    kept: Vec<CachedPermissions>,
    /// Index of the most recently used entry.
    latest: usize,
}

impl Session {
    pub(crate) fn new(
        control: &ControlPlane,
        security: &ConnectionSecurity,
        stream: &Stream,
    ) -> Self {
        Self::of(control, stream.is_operator(), security.plaintext.switch_for(stream))
    }

    fn of(control: &ControlPlane, is_operator: bool, plaintext: Option<Arc<AtomicBool>>) -> Self {
        Self {
            epoch: Arc::clone(control.security_epoch()),
            open_at: NEVER,
            seen_at: NEVER,
            user_at: NEVER,
            is_operator,
            plaintext,
            is_served_without_tls: false,
            user: None,
        }
    }

    /// True if the client has no TLS while security is on, and is served anyway.
    #[inline]
    pub(crate) const fn is_served_without_tls(&self) -> bool {
        self.is_served_without_tls
    }

    /// Records that the client uses TLS from now on.
    pub(crate) fn leave_plaintext(&mut self) {
        self.plaintext = None;
        self.is_served_without_tls = false;
        (self.open_at, self.seen_at, self.user_at) = (NEVER, NEVER, NEVER);
    }

    /// True if nothing is checked. Costs one load and one comparison.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.epoch.load(Ordering::Acquire) == self.open_at
    }

    /// True if the client has logged in and the rules have not changed since. Costs one load and one
    /// comparison.
    #[inline]
    pub(crate) fn is_user(&self) -> bool {
        self.epoch.load(Ordering::Acquire) == self.user_at
    }

    /// The state of the connection by the current rules. Costs one load and one comparison for a user if
    /// the rules have not changed.
    #[inline]
    pub(crate) fn access_state(&mut self, control: &ControlPlane) -> AccessState {
        let epoch = self.epoch.load(Ordering::Acquire);
        if epoch == self.user_at { AccessState::User } else { self.refresh(control, epoch) }
    }

    /// Reads the rules again if they have changed.
    #[cold]
    fn refresh(&mut self, control: &ControlPlane, epoch: u64) -> AccessState {
        if epoch != self.seen_at {
            // The state may be newer than `epoch`; then the next request reads it once more.
            let state = control.read();
            self.read_rules(&state, epoch);
        }
        match &self.user {
            _ if self.open_at == self.seen_at => AccessState::Open,
            None => AccessState::Unauthenticated,
            Some(User { permissions: Some(_), .. }) => AccessState::User,
            Some(_) => AccessState::UserDeleted,
        }
    }

    fn read_rules(&mut self, state: &quoit_cluster::State, epoch: u64) {
        let security = state.security();
        let is_free = self.is_operator || !security.is_enabled();
        let serves_plaintext =
            || self.plaintext.as_ref().is_some_and(|plaintext| plaintext.load(Ordering::Acquire));
        self.is_served_without_tls = !is_free && serves_plaintext();
        let is_open = is_free || self.is_served_without_tls;
        (self.seen_at, self.open_at, self.user_at) = (epoch, NEVER, NEVER);
        if let Some(user) = &mut self.user {
            user.permissions = security.permissions_of(&user.name);
            user.kept.clear();
        }
        let is_user = self.user.as_ref().is_some_and(|user| user.permissions.is_some());
        if is_open {
            self.open_at = epoch;
        } else if is_user {
            self.user_at = epoch;
        }
    }

    /// Records a successful login.
    pub(crate) fn log_in(&mut self, login: Login) {
        let Login { name } = login;
        self.user = Some(User { name, permissions: None, kept: Vec::new(), latest: 0 });
        (self.seen_at, self.user_at) = (NEVER, NEVER);
    }

    /// Forgets the login.
    pub(crate) fn log_out(&mut self) {
        self.user = None;
        self.user_at = NEVER;
    }

    /// The name of the user.
    pub(crate) fn user(&self) -> Option<&str> {
        self.user.as_ref().map(|user| &*user.name)
    }

    /// Checks that the user has a permission. Everything is allowed while nothing is checked. Costs a load,
    /// a comparison of names and a test of a bit for the most recent bucket.
    ///
    /// # Errors
    ///
    /// The text of the refusal, as in Riak.
    #[inline]
    pub(crate) fn check(
        &mut self,
        control: &ControlPlane,
        need: &RequiredPermission<'_>,
    ) -> Result<(), String> {
        let epoch = self.epoch.load(Ordering::Acquire);
        let is_allowed = epoch == self.open_at
            || epoch == self.user_at
                && self.user.as_ref().is_some_and(|user| user.is_permitted(need));
        if is_allowed { Ok(()) } else { self.check_anew(control, need) }
    }

    /// Checks a permission that the most recent cache entry does not grant.
    #[inline(never)]
    fn check_anew(
        &mut self,
        control: &ControlPlane,
        need: &RequiredPermission<'_>,
    ) -> Result<(), String> {
        match self.access_state(control) {
            AccessState::Open => Ok(()),
            AccessState::User if self.user.as_mut().is_some_and(|user| user.may(need)) => Ok(()),
            AccessState::User => Err(need.denied(self.user().unwrap_or_default())),
            // Connections check for these states before they handle a request.
            AccessState::Unauthenticated | AccessState::UserDeleted => {
                Err("Security is enabled, please authenticate first".to_owned())
            }
        }
    }
}

impl User {
    /// True if the most recent cache entry grants the permission.
    #[inline]
    fn is_permitted(&self, need: &RequiredPermission<'_>) -> bool {
        let PermissionScope::Bucket(bucket) = need.on else { return false };
        let latest = self.kept.get(self.latest);
        latest.is_some_and(|kept| kept.permissions.contains(need.permission) && kept.is_of(bucket))
    }

    fn may(&mut self, need: &RequiredPermission<'_>) -> bool {
        let Some(user_permissions) = &self.permissions else { return false };
        match need.on {
            PermissionScope::Any => user_permissions.on_any().contains(need.permission),
            PermissionScope::Type(bucket_type) => {
                user_permissions.on_type(bucket_type).contains(need.permission)
            }
            PermissionScope::Bucket(bucket) => {
                let mut kept = self.kept.iter().enumerate();
                if let Some((place, kept)) = kept.find(|(_, kept)| kept.is_of(bucket)) {
                    self.latest = place;
                    return kept.permissions.contains(need.permission);
                }
                let BucketRef { bucket_type, bucket: name } = bucket;
                let permissions = user_permissions.on(BucketName { bucket_type, bucket: name });
                self.keep(bucket, permissions);
                permissions.contains(need.permission)
            }
        }
    }

    fn keep(&mut self, bucket: BucketRef<'_>, permissions: PermissionSet) {
        if self.kept.len() < CACHED_BUCKET_COUNT {
            self.latest = self.kept.len();
            let (bucket_type, bucket) = (bucket.bucket_type.to_vec(), bucket.bucket.to_vec());
            self.kept.push(CachedPermissions { bucket_type, bucket, permissions });
            return;
        }
        self.latest = (self.latest + 1) % CACHED_BUCKET_COUNT;
        if let Some(oldest) = self.kept.get_mut(self.latest) {
            oldest.replace(bucket, permissions);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_cluster::{NodeId, Settings};
    use quoit_seam::RealDisk;
    use quoit_security::{Command, Permission};

    /// Security rules that a test changes.
    struct Rules {
        control: ControlPlane,
        _folder: tempfile::TempDir,
    }

    impl Rules {
        async fn new(commands: &[&str]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let disk = Arc::new(RealDisk::open(folder.path()).unwrap());
            let settings = Settings::new("quoit@127.0.0.1", NodeId([7; 16]));
            let control = ControlPlane::open(disk, settings).unwrap();
            let rules = Self { control, _folder: folder };
            for words in commands {
                rules.run(words).await;
            }
            rules
        }

        async fn run(&self, words: &str) {
            let words: Vec<&str> = words.split(' ').collect();
            let command = Command::parse(&words).unwrap();
            self.control.run(quoit_cluster::Command::Security(&command)).await.unwrap();
        }

        fn may(&self, session: &mut Session, permission: Permission, bucket: &[u8]) -> bool {
            session
                .check(
                    &self.control,
                    &RequiredPermission::of_bucket(permission, BucketRef::untyped(bucket)),
                )
                .is_ok()
        }
    }

    fn logged_in(rules: &Rules) -> Session {
        let mut session = Session::of(&rules.control, false, None);
        session.log_in(Login { name: "shop".into() });
        session
    }

    #[tokio::test]
    async fn decisions_are_those_of_the_rules_for_more_buckets_than_are_kept() {
        let buckets: Vec<String> =
            (0..3 * CACHED_BUCKET_COUNT).map(|number| format!("b{number}")).collect();
        let rules = Rules::new(&["add-user shop", "enable"]).await;
        for bucket in buckets.iter().step_by(2) {
            rules.run(&format!("grant riak_kv.get on default {bucket} to shop")).await;
        }
        let mut session = logged_in(&rules);
        for round in 0..3 {
            for (number, bucket) in buckets.iter().enumerate() {
                // The same bucket twice: the second check uses the cache.
                for _ in 0..2 {
                    let may = |permission, session: &mut Session| {
                        rules.may(session, permission, bucket.as_bytes())
                    };
                    assert_eq!(
                        may(Permission::Get, &mut session),
                        number % 2 == 0,
                        "{round}: {bucket}"
                    );
                    assert!(!may(Permission::Put, &mut session), "{round}: {bucket}");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_right_ends_with_the_next_check_and_so_does_its_absence() {
        let rules = Rules::new(&["add-user shop", "enable"]).await;
        let mut session = logged_in(&rules);
        for _ in 0..2 {
            assert!(!rules.may(&mut session, Permission::Get, b"b"));
            rules.run("grant riak_kv.get on any to shop").await;
            assert!(rules.may(&mut session, Permission::Get, b"b"));
            assert!(rules.may(&mut session, Permission::Get, b""));
            rules.run("revoke riak_kv.get on any from shop").await;
        }
        assert_eq!(session.access_state(&rules.control), AccessState::User);
        assert!(session.is_user());
        rules.run("del-user shop").await;
        assert!(!session.is_user());
        assert_eq!(session.access_state(&rules.control), AccessState::UserDeleted);
        rules.run("disable").await;
        assert_eq!(session.access_state(&rules.control), AccessState::Open);
        assert!(rules.may(&mut session, Permission::Put, b"b"));
    }

    #[tokio::test]
    async fn clients_in_clear_are_served_as_long_as_the_switch_says_so() {
        let rules = Rules::new(&["enable"]).await;
        let plaintext = Arc::new(AtomicBool::new(true));
        let mut session = Session::of(&rules.control, false, Some(Arc::clone(&plaintext)));
        assert_eq!(session.access_state(&rules.control), AccessState::Open);
        assert!(session.is_served_without_tls());
        plaintext.store(false, Ordering::Release);
        rules.control.security_epoch().fetch_add(1, Ordering::Release);
        assert!(!session.is_open());
        assert_eq!(session.access_state(&rules.control), AccessState::Unauthenticated);
        plaintext.store(true, Ordering::Release);
        rules.control.security_epoch().fetch_add(1, Ordering::Release);
        assert_eq!(session.access_state(&rules.control), AccessState::Open);
        session.leave_plaintext();
        assert_eq!(
            session.access_state(&rules.control),
            AccessState::Unauthenticated,
            "it speaks TLS now"
        );
        rules.run("disable").await;
        assert_eq!(session.access_state(&rules.control), AccessState::Open);
        assert!(!session.is_served_without_tls());
    }
}
