//! Reads that resolve siblings, and read-modify-write updates.

use super::{Client, Fetched};
use crate::error::Error;
use crate::location::Location;
use crate::object::{Content, Context, Object};
use crate::options::{GetOptions, PutOptions};
use crate::resolve::Resolver;
use std::sync::Arc;

/// Options of [`Client::update`].
#[derive(Debug, Clone)]
pub struct UpdateOptions {
    /// Maximum number of attempts, if other clients change the object meanwhile. Default 5.
    pub attempts_max: u32,
    /// Options of the reads. `head`, `if_modified` and `tombstone` are ignored.
    pub get: GetOptions,
    /// Options of the writes. The update sets the context and the conditions itself.
    pub put: PutOptions,
}

impl Default for UpdateOptions {
    fn default() -> UpdateOptions {
        UpdateOptions { attempts_max: 5, get: GetOptions::default(), put: PutOptions::default() }
    }
}

impl Client {
    /// Reads an object and resolves its siblings. `None` if there is no object or the result is a delete.
    /// Nothing is written back.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), and [`Error::Unresolved`].
    pub async fn get_resolved(
        &self,
        location: &Location,
        resolver: &impl Resolver,
    ) -> Result<Option<(Content, Context)>, Error> {
        let Some(object) = self.get(location).await? else {
            return Ok(None);
        };
        let (content, context) = resolve(location, object, resolver)?;
        Ok((!content.deleted).then_some((content, context)))
    }

    /// Changes an object: reads it, resolves its siblings, has `change` make the new value from the old one
    /// (`None` if there is no object), and writes the new value. If `change` returns `None`, nothing is
    /// written. Returns the value that was written.
    ///
    /// The write is conditional on the object being as it was read. If it has changed, the update starts
    /// again with a new read, so `change` may be called several times. In a bucket that keeps siblings, a
    /// concurrent write that passes this check becomes a sibling and is not lost.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get) and [`put`](Self::put), [`Error::Unresolved`], and
    /// [`Error::Contended`] when the attempts are used up.
    pub async fn update(
        &self,
        location: &Location,
        resolver: &impl Resolver,
        options: &UpdateOptions,
        mut change: impl FnMut(Option<Content>) -> Option<Content>,
    ) -> Result<Option<Content>, Error> {
        let get =
            GetOptions { head: false, if_modified: None, tombstone: true, ..options.get.clone() };
        for _ in 0..options.attempts_max {
            let (old, context, exists) = match self.get_with(location, &get).await? {
                Fetched::Found(object) => {
                    let (content, context) = resolve(location, object, resolver)?;
                    ((!content.deleted).then_some(content), Some(context), true)
                }
                Fetched::Tombstone(context) => (None, Some(context), false),
                Fetched::NotFound | Fetched::Unchanged => (None, None, false),
            };
            let Some(new) = change(old) else {
                return Ok(None);
            };
            let put = PutOptions {
                context,
                if_not_modified: exists,
                if_none_match: !exists,
                ..options.put.clone()
            };
            match self.put_with(location, new.clone(), &put).await {
                Ok(_) => return Ok(Some(new)),
                Err(Error::Server(error))
                    if error.is_modified() || error.is_match_found() || error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Contended { location: location.clone(), attempts: options.attempts_max })
    }
}

/// Resolves an object to one value, and returns it with the context that replaces all siblings.
fn resolve(
    location: &Location,
    object: Object,
    resolver: &impl Resolver,
) -> Result<(Content, Context), Error> {
    let Object { context, mut siblings } = object;
    if siblings.len() == 1 {
        return Ok((siblings.swap_remove(0), context));
    }
    let content = resolver.resolve(siblings).map_err(|source| Error::Unresolved {
        location: location.clone(),
        source: Arc::from(source),
    })?;
    Ok((content, context))
}
