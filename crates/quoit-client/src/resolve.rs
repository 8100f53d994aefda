//! One value out of several.

use crate::object::Content;

/// Makes one value of the siblings that concurrent writes left.
///
/// Siblings may be deletes ([`Content::deleted`]); so may the outcome. For the same siblings in
/// another order the outcome should be the same, or two clients will not agree.
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
    /// Makes one value of two or more siblings.
    ///
    /// # Errors
    ///
    /// Whatever keeps the resolver from it; the client returns it inside
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

/// Takes the sibling that was written last by the clocks of the servers, and of those written
/// at the same time the one with the greatest tag. The others are lost when it is written back.
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
