//! The `quoit` binary: a node, its administration, and the load generator.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

mod bench;
mod pages;

use clap::{Args, CommandFactory, Parser, Subcommand};
use quoit_cli::target::TargetArgs;
use quoit_cli::{changes, data, output, requests, say, status};
use quoit_config::Sources;
use quoit_import::ImportCommand;
use quoit_import::facade::{self, Translation};
use quoit_operator::{admin, config_command, diagnosis, repl, riak_answers};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Configuration file of the installed packages.
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
    /// Without options it listens on 127.0.0.1 (Protocol Buffers 8087, HTTP 8098, other nodes 8099) and
    /// stores its data in ./data.
    Serve(Box<quoit_serve::ServeArgs>),
    /// Start several joined nodes on this machine, to try out a cluster.
    DevCluster(quoit_dev_cluster::DevClusterArgs),
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
    /// Administer a running node.
    Admin(admin::AdminArgs),
    /// Replicate between clusters: queues, sinks, full-sync.
    Repl(repl::ReplArgs),
    /// Run load tests, such as basho_bench configurations, against a server.
    Bench(Box<bench::BenchArgs>),
    /// Move data from Riak KV to Quoit: inspect, import, copy bucket types, compare.
    #[command(subcommand)]
    Import(ImportCommand),
    /// Run a riak-admin command and answer in Riak's format; a link named riak-admin does the same.
    #[command(name = "riak-admin", disable_help_flag = true)]
    RiakAdmin(RiakWords),
    /// Run a riak command and answer in Riak's format; a link named riak does the same.
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

/// A command line of Riak's operator tools.
#[derive(Args, Debug)]
struct RiakWords {
    /// The words of the command.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Parses the command line. If the program was called by the name of one of Riak's tools, that name selects
/// the subcommand.
fn command_line() -> Cli {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let called =
        words.first().map(|name| Path::new(name).file_name().unwrap_or_default().to_owned());
    if let Some(called) = called.filter(|name| name == "riak-admin" || name == "riak") {
        words.insert(1, called);
    }
    let is_bench = words.get(1).is_some_and(|word| word == "bench");
    Cli::try_parse_from(words).unwrap_or_else(|fault| match is_bench && fault.use_stderr() {
        // `quoit bench` uses 2 for a run that a crashed worker ended, so a usage error exits with 1.
        true => {
            // A closed error output can't be reported anywhere.
            let _ = fault.print();
            std::process::exit(1)
        }
        false => fault.exit(),
    })
}

/// Executes a command of Riak: either as the equivalent quoit command, or with a text.
#[expect(clippy::print_stderr, reason = "the edge where errors are shown to a person")]
fn riak(translated: Translation) -> ExitCode {
    match translated {
        Translation::Run(words) if is_for_scripts(&words) => run_line(words, &print_error),
        Translation::Run(words) => run_line(words, &print_fault),
        Translation::Ping { line, node } => run_line(line, &|fault: &anyhow::Error| {
            let node = node.clone().unwrap_or_else(default_node_address);
            say!("Node '{node}' not responding to pings.");
            print_fault(fault);
        }),
        Translation::CheckConfig => print_result(check_config()),
        Translation::Say { text, is_success: true } => {
            say!("{text}");
            ExitCode::SUCCESS
        }
        Translation::Say { text, is_success: false } => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
        Translation::Test(url) => print_result(facade::test_cycle(&url)),
        Translation::Ask(question, words) => print_result(riak_answers::answer(question, &words)),
    }
}

/// True if a failed command has to print its error on the standard output, where scripts for Riak look for
/// it: it asks a node, and not for JSON.
fn is_for_scripts(words: &[String]) -> bool {
    let is_of_node = words.first().is_some_and(|first| first == "admin" || first == "repl");
    let is_json = words.iter().any(|word| word == "--format=json")
        || words.windows(2).any(|pair| *pair == ["--format", "json"]);
    is_of_node && !is_json
}

/// Runs a quoit command line, and passes a failure to `show`.
fn run_line(words: Vec<String>, show: &dyn Fn(&anyhow::Error)) -> ExitCode {
    match Cli::try_parse_from(std::iter::once("quoit".to_owned()).chain(words)) {
        Ok(cli) => run(cli.command, show),
        Err(fault) => {
            // Help and version are not failures.
            let _ = fault.print();
            ExitCode::from(u8::from(fault.use_stderr()))
        }
    }
}

/// The address of the node that is asked by default.
fn default_node_address() -> String {
    if let Some(url) = std::env::var("QUOIT_URL").ok().filter(|url| !url.is_empty()) {
        return url;
    }
    let targets = TargetArgs::default().targets();
    targets.first().map_or_else(String::new, ToString::to_string)
}

/// Checks the configuration that a node would use: the file of the packages, if it exists, and the
/// environment.
fn check_config() -> anyhow::Result<String> {
    let file = Some(PathBuf::from(PACKAGED_FILE)).filter(|file| file.is_file());
    let environment = Sources::process_environment();
    let settings = quoit_config::load(&Sources { file, environment, ..Sources::default() })?;
    settings.check_security()?;
    Ok("config is OK".to_owned())
}

/// Prints an answer or an error. Scripts for Riak expect both on the standard output.
fn print_result(answer: anyhow::Result<String>) -> ExitCode {
    match answer {
        Ok(text) => {
            say!("{}", text.trim_end());
            ExitCode::SUCCESS
        }
        Err(fault) => {
            print_error(&fault);
            ExitCode::FAILURE
        }
    }
}

/// Prints an error as Riak's tools do.
fn print_error(fault: &anyhow::Error) {
    say!("{fault:#}");
}

/// Prints an error as quoit's commands do.
#[expect(clippy::print_stderr, reason = "the edge where errors are shown to a person")]
fn print_fault(fault: &anyhow::Error) {
    eprintln!("quoit: {fault:#}");
}

fn main() -> ExitCode {
    quoit_heap::tune_allocator();
    run(command_line().command, &print_fault)
}

/// Executes a command, and passes a failure to `show`.
#[expect(clippy::print_stderr, reason = "the edge where errors are shown to a person")]
fn run(command: Command, show: &dyn Fn(&anyhow::Error)) -> ExitCode {
    let result = match command {
        Command::Serve(args) => quoit_serve::run(&args),
        Command::DevCluster(args) => quoit_dev_cluster::run(&args),
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
        Command::Debug(command) => diagnosis::debug(&command, pages::version()),
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
