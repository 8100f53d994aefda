//! The campaigns that come with the program: published experiments with Riak, and comparisons of engines.

use super::error::CampaignError;
use super::file::Campaign;
use crate::names::nearest;
use std::path::Path;

/// Extension of campaign files.
const ENDING: &str = ".campaign";

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../campaigns/", $name, ".campaign")))),*]
    };
}

/// Names and texts of the campaigns.
const SHIPPED: [(&str, &str); 11] = shipped![
    "ec2-http",
    "five-nodes",
    "beyond-memory",
    "eight-to-fourteen-nodes",
    "growth-and-failure",
    "volume",
    "replication",
    "crdt-growth",
    "engines-skewed",
    "engines-rewritten",
    "engines-compression",
];

/// Names of the campaigns that come with the program.
pub fn shipped_names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// The text of a campaign that comes with the program.
///
/// # Errors
///
/// When no campaign has that name.
pub fn shipped_text(name: &str) -> Result<&'static str, CampaignError> {
    let found = SHIPPED.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text).ok_or_else(|| unknown(name))
}

impl Campaign {
    /// The campaign with a name, or in a file. A file whose name is that of a campaign is given as
    /// `./NAME`.
    ///
    /// # Errors
    ///
    /// When there is neither such a campaign nor such a file, or the file is not a campaign.
    pub fn find(name: &str) -> Result<Self, CampaignError> {
        if let Ok(text) = shipped_text(name) {
            return Self::parse(format!("{name}{ENDING}").as_ref(), text.as_bytes());
        }
        let path = Path::new(name);
        match std::fs::read(path) {
            Ok(text) => Self::parse(path, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(unknown(name)),
            Err(error) => Err(CampaignError::io(path, "reading")(error)),
        }
    }
}

fn unknown(name: &str) -> CampaignError {
    let known: Vec<&'static str> = shipped_names().collect();
    let hint =
        nearest(name, &known).map_or_else(String::new, |near| format!(": did you mean `{near}`?"));
    CampaignError::Unknown { name: name.to_owned(), hint }
}
