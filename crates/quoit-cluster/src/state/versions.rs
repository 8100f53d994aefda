//! Refuses properties and nodes because of the versions of the internode protocol that members speak.

use super::State;
use crate::members::Member;
use crate::outdated::{MembersOutdated, Outdated, PropertyNeed};
use quoit_model::props::BucketProps;
use quoit_wire::internode::{VERSION_MIN, VersionRange};

impl State {
    /// Returns the property that needs the newest version; `None` if every version knows all properties.
    fn need_of(&self, props: &BucketProps) -> Option<&'static PropertyNeed> {
        let needs = self.property_needs().iter().filter(|need| (need.is_in)(props));
        needs.max_by_key(|need| need.version)
    }

    /// Refuses to activate a bucket type that needs a newer version than some member speaks, up or down.
    pub(crate) fn check_members_speak(
        &self,
        bucket_type: &[u8],
        props: &BucketProps,
    ) -> Result<(), MembersOutdated> {
        let Some(need) = self.need_of(props) else { return Ok(()) };
        self.check_members(need.version, || {
            let name = String::from_utf8_lossy(bucket_type);
            let property = need.property;
            format!("{name} has been created but cannot be activated yet: its {property}")
        })
    }

    /// Refuses changed properties that need a newer version than the former ones did and than some member
    /// speaks.
    pub(crate) fn check_members_keep(
        &self,
        name: &[u8],
        before: &BucketProps,
        props: &BucketProps,
    ) -> Result<(), MembersOutdated> {
        let Some(need) = self.need_of(props) else { return Ok(()) };
        if need.version <= self.need_of(before).map_or(VERSION_MIN, |before| before.version) {
            return Ok(());
        }
        let name = String::from_utf8_lossy(name);
        self.check_members(need.version, || format!("{name} is not changed: {}", need.property))
    }

    fn check_members(
        &self,
        needed: u32,
        subject: impl FnOnce() -> String,
    ) -> Result<(), MembersOutdated> {
        let is_outdated = |member: &&Member| member.versions.max < needed;
        let outdated = self.members().iter().map(AsRef::as_ref).filter(is_outdated);
        let mut members: Vec<_> = outdated.map(|member| member.name.to_string()).collect();
        members.sort_unstable();
        if members.is_empty() {
            return Ok(());
        }
        Err(MembersOutdated { subject: subject(), needed, members })
    }

    /// Refuses a node that does not speak the version that the active bucket types or buckets with
    /// properties of their own need. Costs nothing while no property needs more than the first version.
    pub(crate) fn check_speaks(&self, node: &str, versions: VersionRange) -> Result<(), Outdated> {
        if self.property_needs().is_empty() {
            return Ok(());
        }
        let refuse = |of: &str, name: &[u8], props: &BucketProps| {
            let need = self.need_of(props).filter(|need| need.version > versions.max);
            need.map_or(Ok(()), |need| {
                let subject =
                    format!("the {} of {of} {}", need.property, String::from_utf8_lossy(name));
                let (node, needed) = (node.to_owned(), need.version);
                Err(Outdated { node, speaks: versions.max, needed, subject })
            })
        };
        self.active_types().try_for_each(|(name, props)| refuse("bucket type", name, props))?;
        self.all_bucket_props().try_for_each(|(name, props)| refuse("bucket", name, props))
    }
}
