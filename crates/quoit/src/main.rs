//! The `quoit` binary: a node, its administration, and the load generator.

mod admin;
mod bench;
mod campaign_servers;
mod certificates;
mod config_command;
mod descriptors;
mod dev_cluster;
mod diagnosis;
mod engines;
mod from_riak;
mod listeners;
mod local_socket;
mod logs;
mod open;
mod output;
mod pages;
mod readiness;
mod ready_file;
mod reload;
mod repl;
mod reserve;
mod riak_answers;
mod serve;
mod stop;

use clap::{Args, CommandFactory, Parser, Subcommand};
use quoit::config::{self, Sources};
use quoit_cli::target::TargetArgs;
use quoit_cli::{changes, data, requests, status};
use quoit_import::ImportCommand;
use quoit_import::facade::{self, Translated};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Configuration file of the packages.
const PACKAGED_FILE: &str = "/etc/quoit/quoit.conf";

/// A Dynamo-class distributed key-value store that speaks Riak KV's client protocols.
#[derive(Parser, Debug)]
#[command(name = "quoit", version = pages::version(), arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Start a node.
    ///
    /// Without options it listens on 127.0.0.1 (Protocol Buffers 8087, HTTP 8098, other nodes
    /// 8099) and keeps its data in ./data.
    Serve(Box<serve::ServeArgs>),
    /// Start several joined nodes on this machine, to try a cluster out.
    DevCluster(dev_cluster::DevClusterArgs),
    Status(status::StatusArgs),
    Stat(admin::StatArgs),
    Get(data::GetArgs),
    Put(data::PutArgs),
    Del(data::DelArgs),
    Keys(data::KeysArgs),
    Buckets(data::BucketsArgs),
    Index(data::IndexArgs),
    Changes(changes::ChangesArgs),
    #[command(subcommand)]
    Counter(data::CounterCommand),
    #[command(subcommand)]
    Set(data::SetCommand),
    #[command(subcommand)]
    Gset(data::GsetCommand),
    #[command(subcommand)]
    Map(data::MapCommand),
    #[command(subcommand)]
    Hll(data::HllCommand),
    SlowLog(requests::SlowLogArgs),
    HotKeys(requests::HotKeysArgs),
    /// Administrate a running node.
    Admin(admin::AdminArgs),
    /// Replicate between clusters: queues, sinks, full-sync.
    Repl(repl::ReplArgs),
    /// Run basho_bench configurations against a server.
    Bench(Box<bench::BenchArgs>),
    /// Move data from Riak KV into Quoit: look at it, write it, copy types, compare.
    #[command(subcommand)]
    Import(ImportCommand),
    /// Answer a command of riak-admin in Riak's words; as the link riak-admin does.
    #[command(name = "riak-admin", disable_help_flag = true)]
    RiakAdmin(RiakWords),
    /// Answer a command of riak in Riak's words; as the link riak does.
    #[command(disable_help_flag = true)]
    Riak(RiakWords),
    /// Show and check configuration without starting a node.
    #[command(subcommand)]
    Config(config_command::ConfigCommand),
    Doctor(diagnosis::DoctorArgs),
    #[command(subcommand)]
    Debug(diagnosis::DebugCommand),
    Completions(pages::CompletionsArgs),
    Man(pages::ManArgs),
}

/// A line of Riak's commands for operators.
#[derive(Args, Debug)]
struct RiakWords {
    /// The words of the command.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// The command line; called by the name of one of Riak's programs, it is that program's.
fn command_line() -> Cli {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let called =
        words.first().map(|name| Path::new(name).file_name().unwrap_or_default().to_owned());
    if let Some(called) = called.filter(|name| name == "riak-admin" || name == "riak") {
        words.insert(1, called);
    }
    let is_bench = words.get(1).is_some_and(|word| word == "bench");
    Cli::try_parse_from(words).unwrap_or_else(|fault| match is_bench && fault.use_stderr() {
        // There 2 is the end of a run whose worker has crashed.
        true => {
            // Nobody can be told that the error output is closed.
            let _ = fault.print();
            std::process::exit(1)
        }
        false => fault.exit(),
    })
}

/// Answers a line of Riak's commands: by the line of quoit that it is, or in words.
#[expect(clippy::print_stderr, reason = "the edge where errors are shown to a person")]
fn riak(translated: Translated) -> ExitCode {
    match translated {
        Translated::Run(words) if is_for_scripts(&words) => run_line(words, &say_fault),
        Translated::Run(words) => run_line(words, &print_fault),
        Translated::Ping { line, node } => run_line(line, &|fault: &anyhow::Error| {
            let node = node.clone().unwrap_or_else(asked_by_default);
            output::say!("Node '{node}' not responding to pings.");
            print_fault(fault);
        }),
        Translated::CheckConfig => told(check_config()),
        Translated::Say { text, is_success: true } => {
            output::say!("{text}");
            ExitCode::SUCCESS
        }
        Translated::Say { text, is_success: false } => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
        Translated::Test(url) => told(facade::test_cycle(&url)),
        Translated::Ask(question, words) => told(riak_answers::answer(question, &words)),
    }
}

/// Whether scripts look on the standard output for what a node refuses: it is asked, and not for JSON.
fn is_for_scripts(words: &[String]) -> bool {
    let is_of_node = words.first().is_some_and(|first| first == "admin" || first == "repl");
    let is_json = words.iter().any(|word| word == "--format=json")
        || words.windows(2).any(|pair| pair[0] == "--format" && pair[1] == "json");
    is_of_node && !is_json
}

/// Runs a line of quoit's; a failure is shown by `show`.
fn run_line(words: Vec<String>, show: &dyn Fn(&anyhow::Error)) -> ExitCode {
    match Cli::try_parse_from(std::iter::once("quoit".to_owned()).chain(words)) {
        Ok(cli) => run(cli.command, show),
        Err(fault) => {
            // Help and version are no faults.
            let _ = fault.print();
            ExitCode::from(u8::from(fault.use_stderr()))
        }
    }
}

/// The place of the node that is asked when a line names none.
fn asked_by_default() -> String {
    if let Some(url) = std::env::var("QUOIT_URL").ok().filter(|url| !url.is_empty()) {
        return url;
    }
    let targets = TargetArgs::default().targets();
    targets.first().map_or_else(String::new, ToString::to_string)
}

/// Reads the configuration of the packages if it is there, and the environment, as a node would.
fn check_config() -> anyhow::Result<String> {
    let file = Some(PathBuf::from(PACKAGED_FILE)).filter(|file| file.is_file());
    let environment = Sources::process_environment();
    let settings = config::load(&Sources { file, environment, ..Sources::default() })?;
    settings.check_security()?;
    Ok("config is OK".to_owned())
}

/// Prints an answer, or why there is none: scripts look for both on the standard output.
fn told(answer: anyhow::Result<String>) -> ExitCode {
    match answer {
        Ok(text) => {
            output::say!("{}", text.trim_end());
            ExitCode::SUCCESS
        }
        Err(fault) => {
            say_fault(&fault);
            ExitCode::FAILURE
        }
    }
}

/// Prints a failure in Riak's way.
fn say_fault(fault: &anyhow::Error) {
    output::say!("{fault:#}");
}

/// Prints a failure in quoit's own way.
#[expect(clippy::print_stderr, reason = "the edge where errors are shown to a person")]
fn print_fault(fault: &anyhow::Error) {
    eprintln!("quoit: {fault:#}");
}

fn main() -> ExitCode {
    quoit_heap::keep_little();
    run(command_line().command, &print_fault)
}

/// Carries out a command; a failure is shown by `show`.
#[expect(clippy::print_stderr, reason = "the edge where errors are shown to a person")]
fn run(command: Command, show: &dyn Fn(&anyhow::Error)) -> ExitCode {
    let result = match command {
        Command::Serve(args) => serve::run(&args),
        Command::DevCluster(args) => dev_cluster::run(&args),
        Command::Status(args) => status::status(&args),
        Command::Stat(args) => admin::statistics(&args),
        Command::Get(args) => data::get(&args),
        Command::Put(args) => data::put(&args),
        Command::Del(args) => data::del(&args),
        Command::Keys(args) => data::keys(&args),
        Command::Buckets(args) => data::buckets(&args),
        Command::Index(args) => data::index(&args),
        Command::Changes(args) => changes::changes(&args),
        Command::Counter(command) => data::counter(&command),
        Command::Set(command) => data::set(&command),
        Command::Gset(command) => data::gset(&command),
        Command::Map(command) => data::map(&command),
        Command::Hll(command) => data::hll(&command),
        Command::SlowLog(args) => requests::slow_log(&args),
        Command::HotKeys(args) => requests::hot_keys(&args),
        Command::Admin(args) => admin::run(&args),
        Command::Repl(args) => repl::run(&args),
        Command::Bench(args) => return bench::command(&args),
        Command::Config(command) => config_command::run(&command),
        Command::Import(command) => quoit_import::run(&command),
        Command::RiakAdmin(line) => return riak(facade::riak_admin(&line.words)),
        Command::Riak(line) => return riak(facade::riak(&line.words)),
        Command::Doctor(args) => diagnosis::doctor(&args),
        Command::Debug(command) => diagnosis::debug(&command),
        Command::Completions(args) => pages::completions(&args, Cli::command()),
        Command::Man(args) => pages::man(&args, Cli::command()),
    };
    match result {
        Ok(()) if output::is_lost() => {
            eprintln!("quoit: standard output can't be written; is its disk full?");
            ExitCode::FAILURE
        }
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            show(&fault);
            ExitCode::FAILURE
        }
    }
}
