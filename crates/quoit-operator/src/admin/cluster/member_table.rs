//! Parts of texts about members that several commands share.

use crate::admin::plain;
use quoit_cli::value_at;
use serde_json::Value;

/// Width of a line in characters.
const WIDTH: usize = 79;

/// A heading centred in a bar across the page.
pub(in crate::admin) fn bar(title: &str) -> String {
    let around = WIDTH.saturating_sub(title.len() + 2);
    let (before, after) = (around / 2, around.div_ceil(2));
    format!("{} {title} {}", "=".repeat(before), "=".repeat(after))
}

/// A horizontal line across the page.
pub(super) fn rule() -> String {
    "-".repeat(WIDTH)
}

/// The table of members with its totals, as `member-status` and `plan` print it.
pub(super) fn membership(document: &Value) -> String {
    let mut lines =
        vec![bar("Membership"), "Status     Ring    Pending    Node".to_owned(), rule()];
    let members = document["members"].as_array();
    for member in members.into_iter().flatten() {
        let pending = member["pending_percent"].as_f64();
        let pending = pending.map_or_else(|| "--  ".to_owned(), |share| format!("{share:.1}%"));
        let location = member["location"].as_str();
        let location = location.map_or_else(String::new, |name| format!(" ({name})"));
        lines.push(format!(
            "{:<8} {:>7} {pending:>10}    {}{location}",
            plain(&member["status"]),
            percent(&member["ring_percent"]),
            plain(&member["name"]),
        ));
    }
    lines.push(rule());
    let count = |status: &str| {
        let members = members.into_iter().flatten();
        members.filter(|member| member["status"] == status).count()
    };
    lines.push(format!(
        "Valid:{} / Leaving:{} / Exiting:{} / Joining:{} / Down:{}",
        count("valid"),
        count("leaving"),
        count("exiting"),
        count("joining"),
        count("down"),
    ));
    lines.extend(outdated(document));
    lines.join("\n")
}

/// The members that do not support the newest internode protocol yet and hold back its features; `None` if
/// all support it.
fn outdated(document: &Value) -> Option<String> {
    let members = || document["members"].as_array().into_iter().flatten();
    let speaks =
        |member: &Value| value_at(member, "/protocol_versions/1").as_u64().unwrap_or_default();
    let newest = members().map(speaks).max()?;
    let older = members().filter(|member| speaks(member) < newest);
    let older: Vec<_> = older.map(|member| plain(&member["name"])).collect();
    let names = older.join(", ");
    (!older.is_empty()).then(|| {
        format!("Protocol between nodes: these do not speak version {newest} yet: {names}")
    })
}

/// Formats a percentage.
pub(super) fn percent(share: &Value) -> String {
    format!("{:.1}%", share.as_f64().unwrap_or_default())
}

/// Formats a list of names as `['a','b']`.
pub(super) fn name_list(names: &Value) -> String {
    let names = names.as_array().into_iter().flatten();
    let quoted: Vec<_> = names.map(|name| format!("'{}'", plain(name))).collect();
    format!("[{}]", quoted.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_have_their_shares_and_what_they_will_be() {
        let document = json!({"members": [
            {"name": "dev1@127.0.0.1", "status": "valid", "ring_percent": 100.0,
             "pending_percent": 50.0, "location": null, "protocol_versions": [1, 2]},
            {"name": "dev2@127.0.0.1", "status": "joining", "ring_percent": 0.0,
             "pending_percent": null, "location": "rack b", "protocol_versions": [1, 1]},
        ]});
        let expected = "\
================================= Membership ==================================
Status     Ring    Pending    Node
-------------------------------------------------------------------------------
valid     100.0%      50.0%    dev1@127.0.0.1
joining     0.0%       --      dev2@127.0.0.1 (rack b)
-------------------------------------------------------------------------------
Valid:1 / Leaving:0 / Exiting:0 / Joining:1 / Down:0
Protocol between nodes: these do not speak version 2 yet: dev2@127.0.0.1";
        assert_eq!(membership(&document), expected);
    }
}
