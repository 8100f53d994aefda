//! `data-type`: large sets and maps, part by part.

use super::{Api, plain, print, segment};
use anyhow::{Result, bail};
use clap::Args;
use quoit_cli::names::RecordName;
use quoit_cli::{Format, say, value_at};
use serde_json::{Value, json};

/// Prints the number of elements or fields, unless an option asks for something else.
#[derive(Args, Debug)]
pub(crate) struct DataTypeArgs {
    /// TYPE/BUCKET/KEY; %2F is a slash inside a name.
    name: RecordName,
    /// Query the set or map in this field of the map, for example tags_set. Repeat the option for nested
    /// maps, from the outermost field to the innermost.
    #[arg(long = "in", value_name = "NAME_TYPE")]
    path: Vec<String>,
    /// Print whether this element is in the set.
    #[arg(long, value_name = "ELEMENT", conflicts_with_all = ["field", "list"])]
    contains: Option<String>,
    /// Print this field of the map, for example visits_counter.
    #[arg(long, value_name = "NAME_TYPE", conflicts_with = "list")]
    field: Option<String>,
    /// Print all elements or fields, one on each line, in the server's order.
    #[arg(long)]
    list: bool,
    /// Number of elements or fields to request at a time.
    #[arg(long, default_value_t = 1_000, value_name = "N", requires = "list")]
    page_size: u32,
}

impl DataTypeArgs {
    fn read(&self, api: &Api, query: &str) -> Result<Value> {
        let Self { name, path: fields, .. } = self;
        let mut path = format!("{}?{query}", name.data_type_path());
        for field in fields {
            path.push_str("&in=");
            path.push_str(&segment(field));
        }
        match api.get_data(&path)? {
            Some(document) => Ok(document),
            None if !fields.is_empty() => bail!("there is no {} in {name}", fields.join("/")),
            None => bail!("there is no {name}"),
        }
    }
}

/// Executes a query of a data type.
pub(crate) fn data_type(api: &Api, args: &DataTypeArgs, format: Format) -> Result<()> {
    if args.list {
        return list(api, args, format);
    }
    if let Some(element) = &args.contains {
        let answer = args.read(api, &format!("contains={}", segment(element)))?;
        print(&answer, format, |answer| match answer["contains"] == true {
            true => "yes".to_owned(),
            false => "no".to_owned(),
        });
        return Ok(());
    }
    if let Some(field) = &args.field {
        let answer = args.read(api, &format!("field={}", segment(field)))?;
        if value_at(&answer, "/value")[field].is_null() {
            bail!("{} has no field {field}", args.name);
        }
        print(&answer, format, |answer| plain(&value_at(answer, "/value")[field]));
        return Ok(());
    }
    let answer = args.read(api, "size=true")?;
    print(&answer, format, |answer| plain(&answer["size"]));
    Ok(())
}

/// Prints pages as they come; as JSON, also one element on each line.
fn list(api: &Api, args: &DataTypeArgs, format: Format) -> Result<()> {
    let mut cursor = String::new();
    loop {
        let answer = args.read(api, &format!("page_size={}{cursor}", args.page_size))?;
        match value_at(&answer, "/value") {
            Value::Array(elements) => elements.iter().for_each(|element| match format {
                Format::Json => say!("{element}"),
                Format::Human => say!("{}", plain(element)),
            }),
            Value::Object(fields) => fields.iter().for_each(|(name, value)| match format {
                Format::Json => say!("{}", json!({name: value})),
                Format::Human => say!("{name}: {}", plain(value)),
            }),
            _ => bail!("the node's answer has no elements: {answer}"),
        }
        match value_at(&answer, "/cursor").as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(()),
        }
    }
}
