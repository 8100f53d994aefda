//! Changes of the control plane: what is asked for, and what it comes to.

use crate::NodeId;
use crate::error::ChangeError;
use crate::layouts::Served;
use crate::members::Member;
use crate::staged::StagedChange;
use crate::state::State;
use crate::trust::Trust;
use quoit_model::hash::Partition;
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE};
use quoit_model::layout::Layout;
use quoit_model::props::{BucketProps, BucketType, PropUpdates, Scope, TypeState};
use std::sync::Arc;

/// Most bucket types.
pub const BUCKET_TYPES_MAX: usize = 4096;
/// Most buckets with properties of their own.
pub const BUCKETS_WITH_PROPS_MAX: usize = 100_000;

/// Request of an operator or a client.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Command<'a> {
    /// Create a bucket type, or create it anew while it is not active.
    CreateType {
        /// The type.
        name: &'a [u8],
        /// Its properties, as far as they are not the defaults of types.
        updates: &'a PropUpdates,
    },
    /// Make a bucket type usable.
    ActivateType {
        /// The type.
        name: &'a [u8],
    },
    /// Change properties of an active bucket type.
    UpdateType {
        /// The type.
        name: &'a [u8],
        /// The properties to change.
        updates: &'a PropUpdates,
    },
    /// Give an active bucket type the defaults again, as far as they may change.
    ResetType {
        /// The type.
        name: &'a [u8],
    },
    /// Change properties of a bucket; all others become its own as they are.
    SetBucketProps {
        /// The bucket.
        bucket: BucketRef<'a>,
        /// The properties to change.
        updates: &'a PropUpdates,
    },
    /// Let a bucket follow its type again.
    ResetBucketProps {
        /// The bucket.
        bucket: BucketRef<'a>,
    },
    /// Change who may log in and who may do what.
    Security(&'a quoit_security::Command),
}

/// Outcome of a command, which needs no more checks and is the same on every node.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// The bucket type is this from now on.
    PutType {
        /// The type's name.
        name: Arc<[u8]>,
        /// State and properties.
        bucket_type: BucketType,
    },
    /// The bucket has these properties of its own from now on.
    PutBucket {
        /// The bucket's type.
        bucket_type: Arc<[u8]>,
        /// The bucket.
        bucket: Arc<[u8]>,
        /// The full set.
        props: Arc<BucketProps>,
    },
    /// The bucket has no properties of its own any more.
    RemoveBucket {
        /// The bucket's type.
        bucket_type: Arc<[u8]>,
        /// The bucket.
        bucket: Arc<[u8]>,
    },
    /// The member is this from now on.
    PutMember(Arc<Member>),
    /// The node is no member any more.
    RemoveMember {
        /// The node.
        id: NodeId,
        /// Whether it may never come back.
        for_ever: bool,
    },
    /// These changes of membership wait for a commit, and no others.
    Stage {
        /// The changes, as they were staged.
        staged: Vec<StagedChange>,
    },
    /// A layout is live from now on, beside those before it.
    PutLayout {
        /// The layout.
        layout: Arc<Layout>,
        /// The `n_val`s of all buckets, ascending. As many copies as the largest says have to be
        /// complete.
        n_vals: Vec<u32>,
    },
    /// A node has complete copies of partitions.
    Copied {
        /// The node.
        node: NodeId,
        /// The partitions.
        partitions: Vec<Partition>,
    },
    /// A node has lost records that were durable: none of its copies is complete any more.
    Lost {
        /// The node.
        node: NodeId,
        /// The `n_val`s of all buckets, ascending.
        n_vals: Vec<u32>,
    },
    /// An operator has taken note that some partitions may have lost records for good.
    AcceptLosses,
    /// Members hold each other's certificates against this from now on.
    PutTrust(Arc<Trust>),
    /// A node serves with these layouts.
    Serves {
        /// The node.
        node: NodeId,
        /// The layouts.
        served: Served,
    },
    /// A rule of security is this from now on.
    Rule(quoit_security::Change),
}

impl Change {
    /// Whether it changes what properties a bucket or a bucket type has.
    pub(crate) const fn is_of_properties(&self) -> bool {
        matches!(self, Self::PutType { .. } | Self::PutBucket { .. } | Self::RemoveBucket { .. })
    }
}

impl State {
    /// The changes that a command makes to this state; none when everything is so already.
    ///
    /// # Errors
    ///
    /// The refusal, worded for each protocol.
    pub fn decide(&self, command: Command<'_>) -> Result<Vec<Change>, ChangeError> {
        match command {
            Command::CreateType { name, updates } => {
                let created = BucketType::create(self.bucket_type(name), name, updates)?;
                if self.bucket_type(name).is_none() && self.type_count() >= BUCKET_TYPES_MAX {
                    return Err(ChangeError::TooManyTypes { max: BUCKET_TYPES_MAX });
                }
                // A node that follows the log learns of the type before anything that uses it.
                Ok(vec![put_type(name, created.known_everywhere())])
            }
            Command::ActivateType { name } => {
                if name == DEFAULT_BUCKET_TYPE {
                    return Ok(Vec::new());
                }
                let existing = self.bucket_type(name);
                let active = BucketType::activate(existing, name)?;
                self.check_members_speak(name, &active.props)?;
                let is_news = existing.is_none_or(|before| before.state != TypeState::Active);
                Ok(is_news.then(|| put_type(name, active)).into_iter().collect())
            }
            Command::UpdateType { name, updates } => {
                let before = self.bucket_type(name);
                let updated = BucketType::update(before, name, updates)?;
                if let Some(before) = before.filter(|before| before.state == TypeState::Active) {
                    self.check_members_keep(name, &before.props, &updated.props)?;
                }
                Ok(vec![put_type(name, updated)])
            }
            Command::ResetType { name } => {
                Ok(vec![put_type(name, BucketType::reset(self.bucket_type(name), name)?)])
            }
            Command::SetBucketProps { bucket, updates } => self.decide_set(bucket, updates),
            Command::ResetBucketProps { bucket } => {
                self.check_bucket(bucket)?;
                let change = self.has_own_props(bucket).then(|| Change::RemoveBucket {
                    bucket_type: bucket.bucket_type.into(),
                    bucket: bucket.bucket.into(),
                });
                Ok(change.into_iter().collect())
            }
            Command::Security(command) => {
                let changes = self.security().decide(command)?;
                Ok(changes.into_iter().map(Change::Rule).collect())
            }
        }
    }

    fn decide_set(
        &self,
        bucket: BucketRef<'_>,
        updates: &PropUpdates,
    ) -> Result<Vec<Change>, ChangeError> {
        let before = self.check_bucket(bucket)?;
        let scope = if bucket.is_untyped() { Scope::UntypedBucket } else { Scope::TypedBucket };
        let props = before.updated(scope, updates)?;
        if updates.is_empty() {
            return Ok(Vec::new());
        }
        self.check_members_keep(bucket.bucket, before, &props)?;
        if !self.has_own_props(bucket) && self.buckets_with_props() >= BUCKETS_WITH_PROPS_MAX {
            return Err(ChangeError::TooManyBuckets { max: BUCKETS_WITH_PROPS_MAX });
        }
        Ok(vec![Change::PutBucket {
            bucket_type: bucket.bucket_type.into(),
            bucket: bucket.bucket.into(),
            props: Arc::new(props),
        }])
    }

    /// Refuses buckets that cannot be, and gives the effective properties of all others.
    fn check_bucket(&self, bucket: BucketRef<'_>) -> Result<&Arc<BucketProps>, ChangeError> {
        bucket.key(b"k").check()?;
        self.bucket_props(bucket).map_err(|_| ChangeError::NoSuchType {
            name: String::from_utf8_lossy(bucket.bucket_type).into_owned(),
        })
    }
}

fn put_type(name: &[u8], bucket_type: BucketType) -> Change {
    Change::PutType { name: name.into(), bucket_type }
}
