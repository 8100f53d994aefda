//! Operations on bucket types and buckets.

use crate::command::Command;
use crate::error::ChangeError;
use crate::plane::ControlPlane;
use quoit_model::key::BucketRef;
use quoit_model::props::{InvalidProps, PropUpdates, TypeError, TypeState};

impl ControlPlane {
    /// Creates a bucket type, or replaces one that is not active yet.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`].
    pub async fn create_type(
        &self,
        name: &[u8],
        updates: &PropUpdates,
    ) -> Result<TypeState, ChangeError> {
        self.check_backend(updates).map_err(TypeError::from)?;
        self.run(Command::CreateType { name, updates }).await?;
        warn_of_hooks(name, None, updates);
        Ok(self.read().type_state(name))
    }

    /// Activates a bucket type. Has no effect on an active one.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`].
    pub async fn activate_type(&self, name: &[u8]) -> Result<(), ChangeError> {
        self.run(Command::ActivateType { name }).await
    }

    /// Changes properties of an active bucket type.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`].
    pub async fn update_type(&self, name: &[u8], updates: &PropUpdates) -> Result<(), ChangeError> {
        self.check_backend(updates).map_err(TypeError::from)?;
        self.run(Command::UpdateType { name, updates }).await?;
        warn_of_hooks(name, None, updates);
        Ok(())
    }

    /// Resets an active bucket type to the defaults, except for properties that cannot change after
    /// creation.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`].
    pub async fn reset_type(&self, name: &[u8]) -> Result<(), ChangeError> {
        self.run(Command::ResetType { name }).await
    }

    /// Changes properties of a bucket. The bucket keeps its other effective properties as its own, so that
    /// later changes of its type no longer affect it.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`].
    pub async fn set_bucket_props(
        &self,
        bucket: BucketRef<'_>,
        updates: &PropUpdates,
    ) -> Result<(), ChangeError> {
        self.check_backend(updates)?;
        self.run(Command::SetBucketProps { bucket, updates }).await?;
        warn_of_hooks(bucket.bucket_type, Some(bucket.bucket), updates);
        Ok(())
    }

    /// Refuses storage engines that this node does not have. Other nodes are not asked: a node without the
    /// engine uses its default engine.
    fn check_backend(&self, updates: &PropUpdates) -> Result<(), InvalidProps> {
        if self.backends().is_empty() { Ok(()) } else { updates.check_backend(self.backends()) }
    }

    /// Removes a bucket's own properties, so that it has those of its type again.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`].
    pub async fn reset_bucket_props(&self, bucket: BucketRef<'_>) -> Result<(), ChangeError> {
        self.run(Command::ResetBucketProps { bucket }).await
    }
}

/// Warns the operator about commit hooks that were set, because no node runs them. `bucket` is `None` if they
/// were set for a bucket type.
fn warn_of_hooks(bucket_type: &[u8], bucket: Option<&[u8]>, updates: &PropUpdates) {
    for (property, hook) in updates.hooks_not_run() {
        let (hook, bucket_type) = (hook.to_json(), bucket_type.escape_ascii());
        let bucket = bucket.map(|bucket| bucket.escape_ascii().to_string());
        match property {
            "precommit" => tracing::warn!(
                %bucket_type,
                bucket,
                %hook,
                "a pre-commit hook was set that can't be run: writes are refused while it is set"
            ),
            _ => tracing::warn!(
                %bucket_type,
                bucket,
                %hook,
                "a post-commit hook was set and will not be run: programs learn of writes from a change feed \
                 (property change_feed)"
            ),
        }
    }
}
