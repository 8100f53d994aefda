//! Merging of siblings into one value.

use crate::object::Content;

/// Merges the siblings that concurrent writes left into one value.
///
/// Siblings may be deletes ([`Content::deleted`]), and so may the result. The result should not depend on
/// the order of the siblings; otherwise two clients may store different results.
///
/// A function from siblings to content is a resolver:
///
/// ```
/// use quoit_client::{Content, Resolver};
///
/// let longest = |siblings: Vec<Content>| {
///     siblings.into_iter().max_by_key(|sibling| sibling.value.len()).unwrap_or_default()
/// };
/// let one = longest.resolve(vec![Content::text("ab"), Content::text("abc")])?;
/// assert_eq!(one, Content::text("abc"));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub trait Resolver {
    /// Merges two or more siblings into one value.
    ///
    /// # Errors
    ///
    /// Any error that keeps the resolver from merging them. The client returns it inside
    /// [`Error::Unresolved`](crate::Error::Unresolved).
    fn resolve(
        &self,
        siblings: Vec<Content>,
    ) -> Result<Content, Box<dyn std::error::Error + Send + Sync>>;
}

impl<F: Fn(Vec<Content>) -> Content> Resolver for F {
    fn resolve(
        &self,
        siblings: Vec<Content>,
    ) -> Result<Content, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self(siblings))
    }
}

/// Takes the sibling with the latest write time by the servers' clocks, and among siblings of the same time
/// the one with the greatest tag. Writing the result back drops the other siblings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LatestModified;

impl Resolver for LatestModified {
    fn resolve(
        &self,
        siblings: Vec<Content>,
    ) -> Result<Content, Box<dyn std::error::Error + Send + Sync>> {
        let latest = siblings
            .into_iter()
            .max_by(|a, b| (a.last_modified, &a.vtag).cmp(&(b.last_modified, &b.vtag)));
        latest.ok_or_else(|| "no siblings to resolve".into())
    }
}
