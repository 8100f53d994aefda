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
        warn_of_hooks(updates);
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
        warn_of_hooks(updates);
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
        warn_of_hooks(updates);
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

/// Tells the operator of commit hooks that were set and that no node runs.
fn warn_of_hooks(updates: &PropUpdates) {
    for (property, hook) in updates.hooks_not_run() {
        let hook = hook.to_json();
        match property {
            "precommit" => tracing::warn!(
                %hook,
                "a pre-commit hook was set that can't be run: the bucket refuses writes while it has the hook"
            ),
            _ => tracing::warn!(
                %hook,
                "a post-commit hook was set and will not be run: a change feed tells programs of writes \
                 (property change_feed)"
            ),
        }
    }
}
