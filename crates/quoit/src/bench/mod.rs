//! `quoit bench`: the load generator.

mod agent;
mod campaign;
mod capacity;
mod compare;
mod growth;
mod line;
mod report;

use agent::{AgentArgs, AgentSecurityArgs};
use campaign::CampaignArgs;
use capacity::CapacityArgs;
use clap::{Args, Subcommand, ValueEnum};
use compare::CompareArgs;
use growth::GrowthArgs;
use line::LineArgs;
use quoit_bench::capacity::capacity;
use quoit_bench::cli::{BenchOptions, check, convert, run};
use quoit_bench::compare::compare_command;
use quoit_bench::config::is_url;
use quoit_bench::growth_command::crdt_growth;
use quoit_bench::report::report;
use report::ReportArgs;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs configurations of basho_bench, or of Quoit's own TOML format, and prints the results.
///
/// Without a file, a URL and a few options describe a load:
///
/// quoit bench pb://127.0.0.1:8087 --get 80 --put 20 --workers 50 --rate 5k -t 30s
///
/// Exit code 0 if the run ended as planned, 1 if it could not start or an error stopped it, 2 if crashed
/// workers stopped it. Write a file that has the name of a subcommand as `./check`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Subcommand, Debug)]
enum BenchCommand {
    /// Describe the run of a configuration without starting it; exit code 1 if it can't be run.
    Check(PlanArgs),
    /// Convert a basho_bench configuration to TOML.
    Convert {
        /// The configuration, a file of Erlang terms.
        #[arg(value_name = "FILE")]
        input: PathBuf,
        /// File to write, which must not exist yet [default: the standard output].
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Compare runs: ratios with confidence intervals, and a verdict in words.
    ///
    /// The first side is the baseline. A side is the directory of a run (basho_bench's own directories
    /// work, too), or a directory that contains several. With --repeat the sides are configurations, which
    /// are run in turn first:
    ///
    /// quoit bench compare old.config new.config --repeat 5 --duration 30s -d results
    ///
    /// Exit code 0 if no side is slower than the baseline, 4 if a side is or probably is slower, or more of
    /// its operations fail, and 1 if nothing could be compared.
    Compare(CompareArgs),
    /// Estimate the number of nodes for a load from measured clusters, by a scaling law and by the space
    /// for the data.
    ///
    /// quoit bench capacity 5=knee-5 8=knee-8 14=knee-14 --rate 50k --p99 5ms --data 2T --disk 1T
    ///
    /// fits the universal scalability law to the rates of three searches for the knee, reports how well
    /// each rate follows from the others, and gives the number of nodes for the required rate with an
    /// interval. It says where it extrapolates.
    Capacity(CapacityArgs),
    Campaign(CampaignArgs),
    Agent(AgentArgs),
    /// Draw the report of a run from its results directory; basho_bench's own directories work, too.
    Report(ReportArgs),
    /// Measure the cost of a set or a map while it grows item by item.
    ///
    /// One client with one connection fills a new bucket. For each item 1, 2, 3... and each container, it
    /// reads the record as a plain object, reads it as a data type, adds the item's number to the set (of a
    /// map: to its set field `set`), and reads it as a data type twice. Every read is checked.
    ///
    /// The standard output gets a line for each item, with times in seconds:
    ///
    /// items, id, size, kv_read_elapsed, read_prewrite_elapsed, write_elapsed, read_postwrite_elapsed,
    /// read_postwrite_elapsed2
    ///
    /// where id is the container and size is the size of the plain object before the write in bytes. The
    /// same table is in the results directory as crdt-growth.csv, with a chart and a page;
    /// `quoit bench report DIR` draws them again.
    ///
    /// The server needs the bucket type first, here for sets (for maps: maps, and map for set):
    ///
    /// quoit admin bucket-type create sets '{"props":{"datatype":"set"}}'
    ///
    /// quoit admin bucket-type activate sets
    CrdtGrowth(GrowthArgs),
}

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AnswerFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// The plan of a run: its configuration and the options that change it.
#[derive(Args, Debug)]
struct PlanArgs {
    /// Configuration files (if two set the same key, the later file wins), or servers as URLs: pb, http,
    /// https, redis or memcached, host, port, and as the path BUCKET or TYPE/BUCKET.
    #[arg(required = true, value_name = "CONFIG|URL")]
    sources: Vec<String>,
    /// Override the duration: 500ms, 60s, 2m, 1.5h, infinity, or a number of minutes [default of a URL:
    /// 30s].
    #[arg(short = 't', long)]
    duration: Option<String>,
    /// Override the server; may be repeated. The drivers nhs and 2i have several lists of servers and take
    /// pb=HOST:PORT, http=HOST:PORT and, nhs only, replpb=HOST:PORT.
    #[arg(long = "target", value_name = "[LIST=]HOST:PORT")]
    targets: Vec<String>,
    /// Condition that the run has to meet, such as "p99 < 5ms", "get p99.9 < 20ms", "errors < 0.1%", "rate >
    /// 5k" or "stall < 500ms"; may be repeated. A run that misses one exits with code 4.
    #[arg(long = "expect", value_name = "CONDITION")]
    expectations: Vec<String>,
    /// Stop the run as soon as its first part, of at least ten seconds, misses a condition.
    #[arg(long)]
    abort_early: bool,
    /// HTTP listener of a server whose processor time, memory, disk and queues are read every second and
    /// drawn beside the latencies; may be repeated.
    #[arg(long = "watch", value_name = "HOST:PORT")]
    watched: Vec<String>,
    #[command(flatten)]
    line: LineArgs,
}

/// A run and the destination of its results.
#[derive(Args, Debug)]
struct RunArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Directory in which each run gets a directory of its own [default: ./tests].
    #[arg(short = 'd', long, value_name = "DIR")]
    results_dir: Option<PathBuf>,
    /// Name of the run's directory [default: the local time].
    #[arg(short = 'n', long = "bench-name", value_name = "NAME")]
    name: Option<String>,
    /// Format of the standard output: text for people, or JSON with one line for each row and the summary
    /// as the last line. With JSON, everything else goes to the standard error.
    #[arg(long, value_enum, default_value_t = AnswerFormat::Text)]
    format: AnswerFormat,
    /// Agents that run the workers, each a share of them (see quoit bench agent); the default port is 8077.
    #[arg(long, value_name = "HOST[:PORT],...", value_delimiter = ',')]
    agents: Vec<String>,
    #[command(flatten)]
    agent_security: AgentSecurityArgs,
    /// Show the run on the full screen: rates, latencies by second, failures, watched servers. q ends the
    /// run like Ctrl-C; its results are kept.
    #[arg(long, conflicts_with = "format")]
    view: bool,
    /// File in OpenMetrics format, which each row of the run replaces.
    #[arg(long, value_name = "FILE")]
    openmetrics: Option<PathBuf>,
    /// Accepted for compatibility with basho_bench: there are no Erlang nodes here.
    #[arg(short = 'N', long, value_name = "NAME", hide = true)]
    node: Option<String>,
    /// Like --node.
    #[arg(short = 'C', long, value_name = "COOKIE", hide = true)]
    cookie: Option<String>,
    /// Like --node.
    #[arg(short = 'J', long, value_name = "NODE", hide = true)]
    join: Option<String>,
}

impl RunArgs {
    fn options(&self) -> BenchOptions {
        let names = [("--node", &self.node), ("--cookie", &self.cookie), ("--join", &self.join)];
        let given = names.into_iter().filter(|(_, value)| value.is_some());
        BenchOptions {
            results_dir: self.results_dir.clone(),
            name: self.name.clone(),
            asks_servers: true,
            agents: self.agents.clone(),
            agent_security: self.agent_security.security(),
            is_json: self.format == AnswerFormat::Json,
            has_view: self.view,
            metrics_file: self.openmetrics.clone(),
            ignored_options: given.map(|(name, _)| name).collect(),
            ..self.plan.options()
        }
    }
}

/// Runs the command.
pub(crate) fn command(args: &BenchArgs) -> ExitCode {
    let status = match &args.command {
        Some(BenchCommand::Compare(args)) => {
            return ExitCode::from(compare_command(&args.options()));
        }
        None => run(&args.run.options()),
        Some(BenchCommand::Check(plan)) => check(&plan.options()),
        Some(BenchCommand::Convert { input, output }) => convert(input, output.as_deref()),
        Some(BenchCommand::Capacity(args)) => capacity(&args.options()),
        Some(BenchCommand::Campaign(args)) => args.run(),
        Some(BenchCommand::Agent(args)) => return args.run(),
        Some(BenchCommand::Report(args)) => report(&args.options()),
        Some(BenchCommand::CrdtGrowth(args)) => crdt_growth(&args.options()),
    };
    ExitCode::from(status.code())
}

impl PlanArgs {
    fn options(&self) -> BenchOptions {
        let (urls, files): (Vec<_>, Vec<_>) =
            self.sources.iter().cloned().partition(|source| is_url(source));
        BenchOptions {
            config_paths: files.into_iter().map(PathBuf::from).collect(),
            urls,
            line: self.line.options(),
            duration: self.duration.clone(),
            targets: self.targets.clone(),
            expectations: self.expectations.clone(),
            aborts_early: self.abort_early,
            watched: self.watched.clone(),
            ..BenchOptions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use quoit_bench::config::LoadOptions;
    use quoit_bench::growth::GrowthKind;
    use quoit_bench::report::ChartOptions;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn parse(line: &str) -> Result<BenchArgs, clap::Error> {
        Cli::try_parse_from(line.split(' ')).map(|cli| cli.bench)
    }

    #[test]
    fn files_without_a_command_are_run() {
        let args = parse("bench -n x a.config ./check --duration 5s -d out").expect("a run");
        assert!(args.command.is_none());
        assert_eq!(args.run.plan.sources, ["a.config", "./check"]);
        assert_eq!(args.run.name.as_deref(), Some("x"));
        let old = parse("bench -N bb@127.0.0.1 -C secret a.config").expect("basho_bench's options");
        assert_eq!(old.run.options().ignored_options, ["--node", "--cookie"]);
    }

    #[test]
    fn a_url_is_run_as_a_load_of_its_own() {
        let line = "bench pb://h:1/b --get 80 --put 20 --workers 50 --rate 5k --keys 2M -t 30s";
        let options = parse(line).expect("a run").run.options();
        assert_eq!((options.urls, options.config_paths), (vec!["pb://h:1/b".to_owned()], vec![]));
        let expected = LoadOptions {
            get: Some(80),
            put: Some(20),
            workers: Some(50),
            rate_per_s: Some(5e3),
            keys: Some(2_000_000),
            ..LoadOptions::default()
        };
        assert_eq!((options.line, options.duration.as_deref()), (expected, Some("30s")));
        for wrong in ["--rate 0", "--rate x", "--keys 1.5", "--value-size -1", "--rate nan"] {
            parse(&format!("bench pb://h {wrong}")).expect_err(wrong);
        }
    }

    #[test]
    fn a_command_stands_beside_a_run() {
        let args = parse("bench check a.config b.config --target h:1").expect("a check");
        let Some(BenchCommand::Check(plan)) = args.command else { panic!("{args:?}") };
        assert_eq!(plan.sources.len(), 2);
        assert_eq!(plan.targets, ["h:1"]);
        for line in ["bench", "bench check"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn conditions_and_the_form_of_the_output_reach_the_run() {
        let mut words: Vec<&str> =
            "bench a.config --abort-early --format json --openmetrics m.txt".split(' ').collect();
        words.extend(["--expect", "p99 < 5ms", "--expect", "errors < 1%"]);
        let args = Cli::try_parse_from(words).expect("a run").bench.run.options();
        assert_eq!(args.expectations, ["p99 < 5ms", "errors < 1%"]);
        assert!(args.aborts_early && args.is_json);
        assert_eq!(args.metrics_file.as_deref(), Some("m.txt".as_ref()));
        let plain = parse("bench a.config").expect("a run").run.options();
        assert!(!plain.aborts_early && !plain.is_json && plain.expectations.is_empty());
    }

    #[test]
    fn growth_is_of_maps_or_sets_and_as_published_by_default() {
        let args = parse("bench crdt-growth --type maps --items 5 --containers 2 -n x");
        let Some(BenchCommand::CrdtGrowth(args)) = args.expect("an experiment").command else {
            panic!("another command")
        };
        let options = args.options();
        assert_eq!(options.kind, GrowthKind::Maps);
        assert_eq!((options.item_count, options.container_count), (5, 2));
        let args = parse("bench crdt-growth --type sets").expect("an experiment").command;
        let Some(BenchCommand::CrdtGrowth(args)) = args else { panic!("another command") };
        assert_eq!((args.items, args.containers), (15_000, 1));
        assert_eq!(args.target, "127.0.0.1:8087");
        assert!(parse("bench crdt-growth --type counters").is_err());
        assert!(parse("bench crdt-growth").is_err(), "what grows has to be said");
    }

    #[test]
    fn a_report_takes_the_options_of_summary_r() {
        let line = "bench report d -o a.svg -x 800 -y 600 -1 5 -2 10.5 -Y KB/sec -t Load";
        let args = parse(line).expect("a report");
        let Some(BenchCommand::Report(args)) = args.command else { panic!("{args:?}") };
        let options = args.options();
        assert_eq!(options.directory, PathBuf::from("d"));
        assert_eq!(options.outputs, [PathBuf::from("a.svg")]);
        assert_eq!((options.start_s, options.end_s), (Some(5.0), Some(10.5)));
        assert_eq!((options.chart.width, options.chart.height), (800, 600));
        assert_eq!(options.chart.y_label, "KB/sec");
        assert_eq!(options.chart.title, "Load");
        let plain = parse("bench report d").expect("a report");
        let Some(BenchCommand::Report(args)) = plain.command else { panic!("{plain:?}") };
        assert_eq!(args.options().chart, ChartOptions::default());
    }
}
