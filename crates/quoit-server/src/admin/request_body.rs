//! Bodies of administration requests.

use super::error;
use crate::http::{Refusal, Request};
use quoit_cluster::PlanId;
use serde_json::{Value, json};

/// The members of a body, which is a JSON object or empty.
pub(super) struct RequestBody(Value);

impl RequestBody {
    pub(super) fn read(request: &Request) -> Result<Self, Refusal> {
        if request.body.is_empty() {
            return Ok(Self(json!({})));
        }
        let document = serde_json::from_slice(&request.body).map_err(|fault| {
            error(400, "invalid_json", &format!("the body is not JSON: {fault}"))
        })?;
        Ok(Self(document))
    }

    /// A required string.
    pub(super) fn text(&self, name: &str) -> Result<String, Refusal> {
        self.given(name).ok_or_else(|| missing(name, MemberForm::Text))
    }

    pub(super) fn given(&self, name: &str) -> Option<String> {
        let Self(document) = self;
        document[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// An optional number.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let Self(document) = self;
        match &document[name] {
            Value::Null => Ok(None),
            value => value.as_u64().map(Some).ok_or_else(|| missing(name, MemberForm::Number)),
        }
    }

    pub(super) fn capacity(&self) -> Result<u32, Refusal> {
        let Self(document) = self;
        let capacity = document["capacity"].as_u64().and_then(|number| u32::try_from(number).ok());
        capacity.ok_or_else(|| missing("capacity", MemberForm::Number))
    }

    /// The plan that the operator has confirmed, if the body names one.
    pub(super) fn plan(&self) -> Result<Option<PlanId>, Refusal> {
        let Some(text) = self.given("plan") else { return Ok(None) };
        match u64::from_str_radix(&text, 16) {
            Ok(number) => Ok(Some(PlanId(number))),
            Err(_) => Err(missing("plan", MemberForm::PlanId)),
        }
    }
}

/// Form of a member of the body.
#[derive(Clone, Copy)]
enum MemberForm {
    Text,
    Number,
    PlanId,
}

fn missing(name: &str, form: MemberForm) -> Refusal {
    let form = match form {
        MemberForm::Text => "a text",
        MemberForm::Number => "a number",
        MemberForm::PlanId => "the id of a plan",
    };
    let message = format!("the body needs a member {name}, which is {form}");
    error(400, "missing", &message)
}
