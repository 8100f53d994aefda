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
        self.check_runnable(updates).map_err(TypeError::from)?;
        self.run(Command::CreateType { name, updates }).await?;
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
        self.check_runnable(updates).map_err(TypeError::from)?;
        self.run(Command::UpdateType { name, updates }).await
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
        self.check_runnable(updates)?;
        self.run(Command::SetBucketProps { bucket, updates }).await
    }

    /// Refuses commit hooks that can't be run, and storage engines that this node does not have.
    /// That others have them too is their operators' business: where they don't, the default engine is
    /// taken.
    fn check_runnable(&self, updates: &PropUpdates) -> Result<(), InvalidProps> {
        updates.check_hooks()?;
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
