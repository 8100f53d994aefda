//! Rules for changes of properties.

use super::forms::{boolean, check_size, shown};
use super::{BucketProps, Datatype, InvalidProps, PropError, PropUpdates, Reason, Scope};
use serde_json::Value;

/// Default precision of a HyperLogLog type.
const HLL_PRECISION_DEFAULT: u8 = 14;

impl BucketProps {
    /// Properties of a new bucket type: the defaults of types with `updates` applied.
    ///
    /// # Errors
    ///
    /// Returns every property that is refused.
    pub fn for_new_type(updates: &PropUpdates) -> Result<Self, InvalidProps> {
        Self::new_type().updated(Scope::NewType, updates)
    }

    /// Returns this set with `updates` applied. The property `name` is ignored: it is the bucket's
    /// name, and clients may send back all that they received.
    ///
    /// # Errors
    ///
    /// Returns every property that is refused.
    pub fn updated(&self, scope: Scope, updates: &PropUpdates) -> Result<Self, InvalidProps> {
        let mut new = self.clone();
        let mut faults = Faults::default();
        for (name, value) in updates.iter().filter(|(name, _)| *name != "name") {
            let change = PropertyChange { old: self, scope, name, value };
            let checked = check_size(name, value).and_then(|()| change.apply(&mut new));
            if let Err(reason) = checked {
                faults.add(name, reason, Some(value));
            }
        }
        if scope == Scope::NewType && new.datatype == Some(Datatype::Hll) {
            new.hll_precision.get_or_insert(HLL_PRECISION_DEFAULT);
        }
        check_together(self, &new, scope, &mut faults);
        match InvalidProps::from_errors(faults.errors) {
            Some(invalid) => Err(invalid),
            None => Ok(new),
        }
    }

    /// Properties of an active type after a reset: the defaults of types, except properties that
    /// can't change.
    #[must_use]
    pub fn reset_type(&self) -> Self {
        let mut reset = Self::new_type();
        reset.datatype = self.datatype;
        reset.hll_precision = self.hll_precision.filter(|_| self.datatype.is_some());
        reset.write_once = self.write_once.filter(|write_once| *write_once);
        if self.is_consistent() {
            reset.consistent = self.consistent;
            reset.n_val = self.n_val;
        }
        reset
    }
}

#[derive(Default)]
struct Faults {
    errors: Vec<PropError>,
}

impl Faults {
    /// Notes a fault. Of several faults of one property the first counts.
    fn add(&mut self, property: &str, reason: Reason, given: Option<&Value>) {
        if self.errors.iter().all(|error| error.property != property) {
            let given = given.map(shown);
            self.errors.push(PropError { property: property.to_owned(), reason, given });
        }
    }
}

/// A change of one property.
struct PropertyChange<'a> {
    old: &'a BucketProps,
    scope: Scope,
    name: &'a str,
    value: &'a Value,
}

impl PropertyChange<'_> {
    fn apply(&self, new: &mut BucketProps) -> Result<(), Reason> {
        match self.name {
            // Clients may send back what they received.
            "active" if self.is_active() && boolean(self.value) == Ok(true) => Ok(()),
            "active" => Err(Reason::ActiveReadOnly),
            "claimant" => Err(match self.scope {
                Scope::NewType => Reason::ClaimantOnCreate,
                Scope::ActiveType | Scope::TypedBucket | Scope::UntypedBucket => {
                    Reason::ClaimantReadOnly
                }
            }),
            "datatype" if self.scope == Scope::UntypedBucket => {
                new.set_unknown(self.name, self.value)
            }
            "datatype" => self.datatype(new),
            "hll_precision" => self.hll_precision(new),
            "consistent" => self.consistent(new),
            "write_once" => self.write_once(new),
            _ => new.set(self.name, self.value),
        }
    }

    /// True if the change is for an active bucket type or a bucket of one.
    fn is_active(&self) -> bool {
        matches!(self.scope, Scope::ActiveType | Scope::TypedBucket)
    }

    fn datatype(&self, new: &mut BucketProps) -> Result<(), Reason> {
        if self.scope != Scope::NewType {
            if self.old.is_write_once() {
                return Err(Reason::WriteOnceWithDatatype);
            }
            let Some(old) = self.old.datatype else { return Err(Reason::DatatypeOnPlainType) };
            if Datatype::from_json(self.value) != Some(old) {
                return Err(Reason::DatatypeUnsupported(shown(self.value)));
            }
        }
        new.set(self.name, self.value)
    }

    fn hll_precision(&self, new: &mut BucketProps) -> Result<(), Reason> {
        new.set(self.name, self.value)?;
        let raised = match (self.old.hll_precision, new.hll_precision) {
            (Some(old), Some(raised)) => raised > old,
            _ => false,
        };
        if raised && self.scope != Scope::NewType && self.old.datatype == Some(Datatype::Hll) {
            return Err(Reason::HllPrecision(shown(self.value)));
        }
        Ok(())
    }

    fn consistent(&self, new: &mut BucketProps) -> Result<(), Reason> {
        let given = boolean(self.value);
        if self.scope == Scope::NewType {
            let value = given.map_err(|_| Reason::ConsistentValue(shown(self.value)))?;
            new.consistent = Some(value);
            return Ok(());
        }
        if given == Ok(self.old.is_consistent()) {
            new.consistent = Some(self.old.is_consistent());
            return Ok(());
        }
        let has_kind = self.old.is_consistent() || self.old.datatype.is_some();
        if given == Ok(true) && self.scope != Scope::UntypedBucket && !has_kind {
            return Err(Reason::ConsistentOnExistingType);
        }
        Err(Reason::ConsistentChanged)
    }

    fn write_once(&self, new: &mut BucketProps) -> Result<(), Reason> {
        let given = boolean(self.value);
        if self.scope == Scope::NewType {
            new.write_once = Some(given?);
            return Ok(());
        }
        if given == Ok(self.old.is_write_once()) {
            new.write_once = Some(self.old.is_write_once());
            return Ok(());
        }
        let has_kind = self.old.is_consistent() || self.old.datatype.is_some();
        Err(match given {
            _ if self.old.is_write_once() => Reason::WriteOnceUnset,
            Ok(true) if self.scope != Scope::UntypedBucket && !has_kind => {
                Reason::WriteOnceOnExistingType
            }
            _ => Reason::WriteOnceChanged,
        })
    }
}

/// Checks that concern several properties, on the changed set.
fn check_together(old: &BucketProps, new: &BucketProps, scope: Scope, faults: &mut Faults) {
    if scope == Scope::NewType && new.is_write_once() {
        if new.datatype.is_some() {
            faults.add("datatype", Reason::WriteOnceWithDatatype, None);
        }
        if new.is_consistent() {
            faults.add("consistent", Reason::WriteOnceConsistent, None);
        }
    }
    if new.datatype.is_some() && !new.allow_mult {
        faults.add("allow_mult", Reason::DatatypeNeedsAllowMult, None);
    }
    if scope != Scope::NewType && old.is_consistent() && new.n_val != old.n_val {
        faults.add("n_val", Reason::ConsistentNVal, None);
    }
    if new.last_write_wins && new.dvv_enabled {
        faults.add("dvv_enabled", Reason::DvvWithLastWriteWins, None);
    }
}
