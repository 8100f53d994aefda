//! The arguments of `quoit bench campaign`.

use crate::campaign_servers::LocalServers;
use clap::{Args, Subcommand};
use quoit_bench::campaign::{
    CampaignOptions, CampaignScale, campaign, list_campaigns, show_campaign,
};
use quoit_bench::cli::ExitStatus;
use std::path::PathBuf;

/// Run an experiment in all its variants, each with servers of its own, and write one report.
///
/// The published experiments with Riak come with the program; `quoit bench campaign list` names them:
///
/// quoit bench campaign ec2-http --scale 0.01
///
/// For each cell of its matrix a campaign starts nodes of this program on free ports of this machine, loads
/// and warms them, runs what is measured, kills or adds nodes meanwhile if it says so, and stops them. The
/// same command again goes on behind what is done, also after a kill. The directory has the report of each
/// cell, and campaign.html, summary.csv and summary.json with the published figures beside ours.
///
/// The exit code is 0 when all cells are done, and 1 when one is left.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct CampaignArgs {
    #[command(subcommand)]
    command: Option<CampaignCommand>,
    /// Campaign that comes with the program, or a file; one that is called like a command is written ./list.
    #[arg(required = true, value_name = "NAME|FILE")]
    campaign: Option<String>,
    /// Directory of the campaign: the same one again goes on behind what is done [default: campaigns/NAME,
    /// with
    /// -SCALE behind it at another scale than 1].
    #[arg(short = 'd', long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Factor, above 0 and at most 1, of durations and warm-ups of all loads (a load is 2 s at least),
    /// times of events, and the numbers that the campaign marks with {scaled, N}: keys, records, items,
    /// steady rates and the room for them. Nodes, workers, sizes of values and mixes stay as they are.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = scale)]
    scale: String,
    /// Run only cells whose labels have this in them, or match it where it has a * for any text; may be
    /// repeated.
    #[arg(long = "cell", value_name = "PATTERN")]
    cells: Vec<String>,
    /// Print the cells, and run none.
    #[arg(long)]
    plan: bool,
    /// Run cells for which the machine has too little room on its disk or in its memory, too.
    #[arg(long)]
    force: bool,
    /// Keep the servers' data and logs, in data/CELL of the directory.
    #[arg(long)]
    keep_data: bool,
}

#[derive(Subcommand, Debug)]
enum CampaignCommand {
    /// Print the campaigns that come with the program.
    List,
    /// Print the file of a campaign that comes with the program, to run it changed.
    Show {
        /// Its name.
        name: String,
    },
}

fn scale(text: &str) -> Result<String, String> {
    CampaignScale::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

impl CampaignArgs {
    /// Runs the command.
    pub(crate) fn run(&self) -> ExitStatus {
        match &self.command {
            Some(CampaignCommand::List) => list_campaigns(),
            Some(CampaignCommand::Show { name }) => show_campaign(name),
            None => campaign(&self.options(), &LocalServers),
        }
    }

    fn options(&self) -> CampaignOptions {
        CampaignOptions {
            campaign: self.campaign.clone().unwrap_or_default(),
            directory: self.directory.clone(),
            scale: Some(self.scale.clone()),
            cells: self.cells.clone(),
            forces: self.force,
            keeps_data: self.keep_data,
            only_plans: self.plan,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        campaign: CampaignArgs,
    }

    fn parse(line: &str) -> Result<CampaignArgs, clap::Error> {
        Cli::try_parse_from(line.split(' ')).map(|cli| cli.campaign)
    }

    #[test]
    fn a_campaign_is_whole_unless_it_is_scaled() {
        let options = parse("campaign ec2-http").expect("a campaign").options();
        let whole = CampaignOptions {
            campaign: "ec2-http".to_owned(),
            scale: Some("1".to_owned()),
            ..CampaignOptions::default()
        };
        assert_eq!(options, whole);
        let line = "campaign f --scale 0.01 -d x --cell a --cell b* --force --keep-data --plan";
        let options = parse(line).expect("a campaign").options();
        assert_eq!((options.scale.as_deref(), options.cells.len()), (Some("0.01"), 2));
        assert!(options.forces && options.keeps_data && options.only_plans);
        for wrong in ["campaign", "campaign f --scale 0", "campaign f --scale 2", "campaign show"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn questions_stand_beside_campaigns() {
        let list = parse("campaign list").expect("a question");
        assert!(matches!(list.command, Some(CampaignCommand::List)));
        let show = parse("campaign show ec2-http").expect("a question");
        assert!(matches!(show.command, Some(CampaignCommand::Show { name }) if name == "ec2-http"));
    }
}
