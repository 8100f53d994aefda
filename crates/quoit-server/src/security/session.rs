//! One connection's login, and what was decided for it.

use super::login::Login;
use super::need::{Need, On};
use quoit_cluster::ControlPlane;
use quoit_security::{PermissionSet, Rights};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An epoch that never is: the rules have to be looked at.
const NEVER: u64 = 0;
/// Buckets whose permissions are kept at hand.
const KEPT_COUNT: usize = 4;

/// A connection in the eyes of the rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// Nothing is checked.
    Open,
    /// The client has not logged in.
    Stranger,
    /// The client has logged in.
    User,
    /// The client has logged in as a user that was deleted since.
    Gone,
}

/// The permissions of one bucket.
struct Kept {
    bucket_type: Box<[u8]>,
    bucket: Box<[u8]>,
    permissions: PermissionSet,
}

/// One connection's login, and what was decided for it.
pub(crate) struct Session {
    epoch: Arc<AtomicU64>,
    /// The epoch in which nothing is checked.
    open_at: u64,
    /// The epoch of the rules that were looked at.
    seen_at: u64,
    /// Whether the client is the operator of this node, at its local socket.
    is_operator: bool,
    user: Option<User>,
}

struct User {
    name: Arc<str>,
    /// `None` = the user was deleted.
    rights: Option<Rights>,
    kept: [Option<Kept>; KEPT_COUNT],
    next_kept: usize,
}

impl Session {
    pub(crate) fn new(control: &ControlPlane, is_operator: bool) -> Self {
        let epoch = Arc::clone(control.security_epoch());
        Self { epoch, open_at: NEVER, seen_at: NEVER, is_operator, user: None }
    }

    /// Whether nothing is checked. One load and one comparison.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.epoch.load(Ordering::Acquire) == self.open_at
    }

    /// The connection by the present rules. Looks at them again if they have changed.
    #[cold]
    pub(crate) fn standing(&mut self, control: &ControlPlane) -> Standing {
        let epoch = self.epoch.load(Ordering::Acquire);
        if epoch != self.seen_at {
            // Rules that are newer than the epoch are looked at once more.
            let state = control.read();
            self.look(&state, epoch);
        }
        match &self.user {
            _ if self.open_at == self.seen_at => Standing::Open,
            None => Standing::Stranger,
            Some(User { rights: Some(_), .. }) => Standing::User,
            Some(_) => Standing::Gone,
        }
    }

    fn look(&mut self, state: &quoit_cluster::State, epoch: u64) {
        let security = state.security();
        self.seen_at = epoch;
        self.open_at = if self.is_operator || !security.is_enabled() { epoch } else { NEVER };
        if let Some(user) = &mut self.user {
            user.rights = security.rights_of(&user.name);
            user.kept = [const { None }; KEPT_COUNT];
        }
    }

    /// Notes that the client has proved who it is.
    pub(crate) fn log_in(&mut self, login: Login) {
        let Login { name } = login;
        self.user =
            Some(User { name, rights: None, kept: [const { None }; KEPT_COUNT], next_kept: 0 });
        self.seen_at = NEVER;
    }

    /// Forgets who the client was.
    pub(crate) fn log_out(&mut self) {
        self.user = None;
    }

    /// The name of the user.
    pub(crate) fn user(&self) -> Option<&str> {
        self.user.as_ref().map(|user| &*user.name)
    }

    /// Refuses what the user may not do; where nothing is checked, everything is allowed. For a bucket that
    /// was asked for lately it costs a comparison of names and no allocation.
    ///
    /// # Errors
    ///
    /// The refusal, in Riak's words.
    pub(crate) fn check(&mut self, control: &ControlPlane, need: &Need<'_>) -> Result<(), String> {
        if self.is_open() {
            return Ok(());
        }
        match self.standing(control) {
            Standing::Open => Ok(()),
            Standing::User if self.user.as_mut().is_some_and(|user| user.may(need)) => Ok(()),
            Standing::User => Err(need.denied(self.user().unwrap_or_default())),
            // Those are answered before anything is looked at.
            Standing::Stranger | Standing::Gone => {
                Err("Security is enabled, please authenticate first".to_owned())
            }
        }
    }
}

impl User {
    fn may(&mut self, need: &Need<'_>) -> bool {
        let Some(rights) = &self.rights else { return false };
        let (bucket_type, bucket) = match need.on {
            On::Any => return rights.on_any().contains(need.permission),
            On::Type(bucket_type) => {
                return rights.on_type(bucket_type).contains(need.permission);
            }
            On::Bucket(bucket_type, bucket) => (bucket_type, bucket),
        };
        let mut kept = self.kept.iter().flatten();
        let known = kept.find(|kept| *kept.bucket == *bucket && *kept.bucket_type == *bucket_type);
        if let Some(known) = known {
            return known.permissions.contains(need.permission);
        }
        let permissions = rights.on(bucket_type, bucket);
        self.kept[self.next_kept] =
            Some(Kept { bucket_type: bucket_type.into(), bucket: bucket.into(), permissions });
        self.next_kept = (self.next_kept + 1) % KEPT_COUNT;
        permissions.contains(need.permission)
    }
}
