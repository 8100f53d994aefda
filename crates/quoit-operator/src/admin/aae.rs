//! `aae-status` and `aae-exchange`.

use super::cluster::bar;
use super::{Api, document_of, plain, print};
use anyhow::Result;
use quoit_cli::Format;
use serde_json::Value;

const WIDTH: usize = 79;

/// Prints the times of the last exchanges and their repairs.
pub(crate) fn status(api: &Api, format: Format) -> Result<()> {
    let document = document_of(api.get("aae")?, format)?;
    print(&document, format, page);
    Ok(())
}

/// Starts exchanges now.
pub(crate) fn exchange(api: &Api, partition: Option<u16>, format: Format) -> Result<()> {
    let path = partition
        .map_or_else(|| "aae/exchange".to_owned(), |number| format!("aae/exchange?id={number}"));
    let document = document_of(api.post(&path, None)?, format)?;
    print(&document, format, |document| {
        let count = plain(&document["partitions"]);
        format!("Partitions that are compared with other nodes' now: {count}")
    });
    Ok(())
}

/// The three tables of Riak's `aae-status`.
fn page(document: &Value) -> String {
    let partitions: Vec<&Value> = document["partitions"].as_array().into_iter().flatten().collect();
    let index = |partition: &Value| plain(&partition["index"]);
    let rule = "-".repeat(WIDTH);
    let table = |title: &str, heading: String, row: &dyn Fn(&Value) -> String| {
        let rows = partitions.iter().map(|partition| row(partition) + "\n");
        format!("{}\n{heading}\n{rule}\n{}", bar(title), rows.collect::<String>())
    };
    let exchanges = table(
        "Exchanges",
        format!("{:<49}  {:<12}  {:<12}", "Index", "Last (ago)", "All (ago)").trim_end().to_owned(),
        &|partition| {
            let (last, all) = (ago(&partition["last_ago_secs"]), ago(&partition["all_ago_secs"]));
            format!("{:<49}  {last:<12}  {all}", index(partition))
        },
    );
    let trees = table("Entropy Trees", format!("{:<49}  Built (ago)", "Index"), &|partition| {
        format!("{:<49}  {}", index(partition), ago(&partition["built_ago_secs"]))
    });
    let repaired = table(
        "Keys Repaired",
        format!("{:<49}  {:<8}  {:<8}  {:<8}", "Index", "Last", "Mean", "Max")
            .trim_end()
            .to_owned(),
        &|partition| {
            let mean = partition["repaired_mean"].as_f64().unwrap_or_default().round();
            let (last, max) =
                (plain(&partition["repaired_last"]), plain(&partition["repaired_max"]));
            format!("{:<49}  {last:<8}  {mean:<8}  {max}", index(partition))
        },
    );
    format!("{exchanges}\n{trees}\n{repaired}").trim_end().to_owned()
}

/// Formats a time in the largest unit of which it has at least one.
fn ago(secs: &Value) -> String {
    let Some(secs) = secs.as_f64() else { return "--".to_owned() };
    for (unit, size_secs) in [("d", 86_400.0), ("hr", 3_600.0), ("min", 60.0)] {
        if secs >= size_secs {
            return format!("{:.1} {unit}", secs / size_secs);
        }
    }
    format!("{secs:.1} s")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn three_tables_have_a_row_for_each_partition() {
        let document = json!({"partitions": [{
            "id": 1, "index": "1427247692705959881058285969449495136382746624",
            "last_ago_secs": 12.3, "all_ago_secs": 5_400.0, "built_ago_secs": 200_000.0,
            "repaired_last": 0, "repaired_mean": 1.5, "repaired_max": 12,
        }, {
            "id": 0, "index": "0",
            "last_ago_secs": null, "all_ago_secs": null, "built_ago_secs": 5.0,
            "repaired_last": 0, "repaired_mean": 0.0, "repaired_max": 0,
        }]});
        let page = page(&document);
        let lines: Vec<&str> = page.lines().collect();
        assert!(lines[0].contains("= Exchanges ="));
        assert_eq!(
            lines[3],
            "1427247692705959881058285969449495136382746624     12.3 s        1.5 hr"
        );
        assert_eq!(lines[4], format!("{:<49}  {:<12}  --", "0", "--"));
        assert!(lines[6].contains("= Entropy Trees =") && lines[9].ends_with("  2.3 d"));
        assert!(lines[12].contains("= Keys Repaired ="));
        assert_eq!(lines[15].split_whitespace().collect::<Vec<_>>()[1..], ["0", "2", "12"]);
    }
}
