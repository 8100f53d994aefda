//! Decides on commands about bucket types, buckets and security.

use super::State;
use crate::change::Change;
use crate::command::{BUCKET_TYPES_MAX, BUCKETS_WITH_PROPS_MAX, Command};
use crate::error::ChangeError;
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE};
use quoit_model::props::{BucketProps, BucketType, PropUpdates, Scope, TypeState};
use std::sync::Arc;

impl State {
    /// Returns the changes that a command makes to this state. The list is empty if the state is already
    /// as wanted.
    ///
    /// # Errors
    ///
    /// [`ChangeError`] if the command is refused. It has a text for each protocol.
    pub fn decide(&self, command: Command<'_>) -> Result<Vec<Change>, ChangeError> {
        match command {
            Command::CreateType { name, updates } => {
                let created = BucketType::create(self.bucket_type(name), name, updates)?;
                if self.bucket_type(name).is_none() && self.type_count() >= BUCKET_TYPES_MAX {
                    return Err(ChangeError::TooManyTypes { max: BUCKET_TYPES_MAX });
                }
                // Entries are applied in the order of the log, so every node knows the type before
                // anything that uses it. The type therefore needs no further step to become ready.
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

    /// Refuses impossible bucket names, and returns the effective properties of the bucket.
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
