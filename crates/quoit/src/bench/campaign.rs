//! The arguments of `quoit bench campaign`.

use clap::{Args, Subcommand};
use quoit_bench::campaign::{
    CampaignOptions, CampaignScale, campaign, list_campaigns, show_campaign,
};
use quoit_bench::cli::ExitStatus;
use quoit_dev_cluster::LocalServers;
use std::path::PathBuf;

/// Run an experiment in all its variants, each with servers of its own, and write one report.
///
/// The program includes the published experiments with Riak; `quoit bench campaign list` names them:
///
/// quoit bench campaign ec2-http --scale 0.01
///
/// For each cell of its matrix, a campaign starts nodes of this program on free ports of this machine,
/// loads and warms them up, runs the measured load, kills or adds nodes meanwhile if the campaign says so,
/// and stops them. The same command continues after the completed cells, also after a kill. The directory
/// has the report of each cell, and campaign.html, summary.csv and summary.json with the published figures
/// beside the measured ones.
///
/// Exit code 0 if all cells are done, 1 if any is left.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct CampaignArgs {
    #[command(subcommand)]
    command: Option<CampaignCommand>,
    /// Included campaign, or a file; write a file with the name of a subcommand as ./list.
    #[arg(required = true, value_name = "NAME|FILE")]
    campaign: Option<String>,
    /// Directory of the campaign; an existing one is continued [default: campaigns/NAME, with the suffix
    /// -SCALE at a scale other than 1].
    #[arg(short = 'd', long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Factor, above 0 and at most 1, for durations and warm-ups of all loads (a load takes at least 2 s),
    /// times of events, and the numbers that the campaign marks with {scaled, N}: keys, records, items,
    /// steady rates and the space for them. Nodes, workers, sizes of values and mixes stay the same.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = scale)]
    scale: String,
    /// Run only cells whose labels contain this text, or match it if it contains * for any text; may be
    /// repeated.
    #[arg(long = "cell", value_name = "PATTERN")]
    cells: Vec<String>,
    /// Print the cells and run none.
    #[arg(long)]
    plan: bool,
    /// Also run cells for which the machine has too little disk space or memory.
    #[arg(long)]
    force: bool,
    /// Keep the servers' data and logs in data/CELL of the directory.
    #[arg(long)]
    keep_data: bool,
}

#[derive(Subcommand, Debug)]
enum CampaignCommand {
    /// List the included campaigns.
    List,
    /// Print the file of an included campaign, as a base for changes.
    Show {
        /// Name of the campaign.
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
