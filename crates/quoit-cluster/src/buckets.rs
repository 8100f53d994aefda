//! Changes of bucket types and buckets.

use crate::command::Command;
use crate::error::ChangeError;
use crate::plane::ControlPlane;
use quoit_model::key::BucketRef;
use quoit_model::props::{InvalidProps, PropUpdates, TypeError, TypeState};

impl ControlPlane {
    /// Creates a bucket type, or creates it anew while it is not active.
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

    /// Makes a bucket type usable; an active one stays so.
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

    /// Gives an active bucket type the defaults again, as far as they may change.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`].
    pub async fn reset_type(&self, name: &[u8]) -> Result<(), ChangeError> {
        self.run(Command::ResetType { name }).await
    }

    /// Changes properties of a bucket; all others become its own as they are.
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

    /// Refuses storage engines that this node does not have. Other nodes are not asked: one without the engine
    /// uses its default engine.
    fn check_backend(&self, updates: &PropUpdates) -> Result<(), InvalidProps> {
        if self.backends().is_empty() { Ok(()) } else { updates.check_backend(self.backends()) }
    }

    /// Lets a bucket follow its type again.
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
